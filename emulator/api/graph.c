/* SPDX-License-Identifier: MIT */
/* The calls that make graphs, and ask about them. */
#include "emulator/graph.h"
#include "emulator/module.h"

#include "base/alloc.h"
#include "emulator/event.h"

/* ---- calls ----------------------------------------------------------------------------------- */

static CUresult create(CUgraph *out, unsigned int flags)
{
    if (out == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_graph *graph;
    CUresult result = gy_emu_graph_open(&graph);
    if (result == CUDA_SUCCESS) {
        *out = (CUgraph)graph->object.handle;
    }
    return result;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    return GY_EMU_CALL(cuGraphCreate, create(graph, flags));
}

static CUresult destroy(CUgraph handle)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || graph->capturing || graph->is_body) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    gy_emu_graph_close(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    return GY_EMU_CALL(cuGraphDestroy, destroy(graph));
}

/* NULL `nodes` asks for the count; surplus room is filled with NULL. */
static CUresult get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    const struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || count == NULL || (nodes != NULL && *count == 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t told = 0;
    for (uint32_t i = 0; nodes != NULL && i < graph->count && told < *count; i++) {
        if (!graph->nodes[i]->is_inner) {
            nodes[told++] = (CUgraphNode)graph->nodes[i]->object.handle;
        }
    }
    for (size_t i = told; nodes != NULL && i < *count; i++) {
        nodes[i] = NULL;
    }
    const uint32_t all = graph->count - graph->inner;
    if (nodes == NULL || *count > all) {
        *count = all;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return GY_EMU_CALL(cuGraphGetNodes, get_nodes(graph, nodes, count));
}

static CUresult get_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    const struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || count == NULL || (from == NULL) != (to == NULL) || (from != NULL && *count == 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t edges = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct gy_emu_node *node = graph->nodes[i];
        struct gy_emu_node *const *behind = node->is_graph ? node->outer : node->dependencies;
        const uint32_t seen = node->is_inner   ? 0
                              : node->is_graph ? node->outer_count
                                               : node->dependency_count;
        for (uint32_t d = 0; d < seen; d++, edges++) {
            if (from != NULL && edges < *count) {
                from[edges] = (CUgraphNode)behind[d]->object.handle;
                to[edges] = (CUgraphNode)node->object.handle;
            }
        }
    }
    for (size_t i = edges; from != NULL && i < *count; i++) {
        from[i] = to[i] = NULL;
    }
    if (from == NULL || *count > edges) {
        *count = edges;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return GY_EMU_CALL(cuGraphGetEdges, get_edges(graph, from, to, count));
}

static CUresult get_type(CUgraphNode handle, CUgraphNodeType *type)
{
    const struct gy_emu_node *node = gy_emu_handle_find(GY_EMU_NODE, handle);
    if (node == NULL || type == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *type = gy_emu_node_type(node);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    return GY_EMU_CALL(cuGraphNodeGetType, get_type(node, type));
}

/* ---- kernel nodes ---------------------------------------------------------------------------- */

static CUresult add_kernel(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || graph->is_broken || out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result;
    struct gy_emu_node **nodes = gy_emu_graph_find_nodes(graph, dependencies, count, &result);
    struct gy_emu_work work;
    struct gy_emu_node *node;
    if (result == CUDA_SUCCESS) {
        result = gy_emu_node_params_import(params, NULL, NULL, &work);
    }
    if (result == CUDA_SUCCESS) {
        result = gy_emu_graph_add(graph, &work, nodes, (uint32_t)count, &node);
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUgraphNode)node->object.handle;
    }
    gy_free(nodes);
    return result;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return GY_EMU_CALL(cuGraphAddKernelNode, add_kernel(node, graph, dependencies, count, params));
}

/* A node that records the event, or waits for it. */
static CUresult add_event(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                          CUevent event_handle, enum gy_emu_work_kind kind)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    const struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, event_handle);
    if (graph == NULL || graph->is_broken || event == NULL || out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result;
    struct gy_emu_node **nodes = gy_emu_graph_find_nodes(graph, dependencies, count, &result);
    struct gy_emu_node *node;
    if (result == CUDA_SUCCESS) {
        struct gy_emu_work work = {.kind = kind, .context = event->object.context};
        work.event = event_handle;
        result = gy_emu_graph_add(graph, &work, nodes, (uint32_t)count, &node);
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUgraphNode)node->object.handle;
    }
    gy_free(nodes);
    return result;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, CUevent event)
{
    return GY_EMU_CALL(cuGraphAddEventRecordNode,
                       add_event(node, graph, dependencies, count, event, GY_EMU_WORK_EVENT_RECORD));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                 size_t count, CUevent event)
{
    return GY_EMU_CALL(cuGraphAddEventWaitNode,
                       add_event(node, graph, dependencies, count, event, GY_EMU_WORK_EVENT_WAIT));
}

static CUresult add_child(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                          CUgraph child_handle)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    const struct gy_emu_graph *child = gy_emu_handle_find(GY_EMU_GRAPH, child_handle);
    if (graph == NULL || graph->is_broken || child == NULL || child == graph || child->capturing ||
        out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (child->conditions != NULL) {
        return CUDA_ERROR_NOT_SUPPORTED; /* such a graph cannot be cloned */
    }
    CUresult result;
    struct gy_emu_node **nodes = gy_emu_graph_find_nodes(graph, dependencies, count, &result);
    struct gy_emu_node *node;
    if (result == CUDA_SUCCESS) {
        result = gy_emu_graph_add_child(graph, child, nodes, (uint32_t)count, &node);
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUgraphNode)node->object.handle;
    }
    gy_free(nodes);
    return result;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                  size_t count, CUgraph child)
{
    return GY_EMU_CALL(cuGraphAddChildGraphNode, add_child(node, graph, dependencies, count, child));
}

/* ---- the parameters of kernel nodes ---------------------------------------------------------- */

static struct gy_emu_node *find_kernel_node(CUgraphNode handle)
{
    struct gy_emu_node *node = gy_emu_handle_find(GY_EMU_NODE, handle);
    return node != NULL && node->work.kind == GY_EMU_WORK_KERNEL ? node : NULL;
}

/* The parameter array belongs to the node. */
static CUresult get_params(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    const struct gy_emu_node *node = find_kernel_node(handle);
    if (node == NULL || params == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const uint32_t *grid = node->work.kernel.grid, *block = node->work.kernel.block;
    *params = (CUDA_KERNEL_NODE_PARAMS_v2){.func = node->work.kernel.function,
                                           .gridDimX = grid[0],
                                           .gridDimY = grid[1],
                                           .gridDimZ = grid[2],
                                           .blockDimX = block[0],
                                           .blockDimY = block[1],
                                           .blockDimZ = block[2],
                                           .sharedMemBytes = node->work.kernel.dynamic_shared_bytes,
                                           .kernelParams = node->work.kernel.args->pointers};
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return GY_EMU_CALL(cuGraphKernelNodeGetParams, get_params(node, params));
}

static CUresult set_params(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct gy_emu_node *node = find_kernel_node(handle);
    if (node == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_work work;
    const struct gy_emu_function *function =
        params != NULL ? gy_emu_handle_find(GY_EMU_FUNCTION, params->func) : NULL;
    const bool is_of_other = function != NULL && function->object.context != node->work.context->root;
    struct gy_emu_context *context = is_of_other ? function->object.context : node->work.context;
    CUresult result = gy_emu_node_params_import(params, context, &node->work.kernel.attributes, &work);
    if (result == CUDA_SUCCESS) {
        gy_emu_work_release(&node->work);
        node->work = work;
    }
    return result;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return GY_EMU_CALL(cuGraphKernelNodeSetParams, set_params(node, params));
}
