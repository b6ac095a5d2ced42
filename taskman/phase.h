/* The phases of a manager, and the calls that each of them takes. */
#ifndef TASKMAN_PHASE_H
#define TASKMAN_PHASE_H

#include "taskman/manager.h"

/* The only writer of `phase`. */
void gy_taskman_enter_phase(gantry_taskman *manager, enum gy_phase next) GY_REQUIRES(manager->lock);

/* NULL, or called from a task. */
gantry_status gy_taskman_check_owner(gantry_taskman *manager, const char *call);

/* "building", "running", "stopped" */
const char *gy_taskman_phase_name(enum gy_phase phase);

#endif
