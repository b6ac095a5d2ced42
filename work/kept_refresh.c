/* SPDX-License-Identifier: MIT */
/* Executable graphs that are updated as a whole: of nodes that cannot be patched, or of which all like them
 * are in flight. */
#include "driver/spent.h"
#include "work/kept_find.h"

/* Find the one of this signature, else the place of the one to give up. */
static struct gy_refreshed *find(struct gy_kept_set *set, uint64_t signature)
{
    struct gy_refreshed *oldest = &set->refreshed[0];
    for (int i = 0; i < GY_REFRESHED_MOST; i++) {
        struct gy_refreshed *one = &set->refreshed[i];
        if (one->exec.native != NULL && one->signature == signature) {
            return one;
        }
        if (one->exec.native == NULL || (oldest->exec.native != NULL && one->used < oldest->used)) {
            oldest = one;
        }
    }
    gy_exec_drop(set->context, &oldest->exec);
    oldest->signature = signature;
    return oldest;
}

/* The graph is the caller's. */
static gantry_status update(struct gy_kept_set *set, const struct gy_nodes *nodes, CUgraph graph,
                            struct gy_exec *exec)
{
    struct gy_exec fresh = {.graph = graph, .shape = gy_exec_shape_of(nodes)};
    if (exec->native != NULL) {
        const CUresult result = gy_exec_update(set->context, exec, graph, fresh.shape);
        if (result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
            return gy_context_check(set->context, result, "cuGraphExecUpdate", __FILE__, __LINE__);
        }
    }
    const gantry_status status = gy_exec_make(set->context, &fresh, GY_EXEC_OF_NODES);
    if (status == GANTRY_OK) {
        gy_exec_drop(set->context, exec);
        *exec = fresh;
        exec->graph = NULL;
        set->strange += nodes->count;
        gy_kept_note_made(set);
    }
    return status;
}

gantry_status gy_kept_refresh(struct gy_kept_set *set, struct gy_nodes *nodes, uint32_t count, uint64_t seed,
                              struct gy_exec **exec)
{
    const uint32_t whole = nodes->count;
    CUgraph graph;
    nodes->count = count;
    gy_slot_args_settle(nodes, count);
    gantry_status status = gy_nodes_make(nodes, &graph);
    if (status == GANTRY_OK && *exec == NULL) {
        struct gy_refreshed *one = find(set, gy_nodes_hash(nodes, seed));
        one->used = ++set->launches;
        *exec = &one->exec;
    }
    if (status == GANTRY_OK) {
        status = update(set, nodes, graph, *exec);
        gy_graph_spend(set->context, graph);
    }
    nodes->count = whole;
    return status;
}

void gy_kept_drop_refreshed(struct gy_kept_set *set)
{
    for (int i = 0; i < GY_REFRESHED_MOST; i++) {
        gy_exec_drop(set->context, &set->refreshed[i].exec);
    }
}
