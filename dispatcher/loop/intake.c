/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/intake.h"

#include "base/point.h"
#include "dispatcher/done/when_done.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/guest_rule.h"
#include "dispatcher/loop/release.h"
#include "dispatcher/order/crossing.h"
#include "dispatcher/submit/ahead.h"
#include "dispatcher/submit/batch_key.h"

#include <assert.h>

/* The steps before its own behind which the task's stream is looked for: an independent task that comes after
 * work of its own step is not better off behind the step before, either.  Most tasks come after one other,
 * and of their step none is independent. */
static inline enum gy_step_bound_of claim_of(const gantry_task *task, uint64_t wait_set)
{
    if (gy_wait_set_is_point(wait_set) && !gy_task_has_independent_peers(task)) {
        return GY_BOUND_NONE;
    }
    if (__builtin_expect(gy_task_is_independent(task), 0)) {
        return gy_task_order(task) != NULL ? GY_BOUND_OLDER : GY_BOUND_NONE;
    }
    return gy_crossing_bound(task, wait_set);
}

/* Path of a task, step 5 of 9: a ready task gets a stream and a bin. */
static GY_INLINE void place(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    gy_point(GY_POINT_PATH_5, task);
    if (__builtin_expect(gy_context_is_lost(d->config.context), 0)) {
        gy_gd_release_failed(d, task, gy_context_adopt_loss(d->config.context));
        return;
    }
    uint32_t stream;
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    const struct gy_placed work = gy_gd_placed(d, task);
    gantry_status status = gy_placed_assign(&d->streams, &work, wait_set, claim_of(task, wait_set), &stream);
    if (status != GANTRY_OK) {
        gy_gd_release_failed(d, task, status);
        return;
    }
    gy_task_prefetch_self(task);
    task->stream = (uint16_t)(stream + 1);
    task->launch_index = 0;
    struct gy_gpu_list *list = &round->bins.of[gd_phase_of(task)];
    assert(gy_gpu_list_is_valid(list));
    if (round->key.is_set && !gy_key_is_of(d, &round->key, task) &&
        gy_ahead_concerns(d, round, task, wait_set)) {
        list = &round->key.ahead;
    }
    gy_gpu_list_append(list, task, task);
}

void gy_gd_place(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    if (gy_gates_admit_behind_units(d, round, task)) {
        place(d, round, task);
    }
}

static GY_INLINE void take_in(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    if (gy_task_is_visitor(task)) {
        d->member.calls->visit(d, task);
    } else if (__builtin_expect(!gy_task_is_gpu(task), 0)) { /* a sync point, see gy_task_is_awaited() */
        gy_task_release(task, d->member.fleet != NULL ? d->member.calls->settle(d, task) : GANTRY_OK,
                        &d->loop.debt);
        gy_gd_note_all_ends(d, round);
    } else if (gy_gates_admit(d, round, task)) {
        place(d, round, task);
    }
}

/* Tasks that a gate has held go on. */
static GY_RARE void poll_gates(struct gantry_dispatcher *d, struct gy_round *round)
{
    gy_gates_poll(d, round);
    for (gantry_task *task; (task = gy_gates_next(d)) != NULL;) {
        take_in(d, round, task);
    }
}

/* Take everything submitted since the last poll, here or elsewhere, into the bins.  Releasing a failed task
 * may submit more, so go on until nothing comes. */
void gy_gd_poll(struct gantry_dispatcher *d, struct gy_round *round)
{
    for (;;) {
        gantry_task *task = d->loop.local.first;
        d->loop.local = (struct gy_gpu_list){NULL, NULL};
        while (task != NULL) {
            gantry_task *next = task->next;
            take_in(d, round, task);
            task = next;
        }
        if (!gy_inbox_is_empty(&d->inbox) && !gy_gd_is_recorded_by_guest(d, round)) {
            (void)gy_inbox_take(&d->inbox, &d->loop.local);
            if (gy_gd_must_leave(d, round)) {
                return; /* they may be another manager's: the next thread that has the loop takes them in */
            }
        }
        gy_gd_return_streams_if_due(d);
        if (d->loop.local.first == NULL && gy_gates_are_busy(d)) {
            poll_gates(d, round);
        }
        if (d->loop.local.first == NULL) {
            return;
        }
    }
}
