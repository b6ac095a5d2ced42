/* SPDX-License-Identifier: MIT */
/* A callback's work captured apart from its batch.
 *
 * The work that our own launch functions enqueue is noted in the batch.  A callback may also enqueue work
 * itself on the task's stream, which gantry_launch_stream() and gantry_launch_capture_stream() give.  That
 * work may break a capture, fork without a join, or copy from memory that a graph would read too late.  So it
 * is captured by itself, from the moment the callback asks for the stream, or from the callback's beginning
 * if its function is known to ask.  When the callback returns, the captured work is looked at and becomes one
 * node of the batch, a child graph.
 *
 *           asks, or is known to           the callback has returned, or must have its work in the batch
 *   CLOSED ---------------------> OPEN -------------------------------------> CLOSED, a node of the batch, or
 *     ^                                                                       SPOILT: nothing is left of it
 *     +----------------------------------------------------------------------------+
 *
 * Work that is SPOILT is done again on the plain stream.  Only the dispatcher's thread (GD) calls these
 * functions. */
#ifndef DISPATCHER_CALL_ASIDE_H
#define DISPATCHER_CALL_ASIDE_H

#include "base/hints.h"
#include "driver/driver.h"

#include <gantry/dispatcher.h>

/* Why a call's work cannot be captured: the driver has refused it something. */
extern const char gy_aside_forbidden[];

/* Begin to capture aside the work that the callback enqueues from now on. */
GANTRY_MUST_CHECK gantry_status gy_aside_open(struct gantry_launch *launch);

/* End the capture: `keep` it as a node of the batch, or forget it.  False: it could not be kept;
 * launch->spoilt says why, and nothing of it is in the batch.  What is enqueued next goes to the batch. */
bool gy_aside_close(struct gantry_launch *launch, bool keep);

/* In a callback: put an open capture into the batch, before something that comes after it.  GANTRY_ERR_DRIVER
 * with the reason when that cannot be done, now or earlier in the call: the callback's work will be done
 * again, and what it enqueues until then is captured aside and forgotten. */
GANTRY_MUST_CHECK gantry_status gy_aside_settle(struct gantry_launch *launch);

/* May the stream of a call that is noted be captured, if it is asked for like that? */
bool gy_aside_may(const struct gantry_launch *launch, bool plainly);
/* In a callback whose work is noted: the stream, captured aside; NULL with an error when it cannot be given.
 * `plainly`: gantry_launch_stream() asks for it, else gantry_launch_capture_stream(). */
GY_COLD CUstream gy_aside_ask(struct gantry_launch *launch, bool plainly);

#endif
