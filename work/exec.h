/* SPDX-License-Identifier: MIT */
/* Executable graphs: they are made, updated and destroyed here, and nowhere else. */
#ifndef WORK_EXEC_H
#define WORK_EXEC_H

#include "work/nodes.h"

/* What an executable graph is beside its nodes. */
struct gy_exec_shape {
    uint32_t places;  /* that its branches take, at most (places.h) */
    uint64_t options; /* a hash of what its launches ask for (extra.h); 0: nothing */
};

#define GY_EXEC_CHILD_PLACES 4u /* of a graph whose branches are not known */

struct gy_exec {
    CUgraphExec native; /* NULL: there is none */
    CUgraph graph;      /* that it is made of, and its own; NULL: that is not kept */
    struct gy_exec_shape shape;
};

/* The shape of the graph that gy_nodes_make() makes of them. */
struct gy_exec_shape gy_exec_shape_of(const struct gy_nodes *nodes);

/* Whose priority the nodes have: their own, or that of the stream on which they are launched. */
enum gy_exec_priorities { GY_EXEC_OF_NODES, GY_EXEC_OF_STREAM };

/* Are fewer places left than a graph of the nodes takes?  *places: so many. */
bool gy_exec_lacks_places(const struct gy_nodes *nodes, uint32_t *places);

/* Make the executable form of its graph, of which it has the shape.  The context is current.
 * @retval GANTRY_ERR_DRIVER  nothing was made */
GANTRY_MUST_CHECK gantry_status gy_exec_make(struct gy_context *context, struct gy_exec *exec,
                                             enum gy_exec_priorities priorities);
/* Make it an executable form of another graph.  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: it does not fit, and
 * nothing has changed. */
GANTRY_MUST_CHECK CUresult gy_exec_update(struct gy_context *context, struct gy_exec *exec, CUgraph graph,
                                          struct gy_exec_shape shape);
/* Destroy it and its graph (spent.h); the driver keeps it while it runs.  They become NULL, which is ignored.
 * The context is current. */
void gy_exec_drop(struct gy_context *context, struct gy_exec *exec);

#endif
