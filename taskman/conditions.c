/* SPDX-License-Identifier: MIT */
/* Graphs with conditions: tasks that pick which of their dependents run, and thereby loops.
 *
 * Such a graph is frozen, and a run does not know beforehand which of its tasks will be released, nor how
 * often.  So a run is over when nothing is dispatched any more, and nobody outside holds a reference or has
 * added a task.  A task may run again while others of the same run are still being released; hence the order
 * here, which differs from release.c: whatever belongs to this time round (references for the next time, GPU
 * timeline points, release callback) comes before the first dependent's reference is removed.
 *
 * A dependent that is chosen starts whatever its references are.  One whose last reference goes away, or that
 * is chosen, while it is still queued or running was wired wrongly: the run fails. */
#include "taskman/conditions.h"

#include "base/proof.h"
#include "taskman/checks.h"
#include "taskman/cpu/pool.h"
#include "taskman/failure.h"
#include "taskman/successors.h"

/* Does the `index`-th dependent hear of this task's end? */
static bool is_meant(const gantry_task *task, uint64_t chosen, uint32_t index)
{
    return !gy_task_is_condition(task) || (index < GY_MOST_CHOICES && (chosen >> index & 1) != 0);
}

/* Timeline points, for all dependents that will hear of it, while the task's own is still good. */
static void merge_all_deps(gantry_task *task, uint64_t chosen)
{
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    if (wait_set == 0) {
        return;
    }
    uint32_t index = 0;
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        if (is_meant(task, chosen, index++)) {
            gy_task_merge_deps(task, wait_set, gy_edge_successor(edge));
        }
    }
}

/* Make the task ready.  `by` names the task that has ended, or whose reference was given back, for a
 * report. */
static bool make_ready(gantry_task *task, const char *by, struct gy_ready *ready)
{
    if (gy_task_enter_ready(task)) {
        gy_ready_sort(ready, task);
        return true;
    }
    (void)GY_FAIL(GANTRY_ERR_STATE, "%s starts '%s', which has not ended since its last start", by,
                  gantry_task_label(task));
    gy_taskman_keep_failure(gy_task_manager(task), task, GANTRY_ERR_STATE);
    gy_error_clear();
    return false;
}

bool gy_round_ready(gantry_task *task, struct gy_ready *ready)
{
    return make_ready(task, "a reference given back", ready);
}

/* True: the dependent became ready. */
static bool notify(gantry_task *task, const struct gy_edge *edge, uint64_t wait_set, gantry_status result,
                   struct gy_ready *ready)
{
    const struct gy_proof_ops *proof = gy_proof();
    if (proof != NULL) {
        gy_edge_prove(proof, task, edge);
    }
    if (!gy_task_is_condition(task) &&
        (gy_edge_notify(task, edge, result, wait_set) || gy_edge_let_go(edge) > 1)) {
        return false;
    }
    return make_ready(gy_edge_successor(edge), gantry_task_label(task), ready);
}

struct gy_round_end gy_round_end(gantry_task *task, gantry_status result)
{
    struct gy_round_end end = {0};
    end.chosen = gy_task_is_condition(task) && result == GANTRY_OK ? *gy_pool_chosen(task) : 0;
    gy_task_enter(task, result == GANTRY_OK ? GANTRY_TASK_STATE_DONE : GANTRY_TASK_STATE_FAILED);
    /* A thread that sees these references sees the state, too: see gy_task_hold(). */
    atomic_store_explicit(&task->references, gy_task_armed(task), memory_order_release);
    merge_all_deps(task, end.chosen);
    end.wait_set = atomic_load_explicit(&task->wait_set, memory_order_relaxed); /* GPU tasks': plain */
    gy_task_drop_deps(task);
    atomic_store_explicit(&task->wait_set, 0, memory_order_relaxed);
    return end;
}

size_t gy_round_notify(gantry_task *task, gantry_status result, const struct gy_round_end *end,
                       struct gy_ready *ready)
{
    const struct gy_proof_ops *proof = gy_proof();
    if (proof != NULL) {
        proof->body_end(task);
    }
    size_t made_ready = 0;
    uint32_t index = 0;
    for (struct gy_edge *edge = gy_edge_at(&task->edges), *next; edge != NULL; edge = next) {
        next = gy_edge_at(&edge->next);
        if (is_meant(task, end->chosen, index++)) {
            made_ready += notify(task, edge, end->wait_set, result, ready);
        }
    }
    if (proof != NULL) {
        proof->end(gy_task_manager(task), task);
    }
    return made_ready;
}
