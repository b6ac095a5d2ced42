/* SPDX-License-Identifier: MIT */
/* The three phases, HtoD, Kernel and DtoH: passes over the bins, a call of each task per pass. */
#ifndef DISPATCHER_CALL_PHASES_H
#define DISPATCHER_CALL_PHASES_H

#include <gantry/dispatcher.h>

struct gy_round;

/* Walk the phases once. */
void gy_gd_walk_once(struct gantry_dispatcher *d, struct gy_round *round);
/* Walk the phases, again and again, until the bins are empty.  False: they are not, after a walk in which no
 * task has ended. */
bool gy_gd_walk(struct gantry_dispatcher *d, struct gy_round *round);

#endif
