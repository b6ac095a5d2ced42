/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/capture.h"

#include "base/span.h"
#include "copykernel/queue.h"
#include "dispatcher/call/again.h"
#include "dispatcher/call/aside.h"
#include "dispatcher/call/callback.h"
#include "dispatcher/call/metered.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/step_order.h"
#include "dispatcher/submit/policy.h"
#include "profile/gpu_time.h"

#include <assert.h>
#include <inttypes.h>

/* ---- the capture ---------------------------------------------------------------------------- */

/* Shares measure whole graphs, and a recorded unit is launched again as it is. */
static gantry_status begin_capture(struct gantry_dispatcher *d, const struct gy_round *round)
{
    const bool has_shares = gy_shares_any(&d->shares);
    gantry_status status = has_shares ? gy_shares_begin_capture(&d->shares) : GANTRY_OK;
    return status == GANTRY_OK ? gy_graphs_begin(&d->graphs, round->way->guard,
                                                 !has_shares && round->recording == NULL, round->plays)
                               : status;
}

gantry_status gy_capture_end(struct gantry_dispatcher *d)
{
    assert(gy_graphs_are_valid(&d->graphs));
    if (!gy_batch_is_open(&d->streams.batch)) {
        return GANTRY_OK;
    }
    if (gy_shares_any(&d->shares) && gy_shares_end_capture(&d->shares) != GANTRY_OK) {
        gy_context_lose(d->config.context,
                        gy_error_last()); /* the tasks of the graph were already released */
    }
    gantry_status status = gy_graphs_end(&d->graphs, NULL, NULL);
    if (status == GANTRY_OK && gy_shares_any(&d->shares)) {
        status = gy_shares_launched(&d->shares, d->streams.batch.home);
    }
    gy_gpu_time_launched(d->config.time);
    return status;
}

gantry_status gy_capture_cut(struct gantry_dispatcher *d)
{
    gy_gd_count(&d->graphs.counts.cuts, gy_batch_is_open(&d->streams.batch));
    return gy_capture_end(d);
}

/* The call has made a call that the guard has refused.  Where the driver does not tell, the guard is looked
 * at. */
static bool was_refused(const struct gantry_launch *launch)
{
    const struct gantry_dispatcher *d = launch->dispatcher;
    return gy_capture_was_refused(launch, d) ||
           (!d->graphs.may_lend && gy_batch_guard_is_broken(&d->graphs.guard));
}

/* Enqueue the work that a call ahead of the batch has noted. */
static gantry_status play(struct gantry_launch *launch)
{
    struct gy_nodes *nodes = &launch->dispatcher->graphs.ahead;
    const gantry_status status = gy_nodes_play(nodes, launch->stream);
    gy_nodes_clear(nodes);
    return status;
}

/* The graph goes without the work that the call enqueues from now on. */
static gantry_status leave(struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    gantry_status status = GANTRY_OK;
    const bool is_ahead = launch->mode == GY_MODE_AHEAD;
    const bool is_first = d->graphs.batch.count == 0; /* the task has noted nothing itself */
    if (is_ahead) {
        status = play(launch);
        gy_batch_resume(&d->streams);
    }
    const gantry_status cut = gy_capture_cut(d);
    status = status == GANTRY_OK ? cut : status;
    launch->lane = NULL;
    gy_mode_set(launch, GY_MODE_PLAIN);
    gy_copy_call_enter(GY_COPY_CALL_NONE); /* everything that the call has done so far stays */
    if (status == GANTRY_OK) {
        status = gy_streams_wait_barrier(&d->streams, launch->stream_index);
    }
    struct gy_gpu_order *order = gy_placed_order_of(&d->streams, launch->task);
    if (status == GANTRY_OK && order != NULL && is_first) {
        status = gy_step_order_fence(order, gy_task_run(launch->task), launch->stream_index);
    }
    return status == GANTRY_OK ? gy_metered_enter(launch) : status;
}

gantry_status gy_capture_leave(gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    if (!gy_mode_is_noted(launch)) {
        return GANTRY_OK;
    }
    if (launch->spoilt == NULL && was_refused(launch)) {
        launch->spoilt = gy_aside_forbidden;
    }
    gantry_status status = gy_aside_settle(launch);
    return status == GANTRY_OK ? leave(launch) : status; /* else the call is made again */
}

gantry_status gy_capture_leave_for_good(gantry_launch *launch, const char *why)
{
    assert(gy_launch_is_valid(launch));
    if (!gy_mode_is_noted(launch)) {
        launch->spoilt = launch->mode == GY_MODE_FIRST ? why : launch->spoilt;
        return GANTRY_OK;
    }
    gy_log(GANTRY_LOG_INFO, "task '%s' leaves the graph: %s; its callback runs on streams from now on",
           gantry_task_label(launch->task), why);
    gy_trusts_set(&launch->dispatcher->graphs.trusts, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    gy_units_forbid(launch, why);
    return gy_capture_leave(launch);
}

/* ---- before a call -------------------------------------------------------------------------- */

/* End the graph that is being built before this call, or begin one with this call. */
static GY_RARE gantry_status choose_anew(struct gantry_launch *launch, enum gy_call_mode mode, bool is_large)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    d->graphs.size.part += is_large;
    gantry_status status = gy_capture_cut(d);
    if (status == GANTRY_OK && gy_mode_notes(mode) && begin_capture(d, launch->round) != GANTRY_OK) {
        launch->round->way = launch->round->way->without;
        status = gy_context_is_lost(d->config.context) ? gy_context_adopt_loss(d->config.context) : GANTRY_OK;
    }
    return status;
}

/* Of a function that was not met: a batch makes so many of its calls as first ones that may have waited. */
static enum gy_call_mode first_mode(const struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const uint64_t batch = atomic_load_explicit(&d->counters.batches, memory_order_relaxed);
    return gy_trusts_may_meet(&d->graphs.trusts, gy_task_launch_fn(launch->task), batch) ? GY_MODE_FIRST
                                                                                         : GY_MODE_PLAIN;
}

gantry_status gy_capture_choose_any(struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_graphs *g = &d->graphs;
    const struct gy_round *round = launch->round;
    gantry_status status = GANTRY_OK;
    const enum gy_call_mode mode =
        gy_trusts_mode(&g->trusts, round->way->modes, gy_task_launch_fn(launch->task), &launch->trust);
    if (d->streams.batch.state == GY_BATCH_SUSPENDED) {
        gy_mode_set(launch, GY_MODE_AHEAD);
        return GANTRY_OK;
    }
    if (__builtin_expect(mode == GY_MODE_FIRST, 0)) { /* there is no batch for it to disturb */
        gy_mode_set(launch, first_mode(launch));
        return gy_capture_cut(d);
    }
    const bool is_waited_for = atomic_load_explicit(&g->gate.waiting, memory_order_relaxed) != 0 &&
                               g->size.calls > 0 && round->recording == NULL;
    const bool is_large = gy_graphs_is_large(g) && round->recording == NULL;
    const bool goes_on = gy_batch_is_open(&d->streams.batch) && !is_waited_for && !is_large;
    if (__builtin_expect(!goes_on || !gy_mode_notes(mode), 0)) {
        status = choose_anew(launch, mode, is_large);
    }
    gy_mode_set(launch, gy_batch_is_open(&d->streams.batch) ? mode : GY_MODE_PLAIN);
    return status;
}

/* The state before the call was noted. */
static gantry_status begin_noted(struct gantry_launch *launch)
{
    const bool is_aside = gy_trust_is_aside(launch->trust) || !launch->dispatcher->graphs.trusts.notes;
    gantry_status status = is_aside ? gy_aside_open(launch) : GANTRY_OK;
    if (status == GANTRY_OK) {
        gy_copy_call_begin();
    }
    return status;
}

gantry_status gy_capture_before(struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_capture_note_call(launch, d, launch->task, &d->streams.streams[launch->stream_index]);
    return begin_noted(launch);
}

gantry_status gy_capture_before_ahead(struct gantry_launch *launch)
{
    struct gy_graphs *g = &launch->dispatcher->graphs;
    gy_nodes_clear(&g->ahead);
    g->ahead_lane = gy_lane_of(launch->stream, GY_FORM_FIXED);
    g->ahead_lane.nodes = &g->ahead;
    gy_capture_note_state(launch, launch->dispatcher, &g->ahead_lane);
    return begin_noted(launch);
}

/* ---- after a call --------------------------------------------------------------------------- */

/* Is the call's work unfit to be part of a graph?  Then launch->spoilt says why. */
static bool is_spoilt(struct gantry_launch *launch, gantry_launch_result result)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const bool refused = gy_capture_was_refused(launch, d); /* before our own calls below may be */
    const bool failed = result == GANTRY_LAUNCH_FAILED;
    if (gy_launch_is_aside(launch)) {
        (void)gy_aside_close(launch, !failed && !refused);
    }
    const bool is_doubtful = failed || !d->graphs.may_lend;
    if (launch->spoilt == NULL && (refused || (is_doubtful && gy_batch_guard_is_broken(&d->graphs.guard)))) {
        launch->spoilt = gy_aside_forbidden;
    }
    if (refused || launch->spoilt == gy_aside_forbidden) {
        gy_stale_note(d);
    } else if (failed && launch->spoilt == NULL && gy_is_stale) {
        launch->spoilt = "it has failed where a library may tell of a call that was refused before";
    }
    return launch->spoilt != NULL;
}

/* Learn from a call whose work a graph takes. */
static void learn_trust(const struct gantry_launch *launch)
{
    struct gy_trusts *trusts = &launch->dispatcher->graphs.trusts;
    const gantry_launch_fn function = gy_task_launch_fn(launch->task);
    const enum gy_trust learnt = launch->trust != GY_TRUST_UNKNOWN ? launch->trust : GY_TRUST_OURS;
    if (gy_trusts_of(trusts, function) < learnt) {
        gy_trusts_set(trusts, function, learnt);
    }
}

void gy_capture_tell_asks(const struct gantry_launch *launch)
{
    gy_log(
        GANTRY_LOG_INFO,
        "task '%s' asks for its stream, so auto runs its callback on streams; what bears to be captured asks "
        "by gantry_launch_capture_stream()",
        gantry_task_label(launch->task));
}

/* A call that waits for the whole context would wait for less than it knows of while its batch is noted, and
 * the batch's guard may let it. */
static void note_wait(struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const uint64_t batch = atomic_load_explicit(&d->counters.batches, memory_order_relaxed);
    if (gy_trusts_note_wait(&d->graphs.trusts, gy_task_launch_fn(launch->task), batch)) {
        gy_log(GANTRY_LOG_INFO,
               "task '%s' waits for the device in its callback, or takes long, so auto runs it on streams",
               gantry_task_label(launch->task));
    }
}

/* What leaves graphs has left.  Where the driver does not tell of refused calls, nothing that a callback
 * enqueues itself is captured. */
void gy_capture_meet(struct gantry_launch *launch, enum gy_hold_answer answer)
{
    struct gy_graphs *g = &launch->dispatcher->graphs;
    assert(launch->mode == GY_MODE_FIRST);
    const bool asks_plainly = launch->trust == GY_TRUST_RAW;
    if (asks_plainly) {
        gy_capture_tell_asks(launch);
    }
    if (launch->spoilt != NULL || (launch->trust != GY_TRUST_UNKNOWN && !g->may_lend)) {
        gy_trusts_set(&g->trusts, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    } else if (asks_plainly || answer == GY_HOLD_DID_NOT_WAIT) {
        learn_trust(launch);
    } else if (answer == GY_HOLD_MAY_HAVE_WAITED) {
        note_wait(launch);
    }
}

/* The first call has taken copies out of queues, and the work was taken back.  The queues held again what
 * they held before it, but the callback has not put there again what it had put there itself. */
static GY_COLD gantry_launch_result refuse_lost_copies(const struct gantry_launch *launch, uint64_t first,
                                                       uint64_t again)
{
    (void)GY_FAIL(GANTRY_ERR_STATE,
                  "task '%s' was called again on its stream: it has flushed %" PRIu64
                  " queued copies in the first call and %" PRIu64
                  " now; gantry_launch_leave_graph() before the flush avoids that",
                  gantry_task_label(launch->task), first, again);
    return GANTRY_LAUNCH_FAILED;
}

static GY_COLD gantry_launch_result call_again(struct gantry_launch *launch, const char *why)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const uint64_t before = d->graphs.flushed, first = before - launch->flushed;
    launch->spoilt = NULL;
    launch->frees.end = gy_deferred_next(&d->deferred, launch->stream_index);
    gy_again_begin(launch);
    gy_gd_count(&d->counters.launch_calls, 1);
    gy_copy_call_enter(GY_COPY_CALL_AGAIN);
    gantry_launch_result result =
        gy_callback_call(launch, d, launch->task, d->loop.last_error, gy_span_begin());
    gy_copy_call_enter(GY_COPY_CALL_NONE);
    gy_again_end(d);
    /* Also when it has failed again: it must not be refused anything in the next run. */
    gy_log(GANTRY_LOG_WARNING,
           "task '%s' does what a graph cannot capture (%s): its callback runs on streams",
           gy_task_label(launch->task), why);
    gy_trusts_set(&d->graphs.trusts, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    const uint64_t again = d->graphs.flushed - before;
    return result != GANTRY_LAUNCH_FAILED && again < first ? refuse_lost_copies(launch, first, again)
                                                           : result;
}

/* The call's nodes are taken back.  The batch is launched, which ends any sync points that the call has asked
 * for, and the call's work is done again on the plain stream.  Nobody else's work is lost. */
static GY_COLD gantry_launch_result repair(struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    const char *why = launch->spoilt;
    gy_units_forbid(launch, why);
    gy_nodes_cut(launch->home->nodes, launch->nodes);
    launch->home->last = launch->last;
    return leave(launch) == GANTRY_OK ? call_again(launch, why) : GANTRY_LAUNCH_FAILED;
}

gantry_launch_result gy_capture_after(struct gantry_launch *launch, gantry_launch_result result)
{
    assert(gy_launch_is_valid(launch));
    if (gy_capture_took(launch, launch->dispatcher, result)) {
        return result;
    }
    if (is_spoilt(launch, result) && !gy_context_is_lost(launch->dispatcher->config.context)) {
        return repair(launch);
    }
    if (result != GANTRY_LAUNCH_FAILED) {
        learn_trust(launch);
    }
    return result;
}

gantry_launch_result gy_capture_after_ahead(struct gantry_launch *launch, gantry_launch_result result)
{
    result = gy_capture_after(launch, result);
    return launch->mode == GY_MODE_AHEAD && play(launch) != GANTRY_OK ? GANTRY_LAUNCH_FAILED : result;
}
