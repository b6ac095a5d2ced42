/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/mode.h"

#include "dispatcher/call/metered.h"
#include "driver/inside.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Wait until the call's work is done; if it fails, the message names this task. */
static GY_COLD gantry_launch_result synchronize(struct gantry_launch *launch, gantry_launch_result result)
{
    struct gy_context *context = launch->dispatcher->config.context;
    const CUresult answer =
        result != GANTRY_LAUNCH_FAILED ? context->driver->cuStreamSynchronize(launch->stream) : CUDA_SUCCESS;
    if (answer == CUDA_SUCCESS) {
        return result;
    }
    char what[64];
    snprintf(what, sizeof(what), "GPU work (launch call %" PRIu64 ")", launch->index);
    (void)gy_context_failed(context, answer, what, __FILE__, __LINE__);
    return GANTRY_LAUNCH_FAILED;
}

static gantry_status hold(struct gantry_launch *launch)
{
    gy_hold_begin(&launch->dispatcher->graphs.hold);
    return GANTRY_OK;
}

static gantry_launch_result meet(struct gantry_launch *launch, gantry_launch_result result)
{
    const enum gy_hold_answer answer = gy_hold_end(&launch->dispatcher->graphs.hold);
    if (result != GANTRY_LAUNCH_FAILED) {
        gy_capture_meet(launch, answer);
    }
    return result;
}

enum {
    NO_BATCH = 1u << GY_BATCH_CLOSED,
    BATCH_WAITS = 1u << GY_BATCH_SUSPENDED,
    IN_BATCH = 1u << GY_BATCH_OPEN | 1u << GY_BATCH_SYNCED
};

/* What is done right before a call and right after it; NULL: nothing. */
static const struct call_way {
    gantry_status (*begin)(struct gantry_launch *launch);
    gantry_launch_result (*after)(struct gantry_launch *launch, gantry_launch_result result);
    unsigned batch; /* bit n: its state may be n */
    bool is_synchronous, is_first, is_recorded;
} ways[] = {
    [GY_MODE_PLAIN] = {.batch = NO_BATCH},
    [GY_MODE_SYNCHRONOUS] = {.after = synchronize, .batch = NO_BATCH, .is_synchronous = true},
    [GY_MODE_FIRST] = {.begin = hold, .after = meet, .batch = NO_BATCH, .is_first = true},
    [GY_MODE_AHEAD] = {.begin = gy_capture_before_ahead,
                       .after = gy_capture_after_ahead,
                       .batch = BATCH_WAITS},
    [GY_MODE_TRIAL] = {.begin = gy_capture_before, .after = gy_capture_after, .batch = IN_BATCH},
    [GY_MODE_BATCH] = {.begin = gy_capture_before, .after = gy_capture_after, .batch = IN_BATCH},
    [GY_MODE_RECORDING] = {
        .begin = gy_capture_before, .after = gy_capture_after, .batch = IN_BATCH, .is_recorded = true}};

bool gy_mode_is_valid(const struct gantry_launch *launch)
{
    const struct gantry_dispatcher *d = launch->dispatcher;
    const struct gy_round *round = launch->round;
    const struct call_way *way = &ways[launch->mode];
    const bool is_noted = way->batch != NO_BATCH;
    return gy_launch_is_valid(launch) && (way->batch >> d->streams.batch.state & 1u) != 0 &&
           (is_noted || launch->lane == NULL) && way->is_synchronous == d->config.synchronous &&
           (!way->is_first || round->way->modes[GY_TRUST_UNKNOWN] == launch->mode) &&
           (!is_noted || way->is_recorded == (round->recording != NULL));
}

gantry_status gy_mode_begin_any(struct gantry_launch *launch)
{
    const struct call_way *way = &ways[launch->mode];
    gantry_status status = launch->meter != NULL ? gy_metered_enter(launch) : GANTRY_OK;
    status = status == GANTRY_OK && way->begin != NULL ? way->begin(launch) : status;
    assert(status != GANTRY_OK || gy_mode_is_valid(launch));
    return status;
}

gantry_launch_result gy_mode_after_any(struct gantry_launch *launch, gantry_launch_result result)
{
    assert(gy_mode_is_valid(launch));
    gy_inside_return(); /* some of these ways ask streams and events */
    const struct call_way *way = &ways[launch->mode];
    result = way->after != NULL ? way->after(launch, result) : result;
    const bool is_measured = launch->meter == NULL || gy_metered_leave(launch) == GANTRY_OK;
    return is_measured ? result : GANTRY_LAUNCH_FAILED;
}
