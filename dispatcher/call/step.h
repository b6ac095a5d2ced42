/* SPDX-License-Identifier: MIT */
/* One launch callback on the task's stream, and the end of a GPU task. */
#ifndef DISPATCHER_CALL_STEP_H
#define DISPATCHER_CALL_STEP_H

#include <gantry/dispatcher.h>

struct gy_round;

/* Call the launch callback of `task`, which is in no bin now, once. True when the task has ended and was
 * released. */
bool gy_gd_step(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task);

#endif
