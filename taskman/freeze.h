/* SPDX-License-Identifier: MIT */
/* Frozen graphs: built once, run many times. */
#ifndef TASKMAN_FREEZE_H
#define TASKMAN_FREEZE_H

#include "taskman/manager.h"

/* Forget that the graph is frozen. */
void gy_taskman_thaw(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* Bring a frozen graph to the begin of a run of all its tasks. */
void gy_taskman_rearm(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* Clear what the run before has left in the manager, and forget what it has added to the graph. */
void gy_taskman_clear_run_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* Forget what a run of a graph with conditions has noted in a task that it did not run. */
void gy_taskman_disarm_task(void *unused, gantry_task *task);

#endif
