/* SPDX-License-Identifier: MIT */
/* Graphs and their nodes. */
#include "tests/conformance/differential/nodes.h"

#include <string.h>

enum { MANY = 16 };

/* A graph's slot, and up to two nodes that a new one shall come behind: of that graph, as a rule. */
struct place {
    int slot;
    CUgraph graph; /* NULL: the slot is empty */
    CUgraphNode behind[2];
    size_t count;
};

static struct place draw_place(void)
{
    struct place place = {.slot = df_slot("g", DF_GRAPHS)};
    bool is_line = df_below(3) != 0;
    uint32_t wanted = df_below(3), first = df_below(DF_NODES), is_strict = df_below(16);
    place.graph = w.graphs[place.slot].graph;
    for (uint32_t i = 0; i < DF_NODES && place.count < wanted; i++) {
        const struct df_node *node = &w.nodes[(first + i) % DF_NODES];
        if (node->node != NULL && (node->graph == place.slot || is_strict == 0)) {
            place.behind[place.count++] = node->node;
        }
    }
    if (place.count == 2 && df_one_in(16)) {
        df_shape("twice");
        place.behind[1] = place.behind[0];
    }
    df_shape("behind%zu%s", place.count, is_strict == 0 ? "any" : "");
    if (is_line && w.graphs[place.slot].last != NULL) {
        df_shape("line");
        place.count = 1;
        place.behind[0] = w.graphs[place.slot].last;
    }
    w.has_graphs = true;
    return place;
}

static void put(const struct place *place, CUresult result, CUgraphNode node)
{
    if (result == CUDA_SUCCESS && node != NULL) {
        df_put_node(place->slot, node);
    }
}

static void op_create(void)
{
    CUgraph graph = NULL;
    int slot = df_slot("g", DF_GRAPHS);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 0, 0, 0, 1);
    if (w.graphs[slot].captured != NULL) {
        df_skip(DF_cuGraphCreate);
        return;
    }
    if (ask(cuGraphCreate, df_or_null(&graph), flags) == CUDA_SUCCESS && graph != NULL) {
        df_put_graph(slot, graph);
    }
}

static void op_destroy(void)
{
    int slot = df_slot("g", DF_GRAPHS);
    CUgraph graph = w.graphs[slot].graph;
    if (df_one_in(3)) {
        df_shape("NULL");
        ask(cuGraphDestroy, NULL);
        return;
    }
    if (graph == NULL || w.graphs[slot].captured != NULL) {
        df_skip(DF_cuGraphDestroy);
        return;
    }
    df_forget_nodes(slot);
    w.graphs[slot].graph = NULL;
    ask(cuGraphDestroy, graph);
}

static void op_list(void)
{
    CUgraphNode nodes[MANY], others[MANY];
    int slot = df_slot("g", DF_GRAPHS);
    size_t count = (size_t)DF_PICK("room", MANY, MANY, MANY, 0, 1, 2);
    bool has_room = !df_one_in(4), are_edges = df_choice("edges", 2) == 1;
    df_shape("%d", has_room);
    if (w.graphs[slot].graph == NULL) {
        df_skip(DF_cuGraphGetNodes);
        return;
    }
    CUresult result =
        are_edges ? ask(cuGraphGetEdges, w.graphs[slot].graph, has_room ? nodes : NULL,
                        has_room ? others : NULL, df_or_null(&count))
                  : ask(cuGraphGetNodes, w.graphs[slot].graph, has_room ? nodes : NULL, df_or_null(&count));
    if (result == CUDA_SUCCESS) {
        df_note("%zu", count);
    }
    if (result != CUDA_SUCCESS || are_edges || !has_room || count > MANY) {
        return;
    }
    df_forget_nodes(slot);
    for (size_t i = 0; i < count && i < 4; i++) {
        df_put_node(slot, nodes[i]);
    }
}

static void op_type(void)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    const struct df_node *node = &w.nodes[df_slot("n", DF_NODES)];
    if (node->node == NULL) {
        df_skip(DF_cuGraphNodeGetType);
        return;
    }
    if (ask(cuGraphNodeGetType, node->node, df_or_null(&type)) == CUDA_SUCCESS) {
        df_note("%d", (int)type);
    }
}

static void op_add_kernel(void)
{
    CUgraphNode node = NULL;
    void *params[3];
    struct place place = draw_place();
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = df_draw_kernel(params);
    if (place.graph == NULL || !df_has_context()) {
        df_skip(DF_cuGraphAddKernelNode);
        return;
    }
    put(&place, ask(cuGraphAddKernelNode, df_or_null(&node), place.graph, place.behind, place.count, &kernel),
        node);
}

static void op_add_copy(void)
{
    CUgraphNode node = NULL;
    struct place place = draw_place();
    CUDA_MEMCPY3D copy = df_draw_copy();
    CUcontext context = df_context();
    if (place.graph == NULL) {
        df_skip(DF_cuGraphAddMemcpyNode);
        return;
    }
    put(&place,
        ask(cuGraphAddMemcpyNode, df_or_null(&node), place.graph, place.behind, place.count,
            df_or_null(&copy), context),
        node);
}

static void op_add_fill(void)
{
    CUgraphNode node = NULL;
    struct place place = draw_place();
    CUDA_MEMSET_NODE_PARAMS fill = df_draw_fill();
    CUcontext context = df_context();
    if (place.graph == NULL) {
        df_skip(DF_cuGraphAddMemsetNode);
        return;
    }
    CUresult result = ask(cuGraphAddMemsetNode, df_or_null(&node), place.graph, place.behind, place.count,
                          df_or_null(&fill), context);
    df_has_foreign_fill(result, &fill, context);
    put(&place, result, node);
}

static void op_add_event(void)
{
    CUgraphNode node = NULL;
    struct place place = draw_place();
    CUevent event = df_event();
    bool waits = df_choice("wait", 2) == 1, is_null = df_one_in(24);
    df_shape("z%d", is_null);
    event = is_null ? NULL : event;
    if (place.graph == NULL || (event == NULL && !is_null)) {
        df_skip(waits ? DF_cuGraphAddEventWaitNode : DF_cuGraphAddEventRecordNode);
        return;
    }
    put(&place,
        waits ? ask(cuGraphAddEventWaitNode, &node, place.graph, place.behind, place.count, event)
              : ask(cuGraphAddEventRecordNode, &node, place.graph, place.behind, place.count, event),
        node);
}

static void op_add_child(void)
{
    CUgraphNode node = NULL;
    struct place place = draw_place();
    int child = df_slot("child", DF_GRAPHS);
    bool is_itself = w.graphs[child].graph == place.graph;
    if (place.graph == NULL || w.graphs[child].graph == NULL || is_itself ||
        w.graphs[child].captured != NULL) {
        df_skip(DF_cuGraphAddChildGraphNode);
        return;
    }
    w.graphs[place.slot].has_any_child |= w.graphs[child].has_any_child || df_is_unordered(&w.graphs[child]);
    put(&place,
        ask(cuGraphAddChildGraphNode, &node, place.graph, place.behind, place.count, w.graphs[child].graph),
        node);
}

/* Loops whose value is 0: their bodies never run. */
static void op_add_loop(void)
{
    CUgraphNode node = NULL;
    CUgraphConditionalHandle handle = 0;
    CUgraphNodeParams params;
    struct place place = draw_place();
    unsigned flags = (unsigned)DF_PICK("flags", 1, 1, 1, 2, 3);
    CUcontext context = df_context();
    memset(&params, 0, sizeof(params));
    params.type = (CUgraphNodeType)DF_PICK("type", 13, 13, 13, 99);
    params.conditional.type = (CUgraphConditionalNodeType)DF_PICK("kind", 1, 1, 1, 99);
    params.conditional.size = (unsigned)DF_PICK("size", 1, 1, 1, 0);
    params.conditional.ctx = context;
    if (place.graph == NULL) {
        df_skip(DF_cuGraphConditionalHandleCreate);
        return;
    }
    if (ask(cuGraphConditionalHandleCreate, df_or_null(&handle), place.graph, context, 0, flags) !=
        CUDA_SUCCESS) {
        return;
    }
    params.conditional.handle = handle;
    df_shape("behind%zu,type%u,kind%u,size%u", place.count, (unsigned)params.type,
             (unsigned)params.conditional.type, params.conditional.size);
    put(&place, ask(cuGraphAddNode, &node, place.graph, place.behind, NULL, place.count, &params), node);
}

static void op_get_copy(void)
{
    CUDA_MEMCPY3D copy;
    const struct df_node *node = df_node();
    if (node == NULL) {
        df_skip(DF_cuGraphMemcpyNodeGetParams);
        return;
    }
    memset(&copy, 0, sizeof(copy));
    if (ask(cuGraphMemcpyNodeGetParams, node->node, df_or_null(&copy)) == CUDA_SUCCESS) {
        df_note("%zu.%zu.%zu", copy.WidthInBytes, copy.Height, copy.Depth);
    }
}

static void op_get_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    const struct df_node *node = df_node();
    if (node == NULL) {
        df_skip(DF_cuGraphKernelNodeGetParams);
        return;
    }
    memset(&kernel, 0, sizeof(kernel));
    if (ask(cuGraphKernelNodeGetParams, node->node, df_or_null(&kernel)) == CUDA_SUCCESS) {
        df_note("%u.%u.%u", kernel.gridDimX, kernel.blockDimX, kernel.sharedMemBytes);
    }
}

static void op_set_kernel(void)
{
    void *params[3];
    const struct df_node *node = df_node();
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = df_draw_kernel(params);
    if (node == NULL || !df_has_context()) {
        df_skip(DF_cuGraphKernelNodeSetParams);
        return;
    }
    ask(cuGraphKernelNodeSetParams, node->node, &kernel);
}

const struct df_op df_ops_graph[] = {
    {4, op_create},   {1, op_destroy},    {4, op_list},       {2, op_type},      {6, op_add_kernel},
    {8, op_add_copy}, {8, op_add_fill},   {4, op_add_event},  {4, op_add_child}, {2, op_add_loop},
    {2, op_get_copy}, {2, op_get_kernel}, {3, op_set_kernel}, {0, NULL}};
