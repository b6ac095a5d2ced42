#include "dispatcher/order/wait_set.h"

#include "base/alloc.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

static struct gy_clock *clock_of(uint64_t wait_set)
{
    return (struct gy_clock *)(uintptr_t)wait_set; /* NOLINT: the encoding of wait_set.h */
}

#ifndef NDEBUG
/* While its work is enqueued a task has no wait set, but a mark: see struct gantry_task. */
static bool is_ours(const struct gy_wait_set_pool *pool, uint64_t wait_set)
{
    const struct gy_clock *clock = clock_of(wait_set);
    return clock >= pool->all && clock < pool->all + pool->count;
}
#endif

gantry_status gy_wait_set_pool_init(struct gy_wait_set_pool *pool, uint32_t clocks)
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
    gy_mutex_init(&pool->lock, GY_RANK_WAIT_SETS);
    return GANTRY_OK;
}

void gy_wait_set_pool_fini(struct gy_wait_set_pool *pool)
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

static void clock_add_wait_set(struct gy_clock *clock, uint64_t wait_set)
{
    if (gy_wait_set_is_point(wait_set)) {
        clock_add(clock, gy_timeline_stream(wait_set), gy_timeline_seq(wait_set));
        return;
    }
    const struct gy_clock *from = clock_of(wait_set);
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

static void unref_locked(struct gy_wait_set_pool *pool, uint64_t wait_set) GY_REQUIRES(pool->lock)
{
    if (!gy_wait_set_is_clock(wait_set)) {
        return;
    }
    struct gy_clock *clock = clock_of(wait_set);
    assert(is_ours(pool, wait_set) && clock->refs > 0);
    if (--clock->refs == 0) {
        clock->next_free = pool->free;
        pool->free = clock;
    }
}

/* A wait set for both `a` (whose reference is consumed) and `b`. */
static uint64_t join_locked(struct gy_wait_set_pool *pool, uint64_t a, uint64_t b) GY_REQUIRES(pool->lock)
{
    if (gy_wait_set_is_clock(a) && clock_of(a)->refs == 1) {
        clock_add_wait_set(clock_of(a), b);
        assert(gy_clock_is_valid(clock_of(a)));
        return a;
    }
    struct gy_clock *clock = pool->free;
    if (clock == NULL) {
        unref_locked(pool, a);
        return GY_WAIT_SET_ALL;
    }
    pool->free = clock->next_free;
    clock->refs = 1;
    clock->streams = 0;
    clock_add_wait_set(clock, a);
    clock_add_wait_set(clock, b);
    unref_locked(pool, a);
    assert(gy_clock_is_valid(clock));
    return (uint64_t)(uintptr_t)clock;
}

/* The cases that need no clock; GY_WAIT_SET_NONE when one is needed. */
static uint64_t merge_simple(uint64_t old, uint64_t from)
{
    if (old == GY_WAIT_SET_ALL || from == GY_WAIT_SET_ALL) {
        return GY_WAIT_SET_ALL;
    }
    if (gy_wait_set_is_point(from)) {
        if (old == GY_WAIT_SET_NONE) {
            return from;
        }
        if (gy_wait_set_is_point(old) && gy_timeline_stream(old) == gy_timeline_stream(from)) {
            return old > from ? old : from;
        }
    }
    return GY_WAIT_SET_NONE;
}

static void merge_with_clock(struct gy_wait_set_pool *pool, _Atomic(uint64_t) *to, uint64_t from)
{
    gy_mutex_lock(&pool->lock);
    /* Clocks are only touched under the lock, so only merges of two points can come between: they
     * never take the wait set back to NONE or turn a clock into something else. */
    uint64_t old = atomic_load(to);
    for (;;) {
        uint64_t merged;
        if (old == GY_WAIT_SET_ALL) {
            break;
        }
        if (old == GY_WAIT_SET_NONE) {
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

void gy_wait_set_merge(struct gy_wait_set_pool *pool, _Atomic(uint64_t) *to, uint64_t from)
{
    if (from == GY_WAIT_SET_NONE) {
        return;
    }
    uint64_t old = atomic_load_explicit(to, memory_order_acquire);
    uint64_t merged = merge_simple(old, from);
    while (merged != GY_WAIT_SET_NONE && !gy_wait_set_is_clock(old)) {
        if (merged == old || atomic_compare_exchange_weak(to, &old, merged)) {
            return;
        }
        merged = merge_simple(old, from);
    }
    if (from == GY_WAIT_SET_ALL) {
        /* `old` is a clock: give it up for ALL. */
        gy_mutex_lock(&pool->lock);
        unref_locked(pool, atomic_exchange(to, GY_WAIT_SET_ALL));
        gy_mutex_unlock(&pool->lock);
        return;
    }
    merge_with_clock(pool, to, from);
}

void gy_wait_set_drop_clock(struct gy_wait_set_pool *pool, uint64_t clock)
{
    gy_mutex_lock(&pool->lock);
    unref_locked(pool, clock);
    gy_mutex_unlock(&pool->lock);
}

const struct gy_clock *gy_wait_set_read(uint64_t wait_set, struct gy_clock *room)
{
    if (gy_wait_set_is_clock(wait_set)) {
        assert(gy_clock_is_valid(clock_of(wait_set)));
        return clock_of(wait_set);
    }
    room->streams = 0;
    room->home = GY_STREAMS_MAX;
    if (wait_set == GY_WAIT_SET_ALL) {
        return NULL;
    }
    if (wait_set != GY_WAIT_SET_NONE) {
        clock_add(room, gy_timeline_stream(wait_set), gy_timeline_seq(wait_set));
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
