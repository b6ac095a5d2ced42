/* How a step begins: its first tasks are not queued one by one, workers take shares of them and run those
 * directly.
 *
 * A share is a part of a frozen graph's first tasks, or of all tasks of a graph that runs for the first time:
 * the worker then takes the start's reference from each and runs those that have no other.
 *
 * A share is small against what is left, so that all workers end at about the same time.  What a worker has
 * taken nobody can steal; it gives the rest of its share away when it comes to look at it while another
 * worker has nothing to do.  That is after each task, or every so many as long as those make others ready. */
#include "taskman/cpu/start_batch.h"

#include "taskman/cpu/account.h"
#include "taskman/cpu/client.h"
#include "taskman/graph/graph.h"

enum {
    BLOCK_MOST = 64, /* tasks in one share */
    AHEAD = 6,       /* tasks to prefetch ahead of the one that runs */
};

bool gy_pool_fetches(const gantry_cpu_dispatcher *pool)
{
    return pool->host.submit == NULL;
}

/* How many of `left` tasks make a share. */
static size_t share_of(const gantry_cpu_dispatcher *pool, size_t left)
{
    size_t workers = pool->worker_count > 1 ? pool->worker_count : 1;
    size_t count = pool->worker_count == 1 ? left : left / (2 * workers);
    return count < 1 ? 1 : count > BLOCK_MOST ? BLOCK_MOST : count;
}

/* Cut `count` tasks at most off the job. */
static struct gy_block cut_block(struct gy_start_job *job, size_t count)
{
    struct gy_block block = {.owner = job->owner, .roots = job->roots, .left = count};
    if (job->roots != NULL) {
        job->roots += count;
    } else {
        if (job->at == job->chunk->capacity) {
            job->chunk = job->chunk->next;
            job->at = 0;
        }
        size_t here = job->chunk->capacity - job->at;
        block.left = count < here ? count : here;
        block.first = &job->chunk->tasks[job->at];
        job->at += block.left;
    }
    job->left -= block.left;
    return block;
}

void gy_pool_start(gantry_cpu_dispatcher *pool, struct gy_start_job *job, struct gy_worker *self)
{
    if (self != NULL) {
        self->block = cut_block(job, share_of(pool, job->left));
        if (job->left == 0) {
            return;
        }
        atomic_fetch_add_explicit(&job->owner->work, GY_WORK_ACTIVE, memory_order_relaxed);
    }
    size_t left = job->left;
    job->next = NULL;
    gy_mutex_lock(&pool->inject_lock);
    if (atomic_load_explicit(&pool->jobs, memory_order_relaxed) == NULL) {
        atomic_store(&pool->jobs, job);
    } else {
        pool->last_job->next = job;
    }
    pool->last_job = job;
    gy_mutex_unlock(&pool->inject_lock);
    if (self != NULL) {
        gy_worker_notify_work(self, left);
    } else {
        gy_pool_notify_work(pool, left);
    }
}

/* Take the next share of the first job.  The job's own place among the active goes to its last share. */
static bool take_share(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (atomic_load(&pool->jobs) == NULL) {
        return false;
    }
    gy_mutex_lock(&pool->inject_lock);
    struct gy_start_job *job = atomic_load_explicit(&pool->jobs, memory_order_relaxed);
    if (job != NULL && self->only != NULL && job->owner != self->only) {
        job = NULL; /* not for somebody who stands in for another manager's sake */
    }
    if (job != NULL) {
        self->block = cut_block(job, share_of(pool, job->left));
        if (job->left == 0) {
            atomic_store(&pool->jobs, job->next);
        } else {
            atomic_fetch_add_explicit(&job->owner->work, GY_WORK_ACTIVE, memory_order_relaxed);
        }
    }
    gy_mutex_unlock(&pool->inject_lock);
    return job != NULL;
}

/* The next task of the share, READY and counted as active; NULL when it waits for something. */
static gantry_task *take_from_block(struct gy_worker *self)
{
    struct gy_block *block = &self->block;
    gantry_task *task;
    block->left--;
    if (block->roots != NULL) {
        task = *block->roots++;
        if (block->left >= AHEAD) {
            __builtin_prefetch(block->roots[AHEAD - 1], 1);
        }
    } else {
        task = block->first++;
        __builtin_prefetch(task + AHEAD, 1);
        if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) != 1) {
            return NULL;
        }
    }
    gy_worker_claim_active(self, block->owner);
    gy_task_become_ready(task);
    return task;
}

gantry_task *gy_worker_next_of_block(struct gy_worker *self)
{
    while (self->block.left != 0 || take_share(self)) {
        gantry_task *task = take_from_block(self);
        if (self->block.left == 0) {
            gy_worker_owe(self, self->block.owner, GY_WORK_ACTIVE); /* a task found keeps the manager */
        }
        if (task != NULL) {
            return task;
        }
    }
    return NULL;
}

void gy_worker_share_block(struct gy_worker *self)
{
    struct gy_ready ready = {0};
    if (self->block.left == 0) {
        return;
    }
    while (self->block.left != 0) {
        gantry_task *task = take_from_block(self);
        if (task != NULL) {
            gy_ready_sort(&ready, task);
        }
    }
    gy_ready_dispatch(self->block.owner, &ready);
    gy_worker_owe(self, self->block.owner, GY_WORK_ACTIVE);
}

gantry_task *gy_worker_turn_to_block(struct gy_worker *self)
{
    bool is_new = self->block.left == 0 && take_share(self);
    if (is_new || gy_worker_may_share(self)) {
        gy_worker_share_block(self);
        return gy_deque_take(&self->deque);
    }
    return self->block.left != 0 ? gy_worker_next_of_block(self) : NULL;
}
