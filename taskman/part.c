/* SPDX-License-Identifier: MIT */
/* Runs of a part of a frozen graph: the tasks that are reachable from some tasks. */
#include "base/handle.h"
#include "base/proof.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/pool.h"
#include "taskman/freeze.h"
#include "taskman/joins.h"
#include "taskman/memory.h"
#include "taskman/phase.h"

#include <assert.h>

static void reach(struct gy_task_list *reached, gantry_task *task)
{
    if (task->scratch == 0) {
        task->scratch = 1; /* plus its predecessors that were reached */
        gy_task_list_add(reached, task);
    }
}

/* Collect everything that is reachable, linked through `next`.  Each task waits for the tasks before it
 * that were reached as well, and for references of the application. */
static struct gy_task_list arm_part_locked(gantry_taskman *manager, gantry_task *const *tasks, size_t count)
    GY_REQUIRES(manager->lock)
{
    struct gy_task_list reached = {0};
    if (manager->as_owner.has_conditions) { /* else all of them have ended, or rest */
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_each(&view, gy_task_state_rest, NULL);
    }
    gy_joins_arm_none(&manager->frozen_graph);
    for (size_t i = 0; i < count; i++) {
        reach(&reached, tasks[i]);
    }
    for (gantry_task *task = reached.first; task != NULL; task = task->next) {
        for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
            reach(&reached, gy_edge_successor(edge));
            gy_joins_arm_edge(edge);
            gy_edge_successor(edge)->scratch += !gy_task_is_condition(task);
        }
    }
    manager->counts.outside = 0;
    for (gantry_task *task = reached.first; task != NULL; task = task->next) {
        int32_t here = (int32_t)task->scratch - 1;
        if (manager->as_owner.has_conditions) {
            gy_taskman_disarm_task(NULL, task);
            gy_task_arm(task, here);
        } else {
            int32_t held = gy_task_armed(task) - (int32_t)task->predecessors;
            here += held;
            manager->counts.outside += (uint64_t)held;
        }
        assert(atomic_load_explicit(&task->preset, memory_order_relaxed) == GANTRY_OK);
        atomic_store_explicit(&task->references, here, memory_order_relaxed);
        gy_task_state_hold(NULL, task);
    }
    return reached;
}

/* Is it a first task of the part?  Tasks that only a condition leads to wait to be chosen. */
static bool is_first(const gantry_task *task, gantry_task *const *tasks, size_t count)
{
    if (atomic_load_explicit(&task->references, memory_order_relaxed) != 0) {
        return false;
    }
    for (size_t i = 0; gy_task_has(task, GY_TASK_CHOSEN) && i < count; i++) {
        if (tasks[i] == task) {
            return true;
        }
    }
    return !gy_task_has(task, GY_TASK_CHOSEN);
}

static struct gy_ready start_part_locked(gantry_taskman *manager, gantry_task *const *tasks, size_t count)
    GY_REQUIRES(manager->lock)
{
    struct gy_ready ready = {0};
    gy_taskman_clear_run_locked(manager);
    struct gy_task_list reached = arm_part_locked(manager, tasks, count);
    manager->counts.into_work = reached.count;
    uint64_t pending = manager->as_owner.has_conditions ? 0 : reached.count;
    atomic_store(&manager->released.frozen_held, manager->counts.outside);
    uint64_t active = 1 + manager->counts.outside; /* the start itself is one */
    for (gantry_task *task = reached.first, *next; task != NULL; task = next) {
        next = task->next;
        task->scratch = 0;
        gy_taskman_begin_memory(manager, task);
        if (is_first(task, tasks, count)) {
            gy_ready_add(&ready, task);
            active++;
        }
    }
    atomic_store(&manager->as_owner.work, pending * GY_WORK_PENDING + active * GY_WORK_ACTIVE);
    gy_taskman_enter_phase(manager, GY_RUNNING); /* from here on references may be given back */
    return ready;
}

static gantry_status check_part(gantry_taskman *manager, gantry_task *const *tasks, size_t count)
{
    if (tasks == NULL || count == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "start: no task to start from");
    }
    if (!manager->frozen || gy_taskman_phase(manager) != GY_STOPPED) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "start: only a part of a frozen graph that is not running can be started");
    }
    for (size_t i = 0; i < count; i++) {
        if (tasks[i] == NULL ||
            (gy_task_manager(tasks[i]) == manager && !gy_task_has(tasks[i], GY_TASK_FROZEN))) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "start: task %zu is not part of the frozen graph", i);
        }
        if (gy_task_manager(tasks[i]) != manager) {
            return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE, "start: task '%s' is of another task manager",
                           gantry_task_label(tasks[i]));
        }
    }
    return GANTRY_OK;
}

gantry_status gantry_taskman_start_from(gantry_taskman *manager, gantry_task *const *tasks, size_t count)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_status status = gy_taskman_check_owner(manager, "start");
    for (size_t i = 0; status == GANTRY_OK && gy_handles_are_checked() && tasks != NULL && i < count; i++) {
        if (GY_HANDLE_IS_BAD(TASK, tasks[i])) {
            return GANTRY_ERR_INVALID_ARGUMENT;
        }
    }
    if (status == GANTRY_OK) {
        status = check_part(manager, tasks, count);
    }
    bool without_gpu = false;
    if (status == GANTRY_OK) {
        status = gy_taskman_begin_gpu(manager, false, &without_gpu);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    if (gy_proof() != NULL) {
        gy_proof()->step_begin(manager);
    }
    gy_fast_lock_take(&manager->lock);
    manager->without_gpu = without_gpu;
    struct gy_ready ready = start_part_locked(manager, tasks, count);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    gy_pool_enter(pool);
    gy_ready_dispatch(&manager->as_owner, &ready);
    gy_taskman_count_off(manager, GY_WORK_ACTIVE);
    gy_pool_leave(pool);
    return GANTRY_OK;
}
