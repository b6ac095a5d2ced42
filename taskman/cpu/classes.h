/* SPDX-License-Identifier: MIT */
/* Limited classes: their places, and their CPUs. */
#ifndef TASKMAN_CPU_CLASSES_H
#define TASKMAN_CPU_CLASSES_H

#include "taskman/cpu/worker.h"

/* Called before and after a worker works for a task of that class; it has a place of the class meanwhile. */
void gy_worker_enter_class(struct gy_worker *self, uint32_t cpu_class);
void gy_worker_leave_class(struct gy_worker *self);

/* Other limits from now on; `limit` 0: as it is; `cpus` NULL: none. */
void gy_pool_change_class(gantry_cpu_dispatcher *pool, uint32_t cpu_class, uint32_t limit,
                          const gy_cpus *cpus);

#endif
