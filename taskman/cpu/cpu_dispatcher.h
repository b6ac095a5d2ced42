/* SPDX-License-Identifier: MIT */
/* The end of a pool. */
#ifndef TASKMAN_CPU_CPU_DISPATCHER_H
#define TASKMAN_CPU_CPU_DISPATCHER_H

#include "taskman/cpu/worker.h"

/* gantry_cpu_dispatcher_destroy() without its checks, also for a pool that has no threads and no tasks within
 * a task. */
void gy_pool_destroy(gantry_cpu_dispatcher *pool);

#endif
