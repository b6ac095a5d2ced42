/* SPDX-License-Identifier: MIT */
/* A manager's graph as plans are made of it: its tasks by index, and a walk over what comes after one of them
 * directly or through sync points only.  On the thread that freezes the graph. */
#ifndef DISPATCHER_SUBMIT_PLAN_GRAPH_H
#define DISPATCHER_SUBMIT_PLAN_GRAPH_H

#include "taskman/gpu_ops.h"
#include "taskman/gpu_task.h"

/* Called for a dependent; true: it is passed through, to its own dependents. */
typedef bool gy_plan_visit(void *user, gantry_task *dependent);

struct gy_plan_graph {
    uint32_t tasks;     /* one more than the greatest index */
    gantry_task **task; /* by index; NULL: there is none */

    /* The walk. */
    uint32_t *stamp; /* by index; one more than the index of the task that it was reached from last */
    uint32_t *stack; /* indices; room for all tasks */
    uint32_t depth;
    uint32_t from;
    gy_plan_visit *visit;
    void *user;
};

static inline bool gy_plan_is_sync_point(const gantry_task *task)
{
    return gantry_task_get_kind(task) == GANTRY_TASK_SYNC_POINT;
}

/* False: out of host memory.  Either way gy_plan_graph_fini() is due. */
GANTRY_MUST_CHECK bool gy_plan_graph_init(struct gy_plan_graph *graph, gantry_taskman *manager);
void gy_plan_graph_fini(struct gy_plan_graph *graph);

/* Visit each task once that comes after the task `from` directly or through tasks that are passed through. */
void gy_plan_graph_follow(struct gy_plan_graph *graph, uint32_t from, gy_plan_visit *visit, void *user);

#endif
