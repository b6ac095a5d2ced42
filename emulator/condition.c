/* Conditional nodes: the calls about them. */
#include "emulator/condition.h"

#include "base/alloc.h"
#include "emulator/context.h"

void gy_emu_condition_unref(struct gy_emu_condition *condition)
{
    if (--condition->refs > 0) {
        return;
    }
    if (condition->body != NULL) {
        gy_emu_graph_close(condition->body);
    }
    gy_emu_handle_close(&condition->object);
    gy_free(condition);
}

void gy_emu_conditions_drop(struct gy_emu_graph *graph)
{
    while (graph->conditions != NULL) {
        struct gy_emu_condition *condition = graph->conditions;
        graph->conditions = condition->next;
        gy_emu_condition_unref(condition);
    }
}

bool gy_emu_condition_set(uint64_t handle, uint32_t value)
{
    gy_mutex_lock(&gy_emu_lock);
    struct gy_emu_condition *condition =
        gy_emu_handle_find(GY_EMU_CONDITION, (const void *)(uintptr_t)handle);
    if (condition != NULL) {
        atomic_store_explicit(&condition->value, value, memory_order_release);
    }
    gy_mutex_unlock(&gy_emu_lock);
    return condition != NULL;
}

/* ---- handles --------------------------------------------------------------------------------- */

static CUresult create(CUgraphConditionalHandle *out, CUgraph handle, CUcontext context_handle,
                       unsigned int value, unsigned int flags)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (out == NULL || graph == NULL || (flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_find(context_handle, &context);
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
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependency_data, size_t count, CUgraphNodeParams *params)
{
    (void)dependency_data; /* this is for edges with ports, which do not exist here */
    return GY_EMU_CALL(cuGraphAddNode, add(node, graph, dependencies, count, params));
}

/* ---- executable graphs ------------------------------------------------------------------------ */

/* As on an H200: an event record node in a body is accepted, and refused when it is instantiated. */
static bool may_repeat(const struct gy_emu_graph *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        switch (body->nodes[i]->work.kind) {
        case GY_EMU_WORK_EMPTY:
        case GY_EMU_WORK_KERNEL:
        case GY_EMU_WORK_COPY:
        case GY_EMU_WORK_FILL:
            break;
        default:
            return false;
        }
    }
    return true;
}

CUresult gy_emu_conditions_allow(const struct gy_emu_graph *graph)
{
    CUresult result = graph->is_body ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (const struct gy_emu_condition *c = graph->conditions; c != NULL && result == CUDA_SUCCESS;
         c = c->next) {
        if (c->is_used) {
            result = CUDA_ERROR_NOT_SUPPORTED; /* as on an H200 */
        } else if (c->body != NULL && (c->body->capturing || c->body->is_broken || !may_repeat(c->body))) {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return result;
}

void gy_emu_conditions_use(const struct gy_emu_graph *graph)
{
    for (struct gy_emu_condition *c = graph->conditions; c != NULL; c = c->next) {
        c->is_used = c->body != NULL;
    }
}

void gy_emu_condition_leave(struct gy_emu_condition *condition)
{
    condition->is_used = false;
}
