/* The graph as Graphviz text. */
#ifndef TASKMAN_GRAPH_DUMP_H
#define TASKMAN_GRAPH_DUMP_H

#include "taskman/graph/graph.h"

#include <stdio.h>

/* @retval GANTRY_ERR_IO */
gantry_status gy_graph_dump(const struct gy_graph_view *view, FILE *file);

#endif
