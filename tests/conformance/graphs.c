/* SPDX-License-Identifier: MIT */
/* Capture, executable graphs and their update. */
#include "tests/conformance/conformance.h"

#include "base/thread.h"

#include <string.h>

#define COUNT 1024

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    cu_ok(cuStreamIsCapturing(stream, &status));
    return status;
}

static void begin(CUstream stream)
{
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

static CUgraph end(CUstream stream)
{
    CUgraph graph = NULL;
    cu_ok(cuStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec = NULL;
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_non_null(exec);
    return exec;
}

static unsigned nodes_of_type(CUgraph graph, CUgraphNodeType wanted)
{
    CUgraphNode nodes[64];
    size_t count = 64;
    unsigned found = 0;
    cu_ok(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        cu_ok(cuGraphNodeGetType(nodes[i], &type));
        found += type == wanted;
    }
    return found;
}

static void expect_shape(CUgraph graph, size_t nodes, size_t edges)
{
    size_t got_nodes = 0, got_edges = 0;
    cu_ok(cuGraphGetNodes(graph, NULL, &got_nodes));
    cu_ok(cuGraphGetEdges(graph, NULL, NULL, &got_edges));
    assert_int_equal(got_nodes, nodes);
    assert_int_equal(got_edges, edges);
}

/* Capture: fill `value`; add 1; copy to `copy`: three nodes in a line. */
static CUgraph capture_line(CUstream stream, CUdeviceptr data, CUdeviceptr copy, uint32_t value)
{
    begin(stream);
    cu_ok(cuMemsetD32Async(data, value, COUNT, stream));
    cf_launch_add(stream, data, COUNT, 1);
    cu_ok(cuMemcpyDtoDAsync(copy, data, COUNT * 4, stream));
    return end(stream);
}

static void test_capture_records_and_runs_nothing(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), copy = cf_device(COUNT * 4);
    cu_ok(cuMemsetD32Async(copy, 99, COUNT, stream));
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    CUgraph graph = capture_line(stream, data, copy, 6);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    cf_expect_words(stream, copy, COUNT, 99);
    expect_shape(graph, 3, 2);
    assert_int_equal(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_MEMSET), 1);
    assert_int_equal(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_KERNEL), 1);
    assert_int_equal(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_MEMCPY), 1);
    CUgraphExec exec = instantiate(graph);
    cu_ok(cuGraphDestroy(graph)); /* the executable graph does not need the other */
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, copy, COUNT, 7);
    cu_ok(cuGraphExecDestroy(exec));
}

static void test_capture_tells_its_graph_and_frontier(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    cuuint64_t id = 0;
    CUgraph inside = NULL;
    const CUgraphNode *frontier = NULL;
    size_t count = 99;
    cu_ok(cuStreamGetCaptureInfo(stream, &status, &id, &inside, &frontier, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    begin(stream);
    cu_ok(cuStreamGetCaptureInfo(stream, &status, &id, &inside, &frontier, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(count, 0);
    cf_launch_add(stream, data, COUNT, 1);
    cf_launch_add(stream, data, COUNT, 1);
    cu_ok(cuStreamGetCaptureInfo(stream, &status, &id, &inside, &frontier, &count));
    assert_int_equal(count, 1);
    CUgraphNodeType type;
    cu_ok(cuGraphNodeGetType(frontier[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
    CUgraph graph = end(stream);
    assert_ptr_equal(graph, inside);
    cu_ok(cuGraphDestroy(graph));
}

static void test_events_carry_a_capture_to_other_streams(void **state)
{
    (void)state;
    CUstream a = cf_stream(), b = cf_stream();
    CUevent fork = cf_event(), join = cf_event();
    CUdeviceptr x = cf_device(COUNT * 4), y = cf_device(COUNT * 4);
    begin(a);
    cu_ok(cuMemsetD32Async(x, 1, COUNT, a));
    cu_ok(cuEventRecord(fork, a));
    cu_ok(cuStreamWaitEvent(b, fork, CU_EVENT_WAIT_DEFAULT));
    assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_ok(cuMemcpyDtoDAsync(y, x, COUNT * 4, b)); /* beside the next line's kernel, after the fill */
    cf_launch_add(b, y, COUNT, 20);
    cu_ok(cuEventRecord(join, b));
    cu_ok(cuStreamWaitEvent(a, join, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(a, y, COUNT, 300);
    CUgraph graph = end(a);
    assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    /* fill → copy → add → add; the wait that the join implies makes one edge more. */
    size_t nodes = 0;
    cu_ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 4);
    CUgraphExec exec = instantiate(graph);
    cu_ok(cuGraphLaunch(exec, a));
    cf_expect_words(a, y, COUNT, 321);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_independent_branches_have_no_edge(void **state)
{
    (void)state;
    CUstream a = cf_stream(), b = cf_stream();
    CUevent fork = cf_event(), join = cf_event();
    CUdeviceptr x = cf_device(COUNT * 4), y = cf_device(COUNT * 4);
    CUgraphNode from[8], to[8];
    size_t edges = 8;
    begin(a);
    cu_ok(cuMemsetD32Async(x, 1, COUNT, a));
    cu_ok(cuEventRecord(fork, a));
    cu_ok(cuStreamWaitEvent(b, fork, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(a, x, COUNT, 1);
    cu_ok(cuMemsetD32Async(y, 2, COUNT, b));
    cu_ok(cuEventRecord(join, b));
    cu_ok(cuStreamWaitEvent(a, join, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(a, y, COUNT, 1);
    CUgraph graph = end(a);
    expect_shape(graph, 4, 4); /* a diamond */
    cu_ok(cuGraphGetEdges(graph, from, to, &edges));
    assert_int_equal(edges, 4);
    for (size_t i = 0; i < edges; i++) {
        assert_ptr_not_equal(from[i], to[i]);
    }
    cu_ok(cuGraphDestroy(graph));
}

static void test_exec_is_launched_many_times_in_stream_order(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    begin(stream);
    cf_launch_add(stream, data, COUNT, 2);
    CUgraph graph = end(stream);
    CUgraphExec exec = instantiate(graph);
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(data, 1, COUNT, stream));
    for (int i = 0; i < 10; i++) {
        cu_ok(cuGraphLaunch(exec, stream));
    }
    cf_launch_add(stream, data, COUNT, 100);
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuGraphExecDestroy(exec)); /* the launched graph still runs */
    cf_open_gate();
    cf_expect_words(stream, data, COUNT, 1 + 10 * 2 + 100 + 2);
    cu_ok(cuGraphDestroy(graph));
}

/* On a stream of its own, before the first launch and while one runs. */
static void test_exec_is_uploaded_on_another_stream(void **state)
{
    (void)state;
    CUstream stream = cf_stream(), other = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    if (cu->cuGraphUpload == NULL) {
        print_message("the driver has no cuGraphUpload()\n");
        return;
    }
    begin(stream);
    cf_launch_add(stream, data, COUNT, 2);
    CUgraph graph = end(stream);
    CUgraphExec exec = instantiate(graph);
    cu_ok(cuGraphUpload(exec, other));
    cu_ok(cuStreamSynchronize(other));
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(data, 1, COUNT, stream));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuGraphUpload(exec, other)); /* it comes behind that launch */
    cu_ok(cuGraphLaunch(exec, stream));
    cf_open_gate();
    cf_expect_words(stream, data, COUNT, 1 + 2 * 2);
    cu_ok(cuStreamSynchronize(other));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphUpload(NULL, other));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_update_takes_new_parameters_of_the_same_shape(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), copy = cf_device(COUNT * 4), other = cf_device(COUNT * 4);
    CUgraph first = capture_line(stream, data, copy, 10), second = capture_line(stream, data, other, 50);
    CUgraphExec exec = instantiate(first);
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0xff, sizeof(info));
    cu_ok(cuGraphExecUpdate(exec, second, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    cu_ok(cuGraphDestroy(second));
    cu_ok(cuMemsetD32Async(copy, 0, COUNT, stream));
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, other, COUNT, 51);
    cf_expect_words(stream, copy, COUNT, 0);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(first));
}

static void test_update_refuses_another_shape(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), copy = cf_device(COUNT * 4);
    CUgraph line = capture_line(stream, data, copy, 10);
    CUgraphExec exec = instantiate(line);
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    begin(stream);
    cu_ok(cuMemsetD32Async(data, 1, COUNT, stream));
    cf_launch_add(stream, data, COUNT, 1);
    CUgraph shorter = end(stream);
    cu_is(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, shorter, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    cu_ok(cuGraphDestroy(shorter));

    begin(stream);
    cu_ok(cuMemsetD32Async(data, 1, COUNT, stream));
    cu_ok(cuMemsetD32Async(data, 2, COUNT, stream));
    cu_ok(cuMemcpyDtoDAsync(copy, data, COUNT * 4, stream));
    CUgraph other = end(stream);
    cu_is(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, other, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    cu_ok(cuGraphDestroy(other));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(line));
}

static void test_allocation_ends_a_capture_of_its_thread(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr address = 0;
    CUgraph graph = NULL;
    begin(stream);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&address, 64));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    assert_null(graph);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    cu_ok(cuMemAlloc(&address, 64)); /* the stream and the context are as before */
    cu_ok(cuMemFree(address));
}

static void test_relaxed_capture_allows_allocation(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr address = 0;
    CUgraph graph = NULL;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu_ok(cuMemAlloc(&address, 64));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphDestroy(graph));
    cu_ok(cuMemFree(address));
}

static void test_a_thread_can_relax_itself_for_a_while(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr address = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin(stream);
    cu_ok(cuThreadExchangeStreamCaptureMode(&mode));
    CUresult result = cu->cuMemAlloc(&address, 64);
    CUstreamCaptureMode relaxed = mode;
    cu_ok(cuThreadExchangeStreamCaptureMode(&relaxed)); /* this restores the mode */
    assert_int_equal(relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* the mode that a thread starts with */
    assert_int_equal(result, CUDA_SUCCESS);
    cu_ok(cuGraphDestroy(end(stream)));
    cu_ok(cuMemFree(address));
}

static void test_waiting_for_a_captured_stream_ends_the_capture(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUgraph graph = NULL;
    begin(stream);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    assert_null(graph);
    begin(stream);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(stream));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

static void test_captured_event_cannot_be_asked(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUgraph graph = NULL;
    begin(stream);
    cf_launch_add(stream, data, COUNT, 1);
    cu_ok(cuEventRecord(event, stream));
    cu_is(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
    if (cu->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) { /* the capture may survive or not */
        cu_ok(cuGraphDestroy(graph));
    }
}

static void test_capture_must_be_joined(void **state)
{
    (void)state;
    CUstream a = cf_stream(), b = cf_stream();
    CUevent fork = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUgraph graph = NULL;
    begin(a);
    cf_launch_add(a, data, COUNT, 1);
    cu_ok(cuEventRecord(fork, a));
    cu_ok(cuStreamWaitEvent(b, fork, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(b, data, COUNT, 1);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    assert_null(graph);
    assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
}

static void test_capture_cannot_depend_on_what_ran_before(void **state)
{
    (void)state;
    CUstream a = cf_stream(), b = cf_stream();
    CUevent before = cf_event();
    CUgraph graph = NULL;
    cu_ok(cuEventRecord(before, b));
    begin(a);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, before, CU_EVENT_WAIT_DEFAULT));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
}

static void test_capture_is_begun_and_ended_once(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUgraph graph = NULL;
    cu_is(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
    begin(stream);
    cu_is(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (cu->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) { /* the capture may survive or not */
        cu_ok(cuGraphDestroy(graph));
    }
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

struct ender {
    CUstream stream;
    CUresult result;
};

static void end_elsewhere(void *arg)
{
    struct ender *ender = arg;
    CUgraph graph = NULL;
    ender->result = cu->cuCtxSetCurrent(cf_context->native);
    if (ender->result == CUDA_SUCCESS) {
        ender->result = cu->cuStreamEndCapture(ender->stream, &graph);
    }
}

static void test_capture_is_ended_by_its_thread(void **state)
{
    (void)state;
    struct ender ender = {.stream = cf_stream()};
    gy_thread thread;
    CUgraph graph = NULL;
    begin(ender.stream);
    assert_ok(gy_thread_start(&thread, "ender", end_elsewhere, &ender));
    gy_thread_join(&thread);
    if (cu->cuStreamEndCapture(ender.stream, &graph) == CUDA_SUCCESS) { /* the capture may survive or not */
        cu_ok(cuGraphDestroy(graph));
    }
    assert_int_equal(ender.result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

static void count_up(void *user)
{
    ++*(unsigned *)user;
}

static void test_host_functions_and_values_are_captured(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    uint32_t *host = cf_pinned(1);
    CUdeviceptr word = cf_address(host);
    unsigned calls = 0;
    begin(stream);
    cu_ok(cuLaunchHostFunc(stream, count_up, &calls));
    cu_ok(cuStreamWriteValue32(stream, word, 55, CU_STREAM_WRITE_VALUE_DEFAULT));
    cf_launch_add(stream, word, 1, 1);
    CUgraph graph = end(stream);
    assert_int_equal(calls, 0);
    assert_int_equal(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_HOST), 1);
    assert_int_equal(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP), 1);
    CUgraphExec exec = instantiate(graph);
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(calls, 2);
    assert_int_equal(((volatile uint32_t *)host)[0], 56);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_external_records_become_nodes(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUevent from = cf_timed_event(), to = cf_timed_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    float ms = -1;
    begin(stream);
    cu_ok(cuEventRecordWithFlags(from, stream, CU_EVENT_RECORD_EXTERNAL));
    cf_launch_add(stream, data, COUNT, 1);
    cu_ok(cuEventRecordWithFlags(to, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = end(stream);
    expect_shape(graph, 3, 2);
    assert_int_equal(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD), 2);
    CUgraphExec exec = instantiate(graph);
    cf_close_gate(stream);
    cu_ok(cuGraphLaunch(exec, stream));
    cf_open_gate();
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuEventQuery(to));
    cu_ok(cuEventElapsedTime(&ms, from, to));
    assert_true(ms >= 0);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static CUDA_KERNEL_NODE_PARAMS_v2 add_node(void **params)
{
    return cf_kernel_node(cf_add, COUNT / 64, 64, params);
}

static void test_graph_is_built_by_hand_and_its_nodes_changed(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    uint32_t count = COUNT, value = 3;
    void *params[] = {&data, &count, &value};
    CUDA_KERNEL_NODE_PARAMS_v2 node = add_node(params), got;
    CUgraph graph = NULL;
    CUgraphNode first = NULL, second = NULL;
    cu_ok(cuGraphCreate(&graph, 0));
    cu_ok(cuGraphAddKernelNode(&first, graph, NULL, 0, &node));
    value = 10;
    cu_ok(cuGraphAddKernelNode(&second, graph, &first, 1, &node));
    expect_shape(graph, 2, 1);
    cu_ok(cuGraphKernelNodeGetParams(second, &got));
    assert_ptr_equal(got.func, cf_add);
    assert_int_equal(got.gridDimX, COUNT / 64);
    assert_int_equal(*(uint32_t *)got.kernelParams[2], 10);
    value = 100;
    cu_ok(cuGraphKernelNodeSetParams(second, &node));
    CUgraphExec exec = instantiate(graph);
    cu_ok(cuMemsetD32Async(data, 0, COUNT, stream));
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, data, COUNT, 103);
    value = 5000;
    cu_ok(cuGraphExecKernelNodeSetParams(exec, first, &node)); /* this executable graph only */
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, data, COUNT, 103 + 5100);
    cu_ok(cuGraphKernelNodeGetParams(first, &got));
    assert_int_equal(*(uint32_t *)got.kernelParams[2], 3);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_node_list_is_cut_to_the_room_given(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), copy = cf_device(COUNT * 4);
    CUgraph graph = capture_line(stream, data, copy, 1);
    CUgraphNode nodes[5] = {NULL, NULL, NULL, NULL, NULL};
    size_t count = 2;
    cu_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 2);
    assert_non_null(nodes[1]);
    assert_null(nodes[2]);
    count = 5; /* more room than nodes */
    cu_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    assert_null(nodes[3]);
    cu_ok(cuGraphDestroy(graph));
}

static void test_empty_graph_runs(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    begin(stream);
    CUgraph graph = end(stream);
    expect_shape(graph, 0, 0);
    CUgraphExec exec = instantiate(graph);
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static const struct CMUnitTest graphs[] = {
    CF_TEST(test_capture_records_and_runs_nothing),
    CF_TEST(test_capture_tells_its_graph_and_frontier),
    CF_TEST(test_events_carry_a_capture_to_other_streams),
    CF_TEST(test_independent_branches_have_no_edge),
    CF_TEST(test_exec_is_launched_many_times_in_stream_order),
    CF_TEST(test_exec_is_uploaded_on_another_stream),
    CF_TEST(test_update_takes_new_parameters_of_the_same_shape),
    CF_TEST(test_update_refuses_another_shape),
    CF_TEST(test_allocation_ends_a_capture_of_its_thread),
    CF_TEST(test_relaxed_capture_allows_allocation),
    CF_TEST(test_a_thread_can_relax_itself_for_a_while),
    CF_TEST(test_waiting_for_a_captured_stream_ends_the_capture),
    CF_TEST(test_captured_event_cannot_be_asked),
    CF_TEST(test_capture_must_be_joined),
    CF_TEST(test_capture_cannot_depend_on_what_ran_before),
    CF_TEST(test_capture_is_begun_and_ended_once),
    CF_TEST(test_capture_is_ended_by_its_thread),
    CF_TEST(test_host_functions_and_values_are_captured),
    CF_TEST(test_external_records_become_nodes),
    CF_TEST(test_graph_is_built_by_hand_and_its_nodes_changed),
    CF_TEST(test_node_list_is_cut_to_the_room_given),
    CF_TEST(test_empty_graph_runs),
};
CF_GROUP(graphs)
