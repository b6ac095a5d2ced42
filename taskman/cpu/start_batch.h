/* SPDX-License-Identifier: MIT */
/* How a step begins: its first tasks are not queued one by one, workers take batches of them. */
#ifndef TASKMAN_CPU_START_BATCH_H
#define TASKMAN_CPU_START_BATCH_H

#include "taskman/cpu/wake.h"
#include "taskman/cpu/worker.h"

/* The tasks of a step that begins, to be fetched by the workers themselves.  The job counts as active in
 * `work` until the last is fetched, and must stay that long. */
struct gy_start_job {
    struct gy_start_job *next; /* guarded by the pool's injection lock, like all that changes */
    struct gy_task_owner *owner;
    gantry_task *const *roots; /* plain CPU tasks to be made READY and counted as active; NULL: see `chunk` */
    struct gy_task_chunk
        *chunk;  /* of plain CPU tasks that lose the start's reference; and the chunks behind */
    size_t at;   /* the next in `chunk` */
    size_t left; /* > 0 */
};

/* Are the job's remaining tasks where it says? */
bool gy_start_job_is_valid(const struct gy_start_job *job);

/* False: this pool has no workers to fetch them. */
bool gy_pool_fetches(const gantry_cpu_dispatcher *pool);

/* Only for a pool that fetches.  `self`: the worker that the caller has borrowed, which takes the first
 * batch; NULL: none. */
void gy_pool_start(gantry_cpu_dispatcher *pool, struct gy_start_job *job, struct gy_worker *self);

/* The next task that the worker's batch makes ready; the worker takes another batch when that is used up.
 */
gantry_task *gy_worker_next_of_batch(struct gy_worker *self);
/* Queue the rest of the batch, for others to take. */
void gy_worker_share_batch(struct gy_worker *self);
/* Now and then a worker with other tasks turns to its batch: it gets a task of it.  When the batch is new or
 * others have nothing to do, the whole batch goes into the worker's deque first.  NULL: there was no task. */
gantry_task *gy_worker_turn_to_batch(struct gy_worker *self);

/* Has the worker more in its batch than it runs next, while others have nothing to do? */
static inline bool gy_worker_may_share(const struct gy_worker *self)
{
    return self->batch.left > 1 &&
           gy_pool_exceeds_loans(self->pool, atomic_load_explicit(&self->pool->idle, memory_order_relaxed));
}

#endif
