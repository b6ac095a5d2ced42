/* SPDX-License-Identifier: MIT */
/* Declaring an edge, also while the tasks run. */
#include "taskman/edges.h"
#include "base/handle.h"
#include "base/proof.h"
#include "taskman/cpu/pool.h"
#include "taskman/references.h"

#include <assert.h>

/* One dependent more, of as many as can be counted. */
static inline void count_successor(gantry_task *predecessor, const gantry_task *successor)
{
    const unsigned before = atomic_load_explicit(&predecessor->successors, memory_order_relaxed);
    unsigned count = before + 1;
    if (__builtin_expect((count & GY_SUCCESSORS_MOST) == 0, 0)) {
        count = before;
    }
    if (!gy_task_is_gpu(successor)) {
        count |= (unsigned)GY_SUCCESSORS_HOST;
    }
    atomic_store_explicit(&predecessor->successors, (uint16_t)count, memory_order_relaxed);
}

/* The edge is linked: what else is known of it. */
static inline void note_edge(struct gy_graph *graph, gantry_task *predecessor, gantry_task *successor,
                             struct gy_edge *edge)
{
    predecessor->last_edge = edge;
    if (gy_task_is_condition(predecessor)) {
        gy_task_set(successor, GY_TASK_CHOSEN);
    } else if (!gy_task_has(successor, GY_TASK_FROZEN)) {
        successor->predecessors++;
        /* A light task has no predecessors, so it is on no cycle wherever its edge leads. */
        if (predecessor->index > successor->index && !gy_task_has(predecessor, GY_TASK_LIGHT)) {
            graph->back_edges++;
        }
    }
    count_successor(predecessor, successor);
}

/* Where the next edge of `task` goes. */
static inline _Atomic(struct gy_edge *) *end_of_edges(gantry_task *task)
{
    return task->last_edge == NULL ? &task->edges : &task->last_edge->next;
}

static GY_COLD gantry_status no_edge_memory(const gantry_task *successor)
{
    return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a dependency of task '%s'",
                   gantry_task_label(successor));
}

/* Nothing runs, and all changes are made under the lock: no edge can come too late.  `edge`: the place that
 * was peeked at. */
static GY_INLINE void put_edge_locked(gantry_taskman *manager, gantry_task *predecessor,
                                      gantry_task *successor, bool when_done, struct gy_edge *edge)
    GY_REQUIRES(manager->lock)
{
    gy_graph_take_edge(&manager->graph, edge);
    if (!gy_task_is_condition(predecessor)) {
        int32_t references = atomic_load_explicit(&successor->references, memory_order_relaxed);
        atomic_store_explicit(&successor->references, references + 1, memory_order_relaxed);
    }
    edge->to = gy_edge_to(successor, when_done);
    atomic_init(&edge->next, NULL);
    atomic_store_explicit(end_of_edges(predecessor), edge,
                          memory_order_release); /* for threads that walk the graph */
    note_edge(&manager->graph, predecessor, successor, edge);
}

static inline gantry_status link_building_locked(gantry_taskman *manager, gantry_task *predecessor,
                                                 gantry_task *successor, bool when_done)
    GY_REQUIRES(manager->lock)
{
    struct gy_edge *edge = gy_graph_peek_edge(&manager->graph);
    if (edge == NULL) {
        return no_edge_memory(successor);
    }
    put_edge_locked(manager, predecessor, successor, when_done, edge);
    return GANTRY_OK;
}

gantry_status gy_edges_link_locked(gantry_taskman *manager, gantry_task *predecessor, gantry_task *successor,
                                   bool when_done)
{
    return link_building_locked(manager, predecessor, successor, when_done);
}

gantry_status gy_edges_link_all_locked(gantry_taskman *manager, gantry_task *task,
                                       gantry_task *const *predecessors, size_t count)
{
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = link_building_locked(manager, predecessors[i], task, false);
    }
    return status;
}

/* False: the step runs, and `predecessor` was released first. */
static bool append_running_locked(struct gy_graph *graph, gantry_task *predecessor, gantry_task *successor,
                                  bool when_done)
{
    struct gy_edge *edge = gy_graph_peek_edge(graph), *none = NULL;
    edge->to = gy_edge_to(successor, when_done);
    atomic_init(&edge->next, NULL);
    if (!atomic_compare_exchange_strong_explicit(end_of_edges(predecessor), &none, edge, memory_order_release,
                                                 memory_order_acquire)) {
        return false; /* &gy_edge_closed was there */
    }
    gy_graph_take_edge(graph, edge);
    note_edge(graph, predecessor, successor, edge);
    return true;
}

gantry_status gy_edges_link_late_locked(gantry_taskman *manager, gantry_task *predecessor,
                                        gantry_task *successor, bool when_done, bool *has_ended)
{
    if (gy_graph_peek_edge(&manager->graph) == NULL) {
        return no_edge_memory(successor);
    }
    manager->stall.may_have_cycle |= predecessor->predecessors != 0 && successor->last_edge != NULL;
    atomic_fetch_add_explicit(&successor->references, 1, memory_order_relaxed);
    *has_ended = !append_running_locked(&manager->graph, predecessor, successor, when_done);
    if (*has_ended) {
        atomic_fetch_sub_explicit(&successor->references, 1, memory_order_relaxed);
    }
    return GANTRY_OK;
}

/* `*give_back`: the reference on `successor` that the edge would have had. */
static gantry_status link_running_locked(gantry_taskman *manager, gantry_task *predecessor,
                                         gantry_task *successor, bool when_done, bool *give_back)
    GY_REQUIRES(manager->lock)
{
    if (gy_graph_peek_edge(&manager->graph) == NULL) {
        return no_edge_memory(successor);
    }
    if (!gy_task_is_condition(predecessor) && !gy_task_hold(successor)) {
        return gy_task_refuse_hold(successor, "dependency: task");
    }
    if (!append_running_locked(&manager->graph, predecessor, successor, when_done)) {
        *give_back = true;
        if (gy_proof() != NULL) {
            gy_proof()->has_ended(manager, predecessor, successor, false);
        }
        return GY_FAIL(GANTRY_ERR_LATE_DEPENDENCY, "dependency: task '%s' was released already",
                       gantry_task_label(predecessor));
    }
    return GANTRY_OK;
}

/* Takes the lock over, and gives it back. */
static gantry_status link_running(gantry_taskman *manager, gantry_task *predecessor, gantry_task *successor,
                                  bool when_done) GY_RELEASE(manager->lock)
{
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    bool give_back = false;
    bool may_close_cycle = gy_taskman_phase(manager) == GY_RUNNING && predecessor->predecessors != 0 &&
                           successor->last_edge != NULL;
    manager->stall.may_have_cycle |= may_close_cycle;
    gantry_status status = link_running_locked(manager, predecessor, successor, when_done, &give_back);
    bool moves = give_back || may_close_cycle;
    if (give_back) {
        atomic_fetch_add(&manager->as_owner.work, GY_WORK_ACTIVE); /* it is ours now */
        atomic_fetch_add(&manager->released.frozen_held, gy_task_has(successor, GY_TASK_FROZEN));
    }
    if (moves) {
        gy_pool_enter(pool);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (give_back) {
        (void)gy_taskman_unhold(successor, GANTRY_OK, NULL); /* everybody else may have let go meanwhile */
    }
    if (may_close_cycle) {
        gy_pool_notify_waiters(pool);
    }
    if (moves) {
        gy_pool_leave(pool);
    }
    return status;
}

/* The dispatcher's thread hears of the end of GPU tasks, and of that of sync points that are marked: it alone
 * can tell when the GPU has done what is before them.  A sync point may end at any time while it runs, so it
 * is marked before. */
static gantry_status mark_awaited_locked(gantry_taskman *manager, gantry_task *predecessor)
    GY_REQUIRES(manager->lock)
{
    if (gy_task_is_gpu(predecessor) || (predecessor->traits & GY_TRAIT_AWAITED) != 0) {
        return GANTRY_OK;
    }
    if (gy_task_kind(predecessor) != GANTRY_TASK_SYNC_POINT) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT,
            "dependency: '%s' is a CPU task: what the GPU can be done with are the GPU tasks before it",
            gantry_task_label(predecessor));
    }
    /* The thread that will submit its task holds a name that came late. */
    if (gy_taskman_phase(manager) == GY_RUNNING && !gy_task_has(predecessor, GY_TASK_LATE_NAME)) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "dependency: while the manager runs, a task can wait for the GPU to be done with GPU "
                       "tasks, not with sync point '%s'",
                       gantry_task_label(predecessor));
    }
    predecessor->traits |= GY_TRAIT_AWAITED;
    return GANTRY_OK;
}

/* All edges but those that most tasks have; takes the lock over, and gives it back. */
static GY_RARE gantry_status link_unusual(gantry_taskman *manager, gantry_task *predecessor,
                                          gantry_task *successor, bool when_done) GY_RELEASE(manager->lock)
{
    const enum gy_phase phase = gy_taskman_phase(manager);
    if (gy_task_has(predecessor, GY_TASK_FROZEN) || (manager->frozen && phase != GY_RUNNING)) {
        assert(gy_taskman_is_valid(manager));
        gy_fast_lock_give(&manager->lock);
        return GY_FAIL(GANTRY_ERR_STATE, "dependency: the graph of '%s' is frozen",
                       gantry_task_label(predecessor));
    }
    gantry_status status = when_done ? mark_awaited_locked(manager, predecessor) : GANTRY_OK;
    if (status == GANTRY_OK && phase != GY_BUILDING) {
        return link_running(manager, predecessor, successor, when_done);
    }
    if (status == GANTRY_OK) {
        status = link_building_locked(manager, predecessor, successor, when_done);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return status;
}

/* There are two tasks of one manager, neither of them a light one. */
static GY_INLINE bool may_link(const gantry_task *task, const gantry_task *predecessor)
{
    return task != NULL && predecessor != NULL && task != predecessor && task->owner == predecessor->owner &&
           !gy_task_has(task, GY_TASK_LIGHT) && !gy_task_has(predecessor, GY_TASK_LIGHT);
}

static GY_COLD gantry_status refuse_link(const gantry_task *task, const gantry_task *predecessor)
{
    if (task == NULL || predecessor == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "dependency: a task is NULL");
    }
    if (task == predecessor) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "dependency: task '%s' after itself",
                       gantry_task_label(task));
    }
    if (gy_task_manager(task) != gy_task_manager(predecessor)) {
        return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE, "dependency: '%s' and '%s' are of different task managers",
                       gantry_task_label(task), gantry_task_label(predecessor));
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "dependency: '%s' or '%s' is a light task",
                   gantry_task_label(task), gantry_task_label(predecessor));
}

/* Another thread has the manager's lock. */
static GY_RARE gantry_status wait_and_link(gantry_taskman *manager, gantry_task *predecessor,
                                           gantry_task *successor, bool when_done)
{
    gy_fast_lock_take(&manager->lock);
    return link_unusual(manager, predecessor, successor, when_done);
}

/* Whatever is unusual is left to another function in the end, so this one has no frame. */
static GY_INLINE gantry_status start_after(gantry_task *task, gantry_task *predecessor, bool when_done)
{
    if (__builtin_expect(!may_link(task, predecessor), 0)) {
        return refuse_link(task, predecessor);
    }
    gantry_taskman *manager = gy_task_manager(predecessor);
    if (!gy_fast_lock_try(&manager->lock)) {
        return wait_and_link(manager, predecessor, task, when_done);
    }
    struct gy_edge *edge = gy_graph_look_for_edge(&manager->graph);
    if (when_done || manager->frozen || gy_taskman_phase(manager) != GY_BUILDING || edge == NULL) {
        return link_unusual(manager, predecessor, task, when_done);
    }
    put_edge_locked(manager, predecessor, task, false, edge);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return GANTRY_OK;
}

/* The handles are checked. */
static GY_COLD gantry_status accept_and_start_after(gantry_task *task, gantry_task *predecessor,
                                                    bool when_done, const char *function)
{
    return GY_HANDLE_IS_BAD_IN(function, TASK, task) || GY_HANDLE_IS_BAD_IN(function, TASK, predecessor)
               ? GANTRY_ERR_INVALID_ARGUMENT
               : start_after(task, predecessor, when_done);
}

gantry_status gantry_task_start_after(gantry_task *task, gantry_task *predecessor)
{
    return gy_handles_are_checked() ? accept_and_start_after(task, predecessor, false, __func__)
                                    : start_after(task, predecessor, false);
}

gantry_status gantry_task_start_after_done(gantry_task *task, gantry_task *gpu_task)
{
    return gy_handles_are_checked() ? accept_and_start_after(task, gpu_task, true, __func__)
                                    : start_after(task, gpu_task, true);
}

gantry_status gantry_task_finish_before(gantry_task *task, gantry_task *successor)
{
    GY_ACCEPT(TASK, task);
    GY_ACCEPT(TASK, successor);
    return gantry_task_start_after(successor, task);
}
