/* SPDX-License-Identifier: MIT */
/* Tasks that became READY, on their way to the thread that runs them. */
#ifndef TASKMAN_GRAPH_READY_H
#define TASKMAN_GRAPH_READY_H

#include "base/point.h"
#include "taskman/graph/state.h"

#include <assert.h>

/* A queue linked through `next`. */
struct gy_task_list {
    gantry_task *first;
    gantry_task *last;
    size_t count;
};

static inline bool gy_task_list_is_valid(const struct gy_task_list *list)
{
    return list->count == 0 ? list->first == NULL
                            : list->first != NULL && (list->count == 1) == (list->first == list->last);
}

static inline void gy_task_list_add(struct gy_task_list *list, gantry_task *task)
{
    task->next = NULL;
    *(list->first == NULL ? &list->first : &list->last->next) = task;
    list->last = task;
    list->count++;
    assert(gy_task_list_is_valid(list));
}

static inline gantry_task *gy_task_list_pop(struct gy_task_list *list)
{
    gantry_task *task = list->first;
    assert(gy_task_list_is_valid(list));
    if (task != NULL) {
        list->first = task->next;
        list->count--;
    }
    return task;
}

/* READY tasks of one owner on their way to the threads that run them, in the order in which they became
 * ready. */
struct gy_ready {
    struct gy_task_list cpu;
    struct gy_task_list gpu;
    struct gy_task_list
        resolve; /* sync points, unfilled names, CPU tasks with a preset failure: nothing to run */
    struct gy_task_list queued; /* CPU tasks with GY_TRAIT_QUEUED: for the pool's special queues */
};

/* Every list empty; for the hot path, where initialising all of it would be seen. */
static inline void gy_ready_init(struct gy_ready *ready)
{
    /* No loop: compilers keep it one. */
    ready->cpu.first = ready->gpu.first = ready->resolve.first = ready->queued.first = NULL;
    ready->cpu.count = ready->gpu.count = ready->resolve.count = ready->queued.count = 0;
}

/* Path of a task, step 2 of 9: the caller has taken its last reference. */
static inline void gy_task_become_ready(gantry_task *task)
{
    gy_point(GY_POINT_PATH_2, task);
    gy_task_enter(task, GANTRY_TASK_STATE_READY);
}

/* Sort in a task that is READY. */
static inline void gy_ready_sort(struct gy_ready *ready, gantry_task *task)
{
    bool has_preset = atomic_load_explicit(&task->preset, memory_order_relaxed) != GANTRY_OK;
    if (task->traits == GANTRY_TASK_CPU && !has_preset) {
        gy_task_list_add(&ready->cpu, task);
    } else if (gy_task_is_gpu(task)) {
        gy_task_list_add(&ready->gpu, task); /* one that fails, too: the dispatcher releases it */
    } else if (__builtin_expect(gy_task_is_awaited(task), 0) && !has_preset) {
        gy_task_list_add(&ready->gpu, task); /* the dispatcher ends it */
    } else if (gy_task_kind(task) != GANTRY_TASK_CPU || has_preset) {
        gy_task_list_add(&ready->resolve, task);
    } else {
        gy_task_list_add((task->traits & GY_TRAIT_QUEUED) != 0 ? &ready->queued : &ready->cpu, task);
    }
}

/* Sort in a task whose last reference the caller has taken. */
static inline void gy_ready_add(struct gy_ready *ready, gantry_task *task)
{
    gy_task_become_ready(task);
    gy_ready_sort(ready, task);
}

#endif
