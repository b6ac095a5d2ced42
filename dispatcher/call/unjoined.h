/* SPDX-License-Identifier: MIT */
/* Callbacks that leave work on streams which their task's stream does not come after: GANTRY_CHECK=forks.
 *
 * The emulated driver tells what a callback has enqueued elsewhere.  A device's driver sees forks in captures
 * only, and refuses those that are not joined (aside.h). */
#ifndef DISPATCHER_CALL_UNJOINED_H
#define DISPATCHER_CALL_UNJOINED_H

#include "base/hints.h"

#include <gantry/dispatcher.h>

/* The two stand around the call of a callback, on the thread that calls it. */
void gy_unjoined_begin(const struct gantry_launch *launch);
void gy_unjoined_end(const struct gantry_launch *launch, gantry_launch_result result);

/* A capture of the callback's work could not be ended, since one of its streams was not joined. */
GY_COLD void gy_unjoined_tell_capture(const struct gantry_launch *launch);

#endif
