/* What happens when a reference count reaches 0, and when a task ends. */
#ifndef TASKMAN_RELEASE_H
#define TASKMAN_RELEASE_H

#include "base/hints.h"
#include "base/status.h"
#include "taskman/graph/task.h"

/* A queue linked through gpu.next. */
struct gy_task_list {
    gantry_task *first;
    gantry_task *last;
    size_t count;
};

static inline void gy_task_list_add(struct gy_task_list *list, gantry_task *task)
{
    task->gpu.next = NULL;
    *(list->first == NULL ? &list->first : &list->last->gpu.next) = task;
    list->last = task;
    list->count++;
}

/* READY tasks of one manager on their way to whoever runs them, in the order in which they became so. */
struct gy_ready {
    struct gy_task_list cpu;
    struct gy_task_list gpu;
    struct gy_task_list resolve; /* sync points, unfilled names, doomed CPU tasks: nothing to run */
    struct gy_task_list queued;  /* CPU tasks with GY_TRAIT_QUEUED: for the pool's special queues */
};

/* Every list empty; for the hot path, where initialising all of it would be seen. */
static inline void gy_ready_init(struct gy_ready *ready)
{
    /* No loop: compilers keep it one. */
    ready->cpu.first = ready->gpu.first = ready->resolve.first = ready->queued.first = NULL;
    ready->cpu.count = ready->gpu.count = ready->resolve.count = ready->queued.count = 0;
}

/* The task's last reference was taken by the caller: make it READY and sort it in. */
void gy_ready_add(struct gy_ready *ready, gantry_task *task);

/* The same for one that is READY already. */
static inline void gy_ready_sort(struct gy_ready *ready, gantry_task *task)
{
    bool is_doomed = atomic_load_explicit(&task->doom, memory_order_relaxed) != GANTRY_OK;
    if (task->traits == GANTRY_TASK_CPU && !is_doomed) {
        gy_task_list_add(&ready->cpu, task);
    } else if (gy_task_is_gpu(task)) {
        gy_task_list_add(&ready->gpu, task); /* a doomed one too: the dispatcher releases it */
    } else if (__builtin_expect(gy_task_is_awaited(task), 0) && !is_doomed) {
        gy_task_list_add(&ready->gpu, task); /* the dispatcher ends it */
    } else if (gy_task_kind(task) != GANTRY_TASK_CPU || is_doomed) {
        gy_task_list_add(&ready->resolve, task);
    } else {
        gy_task_list_add((task->traits & GY_TRAIT_QUEUED) != 0 ? &ready->queued : &ready->cpu, task);
    }
}

/* Hand out everything in `ready`, resolving what needs no running and whatever that makes ready.  The
 * tasks were counted as active before; the caller is between gy_pool_enter() and gy_pool_leave() and
 * touches neither the tasks nor their manager afterwards, unless it knows that work is left. */
void gy_ready_dispatch(gantry_taskman *manager, struct gy_ready *ready);

/* callbacks.c: call the task's release callback, and release what that has put aside. */
void gy_task_call_release(gantry_task *task, gantry_status result);
/* callbacks.c: the one task in `ready` was let go by the calling thread.  True: inside of a release callback,
 * and there is nothing to run; it is released when that has returned. */
bool gy_task_put_aside(struct gy_ready *ready);

/* The last that happens to a task or several: take `less` off the manager's `work` and `odd` off its
 * `odd_pending`, and wake who waits for that.  The manager may be gone when this returns. */
void gy_taskman_count_off_both(gantry_taskman *manager, uint64_t less, uint64_t odd);
static inline void gy_taskman_count_off(gantry_taskman *manager, uint64_t less)
{
    gy_taskman_count_off_both(manager, less, 0);
}

/* flow.c: the end of a task of a graph with conditions: from its final state to its dependents' references.
 * Returns how many became ready. */
size_t gy_flow_release(gantry_task *task, gantry_status result, struct gy_ready *ready);

/* flow.c: the last reference of a task of such a graph was given back.  False: it is queued or running, and
 * the run has failed. */
bool gy_flow_ready(gantry_task *task, struct gy_ready *ready);

/* `task` ends well, and `successor` waits until the GPU has done what is in `trail`.  True: the dispatcher
 * has taken over the reference that `task` holds on `successor`. */
GY_RARE bool gy_task_tell_when_done(gantry_task *task, uint64_t trail, gantry_task *successor);

/* The two below, when the dispatcher has to do it. */
void gy_task_carry_more(gantry_task *task, gantry_task *successor);
void gy_task_drop_more(gantry_task *task);

/* What `successor` comes after on the GPU: also what `task`, which ends, has in its `trail`. */
static inline void gy_task_carry(gantry_task *task, uint64_t trail, gantry_task *successor)
{
    uint64_t none = 0;
    if (trail == 0 || ((trail & GY_TRAIL_PLAIN) != 0 &&
                       atomic_compare_exchange_strong_explicit(&successor->gpu.trail, &none, trail,
                                                               memory_order_acq_rel, memory_order_relaxed))) {
        return; /* most tasks come after one other, if any */
    }
    gy_task_carry_more(task, successor);
}

/* All dependents have been told; nobody reads it any more. */
static inline void gy_task_drop_trail(gantry_task *task)
{
    uint64_t trail = atomic_load_explicit(&task->gpu.trail, memory_order_relaxed);
    if (trail != 0 && (trail & GY_TRAIL_PLAIN) == 0) {
        gy_task_drop_more(task);
    }
}

#endif
