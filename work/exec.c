/* SPDX-License-Identifier: MIT */
#include "work/exec.h"

#include "driver/places.h"
#include "driver/spent.h"

/* ---- the shape --------------------------------------------------------------------------------- */

/* Measured on an H200: a lattice of 8 rows of 8 nodes takes 19.5 places, of which 8 are its rows'; a chain of
 * 500 nodes takes 5.2. */
#define CROSSINGS_PER_PLACE 4u
#define NODES_PER_PLACE 64u
#define MOST_NODES 4096u /* of more nodes the branches are not looked for */

static inline bool has_bit(const uint64_t *bits, uint32_t i)
{
    return (bits[i / 64] >> i % 64 & 1u) != 0;
}

/* A node goes on with the branch of the first node before it with whose nobody has gone on. */
static uint32_t count_branches(const struct gy_nodes *n, uint32_t *edges)
{
    uint64_t has_next[MOST_NODES / 64] = {0};
    uint32_t branches = 0;
    *edges = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *node = &n->list[i];
        bool is_new = true;
        *edges += node->before.count;
        for (uint32_t b = 0; b < node->before.count && is_new; b++) {
            const uint32_t before = n->before[node->before.first + b];
            is_new = has_bit(has_next, before);
            has_next[before / 64] |= UINT64_C(1) << before % 64;
        }
        branches += is_new;
    }
    return branches;
}

static uint64_t hash_options(const struct gy_nodes *n)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < n->count && n->extra_count != 0; i++) {
        const struct gy_node *node = &n->list[i];
        if (node->kind == GY_NODE_KERNEL && node->kernel.extra != 0) {
            hash = gy_node_hash_extra(hash + i + 1, n, node);
        }
    }
    return hash;
}

struct gy_exec_shape gy_exec_shape_of(const struct gy_nodes *n)
{
    struct gy_exec_shape shape = {n->count, hash_options(n)};
    if (n->count <= MOST_NODES) {
        uint32_t edges;
        const uint32_t branches = count_branches(n, &edges);
        const uint32_t along = n->count - branches;
        shape.places = branches + (edges - along) / CROSSINGS_PER_PLACE + n->count / NODES_PER_PLACE +
                       n->graphs * GY_EXEC_CHILD_PLACES;
    }
    return shape;
}

bool gy_exec_lacks_places(const struct gy_nodes *n, uint32_t *places)
{
    *places = gy_exec_shape_of(n).places;
    return gy_places_left(n->context->places) < *places;
}

/* ---- the driver's calls ---------------------------------------------------------------------- */

gantry_status gy_exec_make(struct gy_context *context, struct gy_exec *exec,
                           enum gy_exec_priorities priorities)
{
    CUgraphExec native;
    const unsigned long long flags =
        priorities == GY_EXEC_OF_NODES ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
    const gantry_status status = GY_CALL(context, cuGraphInstantiateWithFlags(&native, exec->graph, flags));
    if (status == GANTRY_OK) {
        gy_places_take(context->places, exec->shape.places);
        exec->native = native;
    }
    return status;
}

/* The driver says that an update has worked, and leaves clusters as they were (seen on driver 580). */
CUresult gy_exec_update(struct gy_context *context, struct gy_exec *exec, CUgraph graph,
                        struct gy_exec_shape shape)
{
    CUgraphExecUpdateResultInfo info;
    return exec->shape.options != shape.options
               ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
               : context->driver->cuGraphExecUpdate(exec->native, graph, &info);
}

void gy_exec_drop(struct gy_context *context, struct gy_exec *exec)
{
    if (exec->native != NULL) {
        gy_graph_exec_destroy(context, exec->native);
        gy_places_give(context->places, exec->shape.places);
    }
    gy_graph_destroy(context, exec->graph);
    *exec = (struct gy_exec){.native = NULL};
}
