#include "heap/usage.h"

#include "base/alloc.h"

#include <assert.h>

#define MOST_HOLD 32 /* times the least */

bool gy_usage_make_site(struct gy_usage *usage, uint32_t site)
{
    _Atomic(struct gy_site_sums *) *at = &usage->sites[site >> GY_SITE_SUMS_BITS];
    if (atomic_load_explicit(at, memory_order_acquire) != NULL) {
        return true;
    }
    struct gy_site_sums *made = gy_zalloc_array(GY_SITE_SUMS, sizeof(*made));
    struct gy_site_sums *none = NULL;
    if (made == NULL) {
        return false;
    }
    if (!atomic_compare_exchange_strong(at, &none, made)) {
        gy_free(made); /* another thread was faster */
    }
    return true;
}

void gy_usage_fini(struct gy_usage *usage)
{
    for (uint32_t i = 0; i < GY_SITE_SUMS_BLOCKS; i++) {
        gy_free(atomic_load_explicit(&usage->sites[i], memory_order_relaxed));
    }
}

void gy_usage_raise_peak(_Atomic(int64_t) *peak, int64_t used)
{
    int64_t before = atomic_load_explicit(peak, memory_order_relaxed);
    while (used > before && !atomic_compare_exchange_weak_explicit(peak, &before, used, memory_order_relaxed,
                                                                   memory_order_relaxed)) {
    }
}

static void add_bytes(_Atomic(int64_t) *sum, _Atomic(int64_t) *peak, int64_t bytes)
{
    int64_t now = atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed) + bytes;
    if (bytes > 0) {
        gy_usage_raise_peak(peak, now);
    }
}

static void add_to_site(struct gy_usage *usage, uint32_t site, int64_t bytes, int32_t count)
{
    struct gy_site_sums *sums = gy_usage_site(usage, site);
    assert(sums != NULL && "gy_usage_make_site() was called");
    add_bytes(&sums->bytes, &sums->peak, bytes);
    if (count != 0) {
        atomic_fetch_add_explicit(&sums->count, count, memory_order_relaxed);
    }
}

/* How often the shared sums are touched depends on who else does. */
static void adapt(struct gy_tally *tally, struct gy_usage *usage)
{
    int64_t most = tally->least_hold * MOST_HOLD;
    if (atomic_load_explicit(&usage->latest, memory_order_relaxed) == tally) {
        tally->hold = tally->hold / 2 > tally->least_hold ? tally->hold / 2 : tally->least_hold;
    } else {
        atomic_store_explicit(&usage->latest, tally, memory_order_relaxed);
        tally->hold = tally->hold < most / 2 ? tally->hold * 2 : most;
    }
}

void gy_tally_init(struct gy_tally *tally, int64_t hold)
{
    *tally = (struct gy_tally){.hold = hold, .least_hold = hold};
}

void gy_tally_pass(struct gy_tally *tally, struct gy_usage *usage, uint32_t site, int64_t bytes)
{
    adapt(tally, usage);
    add_to_site(usage, site, bytes, 0);
    add_bytes(&usage->used, &usage->peak, bytes);
}

void gy_usage_note(struct gy_usage *usage, uint32_t site, int64_t bytes, int count)
{
    if (count != 0) {
        atomic_fetch_add_explicit(count > 0 ? &usage->allocs : &usage->frees, 1, memory_order_relaxed);
    }
    add_to_site(usage, site, bytes, count);
    add_bytes(&usage->used, &usage->peak, bytes);
}

void gy_tally_settle(struct gy_tally *tally, struct gy_usage *usage)
{
    adapt(tally, usage);
    for (unsigned i = 0; i < GY_TALLY_SITES; i++) {
        int64_t bytes = atomic_load_explicit(&tally->sites[i].bytes, memory_order_relaxed);
        int32_t count = atomic_load_explicit(&tally->sites[i].count, memory_order_relaxed);
        if (bytes == 0 && count == 0) {
            continue;
        }
        add_to_site(usage, atomic_load_explicit(&tally->sites[i].site, memory_order_relaxed), bytes, count);
        atomic_store_explicit(&tally->sites[i].bytes, 0, memory_order_relaxed);
        atomic_store_explicit(&tally->sites[i].count, 0, memory_order_relaxed);
    }
    add_bytes(&usage->used, &usage->peak, atomic_load_explicit(&tally->held_back, memory_order_relaxed));
    atomic_store_explicit(&tally->held_back, 0, memory_order_relaxed);
}

void gy_tally_end(struct gy_tally *tally, struct gy_usage *usage)
{
    gy_tally_settle(tally, usage);
    atomic_fetch_add_explicit(&usage->allocs, atomic_load_explicit(&tally->allocs, memory_order_relaxed),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&usage->frees, atomic_load_explicit(&tally->frees, memory_order_relaxed),
                              memory_order_relaxed);
}

void gy_tally_collect(struct gy_tally *tally, struct gy_sums *sums)
{
    sums->used += atomic_load_explicit(&tally->held_back, memory_order_relaxed);
    sums->allocs += atomic_load_explicit(&tally->allocs, memory_order_relaxed);
    sums->frees += atomic_load_explicit(&tally->frees, memory_order_relaxed);
}

void gy_tally_collect_site(struct gy_tally *tally, uint32_t site, int64_t *bytes, int64_t *count)
{
    unsigned slot = site % GY_TALLY_SITES;
    if (atomic_load_explicit(&tally->sites[slot].site, memory_order_relaxed) == site) {
        *bytes += atomic_load_explicit(&tally->sites[slot].bytes, memory_order_relaxed);
        *count += atomic_load_explicit(&tally->sites[slot].count, memory_order_relaxed);
    }
}
