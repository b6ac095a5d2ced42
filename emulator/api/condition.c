/* SPDX-License-Identifier: MIT */
/* The calls about conditional nodes. */
#include "emulator/condition.h"

#include "base/alloc.h"
#include "emulator/context.h"

/* ---- handles --------------------------------------------------------------------------------- */

static CUresult create(CUgraphConditionalHandle *out, CUgraph handle, CUcontext context_handle,
                       unsigned int value, unsigned int flags)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (out == NULL || graph == NULL || (flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_look(context_handle, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_condition *condition = gy_zalloc(sizeof(*condition));
    if (condition == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = gy_emu_handle_open(GY_EMU_CONDITION, &condition->object);
    if (result != CUDA_SUCCESS) {
        gy_free(condition);
        return result;
    }
    condition->refs = 1;
    condition->initial = value;
    condition->has_initial = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
    condition->next = graph->conditions;
    graph->conditions = condition;
    *out = (CUgraphConditionalHandle)condition->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                        unsigned int value, unsigned int flags)
{
    return GY_EMU_CALL(cuGraphConditionalHandleCreate, create(handle, graph, context, value, flags));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Find the condition, if it was made for this graph and no node has it yet. */
static struct gy_emu_condition *find_free(const struct gy_emu_graph *graph, CUgraphConditionalHandle handle)
{
    struct gy_emu_condition *condition = graph->conditions;
    while (condition != NULL && condition->object.handle != (uintptr_t)handle) {
        condition = condition->next;
    }
    return condition != NULL && condition->body == NULL ? condition : NULL;
}

static CUresult add_loop(CUgraphNode *out, struct gy_emu_graph *graph, const CUgraphNode *dependencies,
                         size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    struct gy_emu_condition *condition = find_free(graph, params->handle);
    struct gy_emu_context *context;
    if (condition == NULL || params->size != 1 || graph->is_body) {
        return graph->is_body ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_context_find(params->ctx, &context);
    struct gy_emu_node **nodes =
        result == CUDA_SUCCESS ? gy_emu_graph_find_nodes(graph, dependencies, count, &result) : NULL;
    struct gy_emu_node *node = NULL;
    if (result == CUDA_SUCCESS) {
        result = gy_emu_graph_open(&condition->body);
    }
    if (result == CUDA_SUCCESS) {
        condition->body->is_body = true;
        struct gy_emu_work work = {.kind = GY_EMU_WORK_LOOP, .context = context};
        work.condition = condition;
        condition->refs++;
        result = gy_emu_graph_add(graph, &work, nodes, (uint32_t)count, &node);
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUgraphNode)node->object.handle;
        condition->body_handle = (CUgraph)condition->body->object.handle;
        params->phGraph_out = &condition->body_handle;
    }
    gy_free(nodes);
    return result;
}

/* Of the types of nodes that this call can add, only conditional ones have no call of their own. */
static CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                    CUgraphNodeParams *params)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || graph->is_broken || out == NULL || params == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
                   params->conditional.type == CU_GRAPH_COND_TYPE_WHILE
               ? add_loop(out, graph, dependencies, count, &params->conditional)
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependency_data, size_t count, CUgraphNodeParams *params)
{
    (void)dependency_data; /* this is for edges with ports, which do not exist here */
    return GY_EMU_CALL(cuGraphAddNode, add(node, graph, dependencies, count, params));
}
