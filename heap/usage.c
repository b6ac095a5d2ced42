/* SPDX-License-Identifier: MIT */
#include "heap/usage.h"

#include "base/alloc.h"

#include <assert.h>

#define MOST_HOLD 32     /* times the least hold */
#define LONELY_MOVES 64u /* moves in a row */
#define MOST_LOOKS 4     /* looks at a tally whose writer is moving something */

bool gy_usage_make_site_slow(struct gy_usage *usage, uint32_t site)
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

/* This acquires and releases: a thread that sees the numbers which a lone tally has moved to the sums does
 * not add them a second time. */
static int64_t add(_Atomic(int64_t) *sum, int64_t bytes)
{
    return atomic_fetch_add_explicit(sum, bytes, memory_order_acq_rel) + bytes;
}

/* Look for a peak of the kind: `used` bytes may be in use, which the caller has not counted exactly. */
static void look(struct gy_usage *usage, int64_t used)
{
    if (__builtin_expect(used <= atomic_load_explicit(&usage->peak, memory_order_relaxed), 1)) {
        return;
    }
    if (usage->exact == NULL || usage->exact(usage->exact_user, &used)) {
        gy_usage_raise_peak(&usage->peak, used);
    }
}

void gy_usage_reset_peaks(struct gy_usage *usage, int64_t used)
{
    gy_usage_raise_peak(&usage->former_peak, atomic_load_explicit(&usage->peak, memory_order_relaxed));
    atomic_store_explicit(&usage->peak, used, memory_order_relaxed);
}

static void add_used(struct gy_usage *usage, int64_t bytes)
{
    int64_t now = add(&usage->used, bytes);
    if (bytes > 0) {
        struct gy_tally *lone = gy_tally_rival(usage);
        look(usage, now + (lone != NULL ? atomic_load_explicit(&lone->held_back, memory_order_relaxed) : 0));
    }
}

static void count_untallied(struct gy_usage *usage, int64_t bytes)
{
    uint64_t size = bytes > 0 ? (uint64_t)bytes : (uint64_t)-bytes;
    atomic_fetch_add_explicit(bytes > 0 ? &usage->allocated : &usage->freed, size, memory_order_acq_rel);
}

static void look_at_site(struct gy_usage *usage, struct gy_site_sums *sums, uint32_t site, int64_t used)
{
    if (used > atomic_load_explicit(&sums->peak, memory_order_relaxed) &&
        (usage->exact_site == NULL || usage->exact_site(usage->exact_user, site, &used))) {
        gy_usage_raise_peak(&sums->peak, used);
    }
}

static void add_to_site(struct gy_usage *usage, uint32_t site, int64_t bytes, int32_t count)
{
    struct gy_site_sums *sums = gy_usage_site(usage, site);
    assert(sums != NULL && "gy_usage_make_site() was called");
    int64_t now = add(&sums->bytes, bytes);
    if (bytes > 0) {
        struct gy_tally *lone = gy_tally_rival(usage);
        int64_t blocks = 0;
        if (lone != NULL) {
            gy_tally_collect_site(lone, site, &now, &blocks);
        }
        look_at_site(usage, sums, site, now);
    }
    if (count != 0) {
        atomic_fetch_add_explicit(&sums->count, count, memory_order_relaxed);
    }
}

static uint64_t blocks_noted(const struct gy_tally *tally)
{
    return atomic_load_explicit(&tally->allocs, memory_order_relaxed) +
           atomic_load_explicit(&tally->frees, memory_order_relaxed);
}

void gy_tally_forget(struct gy_tally *tally)
{
    tally->high = INT64_MIN / 2;
    for (unsigned i = 0; i < GY_TALLY_SITES; i++) {
        tally->sites[i].high = INT64_MIN / 2;
    }
}

/* No other tally has moved anything for some time: become the lone tally, or see whether the present one is
 * still used. */
static void claim_lone(struct gy_tally *tally, struct gy_usage *usage)
{
    struct gy_tally *lone = NULL;
    tally->streak = 0;
    if (atomic_compare_exchange_strong(&usage->lone, &lone, tally)) {
        tally->hold = GY_TALLY_HOLD_ALL;
        gy_tally_forget(tally);
    } else if (lone != tally) {
        uint64_t blocks = blocks_noted(lone);
        tally->has_idle_rival = blocks == tally->rival_blocks;
        tally->rival_blocks = blocks;
    }
}

/* Adapt how often this tally touches the shared sums to whether other tallies do so. */
static void adapt(struct gy_tally *tally, struct gy_usage *usage)
{
    int64_t most = tally->least_hold * MOST_HOLD;
    if (tally->hold == GY_TALLY_HOLD_ALL) {
        return;
    }
    if (atomic_load_explicit(&usage->latest, memory_order_relaxed) == tally) {
        tally->hold = tally->hold / 2 > tally->least_hold ? tally->hold / 2 : tally->least_hold;
        if (tally->may_be_lone && ++tally->streak >= LONELY_MOVES) {
            claim_lone(tally, usage);
        }
    } else {
        atomic_store_explicit(&usage->latest, tally, memory_order_relaxed);
        tally->hold = tally->hold < most / 2 ? tally->hold * 2 : most;
        tally->streak = 0;
    }
}

void gy_tally_init(struct gy_tally *tally, int64_t hold, bool may_be_lone)
{
    *tally = (struct gy_tally){.hold = hold, .least_hold = hold, .may_be_lone = may_be_lone};
}

static void add_moved(struct gy_tally *tally, int64_t bytes)
{
    atomic_store_explicit(&tally->moved, atomic_load_explicit(&tally->moved, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
}

void gy_tally_pass(struct gy_tally *tally, struct gy_usage *usage, uint32_t site, int64_t bytes)
{
    adapt(tally, usage);
    add_moved(tally, bytes);
    if (bytes < 0) {
        gy_tally_count_freed(tally, -bytes);
    }
    add_to_site(usage, site, bytes, 0);
    add_used(usage, bytes);
}

void gy_usage_note(struct gy_usage *usage, uint32_t site, int64_t bytes, int count)
{
    if (count != 0) {
        atomic_fetch_add_explicit(count > 0 ? &usage->allocs : &usage->frees, 1, memory_order_relaxed);
    }
    count_untallied(usage, bytes);
    add_to_site(usage, site, bytes, count);
    add_used(usage, bytes);
}

/* The bytes are taken out of the tally first: a thread that adds both up at this moment misses some bytes,
 * but counts none of them twice. */
static void move_all(struct gy_tally *tally, struct gy_usage *usage)
{
    for (unsigned i = 0; i < GY_TALLY_SITES; i++) {
        int64_t bytes = atomic_load_explicit(&tally->sites[i].bytes, memory_order_relaxed);
        int32_t count = atomic_load_explicit(&tally->sites[i].count, memory_order_relaxed);
        if (bytes == 0 && count == 0) {
            continue;
        }
        atomic_store_explicit(&tally->sites[i].bytes, 0, memory_order_relaxed);
        atomic_store_explicit(&tally->sites[i].count, 0, memory_order_relaxed);
        add_to_site(usage, atomic_load_explicit(&tally->sites[i].site, memory_order_relaxed), bytes, count);
    }
    int64_t held = atomic_load_explicit(&tally->held_back, memory_order_relaxed);
    uint32_t moves = atomic_load_explicit(&tally->moves, memory_order_relaxed);
    atomic_store_explicit(&tally->moves, moves + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&tally->held_back, 0, memory_order_relaxed);
    add_moved(tally, held);
    atomic_store_explicit(&tally->moves, moves + 2, memory_order_release);
    add_used(usage, held);
}

void gy_tally_settle(struct gy_tally *tally, struct gy_usage *usage)
{
    adapt(tally, usage);
    move_all(tally, usage);
}

static void end_lone(struct gy_tally *lone, struct gy_usage *usage)
{
    atomic_store_explicit(&usage->lone, NULL, memory_order_release);
    lone->hold = lone->least_hold;
    move_all(lone, usage);
}

struct gy_tally *gy_tally_rival(struct gy_usage *usage)
{
    return atomic_load_explicit(&usage->lone, memory_order_acquire);
}

void gy_tally_depose(struct gy_tally *lone, struct gy_usage *usage, struct gy_tally *by)
{
    if (gy_tally_rival(usage) == lone && blocks_noted(lone) == by->rival_blocks) {
        end_lone(lone, usage);
    }
}

void gy_tally_look(struct gy_tally *tally, struct gy_usage *usage, unsigned slot)
{
    int64_t held = atomic_load_explicit(&tally->held_back, memory_order_relaxed);
    int64_t bytes = atomic_load_explicit(&tally->sites[slot].bytes, memory_order_relaxed);
    uint32_t site = atomic_load_explicit(&tally->sites[slot].site, memory_order_relaxed);
    struct gy_site_sums *sums = gy_usage_site(usage, site);
    int64_t used = atomic_load_explicit(&usage->used, memory_order_relaxed);
    if (used != tally->used) {
        gy_tally_forget(tally);
        tally->used = used;
    }
    look(usage, used + held);
    look_at_site(usage, sums, site, atomic_load_explicit(&sums->bytes, memory_order_relaxed) + bytes);
    tally->high = held > tally->high ? held : tally->high;
    tally->sites[slot].high = bytes > tally->sites[slot].high ? bytes : tally->sites[slot].high;
    if (atomic_load_explicit(&usage->latest, memory_order_relaxed) != tally) {
        end_lone(tally, usage);
    }
}

void gy_tally_end(struct gy_tally *tally, struct gy_usage *usage)
{
    gy_tally_settle(tally, usage);
    uint64_t freed = gy_tally_freed(tally);
    uint64_t net =
        (uint64_t)atomic_load_explicit(&tally->moved, memory_order_relaxed); /* nothing is held back */
    atomic_fetch_add_explicit(&usage->allocated, net + freed, memory_order_acq_rel);
    atomic_fetch_add_explicit(&usage->freed, freed, memory_order_acq_rel);
    atomic_fetch_add_explicit(&usage->allocs, atomic_load_explicit(&tally->allocs, memory_order_relaxed),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&usage->frees, atomic_load_explicit(&tally->frees, memory_order_relaxed),
                              memory_order_relaxed);
}

bool gy_tally_allocated(const struct gy_tally *tally, uint64_t *out)
{
    /* This comes first: bytes that are freed from here on are missing in the sum rather than counted twice.
     */
    uint64_t freed = gy_tally_freed(tally);
    for (int i = 0; i < MOST_LOOKS; i++) {
        uint32_t moves = atomic_load_explicit(&tally->moves, memory_order_acquire);
        int64_t net = atomic_load_explicit(&tally->moved, memory_order_relaxed);
        net += atomic_load_explicit(&tally->held_back, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (moves % 2 == 0 && moves == atomic_load_explicit(&tally->moves, memory_order_relaxed)) {
            *out = (uint64_t)net + freed;
            return true;
        }
    }
    return false;
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
    if (atomic_load_explicit(&tally->sites[slot].site, memory_order_acquire) != site) {
        return;
    }
    int64_t of_slot = atomic_load_explicit(&tally->sites[slot].bytes, memory_order_acquire);
    int32_t blocks = atomic_load_explicit(&tally->sites[slot].count, memory_order_acquire);
    /* Do not add the bytes of another site that was given the slot meanwhile. */
    if (atomic_load_explicit(&tally->sites[slot].site, memory_order_acquire) == site) {
        *bytes += of_slot;
        *count += blocks;
    }
}
