/* Threads inside of the library: which context is current on them, and in which capture mode they are.
 *
 * A thread that has pushed a context with gy_context_push() is inside, until the pop.  Every thread of the
 * library and every public function that calls the driver is, and nothing else puts them into relaxed mode:
 * while somebody captures a stream, which may be the application's doing, many calls that have nothing to do
 * with that stream fail and spoil the capture.  Relaxed mode permits them.  It changes nothing for calls that
 * concern a whole context or the legacy stream: the library makes none of these on its own initiative. */
#ifndef DRIVER_INSIDE_H
#define DRIVER_INSIDE_H

#include "base/outside.h"
#include "driver/context.h"

/* Make the context current for the application's own calls: its capture mode stays as it is.
 * GANTRY_ERR_DEVICE_LOST with the first cause when the context is lost. */
GANTRY_MUST_CHECK gantry_status gy_context_acquire(struct gy_context *context);

/* The capture mode in which the application's code runs on this thread, which is inside, from now until the
 * pop; else it is the mode in which the thread was before the push. */
void gy_inside_set_outer_mode(CUstreamCaptureMode mode);

/* Calls of the driver that come before there is a context to push, or after: the thread in relaxed mode.
 * Returns the mode for gy_relaxed_leave(). */
CUstreamCaptureMode gy_relaxed_enter(const struct gy_driver *driver);
void gy_relaxed_leave(const struct gy_driver *driver, CUstreamCaptureMode before);

#endif
