/* A callback's work captured apart from its batch.
 *
 * What our own launch functions enqueue is noted in the batch. What a callback does itself with the task's
 * stream, which gantry_launch_stream() gives, may break a capture, fork without a join, or copy from memory
 * that a graph would read too late.  So it is captured by itself, from the moment the callback asks for it
 * (or from its beginning, where the function is known to ask), looked at when the callback returns, and
 * becomes one node of the batch, a child graph.
 *
 *             asks, or is known to           the callback has returned, or must have its work in the batch
 *     CLOSED ---------------------> OPEN ------------------------------------------> CLOSED, a node of the
 * batch ^                                                                               or
 *       +------------------------------------------------------------------------- SPOILT: nothing is left of
 * it
 *
 * What is SPOILT is done again on the plain stream.  GD only. */
#ifndef DISPATCHER_WAYS_ASIDE_H
#define DISPATCHER_WAYS_ASIDE_H

#include "dispatcher/internal.h"

/* Capture what the callback enqueues from now on aside. */
GANTRY_MUST_CHECK gantry_status gy_aside_open(struct gantry_launch *launch);

/* End that: `keep` it as a node of the batch, or forget it.  False: it could not be kept, launch->spoilt says
 * why, and nothing of it is in the batch.  What is enqueued next goes to the batch. */
bool gy_aside_close(struct gantry_launch *launch, bool keep);

/* In a callback: have in the batch what is open, before something that comes after it; GANTRY_ERR_DRIVER with
 * the reason when that cannot be. */
GANTRY_MUST_CHECK gantry_status gy_aside_settle(struct gantry_launch *launch);

/* gantry_launch_stream() while a batch is captured; NULL with an error when it cannot be given. */
GY_COLD CUstream gy_aside_ask(struct gantry_launch *launch);

#endif
