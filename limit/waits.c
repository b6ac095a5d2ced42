/* SPDX-License-Identifier: MIT */
/* Calls that wait or ask, by which groups end; captures; and what is destroyed. */
#include "limit/doors.h"
#include "limit/wrap.h"

#define BOTH(name, suffix, parameters, arguments, before, before_suffix, after, after_suffix) \
    GY_WRAP_WAIT(name, parameters, arguments, before, after)                                  \
    GY_WRAP_WAIT(name##suffix, parameters, arguments, before_suffix, after_suffix)

/* ---- waits ------------------------------------------------------------------------------------- */

#define CLOSE_STREAM gy_meter_close_stream(stream)
#define CLOSE_OWN gy_meter_close_stream(GY_METER_PER_THREAD(stream))

#define WAIT(stream) const struct gy_meter_wait wait = gy_meter_wait_for_stream(stream)
BOTH(cuStreamSynchronize, _ptsz, (CUstream stream), (stream), WAIT(stream), WAIT(GY_METER_PER_THREAD(stream)),
     gy_meter_waited(&wait, result), gy_meter_waited(&wait, result))
BOTH(cuStreamQuery, _ptsz, (CUstream stream), (stream), CLOSE_STREAM, CLOSE_OWN, GY_WRAP_NOTHING,
     GY_WRAP_NOTHING)
/* What the stream waits for is not its work, and neither is what the host does. */
#define WAITS(name, parameters, arguments)                          \
    BOTH(name, _ptsz, parameters, arguments, gy_meter_puts(stream), \
         gy_meter_puts(GY_METER_PER_THREAD(stream)), GY_WRAP_NOTHING, GY_WRAP_NOTHING)
WAITS(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))
WAITS(cuLaunchHostFunc, (CUstream stream, void (*function)(void *), void *user), (stream, function, user))
WAITS(cuStreamAddCallback,
      (CUstream stream, void (*function)(CUstream, CUresult, void *), void *user, unsigned flags),
      (stream, function, user, flags))
#define VALUE(name, type)                                                           \
    WAITS(name, (CUstream stream, CUdeviceptr address, type value, unsigned flags), \
          (stream, address, value, flags))
VALUE(cuStreamWaitValue32, cuuint32_t)
VALUE(cuStreamWaitValue32_v2, cuuint32_t)
VALUE(cuStreamWaitValue64, cuuint64_t)
VALUE(cuStreamWaitValue64_v2, cuuint64_t)
#define BATCH(name)                                                                  \
    WAITS(name, (CUstream stream, unsigned count, void *operations, unsigned flags), \
          (stream, count, operations, flags))
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_v2)
WAITS(cuWaitExternalSemaphoresAsync,
      (const void *semaphores, const void *parameters, unsigned count, CUstream stream),
      (semaphores, parameters, count, stream))
GY_WRAP_WAIT(cuEventSynchronize, (CUevent event), (event), gy_meter_close_all(), GY_WRAP_NOTHING)
GY_WRAP_WAIT(cuEventQuery, (CUevent event), (event), gy_meter_close_all(), GY_WRAP_NOTHING)
/* CUDA 13 has a second form, with a context, under another symbol. */
GY_WRAP_WAIT(cuCtxSynchronize, (void), (), const struct gy_meter_wait wait = gy_meter_wait_for_context(),
             gy_meter_waited(&wait, result))

/* ---- captures ---------------------------------------------------------------------------------- */

static void note_begun(CUresult result)
{
    if (result != CUDA_SUCCESS) {
        gy_meter_capture_ended();
    }
}

#define BEGINS gy_meter_capture_begins(stream)
#define BEGINS_OWN gy_meter_capture_begins(GY_METER_PER_THREAD(stream))
BOTH(cuStreamBeginCapture, _ptsz, (CUstream stream), (stream), BEGINS, BEGINS_OWN, note_begun(result),
     note_begun(result)) /* as CUDA 10.0 has it */
BOTH(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode), BEGINS,
     BEGINS_OWN, note_begun(result), note_begun(result))
BOTH(cuStreamBeginCaptureToGraph, _ptsz,
     (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
      size_t count, CUstreamCaptureMode mode),
     (stream, graph, dependencies, edges, count, mode), BEGINS, BEGINS_OWN, note_begun(result),
     note_begun(result))

/* An end may fail and leave the capture as it is, or fail and end it. */
static void note_ended(bool was_capturing, CUstream stream)
{
    if (was_capturing && !gy_meter_is_capturing(stream)) {
        gy_meter_capture_ended();
    }
}

#define WAS(stream) const bool was_capturing = gy_meter_is_capturing(stream)
BOTH(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph), (stream, graph), WAS(stream),
     WAS(GY_METER_PER_THREAD(stream)), note_ended(was_capturing, stream),
     note_ended(was_capturing, GY_METER_PER_THREAD(stream)))

/* ---- what is destroyed -------------------------------------------------------------------------- */

GY_WRAP_WAIT(cuStreamDestroy, (CUstream stream), (stream), gy_meter_forget_stream(stream), GY_WRAP_NOTHING)
GY_WRAP_WAIT(cuStreamDestroy_v2, (CUstream stream), (stream), gy_meter_forget_stream(stream), GY_WRAP_NOTHING)
GY_WRAP_WAIT(cuCtxDestroy, (CUcontext context), (context), gy_meter_forget_context(context), GY_WRAP_NOTHING)
GY_WRAP_WAIT(cuCtxDestroy_v2, (CUcontext context), (context), gy_meter_forget_context(context),
             GY_WRAP_NOTHING)
GY_WRAP_WAIT(cuCtxDetach, (CUcontext context), (context), gy_meter_forget_context(context), GY_WRAP_NOTHING)
/* Which context its streams belong to is not known here. */
GY_WRAP_WAIT(cuGreenCtxDestroy, (CUgreenCtx context), (context), gy_meter_close_all(), GY_WRAP_NOTHING)

static void note_retained(CUresult result, const CUcontext *context, CUdevice device)
{
    if (result == CUDA_SUCCESS && context != NULL) {
        gy_meter_note_primary(device, *context);
    }
}

GY_WRAP_WAIT(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device),
             GY_WRAP_NOTHING, note_retained(result, context, device))
#define LEAVES const bool is_stopped = gy_meter_primary_leaves(device)
#define LEFT gy_meter_primary_left(is_stopped, device, result)
GY_WRAP_WAIT(cuDevicePrimaryCtxReset, (CUdevice device), (device), LEAVES, LEFT)
GY_WRAP_WAIT(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), LEAVES, LEFT)
GY_WRAP_WAIT(cuDevicePrimaryCtxRelease, (CUdevice device), (device), LEAVES, LEFT)
GY_WRAP_WAIT(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), LEAVES, LEFT)
