/* SPDX-License-Identifier: MIT */
/* One memory kind: its blocks and their sums.  growth.c says how it grows and shrinks. */
#include "heap/kind.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/point.h"
#include "heap/growth.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

const char *gy_kind_name(gantry_memory_kind kind)
{
    switch (kind) {
    case GANTRY_MEMORY_DEVICE:
        return "device";
    case GANTRY_MEMORY_PINNED:
        return "pinned";
    case GANTRY_MEMORY_WRITE_COMBINED:
        return "write-combined";
    case GANTRY_MEMORY_HOST:
        return "host";
    }
    return "unknown";
}

/* ---- blocks ---- */

static bool is_exhausted(gantry_status status)
{
    return status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY || status == GANTRY_ERR_OUT_OF_HOST_MEMORY;
}

/* Make room out of what there is, or get more memory; `tries` counts the calls for one block.  OK: try again.
 */
static gantry_status find_room(struct gy_kind *kind, uint64_t seen, size_t bytes, unsigned tries)
{
    gy_point(GY_POINT_HEAP_ROOM, kind);
    if (tries < GY_KIND_MOST_LOOKS && (gy_heap_streams_poll(&kind->streams) || gy_park_flush(&kind->park))) {
        return GANTRY_OK;
    }
    gy_heap_streams_want(&kind->streams, NULL);
    return gy_kind_grow(kind, seen, GY_GROW_SLAB, bytes);
}

static gantry_status alloc_large(struct gy_kind *kind, size_t bytes, size_t alignment, uint32_t site,
                                 uintptr_t *out)
{
    if (gy_park_take(&kind->park, bytes, alignment, site, out)) {
        return GANTRY_OK;
    }
    for (unsigned tries = 0;; tries++) {
        uint64_t seen = atomic_load_explicit(&kind->generation, memory_order_acquire);
        enum gy_pages_result result =
            gy_pages_alloc(&kind->pages, GY_RANGE_BLOCK, bytes, alignment, site, out);
        if (result == GY_PAGES_OK) {
            gy_park_note(&kind->park, site, (int64_t)bytes, 1);
            if (tries != 0) {
                gy_kind_tell_growth(kind);
            }
            return GANTRY_OK;
        }
        gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
        if (result == GY_PAGES_FULL) {
            status = find_room(kind, seen, bytes, tries);
        }
        if (status != GANTRY_OK) {
            return status;
        }
    }
}

/* The chunk in which a block of the small tier lies. */
static struct gy_chunk *chunk_of(struct gy_kind *kind, uintptr_t address)
{
    struct gy_heap_region *region = gy_granules_find(kind->setup.map, address);
    assert(region != NULL && region->is_chunk);
    return (struct gy_chunk *)(void *)region;
}

static gantry_status alloc_small(struct gy_kind *kind, size_t bytes, size_t alignment, uint32_t site,
                                 uintptr_t *out)
{
    for (bool again = false;; again = true) {
        uint64_t seen = atomic_load_explicit(&kind->generation, memory_order_acquire);
        enum gy_small_result result = gy_small_alloc(kind->small, bytes, alignment, site, out);
        if (__builtin_expect(result == GY_SMALL_OK, 1)) {
            gy_chunk_record(chunk_of(kind, *out), *out, bytes, site);
            if (__builtin_expect(again, 0)) {
                gy_kind_tell_growth(kind);
            }
            return GANTRY_OK;
        }
        gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
        if (result == GY_SMALL_WANTS_CHUNK) {
            status = gy_kind_grow(kind, seen, GY_GROW_CHUNK, GY_GRANULE_BYTES);
        }
        if (is_exhausted(status)) {
            /* there is no piece of 2 MiB any more, but perhaps a few pages */
            return alloc_large(kind, bytes, alignment, site, out);
        }
        if (status != GANTRY_OK) {
            return status;
        }
    }
}

static bool fits_small(size_t bytes, size_t alignment)
{
    return bytes <= GY_SMALL_MAX && alignment <= GY_PAGE_BYTES &&
           ((bytes + alignment - 1) & ~(alignment - 1)) <= GY_SMALL_MAX;
}

gantry_status gy_kind_alloc(struct gy_kind *kind, size_t bytes, size_t alignment, uint32_t site,
                            uintptr_t *out)
{
    if (__builtin_expect(!gy_usage_make_site(&kind->usage, site), 0)) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    if (kind->small != NULL && fits_small(bytes, alignment)) {
        return alloc_small(kind, bytes, alignment, site, out);
    }
    return alloc_large(kind, bytes, alignment, site, out);
}

/* Ask for a trim if too much lies unused after a block went back. */
static inline void tell_excess(struct gy_kind *kind)
{
    if (__builtin_expect(atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed) != 0, 0) &&
        kind->setup.excess != NULL && gy_kind_has_excess(kind) &&
        !atomic_exchange(&kind->excess_told, true)) {
        atomic_store_explicit(&kind->pages.least_empty,
                              atomic_load_explicit(&kind->pages.empty_bytes, memory_order_relaxed),
                              memory_order_relaxed);
        kind->setup.excess(kind->setup.user, kind->setup.kind);
    }
}

bool gy_kind_free(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address)
{
    gy_heap_streams_forget(&kind->streams, address);
    if (region->is_chunk) {
        uint32_t record = gy_chunk_take((struct gy_chunk *)(void *)region, address);
        if (record == 0) {
            return false;
        }
        gy_small_free(kind->small, address, gy_record_size(record), gy_record_site(record));
        return true;
    }
    if (gy_park_give(&kind->park, region, address) != GY_PARK_OK) {
        return false;
    }
    tell_excess(kind);
    return true;
}

bool gy_kind_claim(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address,
                   struct gy_claim *out)
{
    gy_heap_streams_forget(&kind->streams, address);
    if (region->is_chunk) {
        uint32_t record = gy_chunk_take((struct gy_chunk *)(void *)region, address);
        *out = (struct gy_claim){NULL, address, record};
        return record != 0;
    }
    struct gy_range *range = gy_park_claim(&kind->park, region, address);
    *out = (struct gy_claim){range, address, 0};
    return range != NULL;
}

void gy_kind_free_claimed(struct gy_kind *kind, const struct gy_claim *claim)
{
    if (claim->range == NULL) {
        gy_small_free(kind->small, claim->address, gy_record_size(claim->record),
                      gy_record_site(claim->record));
        return;
    }
    gy_park_give_claimed(&kind->park, claim->range);
    tell_excess(kind);
}

bool gy_kind_reuse(struct gy_kind *kind, const struct gy_claim *claim, size_t bytes, size_t alignment,
                   uint32_t site)
{
    if ((claim->address & (alignment - 1)) != 0 || !gy_usage_make_site(&kind->usage, site)) {
        return false;
    }
    if (claim->range == NULL) {
        size_t had = gy_record_size(claim->record);
        if (bytes > had || bytes <= had / 2) {
            return false;
        }
        gy_small_reused(kind->small, gy_record_site(claim->record), had, site, bytes);
        gy_chunk_record(chunk_of(kind, claim->address), claim->address, bytes, site);
        return true;
    }
    if ((bytes + GY_PAGE_BYTES - 1) >> GY_PAGE_SHIFT != claim->range->pages) {
        return false;
    }
    gy_park_revive(&kind->park, claim->range, bytes, site);
    return true;
}

void gy_kind_set_size(struct gy_kind *kind, uintptr_t address, size_t from, size_t to)
{
    struct gy_heap_region *region = gy_granules_find(kind->setup.map, address);
    if (region->is_chunk) {
        struct gy_chunk *chunk = (struct gy_chunk *)(void *)region;
        uint32_t site = gy_record_site(gy_chunk_peek(chunk, address));
        gy_chunk_record(chunk, address, to, site);
        gy_small_resized(kind->small, site, from, to);
        return;
    }
    struct gy_range *range = atomic_load_explicit(gy_live_at(region->slab, address), memory_order_acquire);
    uint32_t site = gy_range_site(range);
    gy_range_set_request(range, to, site);
    gy_park_note(&kind->park, site, (int64_t)to - (int64_t)from, 0);
}

static gantry_status resize_small(struct gy_kind *kind, struct gy_chunk *chunk, uintptr_t address,
                                  size_t bytes)
{
    uint32_t record = gy_chunk_peek(chunk, address);
    if (record == 0) {
        return GANTRY_ERR_NOT_FOUND;
    }
    if (bytes > GY_SMALL_MAX || bytes > gy_small_capacity(address)) {
        return GANTRY_ERR_UNSUPPORTED;
    }
    gy_chunk_record(chunk, address, bytes, gy_record_site(record));
    gy_small_resized(kind->small, gy_record_site(record), gy_record_size(record), bytes);
    return GANTRY_OK;
}

gantry_status gy_kind_resize(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address,
                             size_t bytes)
{
    if (region->is_chunk) {
        return resize_small(kind, (struct gy_chunk *)(void *)region, address, bytes);
    }
    struct gy_block_request before;
    enum gy_pages_result result = gy_pages_resize(&kind->pages, region->slab, address, bytes, &before);
    if (result == GY_PAGES_FULL && gy_park_flush(&kind->park)) {
        result = gy_pages_resize(&kind->pages, region->slab, address, bytes, &before);
    }
    switch (result) {
    case GY_PAGES_OK:
        gy_park_note(&kind->park, before.site, (int64_t)bytes - (int64_t)before.bytes, 0);
        return GANTRY_OK;
    case GY_PAGES_FULL:
        return GANTRY_ERR_UNSUPPORTED;
    case GY_PAGES_NO_MEMORY:
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    case GY_PAGES_NOT_FOUND:
        break;
    }
    return GANTRY_ERR_NOT_FOUND;
}

bool gy_kind_contain(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address)
{
    if (region->is_chunk) {
        return gy_chunk_contain((struct gy_chunk *)(void *)region, address);
    }
    return gy_pages_contain(&kind->pages, region->slab, address);
}

bool gy_kind_block_at(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address,
                      struct gy_visited *out)
{
    if (!region->is_chunk) {
        return gy_pages_block_at(&kind->pages, region->slab, address, out);
    }
    return gy_chunk_block_at((struct gy_chunk *)(void *)region, address, out) &&
           address - out->base < out->bytes;
}

/* The allocated bytes are read first: whatever is freed meanwhile, the difference is no more than what was in
 * use in between.  The caller holds the tallies of the small tier. */
static bool difference(struct gy_kind *kind, int64_t *out)
{
    uint64_t allocated = atomic_load_explicit(&kind->usage.allocated, memory_order_acquire);
    if (!gy_park_allocated(&kind->park, &allocated) ||
        (kind->small != NULL && !gy_small_allocated(kind->small, &allocated))) {
        return false;
    }
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t freed = atomic_load_explicit(&kind->usage.freed, memory_order_acquire);
    freed += gy_park_freed(&kind->park);
    freed += kind->small != NULL ? gy_small_freed(kind->small) : 0;
    *out = (int64_t)(allocated - freed);
    return true;
}

/* gy_usage calls this, with any locks held. */
static bool try_exact(void *user, int64_t *out)
{
    struct gy_kind *kind = user;
    if (kind->small != NULL && !gy_small_hold_tallies(kind->small, false)) {
        return false;
    }
    bool known = difference(kind, out);
    if (kind->small != NULL) {
        gy_small_let_go_tallies(kind->small);
    }
    return known;
}

static bool try_exact_site(void *user, uint32_t site, int64_t *out)
{
    struct gy_kind *kind = user;
    int64_t count = 0;
    if (kind->small != NULL && !gy_small_hold_tallies(kind->small, false)) {
        return false;
    }
    *out = atomic_load_explicit(&gy_usage_site(&kind->usage, site)->bytes, memory_order_relaxed);
    gy_park_collect_site(&kind->park, site, out, &count);
    if (kind->small != NULL) {
        gy_small_add_site(kind->small, site, out, &count);
        gy_small_let_go_tallies(kind->small);
    }
    return true;
}

static int64_t exact_used(struct gy_kind *kind)
{
    bool held = kind->small != NULL && gy_small_hold_tallies(kind->small, true);
    int64_t used = 0;
    while (!difference(kind, &used)) { /* a tally is being moved, which takes some instructions */
        sched_yield();
    }
    if (held) {
        gy_small_let_go_tallies(kind->small);
    }
    return used > 0 ? used : 0;
}

static struct gy_sums sum_up(struct gy_kind *kind)
{
    struct gy_sums sums = {atomic_load_explicit(&kind->usage.used, memory_order_relaxed),
                           atomic_load_explicit(&kind->usage.allocs, memory_order_relaxed),
                           atomic_load_explicit(&kind->usage.frees, memory_order_relaxed)};
    gy_park_collect(&kind->park, &sums);
    if (kind->small != NULL) {
        gy_small_collect(kind->small, &sums);
    }
    return sums;
}

uint64_t gy_kind_occupied(struct gy_kind *kind)
{
    (void)gy_park_flush(&kind->park);
    (void)gy_heap_streams_poll(&kind->streams);
    gy_heap_streams_want(&kind->streams, NULL); /* waiting blocks shall not count for ever */
    size_t movable = gy_pages_movable(&kind->pages);
    size_t total = gy_kind_total(kind);
    return total > movable ? total - movable : 0; /* slabs may come and go meanwhile */
}

void gy_kind_stats(struct gy_kind *kind, gantry_heap_stats *stats)
{
    struct gy_sums sums = sum_up(kind);
    (void)gy_park_flush(&kind->park); /* parked blocks are free memory */
    struct gy_pages_stats pages = gy_pages_stats(&kind->pages);
    int64_t used = sums.used > 0 ? sums.used : 0; /* other threads may be between two sums */
    gy_usage_raise_peak(&kind->usage.peak, exact_used(kind));
    stats->slab_bytes = gy_kind_total(kind);
    stats->used_bytes = (uint64_t)used;
    stats->peak_bytes = (uint64_t)atomic_load_explicit(&kind->usage.peak, memory_order_relaxed);
    stats->alloc_count = sums.allocs;
    stats->free_count = sums.frees;
    stats->block_count = sums.allocs > sums.frees ? sums.allocs - sums.frees : 0;
    stats->largest_free = pages.largest_free;
    stats->free_bytes = pages.free_bytes;
    stats->empty_bytes = pages.empty_bytes;
    stats->waiting_bytes = gy_heap_streams_waiting(&kind->streams);
    for (int i = 0; i < GANTRY_HEAP_STALL_COUNT; i++) {
        stats->stalls[i] = atomic_load_explicit(&kind->stalls[i].count, memory_order_relaxed);
        stats->stall_ns[i] = atomic_load_explicit(&kind->stalls[i].ns, memory_order_relaxed);
        stats->longest_stall_ns[i] = atomic_load_explicit(&kind->stalls[i].longest, memory_order_relaxed);
    }
    stats->peak_slab_bytes = gy_setting(&kind->slab_peak);
}

static void reset_site_peak(struct gy_kind *kind, uint32_t site)
{
    struct gy_site_sums *sums = gy_usage_site(&kind->usage, site);
    if (sums != NULL) {
        int64_t bytes = atomic_load_explicit(&sums->bytes, memory_order_relaxed), count = 0;
        gy_park_collect_site(&kind->park, site, &bytes, &count);
        if (kind->small != NULL) {
            gy_small_collect_site(kind->small, site, &bytes, &count);
        }
        atomic_store_explicit(&sums->peak, bytes > 0 ? bytes : 0, memory_order_relaxed);
    }
}

void gy_kind_reset_peaks(struct gy_kind *kind, uint32_t sites)
{
    atomic_store_explicit(&kind->slab_peak, gy_kind_total(kind), memory_order_relaxed);
    for (uint32_t site = 0; site < sites; site++) {
        reset_site_peak(kind, site);
    }
    gy_usage_reset_peaks(&kind->usage, exact_used(kind));
    gy_park_forget_highs(&kind->park);
}

void gy_kind_site_stats(struct gy_kind *kind, uint32_t site, gantry_heap_tag_stats *stats)
{
    struct gy_site_sums *sums = gy_usage_site(&kind->usage, site);
    if (sums == NULL) {
        return;
    }
    int64_t bytes = atomic_load_explicit(&sums->bytes, memory_order_relaxed);
    int64_t count = atomic_load_explicit(&sums->count, memory_order_relaxed);
    gy_park_collect_site(&kind->park, site, &bytes, &count);
    if (kind->small != NULL) {
        gy_small_collect_site(kind->small, site, &bytes, &count);
    }
    gy_usage_raise_peak(&sums->peak, bytes);
    int64_t peak = atomic_load_explicit(&sums->peak, memory_order_relaxed);
    stats->used_bytes = bytes > 0 ? (uint64_t)bytes : 0;
    stats->block_count = count > 0 ? (uint64_t)count : 0;
    stats->peak_bytes = (uint64_t)peak;
}

void gy_kind_each_block(struct gy_kind *kind, gy_visit_fn visit, void *user)
{
    gy_pages_each_block(&kind->pages, visit, user);
    if (kind->small != NULL) {
        gy_small_each_block(kind->small, visit, user);
    }
}

/* ---- life ---- */

static gantry_status open_small(struct gy_kind *kind)
{
    if (!kind->setup.use_small) {
        return GANTRY_OK;
    }
    gantry_status status = gy_small_create(kind->setup.map, &kind->usage, &kind->small);
    if (status == GANTRY_ERR_UNSUPPORTED) {
        gy_log(GANTRY_LOG_WARNING, "heap: jemalloc has no arena left; small %s blocks take whole 4 KiB pages",
               gy_kind_name(kind->setup.kind));
        return GANTRY_OK;
    }
    return status != GANTRY_OK ? GY_FAIL(status, "heap: no memory for its bookkeeping") : GANTRY_OK;
}

gantry_status gy_kind_init(struct gy_kind *kind, const struct gy_kind_setup *setup)
{
    memset(kind, 0, sizeof(*kind));
    kind->setup = *setup;
    kind->usage.exact = try_exact;
    kind->usage.exact_site = try_exact_site;
    kind->usage.exact_user = kind;
    atomic_store(&kind->settings.slab_bytes, setup->slab_bytes);
    atomic_store(&kind->settings.limit_bytes, setup->limit_bytes);
    atomic_store(&kind->settings.base_bytes, setup->base_bytes);
    atomic_store(&kind->settings.keep_bytes, setup->keep_bytes);
    atomic_store(&kind->settings.unit_bytes, setup->unit_bytes);
    atomic_store(&kind->settings.ahead_bytes, setup->ahead_bytes);
    atomic_store(&kind->settings.decay_ms, setup->decay_ms);
    gantry_status status = gy_guard_init(&kind->growth_lock, GY_RANK_HEAP, &kind->grown);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_heap_streams_init(&kind->streams, kind);
    if (!gy_pages_init(&kind->pages)) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "heap: no memory for its bookkeeping");
        goto fini_growth;
    }
    bool is_device = setup->kind == GANTRY_MEMORY_DEVICE && setup->context != NULL;
    if (!gy_park_init(&kind->park, &kind->pages, setup->map, &kind->usage,
                      is_device ? setup->context->info.memory_bytes : 0)) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "heap: no memory for its bookkeeping");
        goto fini_pages;
    }
    kind->park.home = gy_heap_streams_home;
    kind->park.home_user = &kind->streams;
    status = open_small(kind);
    if (status != GANTRY_OK) {
        goto fini_park;
    }
    return GANTRY_OK;
fini_park:
    gy_park_fini(&kind->park);
fini_pages:
    gy_pages_fini(&kind->pages);
fini_growth:
    gy_guard_fini(&kind->growth_lock, &kind->grown);
    return status;
}

static void free_chunks(struct gy_chunk *chunk)
{
    while (chunk != NULL) {
        struct gy_chunk *next = chunk->next;
        gy_free(chunk);
        chunk = next;
    }
}

void gy_kind_fini(struct gy_kind *kind)
{
    gy_heap_streams_fini(&kind->streams);
    if (kind->small != NULL) {
        free_chunks(gy_small_destroy(kind->small));
    }
    free_chunks(kind->spare_chunks);
    struct gy_slab *slab;
    while ((slab = gy_pages_remove_slab(&kind->pages, true)) != NULL) {
        gy_kind_give_back(kind, &slab->backing);
        gy_slab_fini(slab);
        gy_free(slab);
    }
    while ((slab = kind->spare_slabs) != NULL) {
        kind->spare_slabs = slab->next;
        gy_free(slab);
    }
    gy_park_fini(&kind->park);
    gy_pages_fini(&kind->pages);
    gy_usage_fini(&kind->usage);
    gy_guard_fini(&kind->growth_lock, &kind->grown);
}
