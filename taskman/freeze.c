/* SPDX-License-Identifier: MIT */
/* Frozen graphs: built once, run many times.
 *
 * freeze() checks what a start checks, puts the edges of each task side by side, collects the tasks that
 * nothing holds, and notes in each task how many references it begins with.  While a run lasts, every task
 * brings itself back to that begin when it is released (release.c, conditions.c), so a start needs one pass
 * over nothing but those first tasks.  Only a graph with conditions, of which a run may leave parts out, is
 * put in order task by task before each run. */
#include "taskman/freeze.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "taskman/access.h"
#include "taskman/graph/cycles.h"
#include "taskman/graph/failure.h"
#include "taskman/joins.h"
#include "taskman/phase.h"
#include "taskman/places.h"
#include "taskman/submit.h"
#include "taskman/successors.h"

#include <assert.h>
#include <string.h>

/* ---- freezing -------------------------------------------------------------------------------- */

struct freezing {
    gantry_taskman *manager;
    size_t roots;
    bool has_wide;              /* some task has very many predecessors */
    const gantry_task *held;    /* by more than its predecessors and the start */
    const gantry_task *awaited; /* a sync point that some task waits to be done */
    bool lists_plain;           /* roots that are plain CPU tasks, else all others */
};

static bool is_root(const gantry_task *task)
{
    return gy_task_armed(task) == 0 && !gy_task_has(task, GY_TASK_CHOSEN);
}

static void count_root(void *user, gantry_task *task)
{
    struct freezing *freezing = user;
    int32_t armed = atomic_load_explicit(&task->references, memory_order_relaxed) - 1; /* less the start's */
    freezing->roots += armed == 0 && !gy_task_has(task, GY_TASK_CHOSEN);
    freezing->has_wide |= task->predecessors >= GY_JOIN_WIDE;
    if (armed != (int32_t)task->predecessors) {
        freezing->held = task;
    }
    if (task->traits == (GANTRY_TASK_SYNC_POINT | GY_TRAIT_AWAITED)) {
        freezing->awaited = task;
    }
}

static void freeze_task(void *user, gantry_task *task)
{
    (void)user;
    int32_t armed = atomic_load_explicit(&task->references, memory_order_relaxed) - 1;
    gy_task_arm(task, armed);
    atomic_store_explicit(&task->references, armed, memory_order_relaxed);
    gy_task_set(task, GY_TASK_FROZEN);
    gy_task_state_rest(NULL, task);
}

static void list_root(void *user, gantry_task *task)
{
    struct freezing *freezing = user;
    struct gy_frozen *frozen = &freezing->manager->frozen_graph;
    if (is_root(task) && (task->traits == GANTRY_TASK_CPU) == freezing->lists_plain) {
        frozen->roots[frozen->root_count++] = task;
        frozen->plain_count += freezing->lists_plain;
    }
}

static gantry_status check_freezable(gantry_taskman *manager, const struct freezing *freezing)
    GY_REQUIRES(manager->lock)
{
    if (gy_taskman_phase(manager) != GY_BUILDING) {
        return GY_FAIL(GANTRY_ERR_STATE, "freeze: the task manager is %s",
                       gy_taskman_phase_name(gy_taskman_phase(manager)));
    }
    if (manager->counts.unfilled != 0) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        return gy_graph_fail_unfilled("freeze", manager->counts.unfilled, &view);
    }
    if (manager->counts.lights != 0) {
        return GY_FAIL(GANTRY_ERR_STATE, "freeze: light tasks are of one run: create them while it lasts");
    }
    if (manager->counts.conditions != 0 && freezing->held != NULL) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "freeze: a graph with conditions holds no references of others: '%s'",
                       gantry_task_label(freezing->held));
    }
    if (manager->counts.conditions != 0 && freezing->awaited != NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "freeze: in a graph with conditions a task can wait for the GPU to be done with GPU "
                       "tasks, not with sync point '%s'",
                       gantry_task_label(freezing->awaited));
    }
    if (manager->counts.conditions != 0 && manager->counts.memory != 0) {
        return GY_FAIL(
            GANTRY_ERR_UNSUPPORTED,
            "freeze: in a graph with conditions nobody knows which task is the last to need memory");
    }
    return gy_graph_check_cycles(&manager->graph, "freeze");
}

/* Make what a frozen graph needs beside its tasks.  On failure the caller frees what is in `out`. */
static gantry_status make_frozen_locked(gantry_taskman *manager, const struct freezing *freezing,
                                        struct gy_frozen *out) GY_REQUIRES(manager->lock)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    out->roots = gy_zalloc_array(freezing->roots + 1, sizeof(gantry_task *));
    if (out->roots == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "freeze: no memory for %zu first tasks",
                       freezing->roots);
    }
    gantry_status status = gy_graph_pack_edges(&manager->graph);
    const bool is_planned =
        manager->counts.conditions == 0 ? manager->counts.stables != 0 : manager->loops != NULL;
    if (status == GANTRY_OK && is_planned) {
        status = manager->gpu.ops->plan(manager->gpu.dispatcher, manager, &out->gpu);
    }
    if (status != GANTRY_OK || !freezing->has_wide || manager->counts.conditions != 0) {
        return status;
    }
    out->group_count = gy_joins_count(&view);
    if (out->group_count == 0) {
        gy_joins_make(&view, NULL);
        return GANTRY_OK;
    }
    size_t bytes = out->group_count * sizeof(struct gy_join_group);
    out->groups = gy_alloc_aligned(bytes, 64);
    if (out->groups == NULL) {
        gy_joins_make(&view, NULL);
        if (out->gpu != NULL) {
            out->gpu->drop(out->gpu);
        }
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "freeze: no memory for joins of very many tasks");
    }
    memset(out->groups, 0, bytes);
    return GANTRY_OK;
}

static size_t frozen_bytes(const struct gy_frozen *frozen)
{
    return (frozen->root_count + 1) * sizeof(gantry_task *) +
           frozen->group_count * sizeof(struct gy_join_group);
}

static gantry_status freeze_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock)
{
    struct freezing freezing = {.manager = manager};
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    if (gy_taskman_phase(manager) == GY_BUILDING) {
        gy_graph_each(&view, count_root, &freezing);
    }
    gantry_status status = check_freezable(manager, &freezing);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_frozen made = {.gpu = NULL};
    status = make_frozen_locked(manager, &freezing, &made);
    if (status != GANTRY_OK) {
        gy_free(made.roots);
        gy_free(made.groups);
        return status;
    }
    manager->frozen_graph = made;
    if (made.groups != NULL) {
        gy_joins_make(&view, made.groups);
        gy_joins_arm_all(&manager->frozen_graph);
    }
    gy_graph_each(&view, freeze_task, NULL);
    freezing.lists_plain = true;
    gy_graph_each(&view, list_root, &freezing);
    freezing.lists_plain = false;
    gy_graph_each(&view, list_root, &freezing);
    manager->frozen_graph.end = gy_graph_mark(&manager->graph);
    manager->frozen_graph.tasks = manager->counts.submitted;
    manager->frozen_graph.tasks_gpu = gy_taskman_gpu_tasks(manager);
    manager->frozen_graph.tasks_sync = manager->counts.sync;
    manager->frozen_graph.outside = manager->counts.outside;
    manager->graph.bytes += frozen_bytes(&manager->frozen_graph);
    manager->frozen = true;
    manager->as_owner.has_conditions = manager->counts.conditions != 0;
    gy_taskman_enter_phase(manager, GY_STOPPED);
    return GANTRY_OK;
}

gantry_status gantry_taskman_freeze(gantry_taskman *manager)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_status status = gy_taskman_check_owner(manager, "freeze");
    if (status == GANTRY_OK) {
        gy_fast_lock_take(&manager->lock);
        status = gy_accesses_freeze(manager, gy_taskman_add_locked);
        status = status == GANTRY_OK ? freeze_locked(manager) : status;
        assert(gy_taskman_is_valid(manager));
        gy_fast_lock_give(&manager->lock);
    }
    return status;
}

void gy_taskman_disarm_task(void *user, gantry_task *task)
{
    (void)user;
    gy_task_drop_deps(task);
    atomic_store_explicit(&task->wait_set, 0, memory_order_relaxed);
    atomic_store_explicit(&task->preset, GANTRY_OK, memory_order_relaxed);
}

void gy_taskman_thaw(gantry_taskman *manager)
{
    if (manager->frozen) {
        if (manager->as_owner.has_conditions) {
            struct gy_graph_view view = gy_graph_view(&manager->graph);
            gy_graph_each(&view, gy_taskman_disarm_task, NULL);
        }
        manager->graph.bytes -= frozen_bytes(&manager->frozen_graph);
        gy_free(manager->frozen_graph.roots);
        gy_free(manager->frozen_graph.groups);
        manager->frozen_graph = (struct gy_frozen){0};
        manager->gpu_facts.plan = NULL;
        manager->frozen = manager->as_owner.has_conditions = false;
    }
    atomic_store_explicit(&manager->as_owner.run_mark, 0, memory_order_relaxed);
    atomic_store_explicit(&manager->as_owner.cancelled, 0, memory_order_relaxed);
}

/* ---- starting -------------------------------------------------------------------------------- */

void gy_taskman_clear_run_locked(gantry_taskman *manager)
{
    gy_graph_return(&manager->graph, &manager->frozen_graph.end);
    gy_taskman_clear_places(manager);
    manager->counts.submitted = manager->counts.into_work = manager->frozen_graph.tasks;
    atomic_store_explicit(&manager->counts.gpu, manager->frozen_graph.tasks_gpu, memory_order_relaxed);
    manager->counts.sync = manager->frozen_graph.tasks_sync;
    manager->failure = (struct gy_error){.status = GANTRY_OK};
    manager->frozen_graph.has_run = true;
    manager->gpu_facts.plan = NULL;
    manager->counts.outside = manager->frozen_graph.outside;
    manager->stall.may_have_cycle = manager->stall.has_broken_cycle = false;
    atomic_store(&manager->released.failed, 0);
    atomic_store(&manager->as_owner.cancelled, 0);
}

/* For a graph with conditions: nobody else holds its tasks before the start. */
static void rearm_task(void *user, gantry_task *task)
{
    gy_taskman_disarm_task(user, task);
    gy_task_arm(task, (int32_t)task->predecessors);
    atomic_store_explicit(&task->references, gy_task_armed(task), memory_order_relaxed);
}

/* The whole graph runs: with what the dispatcher remembers of it. */
static void follow_plan(gantry_taskman *manager)
{
    if (manager->frozen_graph.gpu != NULL) {
        manager->frozen_graph.gpu->run++;
        manager->gpu_facts.plan = manager->frozen_graph.gpu;
    }
}

void gy_taskman_rearm(gantry_taskman *manager)
{
    gy_taskman_clear_run_locked(manager);
    atomic_store(&manager->released.frozen_held, manager->counts.outside);
    if (manager->as_owner.has_conditions) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_each(&view, rearm_task, NULL);
        gy_graph_each(&view, gy_task_state_hold, NULL);
        follow_plan(manager);
        return;
    }
    assert(gy_frozen_is_valid(&manager->frozen_graph));
    if (!manager->frozen_graph.joins_are_armed) {
        gy_joins_arm_all(&manager->frozen_graph);
    }
    uint8_t mark = atomic_load_explicit(&manager->as_owner.run_mark, memory_order_relaxed);
    atomic_store_explicit(&manager->as_owner.run_mark, mark ^ GY_STATE_MARK, memory_order_relaxed);
    follow_plan(manager);
}
