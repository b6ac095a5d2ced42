#include "dispatcher/ways/capture.h"

#include "base/span.h"
#include "dispatcher/ways/aside.h"
#include "dispatcher/ways/callback.h"
#include "dispatcher/ways/metered.h"
#include "driver/told.h"

#include <assert.h>

/* ---- the capture ---------------------------------------------------------------------------- */

static gantry_status begin_capture(struct gantry_dispatcher *d)
{
    gantry_status status = gy_shares_any(&d->shares) ? gy_shares_begin_capture(&d->shares) : GANTRY_OK;
    return status == GANTRY_OK ? gy_graphs_begin(&d->graphs) : status;
}

gantry_status gy_capture_end(struct gantry_dispatcher *d)
{
    assert(gy_graphs_are_valid(&d->graphs));
    if (gy_shares_any(&d->shares) && gy_shares_end_capture(&d->shares) != GANTRY_OK) {
        gy_context_lose(d->config.context, gy_error_last()); /* its tasks were released */
    }
    gantry_status status = gy_graphs_end(&d->graphs);
    if (status == GANTRY_OK && gy_shares_any(&d->shares)) {
        status = gy_shares_launched(&d->shares, d->streams.batch.home);
    }
    gy_gpu_time_launched(d->config.time);
    return status;
}

gantry_status gy_capture_cut(struct gantry_dispatcher *d)
{
    assert(gy_graphs_are_valid(&d->graphs));
    if (!d->graphs.capturing) {
        return GANTRY_OK;
    }
    gy_gd_count(&d->graphs.cuts, 1);
    return gy_capture_end(d);
}

gantry_status gy_capture_leave(gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    gantry_status status = gy_aside_settle(launch);
    if (status == GANTRY_OK) {
        status = gy_capture_cut(d);
    }
    launch->stream = d->streams.streams[launch->stream_index].native;
    if (status == GANTRY_OK) {
        status = gy_streams_wait_barrier(&d->streams, launch->stream_index);
    }
    return status == GANTRY_OK ? gy_metered_enter(launch) : status;
}

gantry_status gy_capture_leave_for_good(gantry_launch *launch, const char *why)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    if (!d->graphs.capturing) {
        return GANTRY_OK;
    }
    gy_log(GANTRY_LOG_INFO, "task '%s' leaves the graph: %s; its callback runs on streams from now on",
           gantry_task_label(launch->task), why);
    gy_graphs_set_trust(&d->graphs, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    gy_units_forbid(launch, why);
    return gy_capture_leave(launch);
}

/* ---- before a call -------------------------------------------------------------------------- */

gantry_status gy_capture_choose(struct gantry_dispatcher *d, struct gy_round *round, const gantry_task *task,
                                bool *probe)
{
    struct gy_graphs *g = &d->graphs;
    gantry_launch_fn function = gy_task_launch_fn(task);
    enum gy_trust trust = gy_graphs_trust(g, function);
    bool alone = trust == GY_TRUST_UNKNOWN && g->calls > 0;
    bool hurry = atomic_load_explicit(&g->waiting, memory_order_relaxed) != 0 && g->calls > 0 &&
                 round->recording == NULL;
    bool large = gy_graphs_is_large(g) && round->recording == NULL;
    if (g->capturing && (trust == GY_TRUST_NO || alone || hurry || large)) {
        g->part += large;
        gantry_status status = gy_capture_cut(d);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    if (trust != GY_TRUST_NO && !g->capturing && begin_capture(d) != GANTRY_OK) {
        round->as_graph = false; /* this batch goes on without */
        return gy_context_is_lost(d->config.context) ? gy_context_adopt_loss(d->config.context) : GANTRY_OK;
    }
    *probe = trust == GY_TRUST_UNKNOWN && g->capturing;
    return GANTRY_OK;
}

void gy_capture_note(struct gantry_dispatcher *d, const gantry_task *task, uint32_t stream)
{
    assert(gy_graphs_are_valid(&d->graphs));
    d->graphs.calls++; /* before the call: it may end the capture itself */
    gy_graphs_note(&d->graphs, (uint64_t)(uintptr_t)gy_task_launch_fn(task));
    gy_graphs_note(&d->graphs, stream * 2u + gy_span_on()); /* a recording adds nodes */
}

gantry_status gy_capture_before(struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    launch->ops = gy_gd_ops(d);
    launch->refusals = gy_told_refusals();
    launch->frees.begin = launch->frees.end = gy_deferred_next(&d->deferred, launch->stream_index);
    return gy_graphs_trust(&d->graphs, gy_task_launch_fn(launch->task)) == GY_TRUST_RAW
               ? gy_aside_open(launch)
               : GANTRY_OK;
}

/* ---- after a call --------------------------------------------------------------------------- */

/* Whether what the call has enqueued cannot be captured: launch->spoilt then says why.  `broken`: neither can
 * what other calls enqueue after it. */
static bool is_spoilt(struct gantry_launch *launch, gantry_launch_result result, bool *broken)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const bool tells = d->config.context->driver->log != NULL;
    const bool refused = gy_told_refusals() != launch->refusals; /* before more is told */
    const bool failed = result == GANTRY_LAUNCH_FAILED;
    launch->placed |= !launch->aside && gy_gd_ops(d) != launch->ops;
    if (launch->aside) {
        (void)gy_aside_close(launch, !failed && !refused);
    }
    const bool doubtful = failed || refused || launch->spoilt != NULL || !tells;
    *broken = doubtful && gy_graphs_is_broken(&d->graphs);
    const bool forbidden = doubtful && gy_graphs_is_guard_broken(&d->graphs);
    if (launch->spoilt == NULL && (refused || forbidden || *broken)) {
        launch->spoilt = "it makes a call that a capture forbids";
    }
    return launch->spoilt != NULL;
}

/* What a first call that was captured alone has told. */
static void learn_trust(struct gantry_launch *launch, bool probe)
{
    struct gy_graphs *g = &launch->dispatcher->graphs;
    gantry_launch_fn function = gy_task_launch_fn(launch->task);
    if (probe || (launch->asked && gy_graphs_trust(g, function) == GY_TRUST_OURS)) {
        gy_graphs_set_trust(g, function, launch->asked ? GY_TRUST_RAW : GY_TRUST_OURS);
    }
}

/* The capture held this call alone: as if nothing had happened. */
static gantry_status drop_probe(struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    gantry_status status = gy_graphs_drop(&d->graphs);
    launch->stream = d->streams.streams[launch->stream_index].native;
    if (status == GANTRY_OK) {
        status = gy_streams_wait_barrier(&d->streams, launch->stream_index);
    }
    if (status == GANTRY_OK && gy_shares_any(&d->shares)) {
        status = gy_shares_drop_capture(&d->shares);
    }
    struct gy_gpu_mark *mark = atomic_load_explicit(&gy_task_gpu(launch->task)->mark, memory_order_relaxed);
    gy_gpu_time_begin_again(d->config.time, mark, launch->stream);
    return status;
}

/* A call that no capture allows, such as synchronising the context, or another thread's: with the capture
 * goes the work of tasks that were released. */
static gantry_status lose_batch(struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    (void)GY_FAIL(
        GANTRY_ERR_DEVICE_LOST,
        "the capture of a batch was broken at or before task '%s', by a call that no capture allows, as "
        "one that synchronises the context: see gantry_launch_leave_graph()",
        gy_task_label(launch->task));
    gy_context_lose(launch->dispatcher->config.context, gy_error_last());
    return GANTRY_ERR_DEVICE_LOST;
}

static GY_COLD gantry_launch_result call_again(struct gantry_launch *launch, const char *why)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    launch->asked = launch->placed = false;
    launch->spoilt = NULL;
    launch->frees.end = gy_deferred_next(&d->deferred, launch->stream_index);
    gy_gd_count(&d->counters.launch_calls, 1);
    gantry_launch_result result = gy_callback_call(launch, d->last_error, gy_span_begin());
    if (result != GANTRY_LAUNCH_FAILED) {
        gy_log(GANTRY_LOG_WARNING,
               "task '%s' does what a graph cannot capture (%s): its callback runs on streams",
               gy_task_label(launch->task), why);
        gy_graphs_set_trust(&d->graphs, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    }
    return result;
}

/* The call's work is done again on the plain stream; where part of it is in the batch already, the task
 * fails. Nobody else's work is lost. */
static GY_COLD gantry_launch_result repair(struct gantry_launch *launch, bool probe, bool broken)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    const char *why = launch->spoilt;
    const bool again = probe || !launch->placed;
    gantry_status status = GANTRY_OK;
    gy_units_forbid(launch, why);
    if (probe) { /* whatever it has broken */
        status = drop_probe(launch);
    } else if (broken) {
        status = lose_batch(launch);
    } else if (again) {
        status = gy_capture_leave(launch);
    } else {
        status = gy_graphs_renew_guard(&d->graphs);
    }
    if (status != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (again) {
        return call_again(launch, why);
    }
    gy_graphs_set_trust(&d->graphs, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    (void)GY_FAIL(GANTRY_ERR_TASK_FAILED,
                  "task '%s' cannot be captured any more (%s), and part of it is done: its callback runs on "
                  "streams from now on; see gantry_launch_leave_graph()",
                  gy_task_label(launch->task), why);
    return GANTRY_LAUNCH_FAILED;
}

gantry_launch_result gy_capture_after(struct gantry_launch *launch, gantry_launch_result result, bool probe)
{
    assert(gy_launch_is_valid(launch));
    bool broken;
    if (__builtin_expect(is_spoilt(launch, result, &broken), 0) &&
        !gy_context_is_lost(launch->dispatcher->config.context)) {
        return repair(launch, probe, broken);
    }
    if (result != GANTRY_LAUNCH_FAILED) {
        learn_trust(launch, probe);
    }
    return result;
}
