/* SPDX-License-Identifier: MIT */
/* Captures. */
#include "tests/conformance/differential/ops.h"

enum { MANY = 16 };

static unsigned draw_mode(void)
{
    return (unsigned)DF_PICK("mode", 0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2, 3, 0xffffffff);
}

static void op_begin(void)
{
    CUstream stream = df_stream();
    unsigned mode = draw_mode();
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamBeginCapture);
        return;
    }
    w.has_graphs = true;
    ask(cuStreamBeginCapture, stream, (CUstreamCaptureMode)mode);
}

static void op_begin_to_graph(void)
{
    CUstream stream = df_stream();
    unsigned mode = draw_mode();
    struct df_graph *graph = &w.graphs[df_slot("g", DF_GRAPHS)];
    const struct df_node *node = &w.nodes[df_slot("n", DF_NODES)];
    size_t count = df_choice("count", 2);
    df_shape("n%d", node->node != NULL && &w.graphs[node->graph] == graph);
    count = node->node != NULL ? count : 0;
    const bool is_of_slot = (uintptr_t)stream > 2; /* others are several streams by one name */
    if (!df_stream_is_there() || !is_of_slot || graph->graph == NULL || graph->captured != NULL) {
        df_skip(DF_cuStreamBeginCaptureToGraph);
        return;
    }
    w.has_graphs = true;
    if (ask(cuStreamBeginCaptureToGraph, stream, graph->graph, &node->node, NULL, count,
            (CUstreamCaptureMode)mode) == CUDA_SUCCESS) {
        graph->captured = stream;
    }
}

static void note_nodes(int slot)
{
    CUgraphNode nodes[MANY];
    size_t count = MANY;
    df_forget_nodes(slot);
    if (ask(cuGraphGetNodes, w.graphs[slot].graph, nodes, &count) != CUDA_SUCCESS) {
        return;
    }
    df_note("%zu", count);
    for (size_t i = 0; i < count && i < MANY && i < 4; i++) {
        df_put_node(slot, nodes[i]);
    }
}

/* End the capture of a stream; what was captured goes into the slot, unless it went into another one's graph.
 */
static void end_capture(CUstream stream, int slot, bool has_room)
{
    CUgraph graph = NULL;
    int own = -1;
    CUresult result = ask(cuStreamEndCapture, stream, has_room ? &graph : NULL);
    if (!df_is_capturing(stream)) {
        df_forget_captured(stream, graph, result == CUDA_SUCCESS);
    }
    if (result != CUDA_SUCCESS || graph == NULL) {
        return;
    }
    for (int i = 0; i < DF_GRAPHS; i++) {
        own = w.graphs[i].graph == graph ? i : own;
    }
    df_note("own%d", own);
    slot = own >= 0 ? own : slot;
    if (own < 0) {
        df_put_graph(slot, graph);
    }
    w.graphs[slot].has_any_child = true;
    note_nodes(slot);
}

static void op_end(void)
{
    CUstream stream = df_stream();
    int slot = df_slot("g", DF_GRAPHS);
    bool has_room = !df_one_in(64);
    df_shape("%d", has_room);
    if (!df_stream_is_there() || w.graphs[slot].captured != NULL) {
        df_skip(DF_cuStreamEndCapture);
        return;
    }
    end_capture(stream, slot, has_room);
}

/* A captured stream forks into another one, and is ended before that has joined it; or the other one is
 * ended. */
static void op_fork(void)
{
    int one, slot = df_slot("g", DF_GRAPHS);
    CUevent event = df_event();
    CUstream other = w.streams[df_slot("to", DF_STREAMS)];
    bool ends_other = df_below(2) == 0, joins = df_below(3) == 0, adds = df_below(4) != 0;
    CUstream stream = df_stream_of_slot(&one);
    df_shape("%d%d%d", ends_other, joins, adds);
    if (stream == NULL || event == NULL || other == NULL || w.graphs[slot].captured != NULL ||
        !df_is_capturing(stream)) {
        df_skip(DF_cuEventRecord);
        return;
    }
    df_shape("s%d", one);
    ask(cuEventRecord, event, stream);
    ask(cuStreamWaitEvent, other, event, 0);
    w.picked = other;
    if (adds) {
        ask(cuMemsetD32Async, w.arena[DF_ARENA_PINNED], 5, 4, other);
    }
    if (joins) {
        ask(cuEventRecord, event, other);
        ask(cuStreamWaitEvent, stream, event, 0);
    }
    df_shape("s%d", one);
    end_capture(ends_other ? other : stream, slot, true);
}

static void op_is_capturing(void)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstream stream = df_stream();
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamIsCapturing);
        return;
    }
    if (ask(cuStreamIsCapturing, stream, df_or_null(&status)) == CUDA_SUCCESS) {
        df_note("%d", (int)status);
    }
}

/* Behind what the stream depends on comes a node that is added by hand; what comes next depends on it, or
 * not. */
static void add_to_capture(CUstream stream, CUgraph graph, const CUgraphNode *behind, size_t count)
{
    CUgraphNode node = NULL;
    int child = df_slot("child", DF_GRAPHS);
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = w.arena[0], .value = df_below(256), .elementSize = 1, .width = 16, .height = 1};
    unsigned flags = (unsigned)DF_PICK("flags", 1, 1, 0, 2);
    bool is_fill = df_choice("fill", 2) == 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    if (is_fill) {
        result = ask(cuGraphAddMemsetNode, &node, graph, behind, count, &fill, w.primary);
    } else if (w.graphs[child].graph != NULL && w.graphs[child].captured == NULL) {
        result = ask(cuGraphAddChildGraphNode, &node, graph, behind, count, w.graphs[child].graph);
    } else {
        df_skip(DF_cuGraphAddChildGraphNode);
    }
    if (result == CUDA_SUCCESS) {
        df_shape("added%u", flags);
        ask(cuStreamUpdateCaptureDependencies, stream, &node, 1, flags);
    }
}

static void op_info(void)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = NULL;
    const CUgraphNode *behind = NULL;
    CUgraphNode last[MANY];
    size_t count = 0;
    CUstream stream = df_stream();
    uint32_t what = df_choice("then", 4);
    bool asks_all = !df_one_in(8);
    df_shape("%d", asks_all);
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamGetCaptureInfo);
        return;
    }
    CUresult result = ask(cuStreamGetCaptureInfo, stream, &status, asks_all ? &id : NULL,
                          asks_all ? &graph : NULL, asks_all ? &behind : NULL, asks_all ? &count : NULL);
    if (result != CUDA_SUCCESS) {
        return;
    }
    df_note("%d.%zu", (int)status, count);
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !asks_all || count > MANY) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        last[i] = behind[i]; /* theirs changes with the next call */
    }
    if (what == 0) {
        add_to_capture(stream, graph, last, count);
    } else if (what == 1) {
        size_t fewer = count > 0 ? df_below((uint32_t)count + 1) : 0;
        unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 1, 2);
        df_shape("fewer%zu", fewer);
        ask(cuStreamUpdateCaptureDependencies, stream, last, fewer, flags);
    }
}

static void op_update_dependencies(void)
{
    CUstream stream = df_stream();
    unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 2, 0xffff);
    CUgraphNode node = w.nodes[df_slot("n", DF_NODES)].node;
    size_t count = df_choice("count", 2);
    df_shape("e%d", node == NULL);
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamUpdateCaptureDependencies);
        return;
    }
    ask(cuStreamUpdateCaptureDependencies, stream, node != NULL || count == 0 ? &node : NULL, count, flags);
}

static void op_exchange(void)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)DF_PICK("mode", 0, 1, 2, 2, 2, 3, 0xffffffff);
    if (ask(cuThreadExchangeStreamCaptureMode, &mode) == CUDA_SUCCESS) {
        df_note("%d", (int)mode);
    }
}

const struct df_op df_ops_capture[] = {
    {10, op_begin},       {3, op_begin_to_graph}, {10, op_end},
    {3, op_is_capturing}, {6, op_info},           {3, op_update_dependencies},
    {4, op_exchange},     {3, op_fork},           {0, NULL}};
