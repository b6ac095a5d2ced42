/* SPDX-License-Identifier: MIT */
/* Executable graphs: made, changed, launched. */
#include "tests/conformance/differential/nodes.h"

static void op_instantiate(void)
{
    CUgraphExec exec = NULL;
    int slot = df_slot("x", DF_EXECS), graph = df_slot("g", DF_GRAPHS);
    unsigned long long flags = DF_PICK("flags", 0, 0, 0, 8, 8, 1, 2, 16, 64, 1ull << 40);
    if (w.graphs[graph].graph == NULL || w.graphs[graph].captured != NULL) {
        df_skip(DF_cuGraphInstantiateWithFlags);
        return;
    }
    if (ask(cuGraphInstantiateWithFlags, df_or_null(&exec), w.graphs[graph].graph, flags) != CUDA_SUCCESS ||
        exec == NULL) {
        return;
    }
    if (w.execs[slot] != NULL) {
        (void)cu->cuGraphExecDestroy(w.execs[slot]);
    }
    w.execs[slot] = exec;
    w.is_unordered[slot] = df_is_unordered(&w.graphs[graph]);
}

static void op_destroy(void)
{
    int slot = df_slot("x", DF_EXECS);
    CUgraphExec exec = w.execs[slot];
    if (df_one_in(3)) {
        df_shape("NULL");
        ask(cuGraphExecDestroy, NULL);
        return;
    }
    if (exec == NULL) {
        df_skip(DF_cuGraphExecDestroy);
        return;
    }
    w.execs[slot] = NULL;
    ask(cuGraphExecDestroy, exec);
}

static void op_update(void)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    int slot = df_slot("x", DF_EXECS);
    CUgraphExec exec = w.execs[slot];
    const struct df_graph *graph = &w.graphs[df_slot("g", DF_GRAPHS)];
    if (exec == NULL || graph->graph == NULL || graph->captured != NULL) {
        df_skip(DF_cuGraphExecUpdate);
        return;
    }
    if (ask(cuGraphExecUpdate, exec, graph->graph, df_or_null(&info)) != (CUresult)DF_UNASKED) {
        df_note("%d", (int)info.result);
        w.is_unordered[slot] |= df_is_unordered(graph);
    }
}

static void op_launch(void)
{
    CUstream stream = df_stream();
    int slot = df_slot("x", DF_EXECS);
    CUgraphExec exec = w.execs[slot];
    bool uploads = df_one_in(8);
    if (!df_stream_is_there() || exec == NULL) {
        df_skip(uploads ? DF_cuGraphUpload : DF_cuGraphLaunch);
        return;
    }
    df_settle();
    if (w.has_foreign_fill) {
        df_mark_as("foreign");
    }
    if (uploads) {
        ask(cuGraphUpload, exec, stream);
    } else if (ask(cuGraphLaunch, exec, stream) == CUDA_SUCCESS && !df_is_capturing(stream)) {
        w.is_racy |= w.is_unordered[slot];
        df_look();
    }
}

static void op_set_kernel(void)
{
    void *params[3];
    CUgraphExec exec = w.execs[df_slot("x", DF_EXECS)];
    const struct df_node *node = df_node();
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = df_draw_kernel(params);
    if (exec == NULL || node == NULL) {
        df_skip(DF_cuGraphExecKernelNodeSetParams);
        return;
    }
    ask(cuGraphExecKernelNodeSetParams, exec, node->node, &kernel);
}

static void op_set_copy(void)
{
    CUgraphExec exec = w.execs[df_slot("x", DF_EXECS)];
    const struct df_node *node = df_node();
    CUDA_MEMCPY3D copy = df_draw_copy();
    CUcontext context = df_context();
    if (exec == NULL || node == NULL) {
        df_skip(DF_cuGraphExecMemcpyNodeSetParams);
        return;
    }
    ask(cuGraphExecMemcpyNodeSetParams, exec, node->node, &copy, context);
}

static void op_set_fill(void)
{
    CUgraphExec exec = w.execs[df_slot("x", DF_EXECS)];
    const struct df_node *node = df_node();
    CUDA_MEMSET_NODE_PARAMS fill = df_draw_fill();
    CUcontext context = df_context();
    if (exec == NULL || node == NULL) {
        df_skip(DF_cuGraphExecMemsetNodeSetParams);
        return;
    }
    df_has_foreign_fill(ask(cuGraphExecMemsetNodeSetParams, exec, node->node, &fill, context), &fill,
                        context);
}

static void op_set_event(void)
{
    CUgraphExec exec = w.execs[df_slot("x", DF_EXECS)];
    const struct df_node *node = df_node();
    CUevent event = df_event();
    bool waits = df_choice("wait", 2) == 1;
    if (exec == NULL || node == NULL || event == NULL) {
        df_skip(waits ? DF_cuGraphExecEventWaitNodeSetEvent : DF_cuGraphExecEventRecordNodeSetEvent);
    } else if (waits) {
        ask(cuGraphExecEventWaitNodeSetEvent, exec, node->node, event);
    } else {
        ask(cuGraphExecEventRecordNodeSetEvent, exec, node->node, event);
    }
}

const struct df_op df_ops_exec[] = {{8, op_instantiate}, {2, op_destroy},    {6, op_update},
                                    {12, op_launch},     {4, op_set_kernel}, {4, op_set_copy},
                                    {4, op_set_fill},    {3, op_set_event},  {0, NULL}};
