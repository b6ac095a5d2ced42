/* SPDX-License-Identifier: MIT */
/* What is done for checks (base/checking.h) when a task or a step begins. */
#ifndef TASKMAN_CHECKS_H
#define TASKMAN_CHECKS_H

#include "base/proof.h"
#include "taskman/manager.h"

/* A CPU task is about to run.  The proof hears of it.  Warn, once for each function and label, when it
 * follows GPU tasks and nothing has waited for any of their work. */
void gy_task_check_body(const gantry_task *task);

/* What the proof wants to know of a task. */
struct gy_proof_task gy_task_for_proof(const gantry_task *task);

/* `task` ends, and the edge has not lost its reference yet.  A launch callback waits for no GPU work. */
static inline void gy_edge_prove(const struct gy_proof_ops *proof, const gantry_task *task,
                                 const struct gy_edge *edge)
{
    const gantry_task *successor = gy_edge_successor(edge);
    proof->edge(task, successor, gy_edge_is_done(edge) && !gy_task_is_gpu(successor));
}

/* The proof listens, and all tasks go.  Some may never have begun: their addresses will be others'. */
GY_COLD void gy_taskman_end_for_proof(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* The proof listens: the end of each task that there is will be told to it. */
GY_COLD void gy_taskman_hear_all_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock);

#endif
