/* SPDX-License-Identifier: MIT */
/* Nodes of executable graphs that get other work: kernels, copies, fills and events. */
#include "tests/conformance/conformance.h"

#include <sched.h>
#include <string.h>

#define COUNT 1024

static void expect_launched(CUgraphExec exec, CUstream stream, CUdeviceptr data, uint32_t value)
{
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, data, COUNT, value);
}

/* Capture: fill `data`, copy it to `other`: each is a node. */
struct changed {
    CUstream stream;
    CUgraph graph;
    CUgraphNode fill, copy;
    CUgraphExec exec;
};

static struct changed make_changed(CUdeviceptr data, CUdeviceptr other)
{
    struct changed c = {.stream = cf_stream()};
    cu_ok(cuStreamBeginCapture(c.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu_ok(cuMemsetD32Async(data, 5, COUNT, c.stream));
    cu_ok(cuMemcpyAsync(other, data, COUNT * 4, c.stream));
    cu_ok(cuStreamEndCapture(c.stream, &c.graph));
    CUgraphNode nodes[2] = {NULL, NULL};
    size_t count = 2;
    cu_ok(cuGraphGetNodes(c.graph, nodes, &count));
    CUgraphNodeType type;
    cu_ok(cuGraphNodeGetType(nodes[0], &type));
    const bool swapped = type != CU_GRAPH_NODE_TYPE_MEMSET;
    c.fill = nodes[swapped];
    c.copy = nodes[!swapped];
    cu_ok(cuGraphInstantiateWithFlags(&c.exec, c.graph, 0));
    return c;
}

static void drop_changed(const struct changed *c)
{
    cu_ok(cuStreamSynchronize(c->stream));
    cu_ok(cuGraphExecDestroy(c->exec));
    cu_ok(cuGraphDestroy(c->graph));
}

static void test_fills_and_copies_of_an_exec_are_changed(void **state)
{
    (void)state;
    CUdeviceptr data = cf_device(COUNT * 4), other = cf_device(COUNT * 4), third = cf_device(COUNT * 4);
    struct changed c = make_changed(data, other);
    expect_launched(c.exec, c.stream, other, 5);
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = third, .value = 8, .elementSize = 4, .width = COUNT, .height = 1};
    CUDA_MEMCPY3D copy;
    cu_ok(cuGraphMemcpyNodeGetParams(c.copy, &copy));
    copy.srcDevice = third;
    cu_ok(cuGraphExecMemsetNodeSetParams(c.exec, c.fill, &fill, cf_context->native));
    cu_ok(cuGraphExecMemcpyNodeSetParams(c.exec, c.copy, &copy, cf_context->native));
    expect_launched(c.exec, c.stream, other, 8);
    cf_expect_words(c.stream, data, COUNT, 5);
    fill.width = COUNT / 2; /* sizes may change */
    fill.value = 9;
    copy.WidthInBytes = COUNT * 2;
    cu_ok(cuMemsetD32Async(other, 0, COUNT, c.stream));
    cu_ok(cuGraphExecMemsetNodeSetParams(c.exec, c.fill, &fill, cf_context->native));
    cu_ok(cuGraphExecMemcpyNodeSetParams(c.exec, c.copy, &copy, cf_context->native));
    cu_ok(cuGraphLaunch(c.exec, c.stream));
    cf_expect_words(c.stream, other, COUNT / 2, 9);
    cf_expect_words(c.stream, other + COUNT * 2, COUNT / 2, 0);
    drop_changed(&c);
}

static void test_launches_under_way_keep_what_they_had(void **state)
{
    (void)state;
    CUdeviceptr data = cf_device(COUNT * 4), other = cf_device(COUNT * 4), third = cf_device(COUNT * 4);
    struct changed c = make_changed(data, other);
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = third, .value = 8, .elementSize = 4, .width = COUNT, .height = 1};
    CUDA_MEMCPY3D copy;
    cu_ok(cuGraphMemcpyNodeGetParams(c.copy, &copy));
    copy.srcDevice = third;
    copy.dstDevice = data;
    cf_close_gate(c.stream);
    cu_ok(cuGraphLaunch(c.exec, c.stream));
    cu_ok(cuGraphExecMemsetNodeSetParams(c.exec, c.fill, &fill, cf_context->native));
    cu_ok(cuGraphExecMemcpyNodeSetParams(c.exec, c.copy, &copy, cf_context->native));
    cu_ok(cuGraphLaunch(c.exec, c.stream));
    cf_open_gate();
    cf_expect_words(c.stream, other, COUNT, 5);
    cf_expect_words(c.stream, data, COUNT, 8);
    drop_changed(&c);
}

static void test_exec_refuses_nodes_of_another_kind(void **state)
{
    (void)state;
    CUdeviceptr data = cf_device(COUNT * 4), other = cf_device(COUNT * 4);
    struct changed c = make_changed(data, other);
    const uint32_t *pinned = cf_pinned(COUNT);
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = data, .value = 8, .elementSize = 4, .width = COUNT, .height = 1};
    CUDA_MEMCPY3D copy;
    cu_ok(cuGraphMemcpyNodeGetParams(c.copy, &copy));
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuGraphExecMemsetNodeSetParams(c.exec, c.copy, &fill, cf_context->native));
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuGraphExecMemcpyNodeSetParams(c.exec, c.fill, &copy, cf_context->native));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST; /* the kinds of the operands must stay */
    copy.srcHost = pinned;
    copy.srcDevice = 0;
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuGraphExecMemcpyNodeSetParams(c.exec, c.copy, &copy, cf_context->native));
    expect_launched(c.exec, c.stream, other, 5); /* the refused change has changed nothing */
    drop_changed(&c);
}

static void test_function_and_size_of_a_kernel_are_changed(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    uint32_t *host = cf_pinned(COUNT);
    uint32_t count = COUNT, value = 3;
    void *params[] = {&data, &count, &value}, *others[] = {&data};
    CUDA_KERNEL_NODE_PARAMS_v2 node = cf_kernel_node(cf_add, COUNT / 64, 64, params);
    CUgraph graph = NULL;
    CUgraphNode first = NULL;
    CUgraphExec exec = NULL;
    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = i;
    }
    cu_ok(cuMemcpyHtoDAsync(data, host, COUNT * 4, stream));
    cu_ok(cuGraphCreate(&graph, 0));
    cu_ok(cuGraphAddKernelNode(&first, graph, NULL, 0, &node));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    node.gridDimX = COUNT / 128; /* another grid and block */
    node.blockDimX = 128;
    cu_ok(cuGraphExecKernelNodeSetParams(exec, first, &node));
    cu_ok(cuGraphLaunch(exec, stream));
    node.func = NULL;
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuGraphExecKernelNodeSetParams(exec, first, &node));
    node.func = cf_reverse; /* another function, with other parameters */
    node.gridDimX = 1;
    node.blockDimX = COUNT;
    node.sharedMemBytes = COUNT * 4;
    node.kernelParams = others;
    cu_ok(cuGraphExecKernelNodeSetParams(exec, first, &node));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuMemcpyDtoHAsync(host, data, COUNT * 4, stream));
    cu_ok(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(host[i], COUNT - 1 - i + 3);
    }
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

/* Copies and fills that are made nodes by a call of their own: what their operands are is known by address.
 */
static void test_copies_and_fills_are_added(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), other = cf_device(COUNT * 4);
    uint32_t *host = cf_pinned(COUNT), *back = cf_pinned(COUNT);
    CUgraph graph = NULL;
    CUgraphNode in = NULL, fill = NULL, across = NULL, out = NULL;
    CUgraphExec exec = NULL;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = cf_address(host),
                          .dstDevice = data,
                          .WidthInBytes = COUNT * 4,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS five = {
        .dst = data, .value = 5, .elementSize = 4, .width = COUNT / 2, .height = 1};
    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = 7;
        back[i] = 0;
    }
    cu_ok(cuGraphCreate(&graph, 0));
    cu_ok(cuGraphAddMemcpyNode(&in, graph, NULL, 0, &copy, cf_context->native));
    cu_ok(cuGraphAddMemsetNode(&fill, graph, &in, 1, &five, cf_context->native));
    copy.srcDevice = data;
    copy.dstDevice = other;
    cu_ok(cuGraphAddMemcpyNode(&across, graph, &fill, 1, &copy, cf_context->native));
    copy.srcDevice = other;
    copy.dstDevice = cf_address(back);
    cu_ok(cuGraphAddMemcpyNode(&out, graph, &across, 1, &copy, cf_context->native));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t turn = 0; turn < 2; turn++) { /* as they are; with other operands of the same kinds */
        cu_ok(cuGraphLaunch(exec, stream));
        cu_ok(cuStreamSynchronize(stream));
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(back[i], i < COUNT / 2 ? 5 + turn : 7);
        }
        cu_ok(cuGraphMemcpyNodeGetParams(across, &copy));
        cu_ok(cuGraphExecMemcpyNodeSetParams(exec, across, &copy, cf_context->native));
        five.value = 6;
        cu_ok(cuGraphExecMemsetNodeSetParams(exec, fill, &five, cf_context->native));
    }
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemcpyNode(&in, graph, NULL, 0, NULL, cf_context->native));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

/* A node that a capture into a graph has made can be addressed like nodes made by hand. */
static void test_node_captured_into_a_graph_is_changed(void **state)
{
    (void)state;
    if (cu->cuStreamBeginCaptureToGraph == NULL) {
        cf_skip("no capture into a graph (CUDA 12.3)");
    }
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    uint32_t *host = cf_pinned(COUNT), *other = cf_pinned(COUNT);
    CUgraph graph = NULL, same = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    size_t count = 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = 7;
        other[i] = 11;
    }
    cu_ok(cuGraphCreate(&graph, 0));
    cu_ok(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu_ok(cuMemcpyAsync(data, cf_address(host), COUNT * 4, stream));
    cu_ok(cuStreamEndCapture(stream, &same));
    cu_ok(cuGraphGetNodes(graph, &node, &count));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    expect_launched(exec, stream, data, 7);
    CUDA_MEMCPY3D copy;
    cu_ok(cuGraphMemcpyNodeGetParams(node, &copy));
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST) {
        copy.srcHost = other;
    } else {
        copy.srcDevice = cf_address(other);
    }
    cu_ok(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, cf_context->native));
    expect_launched(exec, stream, data, 11);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

/* fill and record: what the node records, and when, belongs to a launch. */
static void test_event_of_an_exec_is_changed(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUevent first = cf_timed_event(), second = cf_timed_event(), third = cf_timed_event();
    CUgraph graph = NULL;
    CUgraphNode fill = NULL, recorded = NULL;
    CUgraphExec exec = NULL;
    size_t count = 1;
    float ms = -1;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu_ok(cuMemsetD32Async(data, 5, COUNT, stream));
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphGetNodes(graph, &fill, &count));
    cu_ok(cuGraphAddEventRecordNode(&recorded, graph, &fill, 1, first));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cf_close_gate(stream);
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuGraphExecEventRecordNodeSetEvent(exec, recorded, second)); /* the launch has its own */
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(first));
    cu_ok(cuEventQuery(second)); /* nothing has recorded it */
    cf_open_gate();
    cu_ok(cuEventSynchronize(first));
    expect_launched(exec, stream, data, 5);
    cu_ok(cuEventElapsedTime(&ms, first, second));
    assert_true(ms >= 0);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphExecEventRecordNodeSetEvent(exec, fill, third));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

/* A chain of kernels with an event behind the first and one behind the last of them. */
struct chain {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode ends[2];
};

static struct chain make_chain(CUdeviceptr data, uint32_t length, const CUevent *events)
{
    struct chain c = {.graph = NULL};
    uint32_t count = COUNT, value = 1;
    void *params[] = {&data, &count, &value};
    const CUDA_KERNEL_NODE_PARAMS_v2 add = cf_kernel_node(cf_add, COUNT / 64, 64, params);
    CUgraphNode last = NULL;
    cu_ok(cuGraphCreate(&c.graph, 0));
    for (uint32_t i = 0; i < length; i++) {
        CUgraphNode node;
        cu_ok(cuGraphAddKernelNode(&node, c.graph, &last, i != 0, &add));
        last = node;
        if (i == 0) {
            cu_ok(cuGraphAddEventRecordNode(&c.ends[0], c.graph, &last, 1, events[0]));
        }
    }
    cu_ok(cuGraphAddEventRecordNode(&c.ends[1], c.graph, &last, 1, events[1]));
    cu_ok(cuGraphInstantiateWithFlags(&c.exec, c.graph, 0));
    return c;
}

/* What the event says from the launch on, before the device comes to the graph, and what a stream does that
 * is told then to wait for it. */
static void expect_pending(const struct chain *c, CUstream stream, const CUevent *events)
{
    CUstream other = cf_stream();
    cu_ok(cuEventQuery(events[0])); /* of an earlier record */
    cu_ok(cuEventQuery(events[1]));
    cf_close_gate(stream);
    cu_ok(cuGraphLaunch(c->exec, stream));
    const CUresult first = cu->cuEventQuery(events[0]), last = cu->cuEventQuery(events[1]);
    CUresult waits = cu->cuStreamWaitEvent(other, events[0], CU_EVENT_WAIT_DEFAULT);
    waits = waits == CUDA_SUCCESS ? cu->cuStreamQuery(other) : waits;
    cf_open_gate();
    assert_int_equal(first, CUDA_ERROR_NOT_READY);
    assert_int_equal(last, CUDA_ERROR_NOT_READY);
    assert_int_equal(waits, CUDA_ERROR_NOT_READY);
    cu_ok(cuEventSynchronize(events[0]));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuStreamSynchronize(other));
    cu_ok(cuEventQuery(events[0]));
    cu_ok(cuEventQuery(events[1]));
}

/* An event that has passed says from the launch on that it has not, on which Gantry's completions rely. */
static void test_a_launch_records_the_events_of_its_graph(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 2, 100};
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const CUevent made[2] = {cf_event(), cf_event()}, used[2] = {cf_event(), cf_event()};
        struct chain c = make_chain(data, lengths[i], made);
        for (int e = 0; e < 2; e++) {
            cu_ok(cuEventRecord(used[e], stream));
            cu_ok(cuEventSynchronize(used[e]));
            cu_ok(cuGraphExecEventRecordNodeSetEvent(c.exec, c.ends[e], used[e]));
        }
        for (int launch = 0; launch < 3; launch++) {
            expect_pending(&c, stream, used);
        }
        cu_ok(cuGraphExecDestroy(c.exec));
        cu_ok(cuGraphDestroy(c.graph));
    }
}

/* Has the event passed, after a while? */
static CUresult await_event(CUevent event)
{
    CUresult passed = CUDA_ERROR_NOT_READY;
    for (uint32_t look = 0; look < 1000000 && passed == CUDA_ERROR_NOT_READY; look++) {
        passed = cu->cuEventQuery(event);
        sched_yield();
    }
    return passed;
}

/* An event behind one kernel passes while another kernel of the graph runs.  Nothing fails before that may
 * end. */
static void test_an_event_passes_while_its_graph_goes_on(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    const CUevent events[2] = {cf_event(), cf_event()};
    CUevent behind_held = cf_event();
    uint32_t *words = cf_pinned(3);
    CUdeviceptr begun = cf_address(words), open = begun + 4, ended = begun + 8;
    void *params[] = {&begun, &open, &ended};
    const CUDA_KERNEL_NODE_PARAMS_v2 hold = cf_kernel_node(cf_hold, 1, 1, params);
    struct chain c = make_chain(cf_device(COUNT * 4), 2, events);
    CUgraphNode held, end;
    CUgraphExec exec;
    cu_ok(cuGraphAddKernelNode(&held, c.graph, NULL, 0, &hold));
    cu_ok(cuGraphAddEventRecordNode(&end, c.graph, &held, 1, behind_held));
    cu_ok(cuGraphInstantiateWithFlags(&exec, c.graph, 0));
    cu_ok(cuGraphLaunch(exec, stream));
    const CUresult passed = await_event(events[1]);
    const CUresult not_yet = cu->cuEventQuery(behind_held), busy = cu->cuStreamQuery(stream);
    __atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(passed, CUDA_SUCCESS);
    assert_int_equal(not_yet, CUDA_ERROR_NOT_READY);
    assert_int_equal(busy, CUDA_ERROR_NOT_READY);
    cu_ok(cuEventQuery(behind_held));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphExecDestroy(c.exec));
    cu_ok(cuGraphDestroy(c.graph));
}

/* A stream waits for a lane of a graph that has been launched, and not for the rest of it. */
static void test_a_stream_waits_for_one_lane_of_a_graph(void **state)
{
    (void)state;
    CUstream stream = cf_stream(), other = cf_stream();
    const CUevent events[2] = {cf_event(), cf_event()};
    CUevent behind = cf_event();
    uint32_t *words = cf_pinned(3);
    CUdeviceptr data = cf_device(COUNT * 4), begun = cf_address(words), open = begun + 4, ended = begun + 8;
    void *params[] = {&begun, &open, &ended};
    const CUDA_KERNEL_NODE_PARAMS_v2 hold = cf_kernel_node(cf_hold, 1, 1, params);
    cu_ok(cuMemsetD32Async(data, 0, COUNT, stream));
    struct chain c = make_chain(data, 2, events);
    CUgraphNode held;
    CUgraphExec exec;
    cu_ok(cuGraphAddKernelNode(&held, c.graph, NULL, 0, &hold));
    cu_ok(cuGraphInstantiateWithFlags(&exec, c.graph, 0));
    cu_ok(cuGraphLaunch(exec, stream));
    CUresult queued = cu->cuStreamWaitEvent(other, events[1], CU_EVENT_WAIT_DEFAULT);
    queued = queued == CUDA_SUCCESS ? cu->cuMemsetD32Async(data, 9, COUNT / 2, other) : queued;
    queued = queued == CUDA_SUCCESS ? cu->cuEventRecord(behind, other) : queued;
    const CUresult passed = await_event(behind), busy = cu->cuStreamQuery(stream);
    __atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(queued, CUDA_SUCCESS);
    assert_int_equal(passed, CUDA_SUCCESS);
    assert_int_equal(busy, CUDA_ERROR_NOT_READY);
    cf_expect_words(other, data, COUNT / 2, 9);
    cf_expect_words(other, data + COUNT * 2, COUNT / 2, 2);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphExecDestroy(c.exec));
    cu_ok(cuGraphDestroy(c.graph));
}

/* A graph of a node that waits for `first`, and of one behind it that records `told`. */
struct waiting {
    CUgraph graph;
    CUgraphNode wait, end;
    CUgraphExec exec;
};

static struct waiting make_waiting(CUevent first, CUevent told)
{
    struct waiting w = {.graph = NULL};
    cu_ok(cuGraphCreate(&w.graph, 0));
    cu_ok(cuGraphAddEventWaitNode(&w.wait, w.graph, NULL, 0, first));
    cu_ok(cuGraphAddEventRecordNode(&w.end, w.graph, &w.wait, 1, told));
    cu_ok(cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    return w;
}

static void drop_waiting(const struct waiting *w)
{
    cu_ok(cuGraphExecDestroy(w->exec));
    cu_ok(cuGraphDestroy(w->graph));
}

/* Each launch waits for the record that is there at its call: also one of an event that was set since the
 * launch before, and of one that a graph has recorded. */
static void test_a_graph_waits_for_the_record_that_is_there(void **state)
{
    (void)state;
    CUstream stream = cf_stream(), other = cf_stream();
    CUevent never = cf_event(), told = cf_event(), events[2] = {cf_event(), cf_event()};
    struct waiting w = make_waiting(never, told);
    struct waiting before = make_waiting(never, events[1]);
    CUgraphNodeType type;
    cu_ok(cuGraphNodeGetType(w.wait, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    cu_ok(cuGraphLaunch(w.exec, stream)); /* nothing has recorded it */
    cu_ok(cuStreamSynchronize(stream));
    for (int i = 0; i < 2; i++) {
        cu_ok(cuGraphExecEventWaitNodeSetEvent(w.exec, w.wait, events[i]));
        cf_close_gate(other);
        CUresult queued =
            i == 0 ? cu->cuEventRecord(events[0], other) : cu->cuGraphLaunch(before.exec, other);
        queued = queued == CUDA_SUCCESS ? cu->cuGraphLaunch(w.exec, stream) : queued;
        const CUresult waits = cu->cuEventQuery(told), busy = cu->cuStreamQuery(stream);
        cf_open_gate();
        assert_int_equal(queued, CUDA_SUCCESS);
        assert_int_equal(waits, CUDA_ERROR_NOT_READY);
        assert_int_equal(busy, CUDA_ERROR_NOT_READY);
        cu_ok(cuStreamSynchronize(stream));
        cu_ok(cuEventQuery(told));
    }
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphExecEventWaitNodeSetEvent(w.exec, w.end, told));
    cu_ok(cuStreamSynchronize(other));
    drop_waiting(&w);
    drop_waiting(&before);
}

/* A record behind the call of the launch is not waited for, though the device has not come to the node. */
static void test_a_graph_does_not_wait_for_a_later_record(void **state)
{
    (void)state;
    CUstream stream = cf_stream(), other = cf_stream();
    CUevent event = cf_event(), told = cf_event();
    uint32_t *words = cf_pinned(3);
    CUdeviceptr begun = cf_address(words), open = begun + 4, ended = begun + 8;
    void *params[] = {&begun, &open, &ended};
    struct waiting w = make_waiting(event, told);
    cu_ok(cuEventRecord(event, other));
    cu_ok(cuStreamSynchronize(other));
    cf_close_gate(stream);
    CUresult queued = cu->cuGraphLaunch(w.exec, stream);
    queued = queued == CUDA_SUCCESS ? cu->cuLaunchKernel(cf_hold, 1, 1, 1, 1, 1, 1, 0, other, params, NULL)
                                    : queued;
    queued = queued == CUDA_SUCCESS ? cu->cuEventRecord(event, other) : queued;
    cf_open_gate();
    const CUresult passed = await_event(told), busy = cu->cuStreamQuery(other);
    __atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
    cu_ok(cuStreamSynchronize(other));
    assert_int_equal(queued, CUDA_SUCCESS);
    assert_int_equal(passed, CUDA_SUCCESS);
    assert_int_equal(busy, CUDA_ERROR_NOT_READY);
    drop_waiting(&w);
}

static const struct CMUnitTest changes[] = {
    CF_TEST(test_a_stream_waits_for_one_lane_of_a_graph),
    CF_TEST(test_a_graph_waits_for_the_record_that_is_there),
    CF_TEST(test_a_graph_does_not_wait_for_a_later_record),
    CF_TEST(test_a_launch_records_the_events_of_its_graph),
    CF_TEST(test_an_event_passes_while_its_graph_goes_on),
    CF_TEST(test_event_of_an_exec_is_changed),
    CF_TEST(test_fills_and_copies_of_an_exec_are_changed),
    CF_TEST(test_launches_under_way_keep_what_they_had),
    CF_TEST(test_exec_refuses_nodes_of_another_kind),
    CF_TEST(test_function_and_size_of_a_kernel_are_changed),
    CF_TEST(test_copies_and_fills_are_added),
    CF_TEST(test_node_captured_into_a_graph_is_changed),
};
CF_GROUP(changes)
