/* SPDX-License-Identifier: MIT */
/* The part of a task manager that the GPU dispatcher asks for: it needs no more of the owner of its tasks. */
#ifndef TASKMAN_GPU_FACTS_H
#define TASKMAN_GPU_FACTS_H

#include "taskman/gpu_ops.h"
#include "taskman/graph/owner.h"

/* The second member of struct gantry_taskman, whose lock guards it. */
struct gy_gpu_facts {
    struct gy_gpu_share *share; /* immutable; its bound on GPU time; NULL: none */
    struct gy_gpu_order *order; /* immutable; orders its steps on the GPU; NULL: they are independent */
    uint64_t run;          /* guarded by lock, immutable while running; unlike any other manager's or run's */
    uint64_t previous_run; /* likewise; the run before; 0: there was none */
    struct gy_gpu_plan
        *plan; /* likewise; the dispatcher's, in a run of all tasks of a frozen graph, else NULL */
    _Atomic(bool) has_independent; /* atomic; written under lock; some GPU task is GY_TRAIT_INDEPENDENT */
};

/* How a task manager begins. */
struct gy_gpu_manager {
    struct gy_task_owner as_owner;
    struct gy_gpu_facts facts;
};

/* The manager whose task it is. */
static inline gantry_taskman *gy_task_manager(const gantry_task *task)
{
    return (gantry_taskman *)(void *)task->owner; /* its first member */
}

static inline const struct gy_gpu_facts *gy_manager_facts(const gantry_taskman *manager)
{
    return &((const struct gy_gpu_manager *)(const void *)manager)->facts;
}

static inline const struct gy_gpu_facts *gy_task_facts(const gantry_task *task)
{
    return &((const struct gy_gpu_manager *)(const void *)task->owner)->facts;
}

#endif
