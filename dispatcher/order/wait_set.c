/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/wait_set.h"

#include "base/alloc.h"
#include "base/status.h"
#include "dispatcher/order/crossing.h"

#include <assert.h>
#include <string.h>

#ifndef NDEBUG
/* While its work is enqueued a task has no wait set, but a mark: see struct gantry_task. */
static bool is_ours(const struct gy_wait_set_pool *pool, uint64_t wait_set)
{
    const struct gy_clock *clock = gy_clock_of(wait_set);
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

static void clock_add_wait_set(struct gy_clock *clock, uint64_t wait_set)
{
    if (gy_wait_set_is_point(wait_set)) {
        gy_clock_add(clock, gy_timeline_stream(wait_set), gy_timeline_seq(wait_set));
        return;
    }
    gy_clock_add_clock(clock, gy_clock_of(wait_set));
}

static void unref_locked(struct gy_wait_set_pool *pool, uint64_t wait_set) GY_REQUIRES(pool->lock)
{
    if (!gy_wait_set_is_clock(wait_set)) {
        return;
    }
    struct gy_clock *clock = gy_clock_of(wait_set);
    assert(is_ours(pool, wait_set) && clock->refs > 0);
    if (--clock->refs == 0) {
        clock->next_free = pool->free;
        pool->free = clock;
    }
}

/* A wait set for both `a` (whose reference is consumed) and `b`. */
static uint64_t join_locked(struct gy_wait_set_pool *pool, uint64_t a, uint64_t b) GY_REQUIRES(pool->lock)
{
    if (gy_wait_set_is_clock(a) && gy_clock_of(a)->refs == 1) {
        clock_add_wait_set(gy_clock_of(a), b);
        assert(gy_clock_is_valid(gy_clock_of(a)));
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
            gy_clock_of(from)->refs++;
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
    if (__builtin_expect(gy_clock_of(clock)->crossing != NULL, 0)) {
        gy_crossing_drop(gy_clock_of(clock)->crossing);
        return;
    }
    gy_mutex_lock(&pool->lock);
    unref_locked(pool, clock);
    gy_mutex_unlock(&pool->lock);
}

const struct gy_clock *gy_wait_set_read(uint64_t wait_set, struct gy_clock *room)
{
    if (gy_wait_set_is_clock(wait_set)) {
        assert(gy_clock_is_valid(gy_clock_of(wait_set)));
        return gy_clock_of(wait_set);
    }
    gy_clock_clear(room);
    room->crossing = NULL;
    if (wait_set == GY_WAIT_SET_ALL) {
        return NULL;
    }
    if (wait_set != GY_WAIT_SET_NONE) {
        gy_clock_add(room, gy_timeline_stream(wait_set), gy_timeline_seq(wait_set));
    }
    return room;
}
