/* SPDX-License-Identifier: MIT */
/* The graph as Graphviz text. */
#ifndef TASKMAN_GRAPH_DUMP_H
#define TASKMAN_GRAPH_DUMP_H

#include "taskman/graph/graph.h"

#include <stdio.h>

/* An edge that comes from data: between these tasks, by their indices, because of this memory. */
struct gy_data_edge {
    uint32_t from, to;
    uintptr_t at;
    size_t bytes, rows;
};

/* `edges`: `count` of them, which are sorted here.
 * @retval GANTRY_ERR_IO */
gantry_status gy_graph_dump(const struct gy_graph_view *view, struct gy_data_edge *edges, size_t count,
                            FILE *file);

#endif
