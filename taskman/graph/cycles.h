/* SPDX-License-Identifier: MIT */
/* The search for cycles. */
#ifndef TASKMAN_GRAPH_CYCLES_H
#define TASKMAN_GRAPH_CYCLES_H

#include "taskman/graph/graph.h"

/* Returns a task on a cycle among the `count` > 0 tasks of the view whose `scratch` is not 0; `next` leads
 * from it around the cycle against the edges.  Each of these tasks has a predecessor among them, so there is
 * a cycle. */
gantry_task *gy_graph_walk_to_cycle(const struct gy_graph_view *view, size_t count);

/* "'a' -> 'b' -> 'a'" for what gy_graph_walk_to_cycle() returned, shortened to fit. */
void gy_graph_name_cycle(const gantry_task *on_cycle, char *text, size_t bytes);

/* There is no cycle among tasks of which none was dispatched yet.  O(tasks + edges), no allocation.  `call`,
 * which needs a graph without cycles, begins the message.
 * @retval GANTRY_ERR_CYCLE */
gantry_status gy_graph_check_cycles(struct gy_graph *graph, const char *call);

#endif
