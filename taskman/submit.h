/* Submission: tasks, names and light tasks enter the graph. */
#ifndef TASKMAN_SUBMIT_H
#define TASKMAN_SUBMIT_H

#include "taskman/manager.h"

/* 1 and up; 0: not a partition of the manager's GPU dispatcher. */
uint32_t gy_taskman_partition_number(const gantry_taskman *manager, const gantry_partition *partition);

#endif
