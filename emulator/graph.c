/* SPDX-License-Identifier: MIT */
/* Graphs: their nodes, and what these come after. */
#include "emulator/graph.h"

#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/module.h"

#include <string.h>

#define FIRST_ROOM 16u

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
    struct gy_emu_node *node = grow_nodes(graph) ? gy_emu_node_take() : NULL;
    if (node == NULL) {
        goto release_work;
    }
    if (!set_dependencies(node, dependencies, count) ||
        gy_emu_handle_open(GY_EMU_NODE, &node->object) != CUDA_SUCCESS) {
        goto put_node;
    }
    node->graph = graph;
    node->work = *work;
    node->is_inner = node->is_graph = node->is_captured = false;
    node->priority = 0;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    *out = node;
    return CUDA_SUCCESS;
put_node:
    gy_emu_node_put(node);
release_work:
    gy_emu_work_release(work);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

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

CUresult gy_emu_node_params_import(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct gy_emu_context *context,
                                   const struct gy_emu_attributes *attributes, struct gy_emu_work *work)
{
    if (params == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (params->extra != NULL || params->func == NULL) {
        return params->func == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    }
    const struct gy_emu_function *function = gy_emu_handle_find(GY_EMU_FUNCTION, params->func);
    const bool is_new = context == NULL;
    CUresult result = context == NULL ? gy_emu_context_current(&context) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS || function == NULL) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    }
    if (is_new && function->object.context != context->root) {
        context = function->object.context; /* a new node's kernel may be of another context */
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

#define MOST_COMPARED 64u /* dependencies: a longer list is not looked through */

struct gy_emu_node **gy_emu_graph_find_nodes(const struct gy_emu_graph *graph, const CUgraphNode *handles,
                                             size_t count, CUresult *result)
{
    if ((count > 0 && handles == NULL) || count >= UINT32_MAX) {
        *result = CUDA_ERROR_INVALID_VALUE;
        return NULL;
    }
    for (size_t i = 1; i < count && i < MOST_COMPARED; i++) {
        for (size_t k = 0; k < i; k++) {
            if (handles[i] == handles[k]) { /* none is named twice */
                *result = CUDA_ERROR_INVALID_VALUE;
                return NULL;
            }
        }
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
