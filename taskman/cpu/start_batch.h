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

/* False: this pool has no workers to fetch them. */
bool gy_pool_fetches(const gantry_cpu_dispatcher *pool);

/* Only for a pool that fetches.  `self`: the worker that the caller stands in for, who takes the first share;
 * NULL: none. */
void gy_pool_start(gantry_cpu_dispatcher *pool, struct gy_start_job *job, struct gy_worker *self);

/* The next task that the worker's block makes ready, taking another block when it is used up.
 */
gantry_task *gy_worker_next_of_block(struct gy_worker *self);
/* Let go of the rest of the block, for others to take. */
void gy_worker_share_block(struct gy_worker *self);
/* For who has a queue and other tasks, now and then: one of its block, or, where that is new
 * or others have nothing to do, of its queue, where all of the block is now.  NULL: there was none. */
gantry_task *gy_worker_turn_to_block(struct gy_worker *self);

/* Has it more of its block than it runs next, and do others have nothing to do? */
static inline bool gy_worker_may_share(const struct gy_worker *self)
{
    return self->block.left > 1 &&
           gy_pool_lends_fewer(self->pool, atomic_load_explicit(&self->pool->idle, memory_order_relaxed));
}

#endif
