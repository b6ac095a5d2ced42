/* Graphs: nodes, edges, and the calls about them. */
#include "emulator/graph.h"

#include "base/alloc.h"
#include "emulator/condition.h"
#include "emulator/context.h"
#include "emulator/event.h"
#include "emulator/memory.h"
#include "emulator/module.h"

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
    gy_free(node->outer);
    node->outer = NULL;
    node->outer_count = 0;
    node->next = free_nodes;
    free_nodes = node;
}

void gy_emu_graph_close(struct gy_emu_graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        close_node(graph->nodes[i]);
    }
    gy_emu_conditions_drop(graph);
    gy_emu_handle_close(&graph->object);
    gy_free(graph->nodes);
    gy_free(graph);
}

/* Nodes keep their room for dependencies while they wait for their next use. */
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
    node->is_inner = node->is_graph = false;
    node->priority = 0;
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

/* ---- child graphs ---------------------------------------------------------------------------- */

static CUresult copy_node(struct gy_emu_graph *graph, const struct gy_emu_node *from, uint32_t first,
                          struct gy_emu_node *const *dependencies, uint32_t count)
{
    struct gy_emu_node **behind = gy_zalloc_array(from->dependency_count + 1, sizeof(struct gy_emu_node *));
    if (behind == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t d = 0; d < from->dependency_count; d++) {
        behind[d] = graph->nodes[first + from->dependencies[d]->index];
    }
    struct gy_emu_work work;
    gy_emu_work_share(&work, &from->work);
    bool is_root = from->dependency_count == 0;
    struct gy_emu_node *copy;
    CUresult result = gy_emu_graph_add(graph, &work, is_root ? dependencies : behind,
                                       is_root ? count : from->dependency_count, &copy);
    if (result == CUDA_SUCCESS) {
        copy->is_inner = true;
        copy->is_graph = from->is_graph;
        copy->priority = from->priority;
        graph->inner++;
    }
    gy_free(behind);
    return result;
}

/* Add the end of a child graph.  It depends on the copies from `first` on that no other copy comes after;
 * without any copies, on what the child comes after. */
static CUresult add_end(struct gy_emu_graph *graph, uint32_t first, struct gy_emu_node *const *dependencies,
                        uint32_t count, struct gy_emu_node **out)
{
    const uint32_t end = graph->count;
    struct gy_emu_node **sinks = gy_zalloc_array(end - first + 1, sizeof(struct gy_emu_node *));
    bool *has_heir = gy_zalloc_array(end - first + 1, sizeof(bool));
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (sinks != NULL && has_heir != NULL) {
        uint32_t found = 0;
        for (uint32_t i = end; i-- > first;) {
            const struct gy_emu_node *node = graph->nodes[i];
            for (uint32_t d = 0; d < node->dependency_count; d++) {
                uint32_t index = node->dependencies[d]->index;
                if (index >= first) {
                    has_heir[index - first] = true;
                }
            }
            if (!has_heir[i - first]) {
                sinks[found++] = graph->nodes[i];
            }
        }
        struct gy_emu_context *context = end > first ? graph->nodes[first]->work.context : NULL;
        if (context == NULL) {
            (void)gy_emu_context_current(&context);
        }
        struct gy_emu_work work = {.kind = GY_EMU_WORK_EMPTY, .context = context};
        result = found > 0 ? gy_emu_graph_add(graph, &work, sinks, found, out)
                           : gy_emu_graph_add(graph, &work, dependencies, count, out);
    }
    gy_free(sinks);
    gy_free(has_heir);
    return result;
}

CUresult gy_emu_graph_add_child(struct gy_emu_graph *graph, const struct gy_emu_graph *child,
                                struct gy_emu_node *const *dependencies, uint32_t count,
                                struct gy_emu_node **out)
{
    const uint32_t first = graph->count;
    struct gy_emu_node **outer = gy_zalloc_array(count + 1, sizeof(struct gy_emu_node *));
    CUresult result = outer != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < child->count && result == CUDA_SUCCESS; i++) {
        result = copy_node(graph, child->nodes[i], first, dependencies, count);
    }
    if (result == CUDA_SUCCESS) {
        result = add_end(graph, first, dependencies, count, out);
    }
    if (result != CUDA_SUCCESS) {
        gy_free(outer);
        return result;
    }
    if (count > 0) {
        memcpy(outer, dependencies, count * sizeof(struct gy_emu_node *));
    }
    (*out)->is_graph = true;
    (*out)->outer = outer;
    (*out)->outer_count = count;
    return CUDA_SUCCESS;
}

CUgraphNodeType gy_emu_node_type(const struct gy_emu_node *node)
{
    return node->is_graph ? CU_GRAPH_NODE_TYPE_GRAPH : gy_emu_work_type(&node->work);
}

CUgraphNodeType gy_emu_work_type(const struct gy_emu_work *work)
{
    switch (work->kind) {
    case GY_EMU_WORK_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case GY_EMU_WORK_COPY:
    case GY_EMU_WORK_COPY_ROWS:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case GY_EMU_WORK_FILL:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case GY_EMU_WORK_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case GY_EMU_WORK_WRITE_VALUE:
    case GY_EMU_WORK_WAIT_VALUE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
        return CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    case GY_EMU_WORK_WAIT_SEMAPHORE:
        return CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    case GY_EMU_WORK_EVENT_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case GY_EMU_WORK_EVENT_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case GY_EMU_WORK_LOOP:
        return CU_GRAPH_NODE_TYPE_CONDITIONAL;
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
    if (graph == NULL || count == NULL) {
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
    if (graph == NULL || count == NULL || (from == NULL) != (to == NULL)) {
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

CUresult gy_emu_node_params_import(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct gy_emu_context *context,
                                   const struct gy_emu_attributes *attributes, struct gy_emu_work *work)
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
    struct gy_emu_launch launch = {.function = params->func,
                                   .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
                                   .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
                                   .shared_bytes = params->sharedMemBytes,
                                   .params = params->kernelParams};
    if (attributes != NULL) {
        launch.attributes = *attributes;
    }
    return gy_emu_kernel_prepare(context, &launch, work);
}

struct gy_emu_node **gy_emu_graph_find_nodes(const struct gy_emu_graph *graph, const CUgraphNode *handles,
                                             size_t count, CUresult *result)
{
    if ((count > 0 && handles == NULL) || count >= UINT32_MAX) {
        *result = CUDA_ERROR_INVALID_VALUE;
        return NULL;
    }
    struct gy_emu_node **nodes = gy_zalloc_array(count + 1, sizeof(struct gy_emu_node *));
    *result = nodes != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && *result == CUDA_SUCCESS; i++) {
        nodes[i] = gy_emu_handle_find(GY_EMU_NODE, handles[i]);
        if (nodes[i] == NULL || nodes[i]->graph != graph) {
            *result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (*result != CUDA_SUCCESS) {
        gy_free(nodes);
        return NULL;
    }
    return nodes;
}

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
    CUresult result =
        gy_emu_node_params_import(params, node->work.context, &node->work.kernel.attributes, &work);
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
