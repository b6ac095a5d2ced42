/* The dispatcher thread (GD): a machine that walks HtoD → Kernel → DtoH → HtoD … over bins of ready tasks.
 *
 * Within a phase every running task's launch callback is called once per pass, in order, until all have
 * ended.  When one ends it is released at once; dependents of the same flavour that became ready by it join
 * the same pass, others wait in their bin.  So three kernel tasks in a row launch exactly what one task with
 * three launches does.  One walk that launches something is a batch.
 *
 * After each pass the inbox is looked at, and a phase is left after so many passes, whoever still has
 * something to launch: then completions are flushed, other flavours have their turn, and the rest goes on in
 * the next walk.  So a callback that returns AGAIN for ever holds nobody up.
 *
 * Completions asked for on the way are flushed when DtoH turns into HtoD, and when nothing is left to do:
 * then somebody may be waiting for them alone.
 *
 * Failure: once the context is lost, everything in the bins and everything that still arrives is released
 * as FAILED, in order of arrival; releasing makes dependents ready, which arrive in turn, until the graph
 * has drained.  Completions already asked for are failed by the completion thread. */
#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "dispatcher/ways/launchers.h"
#include "profile/cta.h"

#include <assert.h>

_Thread_local struct gantry_dispatcher *gy_gd_current __attribute__((tls_model("initial-exec")));

static const char *const phase_names[GD_PHASES] = {"GD HtoD", "GD Kernel", "GD DtoH"};

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

static bool bins_are_empty(const struct gantry_dispatcher *d)
{
    return d->bins[GD_HTOD].first == NULL && d->bins[GD_KERNEL].first == NULL &&
           d->bins[GD_DTOH].first == NULL;
}

static bool has_work(const struct gantry_dispatcher *d)
{
    return !bins_are_empty(d) || d->due != NULL;
}

/* The only writer of d->state. */
static void gd_enter(struct gantry_dispatcher *d, enum gd_state next)
{
    assert(may_go(d->state, next));
    assert(next != GD_STATE_IDLE || bins_are_empty(d));
    d->state = next;
}

static enum gd_phase phase_of(const gantry_task *task)
{
    _Static_assert(GANTRY_TASK_KERNEL - GANTRY_TASK_HTOD == GD_KERNEL &&
                       GANTRY_TASK_DTOH - GANTRY_TASK_HTOD == GD_DTOH,
                   "phases come in the order of the kinds");
    return (enum gd_phase)(gy_task_kind(task) - GANTRY_TASK_HTOD);
}

/* Path of a task, step 5 of 8: a ready task gets a stream and a bin. */
static GY_INLINE void place(struct gantry_dispatcher *d, gantry_task *task)
{
    struct gy_task_gpu *gpu = gy_task_gpu(task);
    if (__builtin_expect(gy_context_is_lost(d->config.context), 0)) {
        gy_gd_release_failed(d, task, gy_context_adopt_loss(d->config.context));
        return;
    }
    struct gy_gpu_memory *memory = gy_task_memory(task);
    if (memory != NULL && gy_task_may_begin(task) && /* else it needs none */
        !gy_admission_enter(&d->admission, task, memory)) {
        return;
    }
    uint32_t stream;
    uint64_t trail = atomic_load_explicit(&gpu->trail, memory_order_acquire);
    gantry_status status = gy_streams_assign(&d->streams, trail, gy_gd_partition_index(d, task), &stream);
    if (status != GANTRY_OK) {
        gy_gd_release_failed(d, task, status);
        return;
    }
    gy_task_prefetch_self(task);
    gpu->stream = (uint16_t)(stream + 1);
    gpu->launch_index = 0;
    gy_gpu_list_append(&d->bins[phase_of(task)], task, task);
}

void gy_gd_place(struct gantry_dispatcher *d, gantry_task *task)
{
    place(d, task);
}

static GY_INLINE void take_in(struct gantry_dispatcher *d, gantry_task *task)
{
    if (__builtin_expect(!gy_task_is_gpu(task), 0)) { /* a sync point, see gy_task_is_awaited() */
        gy_task_release_owing(task, GANTRY_OK, &d->debt);
    } else if (!gy_replay_take(d, task)) {
        place(d, task);
    }
}

/* Rule 5.  The last open step has ended, so whatever is binned or arrives now is of a newer one; what that
 * has reserved already is given up, which costs it a wait at most. */
static inline void return_streams_if_due(struct gantry_dispatcher *d)
{
    if (atomic_load_explicit(&d->streams_due, memory_order_relaxed) &&
        atomic_exchange(&d->streams_due, false)) {
        gy_streams_return_all(&d->streams);
    }
}

static inline gantry_task *pop(struct gy_gpu_list *list)
{
    gantry_task *task = list->first;
    if (task != NULL) {
        list->first = gy_task_gpu(task)->next;
        list->last = list->first != NULL ? list->last : NULL;
    }
    return task;
}

/* Tasks that waited for memory: bin those that have it now, fail those that will never have it. */
static GY_RARE void poll_admission(struct gantry_dispatcher *d)
{
    gy_admission_poll(&d->admission);
    gantry_task *task;
    while ((task = pop(&d->admission.refused)) != NULL) {
        gy_gd_release_failed(d, task, gy_admission_fail(&d->admission, gy_task_memory(task)));
    }
    while ((task = pop(&d->admission.ready)) != NULL) {
        take_in(d, task);
    }
}

/* Take everything submitted since the last poll, here or elsewhere, into the bins.  Releasing a failed task
 * may submit more, so go on until nothing comes. */
static void poll_submissions(struct gantry_dispatcher *d)
{
    for (;;) {
        for (gantry_task *task; (task = pop(&d->local)) != NULL;) {
            take_in(d, task);
        }
        if (!gy_inbox_is_empty(&d->inbox)) {
            (void)gy_inbox_take(&d->inbox, &d->local);
        }
        return_streams_if_due(d);
        if (d->local.first == NULL && gy_admission_is_busy(&d->admission)) {
            poll_admission(d);
        }
        if (d->local.first == NULL) {
            return;
        }
    }
}

void gy_gd_count_phase(struct gantry_dispatcher *d)
{
    uint64_t now = gy_clock_ns();
    gy_gd_count(&d->counters.phase_ns[d->phase], now - d->phase_since_ns);
    d->phase_since_ns = now;
}

/* True when the task's share is used up: it is held until it may be launched.  While a region is recorded
 * that was decided for all of it.  What was cancelled is not held: it is released, or, where it has begun,
 * goes on, on credit. */
static GY_RARE bool hold_back(struct gantry_dispatcher *d, enum gd_phase phase, gantry_task *task)
{
    if (atomic_load_explicit(&d->closing, memory_order_relaxed) || gy_context_is_lost(d->config.context)) {
        return false;
    }
    struct gy_watcher *watcher = d->shares.watcher;
    bool ends = !gy_task_may_begin(task);
    if (__builtin_expect(watcher != NULL, 0) && phase == GD_KERNEL && !ends &&
        !gy_utilisation_admits(watcher->use)) {
        gy_gpu_list_append(&watcher->held, task, task);
        return true;
    }
    struct gy_lane *lane = gy_gd_lane(d, task);
    if (lane == NULL || d->recording.region != NULL || (ends && gy_task_gpu(task)->launch_index == 0) ||
        (ends ? gy_lane_has_room : gy_lane_admits)(&d->shares, lane)) {
        return false;
    }
    gy_lane_hold(lane, phase, task);
    return true;
}

/* Callbacks may be called by several threads at once: nothing is captured, measured or recorded, and they are
 * not waited for one by one. */
static bool may_call_at_once(const struct gantry_dispatcher *d)
{
    return d->launchers != NULL && !d->as_graph && !d->graphs.capturing && d->recording.region == NULL &&
           !d->config.synchronous && !d->streams.device_wide && !gy_shares_any(&d->shares) &&
           d->shares.watcher == NULL && !gy_span_on();
}

/* How many tasks from `task` on have a stream that none before has. */
static uint32_t count_apart(gantry_task *task)
{
    uint32_t count = 0;
    for (uint64_t streams = 0; task != NULL && count < GY_STREAMS_MAX; count++) {
        const struct gy_task_gpu *gpu = gy_task_gpu(task);
        uint64_t stream = UINT64_C(1) << (gpu->stream - 1u);
        if ((streams & stream) != 0) {
            break;
        }
        streams |= stream;
        task = gpu->next;
    }
    return count;
}

/* One call each of the `count` tasks from `task` on, at once; returns the task behind them. */
static GY_RARE gantry_task *call_at_once(struct gantry_dispatcher *d, struct gy_gpu_list *bin,
                                         gantry_task *task, uint32_t count)
{
    struct gy_launchers *l = d->launchers;
    for (uint32_t i = 0; i < count; i++) {
        gantry_task *next = gy_task_gpu(task)->next;
        gy_task_prefetch_dependents(task);
        gy_gd_open_turn(d, &l->turns[i], task);
        task = next;
    }
    gy_launchers_run(l, count);
    for (uint32_t i = 0; i < count; i++) {
        gantry_task *called = l->turns[i].launch.task;
        d->last_in_phase = task == NULL && i + 1 == count && bin->first == NULL;
        if (!gy_gd_close_turn(d, &l->turns[i])) {
            gy_gpu_list_append(bin, called, called);
        } else {
            poll_submissions(d);
        }
    }
    return task;
}

/* One pass over `task` and those behind it: a call each.  Those that have more to launch go back to the bin,
 * where the tasks are that join meanwhile and get their first call in the next pass. */
static void run_pass(struct gantry_dispatcher *d, enum gd_phase phase, gantry_task *task)
{
    struct gy_gpu_list *bin = &d->bins[phase];
    gy_task_prefetch_dependents(task);
    while (task != NULL) {
        uint32_t at_once = may_call_at_once(d) ? count_apart(task) : 0;
        if (at_once != 0 && gy_launchers_want(d->launchers, at_once)) {
            task = call_at_once(d, bin, task, at_once);
            continue;
        }
        gantry_task *next = gy_task_gpu(task)->next;
        if (next != NULL) {
            gy_task_prefetch_dependents(next); /* one call may be too short to hide it */
        }
        d->last_in_phase = next == NULL && bin->first == NULL;
        if (gy_shares_any(&d->shares) && hold_back(d, phase, task)) {
            task = next;
            continue;
        }
        if (!gy_gd_step(d, task)) {
            gy_gpu_list_append(bin, task, task);
        } else {
            poll_submissions(d);
        }
        task = next;
    }
}

/* How many passes a phase lasts at most; in a row without that a task ends; and so where leaving it means a
 * graph of its own, or that a region is not recorded. */
enum { MOST_PASSES = 4096, MOST_BARREN = 8, MOST_BARREN_IN_CAPTURE = 256, MOST_IN_RECORDING = 65536 };

static uint64_t count_ended(const struct gantry_dispatcher *d)
{
    return atomic_load_explicit(&d->counters.tasks, memory_order_relaxed);
}

/* Run the tasks of one bin, interleaved, until it is empty or others shall have their turn. */
static void run_phase(struct gantry_dispatcher *d, enum gd_phase phase)
{
    struct gy_gpu_list *bin = &d->bins[phase];
    if (bin->first == NULL) {
        return;
    }
    d->phase = phase;
    d->phase_since_ns = gy_clock_ns();
    uint64_t span = gy_span_begin();
    const struct gy_span_ranges *ranges = gy_span_push(span, phase_names[phase]);
    bool recording = d->recording.region != NULL;
    uint32_t most = recording ? MOST_IN_RECORDING : MOST_PASSES;
    uint32_t most_barren = recording ? MOST_IN_RECORDING : d->as_graph ? MOST_BARREN_IN_CAPTURE : MOST_BARREN;
    for (uint32_t passes = 0, barren = 0; bin->first != NULL && passes < most && barren < most_barren;
         passes++) {
        gantry_task *first = bin->first;
        uint64_t ended = count_ended(d);
        *bin = (struct gy_gpu_list){NULL, NULL};
        run_pass(d, phase, first);
        barren = count_ended(d) == ended ? barren + 1 : 0;
        if (bin->first != NULL) {
            gy_gpu_debt_settle(&d->debt); /* somebody may wait for a step that is over */
            poll_submissions(d);
        }
    }
    gy_gd_count_phase(d);
    gy_span_pop(ranges);
    gy_span_end(GY_SPAN_PHASE, phase_names[phase], span,
                atomic_load_explicit(&d->counters.batches, memory_order_relaxed));
}

/* While recording, have GDB look at every stream with work, so that its GPU times are read. */
static void watch_streams(struct gantry_dispatcher *d)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        struct gy_stream *s = &d->streams.streams[i];
        if (d->watched[i] < s->tail && atomic_load_explicit(&s->completed, memory_order_relaxed) < s->tail) {
            d->watched[i] = s->tail;                           /* once: a round may come back many times */
            status = gy_rings_add(&d->completion, i, NULL, 0); /* fails only on a lost context */
        }
    }
}

/* Have GDB look at the streams that blocks wait for. */
static void watch_deferred(struct gantry_dispatcher *d)
{
    uint64_t deferred = atomic_load_explicit(&d->deferred.deferred, memory_order_relaxed);
    if (deferred == d->deferred_seen) {
        return;
    }
    bool all_seen = true;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        if (gy_deferred_watch(&d->deferred, i, d->streams.streams[i].tail, &all_seen)) {
            status = gy_rings_add(&d->completion, i, NULL, 0); /* fails only on a lost context */
        }
    }
    d->deferred_seen = all_seen ? deferred : d->deferred_seen;
}

/* Have GDB look at the streams that memory is held for. */
static void watch_memory(struct gantry_dispatcher *d)
{
    gantry_status status = GANTRY_OK;
    uint64_t streams = gy_admission_is_busy(&d->admission) ? gy_admission_streams(&d->admission) : 0;
    for (; streams != 0 && status == GANTRY_OK; streams &= streams - 1) {
        uint32_t stream = (uint32_t)__builtin_ctzll(streams);
        status = gy_rings_add(&d->completion, stream, NULL, 0); /* fails only on a lost context */
    }
}

/* While recording: what the heap has given out when a round begins and when it is flushed. */
static void count_heap(const struct gantry_dispatcher *d)
{
    static const struct {
        gantry_memory_kind kind;
        const char *name;
    } kinds[] = {{GANTRY_MEMORY_DEVICE, "Heap device bytes"},
                 {GANTRY_MEMORY_PINNED, "Heap page-locked bytes"}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        gantry_heap_stats stats = {.struct_size = sizeof(stats)};
        if (gantry_heap_get_stats(d->config.heap, kinds[i].kind, &stats) == GANTRY_OK) {
            gy_profile_count(gy_profile_generation(), kinds[i].name, stats.used_bytes);
        }
    }
}

static gantry_status end_capture(struct gantry_dispatcher *d)
{
    if (gy_shares_any(&d->shares) && gy_shares_end_capture(&d->shares) != GANTRY_OK) {
        gy_context_lose(d->config.context, gy_error_last()); /* its tasks were released */
    }
    gantry_status status = gy_graphs_end(&d->graphs);
    gy_gpu_time_launched(d->config.time);
    return status;
}

gantry_status gy_gd_cut(struct gantry_dispatcher *d)
{
    if (!d->graphs.capturing) {
        return GANTRY_OK;
    }
    gy_gd_count(&d->graphs.cuts, 1);
    d->recording.complete = false;
    return end_capture(d);
}

void gy_gd_publish_shares(struct gantry_dispatcher *d, bool all)
{
    struct gy_share_streams streams;
    /* A failure is in the context, or costs the measure of a segment. */
    (void)gy_shares_publish(&d->shares, d->streams.origin, all, &streams);
    gantry_status status = streams.origin ? gy_rings_watch(&d->completion, GY_SHARE_ORIGIN) : GANTRY_OK;
    for (; streams.pool != 0 && status == GANTRY_OK; streams.pool &= streams.pool - 1) {
        status = gy_rings_watch(&d->completion, (uint32_t)__builtin_ctzll(streams.pool));
    }
}

void gy_gd_flush_completions(struct gantry_dispatcher *d)
{
    if (gy_rings_is_pending(&d->completion)) {
        gy_gd_count(&d->counters.flushes, 1); /* before anybody can see that it was */
        (void)gy_rings_flush(&d->completion); /* a failure is in the context: seen by the caller */
    }
}

void gy_gd_flush(struct gantry_dispatcher *d)
{
    if (d->graphs.capturing) {
        (void)end_capture(d); /* a failure is in the context: seen below */
    }
    gy_gpu_time_launched(d->config.time); /* whoever has ended the capture */
    watch_deferred(d);
    watch_memory(d);
    if (gy_shares_any(&d->shares)) {
        gy_gd_publish_shares(d, true);
    }
    gy_cta_end_batch(gy_gpu_time_ctas(d->config.time), d->streams.origin);
    if (gy_span_on()) {
        count_heap(d);
        gy_shares_count(&d->shares, gy_profile_generation());
        watch_streams(d);
    }
    gy_gd_flush_completions(d);
    gy_gpu_debt_settle(&d->debt); /* which may wake somebody up: the GPU has its events by then */
    gy_graphs_sweep(&d->graphs);
}

/* While recording: how much is waiting when a round begins; in all. */
static uint32_t count_queues(const struct gantry_dispatcher *d)
{
    static const char *const names[GD_PHASES] = {"HtoD tasks waiting", "Kernel tasks waiting",
                                                 "DtoH tasks waiting"};
    uint32_t all = 0;
    for (enum gd_phase phase = GD_HTOD; phase < GD_PHASES; phase++) {
        uint32_t count = 0;
        for (gantry_task *task = d->bins[phase].first; task != NULL; task = gy_task_gpu(task)->next) {
            count++;
        }
        gy_profile_count(gy_profile_generation(), names[phase], count);
        all += count;
    }
    return all;
}

/* What auto knows a batch by: the launch functions that are ready when it begins. */
static uint64_t shape_of(const struct gantry_dispatcher *d)
{
    uint64_t shape = 1;
    for (int phase = 0; phase < GD_PHASES; phase++) {
        for (gantry_task *task = d->bins[phase].first; task != NULL; task = gy_task_gpu(task)->next) {
            shape = (shape ^ (uint64_t)(uintptr_t)gy_task_launch_fn(task)) * UINT64_C(0x9e3779b97f4a7c15);
            shape ^= shape >> 29;
        }
    }
    return shape;
}

/* The counters that a batch's statistics are differences of. */
static void read_batch(struct gantry_dispatcher *d, gantry_batch_stats *now)
{
    now->tasks = atomic_load_explicit(&d->counters.tasks, memory_order_relaxed);
    now->launch_calls = atomic_load_explicit(&d->counters.launch_calls, memory_order_relaxed);
    now->wfi_edges = atomic_load_explicit(&d->streams.waits, memory_order_relaxed);
    now->as_graph = (uint32_t)(atomic_load_explicit(&d->graphs.launches, memory_order_relaxed) +
                               atomic_load_explicit(&d->counters.replays, memory_order_relaxed));
    for (int phase = 0; phase < GD_PHASES; phase++) {
        now->phase_ns[phase] = atomic_load_explicit(&d->counters.phase_ns[phase], memory_order_relaxed);
        now->phase_tasks[phase] = atomic_load_explicit(&d->counters.phase_tasks[phase], memory_order_relaxed);
    }
    now->ns = gy_clock_ns();
}

static void end_batch(struct gantry_dispatcher *d, const gantry_batch_stats *before, gantry_batch_stats *now)
{
    read_batch(d, now);
    now->number = atomic_load_explicit(&d->counters.batches, memory_order_relaxed);
    now->tasks -= before->tasks;
    now->launch_calls -= before->launch_calls;
    now->wfi_edges -= before->wfi_edges;
    now->as_graph = now->as_graph != before->as_graph;
    now->ns -= before->ns;
    for (int phase = 0; phase < GD_PHASES; phase++) {
        now->phase_ns[phase] -= before->phase_ns[phase];
        now->phase_tasks[phase] -= before->phase_tasks[phase];
    }
    gy_mutex_lock(&d->batch_lock);
    d->batch = *now;
    gy_mutex_unlock(&d->batch_lock);
}

static void walk_once(struct gantry_dispatcher *d)
{
    for (enum gd_phase phase = GD_HTOD; phase < GD_PHASES; phase++) {
        run_phase(d, phase);
    }
}

bool gy_gd_walk(struct gantry_dispatcher *d)
{
    uint64_t ended;
    do {
        ended = count_ended(d);
        walk_once(d);
    } while (!bins_are_empty(d) && count_ended(d) != ended);
    return bins_are_empty(d);
}

/* One walk through the phases. */
static void run_round(struct gantry_dispatcher *d)
{
    gantry_submission mode = atomic_load_explicit(&d->submission, memory_order_relaxed);
    bool may_capture = !d->config.synchronous;
    bool automatic = mode == GANTRY_SUBMISSION_AUTO && may_capture;
    uint64_t shape = automatic ? shape_of(d) : 0;
    bool chosen = automatic && gy_graphs_choose(&d->graphs, shape);
    d->as_graph = chosen || (mode == GANTRY_SUBMISSION_GRAPHS && may_capture);
    d->graphs.part = 0;
    d->in_batch = false;
    gantry_batch_stats before = {.struct_size = sizeof(before)};
    gantry_batch_stats now = before;
    read_batch(d, &before);
    uint32_t waiting = 0;
    if (gy_span_on()) {
        count_heap(d);
        waiting = count_queues(d);
    }
    gy_gpu_time_begin_batch(d->config.time, waiting);
    gy_cta_begin_batch(gy_gpu_time_ctas(d->config.time));
    walk_once(d);
    gy_gd_flush(d);
    if (d->in_batch) {
        end_batch(d, &before, &now);
        if (automatic) {
            gy_graphs_learn(&d->graphs, shape, chosen, now.ns, now.launch_calls);
        }
    }
}

/* A region, all that it makes ready at once included. */
static void run_due(struct gantry_dispatcher *d)
{
    gantry_batch_stats before = {.struct_size = sizeof(before)};
    gantry_batch_stats now = before;
    read_batch(d, &before);
    uint64_t batches = atomic_load_explicit(&d->counters.batches, memory_order_relaxed);
    gy_replay_run_due(d);
    poll_submissions(d);
    gy_gd_flush_completions(d); /* those that the end of its tasks has asked for */
    gy_gpu_debt_settle(&d->debt);
    if (atomic_load_explicit(&d->counters.batches, memory_order_relaxed) != batches) {
        end_batch(d, &before, &now);
    }
}

/* Runs were cancelled: nothing of them waits for a share or for memory any more. */
static GY_COLD void let_cancelled_go(struct gantry_dispatcher *d, uint32_t cancels)
{
    d->cancels_seen = cancels;
    if (gy_shares_any(&d->shares)) {
        gy_shares_cancel(&d->shares, d->bins);
        gy_replay_try_again(d);
    }
    gy_admission_cancel(&d->admission);
}

/* What shares hold back and may be launched now goes to the bins, and regions are due again. */
static void unhold(struct gantry_dispatcher *d, bool all)
{
    uint32_t cancels = atomic_load_explicit(&d->cancels, memory_order_acquire);
    if (__builtin_expect(cancels != d->cancels_seen, 0)) {
        let_cancelled_go(d, cancels);
    }
    if (gy_shares_any(&d->shares) && gy_shares_unhold(&d->shares, d->bins, all)) {
        gy_replay_try_again(d);
    }
    if (__builtin_expect(d->shares.watcher != NULL, 0)) {
        gy_watcher_unhold(d->shares.watcher, &d->bins[GD_KERNEL], all);
    }
}

/* Nothing is launched that could make memory come back by itself.  The last look before GD sleeps, behind the
 * last look for submissions: whatever ends after it is told to GD, and what ended before is known here
 * (tests/models/admission.pml).  True when tasks were let in. */
static bool settle_memory(struct gantry_dispatcher *d)
{
    if (!gy_admission_is_busy(&d->admission)) {
        return false;
    }
    gy_admission_idle(&d->admission);
    watch_memory(d);
    (void)gy_rings_flush(&d->completion); /* a failure is in the context */
    return d->admission.ready.first != NULL || d->admission.refused.first != NULL;
}

/* Walk the phases until the bins are empty. */
static void run_batch(struct gantry_dispatcher *d)
{
    gd_enter(d, GD_STATE_BATCH);
    uint64_t span = gy_span_begin();
    const struct gy_span_ranges *ranges = gy_span_push(span, "GD batch");
    while (has_work(d)) {
        if (d->due != NULL) {
            run_due(d);
        } else {
            run_round(d);
        }
        poll_submissions(d);
        if (gy_admission_is_asked(&d->admission) && settle_memory(d)) {
            poll_submissions(d); /* there may be work without end that has nothing to do with it */
        }
        unhold(d, false);
        if (!has_work(d) && gy_shares_any(&d->shares)) { /* what was launched again has left its turn open */
            gy_gd_publish_shares(d, true);
            gy_gd_flush_completions(d);
            unhold(d, false);
        }
    }
    gy_span_pop(ranges);
    gy_span_end(GY_SPAN_BATCH, "GD batch", span,
                atomic_load_explicit(&d->counters.batches, memory_order_relaxed));
    gd_enter(d, GD_STATE_IDLE);
}

/* GD has nothing to do: follow a lost context. */
static void idle_chores(struct gantry_dispatcher *d)
{
    return_streams_if_due(d);
    if (d->state == GD_STATE_IDLE && gy_context_is_lost(d->config.context) &&
        !gy_shares_hold_any(&d->shares)) {
        gd_enter(d, GD_STATE_FAILED);
        for (uint32_t i = 0; i < d->streams.limit; i++) {
            (void)gy_deferred_collect(&d->deferred, i, true); /* nobody else may see their turn come */
        }
        gy_mutex_lock(&d->batch_lock);
        d->has_failed = true;
        gy_cond_broadcast(&d->quiet);
        gy_mutex_unlock(&d->batch_lock);
    }
}

static bool may_read(struct gantry_dispatcher *d)
{
    return atomic_load(&d->open_groups) == 0 || atomic_load(&d->closing);
}

void gy_gd_main(void *arg)
{
    struct gantry_dispatcher *d = arg;
    gy_gd_current = d;
    gy_thread_serve();
    gy_cta_serve(gy_gpu_time_ctas(d->config.time));
    d->last_error = gy_error_last();
    bool pushed = gy_context_push(d->config.context) == GANTRY_OK;
    if (!pushed) {
        gy_context_lose(d->config.context, gy_error_last());
    }
    for (;;) {
        /* Read before looking: whatever is signalled later makes the wait return at once. */
        uint32_t seen = atomic_load(&d->inbox.signals);
        bool closing = atomic_load(&d->closing);
        gy_gpu_debt_settle(&d->debt);
        unhold(d, closing || gy_context_is_lost(d->config.context));
        if (!bins_are_empty(d) || (d->state == GD_STATE_IDLE && d->due != NULL)) {
            run_batch(d);
            continue;
        }
        idle_chores(d);
        if (may_read(d)) {
            poll_submissions(d);
        }
        while (d->state == GD_STATE_FAILED && d->due != NULL) {
            gy_replay_run_due(d); /* its tasks are released as FAILED */
            poll_submissions(d);
        }
        gy_gd_flush_completions(d); /* what ended without a batch may have asked for some */
        gy_gpu_debt_settle(&d->debt);
        gy_point(GY_POINT_INBOX_READ, &d->inbox);
        if (has_work(d)) {
            run_batch(d);
        } else if (closing) {
            break;
        } else if (!settle_memory(d) || !may_read(d)) {
            gy_gd_wait(d, seen, may_read(d));
        }
    }
    gd_enter(d, GD_STATE_CLOSED);
    if (pushed) {
        (void)gy_context_pop(d->config.context);
    }
    gy_gd_current = NULL;
}
