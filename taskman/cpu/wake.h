/* SPDX-License-Identifier: MIT */
/* Which threads are woken up when tasks were queued, or a manager has nothing more to do. */
#ifndef TASKMAN_CPU_WAKE_H
#define TASKMAN_CPU_WAKE_H

#include "taskman/cpu/worker.h"

/* Does a worker sleep that nobody has borrowed? */
bool gy_pool_has_sleepers(gantry_cpu_dispatcher *pool);

/* There is work that nobody is woken up for; `what`: enum gy_missed. */
void gy_pool_miss(gantry_cpu_dispatcher *pool, uint32_t what);

/* Is there work for a worker that sleeps? */
bool gy_pool_has_work(gantry_cpu_dispatcher *pool);

/* So many tasks were queued: wake workers for them, if they sleep and no other worker is looking. */
void gy_pool_notify_work(gantry_cpu_dispatcher *pool, size_t count);
/* gy_pool_notify_work() for tasks that the worker can run itself. */
void gy_worker_notify_work(const struct gy_worker *self, size_t count);
/* The same for a task, or several that go together, which a body makes: this is called often. */
static inline void gy_worker_tell_of_task(const struct gy_worker *self);

/* From now on the worker has to find work by itself: it is counted in `idle` until it has found some, or
 * does something else for a while.  Then it does not see the tasks that it leaves, so another worker is
 * woken for those. */
void gy_worker_begin_looking(struct gy_worker *self);
void gy_worker_end_looking(struct gy_worker *self);
/* The worker, which looks, counts as a sleeper: it looks once more, and then sleeps, or cancels that. */
uint32_t gy_worker_prepare(struct gy_worker *self);
void gy_worker_cancel(struct gy_worker *self);

/* The condition of some gy_pool_wait() may have become true. */
void gy_pool_notify_waiters(gantry_cpu_dispatcher *pool);

/* Are `count` sleeping or idle workers more than those that are on loan, so that one of them is not?
 * `on_loan` may be -1 for a moment: when a worker wakes up before its guest was counted. */
static inline bool gy_pool_exceeds_loans(const gantry_cpu_dispatcher *pool, uint32_t count)
{
    return (int32_t)(count - atomic_load(&pool->shown.on_loan)) > 0;
}

static inline void gy_worker_tell_of_task(const struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    uint32_t sleepers = atomic_load(&pool->events.work.sleepers);
    /* A miss that was noted need not be noted again. */
    if (sleepers != 0 && (gy_pool_exceeds_loans(pool, sleepers) || atomic_load(&pool->shown.missed) == 0)) {
        gy_worker_notify_work(self, 1);
    }
}

#endif
