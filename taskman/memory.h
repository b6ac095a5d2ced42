/* SPDX-License-Identifier: MIT */
/* Memory that tasks declare to need. */
#ifndef TASKMAN_MEMORY_H
#define TASKMAN_MEMORY_H

#include "taskman/manager.h"

/* `task`, just submitted, names the memory of that number. */
void gy_taskman_name_memory(gantry_taskman *manager, gantry_task *task, uint32_t number)
    GY_REQUIRES(manager->lock);
/* `task` will be released in this step; if it names memory, the dispatcher is told. */
void gy_taskman_begin_memory(gantry_taskman *manager, gantry_task *task) GY_REQUIRES(manager->lock);
/* gy_taskman_begin_memory() for all tasks of the graph. */
void gy_taskman_begin_all_memory(gantry_taskman *manager) GY_REQUIRES(manager->lock);
/* A task that names memory was released. */
void gy_taskman_end_memory(gantry_task *task);
/* Forget all declarations. */
void gy_taskman_close_memory(gantry_taskman *manager) GY_REQUIRES(manager->lock);

#endif
