/* SPDX-License-Identifier: MIT */
#include "heap/park.h"

#include "base/alloc.h"

#include <assert.h>
#include <sched.h>
#include <stddef.h>

/* The number of ranges to look at in a bucket for one of the right size and alignment. */
#define SCAN_LIMIT 4

/* ---- shards ---- */

static struct gy_park_shard *my_shard(struct gy_park *park)
{
    static _Atomic(unsigned) threads;   /* atomic; numbers given out so far */
    static _Thread_local unsigned mine; /* number + 1; 0: none yet */
    if (__builtin_expect(mine == 0, 0)) {
        mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % GY_PARK_SHARDS + 1;
    }
    return &park->shards[mine - 1];
}

static bool try_hold(struct gy_park_shard *shard)
{
    return !atomic_load_explicit(&shard->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&shard->held, true, memory_order_acquire);
}

static void hold(struct gy_park_shard *shard)
{
    while (!try_hold(shard)) {
        sched_yield();
    }
}

static void let_go(struct gy_park_shard *shard)
{
    assert(atomic_load_explicit(&shard->held, memory_order_relaxed));
    atomic_store_explicit(&shard->held, false, memory_order_release);
}

static struct gy_park_shard *shard_of(struct gy_tally *tally)
{
    return (struct gy_park_shard *)(void *)((char *)tally - offsetof(struct gy_park_shard, tally));
}

static struct gy_range **lap_bucket_of(struct gy_lap *lap, size_t pages)
{
    return &lap->buckets[((uint64_t)pages * 0x9e3779b97f4a7c15u) >> 58];
}

static struct gy_range **bucket_of(struct gy_park_shard *shard, size_t pages)
{
    return &shard->buckets[((uint64_t)pages * 0x9e3779b97f4a7c15u) >> 59];
}

bool gy_park_shard_is_valid(struct gy_park_shard *shard)
{
    size_t least = 0;
    for (unsigned i = 0; i < GY_PARK_BUCKETS; i++) {
        const struct gy_range *range = shard->buckets[i];
        if (range != NULL && (gy_range_state(range) != GY_RANGE_OWNED || range->pages == 0 ||
                              bucket_of(shard, range->pages) != &shard->buckets[i])) {
            return false;
        }
        least += range != NULL ? range->pages : 0;
    }
    return atomic_load_explicit(&shard->held, memory_order_relaxed) && shard->pages >= least &&
           (least != 0 || shard->pages == 0);
}

/* Take everything out of the shard; the ranges are linked by `next`. */
static struct gy_range *empty_shard(struct gy_park_shard *shard)
{
    struct gy_range *all = NULL;
    for (unsigned i = 0; i < GY_PARK_BUCKETS && shard->pages != 0; i++) {
        while (shard->buckets[i] != NULL) {
            struct gy_range *range = shard->buckets[i];
            shard->buckets[i] = range->next;
            range->next = all;
            all = range;
        }
    }
    shard->pages = 0;
    assert(gy_park_shard_is_valid(shard));
    return all;
}

static struct gy_range *take_leaving(struct gy_lap *lap)
{
    struct gy_range *first = lap->leaving;
    lap->leaving = NULL;
    lap->leaving_pages = 0;
    lap->leaving_count = 0;
    return first;
}

/* Take everything out of the shard's lap, as empty_shard(). */
static struct gy_range *empty_lap(struct gy_lap *lap)
{
    struct gy_range *all = take_leaving(lap);
    for (unsigned i = 0; i < GY_LAP_BUCKETS && lap->pages != 0; i++) {
        while (lap->buckets[i] != NULL) {
            struct gy_range *range = lap->buckets[i];
            assert(gy_range_state(range) == GY_RANGE_OWNED && range->waiter == NULL);
            lap->buckets[i] = range->next;
            range->next = all;
            all = range;
        }
    }
    lap->pages = 0;
    lap->refused = 0;
    return all;
}

bool gy_park_init(struct gy_park *park, struct gy_pages *pages, struct gy_granules *map,
                  struct gy_usage *usage, uint64_t memory_bytes)
{
    struct gy_park_shard *shards = gy_alloc_aligned(GY_PARK_SHARDS * sizeof(*shards), 64);
    if (shards == NULL) {
        return false;
    }
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        shards[i] = (struct gy_park_shard){.held = false};
        gy_tally_init(&shards[i].tally, GY_PARK_HOLD_BYTES, true);
    }
    /* All shards together may keep a quarter of the memory, where that is more than the least. */
    uint64_t most = memory_bytes / (4 * GY_PARK_SHARDS);
    most = most > GY_PARK_BYTES ? most : GY_PARK_BYTES;
    most = most < GY_PARK_MOST_BYTES ? most : GY_PARK_MOST_BYTES;
    *park = (struct gy_park){pages, map, usage, shards, (size_t)most >> GY_PAGE_SHIFT, NULL, NULL};
    return true;
}

void gy_park_fini(struct gy_park *park)
{
    gy_free(park->shards);
}

/* Note blocks in a shard that the caller holds. */
static inline void note_in(struct gy_park *park, struct gy_park_shard *shard, uint32_t site, int64_t bytes,
                           int count)
{
    assert(atomic_load_explicit(&shard->held, memory_order_relaxed));
    gy_tally_note(&shard->tally, park->usage, site, bytes, count, true);
    if (__builtin_expect(shard->tally.has_idle_rival, 0)) {
        struct gy_tally *lone = gy_tally_rival(park->usage);
        struct gy_park_shard *other = lone != NULL ? shard_of(lone) : shard;
        shard->tally.has_idle_rival = false;
        if (other != shard &&
            try_hold(other)) { /* this never waits, since the other holder might wait for us */
            gy_tally_depose(lone, park->usage, &shard->tally);
            let_go(other);
        }
    }
}

/* ---- blocks ---- */

static struct gy_range *take_from(struct gy_range **link, size_t *held_pages, size_t pages, size_t alignment)
{
    for (unsigned looked = 0; *link != NULL && looked < SCAN_LIMIT; looked++) {
        struct gy_range *range = *link;
        if (range->pages == pages && (range->base & (alignment - 1)) == 0) {
            assert(gy_range_state(range) == GY_RANGE_OWNED && *held_pages >= pages);
            *link = range->next;
            *held_pages -= pages;
            return range;
        }
        link = &range->next;
    }
    return NULL;
}

bool gy_park_take(struct gy_park *park, size_t bytes, size_t alignment, uint32_t site, uintptr_t *out)
{
    struct gy_park_shard *shard = my_shard(park);
    if (bytes > GY_PARK_MOST_BYTES || !try_hold(shard)) {
        return false;
    }
    const size_t pages = (bytes + GY_PAGE_BYTES - 1) >> GY_PAGE_SHIFT;
    struct gy_range *range = take_from(bucket_of(shard, pages), &shard->pages, pages, alignment);
    if (range != NULL) {
        assert(bytes <= range->pages << GY_PAGE_SHIFT && range->base % alignment == 0);
        *out = range->base;
        gy_pages_publish(range, bytes, site);
        note_in(park, shard, site, (int64_t)bytes, 1);
    }
    let_go(shard);
    return range != NULL;
}

/* Keep a range that the caller owns.  Returns the ranges that have to leave for it, linked by `next`. */
static struct gy_range *keep(const struct gy_park *park, struct gy_park_shard *shard, struct gy_range *range)
{
    size_t most = park->most_pages;
    struct gy_range *leaving = NULL;
    assert(gy_range_state(range) == GY_RANGE_OWNED);
    if (range->pages > most || range->waiter != NULL) {
        range->next = NULL;
        return range;
    }
    if (shard->pages + range->pages > most) {
        leaving = empty_shard(shard);
    }
    struct gy_range **bucket = bucket_of(shard, range->pages);
    range->next = *bucket;
    *bucket = range;
    shard->pages += range->pages;
    assert(shard->pages <= most);
    assert(gy_park_shard_is_valid(shard));
    return leaving;
}

static enum gy_park_result give_to_pages(struct gy_park *park, struct gy_slab *slab, uintptr_t address)
{
    struct gy_block_request request;
    if (gy_pages_free(park->pages, slab, GY_RANGE_BLOCK, address, &request) != GY_PAGES_OK) {
        return GY_PARK_NOT_FOUND;
    }
    gy_park_note(park, request.site, -(int64_t)request.bytes, -1);
    return GY_PARK_OK;
}

enum gy_park_result gy_park_give(struct gy_park *park, struct gy_heap_region *region, uintptr_t address)
{
    struct gy_park_shard *shard = my_shard(park);
    if (!try_hold(shard)) {
        return give_to_pages(park, region->slab, address);
    }
    /* The region is still in the map, so gy_park_quiesce() will wait for us. */
    struct gy_range *range = gy_granules_find(park->map, address) == region
                                 ? gy_pages_claim(region->slab, GY_RANGE_BLOCK, address)
                                 : NULL;
    struct gy_range *leaving = NULL;
    if (range != NULL) {
        note_in(park, shard, gy_range_site(range), -(int64_t)gy_range_requested(range), -1);
        leaving = keep(park, shard, range);
    }
    gy_pages_release(park->pages, leaving);
    let_go(shard);
    return range != NULL ? GY_PARK_OK : GY_PARK_NOT_FOUND;
}

struct gy_range *gy_park_claim(struct gy_park *park, struct gy_heap_region *region, uintptr_t address)
{
    struct gy_park_shard *shard = my_shard(park);
    hold(shard);
    struct gy_range *range = gy_granules_find(park->map, address) == region
                                 ? gy_pages_claim(region->slab, GY_RANGE_BLOCK, address)
                                 : NULL;
    assert(range == NULL || (gy_range_state(range) == GY_RANGE_OWNED && range->base == address));
    let_go(shard);
    return range;
}

void gy_park_give_claimed(struct gy_park *park, struct gy_range *range)
{
    struct gy_park_shard *shard = my_shard(park);
    assert(gy_range_state(range) == GY_RANGE_OWNED);
    hold(shard);
    note_in(park, shard, gy_range_site(range), -(int64_t)gy_range_requested(range), -1);
    gy_pages_release(park->pages, keep(park, shard, range));
    let_go(shard);
}

void gy_park_revive(struct gy_park *park, struct gy_range *range, size_t bytes, uint32_t site)
{
    assert(gy_range_state(range) == GY_RANGE_OWNED);
    gy_park_note(park, gy_range_site(range), -(int64_t)gy_range_requested(range), -1);
    gy_park_note(park, site, (int64_t)bytes, 1);
    gy_pages_publish(range, bytes, site);
}

void gy_park_note(struct gy_park *park, uint32_t site, int64_t bytes, int count)
{
    struct gy_park_shard *shard = my_shard(park);
    if (try_hold(shard)) {
        note_in(park, shard, site, bytes, count);
        let_go(shard);
    } else {
        gy_usage_note(park->usage, site, bytes, count);
    }
}

/* ---- laps ---- */

#define STRANGERS 8u /* frees on another stream, one after the other, after which the lap changes hands */
/* Of the largest block in a lap: larger ones would be used again for what lives long, and keep free memory
 * from being joined. */
#define LAP_BLOCK_PAGES ((size_t)128)
#define MOST_LEAVING 8u /* blocks that wait in a lap for the thread's next operation under the lock */
#define REFUSED 64u /* frees without room after which the lap is emptied: its sizes are not those of now */

bool gy_park_lap_take(struct gy_park *park, uint64_t id, size_t bytes, size_t alignment, uint32_t site,
                      uintptr_t *out)
{
    struct gy_park_shard *shard = my_shard(park);
    if (bytes > LAP_BLOCK_PAGES << GY_PAGE_SHIFT || !try_hold(shard)) {
        return false;
    }
    struct gy_lap *lap = &shard->lap;
    struct gy_range *range = NULL;
    if (lap->id == id && lap->pages != 0) {
        const size_t pages = gy_lap_pages((bytes + GY_PAGE_BYTES - 1) >> GY_PAGE_SHIFT);
        range = take_from(lap_bucket_of(lap, pages), &lap->pages, pages, alignment);
    }
    if (range != NULL) {
        *out = range->base;
        gy_pages_publish(range, bytes, site);
        note_in(park, shard, site, (int64_t)bytes, 1);
    }
    let_go(shard);
    return range != NULL;
}

/* The pages of the block that starts there, if it may wait in a lap; 0: there is none, or it is a graph's or
 * used on other streams. */
static size_t pages_for_lap(struct gy_park *park, struct gy_heap_region *region, uintptr_t address)
{
    if (address % GY_PAGE_BYTES != 0 || gy_granules_find(park->map, address) != region) {
        return 0;
    }
    const struct gy_range *range =
        atomic_load_explicit(gy_live_at(region->slab, address), memory_order_acquire);
    const bool may = range != NULL && gy_range_state(range) == GY_RANGE_BLOCK && range->waiter == NULL &&
                     !atomic_load_explicit(&range->shared, memory_order_relaxed);
    return may ? range->pages : 0;
}

/* May a block of that size stay in the lap, to be used again as it is? */
static bool is_kept(struct gy_park *park, struct gy_lap *lap, size_t pages, size_t most_pages)
{
    if (pages > LAP_BLOCK_PAGES) {
        return false;
    }
    if (lap->pages + pages > most_pages && ++lap->refused >= REFUSED) {
        (void)park->home(park->home_user, lap->stream, empty_lap(lap), lap->id);
    }
    return lap->pages + pages <= most_pages;
}

static enum gy_lap_result give_to_lap(struct gy_park *park, struct gy_park_shard *shard, uint64_t id,
                                      struct gy_heap_region *region, uintptr_t address,
                                      struct gy_lap_room room)
{
    struct gy_lap *lap = &shard->lap;
    if (lap->stream == NULL || lap->id != id) {
        return lap->stream == NULL || ++lap->strangers >= STRANGERS ? GY_LAP_STRANGE : GY_LAP_FULL;
    }
    lap->strangers = 0;
    const size_t pages = pages_for_lap(park, region, address);
    const bool keeps = pages != 0 && is_kept(park, lap, pages, room.kept);
    if (pages == 0 ||
        (!keeps && (lap->leaving_count >= MOST_LEAVING || lap->leaving_pages + pages > room.leaving))) {
        return GY_LAP_FULL;
    }
    struct gy_range *range = gy_pages_claim(region->slab, GY_RANGE_BLOCK, address);
    if (range == NULL) {
        return GY_LAP_FULL;
    }
    note_in(park, shard, gy_range_site(range), -(int64_t)gy_range_requested(range), -1);
    struct gy_range **list = keeps ? lap_bucket_of(lap, range->pages) : &lap->leaving;
    range->next = *list;
    *list = range;
    *(keeps ? &lap->pages : &lap->leaving_pages) += range->pages;
    lap->leaving_count += !keeps;
    return GY_LAP_GIVEN;
}

enum gy_lap_result gy_park_lap_give(struct gy_park *park, uint64_t id, struct gy_heap_region *region,
                                    uintptr_t address, struct gy_lap_room room)
{
    struct gy_park_shard *shard = my_shard(park);
    if (!try_hold(shard)) {
        return GY_LAP_FULL;
    }
    /* The region is still in the map while the shard is held, so gy_park_quiesce() will wait for us. */
    enum gy_lap_result result = give_to_lap(park, shard, id, region, address, room);
    let_go(shard);
    return result;
}

struct gy_range *gy_park_lap_leave(struct gy_park *park, uint64_t id)
{
    struct gy_park_shard *shard = my_shard(park);
    if (!try_hold(shard)) { /* whoever holds it may be waiting for the caller's lock */
        return NULL;
    }
    struct gy_range *first = shard->lap.id == id ? take_leaving(&shard->lap) : NULL;
    let_go(shard);
    return first;
}

void gy_park_lap_attach(struct gy_park *park, uint64_t id)
{
    struct gy_park_shard *shard = my_shard(park);
    hold(shard);
    struct gy_lap *lap = &shard->lap;
    if (lap->stream == NULL || lap->id != id) {
        lap->stream = park->home(park->home_user, lap->stream, empty_lap(lap), id);
        lap->id = id;
        lap->strangers = 0;
    }
    let_go(shard);
}

bool gy_park_flush(struct gy_park *park)
{
    bool any = false;
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        hold(&park->shards[i]);
        struct gy_range *leaving = empty_shard(&park->shards[i]);
        any = any || leaving != NULL;
        /* This comes before the shard is let go: the next thread that flushes must find the blocks in the
         * page layer. */
        gy_pages_release(park->pages, leaving);
        assert(park->shards[i].pages == 0);
        struct gy_lap *lap = &park->shards[i].lap;
        if (lap->pages != 0 || lap->leaving != NULL) {
            any = true;
            (void)park->home(park->home_user, lap->stream, empty_lap(lap), lap->id);
        }
        let_go(&park->shards[i]);
    }
    return any;
}

void gy_park_quiesce(struct gy_park *park)
{
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        hold(&park->shards[i]);
        let_go(&park->shards[i]);
    }
}

/* ---- questions ---- */

void gy_park_collect(struct gy_park *park, struct gy_sums *sums)
{
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        gy_tally_collect(&park->shards[i].tally, sums);
    }
}

void gy_park_collect_site(struct gy_park *park, uint32_t site, int64_t *bytes, int64_t *count)
{
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        gy_tally_collect_site(&park->shards[i].tally, site, bytes, count);
    }
}

bool gy_park_allocated(const struct gy_park *park, uint64_t *sum)
{
    bool known = true;
    for (unsigned i = 0; i < GY_PARK_SHARDS && known; i++) {
        uint64_t bytes = 0;
        known = gy_tally_allocated(&park->shards[i].tally, &bytes);
        *sum += bytes;
    }
    return known;
}

uint64_t gy_park_freed(const struct gy_park *park)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        bytes += gy_tally_freed(&park->shards[i].tally);
    }
    return bytes;
}

void gy_park_forget_highs(struct gy_park *park)
{
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        hold(&park->shards[i]);
        gy_tally_forget(&park->shards[i].tally);
        let_go(&park->shards[i]);
    }
}
