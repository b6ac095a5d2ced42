/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/ahead.h"

#include "base/clock.h"
#include "base/times.h"
#include "base/waiter.h"
#include "dispatcher/call/step.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/guest_rule.h"
#include "dispatcher/loop/intake.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/lane_order.h"
#include "dispatcher/submit/policy.h"

#include <assert.h>

/* A launch on a stream takes several times as long as a node of a graph: more are better off as a graph. */
enum { MOST_AT_ONCE = 4, MOST_BEFORE_A_LAUNCH = 16 };

enum {
    /* Graphs of fewer nodes are made as quickly as a thread is woken, 5 to 8 us for each.  Beside other
     * partitions, whose work would wait, the thread is woken for less. */
    FEWEST_MADE_BESIDE = 8,
    FEWEST_MADE = 32
};

static bool is_short(const struct gy_gpu_list *list)
{
    uint32_t count = 0;
    for (const gantry_task *task = list->first; task != NULL && count <= MOST_AT_ONCE; task = task->next) {
        count++;
    }
    return count <= MOST_AT_ONCE;
}

/* Does the task come after work in the graph, or is its stream part of that? */
static bool is_joined(const struct gantry_dispatcher *d, const gantry_task *task)
{
    const struct gy_gpu_order *order = gy_placed_order_of(&d->streams, task);
    const uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    return d->streams.streams[task->stream - 1u].state == GY_STREAM_MEMBER ||
           gy_batch_reaches(&d->streams, wait_set) ||
           (order != NULL && gy_step_order_reaches(order, gy_task_run(task)));
}

/* Can the task be called without the batch? */
static bool may_go(struct gantry_dispatcher *d, const struct gy_round *round, const gantry_task *task)
{
    enum gy_trust trust;
    const struct gy_batch_order *batch = &d->streams.batch;
    return batch->state == GY_BATCH_OPEN && d->member.fleet == NULL && d->graphs.trusts.notes &&
           !d->streams.device_wide && !gy_gates_concern_calls(d) &&
           gy_mode_notes(
               gy_trusts_mode(&d->graphs.trusts, round->way->modes, gy_task_launch_fn(task), &trust)) &&
           !is_joined(d, task) && !gy_rings_is_pending_beside(&d->completion, task->stream - 1u);
}

static void keep(const struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    struct gy_batch_key *key = &round->key;
    gy_gpu_list_append(&key->later.of[gd_phase_of(task)], task, task);
    key->is_hurried |= gy_gd_partition(d, task)->info.priority <
                       d->config.partitions->partitions[key->partition].info.priority;
}

/* Call the task beside the batch.  Where the callback cannot be called so the batch is launched first, and
 * may be closed when it returns. */
static void call(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    const enum gd_phase phase = round->phase;
    const uint32_t stream = task->stream - 1u;
    gy_gd_count_phase(d, round);
    round->phase = gd_phase_of(task);
    round->last_in_phase = true;
    gy_batch_suspend(&d->streams);
    const bool has_ended = gy_gd_step(d, round, task);
    if (d->streams.batch.state == GY_BATCH_SUSPENDED) {
        gy_batch_resume(&d->streams);
    }
    gy_gd_count_phase(d, round);
    round->phase = phase;
    if (!has_ended) {
        keep(d, round, task);
        return;
    }
    if (gy_rings_is_pending_beside(&d->completion, stream)) {
        gy_gd_count(&d->counters.flushes, 1);
        (void)gy_rings_flush_of(&d->completion, stream); /* a failure is in the context */
    }
    gy_gpu_debt_settle(&d->loop.debt);
}

/* One more call ahead of the graph: is it one of those that may? */
static bool is_within_bounds(struct gy_batch_key *key, uint64_t closes)
{
    if (key->ahead_since != closes) {
        key->ahead_since = closes;
        key->ahead_calls = 0;
    }
    return key->ahead_calls++ < MOST_BEFORE_A_LAUNCH;
}

/* Has the batch's partition a large graph queued already? */
static bool is_queued(struct gantry_dispatcher *d)
{
    return gy_kept_is_large(&d->graphs.batch) &&
           gy_kept_is_queued(&d->graphs.kept, gy_batch_partition(&d->streams));
}

/* Is the batch's executable graph being made? */
static bool is_made(struct gantry_dispatcher *d)
{
    return gy_maker_is_busy(&d->graphs.kept.maker);
}

/* While that holds, and the batch is open, others go ahead of it. */
static void let_others_go(struct gantry_dispatcher *d, struct gy_round *round,
                          bool (*holds)(struct gantry_dispatcher *d))
{
    struct gy_waiter waiter = gy_waiter_begin(GANTRY_WAIT_HYBRID, GY_WAITER_HYBRID_NS, 0);
    while (gy_batch_is_open(&d->streams.batch) && holds(d) && !gy_gd_must_leave(d, round)) {
        gy_gd_poll(d, round);
        if (round->key.ahead.first != NULL) {
            round->key.ahead_calls = 0; /* they delay nothing now */
            gy_ahead_call(d, round);
        } else if (gy_waiter_pause(&waiter) == GY_WAITER_SLEEP) {
            gy_maker_wait_until(&d->graphs.kept.maker, gy_clock_ns() + GY_AHEAD_NS);
        }
    }
}

void gy_ahead_await(struct gantry_dispatcher *d, struct gy_round *round)
{
    const bool is_planned = d->config.partitions->is_planned;
    if (!round->key.is_set || !gy_batch_is_open(&d->streams.batch) ||
        d->graphs.batch.count < (is_planned ? FEWEST_MADE_BESIDE : FEWEST_MADE)) {
        return;
    }
    if (is_planned) {
        let_others_go(d, round, is_queued);
    }
    if (gy_batch_is_open(&d->streams.batch)) { /* what was in flight may be idle now */
        gy_lane_order_note_ends(&d->streams);
        gy_kept_prepare(&d->graphs.kept, &d->graphs.batch, d->graphs.rule);
        let_others_go(d, round, is_made);
    }
}

void gy_ahead_call(struct gantry_dispatcher *d, struct gy_round *round)
{
    struct gy_batch_key *key = &round->key;
    assert(gy_round_is_valid(round) && round->recording == NULL);
    while (key->ahead.first != NULL && !gy_gd_must_leave(d, round)) {
        struct gy_gpu_list list = key->ahead;
        const bool few = is_short(&list);
        key->ahead = (struct gy_gpu_list){NULL, NULL};
        for (gantry_task *task; (task = gy_gpu_list_pop(&list)) != NULL;) {
            const uint64_t closes = atomic_load_explicit(&d->graphs.gate.closes, memory_order_relaxed);
            if (few && may_go(d, round, task) && is_within_bounds(key, closes)) {
                call(d, round, task);
            } else {
                keep(d, round, task);
            }
        }
        gy_gd_poll(d, round);
    }
    assert(gy_round_is_valid(round));
}
