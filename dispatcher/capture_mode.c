#include "dispatcher/capture_mode.h"

/* The capture mode of this thread.  The functions below are its only writers.
 *
 *            relax                 be_strict
 *   FOREIGN -------> RELAXED <-------------------> STRICT
 *      ^                |         relax_again         |
 *      +----------------+-----------------------------+
 *                              restore
 */
static _Thread_local enum { FOREIGN, RELAXED, STRICT } state;

static gantry_status exchange(struct gy_context *context, CUstreamCaptureMode *mode)
{
    return GY_CALL(context, cuThreadExchangeStreamCaptureMode(mode));
}

gantry_status gy_capture_mode_relax(struct gy_context *context, int *before)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gantry_status status = exchange(context, &mode);
    *before = (int)mode;
    state = status == GANTRY_OK ? RELAXED : FOREIGN;
    return status;
}

void gy_capture_mode_restore(struct gy_context *context, int before)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)before;
    (void)exchange(context, &mode); /* a failure is in the context */
    state = FOREIGN;
}

gantry_status gy_capture_mode_be_strict(struct gy_context *context)
{
    if (state != RELAXED) {
        return GANTRY_OK;
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL; /* the mode of a thread that has not set one */
    gantry_status status = exchange(context, &mode);
    state = status == GANTRY_OK ? STRICT : RELAXED;
    return status;
}

void gy_capture_mode_relax_again(struct gy_context *context)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (state == STRICT && exchange(context, &mode) == GANTRY_OK) {
        state = RELAXED;
    }
}
