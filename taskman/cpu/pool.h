/* SPDX-License-Identifier: MIT */
/* The pool as its client sees it: tasks go in, and what it says of the calling thread. */
#ifndef TASKMAN_CPU_POOL_H
#define TASKMAN_CPU_POOL_H

#include "taskman/cpu/bundle.h"
#include "taskman/cpu/queues.h"
#include "taskman/cpu/wake.h"
#include "taskman/cpu/worker.h"

/* Between these two calls the pool is not destroyed, even if the manager for which the thread acts is gone
 * by the end.  A worker of the pool needs neither. */
void gy_pool_enter(gantry_cpu_dispatcher *pool);
void gy_pool_leave(gantry_cpu_dispatcher *pool);

/* Queue READY CPU tasks: a list of `count` > 0 linked through `next`.  Any thread; cannot fail.  The
 * tasks may be gone when this returns. */
void gy_pool_submit(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count);

/* Where the running task notes which dependents it chooses; NULL: the calling thread does not run `task`. */
uint64_t *gy_pool_chosen(const gantry_task *task);

/* May waiting threads borrow its workers? */
bool gy_pool_lends(const gantry_cpu_dispatcher *pool);

/* A step begins, or ends. */
void gy_pool_count_running(gantry_cpu_dispatcher *pool, bool begins);

/* GANTRY_ERR_STATE inside a CPU task's body, or a callback on a thread of ours or in an inline waiter: there
 * `call`, which waits for such, would wait for ever. */
gantry_status gy_pool_check_outside(const char *call);

/* gy_thread_forks() of its workers; UINT_MAX: it has none of its own, and works anywhere. */
unsigned gy_pool_forks(const gantry_cpu_dispatcher *pool);

/* Whatever can be run now.  NULL only if every queue was seen empty; or, for a worker that has not said yet
 * that it will sleep, if another one was at the first tasks of a step. */
gantry_task *gy_worker_find(struct gy_worker *self);

/* Queue a READY plain task that the running body has made. */
static inline void gy_worker_push(struct gy_worker *self, gantry_task *task)
{
    if (self->filling.made >= GY_BUNDLE_BEHIND) {
        gy_worker_bundle(self, task);
        return;
    }
    self->filling.made++;
    if (!gy_deque_push(&self->deque, task)) {
        gy_pool_inject(self->pool, task, task, 1);
    }
    gy_worker_tell_of_task(self);
}

#endif
