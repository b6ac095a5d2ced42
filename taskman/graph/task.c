/* SPDX-License-Identifier: MIT */
/* Functions on a single task that need not know its owner. */
#include "taskman/graph/task.h"

#include "base/handle.h"
#include "base/status.h"
#include "taskman/graph/graph.h"
#include "taskman/graph/state.h"

/* A task that a condition may choose starts whatever its references are, and forgets them. */
static bool is_chosen_anyway(const gantry_task *task)
{
    return task->owner->has_conditions && gy_task_has(task, GY_TASK_CHOSEN);
}

/* A task of a frozen graph has its references for the next run as soon as it was released in this one.  The
 * lock that the caller holds then keeps that next run from starting until we have looked and taken back. */
bool gy_task_hold_some(gantry_task *task, int32_t count)
{
    bool is_frozen = gy_task_has(task, GY_TASK_FROZEN);
    if (is_frozen && (!gy_task_takes_part(task) || is_chosen_anyway(task))) {
        return false;
    }
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    do {
        if (references <= 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&task->references, &references, references + count,
                                                    memory_order_acquire, memory_order_relaxed));
    gantry_task_state state = gy_task_state_of(task);
    bool may_run_again = task->owner->has_conditions && gy_state_is_released(state);
    if (is_frozen && state != GANTRY_TASK_STATE_HELD && !may_run_again) {
        atomic_fetch_sub_explicit(&task->references, count, memory_order_relaxed);
        return false;
    }
    return true;
}

gantry_status gy_task_refuse_hold(const gantry_task *task, const char *what)
{
    bool is_frozen = gy_task_has(task, GY_TASK_FROZEN);
    const char *why = is_frozen && !gy_task_takes_part(task)   ? "is not part of this run"
                      : is_frozen && is_chosen_anyway(task)    ? "starts when a condition chooses it"
                      : is_frozen && gy_task_is_released(task) ? "has ended, or is not part of this run"
                                                               : "was dispatched already";
    return GY_FAIL(GANTRY_ERR_LATE_DEPENDENCY, "%s '%s' %s", what, gantry_task_label(task), why);
}

/* The first reason counts, but anything else is said rather than that the run was cancelled, and nothing
 * rather than that the device is lost. */
void gy_task_preset_failure(gantry_task *task, gantry_status why)
{
    int8_t before = atomic_load_explicit(&task->preset, memory_order_relaxed);
    while ((before == GANTRY_OK || before == (int8_t)GANTRY_ERR_CANCELLED || why == GANTRY_ERR_DEVICE_LOST) &&
           before != (int8_t)why &&
           !atomic_compare_exchange_weak_explicit(&task->preset, &before, (int8_t)why, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* ---- for the application -------------------------------------------------------------------- */

int gantry_task_references(const gantry_task *task)
{
    GY_ACCEPT_OR(0, TASK, task);
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    return references > 0 && gy_task_state_of(task) <= GANTRY_TASK_STATE_HELD ? references : 0;
}

const char *gantry_task_name(const gantry_task *task)
{
    GY_ACCEPT_OR("", TASK, task);
    return task->name != NULL ? task->name : "";
}

/* A thread may be filling a placeholder and writing its fields, until it is one no more. */
static bool is_described(const gantry_task *task)
{
    return gy_task_state_of(task) != GANTRY_TASK_STATE_PLACEHOLDER;
}

const char *gantry_task_label(const gantry_task *task)
{
    GY_ACCEPT_OR("", TASK, task);
    return is_described(task) || task->name == NULL ? gy_task_label(task) : task->name;
}

gantry_task_kind gantry_task_get_kind(const gantry_task *task)
{
    GY_ACCEPT_OR(GANTRY_TASK_SYNC_POINT, TASK, task);
    return is_described(task) ? gy_task_kind(task) : GANTRY_TASK_SYNC_POINT;
}

gantry_task_priority gantry_task_get_priority(const gantry_task *task)
{
    GY_ACCEPT_OR(GANTRY_TASK_PRIORITY_NORMAL, TASK, task);
    unsigned traits = is_described(task) && gy_task_kind(task) == GANTRY_TASK_CPU ? task->traits : 0;
    traits = (traits & GY_TRAIT_PORT) == GY_TRAIT_PORT ? 0 : traits;
    return (traits & GY_TRAIT_HIGH) != 0  ? GANTRY_TASK_PRIORITY_HIGH
           : (traits & GY_TRAIT_LOW) != 0 ? GANTRY_TASK_PRIORITY_LOW
                                          : GANTRY_TASK_PRIORITY_NORMAL;
}

gantry_task_state gantry_task_get_state(const gantry_task *task)
{
    GY_ACCEPT_OR(GANTRY_TASK_STATE_FAILED, TASK, task);
    return gy_task_state_of(task);
}

gantry_status gantry_task_result(const gantry_task *task)
{
    GY_NEED(TASK, task);
    if (gy_task_state_of(task) != GANTRY_TASK_STATE_FAILED) {
        return GANTRY_OK;
    }
    return (gantry_status)atomic_load_explicit(&task->result, memory_order_relaxed);
}

void *gantry_task_arg(const gantry_task *task)
{
    GY_ACCEPT_OR(NULL, TASK, task);
    return is_described(task) ? task->arg : NULL;
}

uint64_t gantry_task_context_id(const gantry_task *task)
{
    GY_ACCEPT_OR(0, TASK, task);
    return is_described(task) ? task->context_id : 0;
}

/* ---- for plans ------------------------------------------------------------------------------- */

uint32_t gy_task_index(const gantry_task *task)
{
    return task->index;
}

bool gy_task_is_stable(const gantry_task *task)
{
    return gy_task_is_gpu(task) && (task->traits & (GY_TRAIT_STABLE | GY_TRAIT_MEMORY)) == GY_TRAIT_STABLE;
}

bool gy_task_is_held_by_others(const gantry_task *task)
{
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    return references - 1 > (int32_t)task->predecessors; /* less the start's */
}

void gy_task_each_dependent(const gantry_task *task, gy_task_visit *visit, void *user)
{
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        visit(user, gy_edge_successor(edge));
    }
}
