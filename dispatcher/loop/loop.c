/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/loop.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "base/times.h"
#include "base/waiter.h"
#include "dispatcher/call/phases.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/loop/guest_rule.h"
#include "dispatcher/loop/intake.h"
#include "dispatcher/loop/stats.h"
#include "dispatcher/submit/ahead.h"
#include "dispatcher/submit/batch_key.h"
#include "dispatcher/submit/policy.h"
#include "dispatcher/submit/replay.h"
#include "dispatcher/submit/round.h"
#include "driver/inside.h"
#include "driver/told.h"
#include "profile/cta.h"
#include "profile/gpu_time.h"
#include "taskman/manager.h"

#include <assert.h>

/* ---- states --------------------------------------------------------------------------------- */

#ifndef NDEBUG
static bool may_go(enum gd_state from, enum gd_state to)
{
    switch (from) {
    case GD_STATE_IDLE:
        return true;
    case GD_STATE_BATCH:
        return to == GD_STATE_IDLE;
    case GD_STATE_FAILED:
        return to == GD_STATE_CLOSED;
    case GD_STATE_CLOSED:
        return false;
    }
    return false;
}
#endif

static bool has_work(const struct gantry_dispatcher *d, const struct gy_round *round)
{
    return !gy_bins_are_empty(&round->bins) || d->units.due != NULL;
}

bool gy_gd_has_work(const struct gantry_dispatcher *d)
{
    return d->loop.local.first != NULL || d->loop.state == GD_STATE_BATCH || has_work(d, d->loop.round);
}

/* The only writer of d->loop.state. */
static void gd_enter(struct gantry_dispatcher *d, const struct gy_round *round, enum gd_state next)
{
    assert(may_go(d->loop.state, next));
    assert(next != GD_STATE_IDLE || gy_bins_are_empty(&round->bins));
    (void)round;
    d->loop.state = next;
}

/* ---- how long to wait ----------------------------------------------------------------------- */

/* The least time to look for tasks: a step that was announced or is open is a wake hint. */
static uint64_t least_spin_ns(struct gantry_dispatcher *d, uint64_t now)
{
    if (atomic_load_explicit(&d->told.open_steps, memory_order_relaxed) != 0) {
        return GY_LOOP_STEP_NS;
    }
    uint64_t announced = gy_wake_hint_left(&d->told.announced, now);
    return announced != 0 ? announced : GY_LOOP_IDLE_NS;
}

static void await_tasks(struct gantry_dispatcher *d, uint32_t seen, bool tasks_too, uint64_t until_ns)
{
    bool is_adaptive = d->config.wait == GANTRY_WAIT_ADAPTIVE;
    if (!gy_waiter_spins_first(d->config.wait)) {
        gy_inbox_wait(&d->inbox, seen, tasks_too, d->config.wait, 0, until_ns);
        return;
    }
    uint64_t begin = gy_clock_ns();
    uint64_t least = least_spin_ns(d, begin);
    uint64_t budget = is_adaptive && d->loop.spin_budget_ns > least ? d->loop.spin_budget_ns : least;
    gy_inbox_wait(&d->inbox, seen, tasks_too, d->config.wait, budget, until_ns);
    if (is_adaptive) {
        d->loop.spin_budget_ns =
            gy_waiter_learn(d->loop.spin_budget_ns, gy_clock_ns() - begin, GY_LOOP_MOST_NS);
    }
}

/* The dispatcher's thread has found nothing: wait for a signal after the one `seen`, and for tasks if they
 * may be taken, until a task that is held back may be launched at the latest. */
static void wait_for_work(struct gantry_dispatcher *d, uint32_t seen, bool tasks_too)
{
    uint64_t deadline = gy_gates_deadline(d);
#ifdef GANTRY_TESTING
    const struct gy_share_clock *clock = gy_share_test_clock;
    if (deadline != 0 && clock != NULL) {
        clock->sleep_until(deadline);
        return;
    }
#endif
    await_tasks(d, seen, tasks_too, deadline);
}

/* ---- a round -------------------------------------------------------------------------------- */

/* While recording: count the tasks that wait when a round begins, and when it has called all it could.
 * Returns their sum. */
static uint32_t count_queues(const struct gy_round *round)
{
    static const char *const names[GD_PHASES] = {"HtoD tasks waiting", "Kernel tasks waiting",
                                                 "DtoH tasks waiting"};
    uint32_t all = 0;
    for (enum gd_phase phase = GD_HTOD; phase < GD_PHASES; phase++) {
        uint32_t count = 0;
        for (gantry_task *task = round->bins.of[phase].first; task != NULL; task = task->next) {
            count++;
        }
        gy_profile_count(gy_profile_generation(), names[phase], count);
        all += count;
    }
    return all;
}

static uint64_t mixed(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 29;
}

/* The shape by which AUTO knows a batch again: the set of launch functions that are ready at its beginning,
 * as bits of their hashes, and how many GPU tasks their step has.  How many of the functions' tasks are ready
 * already, and in which order, is chance.  *meets: one of the functions was not met. */
static uint64_t shape_of(struct gantry_dispatcher *d, const struct gy_round *round, uint64_t tasks,
                         bool *meets)
{
    uint64_t functions = 0;
    for (int phase = 0; phase < GD_PHASES; phase++) {
        gantry_launch_fn latest = NULL;
        for (gantry_task *task = round->bins.of[phase].first; task != NULL; task = task->next) {
            const gantry_launch_fn function = gy_task_launch_fn(task);
            if (function != latest) {
                functions |= UINT64_C(1) << (mixed((uint64_t)(uintptr_t)function) >> 58);
                *meets |= gy_trusts_is_unmet(&d->graphs.trusts, function);
                latest = function;
            }
        }
    }
    return mixed(mixed(functions) + tasks);
}

/* What rounds have come to, as counted from `before` on. */
static struct gy_choice_outcome outcome_since(const struct gantry_dispatcher *d,
                                              const struct gy_choice_outcome *before)
{
    const struct gy_graphs *g = &d->graphs;
    return (struct gy_choice_outcome){
        .works = atomic_load_explicit(&d->counters.works[GD_KERNELS], memory_order_relaxed) +
                 atomic_load_explicit(&d->counters.works[GD_COPIES], memory_order_relaxed) - before->works,
        .nodes = atomic_load_explicit(&g->counts.launched_nodes, memory_order_relaxed) - before->nodes,
        .strange = g->kept.strange - before->strange,
        .graphs = atomic_load_explicit(&g->counts.launches, memory_order_relaxed) - before->graphs,
        .plays = atomic_load_explicit(&g->counts.plays, memory_order_relaxed) - before->plays};
}

/* What auto knows of the round, whose shape comes out. */
static enum gy_choice_way known_of(struct gantry_dispatcher *d, const struct gy_round *round, uint64_t *shape)
{
    const uint64_t tasks = gy_taskman_gpu_tasks(gy_task_manager(gy_bins_first(&round->bins)));
    bool meets = false;
    *shape = shape_of(d, round, tasks, &meets);
    return meets ? GY_WAY_MEETING : gy_choice_take(&d->graphs.choice, *shape, tasks);
}

/* What was chosen for a round. */
struct chosen {
    bool is_auto;
    bool is_learnt;                  /* learn() is to be called */
    bool notes;                      /* calls are noted for a graph, unless that is given up on the way */
    uint64_t shape;                  /* by which auto knows the round again */
    struct gy_choice_outcome before; /* what all rounds before have come to */
};

/* Choose its way, which is set. */
static struct chosen choose(struct gantry_dispatcher *d, struct gy_round *round)
{
    const gantry_submission submission = atomic_load_explicit(&d->told.submission, memory_order_acquire);
    struct gy_policy_facts facts = {
        .submission = submission,
        .is_synchronous = d->config.synchronous,
        .tells_ends = submission == GANTRY_SUBMISSION_AUTO && gy_ends_are_told(&d->graphs.ends),
        .tells_refusals = d->graphs.may_lend,
        .is_shared = d->config.partitions->is_planned || gy_shares_any(&d->shares)};
    struct chosen chosen = {.shape = 0};
    struct gy_policy policy = gy_policy_of(&facts);
    if (policy.way == NULL) {
        facts.known = known_of(d, round, &chosen.shape);
        policy = gy_policy_of(&facts);
        chosen.is_auto = true;
        chosen.is_learnt = facts.known != GY_WAY_MEETING;
        chosen.before = outcome_since(d, &chosen.before);
    }
    round->way = policy.way;
    round->plays = policy.plays;
    chosen.notes = policy.way->notes;
    return chosen;
}

/* The round has ended, with these statistics: auto learns what came of it. */
static void learn(struct gantry_dispatcher *d, const struct chosen *chosen, const gantry_batch_stats *batch)
{
    struct gy_choice_outcome outcome = outcome_since(d, &chosen->before);
    outcome.works = outcome.works > batch->tasks ? outcome.works : batch->tasks;
    outcome.calls = batch->launch_calls;
    outcome.ns = batch->ns;
    const bool is_new = gy_choice_learn(&d->graphs.choice, chosen->shape, chosen->notes, &outcome);
    d->graphs.kept.seen.strangers += is_new; /* graphs behind it are cut as if it had been one */
}

/* One walk through the phases. */
static void run_round(struct gantry_dispatcher *d, struct gy_round *round)
{
    assert(gy_round_is_valid(round) && round->recording == NULL);
    const struct chosen chosen = choose(d, round);
    const bool notes = round->way->notes; /* it may be given up on the way */
    d->graphs.size.part = 0;
    round->in_batch = false;
    gantry_batch_stats before = {.struct_size = sizeof(before)};
    gantry_batch_stats now = before;
    gy_gd_read_batch(d, &before);
    uint32_t waiting = 0;
    if (gy_span_on()) {
        gy_gd_count_heap(d);
        waiting = count_queues(round);
    }
    gy_gpu_time_begin_batch(d->config.time, waiting, before.number + 1);
    gy_cta_begin_batch(gy_gpu_time_ctas(d->config.time));
    if ((chosen.is_auto || notes) && gy_cta_is_ready(gy_gpu_time_ctas(d->config.time))) {
        gy_kept_make_slots(&d->graphs.kept, &d->graphs.batch);
    }
    gy_cta_compare_clocks(gy_gpu_time_ctas(d->config.time));
    if (notes) {
        gy_key_begin(d, round);
    }
    gy_gd_walk_once(d, round);
    if (round->key.ahead.first != NULL) {
        gy_ahead_call(d, round);
    }
    gy_ahead_await(d, round);
    if (gy_span_on()) {
        (void)count_queues(round); /* before who waits for the work can see it end */
    }
    gy_gd_flush(d);
    if (round->key.is_set) {
        gy_key_end(round);
    }
    if (round->in_batch) {
        gy_gd_end_batch(d, &before, &now);
        if (chosen.is_learnt) {
            learn(d, &chosen, &now);
        }
    }
    assert(gy_round_is_valid(round) && !gy_batch_is_open(&d->streams.batch));
}

/* Run a unit, and all units that it makes due at once. */
static void run_due(struct gantry_dispatcher *d, struct gy_round *round)
{
    gantry_batch_stats before = {.struct_size = sizeof(before)};
    gantry_batch_stats now = before;
    gy_gd_read_batch(d, &before);
    uint64_t batches = atomic_load_explicit(&d->counters.batches, memory_order_relaxed);
    gy_replay_run_due(d, round);
    gy_gd_poll(d, round);
    gy_gd_flush_completions(d); /* flush the completions that the end of its tasks has asked for */
    gy_gpu_debt_settle(&d->loop.debt);
    if (atomic_load_explicit(&d->counters.batches, memory_order_relaxed) != batches) {
        gy_gd_end_batch(d, &before, &now);
    }
    assert(!gy_batch_is_open(&d->streams.batch));
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Put tasks that gates have held and that may be called now into the bins, and make units due again. */
static void unhold(struct gantry_dispatcher *d, struct gy_round *round, bool all)
{
    uint32_t cancels = atomic_load_explicit(&d->told.cancels, memory_order_acquire);
    if (__builtin_expect(cancels != d->loop.cancels_seen, 0)) {
        d->loop.cancels_seen = cancels;
        gy_gates_cancel(d, round);
    }
    if (gy_gates_concern_calls(d)) {
        gy_gates_poll_calls(d, round, all);
    }
    assert(gy_round_is_valid(round));
}

/* No launched work can make memory come back by itself any more.  This is the last look before the thread
 * sleeps, and comes after the last look for submissions: the thread is told of everything that ends after it,
 * and what ended before is known here (tests/models/admission.pml).  True: tasks were let in. */
static bool settle_memory(struct gantry_dispatcher *d)
{
    if (!gy_gates_are_busy(d)) {
        return false;
    }
    gy_gates_last_look(d);
    gy_gd_watch_memory(d);
    (void)gy_rings_flush(&d->completion); /* a failure is kept in the context */
    return d->admission.ready.first != NULL || d->admission.refused.first != NULL;
}

/* Walk the phases until the bins are empty, or a guest must leave. */
static void run_batch(struct gantry_dispatcher *d, struct gy_round *round)
{
    if (d->loop.guest != NULL) {
        gy_guest_leave_pending_rings(d);
    }
    if (d->loop.state != GD_STATE_BATCH) { /* else a guest has left the batch */
        gd_enter(d, round, GD_STATE_BATCH);
    }
    uint64_t span = gy_span_begin();
    const struct gy_span_ranges *ranges = gy_span_push(span, GY_RANGE_BATCH, "GD batch");
    while (has_work(d, round) && !gy_gd_must_leave(d, round)) {
        if (d->units.due != NULL) {
            run_due(d, round);
        } else {
            run_round(d, round);
        }
        gy_inside_return();
        gy_gd_poll(d, round);
        if (gy_admission_is_asked(&d->admission) && settle_memory(d)) {
            gy_gd_poll(d, round); /* there may be endless work that has nothing to do with the batch */
        }
        unhold(d, round, false);
        if (!has_work(d, round) && gy_gates_concern_calls(d)) {
            /* Replayed work has left its turn open. */
            gy_gd_publish_shares(d, true);
            gy_gd_flush_completions(d);
            unhold(d, round, false);
        }
        if (d->loop.guest != NULL) {
            break; /* a callback may ask again until a completion that the guest reports */
        }
    }
    gy_span_pop(ranges);
    gy_span_end(GY_SPAN_BATCH, "GD batch", span,
                atomic_load_explicit(&d->counters.batches, memory_order_relaxed));
    if (!has_work(d, round)) {
        gd_enter(d, round, GD_STATE_IDLE);
    }
}

/* The dispatcher's thread has nothing to do: follow a lost context. */
static void idle_chores(struct gantry_dispatcher *d, const struct gy_round *round)
{
    gy_gd_return_streams_if_due(d);
    if (d->loop.state == GD_STATE_IDLE && gy_context_is_lost(d->config.context) && !gy_gates_hold_calls(d)) {
        gd_enter(d, round, GD_STATE_FAILED);
        gy_device_loops_cancel(&d->loops);
        for (uint32_t i = 0; i < d->streams.room; i++) {
            (void)gy_deferred_collect(&d->deferred, i, true); /* no other thread may see their turn come */
        }
        gy_mutex_lock(&d->users.lock);
        d->users.has_failed = true;
        gy_cond_broadcast(&d->users.quiet);
        gy_mutex_unlock(&d->users.lock);
    }
}

bool gy_gd_may_read(struct gantry_dispatcher *d)
{
    return atomic_load(&d->told.open_groups) == 0 || atomic_load(&d->told.closing);
}

enum gd_turn gy_gd_turn(struct gantry_dispatcher *d, uint32_t *seen)
{
    struct gy_round *round = d->loop.round;
    /* This is read before looking: anything that is signalled later makes the wait return at once. */
    *seen = atomic_load(&d->inbox.signals);
    bool closing = atomic_load(&d->told.closing);
    gy_gpu_debt_settle(&d->loop.debt);
    unhold(d, round, closing || gy_context_is_lost(d->config.context));
    bool is_due = d->loop.state != GD_STATE_FAILED && d->units.due != NULL;
    if (d->loop.state == GD_STATE_BATCH || !gy_bins_are_empty(&round->bins) || is_due) {
        run_batch(d, round);
        return GD_TURN_AGAIN;
    }
    idle_chores(d, round);
    if (gy_replan_is_asked(&d->replan)) {
        gy_replan_put(d);
    }
    if (gy_gd_may_read(d)) {
        gy_gd_poll(d, round);
    }
    while (d->loop.state == GD_STATE_FAILED && d->units.due != NULL) {
        gy_replay_run_due(d, round); /* its tasks are released as FAILED */
        gy_gd_poll(d, round);
    }
    gy_gd_flush_completions(d); /* tasks that ended without a batch may have asked for some */
    gy_gpu_debt_settle(&d->loop.debt);
    gy_point(GY_POINT_INBOX_READ, &d->inbox);
    if (has_work(d, round)) {
        run_batch(d, round);
        return GD_TURN_AGAIN;
    }
    if (closing) {
        return GD_TURN_CLOSED;
    }
    return settle_memory(d) && gy_gd_may_read(d) ? GD_TURN_AGAIN : GD_TURN_IDLE;
}

/* Serve the dispatcher on this thread.  False: it has become stale, and has no work in its hands. */
static bool serve(struct gantry_dispatcher *d, bool until_stale)
{
    enum gd_turn turn;
    gy_gd_current = d;
    gy_thread_serve(true);
    (void)gy_thread_set_slack(GY_SLACK_NS); /* else naps last 50 us longer */
    bool pushed = gy_context_push(d->config.context) == GANTRY_OK;
    if (!pushed) {
        gy_context_lose(d->config.context, gy_error_last());
    }
    do {
        uint32_t seen;
        d->loop.last_error = gy_error_last(); /* the error that a guest has left */
        d->loop.refusals = gy_told_refusals_at();
        gy_stale_look(d);
        turn = gy_gd_turn(d, &seen);
        if (until_stale && gy_is_stale) {
            break; /* the heir looks before it waits */
        }
        if (turn == GD_TURN_IDLE) {
            wait_for_work(d, seen, gy_gd_may_read(d));
        }
    } while (turn != GD_TURN_CLOSED);
    if (pushed) {
        (void)gy_context_pop(d->config.context);
    }
    gy_gd_current = NULL;
    return turn == GD_TURN_CLOSED;
}

/* Who serves the dispatcher when the thread before has become stale. */
struct heir {
    struct gantry_dispatcher *dispatcher;
    bool is_closed;
};

static void heir_main(void *arg)
{
    struct heir *heir = arg;
    heir->is_closed = serve(heir->dispatcher, true);
}

/* A stale thread waits for its heir, and goes on itself if there is none to be had. */
void gy_gd_main(void *arg)
{
    struct gantry_dispatcher *d = arg;
    struct gy_round round = {.recording = NULL};
    struct heir heir = {d, false};
    gy_thread thread;
    d->loop.round = &round;
    heir.is_closed = serve(d, true);
    while (!heir.is_closed) {
        if (gy_thread_start(&thread, gy_thread_name(), heir_main, &heir) == GANTRY_OK) {
            gy_thread_join(&thread);
        } else {
            heir.is_closed = serve(d, false);
        }
    }
    assert(d->loop.local.first == NULL && gy_gates_are_valid(d));
    gd_enter(d, &round, GD_STATE_CLOSED);
}
