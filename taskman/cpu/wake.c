/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/wake.h"

#include "base/point.h"

#include <assert.h>

enum {
    AT_ONCE = 8,  /* so many tasks that come together wake as many workers at once */
    AWAKENED = 8, /* else one in so many workers may be on its way at the same time, and one more */
};

bool gy_pool_has_sleepers(gantry_cpu_dispatcher *pool)
{
    return gy_pool_exceeds_loans(pool, atomic_load(&pool->events.work.sleepers));
}

/* There is work that nobody is woken up for. */
void gy_pool_miss(gantry_cpu_dispatcher *pool, uint32_t what)
{
    uint32_t before = atomic_load(&pool->shown.missed);
    while (before < what && !atomic_compare_exchange_weak(&pool->shown.missed, &before, what)) {
    }
}

/* Is a worker awake that has nothing to do?  It looks at all queues before it sleeps, and passes on what it
 * leaves (gy_worker_end_looking()).  `sleepers` was read after the news was made: a worker that was awake
 * then has not looked for the last time. */
static bool is_looked_for(const gantry_cpu_dispatcher *pool, uint32_t sleepers)
{
    return (int32_t)(atomic_load(&pool->idle) - sleepers) > 0;
}

/* One task wakes one worker at most, and none while others look for work: else a body that makes many small
 * tasks would wake a worker for each, and all of them would take the event's lock. */
static void notify(gantry_cpu_dispatcher *pool, size_t count, uint32_t what)
{
    gy_point(GY_POINT_EVENT_NOTIFY, &pool->events.work);
    uint32_t sleepers = atomic_load(&pool->events.work.sleepers);
    if (sleepers == 0) {
        return;
    }
    if (!gy_pool_exceeds_loans(pool, sleepers)) {
        gy_pool_miss(pool, what);
        if (!gy_pool_has_sleepers(pool)) {
            return;
        }
    }
    if (pool->inline_only || count >= AT_ONCE) {
        gy_event_notify(&pool->events.work, count < GY_MOST_WORKERS ? (uint32_t)count : GY_MOST_WORKERS);
    } else if (!is_looked_for(pool, sleepers)) {
        gy_event_wake_one(&pool->events.work, 1 + pool->worker_count / AWAKENED);
    }
}

bool gy_pool_has_work(gantry_cpu_dispatcher *pool)
{
    bool any = atomic_load(&pool->shown.jobs) != NULL || atomic_load(&pool->shown.inject_count) != 0 ||
               atomic_load(&pool->shown.urgent_count) != 0 || atomic_load(&pool->shown.low_count) != 0 ||
               atomic_load(&pool->shown.loops) != NULL;
    for (uint32_t i = 0; i < pool->worker_count && !any; i++) {
        any = gy_deque_has_tasks(&pool->workers[i].deque);
    }
    for (uint32_t i = 0; i < pool->worker_count && !any; i++) {
        any = atomic_load(&pool->workers[i].bundle) != NULL;
    }
    return any;
}

void gy_pool_notify_work(gantry_cpu_dispatcher *pool, size_t count)
{
    notify(pool, count, GY_MISSED_OF_OTHERS);
}

void gy_worker_notify_work(const struct gy_worker *self, size_t count)
{
    notify(self->pool, count, self->only_owner != NULL ? GY_MISSED : GY_MISSED_OF_OTHERS);
}

void gy_worker_begin_looking(struct gy_worker *self)
{
    gy_worker_enter_search(self, GY_SEARCH_ON);
    atomic_fetch_add(&self->pool->idle, 1);
}

void gy_worker_end_looking(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    assert(gy_worker_is_valid(self));
    gy_worker_cancel(self);
    if (self->search == GY_SEARCH_OFF) {
        return;
    }
    gy_worker_enter_search(self, GY_SEARCH_OFF);
    atomic_fetch_sub(&pool->idle, 1);
    gy_point(GY_POINT_WORKER_FOUND, pool);
    if (atomic_load(&pool->events.work.sleepers) != 0 && gy_pool_has_work(pool)) {
        gy_worker_notify_work(self, 1);
    }
}

uint32_t gy_worker_prepare(struct gy_worker *self)
{
    gy_worker_enter_search(self, GY_SEARCH_LAST_LOOK);
    return gy_event_prepare(&self->pool->events.work);
}

void gy_worker_cancel(struct gy_worker *self)
{
    if (self->search == GY_SEARCH_LAST_LOOK) {
        gy_worker_enter_search(self, GY_SEARCH_ON);
        gy_event_cancel(&self->pool->events.work);
    }
}

void gy_pool_notify_waiters(gantry_cpu_dispatcher *pool)
{
    gy_event_notify(pool->inline_only ? &pool->events.work : &pool->events.done, UINT32_MAX);
}
