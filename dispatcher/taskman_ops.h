/* The functions by which a task manager uses a dispatcher: the table of taskman/gpu_ops.h. */
#ifndef DISPATCHER_TASKMAN_OPS_H
#define DISPATCHER_TASKMAN_OPS_H

#include "taskman/gpu_ops.h"

extern const struct gy_gpu_ops gy_dispatcher_ops;

#endif
