/* SPDX-License-Identifier: MIT */
/* Graphs with conditions: tasks that pick which of their dependents run, and thereby loops. */
#ifndef TASKMAN_CONDITIONS_H
#define TASKMAN_CONDITIONS_H

#include "taskman/graph/graph.h"
#include "taskman/graph/ready.h"

/* The result of a task's run that has ended, for its successors. */
struct gy_round_end {
    uint64_t chosen;   /* a bit per dependent of a condition */
    uint64_t wait_set; /* that the task had */
};

/* A round of the task ends: it gets its final state, and is as it was before the round.  Its release callback
 * comes next, then gy_round_notify(). */
struct gy_round_end gy_round_end(gantry_task *task, gantry_status result);

/* Tell the dependents that are meant.  Returns how many became ready. */
size_t gy_round_notify(gantry_task *task, gantry_status result, const struct gy_round_end *end,
                       struct gy_ready *ready);

/* The last reference of a task of such a graph was given back.  False: it is queued or running, and the run
 * has failed. */
bool gy_round_ready(gantry_task *task, struct gy_ready *ready);

#endif
