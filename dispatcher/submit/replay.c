/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/replay.h"

#include "base/checking.h"
#include "base/span.h"
#include "dispatcher/call/metered.h"
#include "dispatcher/call/phases.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/intake.h"
#include "dispatcher/submit/policy.h"
#include "dispatcher/submit/replay_units.h"
#include "dispatcher/submit/round.h"
#include "taskman/manager.h"

#include <assert.h>

/* ---- how a unit is run --------------------------------------------------------------------- */

/* The application wants graphs, and nothing needs to see single launches. */
static bool may_replay(const struct gantry_dispatcher *d)
{
    gantry_submission mode = atomic_load_explicit(&d->told.submission, memory_order_relaxed);
    return (mode == GANTRY_SUBMISSION_GRAPHS || mode == GANTRY_SUBMISSION_AUTO) && !gy_span_on() &&
           !d->config.synchronous && !atomic_load_explicit(&d->streams.single, memory_order_relaxed) &&
           !gy_context_is_stopped(d->config.context);
}

static bool may_all_begin(const struct gy_unit *unit)
{
    for (gantry_task *task = unit->held.first; task != NULL; task = task->next) {
        if (!gy_task_may_begin(task)) {
            return false; /* it and what follows it will be released as FAILED */
        }
    }
    return true;
}

/* The unit is the body of a loop: its callbacks need not be known, since what they turn out to do decides. */
static bool may_loop(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    if (!gy_device_loop_may_begin(d, unit->loop)) {
        return false;
    }
    for (uint32_t i = 0; i < unit->members; i++) {
        gantry_task *task = unit->plan->members[unit->first + i];
        if (gy_trusts_of(&d->graphs.trusts, gy_task_launch_fn(task)) == GY_TRUST_NO) {
            gy_device_loop_forbid(unit->loop, "a task of its body does what a graph cannot take");
            return false;
        }
    }
    return true;
}

/* Every callback is known to be capturable; when one is known not to be, that is settled for good. */
static bool is_trusted(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    bool all = true;
    for (uint32_t i = 0; i < unit->members; i++) {
        gantry_task *task = unit->plan->members[unit->first + i];
        enum gy_trust trust = gy_trusts_of(&d->graphs.trusts, gy_task_launch_fn(task));
        if (trust == GY_TRUST_NO) {
            gy_unit_forbid(unit, task, "it cannot be captured");
        }
        all = all && (trust == GY_TRUST_OURS || gy_trust_is_aside(trust));
    }
    return all;
}

/* The launch calls that it stands for, as far as they can be foreseen. */
static uint32_t calls_of(const struct gy_unit *unit)
{
    const uint64_t turns = unit->loop != NULL ? gy_device_loop_expects(unit->loop) : 1;
    const uint64_t calls = turns * unit->members;
    return calls < UINT32_MAX ? (uint32_t)calls : UINT32_MAX;
}

/* The steps that the unit's work comes after as a whole: an older one only if none of it has to come after
 * the step before. */
static enum gy_step_bound_of bound_of(const struct gantry_dispatcher *d, const struct gy_unit *unit)
{
    bool all = true;
    for (uint32_t i = 0; i < unit->members && all; i++) {
        all = gy_task_is_independent(unit->plan->members[unit->first + i]);
    }
    return gy_placed_order_of(&d->streams, gy_unit_first_task(unit)) == NULL ? GY_BOUND_NONE
           : all                                                             ? GY_BOUND_OLDER
                                                                             : GY_BOUND_ALL;
}

/* The unit as it is put on its stream: as its first task, with all its tasks. */
static struct gy_placed placed_of(const struct gantry_dispatcher *d, const struct gy_unit *unit)
{
    struct gy_placed work = gy_gd_placed(d, gy_unit_first_task(unit));
    work.tasks = unit->members;
    return work;
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* The meter of the unit's tasks in partition `number` (as gy_task_partition() has it); NULL: none. */
static struct gy_meter *meter_in(const struct gantry_dispatcher *d, const struct gy_unit *unit,
                                 uint32_t number)
{
    for (uint32_t i = 0; i < unit->members; i++) {
        const gantry_task *task = unit->plan->members[unit->first + i];
        if (gy_task_partition(task) == number) {
            return gy_gd_meter(d, task);
        }
    }
    return NULL;
}

/* The next of its meters, in partitions that are left to look at; NULL: there are no more. */
static struct gy_meter *next_meter(const struct gantry_dispatcher *d, const struct gy_unit *unit,
                                   uint64_t *left)
{
    struct gy_meter *meter = NULL;
    for (*left = gy_shares_any(&d->shares) ? *left : 0; *left != 0 && meter == NULL; *left &= *left - 1) {
        meter = meter_in(d, unit, (uint32_t)__builtin_ctzll(*left));
    }
    return meter;
}

/* A share holds the unit back: it is due again when some meter of it gets going. */
static bool hold_back(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    uint64_t left = unit->partitions;
    for (struct gy_meter *meter; (meter = next_meter(d, unit, &left)) != NULL;) {
        if (!gy_meter_admits(&d->shares, meter, false)) {
            gy_meter_hold_unit(meter);
            unit->next_due = d->units.throttled;
            d->units.throttled = unit;
            return true;
        }
    }
    return false;
}

/* The graph of a unit, measured from outside: each partition it has work in is its from begin to end. */
static gantry_status enter_shares(struct gantry_dispatcher *d, const struct gy_unit *unit, uint32_t stream)
{
    CUstream native = d->streams.streams[stream].native;
    gantry_status status = GANTRY_OK;
    uint64_t left = unit->partitions;
    for (struct gy_meter *meter; status == GANTRY_OK && (meter = next_meter(d, unit, &left)) != NULL;) {
        status = gy_meter_enter(&d->shares, meter, stream, native, false, calls_of(unit));
    }
    return status;
}

/* Enter the shares before the graph is captured: what its roots come after is not measured with it. */
static gantry_status enter_shares_first(struct gantry_dispatcher *d, const struct gy_unit *unit,
                                        const struct gy_bins *bins)
{
    if (!gy_shares_any(&d->shares) || gy_bins_are_empty(bins)) {
        return GANTRY_OK;
    }
    const uint32_t home = gy_bins_first(bins)->stream - 1u; /* it will be launched there */
    const struct gy_placed work = placed_of(d, unit);
    gantry_status status = GANTRY_OK;
    for (int phase = 0; phase < GD_PHASES; phase++) {
        for (gantry_task *task = bins->of[phase].first; task != NULL && status == GANTRY_OK;
             task = task->next) {
            const uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
            status = gy_placed_order(&d->streams, &work, wait_set, bound_of(d, unit), home);
        }
    }
    return status == GANTRY_OK ? enter_shares(d, unit, home) : status;
}

static void leave_shares(struct gantry_dispatcher *d, const struct gy_unit *unit)
{
    uint64_t left = unit->partitions;
    for (struct gy_meter *meter; (meter = next_meter(d, unit, &left)) != NULL;) {
        (void)gy_meter_leave(&d->shares, meter); /* a failure is in the context, or costs the measure */
    }
    if (d->shares.unpublished != 0) {
        gy_gd_publish_shares(d, false);
    }
}

/* ---- called by its callbacks ----------------------------------------------------------------- */

static void call(struct gantry_dispatcher *d, struct gy_round *round, struct gy_unit *unit)
{
    struct gy_gpu_list held = unit->held;
    unit->held = (struct gy_gpu_list){NULL, NULL};
    gy_wait_set_drop(&d->wait_sets, atomic_exchange(&unit->wait_set, GY_WAIT_SET_NONE));
    gy_unit_settle(d, unit, GY_UNIT_CALLED);
    for (gantry_task *task = held.first, *next; task != NULL; task = next) {
        next = task->next;
        gy_gd_place(d, round, task); /* the last one may be released by it, and the unit gone */
    }
}

/* ---- launched -------------------------------------------------------------------------------- */

/* Merge the work of this device that a root comes after.  Work of other devices is waited for separately. */
static void merge_wait_set(struct gantry_dispatcher *d, struct gy_unit *unit, uint64_t wait_set)
{
    if (!gy_wait_set_is_clock(wait_set) || gy_clock_of(wait_set)->crossing == NULL) {
        gy_wait_set_merge(&d->wait_sets, &unit->wait_set, wait_set);
        return;
    }
    const struct gy_clock *clock = gy_clock_of(wait_set);
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        gy_wait_set_merge(&d->wait_sets, &unit->wait_set,
                          gy_timeline_point_on(d->streams.device, i, clock->seq[i]));
    }
}

/* Everything the unit comes after. */
static uint64_t merge_wait_sets(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    for (gantry_task *task = unit->held.first; task != NULL; task = task->next) {
        merge_wait_set(d, unit, atomic_load_explicit(&task->wait_set, memory_order_acquire));
    }
    return atomic_exchange(&unit->wait_set, GY_WAIT_SET_NONE);
}

/* What its roots come after on other devices of the fleet. */
static gantry_status wait_for_others(struct gantry_dispatcher *d, const struct gy_unit *unit, uint32_t stream)
{
    gantry_status status = GANTRY_OK;
    for (gantry_task *task = unit->held.first; task != NULL && status == GANTRY_OK && d->member.fleet != NULL;
         task = task->next) {
        uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
        if (gy_wait_set_is_clock(wait_set) && gy_clock_of(wait_set)->crossing != NULL) {
            status = gy_streams_wait(&d->streams, stream, wait_set);
        }
    }
    return status;
}

static gantry_status launch_graph(struct gantry_dispatcher *d, const struct gy_unit *unit, CUstream stream)
{
    if (unit->loop != NULL) {
        gy_device_loop_enter(unit->loop);
    }
    gantry_status status = GY_CALL(d->config.context, cuGraphLaunch(unit->recorded.exec.native, stream));
    if (unit->loop != NULL && status != GANTRY_OK) {
        gy_device_loop_abandon(unit->loop);
    }
    return status;
}

/* Enqueue the graph; its timeline point comes out. */
static gantry_status enqueue(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    assert(gy_unit_is_valid(unit));
    const struct gy_placed work = placed_of(d, unit);
    const enum gy_step_bound_of bound = bound_of(d, unit);
    uint64_t wait_set = merge_wait_sets(d, unit);
    uint32_t stream;
    gantry_status status = gy_placed_assign(&d->streams, &work, wait_set, bound, &stream);
    if (status != GANTRY_OK) {
        gy_wait_set_drop(&d->wait_sets, wait_set);
        return status;
    }
    status = gy_placed_order(&d->streams, &work, wait_set, bound, stream);
    gy_wait_set_drop(&d->wait_sets, wait_set);
    status = status == GANTRY_OK ? wait_for_others(d, unit, stream) : status;
    struct gy_stream *s = &d->streams.streams[stream];
    status = status == GANTRY_OK ? enter_shares(d, unit, stream) : status;
    status = status == GANTRY_OK ? launch_graph(d, unit, s->native) : status;
    if (status != GANTRY_OK) {
        gy_streams_abandon(&d->streams, stream);
        return status;
    }
    gy_copier_kept_launched(unit->recorded.kept, s->native);
    leave_shares(d, unit);
    unit->stream = stream;
    unit->result =
        gy_placed_close(&d->streams, &work, stream, s, unit->leaving, unit->leaving != 0, &unit->point);
    return GANTRY_OK;
}

/* The completions that the callbacks have asked for when they were called. */
static gantry_status complete(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    assert(gy_unit_is_valid(unit));
    for (uint32_t i = 0; i < unit->recorded.completes; i++) {
        gantry_task *target = unit->recorded.completions[i];
        if (gantry_task_add_reference(target) != GANTRY_OK) {
            unit->recorded.is_stale = true; /* dispatched already: its callback shall hear of it next time */
            continue;
        }
        gantry_status status = gy_rings_add(&d->completion, unit->stream, target, 0);
        if (status != GANTRY_OK) {
            (void)gantry_task_remove_reference(target);
            return status;
        }
        gy_gd_count(&d->counters.completions, 1);
    }
    gy_gd_flush_completions(d);
    return GANTRY_OK;
}

static void launch(struct gantry_dispatcher *d, struct gy_round *round, struct gy_unit *unit)
{
    gantry_status status = enqueue(d, unit);
    if (status == GANTRY_OK) {
        status = complete(d, unit);
    } else if (!gy_context_is_lost(d->config.context)) {
        unit->recorded.is_stale = true;
        gy_log(GANTRY_LOG_WARNING,
               "what was recorded of stable task '%s' cannot be launched (%s): calling it",
               gantry_task_label(gy_unit_first_task(unit)), gy_error_last()->text);
    }
    if (status != GANTRY_OK) {
        call(d, round, unit);
        return;
    }
    gy_gd_count(&d->counters.batches, 1);
    gy_gd_count(&d->counters.replays, 1);
    for (int i = 0; i < GD_WORKS; i++) {
        gy_gd_count(&d->counters.works[i], unit->recorded.works[i]);
    }
    gy_unit_settle(d, unit, GY_UNIT_LAUNCHED);
    struct gy_gpu_list held = unit->held;
    unit->held = (struct gy_gpu_list){NULL, NULL};
    for (gantry_task *task = held.first, *next; task != NULL; task = next) {
        next = task->next;
        gy_unit_release(d, unit, task); /* with the last task of all the unit may be gone */
    }
}

/* ---- recorded -------------------------------------------------------------------------------- */

/* What the counters have grown by is stored with the recording. */
static void count_recorded(const struct gantry_dispatcher *d, struct gy_unit *unit, bool begin)
{
    for (int i = 0; i < GD_WORKS; i++) {
        const uint64_t now = atomic_load_explicit(&d->counters.works[i], memory_order_relaxed);
        unit->recorded.works[i] = begin ? now : now - unit->recorded.works[i];
    }
}

/* The context in which the work of the unit's partition runs. */
static gantry_status find_context(const struct gantry_dispatcher *d, const struct gy_unit *unit,
                                  CUcontext *out)
{
    const struct gy_context *context = d->config.context;
    const struct gantry_partition *partition = gy_gd_partition(d, gy_unit_first_task(unit));
    const CUgreenCtx green = partition->green != NULL ? partition->green : context->home;
    *out = context->native;
    return green == NULL ? GANTRY_OK : GY_CALL(d->config.context, cuCtxFromGreenCtx(out, green));
}

/* All tasks of the unit were called: keep what they have enqueued, if it is all in one capture and may be
 * launched again.  Else the capture ends with the flush, and what an earlier run has recorded, if anything,
 * is as stale as before. */
static void keep(struct gantry_dispatcher *d, const struct gy_recording *recording)
{
    struct gy_unit *unit = recording->unit;
    CUcontext where = NULL;
    if (recording->failed || unit->never || recording->finished != unit->members ||
        atomic_load_explicit(&d->graphs.counts.cuts, memory_order_relaxed) != recording->cuts) {
        return;
    }
    if (unit->loop != NULL && unit->recorded.completes != 0) {
        gy_device_loop_forbid(unit->loop, "a task of its body completes another one in each turn");
        return;
    }
    if (unit->loop != NULL && find_context(d, unit, &where) != GANTRY_OK) {
        return;
    }
    count_recorded(d, unit, false);
    unit->recorded.is_stale = unit->recorded.is_loop = false;
    (void)gy_graphs_end(&d->graphs, unit, where); /* a failure is in the context */
    if (unit->loop != NULL && !unit->recorded.is_loop) {
        gy_device_loop_forbid(unit->loop, "the driver does not take its body as one");
    }
}

/* Call the unit's tasks, and no others, in a capture of their own.  Until that has been launched no thread
 * that waits for the step goes on.  So the unit stays where it is even when its last task was released. */
static void record(struct gantry_dispatcher *d, struct gy_round *round, struct gy_unit *unit)
{
    uint64_t cuts = atomic_load_explicit(&d->graphs.counts.cuts, memory_order_relaxed);
    struct gy_recording recording = {.unit = unit, .cuts = cuts};
    struct gy_round own = {.recording = &recording, .way = gy_policy_of_unit(d->graphs.may_lend)};
    unit->recorded.completes = 0;
    count_recorded(d, unit, true);
    call(d, &own, unit);
    if (enter_shares_first(d, unit, &own.bins) != GANTRY_OK ||
        gy_graphs_begin(&d->graphs, GY_GUARD_WHOLE, false, GY_PLAYS_NOTHING) != GANTRY_OK) {
        gy_bins_append(&round->bins, &own.bins);
        return;
    }
    if (!gy_gd_walk(d, &own)) {
        gy_unit_forbid(unit, gy_bins_first(&own.bins), "it returns GANTRY_LAUNCH_AGAIN without end");
    }
    assert(gy_round_is_valid(&own));
    own.recording = NULL;
    keep(d, &recording);
    gy_gd_flush(d);
    gy_bins_append(&round->bins, &own.bins); /* tasks that have not ended go on like any other task */
    for (gantry_task *task = recording.others.first, *next; task != NULL; task = next) {
        next = task->next;
        gy_gd_place(d, round, task);
    }
    assert(gy_round_is_valid(round));
}

/* ---- due ------------------------------------------------------------------------------------- */

void gy_replay_run_due(struct gantry_dispatcher *d, struct gy_round *round)
{
    assert(gy_gate_units.is_valid(d));
    assert(gy_round_is_valid(round));
    struct gy_unit *unit = d->units.due;
    d->units.due = unit->next_due;
    if (unit->loop == NULL && !d->units.told_streams &&
        atomic_load_explicit(&d->told.submission, memory_order_relaxed) <= GANTRY_SUBMISSION_STREAMS) {
        d->units.told_streams = true;
        gy_log(GANTRY_LOG_INFO,
               "stable task '%s' is called in every run: the submission mode is STREAMS, in "
               "which nothing is replayed; GRAPHS and AUTO do",
               gantry_task_label(gy_unit_first_task(unit)));
    }
    const bool may_be_graph = unit->loop != NULL ? may_loop(d, unit) : may_replay(d);
    if (!may_be_graph || !may_all_begin(unit) || unit->never) {
        call(d, round, unit);
        return;
    }
    bool is_recorded = unit->recorded.exec.native != NULL && !unit->recorded.is_stale;
    const bool is_compared = (d->watching.checks & GY_CHECK_STABLE) != 0; /* with what its callbacks do now */
    if (is_recorded ? unit->must_call || is_compared : unit->loop == NULL && !is_trusted(d, unit)) {
        call(d, round, unit);
    } else if (!hold_back(d, unit)) {
        (is_recorded ? launch : record)(d, round, unit);
    }
}
