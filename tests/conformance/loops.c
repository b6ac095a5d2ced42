/* SPDX-License-Identifier: MIT */
/* Conditional nodes of type WHILE, as far as no kernel is needed that sets their value: a loop whose value is
 * 0 at first has no turn, and what may be in a body. */
#include "tests/conformance/conformance.h"

#include <string.h>

#define WORDS 64u

#define NEED_LOOPS()                                                                    \
    do {                                                                                \
        if (cu->cuGraphAddNode == NULL || cu->cuGraphConditionalHandleCreate == NULL) { \
            cf_skip("no conditional nodes (CUDA 12.3)");                                \
        }                                                                               \
    } while (0)

static CUgraph add_loop(CUgraph graph, unsigned value)
{
    CUgraphConditionalHandle handle = 0;
    CUgraphNode node = NULL;
    CUgraphNodeType type;
    cu_ok(cuGraphConditionalHandleCreate(&handle, graph, cf_context->native, value,
                                         CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 1;
    params.conditional.ctx = cf_context->native;
    cu_ok(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    assert_non_null(params.conditional.phGraph_out);
    cu_ok(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    return params.conditional.phGraph_out[0];
}

/* Fill `data` in the body. */
static void fill_in(CUgraph body, CUstream stream, CUdeviceptr data)
{
    CUgraph same = NULL;
    cu_ok(cuStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu_ok(cuMemsetD32Async(data, 9, WORDS, stream));
    cu_ok(cuStreamEndCapture(stream, &same));
}

static void test_a_loop_whose_value_is_0_has_no_turn(void **state)
{
    (void)state;
    NEED_LOOPS();
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(WORDS * 4);
    CUgraph graph;
    CUgraphExec exec;
    cu_ok(cuGraphCreate(&graph, 0));
    fill_in(add_loop(graph, 0), stream, data);
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuMemsetD32Async(data, 4, WORDS, stream));
    for (int i = 0; i < 3; i++) {
        cu_ok(cuGraphLaunch(exec, stream));
    }
    cf_expect_words(stream, data, WORDS, 4);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_a_graph_with_a_loop_is_instantiated_once(void **state)
{
    (void)state;
    NEED_LOOPS();
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(WORDS * 4);
    CUgraph graph;
    CUgraphExec exec, second;
    cu_ok(cuGraphCreate(&graph, 0));
    fill_in(add_loop(graph, 0), stream, data);
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_is(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, graph, 0));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_a_body_with_an_event_is_refused(void **state)
{
    (void)state;
    NEED_LOOPS();
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    cu_ok(cuGraphCreate(&graph, 0));
    CUgraph body = add_loop(graph, 0);
    cu_ok(cuGraphAddEventRecordNode(&node, body, NULL, 0, cf_event()));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuGraphDestroy(graph));
}

static const struct CMUnitTest loops[] = {
    CF_TEST(test_a_loop_whose_value_is_0_has_no_turn),
    CF_TEST(test_a_graph_with_a_loop_is_instantiated_once),
    CF_TEST(test_a_body_with_an_event_is_refused),
};
CF_GROUP(loops)
