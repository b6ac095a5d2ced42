/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/step.h"

#include "base/point.h"
#include "base/span.h"
#include "dispatcher/call/callback.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/call/metered.h"
#include "dispatcher/call/mode.h"
#include "dispatcher/done/when_done.h"
#include "dispatcher/loop/release.h"
#include "dispatcher/order/crossing.h"
#include "dispatcher/submit/replay_units.h"
#include "dispatcher/submit/round.h"
#include "profile/gpu_time.h"
#include "taskman/manager.h"

#include <assert.h>
#include <inttypes.h>

static GY_COLD void mark_begin(struct gantry_dispatcher *d, gantry_task *task, uint32_t stream)
{
    const char *partition = d->config.partitions->is_planned ? gy_gd_partition(d, task)->info.name : NULL;
    struct gy_stream *s = &d->streams.streams[stream];
    struct gy_lane *lane = gy_stream_lane(s);
    if (lane != NULL) { /* no call of the task has this name */
        gy_nodes_name(lane->nodes, gy_task_name(task) + ((uint64_t)UINT16_MAX << 16));
    }
    struct gy_gpu_mark *mark = gy_gpu_time_begin(d->config.time, s->native, lane, stream, partition,
                                                 gy_task_label(task), gy_task_context_id(task));
    gy_gpu_time_describe(mark, s->trace.after, gy_quota_number((const struct gy_quota *)gy_task_share(task)));
    s->trace.after = 0;
    s->trace.flow = gy_task_flow(task);
    atomic_store_explicit(&task->mark, mark, memory_order_relaxed);
}

/* The task's stream will become a member of the batch, or wait for work: say of which step that is, and name
 * the nodes that wait, each with a number that no call of the task has. */
static GY_RARE void introduce(struct gantry_dispatcher *d, const gantry_task *task, uint64_t number)
{
    if (gy_batch_is_open(&d->streams.batch)) {
        struct gy_gpu_order *order = gy_placed_order_of(&d->streams, task);
        if (order != NULL) {
            order->manager = gy_task_manager(task);
        }
        gy_launch_gate_note(&d->graphs.gate,
                            gy_task_manager(task)); /* it stays until the batch was launched */
        d->streams.batch.order = order;
        d->streams.batch.run = gy_task_run(task);
        d->streams.batch.is_beside = order != NULL && gy_task_has_independent_peers(task);
        gy_nodes_name(&d->graphs.batch, gy_task_name(task) + ((uint64_t)(UINT16_MAX - 1 - number) << 16));
    }
}

/* Before the first call: order the stream, mark the GPU time.  From here on the task has a mark (NULL when
 * nothing is recorded), and no wait set: it is ordered. */
static GY_RARE gantry_status prepare_any(struct gantry_dispatcher *d, gantry_task *task, uint32_t stream)
{
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    const struct gy_placed work = gy_gd_placed(d, task);
    introduce(d, task, 1);
    const gantry_status status =
        gy_placed_order(&d->streams, &work, wait_set, gy_crossing_bound(task, wait_set), stream);
    gy_wait_set_drop(&d->wait_sets, wait_set);
    atomic_store_explicit(&task->mark, NULL, memory_order_relaxed);
    if (status == GANTRY_OK && gy_span_on()) {
        mark_begin(d, task, stream);
    }
    return status;
}

static inline gantry_status prepare(struct gantry_dispatcher *d, gantry_task *task, uint32_t stream,
                                    uint64_t wait_set)
{
    if (!gy_wait_set_is_point_of(wait_set, stream) || gy_task_bound(task, wait_set) != GY_BOUND_NONE ||
        gy_span_on()) {
        return prepare_any(d, task, stream);
    }
    atomic_store_explicit(&task->mark, NULL, memory_order_relaxed);
    return GANTRY_OK;
}

/* The last call has returned: from here on the task has a wait set again. */
static inline struct gy_gpu_mark *take_mark(gantry_task *task)
{
    struct gy_gpu_mark *mark = atomic_load_explicit(&task->mark, memory_order_relaxed);
    if (mark != NULL) { /* else there is nothing but that already */
        atomic_store_explicit(&task->wait_set, GY_WAIT_SET_NONE, memory_order_relaxed);
    }
    return mark;
}

/* The task has launched all its work: close its timeline point, and inform its dependents. */
static GY_INLINE void finish(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task,
                             uint32_t stream, struct gy_stream *s, gantry_status result)
{
    assert(gy_stream_is_valid(&d->streams, stream) && s == &d->streams.streams[stream]);
    struct gy_gpu_mark *mark = take_mark(task);
    if (__builtin_expect(mark != NULL, 0)) {
        gy_gpu_time_end(d->config.time, mark, s->native, gy_stream_lane(s));
    }
    gy_task_end_calls(task);
    uint64_t point;
    const uint32_t successors = result == GANTRY_OK ? gy_task_successors(task) : 0; /* else they fail, too */
    const struct gy_placed work = gy_gd_placed(d, task);
    gantry_status status =
        gy_placed_close(&d->streams, &work, stream, s, gy_task_count_dependents(successors),
                        gy_task_has_hosts(successors), &point);
    if (status != GANTRY_OK && result == GANTRY_OK) {
        result = status;
    }
    atomic_store_explicit(&task->wait_set, point, memory_order_release);
    struct gy_gpu_memory *memory = gy_admission_memory(task);
    if (memory != NULL) {
        gy_admission_launched(memory, stream, s->tail);
    }
    gy_gd_count(&d->counters.tasks, 1);
    if (result != GANTRY_OK) {
        gy_gd_count(&d->counters.tasks_failed, 1);
    }
    gy_gd_count(&d->counters.phase_tasks[round->phase], 1);
    if (round->recording != NULL) {
        gy_recording_note_finished(round->recording, result);
    }
    if (round->last_in_phase) { /* with this release a step may end, and its statistics may be read */
        gy_gd_count_phase(d, round);
    }
    gy_context_subject = NULL;
    gy_task_release(task, result, &d->loop.debt);
    if (__builtin_expect(gy_rings_is_unnoted(&d->completion, stream), 0)) {
        gy_gd_note_ends(d, round, stream);
    }
}

static GY_COLD gantry_status failed_by_callback(struct gantry_dispatcher *d, const gantry_task *task)
{
    if (gy_context_is_lost(d->config.context)) {
        return gy_context_adopt_loss(d->config.context);
    }
    const struct gy_error *cause = gy_error_last();
    if (cause->status != GANTRY_OK) {
        return cause->status; /* of the failed call inside the callback, or of gantry_launch_fail() */
    }
    return GY_FAIL(GANTRY_ERR_TASK_FAILED, "launch callback of '%s' gave up", gy_task_label(task));
}

/* The task is released as if it had not been prepared. */
static GY_COLD void unprepare(struct gantry_dispatcher *d, gantry_task *task, uint32_t stream)
{
    struct gy_stream *s = &d->streams.streams[stream];
    gy_gpu_time_drop(d->config.time, take_mark(task), s->native, gy_stream_lane(s));
}

/* The task's stream has not met the pool since a batch was opened or cut, whose graph it may be behind. */
static GY_RARE gantry_status meet_anew(struct gantry_dispatcher *d, struct gantry_launch *launch)
{
    gantry_task *task = launch->task;
    introduce(d, task, 0);
    if (task->launch_index != 0 || gy_mode_is_noted(launch) ||
        !d->streams.streams[launch->stream_index].held.may_be) {
        return GANTRY_OK;
    }
    const uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    const struct gy_stream_claim claim = gy_placed_claim(&d->streams, task);
    const gantry_status status = gy_streams_leave_held(&d->streams, wait_set, &claim, &launch->stream_index);
    task->stream = (uint16_t)(launch->stream_index + 1);
    return status;
}

/* The task's first call comes: what it comes after, on other streams, waits for it no longer. */
static GY_RARE void note_call(struct gantry_dispatcher *d, uint64_t wait_set)
{
    struct gy_clock room;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    if (clock != NULL) {
        gy_streams_note_call(&d->streams, clock);
    }
}

/* The stream is ready for work: behind the barrier, as a member of the batch or not. */
static inline gantry_status meet(struct gantry_dispatcher *d, struct gantry_launch *launch)
{
    gantry_status status = GANTRY_OK;
    if (__builtin_expect(d->streams.streams[launch->stream_index].epoch != d->streams.epoch, 0)) {
        status = meet_anew(d, launch);
    }
    return status == GANTRY_OK ? gy_streams_wait_barrier(&d->streams, launch->stream_index) : status;
}

/* order() for any call. */
static GY_RARE gantry_status order_any(struct gantry_dispatcher *d, struct gantry_launch *launch)
{
    gantry_task *task = launch->task;
    if (task->launch_index != 0) {
        return meet(d, launch);
    }
    const uint32_t stream = launch->stream_index;
    const uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    if (wait_set != GY_WAIT_SET_NONE && !gy_wait_set_is_point_of(wait_set, stream)) {
        note_call(d, wait_set);
    }
    gantry_status status = gy_streams_go_on(&d->streams, stream);
    status = status == GANTRY_OK ? meet(d, launch) : status;
    return status == GANTRY_OK ? prepare(d, task, launch->stream_index, wait_set) : status;
}

/* Is all that comes before the task on the stream already, as for most tasks?  Such a task comes after one
 * other, on its stream, and nobody waits for that elsewhere. */
static inline bool is_in_order(const struct gantry_dispatcher *d, const gantry_task *task,
                               const struct gy_stream *s, uint32_t stream)
{
    const uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    return gy_wait_set_is_point_of(wait_set, stream) && s->epoch == d->streams.epoch &&
           s->dependents.uncalled == 0 && !gy_task_has_independent_peers(task) && !gy_span_on();
}

/* The stream is in order for the call: behind the barrier and the graph of before, or a member of the batch,
 * and behind what the task comes after.  It may be another one then; it comes out. */
static GY_INLINE gantry_status order(struct gantry_dispatcher *d, struct gantry_launch *launch,
                                     gantry_task *task, uint32_t stream, struct gy_stream **out)
{
    struct gy_stream *s = &d->streams.streams[stream];
    gantry_status status = GANTRY_OK;
    if (task->launch_index == 0 && is_in_order(d, task, s, stream)) {
        gy_stream_touch(s);
        atomic_store_explicit(&task->mark, NULL, memory_order_relaxed);
    } else {
        status = order_any(d, launch);
        s = &d->streams.streams[launch->stream_index];
    }
    launch->stream = s->native;
    s->is_open = true;
    *out = s;
    return status;
}

/* ---- one call ------------------------------------------------------------------------------ */

/* The task will not be called any more.  The work that earlier calls have enqueued goes on, and the threads
 * that wait for it go on waiting: the task ends where its work does, like a task whose callback has failed.
 */
static GY_COLD bool end_uncalled(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task,
                                 uint32_t stream, gantry_status why)
{
    if (task->launch_index > 0) {
        finish(d, round, task, stream, &d->streams.streams[stream], why);
    } else {
        gy_streams_abandon(&d->streams, stream);
        gy_gd_release_failed(d, task, why);
    }
    return true;
}

/* What is known of a call while it is made. */
struct call {
    struct gy_stream *s; /* its stream */
    bool is_bare;        /* gy_mode_is_bare() */
};

/* Make ready everything that the callback needs before it enqueues: mode, barrier, order, GPU time. */
static GY_INLINE gantry_status make_ready(struct gantry_dispatcher *d, const struct gy_round *round,
                                          struct gantry_launch *launch, gantry_task *task, uint32_t stream,
                                          const struct gy_meter *meter, struct call *call)
{
    gantry_status status = gy_mode_choose(launch, d, round);
    status = status == GANTRY_OK ? order(d, launch, task, stream, &call->s) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    call->is_bare = gy_mode_is_bare(launch, meter);
    if (!call->is_bare) {
        status = gy_mode_begin(launch, d, task, call->s, meter);
        if (__builtin_expect(status != GANTRY_OK, 0) && task->launch_index == 0) {
            unprepare(d, task, launch->stream_index);
        }
    }
    return status;
}

/* Do everything that comes before the call.  Not GANTRY_OK: the task is not called, and is to be released
 * with that status. */
static GY_INLINE gantry_status open_call(struct gantry_dispatcher *d, struct gy_round *round,
                                         gantry_task *task, struct gy_meter *meter,
                                         struct gantry_launch *launch, struct call *call)
{
    assert(task->stream != 0);
    uint32_t stream = task->stream - 1u;
    launch->dispatcher = d;
    launch->task = task;
    launch->round = round;
    launch->meter = meter;
    launch->stream_index = stream;
    launch->flow = 0;
    launch->frees = (struct gy_deferred_span){0, 0};
    launch->lane = NULL;
    launch->spoilt = NULL;
    launch->calls = NULL;
    if (__builtin_expect(gy_context_is_stopped(d->config.context), 0)) {
        gantry_status why = gy_context_adopt_stop(d->config.context);
        return why != GANTRY_OK ? why : GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
    }
    launch->index = gy_task_calls(task);
    if (task->launch_index == 0) {
        if (!gy_task_begin(task)) {
            return GANTRY_ERR_TASK_FAILED;
        }
        gy_task_begin_calls(task);
    }
    gantry_status status = make_ready(d, round, launch, task, stream, meter, call);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_task_count_call(task);
    gy_gd_count(&d->counters.launch_calls, 1);
    if (!round->in_batch) { /* counted before any thread can see the batch's tasks released */
        round->in_batch = true;
        gy_gd_count(&d->counters.batches, 1);
    }
    return GANTRY_OK;
}

/* close_call() of one that is not the last of a task that is well. */
static GY_RARE bool close_other(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task,
                                uint32_t stream, gantry_launch_result result)
{
    gantry_status status = GANTRY_OK;
    if (gy_context_is_lost(d->config.context) || result == GANTRY_LAUNCH_FAILED) {
        status = failed_by_callback(d, task);
    } else if (result == GANTRY_LAUNCH_AGAIN) {
        return false;
    } else {
        status = GY_FAIL(GANTRY_ERR_TASK_FAILED, "launch callback of '%s' returned %d", gy_task_label(task),
                         (int)result);
    }
    finish(d, round, task, stream, &d->streams.streams[stream], status);
    return true;
}

/* After the call: true when the task has ended and was released. */
static GY_INLINE bool close_call(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task,
                                 uint32_t stream, struct gy_stream *s, gantry_launch_result result)
{
    if (result != GANTRY_LAUNCH_DONE || gy_context_is_lost(d->config.context)) {
        return close_other(d, round, task, stream, result);
    }
    finish(d, round, task, stream, s, GANTRY_OK);
    return true;
}

static inline bool step(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task,
                        struct gy_meter *meter)
{
    uint64_t span = gy_span_begin(); /* before anything is put on the stream */
    struct gantry_launch launch;
    struct call call;
    gantry_status status = open_call(d, round, task, meter, &launch, &call);
    uint32_t stream = launch.stream_index;
    if (status != GANTRY_OK) {
        return end_uncalled(d, round, task, stream, status);
    }
    gantry_launch_result result = gy_callback_call(&launch, d, task, d->loop.last_error, span);
    result = call.is_bare ? result : gy_mode_after(&launch, d, meter, result);
    return close_call(d, round, task, stream, call.s, result);
}

/* ---- the whole step -------------------------------------------------------------------------- */

/* Hand complete intervals to the completion thread at once, so that the next ones are admitted before the GPU
 * runs dry. */
static GY_RARE void hand_over(struct gantry_dispatcher *d, const struct gy_round *round,
                              const struct gy_meter *meter)
{
    if (d->shares.unpublished == 0 || round->recording != NULL) {
        return;
    }
    if (gy_batch_is_open(&d->streams.batch) && !gy_shares_want_cut(&d->shares, meter)) {
        return;
    }
    if (gy_capture_cut(d) != GANTRY_OK) {
        return; /* a failure is in the context */
    }
    gy_gd_publish_shares(d, false);
    gy_gd_flush_completions(d);
}

/* Path of a task, step 6 of 9: one launch callback on the task's stream. */
bool gy_gd_step(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    gy_point(GY_POINT_PATH_6, task);
    struct gy_meter *meter = gy_gd_meter(d, task); /* the task may be gone before it is needed last */
    gy_context_subject = gy_task_label(task);      /* until the release, when the label may go */
    bool ended = step(d, round, task, meter);
    if (!ended) {
        gy_context_subject = NULL;
    }
    if (__builtin_expect(meter != NULL, 0)) {
        hand_over(d, round, meter);
    }
    return ended;
}
