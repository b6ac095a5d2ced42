/* SPDX-License-Identifier: MIT */
/* The phases of a manager, and the calls that each of them takes. */
#ifndef TASKMAN_PHASE_H
#define TASKMAN_PHASE_H

#include "taskman/manager.h"

/* The only writer of `phase`. */
void gy_taskman_enter_phase(gantry_taskman *manager, enum gy_phase next) GY_REQUIRES(manager->lock);

/* Tell the GPU dispatcher, if there is one, that a step begins.  One that is lost takes none; a step without
 * GPU tasks begins without it, and `without_gpu` says so.  is_helped: see struct gy_gpu_ops. */
gantry_status gy_taskman_begin_gpu(gantry_taskman *manager, bool is_helped, bool *without_gpu);

/* NULL, or called from a task. */
gantry_status gy_taskman_check_owner(gantry_taskman *manager, const char *call);

/* "building", "running", "stopped" */
const char *gy_taskman_phase_name(enum gy_phase phase);

#endif
