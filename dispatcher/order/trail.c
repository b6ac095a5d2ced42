#include "dispatcher/order/trail.h"

#include "base/alloc.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

static struct gy_clock *clock_of(uint64_t trail)
{
    return (struct gy_clock *)(uintptr_t)trail; /* NOLINT: the encoding of trail.h */
}

#ifndef NDEBUG
/* While its work is enqueued a task has no trail, but a mark: see struct gantry_task. */
static bool is_ours(const struct gy_trail_pool *pool, uint64_t trail)
{
    const struct gy_clock *clock = clock_of(trail);
    return clock >= pool->all && clock < pool->all + pool->count;
}
#endif

gantry_status gy_trail_pool_init(struct gy_trail_pool *pool, uint32_t clocks)
{
    pool->all = gy_zalloc_array(clocks, sizeof(*pool->all));
    if (pool->all == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "dispatcher: no memory for %u clocks", clocks);
    }
    pool->count = clocks;
    pool->free = NULL;
    for (uint32_t i = clocks; i-- > 0;) {
        pool->all[i].next_free = pool->free;
        pool->free = &pool->all[i];
    }
    gy_mutex_init(&pool->lock, GY_RANK_TRAIL);
    return GANTRY_OK;
}

void gy_trail_pool_fini(struct gy_trail_pool *pool)
{
    gy_mutex_fini(&pool->lock);
    gy_free(pool->all);
}

static void clock_add(struct gy_clock *clock, uint32_t stream, uint64_t seq)
{
    uint64_t bit = UINT64_C(1) << stream;
    if (clock->streams == 0) {
        clock->home = stream;
    }
    if ((clock->streams & bit) == 0 || clock->seq[stream] < seq) {
        clock->seq[stream] = seq;
    }
    clock->streams |= bit;
}

static void clock_add_trail(struct gy_clock *clock, uint64_t trail)
{
    if (gy_trail_is_position(trail)) {
        clock_add(clock, gy_trail_stream(trail), gy_trail_seq(trail));
        return;
    }
    const struct gy_clock *from = clock_of(trail);
    if (clock->streams == 0) {
        clock->home = from->home;
    }
    uint32_t home = clock->home;
    for (uint64_t left = from->streams; left != 0; left &= left - 1) {
        uint32_t s = (uint32_t)__builtin_ctzll(left);
        clock_add(clock, s, from->seq[s]);
    }
    clock->home = home;
}

static void unref_locked(struct gy_trail_pool *pool, uint64_t trail) GY_REQUIRES(pool->lock)
{
    if (!gy_trail_is_clock(trail)) {
        return;
    }
    struct gy_clock *clock = clock_of(trail);
    assert(is_ours(pool, trail) && clock->refs > 0);
    if (--clock->refs == 0) {
        clock->next_free = pool->free;
        pool->free = clock;
    }
}

/* A trail for both `a` (whose reference is consumed) and `b`. */
static uint64_t join_locked(struct gy_trail_pool *pool, uint64_t a, uint64_t b) GY_REQUIRES(pool->lock)
{
    if (gy_trail_is_clock(a) && clock_of(a)->refs == 1) {
        clock_add_trail(clock_of(a), b);
        assert(gy_clock_is_valid(clock_of(a)));
        return a;
    }
    struct gy_clock *clock = pool->free;
    if (clock == NULL) {
        unref_locked(pool, a);
        return GY_TRAIL_ALL;
    }
    pool->free = clock->next_free;
    clock->refs = 1;
    clock->streams = 0;
    clock_add_trail(clock, a);
    clock_add_trail(clock, b);
    unref_locked(pool, a);
    assert(gy_clock_is_valid(clock));
    return (uint64_t)(uintptr_t)clock;
}

/* The cases that need no clock; GY_TRAIL_NONE when one is needed. */
static uint64_t merge_simple(uint64_t old, uint64_t from)
{
    if (old == GY_TRAIL_ALL || from == GY_TRAIL_ALL) {
        return GY_TRAIL_ALL;
    }
    if (gy_trail_is_position(from)) {
        if (old == GY_TRAIL_NONE) {
            return from;
        }
        if (gy_trail_is_position(old) && gy_trail_stream(old) == gy_trail_stream(from)) {
            return old > from ? old : from;
        }
    }
    return GY_TRAIL_NONE;
}

static void merge_with_clock(struct gy_trail_pool *pool, _Atomic(uint64_t) *to, uint64_t from)
{
    gy_mutex_lock(&pool->lock);
    /* Clocks are only touched under the lock, so only position-to-position merges can come between: they
     * never take the trail back to NONE or turn a clock into something else. */
    uint64_t old = atomic_load(to);
    for (;;) {
        uint64_t merged;
        if (old == GY_TRAIL_ALL) {
            break;
        }
        if (old == GY_TRAIL_NONE) {
            assert(is_ours(pool, from));
            clock_of(from)->refs++;
            merged = from;
        } else {
            merged = join_locked(pool, old, from);
        }
        if (merged == old || atomic_compare_exchange_strong(to, &old, merged)) {
            break;
        }
        unref_locked(pool, merged);
    }
    gy_mutex_unlock(&pool->lock);
}

void gy_trail_merge(struct gy_trail_pool *pool, _Atomic(uint64_t) *to, uint64_t from)
{
    if (from == GY_TRAIL_NONE) {
        return;
    }
    uint64_t old = atomic_load_explicit(to, memory_order_acquire);
    uint64_t merged = merge_simple(old, from);
    while (merged != GY_TRAIL_NONE && !gy_trail_is_clock(old)) {
        if (merged == old || atomic_compare_exchange_weak(to, &old, merged)) {
            return;
        }
        merged = merge_simple(old, from);
    }
    if (from == GY_TRAIL_ALL) {
        /* `old` is a clock: give it up for ALL. */
        gy_mutex_lock(&pool->lock);
        unref_locked(pool, atomic_exchange(to, GY_TRAIL_ALL));
        gy_mutex_unlock(&pool->lock);
        return;
    }
    merge_with_clock(pool, to, from);
}

void gy_trail_drop_clock(struct gy_trail_pool *pool, uint64_t clock)
{
    gy_mutex_lock(&pool->lock);
    unref_locked(pool, clock);
    gy_mutex_unlock(&pool->lock);
}

const struct gy_clock *gy_trail_read(uint64_t trail, struct gy_clock *room)
{
    if (gy_trail_is_clock(trail)) {
        assert(gy_clock_is_valid(clock_of(trail)));
        return clock_of(trail);
    }
    room->streams = 0;
    room->home = GY_STREAMS_MAX;
    if (trail == GY_TRAIL_ALL) {
        return NULL;
    }
    if (trail != GY_TRAIL_NONE) {
        clock_add(room, gy_trail_stream(trail), gy_trail_seq(trail));
    }
    return room;
}

bool gy_clock_is_valid(const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        if (clock->seq[__builtin_ctzll(left)] == 0) {
            return false; /* the first task that finishes is number 1 */
        }
    }
    return clock->streams == 0 || clock->home < GY_STREAMS_MAX;
}
