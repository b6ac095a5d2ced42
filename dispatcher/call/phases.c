/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/phases.h"

#include "base/clock.h"
#include "base/span.h"
#include "dispatcher/call/step.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/guest_rule.h"
#include "dispatcher/loop/intake.h"
#include "dispatcher/submit/ahead.h"
#include "dispatcher/submit/batch_key.h"
#include "dispatcher/submit/policy.h"
#include "dispatcher/submit/round.h"
#include "driver/inside.h"

#include <assert.h>

static const char *const phase_names[GD_PHASES] = {"GD HtoD", "GD Kernel", "GD DtoH"};

/* Put `task` and those behind it in front of the tasks that have joined their bin. */
static GY_COLD void put_back(struct gy_gpu_list *bin, gantry_task *task)
{
    struct gy_gpu_list rest = {task, task};
    for (gantry_task *next; (next = rest.last->next) != NULL;) {
        rest.last = next;
    }
    if (bin->first != NULL) {
        gy_gpu_list_append(&rest, bin->first, bin->last);
    }
    *bin = rest;
}

/* The round has a key: call the tasks that go ahead of its graph.  False: the task goes with a later part,
 * or in a later round. */
static GY_INLINE bool is_next_of_key(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    if (__builtin_expect(gy_graphs_is_large(&d->graphs), 0)) {
        gy_ahead_await(d, round);
    }
    if (__builtin_expect(round->key.ahead.first != NULL, 0)) {
        gy_ahead_call(d, round);
    }
    if (gy_key_is_over(d, round)) {
        gy_gpu_list_append(&round->bins.of[round->phase], task, task);
        return false;
    }
    return gy_key_admits(d, round, task);
}

/* Run one pass over `task` and those behind it, with one call each.  Tasks that have more to launch go back
 * to the bin.  Tasks that join meanwhile are there, too, and get their first call in the next pass. */
static void run_pass(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    struct gy_gpu_list *bin = &round->bins.of[round->phase];
    gy_task_prefetch_dependents(task);
    while (task != NULL) {
        if (gy_gd_must_leave(d, round)) {
            put_back(bin, task);
            return;
        }
        gantry_task *next = task->next;
        if (round->key.is_set && !is_next_of_key(d, round, task)) {
            task = next;
            continue;
        }
        if (next != NULL) {
            gy_task_prefetch_dependents(next); /* one call may be too short to hide it */
        }
        round->last_in_phase = next == NULL && bin->first == NULL;
        if (gy_gates_concern_calls(d) && !gy_gates_admit_call(d, round, task)) {
            task = next;
            continue;
        }
        const bool has_ended = gy_gd_step(d, round, task);
        if (!has_ended) {
            gy_gpu_list_append(bin, task, task);
        }
        if (has_ended || round->key.is_set) { /* tasks that go ahead are looked for before each callback */
            gy_gd_poll(d, round);
        }
        task = next;
    }
    assert(task == NULL && gy_gpu_list_is_valid(bin));
}

static uint64_t count_ended(const struct gantry_dispatcher *d)
{
    return atomic_load_explicit(&d->counters.tasks, memory_order_relaxed);
}

/* Run the tasks of one bin, interleaved, until it is empty or others shall have their turn. */
static void run_phase(struct gantry_dispatcher *d, struct gy_round *round, enum gd_phase phase)
{
    assert(gy_round_is_valid(round));
    struct gy_gpu_list *bin = &round->bins.of[phase];
    if (bin->first == NULL) {
        return;
    }
    round->phase = phase;
    round->phase_since_ns = gy_clock_ns();
    uint64_t span = gy_span_begin();
    const struct gy_span_ranges *ranges = gy_span_push(span, GY_RANGE_PHASE, phase_names[phase]);
    const uint32_t most = round->way->passes, most_barren = round->way->barren;
    for (uint32_t passes = 0, barren = 0; bin->first != NULL && passes < most && barren < most_barren &&
                                          !gy_gd_must_leave(d, round) && !gy_key_is_over(d, round);
         passes++) {
        gantry_task *first = bin->first;
        uint64_t ended = count_ended(d);
        *bin = (struct gy_gpu_list){NULL, NULL};
        run_pass(d, round, first);
        barren = count_ended(d) == ended ? barren + 1 : 0;
        if (bin->first != NULL) { /* a thread may wait for a step that is over */
            gy_gpu_debt_settle_beside(&d->loop.debt, bin->first);
            gy_gd_poll(d, round);
        }
    }
    gy_gd_count_phase(d, round);
    gy_span_pop(ranges);
    gy_span_end(GY_SPAN_PHASE, phase_names[phase], span,
                atomic_load_explicit(&d->counters.batches, memory_order_relaxed));
    assert(gy_round_is_valid(round));
}

void gy_gd_walk_once(struct gantry_dispatcher *d, struct gy_round *round)
{
    for (enum gd_phase phase = GD_HTOD; phase < GD_PHASES; phase++) {
        run_phase(d, round, phase);
    }
    gy_inside_return();
}

bool gy_gd_walk(struct gantry_dispatcher *d, struct gy_round *round)
{
    uint64_t ended;
    do {
        ended = count_ended(d);
        gy_gd_walk_once(d, round);
    } while (!gy_bins_are_empty(&round->bins) && count_ended(d) != ended);
    return gy_bins_are_empty(&round->bins);
}
