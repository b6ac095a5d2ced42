/* SPDX-License-Identifier: MIT */
/* A device's partitions give way to others: which of a manager's tasks go where. */
#include "taskman/manager.h"
#include "taskman/phase.h"

#include <assert.h>
#include <stdio.h>

static gantry_taskman *manager_of(struct gy_gpu_user *user)
{
    return (gantry_taskman *)(void *)((char *)user - offsetof(struct gantry_taskman, gpu.user));
}

gantry_status gy_gpu_user_check_still(struct gy_gpu_user *user, const char *call)
{
    gantry_taskman *manager = manager_of(user);
    char label[GY_MOVE_LABEL_BYTES] = "";
    gy_fast_lock_take(&manager->lock);
    const bool is_running = gy_taskman_phase(manager) == GY_RUNNING;
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    if (is_running && view.tasks != 0 && view.first != NULL) {
        snprintf(label, sizeof(label), "%s", gantry_task_label(&view.first->tasks[0]));
    }
    gy_fast_lock_give(&manager->lock);
    return !is_running ? GANTRY_OK
                       : GY_FAIL(GANTRY_ERR_STATE, "%s: task manager %p is running, whose first task is '%s'",
                                 call, (void *)manager, label);
}

struct move {
    const struct gy_gpu_moves *moves;
    bool only_frozen;          /* other tasks are of a run that has ended */
    const gantry_task *astray; /* it is in a partition that goes, and has no successor; NULL: none is */
};

/* Is the task one that will run, in a partition of the device? */
static bool is_concerned(const struct move *m, const gantry_task *task)
{
    return gantry_task_get_kind(task) >= GANTRY_TASK_HTOD && task->partition != 0 &&
           task->device == m->moves->device && (!m->only_frozen || gy_task_has(task, GY_TASK_FROZEN));
}

static void check_task(void *user, gantry_task *task)
{
    struct move *m = user;
    if (is_concerned(m, task) && m->moves->to[task->partition] == 0 && m->astray == NULL) {
        m->astray = task;
    }
}

static void move_task(void *user, gantry_task *task)
{
    struct move *m = user;
    if (is_concerned(m, task)) {
        task->partition = m->moves->to[task->partition];
        assert(task->partition != 0);
    }
}

/* Tasks of a step that has ended are only looked at, and will be forgotten. */
static bool has_tasks_to_come(const gantry_taskman *manager)
{
    return manager->frozen || gy_taskman_phase(manager) == GY_BUILDING;
}

gantry_status gy_gpu_user_check_moves(struct gy_gpu_user *user, const struct gy_gpu_moves *moves)
{
    gantry_taskman *manager = manager_of(user);
    struct move m = {.moves = moves};
    uint32_t number = 0;
    char label[GY_MOVE_LABEL_BYTES] = "";
    gy_fast_lock_take(&manager->lock);
    m.only_frozen = manager->frozen;
    if (has_tasks_to_come(manager)) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_each(&view, check_task, &m);
    }
    if (m.astray != NULL) {
        number = m.astray->partition;
        snprintf(label, sizeof(label), "%s", gantry_task_label(m.astray));
    }
    gy_fast_lock_give(&manager->lock);
    if (number != 0) {
        return GY_FAIL(
            GANTRY_ERR_STATE,
            "task '%s' is in partition '%s', which the new plan does not have: keep one of that name, "
            "or reset its task manager",
            label, moves->names[number]);
    }
    if (manager->gpu.partition != 0 && manager->gpu.device == moves->device &&
        moves->to[manager->gpu.partition] == 0) {
        return GY_FAIL(
            GANTRY_ERR_STATE,
            "task manager %p has its tasks in partition '%s', which the new plan does not have: keep "
            "one of that name, or destroy the manager",
            (void *)manager, moves->names[manager->gpu.partition]);
    }
    return GANTRY_OK;
}

void gy_gpu_user_move(struct gy_gpu_user *user, const struct gy_gpu_moves *moves)
{
    gantry_taskman *manager = manager_of(user);
    struct move m = {.moves = moves};
    gy_fast_lock_take(&manager->lock);
    m.only_frozen = manager->frozen;
    if (has_tasks_to_come(manager)) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_each(&view, move_task, &m);
    }
    if (manager->gpu.partition != 0 && manager->gpu.device == moves->device) {
        manager->gpu.partition = moves->to[manager->gpu.partition];
    }
    gy_fast_lock_give(&manager->lock);
}

struct gy_gpu_order *gy_gpu_user_order(const struct gy_gpu_user *user)
{
    return manager_of((struct gy_gpu_user *)user)->gpu_facts.order;
}
