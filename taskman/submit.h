/* SPDX-License-Identifier: MIT */
/* Submission: tasks, names and light tasks enter the graph. */
#ifndef TASKMAN_SUBMIT_H
#define TASKMAN_SUBMIT_H

#include "taskman/manager.h"

/* gantry_taskman_submit() for a task without a name whose description is good. */
gantry_status gy_taskman_add_locked(gantry_taskman *manager, const gantry_task_desc *desc, gantry_task **out)
    GY_REQUIRES(manager->lock);

/* A light task, from any thread; `desc` has its body, argument and label.  Statuses as
 * gantry_taskman_create_light(). */
gantry_status gy_taskman_add_light(gantry_taskman *manager, const gantry_task_desc *desc,
                                   gantry_task *continuation, gantry_task **out);

#endif
