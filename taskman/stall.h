/* SPDX-License-Identifier: MIT */
/* Stalls: what only late declarations can cause. */
#ifndef TASKMAN_STALL_H
#define TASKMAN_STALL_H

#include "taskman/manager.h"

/* Quiet, and something is pending that nothing will ever move?  Names referred to while running count as
 * movable unless `is_stopping`. */
GY_RARE bool gy_taskman_is_stalled(gantry_taskman *manager, bool is_stopping);

/* If the step stalls, make it move.  When stopping and nothing is pending: release names that came late all
 * the same.  Several threads may call at once. */
void gy_taskman_unstall(gantry_taskman *manager, bool is_stopping);

/* The step has made no news for long.  If all that it waits for are tasks that are awaited and tasks that are
 * held back by references, or by work on the GPU, their labels are logged: true. */
GY_COLD bool gy_taskman_tell_of_waits(gantry_taskman *manager);

#endif
