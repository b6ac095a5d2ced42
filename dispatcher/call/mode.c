#include "dispatcher/call/mode.h"

#include "dispatcher/call/metered.h"
#include "driver/inside.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

bool gy_mode_is_valid(const struct gantry_launch *launch)
{
    const struct gantry_dispatcher *d = launch->dispatcher;
    const bool is_noted = gy_mode_is_noted(launch);
    const struct gy_batch_order *batch = &d->streams.batch;
    const bool is_ahead = launch->mode == GY_MODE_AHEAD;
    return gy_launch_is_valid(launch) && is_noted == (batch->state != GY_BATCH_CLOSED) &&
           is_ahead == (batch->state == GY_BATCH_SUSPENDED) &&
           (!is_ahead || launch->round->recording == NULL) &&
           (is_noted || (launch->lane == NULL && !launch->aside)) &&
           (launch->lane == NULL || !launch->aside) &&
           (launch->mode == GY_MODE_SYNCHRONOUS) == (d->config.synchronous) &&
           (launch->mode != GY_MODE_FIRST || launch->round->meets) &&
           (launch->mode != GY_MODE_RECORDING || launch->round->recording != NULL) &&
           (launch->mode != GY_MODE_BATCH || launch->round->recording == NULL);
}

gantry_status gy_mode_begin_any(struct gantry_launch *launch)
{
    gantry_status status = launch->meter != NULL ? gy_metered_enter(launch) : GANTRY_OK;
    if (status == GANTRY_OK && gy_mode_is_noted(launch)) {
        status = gy_capture_before(launch);
    }
    if (status == GANTRY_OK && launch->mode == GY_MODE_FIRST) {
        gy_hold_begin(&launch->dispatcher->graphs.hold);
    }
    assert(status != GANTRY_OK || gy_mode_is_valid(launch));
    return status;
}

/* Wait until the call's work is done; if it fails, the message names this task. */
static GY_COLD gantry_launch_result synchronize(struct gantry_launch *launch, gantry_launch_result result)
{
    struct gy_context *context = launch->dispatcher->config.context;
    CUresult answer = context->driver->cuStreamSynchronize(launch->stream);
    if (answer == CUDA_SUCCESS) {
        return result;
    }
    char what[64];
    snprintf(what, sizeof(what), "GPU work (launch call %" PRIu64 ")", launch->index);
    (void)gy_context_failed(context, answer, what, __FILE__, __LINE__);
    return GANTRY_LAUNCH_FAILED;
}

gantry_launch_result gy_mode_after_any(struct gantry_launch *launch, gantry_launch_result result)
{
    assert(gy_mode_is_valid(launch));
    gy_inside_return(); /* some of these ways ask streams and events */
    if (gy_mode_is_noted(launch) && !gy_capture_took(launch, launch->dispatcher, result)) {
        result = gy_capture_after(launch, result);
    }
    if (launch->mode == GY_MODE_FIRST) {
        const enum gy_hold_answer answer = gy_hold_end(&launch->dispatcher->graphs.hold);
        if (result != GANTRY_LAUNCH_FAILED) {
            gy_capture_meet(launch, answer);
        }
    }
    if (launch->mode == GY_MODE_AHEAD && gy_capture_play(launch) != GANTRY_OK) {
        result = GANTRY_LAUNCH_FAILED;
    }
    if (launch->meter != NULL && gy_metered_leave(launch) != GANTRY_OK) {
        result = GANTRY_LAUNCH_FAILED;
    }
    const bool is_waited_for = launch->mode == GY_MODE_SYNCHRONOUS && result != GANTRY_LAUNCH_FAILED;
    return is_waited_for ? synchronize(launch, result) : result;
}
