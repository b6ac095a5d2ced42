#include "dispatcher/ways/batch_guard.h"

#include "dispatcher/capture_mode.h"

#include <assert.h>

/* The only writer of the state. */
static void enter(struct gy_batch_guard *guard, enum gy_batch_guard_state state)
{
    assert((state == GY_GUARD_CLOSED) != (guard->state == GY_GUARD_CLOSED));
    guard->state = state;
    assert(gy_batch_guard_is_valid(guard));
}

static CUstream *stream_of(struct gy_batch_guard *guard)
{
    return guard->state == GY_GUARD_APART ? &guard->apart : &guard->whole;
}

static CUstreamCaptureStatus status_of(const struct gy_batch_guard *guard, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = guard->context->driver->cuStreamIsCapturing(stream, &status);
    return result == CUDA_SUCCESS ? status : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

void gy_batch_guard_init(struct gy_batch_guard *guard, struct gy_context *context)
{
    *guard = (struct gy_batch_guard){.context = context};
}

void gy_batch_guard_forget(struct gy_batch_guard *guard)
{
    CUstream *const streams[] = {&guard->apart, &guard->whole};
    assert(guard->state == GY_GUARD_CLOSED);
    for (int i = 0; i < 2; i++) {
        if (*streams[i] != NULL) {
            (void)guard->context->driver->cuStreamDestroy(*streams[i]);
            *streams[i] = NULL;
        }
    }
}

static gantry_status make_stream(struct gy_batch_guard *guard, enum gy_batch_guard_state state)
{
    if (state == GY_GUARD_APART) {
        return guard->apart != NULL ? GANTRY_OK : gy_apart_create_stream(guard->context, &guard->apart);
    }
    /* in the context itself, whatever SMs a plan has left to it: nothing runs there */
    return guard->whole != NULL
               ? GANTRY_OK
               : GY_CALL(guard->context, cuStreamCreate(&guard->whole, CU_STREAM_NON_BLOCKING));
}

gantry_status gy_batch_guard_begin(struct gy_batch_guard *guard, enum gy_batch_guard_state state)
{
    assert(guard->state == GY_GUARD_CLOSED);
    state = gy_apart_is_there(guard->context) ? state : GY_GUARD_WHOLE;
    gantry_status status = make_stream(guard, state);
    status = status == GANTRY_OK ? gy_capture_mode_be_strict(guard->context) : status;
    if (status == GANTRY_OK) {
        const CUstream stream = state == GY_GUARD_APART ? guard->apart : guard->whole;
        status = GY_CALL(guard->context, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    }
    if (status == GANTRY_OK) {
        enter(guard, state);
    }
    return status;
}

CUgraph gy_batch_guard_end(struct gy_batch_guard *guard)
{
    const struct gy_driver *driver = guard->context->driver;
    CUgraph empty = NULL;
    if (guard->state == GY_GUARD_CLOSED) {
        return NULL;
    }
    CUstream *stream = stream_of(guard);
    const bool is_ended = driver->cuStreamEndCapture(*stream, &empty) == CUDA_SUCCESS;
    const bool is_left = !is_ended && status_of(guard, *stream) != CU_STREAM_CAPTURE_STATUS_NONE;
    enter(guard, GY_GUARD_CLOSED);
    if (is_left) { /* nothing else would end it */
        (void)driver->cuStreamDestroy(*stream);
        *stream = NULL;
    }
    return is_ended ? empty : NULL;
}

bool gy_batch_guard_is_broken(const struct gy_batch_guard *guard)
{
    const CUstream stream = guard->state == GY_GUARD_APART ? guard->apart : guard->whole;
    return guard->state != GY_GUARD_CLOSED && status_of(guard, stream) != CU_STREAM_CAPTURE_STATUS_ACTIVE;
}
