/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/batch_guard.h"

#include "dispatcher/loop/current.h"
#include "driver/apart.h"
#include "driver/inside.h"
#include "work/nodes.h"

#include <assert.h>

/* The only writer of the state. */
static void enter(struct gy_batch_guard *guard, enum gy_batch_guard_state state)
{
    assert((state == GY_GUARD_CLOSED) != (guard->state == GY_GUARD_CLOSED));
    guard->state = state;
    assert(gy_batch_guard_is_valid(guard));
}

void gy_batch_guard_init(struct gy_batch_guard *guard, struct gy_context *context)
{
    *guard = (struct gy_batch_guard){.context = context};
}

void gy_batch_guard_forget(struct gy_batch_guard *guard)
{
    assert(guard->state == GY_GUARD_CLOSED);
    for (int i = 0; i < GY_GUARD_STATES; i++) {
        if (guard->of[i] != NULL) {
            (void)guard->context->driver->cuStreamDestroy(guard->of[i]);
            guard->of[i] = NULL;
        }
    }
}

static gantry_status make_stream(struct gy_context *context, enum gy_batch_guard_state state, CUstream *out)
{
    /* WHOLE is in the context itself, whatever SMs a plan has left to it: nothing runs there */
    return state == GY_GUARD_APART ? gy_apart_create_stream(context, out)
                                   : GY_CALL(context, cuStreamCreate(out, CU_STREAM_NON_BLOCKING));
}

gantry_status gy_batch_guard_begin(struct gy_batch_guard *guard, enum gy_batch_guard_state state)
{
    assert(guard->state == GY_GUARD_CLOSED);
    state = gy_apart_is_there(guard->context) ? state : GY_GUARD_WHOLE;
    gantry_status status =
        guard->of[state] != NULL ? GANTRY_OK : make_stream(guard->context, state, &guard->of[state]);
    if (gy_guest_current != NULL) { /* its callbacks are refused what they are on the other threads */
        gy_inside_set_outer_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    status = status == GANTRY_OK
                 ? GY_CALL(guard->context,
                           cuStreamBeginCapture(guard->of[state], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
                 : status;
    if (status == GANTRY_OK) {
        enter(guard, state);
    }
    return status;
}

CUgraph gy_batch_guard_end(struct gy_batch_guard *guard)
{
    const struct gy_driver *driver = guard->context->driver;
    CUstream *stream = &guard->of[guard->state];
    CUgraph empty = NULL;
    if (guard->state == GY_GUARD_CLOSED) {
        return NULL;
    }
    const bool is_ended = driver->cuStreamEndCapture(*stream, &empty) == CUDA_SUCCESS;
    enter(guard, GY_GUARD_CLOSED);
    if (!is_ended) {
        gy_stream_drop_if_captured(driver, stream);
    }
    return is_ended ? empty : NULL;
}

bool gy_batch_guard_is_broken(const struct gy_batch_guard *guard)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return guard->state != GY_GUARD_CLOSED &&
           (guard->context->driver->cuStreamIsCapturing(guard->of[guard->state], &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_ACTIVE);
}
