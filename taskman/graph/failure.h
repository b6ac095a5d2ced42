/* SPDX-License-Identifier: MIT */
/* Texts about a failed step, which name its tasks. */
#ifndef TASKMAN_GRAPH_FAILURE_H
#define TASKMAN_GRAPH_FAILURE_H

#include "base/status.h"
#include "taskman/graph/graph.h"

/* The failure of a step whose task has failed with `result`, for which the calling thread's last error, if it
 * has one, is the cause.  Returns whether it has. */
bool gy_task_describe_failure(const gantry_task *task, gantry_status result, struct gy_error *out);

/* The error that names the tasks of the view that are only names. */
gantry_status gy_graph_fail_unfilled(const char *call, uint64_t unfilled, const struct gy_graph_view *view);

#endif
