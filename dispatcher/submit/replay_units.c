/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/replay_units.h"

#include "base/alloc.h"
#include "dispatcher/call/calls.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/release.h"
#include "dispatcher/submit/round.h"

#include <assert.h>

bool gy_unit_is_valid(const struct gy_unit *unit)
{
    bool holds = unit->held.first != NULL;
    return unit->arrived <= unit->roots && unit->roots <= unit->members && unit->settled <= unit->needs &&
           unit->recorded.completes <= unit->recorded.completes_room && gy_gpu_list_is_valid(&unit->held) &&
           (unit->stage != GY_UNIT_LAUNCHED || unit->recorded.exec.native != NULL) &&
           (unit->stage != GY_UNIT_WAITING || holds == (unit->arrived != 0));
}

/* ---- due ------------------------------------------------------------------------------------- */

static void check_due(struct gantry_dispatcher *d, struct gy_unit *unit)
{
    if (unit->stage == GY_UNIT_WAITING && unit->arrived == unit->roots && unit->settled == unit->needs) {
        unit->next_due = NULL;
        *(d->units.due == NULL ? &d->units.due : &d->units.last_due->next_due) = unit;
        d->units.last_due = unit;
    }
}

void gy_units_try_again(struct gantry_dispatcher *d)
{
    while (d->units.throttled != NULL) {
        struct gy_unit *unit = d->units.throttled;
        d->units.throttled = unit->next_due;
        unit->next_due = NULL;
        *(d->units.due == NULL ? &d->units.due : &d->units.last_due->next_due) = unit;
        d->units.last_due = unit;
    }
    assert(gy_gate_units.is_valid(d));
}

void gy_unit_settle(struct gantry_dispatcher *d, struct gy_unit *unit, enum gy_unit_stage stage)
{
    assert(unit->stage == GY_UNIT_WAITING && stage != GY_UNIT_WAITING);
    struct gy_plan *plan = unit->plan;
    unit->stage = stage;
    for (uint32_t i = 0; i < unit->needed_by; i++) {
        struct gy_unit *next = &plan->units[plan->needed_by[unit->first_needed_by + i]];
        gy_unit_renew(next);
        next->settled++;
        assert(gy_unit_is_valid(next));
        next->must_call |= stage != GY_UNIT_LAUNCHED;
        gy_wait_set_merge(&d->wait_sets, &next->wait_set, unit->point);
        check_due(d, next);
    }
}

void gy_unit_release(struct gantry_dispatcher *d, struct gy_unit *unit, gantry_task *task)
{
    assert(unit->stage == GY_UNIT_LAUNCHED && gy_unit_is_valid(unit));
    if (!gy_task_begin_launched(task)) {
        gy_gd_release_failed(d, task, GANTRY_ERR_TASK_FAILED);
        return;
    }
    gy_wait_set_drop(&d->wait_sets, atomic_load_explicit(&task->wait_set, memory_order_acquire));
    task->launch_index = 0;
    task->stream = (uint16_t)(unit->stream + 1);
    atomic_store_explicit(&task->wait_set, unit->point, memory_order_release);
    gy_gd_count(&d->counters.tasks, 1);
    gy_gd_count(&d->counters.tasks_failed, unit->result != GANTRY_OK);
    gy_task_release(task, unit->result, &d->loop.debt);
}

/* ---- recorded -------------------------------------------------------------------------------- */

void gy_unit_forbid(struct gy_unit *unit, const gantry_task *task, const char *why)
{
    if (!unit->never) {
        unit->never = true;
        gy_log(GANTRY_LOG_INFO, "stable task '%s' is called in every run: %s", gantry_task_label(task), why);
    }
}

void gy_units_forbid(const struct gantry_launch *launch, const char *why)
{
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_set_free(launch->calls);
    }
    if (launch->round->recording != NULL) {
        gy_unit_forbid(launch->round->recording->unit, launch->task, why);
    }
}

/* A task that is not part of the frozen graph is another task in each run. */
static GY_COLD void compare_completion(const struct gantry_launch *launch, const gantry_task *target)
{
    if (gy_task_gpu_plan(target) == gy_task_gpu_plan(launch->task)) {
        gy_calls_note_completion(launch->calls, launch->task, target);
    } else {
        gy_calls_set_free(launch->calls);
    }
}

void gy_units_note_completion(const struct gantry_launch *launch, gantry_task *target)
{
    if (__builtin_expect(launch->calls != NULL, 0)) {
        compare_completion(launch, target);
    }
    if (launch->round->recording == NULL) {
        return;
    }
    struct gy_unit *unit = launch->round->recording->unit;
    if (gy_task_gpu_plan(target) != gy_task_gpu_plan(launch->task)) {
        gy_units_forbid(launch, "it completes a task that is not part of the frozen graph");
    } else if (!gy_grow_array(&unit->recorded.completions, &unit->recorded.completes_room,
                              unit->recorded.completes + (size_t)1, sizeof(*unit->recorded.completions))) {
        gy_units_forbid(launch, "no memory to remember what it completes");
    } else {
        unit->recorded.completions[unit->recorded.completes++] = target;
    }
    assert(gy_unit_is_valid(unit));
}

/* ---- the gate -------------------------------------------------------------------------------- */

/* Tasks of a unit wait until all its roots are ready; while a unit is recorded, tasks of others wait. */
static bool admits(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    struct gy_unit *unit = gy_plan_unit(task);
    if (unit != NULL && unit->stage == GY_UNIT_LAUNCHED) {
        gy_unit_release(d, unit, task);
        return false;
    }
    if (unit != NULL && unit->stage == GY_UNIT_WAITING) {
        gy_gpu_list_append(&unit->held, task, task);
        unit->arrived++;
        assert(gy_unit_is_valid(unit));
        check_due(d, unit);
        return false;
    }
    if (round->recording != NULL && unit != round->recording->unit) {
        gy_gpu_list_append(&round->recording->others, task, task);
        return false;
    }
    return true;
}

/* All roots of the units that are due are ready, and each list ends with its last unit. */
static bool is_valid(const struct gantry_dispatcher *d)
{
    const struct gy_unit *last = NULL;
    for (const struct gy_unit *unit = d->units.due; unit != NULL; unit = unit->next_due) {
        if (unit->stage != GY_UNIT_WAITING || unit->arrived != unit->roots || unit->settled != unit->needs ||
            !gy_unit_is_valid(unit)) {
            return false;
        }
        last = unit;
    }
    for (const struct gy_unit *unit = d->units.throttled; unit != NULL; unit = unit->next_due) {
        if (unit->stage != GY_UNIT_WAITING || unit->arrived != unit->roots || !gy_unit_is_valid(unit)) {
            return false;
        }
    }
    return last == NULL || last == d->units.last_due;
}

const struct gy_gate gy_gate_units = {.name = "units", .admits = admits, .is_valid = is_valid};
