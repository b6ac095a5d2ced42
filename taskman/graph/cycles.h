/* The search for cycles. */
#ifndef TASKMAN_GRAPH_CYCLES_H
#define TASKMAN_GRAPH_CYCLES_H

#include "taskman/graph/graph.h"

/* Look for a cycle among tasks of which none was dispatched yet.  O(tasks + edges), no allocation.
 * NULL: none; else a task on a cycle, from which gpu.next leads around it against the edges. */
gantry_task *gy_graph_find_cycle(struct gy_graph *graph);

/* The same among the `count` > 0 tasks of the view whose `scratch` is not 0, when each of them has
 * a predecessor of that sort: then there is one. */
gantry_task *gy_graph_walk_to_cycle(const struct gy_graph_view *view, size_t count);

/* "'a' -> 'b' -> 'a'" for what gy_graph_find_cycle() returned, shortened to fit. */
void gy_graph_name_cycle(const gantry_task *on_cycle, char *text, size_t bytes);

/* Clear what the search left in the tasks. */
void gy_graph_end_search(struct gy_graph *graph);

/* The same three in one: `call`, which needs a graph without cycles, begins the message.
 * @retval GANTRY_ERR_CYCLE */
gantry_status gy_graph_check_cycles(struct gy_graph *graph, const char *call);

#endif
