/* SPDX-License-Identifier: MIT */
/* Stalls: what only late declarations can cause, and how a waiting thread gets out of them.
 *
 * The search at the start proves that every task will be released, as long as references taken by others
 * come back.  Two things done while running can break that: an edge that closes a cycle, and a name that is
 * referred to but never submitted, whose first reference nobody removes.  Both are found here, by a thread
 * that waits, when the step is quiet: nothing is dispatched and nobody outside (a completion on the GPU, the
 * application) holds a reference.  The thread that makes it quiet wakes the waiting ones.
 *
 * That takes two loads.  Only in a step in which an edge may have closed a cycle is the graph walked, since a
 * step can also be quiet while a worker is about to count off what it has released.
 *
 * A thread that resolves a stall holds the references that it gives back: that is done under the lock, and
 * from then on the step is not quiet, so several threads may wait. */
#include "taskman/stall.h"

#include "base/status.h"
#include "taskman/cpu/pool.h"
#include "taskman/graph/cycles.h"
#include "taskman/references.h"

#include <assert.h>
#include <stdio.h>

struct survey {
    size_t waiting; /* tasks that were not released */
    size_t movable; /* of those, held from outside or dispatched */
};

/* After gy_graph_count_waiting(). */
static void survey_task(void *user, gantry_task *task)
{
    struct survey *survey = user;
    if (gy_task_has(task, GY_TASK_FROZEN) || gy_task_is_released(task)) {
        return;
    }
    survey->waiting++;
    survey->movable += atomic_load(&task->references) != (int64_t)task->scratch;
}

/* How many wait for each other; 0: they do not. */
static size_t survey_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    struct survey survey = {0};
    gy_graph_count_waiting(&view);
    gy_graph_each(&view, survey_task, &survey);
    return survey.movable == 0 ? survey.waiting : 0;
}

enum stall { NONE, NAMES, CYCLE };

/* `count` gets how many tasks wait for each other. */
static enum stall find_stall_locked(gantry_taskman *manager, bool is_stopping, size_t *count)
    GY_REQUIRES(manager->lock)
{
    if (!gy_taskman_is_quiet(manager) || gy_taskman_is_idle(manager) ||
        atomic_load(&manager->stall.held_back) != 0) {
        return NONE;
    }
    if (manager->counts.late_names != 0) {
        return is_stopping ? NAMES : NONE;
    }
    *count = manager->stall.may_have_cycle ? survey_locked(manager) : 0;
    return *count != 0 ? CYCLE : NONE;
}

bool gy_taskman_is_stalled(gantry_taskman *manager, bool is_stopping)
{
    if (!gy_taskman_is_quiet(manager)) {
        return false;
    }
    size_t count;
    gy_fast_lock_take(&manager->lock);
    bool is_stalled = find_stall_locked(manager, is_stopping, &count) != NONE;
    bool has_held_back = atomic_load(&manager->stall.held_back) != 0;
    manager->stall.is_awaited = has_held_back;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (has_held_back) {
        manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_QUIET); /* it knows whether others can go on */
    }
    return is_stalled;
}

bool gy_taskman_waits_for_memory(gantry_taskman *manager)
{
    gy_fast_lock_take(&manager->lock);
    bool may_get_names = manager->counts.late_names != 0 && !manager->stall.is_awaited;
    bool waits =
        atomic_load(&manager->stall.held_back) != 0 && gy_taskman_is_quiet(manager) && !may_get_names;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return waits;
}

struct giving_up {
    gantry_taskman *manager;
    struct gy_task_list names;
};

/* Our caller has the lock. */
static void give_up_name(void *user, gantry_task *task) GY_NO_ANALYSIS
{
    struct giving_up *giving_up = user;
    if (gy_task_has(task, GY_TASK_LATE_NAME)) {
        gy_task_clear(task, GY_TASK_LATE_NAME);
        gy_taskman_count_pending(giving_up->manager, task, GY_WORK_ACTIVE);
        gy_task_list_add(&giving_up->names, task);
    }
}

/* Give up names that came late: they are sync points now, and their first reference is the caller's. */
static struct gy_task_list give_up_names_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock)
{
    struct giving_up giving_up = {.manager = manager};
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, give_up_name, &giving_up);
    manager->counts.late_names = 0;
    return giving_up.names;
}

/* One task of a cycle, no longer waiting for anything but us; the others follow as its dependents.  What its
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
    manager->stall.has_broken_cycle = true;
    gy_task_preset_failure(task, GANTRY_ERR_TASK_FAILED);
    atomic_store(&task->references, 1);
    atomic_fetch_add(&manager->as_owner.work, GY_WORK_ACTIVE);
    return task;
}

/* Under the lock: find the references that are to be given back. */
static struct gy_task_list take_stalled_locked(gantry_taskman *manager, bool is_stopping)
    GY_REQUIRES(manager->lock)
{
    struct gy_task_list moved = {0};
    size_t count;
    if (gy_taskman_is_idle(manager)) { /* nothing waits for the names, they only have to end */
        return is_stopping ? give_up_names_locked(manager) : moved;
    }
    switch (find_stall_locked(manager, is_stopping, &count)) {
    case NAMES:
        return give_up_names_locked(manager);
    case CYCLE:
        gy_task_list_add(&moved, break_cycle_locked(manager, count));
        break;
    case NONE:
        break;
    }
    return moved;
}

void gy_taskman_unstall(gantry_taskman *manager, bool is_stopping)
{
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    gy_fast_lock_take(&manager->lock);
    struct gy_task_list moved = take_stalled_locked(manager, is_stopping);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    gy_pool_enter(pool);
    for (gantry_task *task = moved.first, *next; task != NULL; task = next) {
        next = task->next;
        (void)gy_taskman_unhold(task, GANTRY_OK, NULL);
    }
    gy_pool_leave(pool);
}

/* ---- what a step waits for ------------------------------------------------------------------- */

struct waits {
    bool moves; /* something runs, or is about to */
    size_t count, used;
    char labels[GY_ERROR_TEXT_BYTES - 120];
};

static void clear_mark(void *unused, gantry_task *task)
{
    (void)unused;
    task->scratch = 0;
}

static void mark_successor(void *unused, gantry_task *task)
{
    (void)unused;
    task->scratch = 1;
}

static bool is_left(const gantry_task *task)
{
    return !gy_task_is_released(task) && (!gy_task_has(task, GY_TASK_FROZEN) || gy_task_takes_part(task));
}

static void mark_dependents(void *unused, gantry_task *task)
{
    if (is_left(task)) {
        gy_task_each_dependent(task, mark_successor, unused);
    }
}

/* A task is held back from outside when it waits for no other one. */
static void note_wait(void *user, gantry_task *task)
{
    struct waits *waits = user;
    const gantry_task_state state = gy_task_state_of(task);
    const bool is_awaited = state == GANTRY_TASK_STATE_AWAITED;
    waits->moves |= state == GANTRY_TASK_STATE_READY || state == GANTRY_TASK_STATE_RUNNING;
    if (!is_left(task) || gy_task_has(task, GY_TASK_CHOSEN) || (!is_awaited && task->scratch != 0)) {
        return;
    }
    waits->count++;
    const int more = snprintf(waits->labels + waits->used, sizeof(waits->labels) - waits->used, "%s '%.60s'",
                              is_awaited ? " awaited" : " held", gantry_task_label(task));
    if (more > 0 && (size_t)more < sizeof(waits->labels) - waits->used) {
        waits->used += (size_t)more;
    }
    waits->labels[waits->used] = '\0'; /* one that does not fit is left out */
}

/* Bodies of spawned tasks are in no graph: a worker that is in one does not look for work. */
static bool has_busy_worker(const gantry_cpu_dispatcher *pool)
{
    return pool->host.submit == NULL && atomic_load(&pool->idle) < pool->worker_count;
}

bool gy_taskman_tell_of_waits(gantry_taskman *manager)
{
    struct waits waits = {.moves = has_busy_worker(manager->as_owner.pool)};
    gy_fast_lock_take(&manager->lock);
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, clear_mark, NULL);
    gy_graph_each(&view, mark_dependents, NULL);
    gy_graph_each(&view, note_wait, &waits);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (waits.moves || waits.count == 0) {
        return false;
    }
    gy_log(GANTRY_LOG_WARNING,
           "a thread waits for a step whose tasks wait for others; awaited until gantry_task_complete(), or "
           "held by "
           "references and work on the GPU, are %zu:%s",
           waits.count, waits.labels);
    return true;
}
