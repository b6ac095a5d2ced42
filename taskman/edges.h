/* SPDX-License-Identifier: MIT */
/* Declaring edges: one, also while the tasks run, or all of a task together with it. */
#ifndef TASKMAN_EDGES_H
#define TASKMAN_EDGES_H

#include "taskman/manager.h"

/* While the graph is built: `successor` starts after `predecessor`, or when the GPU has done its work.  They
 * were checked.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
gantry_status gy_edges_link_locked(gantry_taskman *manager, gantry_task *predecessor, gantry_task *successor,
                                   bool when_done) GY_REQUIRES(manager->lock);

/* While the step runs: the same for a `successor` of which the caller has a reference.  `*has_ended`:
 * `predecessor` was released first, and what it has left, with its state, is to be read; there is no edge. */
gantry_status gy_edges_link_late_locked(gantry_taskman *manager, gantry_task *predecessor,
                                        gantry_task *successor, bool when_done, bool *has_ended)
    GY_REQUIRES(manager->lock);

/* While the graph is built: `task` starts after all of these, which were checked.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the first of them have their edges */
gantry_status gy_edges_link_all_locked(gantry_taskman *manager, gantry_task *task,
                                       gantry_task *const *predecessors, size_t count)
    GY_REQUIRES(manager->lock);

#endif
