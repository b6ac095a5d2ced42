/* SPDX-License-Identifier: MIT */
#include "taskman/references.h"

#include "base/handle.h"
#include "base/proof.h"
#include "taskman/callbacks.h"
#include "taskman/conditions.h"
#include "taskman/cpu/account.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/pool.h"
#include "taskman/failure.h"

#include <assert.h>
#include <stdio.h>

/* Counted before it is held: in between nobody shall see the step quiet. */
bool gy_task_hold_outside(gantry_task *task)
{
    gantry_taskman *manager = gy_task_manager(task);
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    atomic_fetch_add(&manager->as_owner.work, GY_WORK_ACTIVE);
    if (gy_task_hold(task)) {
        return true;
    }
    gy_pool_enter(pool);
    gy_taskman_count_off(manager, GY_WORK_ACTIVE);
    gy_pool_leave(pool);
    return false;
}

/* A task of a frozen graph that loses more references than others hold would start a second time, when what
 * it comes after has ended: is there one? */
static bool take_frozen_held(gantry_taskman *manager)
{
    uint64_t held = atomic_load(&manager->released.frozen_held);
    while (held != 0 && !atomic_compare_exchange_weak(&manager->released.frozen_held, &held, held - 1)) {
    }
    return held != 0;
}

static gantry_status refuse_unhold(const gantry_task *task)
{
    return GY_FAIL(GANTRY_ERR_STATE, "reference: task '%s' has none left to remove", gantry_task_label(task));
}

/* A reference on `task` is given back as failed. */
static GY_COLD void keep_cause(gantry_task *task, gantry_status why, const char *text)
{
    char unknown[96] = "";
    if (text == NULL && gy_error_last()->status != why) {
        (void)snprintf(unknown, sizeof(unknown), "a reference on it was given back with %s",
                       gantry_status_name(why));
    }
    gy_taskman_keep_cause(task, why, text != NULL ? text : unknown);
}

static void unhold_locked(gantry_taskman *manager, gantry_task *task, gantry_status why)
    GY_REQUIRES(manager->lock)
{
    manager->counts.outside--;
    if (why != GANTRY_OK) {
        gy_task_preset_failure(task, why);
    }
    if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) == 1) {
        gy_task_set(task, GY_TASK_PARKED);
    }
}

/* Before the start, the references that edges and the start itself will remove are not the caller's.
 * True: done here, `*status` says how. */
static bool unhold_while_building(gantry_task *task, gantry_status why, const char *text,
                                  gantry_status *status)
{
    gantry_taskman *manager = gy_task_manager(task);
    bool is_light = gy_task_has(task, GY_TASK_LIGHT);
    gy_fast_lock_take(&manager->lock);
    bool is_building = gy_taskman_phase(manager) == GY_BUILDING;
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    bool is_held = is_building && references > (is_light ? 0 : 1) + (int32_t)task->predecessors;
    if (is_held) {
        unhold_locked(manager, task, why);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (is_building) {
        *status = is_held ? GANTRY_OK : refuse_unhold(task);
    }
    if (is_held && why != GANTRY_OK) {
        keep_cause(task, why, text);
    }
    return is_building;
}

/* The last reference is gone; its place among the active ones is the task's now. */
static void dispatch(gantry_taskman *manager, gantry_task *task)
{
    struct gy_ready ready = {0};
    if (!manager->as_owner.has_conditions || !gy_task_has(task, GY_TASK_FROZEN)) {
        gy_ready_add(&ready, task);
    } else if (!gy_round_ready(task, &ready)) {
        gy_taskman_count_off(manager, GY_WORK_ACTIVE);
        return;
    }
    if (!gy_task_put_aside(&ready)) {
        gy_ready_dispatch(&manager->as_owner, &ready);
    }
}

gantry_status gy_taskman_unhold(gantry_task *task, gantry_status why, const char *text)
{
    gantry_taskman *manager = gy_task_manager(task);
    gantry_status status;
    if (gy_taskman_phase(manager) == GY_BUILDING && unhold_while_building(task, why, text, &status)) {
        return status;
    }
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    bool is_resting =
        gy_task_has(task, GY_TASK_FROZEN) &&
        (gy_taskman_phase(manager) != GY_RUNNING || !gy_task_takes_part(task) ||
         (!manager->as_owner.has_conditions && gy_task_state_of(task) != GANTRY_TASK_STATE_HELD));
    if (references <= 0 || is_resting || (gy_task_has(task, GY_TASK_FROZEN) && !take_frozen_held(manager))) {
        return refuse_unhold(task);
    }
    if (why != GANTRY_OK) {
        keep_cause(task, why, text); /* our reference is still there: the task has not begun */
        gy_task_preset_failure(task, why);
    }
    do {
        if (references <= 0) {
            return refuse_unhold(task);
        }
    } while (!atomic_compare_exchange_weak_explicit(&task->references, &references, references - 1,
                                                    memory_order_seq_cst, memory_order_relaxed));
    if (references == 1) {
        dispatch(manager, task);
    } else if (gy_worker_is_inside(gy_worker_current, &manager->as_owner)) {
        gy_worker_owe_active(gy_worker_current, &manager->as_owner);
    } else {
        gy_taskman_count_off(manager, GY_WORK_ACTIVE);
    }
    return GANTRY_OK;
}

/* ---- for the application -------------------------------------------------------------------- */

/* `phase` gets the one in which that was. */
static bool hold_locked(gantry_task *task, enum gy_phase *phase)
{
    gantry_taskman *manager = gy_task_manager(task);
    bool is_held = false;
    gy_fast_lock_take(&manager->lock);
    *phase = gy_taskman_phase(manager);
    if (*phase == GY_BUILDING) {
        is_held = gy_task_hold(task);
        manager->counts.outside += is_held;
        manager->counts.special += is_held; /* its count shall be right as soon as the step has begun */
    } else if (*phase == GY_RUNNING) {
        is_held = gy_task_hold_outside(task);
        atomic_fetch_add(&manager->released.frozen_held, is_held && gy_task_has(task, GY_TASK_FROZEN));
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return is_held;
}

gantry_status gantry_task_add_reference(gantry_task *task)
{
    GY_NEED(TASK, task);
    enum gy_phase phase = gy_taskman_phase(gy_task_manager(task));
    bool is_frozen = gy_task_has(task, GY_TASK_FROZEN);
    bool is_held = phase == GY_RUNNING && !is_frozen ? gy_task_hold_outside(task) : hold_locked(task, &phase);
    if (is_frozen && phase != GY_RUNNING) {
        return GY_FAIL(GANTRY_ERR_STATE, "reference: the graph of task '%s' is frozen and not running",
                       gantry_task_label(task));
    }
    return is_held ? GANTRY_OK : gy_task_refuse_hold(task, "reference: task");
}

gantry_status gantry_task_remove_reference(gantry_task *task)
{
    GY_NEED(TASK, task);
    gantry_cpu_dispatcher *pool = task->owner->pool;
    if (__builtin_expect(gy_proof() != NULL, 0)) {
        gy_proof()->let_go(task);
    }
    gy_pool_enter(pool);
    gantry_status status = gy_taskman_unhold(task, GANTRY_OK, NULL);
    gy_pool_leave(pool);
    return status;
}

gantry_status gantry_task_fail_reference_with(gantry_task *task, gantry_status cause, const char *text)
{
    GY_NEED(TASK, task);
    if (!gy_status_is_failure(cause)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "reference: task '%s' cannot fail for %d",
                       gantry_task_label(task), (int)cause);
    }
    gantry_cpu_dispatcher *pool = task->owner->pool;
    gy_pool_enter(pool);
    gantry_status status = gy_taskman_unhold(task, cause, text != NULL && text[0] != '\0' ? text : NULL);
    gy_pool_leave(pool);
    return status;
}

gantry_status gantry_task_fail_reference(gantry_task *task, gantry_status cause)
{
    GY_NEED(TASK, task);
    return gantry_task_fail_reference_with(task, cause, NULL);
}

/* ---- for the GPU dispatcher ------------------------------------------------------------------ */

void gy_task_fail_early(gantry_task *task, gantry_status why)
{
    /* The step would not fail with it: a preset failure is taken for a predecessor's, which has been kept. */
    gy_taskman_keep_failure(gy_task_manager(task), task, why);
    gy_task_preset_failure(task, why);
}

void gy_task_remove_reference_failed(gantry_task *task, gantry_status why)
{
    gantry_cpu_dispatcher *pool = task->owner->pool;
    gy_pool_enter(pool);
    (void)gy_taskman_unhold(task, why, NULL);
    gy_pool_leave(pool);
}
