/* SPDX-License-Identifier: MIT */
/* Call modes: how one call of a launch callback is made.
 *
 *     PLAIN         The call's work goes to the task's stream.
 *     SYNCHRONOUS   The same, and the work is waited for when the call has returned, so that an error names
 *                   the task that has failed.
 *     FIRST         The same as PLAIN, in auto mode: the first call of a function, which shows what its calls
 *                   ask for (met.h).
 *     BATCH         The work is noted for the graph of the batch, as the function has left it to us before.
 *     TRIAL         The same, where that is not known, or the callback asks for its stream: the work is
 *                   looked at when the call has returned.
 *     RECORDING     The same for the graph of a replay unit, which is launched again in later runs.
 *     AHEAD         A batch is open, and the call goes ahead of it: the work is noted by itself, and enqueued
 *                   on the task's stream when the call has returned.
 *
 *               choose                                                                  after
 *     (no call) ───────► PLAIN, SYNCHRONOUS or FIRST ── begin ── the callback is called ──────► (no call)
 *         │                ▲ PLAIN
 *         │                │ the callback does what no graph takes: its graph is launched without it
 *         └────► BATCH, TRIAL, RECORDING or AHEAD ── begin ── the callback is called ──► (no call)
 *
 * Between choose and begin the caller puts the stream in order.  What a callback enqueues itself in a noted
 * call is captured aside (aside.h): a call that was BATCH is TRIAL from then on.
 *
 * gy_mode_set() is the only writer.  The functions are called on the dispatcher's thread. */
#ifndef DISPATCHER_CALL_MODE_H
#define DISPATCHER_CALL_MODE_H

#include "copykernel/queue.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/internal.h"
#include "dispatcher/submit/policy.h"
#include "dispatcher/submit/round.h"

/* The fields of the call fit its mode, and the mode fits the state of the dispatcher. */
bool gy_mode_is_valid(const struct gantry_launch *launch);

/* Choose the mode of the call of `d` and of `round`, before anything is put on its stream. */
GANTRY_MUST_CHECK static GY_INLINE gantry_status gy_mode_choose(struct gantry_launch *launch,
                                                                const struct gantry_dispatcher *d,
                                                                const struct gy_round *round)
{
    if (!round->way->is_uniform) {
        return gy_capture_choose(launch, d, round);
    }
    gy_mode_set(launch, round->way->modes[GY_TRUST_UNKNOWN]);
    return GANTRY_OK;
}

/* Is there nothing to do right before the call and right after it?  `meter` is the call's.  A call whose mode
 * is PLAIN keeps that. */
static inline bool gy_mode_is_bare(const struct gantry_launch *launch, const struct gy_meter *meter)
{
    return launch->mode == GY_MODE_PLAIN && meter == NULL;
}

/* For calls that are not PLAIN, or that are measured. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_mode_begin_any(struct gantry_launch *launch);
GY_RARE gantry_launch_result gy_mode_after_any(struct gantry_launch *launch, gantry_launch_result result);

/* To be called right before the callback of `task` is called; its stream, which is `s`, is in order.  For
 * calls that are not bare; `meter` is the call's. */
GANTRY_MUST_CHECK static GY_INLINE gantry_status gy_mode_begin(struct gantry_launch *launch,
                                                               struct gantry_dispatcher *d,
                                                               const gantry_task *task, struct gy_stream *s,
                                                               const struct gy_meter *meter)
{
    if (__builtin_expect(meter == NULL, 1) && launch->mode == GY_MODE_BATCH) {
        gy_capture_note_call(launch, d, task, s);
        gy_copy_call_begin();
        return GANTRY_OK;
    }
    return gy_mode_begin_any(launch);
}

/* To be called right after the callback has returned `result`; returns what becomes of the call.  For calls
 * that were not bare when they began. */
static GY_INLINE gantry_launch_result gy_mode_after(struct gantry_launch *launch,
                                                    const struct gantry_dispatcher *d,
                                                    const struct gy_meter *meter, gantry_launch_result result)
{
    gy_copy_call_enter(GY_COPY_CALL_NONE);
    const bool is_over =
        meter == NULL && (launch->mode == GY_MODE_PLAIN || gy_capture_took(launch, d, result));
    return __builtin_expect(is_over, 1) ? result : gy_mode_after_any(launch, result);
}

#endif
