/* SPDX-License-Identifier: MIT */
/* Functions of the application and of the GPU dispatcher on a single task. */
#include "base/handle.h"
#include "base/status.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/wait.h"
#include "taskman/gpu_task.h"
#include "taskman/manager.h"

#include <assert.h>

/* ---- for the application -------------------------------------------------------------------- */

/* Under the manager's lock, between runs: `task` may launch something else from now on. */
static void forget_launches(gantry_task *task)
{
    struct gy_gpu_plan *plan = gy_task_manager(task)->frozen_graph.gpu;
    if (plan != NULL && gy_task_is_stable(task)) {
        plan->changed(plan, task);
    }
}

gantry_status gantry_task_set_arg(gantry_task *task, void *arg)
{
    GY_NEED(TASK, task);
    gantry_taskman *manager = gy_task_manager(task);
    gy_fast_lock_take(&manager->lock);
    bool may = gy_taskman_phase(manager) != GY_RUNNING && gy_task_has(task, GY_TASK_FILLED);
    if (may) {
        task->arg = arg;
        forget_launches(task);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return may ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "argument: task '%s' is part of a running step, or a name only",
                         gantry_task_label(task));
}

gantry_status gantry_task_invalidate(gantry_task *task)
{
    GY_NEED(TASK, task);
    gantry_taskman *manager = gy_task_manager(task);
    gy_fast_lock_take(&manager->lock);
    bool may = gy_taskman_phase(manager) != GY_RUNNING;
    if (may) {
        forget_launches(task);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return may ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "invalidation: task '%s' is part of a running step",
                         gantry_task_label(task));
}

gantry_taskman *gantry_task_manager(const gantry_task *task)
{
    GY_ACCEPT_OR(NULL, TASK, task);
    return gy_task_manager(task);
}

gantry_status gantry_task_choose(gantry_task *task, uint32_t index)
{
    GY_NEED(TASK, task);
    uint64_t *chosen = gy_pool_chosen(task);
    if (chosen == NULL || !gy_task_is_condition(task)) {
        return GY_FAIL(GANTRY_ERR_STATE, "choice: '%s' is no condition, or not running here",
                       gantry_task_label(task));
    }
    const struct gy_edge *edge = gy_edge_at(&task->edges);
    for (uint32_t i = 0; i < index && edge != NULL; i++) {
        edge = gy_edge_at(&edge->next);
    }
    if (edge == NULL || index >= GY_MOST_CHOICES) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "choice: condition '%s' has no dependent %u",
                       gantry_task_label(task), index);
    }
    *chosen |= (uint64_t)1 << index;
    return GANTRY_OK;
}

/* ---- for the GPU dispatcher ------------------------------------------------------------------ */

void gy_task_expect_ready(const gantry_task *task, uint64_t ns)
{
    if (!gy_task_is_gpu(task)) {
        gy_pool_expect(task->owner->pool, ns);
    }
}

void gy_task_foretell_end(const gantry_task *task, uint64_t from_ns)
{
    gy_pool_foretell_end(task->owner, from_ns);
}

void gy_task_expect_end(const gantry_task *task, uint64_t ns)
{
    if (!gy_task_is_gpu(task)) {
        gy_pool_expect_end(task->owner, ns);
    }
}

bool gy_task_may_begin(const gantry_task *task)
{
    return atomic_load_explicit(&task->preset, memory_order_relaxed) == GANTRY_OK &&
           atomic_load_explicit(&task->owner->cancelled, memory_order_relaxed) == 0;
}

bool gy_taskman_is_cancelled(const gantry_taskman *manager)
{
    return atomic_load_explicit(&manager->as_owner.cancelled, memory_order_relaxed) != 0;
}

void gy_taskman_each_task(gantry_taskman *manager, gy_task_visit *visit, void *user)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, visit, user);
}
