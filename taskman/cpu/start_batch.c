/* SPDX-License-Identifier: MIT */
/* Start batches: the first tasks of a step are not queued one by one; workers take batches of them and run
 * these directly.
 *
 * A batch is a part of a frozen graph's first tasks, or of all tasks of a graph that runs for the first time:
 * the worker then takes the start's reference from each and runs those that have no other.
 *
 * A batch is small compared with the tasks that are left, so that all workers end at about the same time.
 * Nobody can steal from a batch; its worker gives the rest away when it looks at the batch while another
 * worker has nothing to do.  It looks after each task, or every so many tasks as long as those make others
 * ready. */
#include "taskman/cpu/start_batch.h"

#include "taskman/cpu/account.h"
#include "taskman/cpu/bundle.h"
#include "taskman/cpu/client.h"
#include "taskman/graph/graph.h"

#include <assert.h>

enum {
    BATCH_MOST = 64, /* tasks in one batch */
    LOCK_TRIES = 24, /* tries for the lock, with as many pauses before the last one */
    AHEAD = 6,       /* tasks to prefetch ahead of the one that runs */
};

bool gy_pool_fetches(const gantry_cpu_dispatcher *pool)
{
    return pool->host.submit == NULL;
}

bool gy_start_job_is_valid(const struct gy_start_job *job)
{
    return job->owner != NULL && (job->left == 0 || (job->roots != NULL) != (job->chunk != NULL)) &&
           (job->chunk == NULL || job->at <= job->chunk->capacity);
}

/* The number of tasks out of `left` that make a batch. */
static size_t batch_size(const gantry_cpu_dispatcher *pool, size_t left)
{
    size_t workers = pool->worker_count > 1 ? pool->worker_count : 1;
    size_t count = pool->worker_count == 1 ? left : left / (2 * workers);
    return count < 1 ? 1 : count > BATCH_MOST ? BATCH_MOST : count;
}

/* Cut at most `count` tasks off the job. */
static struct gy_start_batch cut_batch(struct gy_start_job *job, size_t count)
{
    struct gy_start_batch batch = {.owner = job->owner, .roots = job->roots, .left = count};
    if (job->roots != NULL) {
        job->roots += count;
    } else {
        if (job->at == job->chunk->capacity) {
            job->chunk = job->chunk->next;
            job->at = 0;
        }
        size_t here = job->chunk->capacity - job->at;
        batch.left = count < here ? count : here;
        batch.first = &job->chunk->tasks[job->at];
        job->at += batch.left;
    }
    job->left -= batch.left;
    assert(gy_start_batch_is_valid(&batch) && gy_start_job_is_valid(job));
    return batch;
}

void gy_pool_start(gantry_cpu_dispatcher *pool, struct gy_start_job *job, struct gy_worker *self)
{
    assert(job->left != 0 && gy_start_job_is_valid(job));
    if (self != NULL) {
        self->batch = cut_batch(job, batch_size(pool, job->left));
        if (job->left == 0) {
            return;
        }
        atomic_fetch_add_explicit(&job->owner->work, GY_WORK_ACTIVE, memory_order_relaxed);
    }
    size_t left = job->left;
    job->next = NULL;
    gy_mutex_lock(&pool->inject_lock);
    if (atomic_load_explicit(&pool->shown.jobs, memory_order_relaxed) == NULL) {
        atomic_store(&pool->shown.jobs, job);
    } else {
        pool->queues.last_job->next = job;
    }
    pool->queues.last_job = job;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (self != NULL) {
        gy_worker_notify_work(self, left);
    } else {
        gy_pool_notify_work(pool, left);
    }
}

/* At the begin of a step all workers come at once.  A worker that will look again before it sleeps tries for
 * a while, and then looks elsewhere: a thread that falls asleep on a lock has to be woken by the lock's
 * holder, which takes longer than the batch.  False: the worker has not got the lock. */
static bool lock_jobs(const struct gy_worker *self) GY_NO_ANALYSIS
{
    gantry_cpu_dispatcher *pool = self->pool;
    bool looks_again = self->has_deque && self->only_owner == NULL && self->search != GY_SEARCH_LAST_LOOK &&
                       !atomic_load(&pool->shown.stopping);
    if (!looks_again) {
        gy_mutex_lock(&pool->inject_lock);
        return true;
    }
    for (uint32_t tries = 0; tries < LOCK_TRIES; tries++) {
        if (gy_mutex_try_lock(&pool->inject_lock)) {
            return true;
        }
        for (uint32_t pauses = 0; pauses < tries; pauses++) {
            gy_cpu_relax();
        }
    }
    return false;
}

/* Take the next batch of the first job.  The job counts as active work itself; its last batch takes over that
 * count. */
static bool take_batch(struct gy_worker *self) GY_NO_ANALYSIS
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (atomic_load(&pool->shown.jobs) == NULL || !lock_jobs(self)) {
        return false;
    }
    struct gy_start_job *job = atomic_load_explicit(&pool->shown.jobs, memory_order_relaxed);
    if (job != NULL && self->only_owner != NULL && job->owner != self->only_owner) {
        job = NULL; /* a guest waits for another manager */
    }
    if (job != NULL) {
        self->batch = cut_batch(job, batch_size(pool, job->left));
        if (job->left == 0) {
            atomic_store(&pool->shown.jobs, job->next);
        } else {
            atomic_fetch_add_explicit(&job->owner->work, GY_WORK_ACTIVE, memory_order_relaxed);
        }
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    return job != NULL;
}

/* The next task of the batch, READY and counted as active; NULL when it waits for something. */
static gantry_task *take_from_batch(struct gy_worker *self)
{
    struct gy_start_batch *batch = &self->batch;
    gantry_task *task;
    assert(batch->left != 0 && gy_start_batch_is_valid(batch));
    batch->left--;
    if (batch->roots != NULL) {
        task = *batch->roots++;
        if (batch->left >= AHEAD) {
            __builtin_prefetch(batch->roots[AHEAD - 1], 1);
        }
    } else {
        task = batch->first++;
        __builtin_prefetch(task + AHEAD, 1);
        if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) != 1) {
            return NULL;
        }
    }
    gy_worker_claim_active(self, batch->owner, 1);
    gy_task_become_ready(task);
    return task;
}

gantry_task *gy_worker_next_of_batch(struct gy_worker *self)
{
    while (self->batch.left != 0 || take_batch(self)) {
        gantry_task *task = take_from_batch(self);
        if (self->batch.left == 0) {
            gy_worker_owe(self, self->batch.owner,
                          GY_WORK_ACTIVE); /* the task that was found keeps the manager */
        }
        if (task != NULL) {
            return task;
        }
    }
    return NULL;
}

void gy_worker_share_batch(struct gy_worker *self)
{
    assert(gy_worker_is_valid(self) && gy_start_batch_is_valid(&self->batch));
    struct gy_ready ready = {0};
    if (self->batch.left == 0) {
        return;
    }
    while (self->batch.left != 0) {
        gantry_task *task = take_from_batch(self);
        if (task != NULL) {
            gy_ready_sort(&ready, task);
        }
    }
    gy_ready_dispatch(self->batch.owner, &ready);
    gy_worker_owe(self, self->batch.owner, GY_WORK_ACTIVE);
}

gantry_task *gy_worker_turn_to_batch(struct gy_worker *self)
{
    bool is_new = self->batch.left == 0 && take_batch(self);
    if (is_new || gy_worker_may_share(self)) {
        gy_worker_share_batch(self);
        return gy_worker_take(self);
    }
    return self->batch.left != 0 ? gy_worker_next_of_batch(self) : NULL;
}
