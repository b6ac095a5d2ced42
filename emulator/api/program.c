/* SPDX-License-Identifier: MIT */
/* Executable graphs: instantiate, update, change a node. */
#include "emulator/program.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/condition.h"
#include "emulator/context.h"
#include "emulator/event.h"
#include "emulator/memory.h"
#include "emulator/places.h"

#include <string.h>

/* ---- making a program ------------------------------------------------------------------------ */

static void set_node(struct gy_emu_program *program, uint32_t index, const struct gy_emu_node *node)
{
    struct gy_emu_program_node *n = &program->nodes[index];
    gy_emu_work_share(&n->op.work, &node->work);
    n->op.program = program;
    n->source = node->object.handle;
    n->priority = node->priority;
    program->event_count += node->work.kind == GY_EMU_WORK_EVENT_RECORD;
    program->wait_count += node->work.kind == GY_EMU_WORK_EVENT_WAIT;
    program->has_effects = program->has_effects || node->work.kind == GY_EMU_WORK_HOST ||
                           node->work.kind == GY_EMU_WORK_EVENT_RECORD ||
                           node->work.kind == GY_EMU_WORK_EVENT_WAIT;
    if (node->work.context == NULL) {
        program->is_dead = true;
    }
}

static void set_edges(struct gy_emu_program *program, const struct gy_emu_graph *graph)
{
    uint32_t *next = program->edges;
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct gy_emu_node *node = graph->nodes[i];
        program->nodes[i].dependencies = next;
        program->nodes[i].dependency_count = node->dependency_count;
        for (uint32_t d = 0; d < node->dependency_count; d++) {
            uint32_t from = node->dependencies[d]->index;
            *next++ = from;
            program->nodes[from].dependent_count++;
        }
    }
    for (uint32_t i = 0; i < graph->count; i++) {
        program->nodes[i].dependents = next;
        next += program->nodes[i].dependent_count;
        program->nodes[i].dependent_count = 0;
    }
    for (uint32_t i = 0; i < graph->count; i++) {
        for (uint32_t d = 0; d < program->nodes[i].dependency_count; d++) {
            struct gy_emu_program_node *from = &program->nodes[program->nodes[i].dependencies[d]];
            from->dependents[from->dependent_count++] = i;
        }
    }
}

static uint32_t count_edges(const struct gy_emu_graph *graph)
{
    uint32_t edges = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        edges += graph->nodes[i]->dependency_count;
    }
    return edges;
}

static struct gy_emu_program *make_program(const struct gy_emu_graph *graph, struct gy_emu_exec *exec);

/* The bodies of conditional nodes.  False: there is no memory for them. */
static bool make_bodies(struct gy_emu_program *program)
{
    for (uint32_t i = 0; i < program->count; i++) {
        struct gy_emu_program_node *node = &program->nodes[i];
        if (node->op.work.kind == GY_EMU_WORK_LOOP) {
            node->body = make_program(gy_emu_condition_body(node->op.work.condition), program->exec);
            if (node->body == NULL) {
                return false;
            }
            node->body->is_body = true;
        }
    }
    return true;
}

static struct gy_emu_program *make_program(const struct gy_emu_graph *graph, struct gy_emu_exec *exec)
{
    uint32_t edges = count_edges(graph);
    struct gy_emu_program *program =
        gy_zalloc(sizeof(*program) + graph->count * sizeof(struct gy_emu_program_node));
    if (program == NULL) {
        return NULL;
    }
    program->edges = gy_zalloc_array((size_t)edges * 2 + 1, sizeof(uint32_t));
    if (program->edges == NULL) {
        gy_free(program);
        return NULL;
    }
    program->refs = 1;
    program->exec = exec;
    exec->refs++;
    program->count = graph->count;
    program->edge_count = edges;
    for (uint32_t i = 0; i < graph->count; i++) {
        set_node(program, i, graph->nodes[i]);
    }
    set_edges(program, graph);
    if (!make_bodies(program)) {
        gy_emu_program_unref(program);
        return NULL;
    }
    return program;
}

#define FREES_ON_LAUNCH 1ull /* it concerns memory that a graph allocates, which none does here */
#define ALL_INSTANTIATE_FLAGS \
    ((unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY | FREES_ON_LAUNCH)

/* What an executable form of the graph takes of the context that is current. */
struct places {
    uintptr_t root;
    uint32_t count;
};

static CUresult take_places(CUgraph handle, struct places *out)
{
    const struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    struct gy_emu_context *context;
    if (graph == NULL || gy_emu_context_current(&context) != CUDA_SUCCESS) {
        *out = (struct places){.count = 0};
        return CUDA_SUCCESS;
    }
    *out = (struct places){context->root->object.handle, gy_emu_places_of_graph(graph)};
    return gy_emu_places_take(context->root, out->count);
}

/* A captured fill is for memory that its device has access to; that of a node made by hand is for any. */
static bool fills_foreign_memory(const struct gy_emu_graph *graph)
{
    bool any = false;
    for (uint32_t i = 0; i < graph->count && !any; i++) {
        const struct gy_emu_work *work = &graph->nodes[i]->work;
        any = graph->nodes[i]->is_captured && work->kind == GY_EMU_WORK_FILL &&
              gy_emu_memory_is_foreign(work->context, (uintptr_t)work->fill.to) >= 0;
    }
    return any;
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags,
                            const struct places places)
{
    const struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, handle);
    if (graph == NULL || (flags & ~ALL_INSTANTIATE_FLAGS) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_context *current;
    CUresult free = gy_emu_context_current(&current);
    free = free == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : free;
    if (free != CUDA_SUCCESS || out == NULL || graph->capturing || graph->is_broken ||
        fills_foreign_memory(graph)) {
        return free != CUDA_SUCCESS ? free : CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult allowed = gy_emu_conditions_allow(graph);
    if (allowed != CUDA_SUCCESS) {
        return allowed;
    }
    struct gy_emu_exec *exec = gy_zalloc(sizeof(*exec));
    if (exec == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->refs = 1;
    exec->root = places.root;
    exec->places = places.count;
    exec->keeps_priorities = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
    if (gy_emu_handle_open(GY_EMU_GRAPH_EXEC, &exec->object) != CUDA_SUCCESS) {
        goto free_exec;
    }
    exec->program = make_program(graph, exec);
    if (exec->program == NULL) {
        goto close_handle;
    }
    gy_emu_conditions_use(graph);
    *out = (CUgraphExec)exec->object.handle;
    return CUDA_SUCCESS;
close_handle:
    gy_emu_handle_close(&exec->object);
free_exec:
    gy_free(exec);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult take_and_instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
    struct places places;
    CUresult result = take_places(handle, &places);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = instantiate(out, handle, flags, places);
    if (result != CUDA_SUCCESS) {
        gy_emu_places_give(places.root, places.count);
    }
    return result;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return GY_EMU_CALL(cuGraphInstantiateWithFlags, take_and_instantiate(exec, graph, flags));
}

/* Destroy the handle; launches that run go on. */
static CUresult destroy(CUgraphExec handle)
{
    const CUresult allowed = gy_emu_capture_forbids_unsafe();
    if (allowed != CUDA_SUCCESS) {
        return allowed;
    }
    struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, handle);
    if (exec == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < exec->program->count; i++) {
        if (exec->program->nodes[i].op.work.kind == GY_EMU_WORK_LOOP) {
            gy_emu_condition_leave(exec->program->nodes[i].op.work.condition);
        }
    }
    gy_emu_places_give(exec->root, exec->places);
    gy_emu_handle_close(&exec->object);
    gy_emu_program_unref(exec->program);
    gy_emu_exec_unref(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    return GY_EMU_CALL(cuGraphExecDestroy, destroy(exec));
}

/* ---- updating -------------------------------------------------------------------------------- */

static bool depends_on(const struct gy_emu_program_node *node, uint32_t index)
{
    for (uint32_t i = 0; i < node->dependency_count; i++) {
        if (node->dependencies[i] == index) {
            return true;
        }
    }
    return false;
}

/* As on an H200 (driver 580): an update changes a kernel's cluster only together with its function, and only
 * to another cluster; it says nothing of it.  A grid that the old cluster does not divide loses its rest. */
static void keep_cluster(struct gy_emu_work *work, const struct gy_emu_work *old)
{
    struct gy_emu_attributes *now = &work->kernel.attributes;
    if (work->kind != GY_EMU_WORK_KERNEL ||
        (work->kernel.function != old->kernel.function && now->cluster[0] != 0)) {
        return;
    }
    memcpy(now->cluster, old->kernel.attributes.cluster, sizeof(now->cluster));
    memcpy(now->preferred, old->kernel.attributes.preferred, sizeof(now->preferred));
    for (int i = 0; i < 3 && now->cluster[0] != 0; i++) {
        work->kernel.grid[i] -= work->kernel.grid[i] % now->cluster[i];
    }
}

static bool has_changed_attributes(const struct gy_emu_work *work, const struct gy_emu_work *old)
{
    struct gy_emu_attributes now = work->kernel.attributes, before = old->kernel.attributes;
    memset(now.cluster, 0, sizeof(now.cluster));
    memset(before.cluster, 0, sizeof(before.cluster));
    memset(now.preferred, 0, sizeof(now.preferred));
    memset(before.preferred, 0, sizeof(before.preferred));
    return memcmp(&now, &before, sizeof(now)) != 0;
}

/* Does `node` fit in the place of `old`? */
static CUgraphExecUpdateResult compare(const struct gy_emu_program_node *old, const struct gy_emu_node *node,
                                       const struct gy_emu_node **from)
{
    if (old->dependency_count != node->dependency_count) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    for (uint32_t i = 0; i < node->dependency_count; i++) {
        if (!depends_on(old, node->dependencies[i]->index)) {
            *from = node->dependencies[i];
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
    }
    if (gy_emu_work_type(&old->op.work) != gy_emu_work_type(&node->work)) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    }
    if (node->work.kind == GY_EMU_WORK_LOOP && node->work.condition != old->op.work.condition) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    const struct gy_emu_context *context = node->work.context;
    if (context == NULL || context->root != old->op.work.context->root) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    if (node->work.kind == GY_EMU_WORK_COPY && !gy_emu_copies_alike(&node->work, &old->op.work)) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    if (node->work.kind == GY_EMU_WORK_KERNEL && has_changed_attributes(&node->work, &old->op.work)) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult compare_all(const struct gy_emu_program *program,
                                           const struct gy_emu_graph *graph,
                                           CUgraphExecUpdateResultInfo *info)
{
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (program->count != graph->count) {
        result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    for (uint32_t i = 0; i < graph->count && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++) {
        const struct gy_emu_node *from = NULL;
        result = compare(&program->nodes[i], graph->nodes[i], &from);
        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            info->errorNode = (CUgraphNode)graph->nodes[i]->object.handle;
            info->errorFromNode = from != NULL ? (CUgraphNode)from->object.handle : NULL;
        }
    }
    return result;
}

/* The application knows the nodes of the executable graph by those from which it was instantiated; this stays
 * so. */
static void keep_from(struct gy_emu_program *to, const struct gy_emu_program *from)
{
    for (uint32_t i = 0; i < to->count; i++) {
        to->nodes[i].source = from->nodes[i].source;
        keep_cluster(&to->nodes[i].op.work, &from->nodes[i].op.work);
    }
}

static CUresult update(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info)
{
    struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, exec_handle);
    const struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, graph_handle);
    if (exec == NULL || graph == NULL || graph->capturing) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_program *program = exec->program;
    if (program->is_dead) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    CUgraphExecUpdateResultInfo ignored;
    info = info != NULL ? info : &ignored;
    *info = (CUgraphExecUpdateResultInfo){CU_GRAPH_EXEC_UPDATE_SUCCESS, NULL, NULL};
    info->result = compare_all(program, graph, info);
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    if (program->refs > 1) {
        struct gy_emu_program *fresh = make_program(graph, exec);
        if (fresh == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        keep_from(fresh, program);
        exec->program = fresh;
        gy_emu_program_unref(program);
        return CUDA_SUCCESS;
    }
    for (uint32_t i = 0; i < graph->count; i++) {
        struct gy_emu_work *work = &program->nodes[i].op.work, old = *work;
        gy_emu_work_share(work, &graph->nodes[i]->work);
        keep_cluster(work, &old);
        gy_emu_work_release(&old);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    return GY_EMU_CALL(cuGraphExecUpdate, update(exec, graph, info));
}

/* Copy a program, so that one launch can keep it while another changes it. */
static struct gy_emu_program *copy_program(const struct gy_emu_program *program)
{
    struct gy_emu_program *copy =
        gy_zalloc(sizeof(*copy) + program->count * sizeof(struct gy_emu_program_node));
    if (copy == NULL) {
        return NULL;
    }
    size_t edges = (size_t)program->edge_count * 2 + 1;
    copy->edges = gy_zalloc_array(edges, sizeof(uint32_t));
    if (copy->edges == NULL) {
        gy_free(copy);
        return NULL;
    }
    memcpy(copy->edges, program->edges, edges * sizeof(uint32_t));
    copy->refs = 1;
    copy->exec = program->exec;
    copy->exec->refs++;
    copy->count = program->count;
    copy->event_count = program->event_count;
    copy->wait_count = program->wait_count;
    copy->has_effects = program->has_effects;
    copy->is_dead = program->is_dead;
    copy->edge_count = program->edge_count;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct gy_emu_program_node *from = &program->nodes[i];
        struct gy_emu_program_node *to = &copy->nodes[i];
        gy_emu_work_share(&to->op.work, &from->op.work);
        to->op.program = copy;
        to->source = from->source;
        to->priority = from->priority;
        to->dependency_count = from->dependency_count;
        to->dependent_count = from->dependent_count;
        to->dependencies = copy->edges + (from->dependencies - program->edges);
        to->dependents = copy->edges + (from->dependents - program->edges);
    }
    if (!make_bodies(copy)) {
        gy_emu_program_unref(copy);
        return NULL;
    }
    return copy;
}

/* Find what the node became in the executable graph, if that is work of this kind and can be changed. */
static CUresult find_to_change(CUgraphExec exec_handle, CUgraphNode node_handle, enum gy_emu_work_kind kind,
                               struct gy_emu_program_node **out)
{
    const struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, exec_handle);
    const struct gy_emu_node *node = gy_emu_handle_find(GY_EMU_NODE, node_handle);
    if (exec == NULL || node == NULL || node->work.kind != kind) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_program *program = exec->program;
    if (node->index >= program->count || program->nodes[node->index].source != node->object.handle) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = &program->nodes[node->index];
    return program->is_dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

/* Give the node at `index` of the executable graph other work, which is taken over.  Launches that are under
 * way keep what they were launched with. */
static CUresult change(CUgraphExec exec_handle, uint32_t index, struct gy_emu_work *work)
{
    struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, exec_handle);
    struct gy_emu_program *program = exec->program;
    if (program->refs > 1) {
        struct gy_emu_program *fresh = copy_program(program);
        if (fresh == NULL) {
            gy_emu_work_release(work);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        gy_emu_program_unref(program);
        exec->program = program = fresh;
    }
    gy_emu_work_release(&program->nodes[index].op.work);
    program->nodes[index].op.work = *work;
    return CUDA_SUCCESS;
}

/* Only the context of the operands that the graph was instantiated with is accepted; of a node of a green
 * context, only that one, as on an H200.  NULL: the current one. */
static CUresult check_context(CUcontext handle, const struct gy_emu_program_node *node)
{
    struct gy_emu_context *context;
    const struct gy_emu_context *owner = node->op.work.context;
    CUresult result = gy_emu_context_find(handle, &context);
    const bool is_other = result == CUDA_SUCCESS &&
                          (context->root != owner->root || (owner->root != owner && context != owner));
    return is_other ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult set_kernel(CUgraphExec exec, CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct gy_emu_program_node *node;
    struct gy_emu_work work;
    CUresult result = find_to_change(exec, handle, GY_EMU_WORK_KERNEL, &node);
    if (result == CUDA_SUCCESS && params != NULL && params->func == NULL) {
        return CUDA_ERROR_INVALID_HANDLE; /* as on an H200 */
    }
    struct gy_emu_context *current;
    const bool is_elsewhere = result == CUDA_SUCCESS && gy_emu_context_current(&current) == CUDA_SUCCESS &&
                              current->device != node->op.work.context->device;
    result = result == CUDA_SUCCESS && !is_elsewhere ? check_context(NULL, node) : result;
    if (result == CUDA_SUCCESS) {
        result =
            gy_emu_node_params_import(params, node->op.work.context, &node->op.work.kernel.attributes, &work);
    }
    return result == CUDA_SUCCESS ? change(exec, (uint32_t)(node - node->op.program->nodes), &work) : result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return GY_EMU_CALL(cuGraphExecKernelNodeSetParams, set_kernel(exec, node, params));
}

static CUresult set_copy(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct gy_emu_program_node *node;
    CUresult result = find_to_change(exec, handle, GY_EMU_WORK_COPY, &node);
    result = result == CUDA_SUCCESS ? check_context(context, node) : result;
    struct gy_emu_work work = {.kind = GY_EMU_WORK_COPY};
    if (result == CUDA_SUCCESS) {
        work.context = node->op.work.context;
        result = gy_emu_copy_params_import(params, &node->op.work, &work);
    }
    return result == CUDA_SUCCESS ? change(exec, (uint32_t)(node - node->op.program->nodes), &work) : result;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                        CUcontext context)
{
    return GY_EMU_CALL(cuGraphExecMemcpyNodeSetParams, set_copy(exec, node, params, context));
}

/* As above, but what counts is whose the memory is, unless it is a green context's node. */
static CUresult check_fill_context(CUcontext handle, const struct gy_emu_program_node *node,
                                   const CUDA_MEMSET_NODE_PARAMS *params)
{
    const struct gy_emu_context *owner = node->op.work.context;
    const struct gy_emu_region *region = params != NULL ? gy_emu_memory_find((uintptr_t)params->dst) : NULL;
    if (owner->root != owner) {
        return check_context(handle, node);
    }
    if (region != NULL && region->kind == GY_EMU_REGION_PINNED) {
        return region->context != owner ? check_context(handle, node) : CUDA_SUCCESS;
    }
    const bool is_other = region != NULL && region->kind == GY_EMU_REGION_DEVICE && region->context != owner;
    return is_other ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult set_fill(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *params,
                         CUcontext context)
{
    struct gy_emu_program_node *node;
    CUresult result = find_to_change(exec, handle, GY_EMU_WORK_FILL, &node);
    result = result == CUDA_SUCCESS ? check_fill_context(context, node, params) : result;
    struct gy_emu_work work = {.kind = GY_EMU_WORK_FILL};
    if (result == CUDA_SUCCESS) {
        work.context = node->op.work.context;
        result = gy_emu_fill_params_import(params, &work);
    }
    return result == CUDA_SUCCESS ? change(exec, (uint32_t)(node - node->op.program->nodes), &work) : result;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return GY_EMU_CALL(cuGraphExecMemsetNodeSetParams, set_fill(exec, node, params, context));
}

static CUresult set_event(CUgraphExec exec, CUgraphNode at, CUevent handle, enum gy_emu_work_kind kind)
{
    const struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, handle);
    struct gy_emu_program_node *node;
    CUresult result = find_to_change(exec, at, kind, &node);
    if (result != CUDA_SUCCESS || event == NULL) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_work work = {.kind = node->op.work.kind, .context = event->object.context, .event = handle};
    return change(exec, (uint32_t)(node - node->op.program->nodes), &work);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return GY_EMU_CALL(cuGraphExecEventRecordNodeSetEvent,
                       set_event(exec, node, event, GY_EMU_WORK_EVENT_RECORD));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    return GY_EMU_CALL(cuGraphExecEventWaitNodeSetEvent,
                       set_event(exec, node, event, GY_EMU_WORK_EVENT_WAIT));
}
