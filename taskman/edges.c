/* Declaring an edge, and taking a reference away: both also while the tasks run. */
#include "taskman/manager.h"
#include "taskman/pool.h"
#include "taskman/release.h"
#include "taskman/state.h"

static gantry_status refuse_late(const gantry_task *task, const char *what)
{
    return GY_FAIL(GANTRY_ERR_LATE_DEPENDENCY, "dependency: task '%s' was %s already",
                   gantry_task_label(task), what);
}

gantry_status gy_taskman_link(gantry_task *predecessor, gantry_task *successor)
{
    gantry_taskman *manager = predecessor->manager;
    gantry_cpu_dispatcher *pool = manager->pool;
    gantry_status status = GANTRY_OK;
    bool give_back = false;
    gy_mutex_lock(&manager->lock);
    if (gy_task_has(predecessor, GY_TASK_FROZEN) ||
        (manager->frozen && gy_taskman_phase(manager) != GY_RUNNING)) {
        gy_mutex_unlock(&manager->lock);
        return GY_FAIL(GANTRY_ERR_STATE, "dependency: the graph of '%s' is frozen",
                       gantry_task_label(predecessor));
    }
    bool may_close_cycle = gy_taskman_phase(manager) == GY_RUNNING && predecessor->predecessors != 0 &&
                           successor->last_edge != NULL;
    if (may_close_cycle) {
        gy_taskman_watch(manager);
    }
    if (gy_graph_peek_edge(&manager->graph) == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a dependency of task '%s'",
                         gantry_task_label(successor));
    } else if (!gy_task_is_condition(predecessor) && !gy_task_hold(successor)) {
        status = refuse_late(successor, "dispatched");
    } else if (!gy_graph_link(&manager->graph, predecessor, successor)) {
        status = refuse_late(predecessor, "released");
        give_back = true;
    }
    if (give_back || may_close_cycle) {
        gy_pool_enter(pool);
    }
    gy_mutex_unlock(&manager->lock);
    if (give_back) {
        gy_taskman_unhold(successor); /* everybody else may have let go meanwhile */
    }
    if (may_close_cycle) {
        gy_pool_notify_waiters(pool);
    }
    if (give_back || may_close_cycle) {
        gy_pool_leave(pool);
    }
    return status;
}

/* Before the start, the references that edges and the start itself will remove are not the caller's.
 * True: done here, `*status` says how. */
static bool unhold_while_building(gantry_task *task, gantry_status *status)
{
    gantry_taskman *manager = task->manager;
    bool is_light = gy_task_has(task, GY_TASK_LIGHT);
    gy_mutex_lock(&manager->lock);
    bool is_building = gy_taskman_phase(manager) == GY_BUILDING;
    if (is_building) {
        int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
        int32_t owned = (is_light ? 0 : 1) + (int32_t)task->predecessors;
        if (references <= owned) {
            *status = GY_FAIL(GANTRY_ERR_STATE, "reference: task '%s' has none left to remove",
                              gantry_task_label(task));
        } else {
            *status = GANTRY_OK;
            if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) == 1) {
                gy_task_set(task, GY_TASK_PARKED);
            }
        }
    }
    gy_mutex_unlock(&manager->lock);
    return is_building;
}

gantry_status gy_taskman_unhold(gantry_task *task)
{
    gantry_taskman *manager = task->manager;
    gantry_cpu_dispatcher *pool = manager->pool;
    gantry_status status;
    if (gy_taskman_phase(manager) == GY_BUILDING && unhold_while_building(task, &status)) {
        return status;
    }
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    bool is_resting = gy_task_has(task, GY_TASK_FROZEN) &&
                      (gy_taskman_phase(manager) != GY_RUNNING ||
                       (!manager->flow && gy_task_state_of(task) != GANTRY_TASK_STATE_HELD));
    /* Read while our reference keeps the step, and so the manager, alive. */
    bool is_counted = manager->flow && gy_task_has(task, GY_TASK_FROZEN);
    do {
        if (references <= 0 || is_resting) {
            return GY_FAIL(GANTRY_ERR_STATE, "reference: task '%s' has none left to remove",
                           gantry_task_label(task));
        }
    } while (!atomic_compare_exchange_weak_explicit(&task->references, &references, references - 1,
                                                    memory_order_seq_cst, memory_order_relaxed));
    if (references == 1) {
        struct gy_ready ready = {0};
        atomic_fetch_add_explicit(&manager->work, GY_WORK_ACTIVE, memory_order_relaxed);
        gy_ready_add(&ready, task);
        gy_ready_dispatch(manager, &ready);
    }
    if (is_counted) {
        gy_taskman_count_off(manager, GY_WORK_PENDING);
    } else if (references != 1 && gy_pool_is_watched(pool)) {
        gy_pool_notify_waiters(pool);
    }
    return GANTRY_OK;
}
