/* SPDX-License-Identifier: MIT */
/* Threads inside of the library: which context is current on them, and in which capture mode they are.
 *
 * A thread that has pushed a context with gy_context_push() is inside, until the pop.  Every thread of the
 * library and every public function that calls the driver is, and nothing else puts them into relaxed mode:
 * while somebody captures a stream, which may be the application's doing, many calls that have nothing to do
 * with that stream fail and spoil the capture.  Relaxed mode permits them.  It changes nothing for calls that
 * concern a whole context or the legacy stream: whole.h has the rule for those. */
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

/* A thread that calls much of the application's code, and little that a capture forbids in between, lingers
 * outside: it stays in the outer mode from the first call to gy_inside_return(), and calls that a capture
 * forbids stand between gy_relaxed_begin() and gy_relaxed_end() meanwhile, or behind a push. */
GY_COLD void gy_inside_linger(void);
GY_COLD void gy_inside_stop_lingering(void);

/* As gy_outside_begin() and gy_outside_end(), on a thread that is inside with `context` current, and lingers
 * from then on.  These are on the path that every task takes. */
static GY_INLINE void gy_outside_begin_lingering(void)
{
    if (__builtin_expect(gy_place != GY_LINGERING, 0)) {
        gy_inside_linger();
    }
}

GY_COLD bool gy_inside_put_back(struct gy_context *context, CUresult asked);
static GY_INLINE bool gy_outside_end_lingering(struct gy_context *context)
{
    CUcontext current = NULL;
    const CUresult result = context->driver->cuCtxGetCurrent(&current);
    return __builtin_expect(current != context->native, 0) && gy_inside_put_back(context, result);
}

/* The thread lingers no more. */
static inline void gy_inside_return(void)
{
    if (gy_place == GY_LINGERING) {
        gy_inside_stop_lingering();
    }
}

/* A callback of a launch has left another context current. */
GY_COLD void gy_inside_tell(const char *what);

/* Calls of the driver that come before there is a context to push, or after: the thread in relaxed mode.
 * Returns the mode for gy_relaxed_leave(). */
static inline CUstreamCaptureMode gy_relaxed_enter(const struct gy_driver *driver)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return driver->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS ? mode
                                                                            : CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static inline void gy_relaxed_leave(const struct gy_driver *driver, CUstreamCaptureMode before)
{
    (void)driver->cuThreadExchangeStreamCaptureMode(&before);
}

#endif
