/* Graphs: nodes, edges, and the calls about them. */
#include "driver/emulator/graph.h"

#include "base/alloc.h"
#include "driver/emulator/context.h"
#include "driver/emulator/module.h"

#include <string.h>

#define FIRST_ROOM 16u

static struct gy_emu_node *free_nodes;

CUresult gy_emu_graph_open(struct gy_emu_graph **out)
{
    struct gy_emu_graph *graph = gy_zalloc(sizeof(*graph));
    if (graph == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = gy_emu_handle_open(GY_EMU_GRAPH, &graph->object);
    if (result != CUDA_SUCCESS) {
        gy_free(graph);
        return result;
    }
    *out = graph;
    return CUDA_SUCCESS;
}

static void close_node(struct gy_emu_node *node)
{
    gy_emu_handle_close(&node->object);
    gy_emu_work_release(&node->work);
    node->next = free_nodes;
    free_nodes = node;
}

void gy_emu_graph_close(struct gy_emu_graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        close_node(graph->nodes[i]);
    }
    gy_emu_handle_close(&graph->object);
    gy_free(graph->nodes);
    gy_free(graph);
}

/* Nodes keep their room for dependencies while they wait to be used again. */
static struct gy_emu_node *take_node(void)
{
    struct gy_emu_node *node = free_nodes;
    if (node != NULL) {
        free_nodes = node->next;
        return node;
    }
    node = gy_zalloc(sizeof(*node));
    if (node != NULL) {
        node->dependencies = node->inline_dependencies;
        node->dependency_room = GY_EMU_INLINE_DEPENDENCIES;
    }
    return node;
}

static void put_node(struct gy_emu_node *node)
{
    node->next = free_nodes;
    free_nodes = node;
}

static bool grow_nodes(struct gy_emu_graph *graph)
{
    if (graph->count < graph->room) {
        return true;
    }
    uint32_t room = graph->room > 0 ? graph->room * 2 : FIRST_ROOM;
    struct gy_emu_node **nodes = gy_zalloc_array(room, sizeof(struct gy_emu_node *));
    if (nodes == NULL) {
        return false;
    }
    if (graph->count > 0) {
        memcpy(nodes, graph->nodes, graph->count * sizeof(struct gy_emu_node *));
    }
    gy_free(graph->nodes);
    graph->nodes = nodes;
    graph->room = room;
    return true;
}

static bool set_dependencies(struct gy_emu_node *node, struct gy_emu_node *const *dependencies,
                             uint32_t count)
{
    if (count > node->dependency_room) {
        struct gy_emu_node **fresh = gy_zalloc_array(count, sizeof(struct gy_emu_node *));
        if (fresh == NULL) {
            return false;
        }
        if (node->dependencies != node->inline_dependencies) {
            gy_free(node->dependencies);
        }
        node->dependencies = fresh;
        node->dependency_room = count;
    }
    node->dependency_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!dependencies[i]->mark) {
            dependencies[i]->mark = true;
            node->dependencies[node->dependency_count++] = dependencies[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        dependencies[i]->mark = false;
    }
    return true;
}

CUresult gy_emu_graph_add(struct gy_emu_graph *graph, struct gy_emu_work *work,
                          struct gy_emu_node *const *dependencies, uint32_t count, struct gy_emu_node **out)
{
    struct gy_emu_node *node = grow_nodes(graph) ? take_node() : NULL;
    if (node == NULL) {
        goto release_work;
    }
    if (!set_dependencies(node, dependencies, count) ||
        gy_emu_handle_open(GY_EMU_NODE, &node->object) != CUDA_SUCCESS) {
        goto put_node;
    }
    node->graph = graph;
    node->work = *work;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    *out = node;
    return CUDA_SUCCESS;
put_node:
    put_node(node);
release_work:
    gy_emu_work_release(work);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUgraphNodeType gy_emu_node_type(const struct gy_emu_work *work)
{
    switch (work->kind) {
    case GY_EMU_WORK_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case GY_EMU_WORK_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case GY_EMU_WORK_FILL:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case GY_EMU_WORK_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case GY_EMU_WORK_WRITE_VALUE:
    case GY_EMU_WORK_WAIT_VALUE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case GY_EMU_WORK_EVENT_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case GY_EMU_WORK_EVENT_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    default:
        return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

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
    if (graph == NULL || graph->capturing) {
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
    if (graph == NULL || count == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; nodes != NULL && i < *count; i++) {
        nodes[i] = i < graph->count ? (CUgraphNode)graph->nodes[i]->object.handle : NULL;
    }
    if (nodes == NULL || *count > graph->count) {
        *count = graph->count;
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
    if (graph == NULL || count == NULL || (from == NULL) != (to == NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t edges = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct gy_emu_node *node = graph->nodes[i];
        for (uint32_t d = 0; d < node->dependency_count; d++, edges++) {
            if (from != NULL && edges < *count) {
                from[edges] = (CUgraphNode)node->dependencies[d]->object.handle;
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
    *type = gy_emu_node_type(&node->work);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    return GY_EMU_CALL(cuGraphNodeGetType, get_type(node, type));
}

/* ---- kernel nodes ---------------------------------------------------------------------------- */

CUresult gy_emu_node_params_import(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct gy_emu_context *context,
                                   struct gy_emu_work *work)
{
    if (params == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (params->extra != NULL || params->func == NULL) {
        return params->func == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    }
    CUresult result = context == NULL ? gy_emu_context_current(&context) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const struct gy_emu_launch launch = {params->func,
                                         {params->gridDimX, params->gridDimY, params->gridDimZ},
                                         {params->blockDimX, params->blockDimY, params->blockDimZ},
                                         params->sharedMemBytes,
                                         params->kernelParams};
    return gy_emu_kernel_prepare(context, &launch, work);
}

static CUresult add_kernel(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || out == NULL || (count > 0 && dependencies == NULL) || count > UINT32_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_node **nodes = gy_zalloc_array(count + 1, sizeof(struct gy_emu_node *));
    if (nodes == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        nodes[i] = gy_emu_handle_find(GY_EMU_NODE, dependencies[i]);
        if (nodes[i] == NULL || nodes[i]->graph != graph) {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    struct gy_emu_work work;
    struct gy_emu_node *node;
    if (result == CUDA_SUCCESS) {
        result = gy_emu_node_params_import(params, NULL, &work);
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
    CUresult result = gy_emu_node_params_import(params, node->work.context, &work);
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
