/* The workers behind a gantry_cpu_dispatcher, and how everybody in taskman/ sleeps and wakes. */
#ifndef TASKMAN_CPU_POOL_H
#define TASKMAN_CPU_POOL_H

#include "taskman/graph/task.h"

struct gy_worker;

/* Between these two the pool is not destroyed, although the manager on whose behalf we act may be gone
 * by the end.  Workers of the pool need no more than being workers. */
void gy_pool_enter(gantry_cpu_dispatcher *pool);
void gy_pool_leave(gantry_cpu_dispatcher *pool);

/* Queue READY CPU tasks: a list of `count` > 0 linked through gpu.next.  Any thread; cannot fail.  The
 * tasks may be gone when this returns. */
void gy_pool_submit(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count);

/* Queue READY CPU tasks that have GY_TRAIT_QUEUED, linked through gpu.next.  Otherwise as above. */
void gy_pool_queue(gantry_cpu_dispatcher *pool, gantry_task *first);

/* The tasks of a step that begins, to be fetched by the workers themselves.  The job counts as active in
 * `work` until the last is fetched, and must stay that long. */
struct gy_start_job {
    struct gy_start_job *next; /* guarded by the pool's injection lock, like all that changes */
    gantry_taskman *manager;
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

/* Where the task that the calling thread runs notes what it chooses; NULL when it does not run `task`. */
uint64_t *gy_pool_chosen(const gantry_task *task);

uint32_t gy_pool_class_count(const gantry_cpu_dispatcher *pool);

/* CPU tasks are likely to come within `ns`: if workers sleep when idle, but not at once, then one of them
 * stays awake for them, or wakes up.  Any thread. */
void gy_pool_expect(gantry_cpu_dispatcher *pool, uint64_t ns);

/* Somebody's gy_pool_wait() condition may have become true. */
void gy_pool_notify_waiters(gantry_cpu_dispatcher *pool);

/* A manager with a GPU dispatcher is created / destroyed. */
void gy_pool_add_manager(gantry_cpu_dispatcher *pool, gantry_taskman *manager);
void gy_pool_remove_manager(gantry_cpu_dispatcher *pool, gantry_taskman *manager);

/* One task more, or less, of a manager of the pool waits for memory. */
void gy_pool_count_held_back(gantry_cpu_dispatcher *pool, bool more);

/* A manager has fallen quiet: if tasks of it wait for memory, its GPU dispatcher hears of it.  The manager
 * may be gone. */
void gy_pool_tell_quiet(gantry_cpu_dispatcher *pool);

/* What a thread waits for, and how. */
struct gy_wait {
    /* Is read with sequentially consistent loads.  It is asked to be `thorough` before the thread sleeps; one
     * that is expensive may answer false otherwise. */
    bool (*condition)(void *user, bool thorough);
    void *user;
    _Atomic(uint64_t) *patience_ns; /* how long to spin before that, unless the wait mode has none of it; it
                                     * learns; NULL: a little */
    gantry_taskman *manager;        /* whose tasks may be run meanwhile; NULL: nobody's */
    struct gy_worker *self; /* that the thread stands in for, from gy_standin_begin(); NULL: none yet */
};

/* Block until the condition holds.  The caller of an inline-only pool runs all that is queued meanwhile. */
void gy_pool_wait(gantry_cpu_dispatcher *pool, const struct gy_wait *wait);

/* May waiting threads stand in for its workers? */
bool gy_pool_lends(const gantry_cpu_dispatcher *pool);

/* Become a worker that sleeps, to run tasks of the manager in its place: until gy_pool_wait(), which the
 * caller calls soon.  NULL: there is none. */
struct gy_worker *gy_standin_begin(gantry_taskman *manager);

/* A step begins, or ends. */
void gy_pool_count_running(gantry_cpu_dispatcher *pool, bool begins);

/* GANTRY_ERR_STATE inside a CPU task's body, or a callback on a thread of ours or in an inline waiter: there
 * `call`, which waits for such, would wait for ever. */
gantry_status gy_pool_check_outside(const char *call);

/* gy_thread_forks() of its workers; UINT_MAX: it has none of its own, and works anywhere. */
unsigned gy_pool_forks(const gantry_cpu_dispatcher *pool);

/* gantry_cpu_dispatcher_destroy() without its checks, also for a pool that has no threads and no tasks within
 * a task. */
void gy_pool_destroy(gantry_cpu_dispatcher *pool);

#endif
