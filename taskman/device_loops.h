/* SPDX-License-Identifier: MIT */
/* Loops whose turns a word on the device decides, as far as a task manager knows them. */
#ifndef TASKMAN_DEVICE_LOOPS_H
#define TASKMAN_DEVICE_LOOPS_H

#include "taskman/manager.h"

/* The run was cancelled and is not over, so who stops it hears that a loop was cut short. */
void gy_taskman_cancel_loops(gantry_taskman *manager) GY_REQUIRES(manager->lock);
/* The run is over: no loop is on its way any more but on the device. */
void gy_taskman_end_loops(gantry_taskman *manager) GY_REQUIRES(manager->lock);
/* Forget all loops; they come out. */
struct gy_gpu_loop *gy_taskman_take_loops(gantry_taskman *manager) GY_REQUIRES(manager->lock);
void gy_taskman_drop_loops(struct gy_gpu_loop *first);

#endif
