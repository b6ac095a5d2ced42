/* SPDX-License-Identifier: MIT */
/* The first failure of a step. */
#ifndef TASKMAN_FAILURE_H
#define TASKMAN_FAILURE_H

#include "taskman/manager.h"

/* Keep the calling thread's last error as the reason why `task` failed, if it is the step's first. */
void gy_taskman_keep_failure(gantry_taskman *manager, const gantry_task *task, gantry_status result);

/* `task` is going to fail, for which `text` is the reason, or, if that is "", the calling thread's last
 * error, which stays as it is. */
GY_COLD void gy_taskman_keep_cause(gantry_task *task, gantry_status why, const char *text);

#endif
