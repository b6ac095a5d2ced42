/* SPDX-License-Identifier: MIT */
#include "dispatcher/gates/gate.h"

#include "profile/gpu_time.h"

#include <assert.h>

/* The gates at intake, in the order in which a task asks them. */
static const struct gy_gate *const at_intake[] = {&gy_gate_units, &gy_gate_memory};
static const struct gy_gate *const before_calls[] = {&gy_gate_share};

enum {
    AT_INTAKE = sizeof(at_intake) / sizeof(at_intake[0]),
    BEFORE_CALLS = sizeof(before_calls) / sizeof(before_calls[0])
};

/* All gates by number, those at intake first. */
static const struct gy_gate *gate_at(uint32_t i)
{
    return i < AT_INTAKE ? at_intake[i] : before_calls[i - AT_INTAKE];
}

void gy_gates_poll(struct gantry_dispatcher *d, struct gy_round *round)
{
    for (uint32_t i = 0; i < AT_INTAKE; i++) {
        if (at_intake[i]->poll != NULL) {
            at_intake[i]->poll(d, round, false);
        }
        assert(at_intake[i]->is_valid(d));
    }
}

gantry_task *gy_gates_next(struct gantry_dispatcher *d)
{
    gantry_task *task = NULL;
    for (uint32_t i = 0; i < AT_INTAKE && task == NULL; i++) {
        task = at_intake[i]->next != NULL ? at_intake[i]->next(d) : NULL;
    }
    return task;
}

/* On a lost context, and at the end, no task is held: it is released. */
static bool ask_before_call(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    if (atomic_load_explicit(&d->told.closing, memory_order_relaxed) ||
        gy_context_is_lost(d->config.context)) {
        return true;
    }
    for (uint32_t i = 0; i < BEFORE_CALLS; i++) {
        if (!before_calls[i]->admits(d, round, task)) {
            assert(before_calls[i]->is_valid(d));
            return false;
        }
    }
    return true;
}

bool gy_gates_admit_call(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    struct gy_gpu_mark *mark =
        task->launch_index != 0 ? atomic_load_explicit(&task->mark, memory_order_relaxed) : NULL;
    const bool goes = ask_before_call(d, round, task);
    if (__builtin_expect(mark != NULL, 0)) { /* who ends the recording does not wait for it then */
        gy_gpu_time_rest(d->config.time, mark, !goes);
    }
    return goes;
}

void gy_gates_poll_calls(struct gantry_dispatcher *d, struct gy_round *round, bool all)
{
    /* tasks that the first gate has held came before those that the last has */
    for (uint32_t i = BEFORE_CALLS; i-- > 0;) {
        before_calls[i]->poll(d, round, all);
        assert(before_calls[i]->is_valid(d));
    }
    assert(gy_bins_are_valid(&round->bins));
}

bool gy_gates_hold_calls(struct gantry_dispatcher *d)
{
    for (uint32_t i = 0; i < BEFORE_CALLS; i++) {
        if (before_calls[i]->holds(d)) {
            return true;
        }
    }
    return false;
}

void gy_gates_cancel(struct gantry_dispatcher *d, struct gy_round *round)
{
    for (uint32_t i = AT_INTAKE + BEFORE_CALLS; i-- > 0;) {
        if (gate_at(i)->cancel != NULL) {
            gate_at(i)->cancel(d, round);
        }
    }
    assert(gy_gates_are_valid(d));
}

void gy_gates_last_look(struct gantry_dispatcher *d)
{
    for (uint32_t i = 0; i < AT_INTAKE + BEFORE_CALLS; i++) {
        if (gate_at(i)->last_look != NULL) {
            gate_at(i)->last_look(d);
        }
    }
}

uint64_t gy_gates_deadline(struct gantry_dispatcher *d)
{
    uint64_t earliest = 0;
    for (uint32_t i = 0; i < AT_INTAKE + BEFORE_CALLS; i++) {
        uint64_t one = gate_at(i)->deadline != NULL ? gate_at(i)->deadline(d) : 0;
        earliest = one != 0 && (earliest == 0 || one < earliest) ? one : earliest;
    }
    return earliest;
}

bool gy_gates_are_valid(const struct gantry_dispatcher *d)
{
    for (uint32_t i = 0; i < AT_INTAKE + BEFORE_CALLS; i++) {
        if (!gate_at(i)->is_valid(d)) {
            return false;
        }
    }
    return true;
}
