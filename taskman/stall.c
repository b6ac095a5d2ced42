/* Stalls: what only late declarations can cause, and how a waiting thread gets out of them.
 *
 * The search at the start proves that every task will be released, as long as references taken by others
 * come back.  Two things done while running can break that: an edge that closes a cycle, and a name that
 * is referred to but never submitted, whose first reference nobody removes.  Both are found here, by the
 * thread that waits, when nothing is dispatched and every reference that is left is one that a task
 * which is held back itself will remove.  A reference that somebody outside holds (a completion on the
 * GPU, the application) is a reason to go on waiting.
 *
 * The check walks the whole graph, so it is made only in steps in which one of the two may have happened,
 * and only when the last dispatched task was released or somebody gave a reference back: the pool is
 * `watched` then. */
#include "taskman/manager.h"
#include "taskman/pool.h"
#include "taskman/release.h"
#include "taskman/state.h"

void gy_taskman_watch(gantry_taskman *manager)
{
    if (!manager->watched) {
        manager->watched = true;
        gy_pool_watch(manager->pool);
    }
}

struct survey {
    size_t waiting; /* tasks that were not released */
    size_t movable; /* of those, held by somebody outside or dispatched */
};

/* After gy_graph_count_waiting(). */
static void survey_task(void *user, gantry_task *task)
{
    struct survey *survey = user;
    gantry_task_state state = gy_task_state_of(task);
    if (state == GANTRY_TASK_STATE_DONE || state == GANTRY_TASK_STATE_FAILED) {
        return;
    }
    int64_t references = atomic_load(&task->references);
    int64_t explained = (int64_t)task->scratch + gy_task_has(task, GY_TASK_LATE_NAME);
    survey->waiting++;
    survey->movable += references <= 0 || references != explained;
}

/* A reference that comes back during the survey shows in one of the counts, or its owner notifies the
 * waiters afterwards and they look again. */
static bool is_stalled_locked(gantry_taskman *manager, bool is_stopping, struct survey *survey)
    GY_REQUIRES(manager->lock)
{
    bool is_quiet = (atomic_load(&manager->work) & (GY_WORK_PENDING - 1)) == 0;
    if (!manager->watched || !is_quiet || gy_taskman_is_idle(manager) ||
        manager->held_back != 0 || /* that one will move: no need to count the others */
        (manager->late_names != 0 && !is_stopping)) {
        return false;
    }
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    *survey = (struct survey){0};
    gy_graph_count_waiting(&view);
    gy_graph_each(&view, survey_task, survey);
    return survey->waiting != 0 && survey->movable == 0;
}

bool gy_taskman_is_stalled(gantry_taskman *manager, bool is_stopping)
{
    struct survey survey;
    gy_fast_lock_take(&manager->lock);
    bool is_stalled = is_stalled_locked(manager, is_stopping, &survey);
    bool has_held_back = manager->held_back != 0;
    gy_fast_lock_give(&manager->lock);
    if (has_held_back && !is_stalled) {
        manager->gpu_ops->quiet(manager->gpu); /* it knows whether others can go on */
    }
    return is_stalled;
}

bool gy_taskman_waits_for_memory(gantry_taskman *manager)
{
    struct survey survey = {0};
    gy_fast_lock_take(&manager->lock);
    bool waits = manager->held_back != 0 && (atomic_load(&manager->work) & (GY_WORK_PENDING - 1)) == 0;
    if (waits) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_count_waiting(&view);
        gy_graph_each(&view, survey_task, &survey);
        waits = survey.movable == manager->held_back;
    }
    gy_fast_lock_give(&manager->lock);
    return waits;
}

struct giving_up {
    gantry_taskman *manager;
    struct gy_task_list names;
};

static void give_up_name(void *user, gantry_task *task)
{
    struct giving_up *giving_up = user;
    if (gy_task_has(task, GY_TASK_LATE_NAME)) {
        gy_task_clear(task, GY_TASK_LATE_NAME);
        gy_task_list_add(&giving_up->names, task);
    }
}

/* Names come late no more: they are sync points whose first reference is ours now. */
static struct gy_task_list give_up_names_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock)
{
    struct giving_up giving_up = {.manager = manager};
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, give_up_name, &giving_up);
    for (; manager->late_names != 0; manager->late_names--) {
        gy_taskman_count_pending(manager);
    }
    return giving_up.names;
}

/* One task of a cycle, no longer waiting for anything; the others follow as its dependents.  What its
 * predecessors still take off its count does no harm: it does not come up from 0 again. */
static gantry_task *break_cycle_locked(gantry_taskman *manager, size_t waiting) GY_REQUIRES(manager->lock)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gantry_task *task = gy_graph_walk_to_cycle(&view, waiting);
    char cycle[GY_ERROR_TEXT_BYTES - 120];
    gy_graph_name_cycle(task, cycle, sizeof(cycle));
    (void)GY_FAIL(GANTRY_ERR_CYCLE, "dependencies declared while running wait for each other: %s", cycle);
    if (manager->failure.status == GANTRY_OK) {
        manager->failure = *gy_error_last();
    }
    gy_task_doom(task, GANTRY_ERR_TASK_FAILED);
    atomic_store(&task->references, 1);
    return task;
}

void gy_taskman_unstall(gantry_taskman *manager, bool is_stopping)
{
    struct gy_task_list moved = {0};
    struct survey survey;
    gy_fast_lock_take(&manager->lock);
    if (gy_taskman_is_idle(manager) && is_stopping) {
        moved = give_up_names_locked(manager); /* nothing waits for them, they only have to end */
    } else if (is_stalled_locked(manager, is_stopping, &survey)) {
        if (manager->late_names != 0) {
            moved = give_up_names_locked(manager);
        } else {
            gy_task_list_add(&moved, break_cycle_locked(manager, survey.waiting));
        }
    }
    gy_fast_lock_give(&manager->lock);
    gy_pool_enter(manager->pool);
    for (gantry_task *task = moved.first, *next; task != NULL; task = next) {
        next = task->gpu.next;
        (void)gy_taskman_unhold(task, GANTRY_OK);
    }
    gy_pool_leave(manager->pool);
}
