/* SPDX-License-Identifier: MIT */
#include "taskman/successors.h"

#include "taskman/failure.h"
#include "taskman/manager.h"

#include <assert.h>

void gy_task_merge_more_deps(gantry_task *task, gantry_task *successor)
{
    gy_task_manager(task)->gpu.ops->merge_deps(gy_task_manager(task)->gpu.dispatcher, task, successor);
}

void gy_task_drop_more_deps(gantry_task *task)
{
    gy_task_manager(task)->gpu.ops->drop_deps(gy_task_manager(task)->gpu.dispatcher, task);
}

/* The task has failed: so will its dependent. */
void gy_task_fail_successor(gantry_task *successor, gantry_status result)
{
    bool passes_on = result == GANTRY_ERR_DEVICE_LOST || result == GANTRY_ERR_CANCELLED;
    gy_task_preset_failure(successor, passes_on ? result : GANTRY_ERR_TASK_FAILED);
}

bool gy_task_notify_when_done(gantry_task *task, uint64_t wait_set, gantry_task *successor)
{
    gantry_taskman *manager = gy_task_manager(task);
    if (wait_set == 0 || gy_task_is_gpu(successor)) { /* the wait set orders GPU tasks */
        return false;
    }
    /* From now on the reference counts as held from outside. */
    uint64_t is_frozen = gy_task_has(successor, GY_TASK_FROZEN);
    atomic_fetch_add(&manager->as_owner.work, GY_WORK_ACTIVE);
    atomic_fetch_add(&manager->released.frozen_held, is_frozen);
    if (manager->gpu.ops->when_done(manager->gpu.dispatcher, task, wait_set, successor)) {
        return true;
    }
    atomic_fetch_sub(&manager->released.frozen_held, is_frozen);
    atomic_fetch_sub(&manager->as_owner.work, GY_WORK_ACTIVE); /* not to 0: `task` is active */
    return false;
}

/* The group is back at its begin before the successor can know that it has lost its last. */
int32_t gy_edge_let_group_go(const struct gy_edge *edge)
{
    struct gy_join_group *group = gy_edge_group(edge);
    if (atomic_fetch_sub_explicit(&group->left, 1, memory_order_acq_rel) != 1) {
        return GY_NOT_LAST_OF_JOIN;
    }
    int32_t armed = group->armed;
    atomic_store_explicit(&group->left, armed, memory_order_relaxed);
    int32_t before = atomic_fetch_sub_explicit(&group->join->references, armed, memory_order_acq_rel);
    return before == armed ? 1 : before < armed ? 0 : GY_NOT_LAST_OF_JOIN;
}

/* The dependent was started before its predecessor has ended: a reference was given back that its giver did
 * not own, so one active place too many was counted off.  Where a cycle was broken there is no such
 * mistake. */
void gy_task_repay(gantry_task *successor)
{
    gantry_taskman *manager = gy_task_manager(successor);
    gy_fast_lock_take(&manager->lock);
    bool has_broken_cycle = manager->stall.has_broken_cycle;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (!has_broken_cycle) {
        atomic_fetch_add(&manager->as_owner.work, GY_WORK_ACTIVE);
        atomic_fetch_add(&manager->released.frozen_held, gy_task_has(successor, GY_TASK_FROZEN));
        (void)GY_FAIL(GANTRY_ERR_STATE, "it started before what it comes after had ended: "
                                        "gantry_task_remove_reference() was called for it too often");
        gy_taskman_keep_failure(manager, successor, GANTRY_ERR_STATE);
        gy_error_clear();
    }
}

bool gy_task_let_some_go(gantry_task *task, int32_t count)
{
    const int32_t before = atomic_fetch_sub_explicit(&task->references, count, memory_order_acq_rel);
    for (int32_t missing = before < 0 ? count : count - before; missing > 0; missing--) {
        gy_task_repay(task);
    }
    return before > 0 && before <= count;
}
