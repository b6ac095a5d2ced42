/* Declaring edges: one, also while the tasks run, or all of a task together with it. */
#ifndef TASKMAN_EDGES_H
#define TASKMAN_EDGES_H

#include "taskman/manager.h"

/* While the graph is built: `task` starts after all of these, which were checked.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the first of them have their edges */
gantry_status gy_edges_link_all_locked(gantry_taskman *manager, gantry_task *task,
                                       gantry_task *const *predecessors, size_t count)
    GY_REQUIRES(manager->lock);

#endif
