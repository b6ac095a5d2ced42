/* Noted work that is enqueued on its stream, call by call, in place of being made a graph. */
#include "driver/nodes.h"

/* The driver keeps the executable graph until it has run. */
static gantry_status make_and_launch(struct gy_context *context, CUgraph graph, CUstream stream)
{
    CUgraphExec exec;
    gantry_status status = GY_CALL(
        context, cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(context, cuGraphLaunch(exec, stream));
    const gantry_status destroyed = GY_CALL(context, cuGraphExecDestroy(exec));
    return status == GANTRY_OK ? destroyed : status;
}

/* A batch's guard may be open: while a thread captures, only relaxed mode permits to make an executable
 * graph. */
static gantry_status launch_child(struct gy_context *context, CUgraph graph, CUstream stream)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(context);
    if (relaxed.status != GANTRY_OK) {
        return relaxed.status;
    }
    const gantry_status status = make_and_launch(context, graph, stream);
    const gantry_status back = gy_relaxed_end(context, &relaxed);
    return status == GANTRY_OK ? back : status;
}

gantry_status gy_nodes_play(struct gy_nodes *n, CUstream stream)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < n->count && status == GANTRY_OK; i++) {
        struct gy_node *node = &n->list[i];
        if (node->kind == GY_NODE_GRAPH) {
            status = launch_child(n->context, node->graph, stream);
        } else if (node->kind == GY_NODE_EVENT) {
            status = GY_CALL(n->context, cuEventRecord(gy_node_event_of(&n->events[node->event]), stream));
        } else {
            status = gy_node_enqueue(n, node);
        }
    }
    gy_nodes_give_events(n, n->count);
    return status;
}
