/* Who is woken up when tasks were queued, or a manager has nothing more to do. */
#ifndef TASKMAN_CPU_WAKE_H
#define TASKMAN_CPU_WAKE_H

#include "taskman/cpu/worker.h"

/* Does a worker sleep that nobody has borrowed? */
bool gy_pool_has_sleepers(gantry_cpu_dispatcher *pool);

/* There is work that nobody is woken up for; `what`: enum gy_missed. */
void gy_pool_miss(gantry_cpu_dispatcher *pool, uint32_t what);

/* So many tasks were queued: wake as many, if they sleep. */
void gy_pool_notify_work(gantry_cpu_dispatcher *pool, size_t count);
/* The same for tasks that the worker can run itself. */
void gy_worker_notify_work(const struct gy_worker *self, size_t count);

/* Somebody's gy_pool_wait() condition may have become true. */
void gy_pool_notify_waiters(gantry_cpu_dispatcher *pool);

/* Are `count` sleeping or idle workers more than those that are on loan, so that one of them is not?
 * `on_loan` may be -1 for a moment: when a worker wakes up before its guest was counted. */
static inline bool gy_pool_exceeds_loans(const gantry_cpu_dispatcher *pool, uint32_t count)
{
    return (int32_t)(count - atomic_load(&pool->on_loan)) > 0;
}

#endif
