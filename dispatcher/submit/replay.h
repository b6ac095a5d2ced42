/* SPDX-License-Identifier: MIT */
/* Running the units of a plan (submit/plan.h): what stable tasks have enqueued in an earlier run is launched
 * again as one graph, and they are released without a call.  Only the dispatcher's thread calls these
 * functions. */
#ifndef DISPATCHER_SUBMIT_REPLAY_H
#define DISPATCHER_SUBMIT_REPLAY_H

struct gantry_dispatcher;
struct gy_round;

/* A unit is due: launch it, record it, or let its tasks into `round`. */
void gy_replay_run_due(struct gantry_dispatcher *d, struct gy_round *round);

#endif
