/* SPDX-License-Identifier: MIT */
/* The functions by which a task manager uses a dispatcher: the table of taskman/gpu_ops.h. */
#ifndef DISPATCHER_TASKMAN_OPS_H
#define DISPATCHER_TASKMAN_OPS_H

#include "taskman/gpu_ops.h"

extern const struct gy_gpu_ops gy_dispatcher_ops;

/* The manager is being built: from now on its GPU work has streams that no other manager gets, and none of it
 * is counted as anybody's GPU time.  False: that cannot be had here. */
bool gy_dispatcher_isolate(gantry_taskman *manager);

#endif
