/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/crossing.h"

#include "base/alloc.h"
#include "dispatcher/order/export.h"

#include <assert.h>
#include <string.h>

void gy_crossings_init(struct gy_crossing_pool *pool, uint32_t devices)
{
    assert(devices >= 1 && devices <= GY_FLEET_MAX);
    gy_mutex_init(&pool->lock, GY_RANK_WAIT_SETS);
    pool->devices = devices;
    pool->free = pool->all = NULL;
}

void gy_crossings_fini(struct gy_crossing_pool *pool)
{
    gy_mutex_fini(&pool->lock);
    for (struct gy_crossing *crossing = pool->all, *next; crossing != NULL; crossing = next) {
        next = crossing->next;
        assert(crossing->refs == 0);
        gy_free(crossing);
    }
}

static uint64_t wait_set_of(struct gy_crossing *crossing)
{
    return (uint64_t)(uintptr_t)crossing | GY_WAIT_SET_CROSSING;
}

/* An empty crossing with one reference; NULL: out of host memory.  There are soon as many as are needed at a
 * time. */
static struct gy_crossing *take_locked(struct gy_crossing_pool *pool) GY_REQUIRES(pool->lock)
{
    struct gy_crossing *crossing = pool->free;
    if (crossing != NULL) {
        pool->free = crossing->next_free;
    } else {
        crossing = gy_zalloc(sizeof(*crossing) + pool->devices * sizeof(crossing->of[0]));
        if (crossing == NULL) {
            return NULL;
        }
        crossing->pool = pool;
        crossing->next = pool->all;
        pool->all = crossing;
        for (uint32_t e = 0; e < pool->devices; e++) {
            crossing->of[e].crossing = crossing;
        }
    }
    for (uint32_t e = 0; e < pool->devices; e++) {
        gy_clock_clear(&crossing->of[e]);
    }
    memset(crossing->exports, 0, sizeof(crossing->exports));
    crossing->refs = 1;
    crossing->home = pool->devices;
    crossing->visits = crossing->orders = 0;
    crossing->bound = GY_BOUND_NONE;
    return crossing;
}

static void give_locked(struct gy_crossing_pool *pool, struct gy_crossing *crossing) GY_REQUIRES(pool->lock)
{
    crossing->next_free = pool->free;
    pool->free = crossing;
}

/* A reference less of one that is carried: it holds no exports. */
static void unref_locked(struct gy_crossing_pool *pool, uint64_t wait_set) GY_REQUIRES(pool->lock)
{
    if (gy_wait_set_is_crossing(wait_set) && --gy_crossing_of(wait_set)->refs == 0) {
        give_locked(pool, gy_crossing_of(wait_set));
    }
}

static void add_wait_set(struct gy_crossing *crossing, uint64_t wait_set)
{
    const uint32_t none = crossing->pool->devices;
    if (gy_wait_set_is_point(wait_set)) {
        uint32_t device = gy_timeline_device(wait_set);
        crossing->home = crossing->home == none ? device : crossing->home;
        gy_clock_add(&crossing->of[device], gy_timeline_stream(wait_set), gy_timeline_seq(wait_set));
        return;
    }
    const struct gy_crossing *from = gy_crossing_behind(wait_set);
    for (uint32_t e = 0; from != NULL && e < none; e++) {
        gy_clock_add_clock(&crossing->of[e], &from->of[e]);
    }
    crossing->home = crossing->home == none && from != NULL ? from->home : crossing->home;
}

/* Two points of one stream, or one where there was nothing; GY_WAIT_SET_NONE: it is not so simple. */
static uint64_t merge_simple(uint64_t old, uint64_t from)
{
    const uint64_t place = 0x1fff; /* device and stream */
    if (!gy_wait_set_is_point(from) || (old != GY_WAIT_SET_NONE && ((old ^ from) & place) != 0)) {
        return GY_WAIT_SET_NONE;
    }
    return old > from ? old : from;
}

/* A wait set for both; GY_WAIT_SET_NONE: out of host memory. */
static uint64_t join_locked(struct gy_crossing_pool *pool, uint64_t old, uint64_t from)
    GY_REQUIRES(pool->lock)
{
    if (gy_wait_set_is_crossing(old) && gy_crossing_of(old)->refs == 1) {
        add_wait_set(gy_crossing_of(old), from);
        return old;
    }
    if (old == GY_WAIT_SET_NONE && gy_wait_set_is_crossing(from)) {
        gy_crossing_of(from)->refs++;
        return from;
    }
    struct gy_crossing *crossing = take_locked(pool);
    if (crossing == NULL) {
        return GY_WAIT_SET_NONE;
    }
    add_wait_set(crossing, old);
    add_wait_set(crossing, from);
    return wait_set_of(crossing);
}

bool gy_crossing_merge(struct gy_crossing_pool *pool, _Atomic(uint64_t) *to, uint64_t from)
{
    uint64_t old = atomic_load_explicit(to, memory_order_acquire);
    for (uint64_t merged; (merged = merge_simple(old, from)) != GY_WAIT_SET_NONE;) {
        if (merged == old || atomic_compare_exchange_weak(to, &old, merged)) {
            return true;
        }
    }
    gy_mutex_lock(&pool->lock);
    /* Crossings are only touched under the lock, so only a merge of points can come between. */
    uint64_t merged = GY_WAIT_SET_NONE;
    old = atomic_load(to);
    for (;;) {
        merged = join_locked(pool, old, from);
        if (merged == GY_WAIT_SET_NONE || merged == old) {
            break;
        }
        uint64_t seen = old;
        if (atomic_compare_exchange_strong(to, &seen, merged)) {
            unref_locked(pool, old);
            break;
        }
        unref_locked(pool, merged);
        old = seen;
    }
    gy_mutex_unlock(&pool->lock);
    return merged != GY_WAIT_SET_NONE;
}

struct gy_crossing *gy_crossing_own(struct gy_crossing_pool *pool, _Atomic(uint64_t) *at)
{
    uint64_t old = atomic_load_explicit(at, memory_order_acquire);
    gy_mutex_lock(&pool->lock);
    struct gy_crossing *crossing = NULL;
    if (gy_wait_set_is_crossing(old) && gy_crossing_of(old)->refs == 1) {
        crossing = gy_crossing_of(old);
    } else {
        crossing = take_locked(pool);
        if (crossing != NULL) {
            add_wait_set(crossing, old);
            unref_locked(pool, old);
            atomic_store_explicit(at, wait_set_of(crossing), memory_order_release);
        }
    }
    gy_mutex_unlock(&pool->lock);
    return crossing;
}

void gy_crossing_drop(struct gy_crossing *crossing)
{
    struct gy_crossing_pool *pool = crossing->pool;
    gy_mutex_lock(&pool->lock);
    bool is_last = --crossing->refs == 0;
    gy_mutex_unlock(&pool->lock);
    if (!is_last) {
        return;
    }
    for (uint32_t e = 0; e < pool->devices; e++) {
        gy_export_unref(crossing->exports[e]);
    }
    gy_mutex_lock(&pool->lock);
    give_locked(pool, crossing);
    gy_mutex_unlock(&pool->lock);
}

bool gy_crossing_is_valid(const struct gy_crossing *crossing)
{
    for (uint32_t e = 0; e < crossing->pool->devices; e++) {
        if (!gy_clock_is_valid(&crossing->of[e]) ||
            (crossing->exports[e] != NULL && (crossing->visits >> e & 1u) != 0)) {
            return false;
        }
    }
    return crossing->home <= crossing->pool->devices && (crossing->visits >> crossing->pool->devices) == 0;
}
