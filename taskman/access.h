/* SPDX-License-Identifier: MIT */
/* Order from data: accesses that tasks declare become edges (include/gantry/access.h). */
#ifndef TASKMAN_ACCESS_H
#define TASKMAN_ACCESS_H

#include "taskman/graph/dump.h"
#include "taskman/manager.h"

#include <gantry/access.h>

/* What the calls of a launch callback access: it has memory of its own only where that is much. */
enum { GY_ACCESS_FEW = 16 };
struct gy_access_list {
    gantry_access *at; /* `few`, or memory of its own */
    size_t count, room;
    gantry_access few[GY_ACCESS_FEW];
};
/* False: no memory. */
GANTRY_MUST_CHECK bool gy_access_list_add(struct gy_access_list *list, const gantry_access *access);

/* gantry_taskman_submit() for a task without a name whose description is good. */
typedef gantry_status gy_access_add(gantry_taskman *manager, const gantry_task_desc *desc, gantry_task **out);

/* Are these accesses of a task of that label?
 * @retval GANTRY_ERR_INVALID_ARGUMENT */
GANTRY_MUST_CHECK gantry_status gy_accesses_check(const gantry_taskman *manager, const char *label,
                                                  const gantry_access *accesses, size_t count);
/* Declare accesses, which were checked, of a task of a graph that is built, or of one that was made while its
 * graph, which is not frozen, runs: the caller has a reference on it.  `*fence`: where not NULL, a task whose
 * first reference the caller has to give back when he has given back the lock.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the task will fail, instead of running with fewer edges */
GANTRY_MUST_CHECK gantry_status gy_accesses_declare(gantry_taskman *manager, gantry_task *task,
                                                    const gantry_access *accesses, size_t count,
                                                    gy_access_add *add, gantry_task **fence)
    GY_REQUIRES(manager->lock);

/* Nothing happens where no access was ever declared.
 *
 * The graph will be frozen: its runs follow each other, so no task is independent because of the step before,
 * and CPU tasks come after GPU work of the run before.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  also where that was missing before */
GANTRY_MUST_CHECK gantry_status gy_accesses_freeze(gantry_taskman *manager, gy_access_add *add)
    GY_REQUIRES(manager->lock);
/* Edges that come from data, since the reset: how many, and a copy for gy_free().
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
size_t gy_accesses_count_edges(const gantry_taskman *manager) GY_REQUIRES(manager->lock);
GANTRY_MUST_CHECK gantry_status gy_accesses_copy_edges(const gantry_taskman *manager,
                                                       struct gy_data_edge **out, size_t *count)
    GY_REQUIRES(manager->lock);
/* The step is over, or given up, and its tasks go. */
void gy_accesses_end_step(gantry_taskman *manager) GY_REQUIRES(manager->lock);
/* The manager is destroyed. */
void gy_accesses_free(gantry_taskman *manager);

#endif
