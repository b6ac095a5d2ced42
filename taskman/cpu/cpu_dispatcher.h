/* SPDX-License-Identifier: MIT */
/* The end of a pool, and where threads may run. */
#ifndef TASKMAN_CPU_CPU_DISPATCHER_H
#define TASKMAN_CPU_CPU_DISPATCHER_H

#include "taskman/cpu/worker.h"

/* gantry_cpu_dispatcher_destroy() without its checks, also for a pool that has no threads and no tasks within
 * a task. */
void gy_pool_destroy(gantry_cpu_dispatcher *pool);

/* The CPUs that may be used: those asked for, which must be among those that the calling thread may.  NULL
 * and 0: all of these. */
gantry_status gy_cpus_choose(const char *call, const uint32_t *cpus, uint32_t count, gy_cpus *allowed);

#endif
