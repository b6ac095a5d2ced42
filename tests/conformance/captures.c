/* SPDX-License-Identifier: MIT */
/* Captures that meet what they do not allow, several captures of one thread, and what the driver logs. */
#include "tests/conformance/conformance.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 256

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

/* Launches the graph once. */
static void run(CUgraph graph, CUstream stream)
{
    CUgraphExec exec = NULL;
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuGraphExecDestroy(exec));
}

static size_t nodes_in(CUgraph graph)
{
    size_t count = 0;
    cu_ok(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static CUresult copy_as_batch(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = COUNT * 4, first = 0, failed = 0;
    return cu->cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, &failed, stream);
}

/* A program that ignores the status loses the copies, and nothing else shows it. */
static void test_a_refused_batch_of_copies_leaves_the_capture(void **state)
{
    (void)state;
    if (cu->cuMemcpyBatchAsync == NULL) {
        cf_skip("cuMemcpyBatchAsync is absent");
    }
    CUstream stream = cf_stream();
    CUdeviceptr from = cf_device(COUNT * 4), to = cf_device(COUNT * 4);
    cu_ok(cuMemsetD32Async(to, 5, COUNT, stream));
    cu_ok(cuMemsetD32Async(from, 9, COUNT, stream));
    cu_ok(cuStreamSynchronize(stream));
    begin(stream);
    assert_int_equal(copy_as_batch(to, from, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cf_launch_add(stream, to, COUNT, 1);
    CUgraph graph = end(stream);
    assert_int_equal(nodes_in(graph), 1);
    run(graph, stream);
    cf_expect_words(stream, to, COUNT, 6);
    cu_ok(cuGraphDestroy(graph));
}

/* They use the null stream, which is not ordered with a non-blocking one. */
static void test_synchronous_copies_go_on_beside_a_capture(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(64);
    uint32_t word = 77, got = 0;
    begin(stream);
    cu_ok(cuMemcpyHtoD(data, &word, 4));
    cu_ok(cuMemcpyDtoH(&got, data, 4));
    assert_int_equal(got, 77);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_ok(cuGraphDestroy(end(stream)));
}

static struct {
    CUstream busy;
    bool is_page_locked;
    _Atomic(bool) begins;
    CUresult taken, freed, asked;
} freeing;

/* Take memory and free it, and look at once whether the stream is done. */
static void *free_memory(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr block = 0;
    void *host = NULL;
    (void)unused;
    CUresult result = cu->cuCtxPushCurrent(cf_context->native);
    result = result == CUDA_SUCCESS ? cu->cuThreadExchangeStreamCaptureMode(&mode) : result;
    atomic_store(&freeing.begins, true);
    freeing.taken = result != CUDA_SUCCESS   ? result
                    : freeing.is_page_locked ? cu->cuMemHostAlloc(&host, 1, 0)
                                             : cu->cuMemAlloc(&block, 1);
    freeing.freed = freeing.is_page_locked ? cu->cuMemFreeHost(host) : cu->cuMemFree(block);
    freeing.asked = cu->cuStreamQuery(freeing.busy);
    (void)cu->cuCtxPopCurrent(&(CUcontext){NULL});
    return NULL;
}

/* A wait for a whole context that no capture refuses is built upon this (driver/whole.h). */
static void test_freeing_memory_waits_for_all_beside_a_capture(void **state)
{
    (void)state;
    CUstream captured[2] = {cf_stream(), NULL};
    freeing.busy = cf_stream();
    cu_ok(cuStreamCreate(&captured[1], CU_STREAM_DEFAULT));
    for (int i = 0; i < 12; i++) {
        CUgraph graph;
        pthread_t thread;
        freeing.is_page_locked = i % 2 != 0;
        atomic_store(&freeing.begins, false);
        cf_close_gate(freeing.busy);
        cu_ok(cuStreamBeginCapture(captured[i / 2 % 2], (CUstreamCaptureMode)(i / 4)));
        assert_int_equal(pthread_create(&thread, NULL, free_memory, NULL), 0);
        while (!atomic_load(&freeing.begins)) {
            sched_yield();
        }
        for (int yields = 0; yields < 200; yields++) {
            sched_yield();
        }
        cf_open_gate();
        assert_int_equal(pthread_join(thread, NULL), 0);
        cu_ok(cuStreamEndCapture(captured[i / 2 % 2], &graph));
        cu_ok(cuGraphDestroy(graph));
        assert_int_equal(freeing.taken, CUDA_SUCCESS);
        assert_int_equal(freeing.freed, CUDA_SUCCESS);
        assert_int_equal(freeing.asked, CUDA_SUCCESS);
    }
    cu_ok(cuStreamDestroy(captured[1]));
}

static void test_streams_work_again_after_an_unjoined_capture(void **state)
{
    (void)state;
    CUstream a = cf_stream(), b = cf_stream();
    CUevent fork = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUgraph graph = NULL;
    cu_ok(cuMemsetD32Async(data, 1, COUNT, a));
    cu_ok(cuStreamSynchronize(a));
    begin(a);
    cf_launch_add(a, data, COUNT, 10);
    cu_ok(cuEventRecord(fork, a));
    cu_ok(cuStreamWaitEvent(b, fork, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(b, data, COUNT, 100);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    assert_null(graph);
    assert_int_equal(status_of(a), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    cu_ok(cuEventRecord(fork, a)); /* and the event is an ordinary one again */
    cu_ok(cuStreamWaitEvent(b, fork, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(b, data, COUNT, 1000);
    cf_expect_words(b, data, COUNT, 1001);
}

/* ---- one capture beside another -------------------------------------------------------------- */

/* Work that is captured on `aside` becomes one node of the capture on `stream`. */
static void add_child(CUstream stream, CUgraph child)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    const CUgraphNode *behind = NULL;
    CUgraphNode node = NULL;
    size_t count = 0;
    cu_ok(cuStreamGetCaptureInfo(stream, &status, NULL, &graph, &behind, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_ok(cuGraphAddChildGraphNode(&node, graph, behind, count, child));
    CUgraphNodeType type;
    cu_ok(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_GRAPH);
    cu_ok(cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

/* fill 1; a child of (add `value`; copy to `copy`); add 10 to the copy: three nodes in a line. */
static CUgraph capture_with_child(CUstream stream, CUdeviceptr data, CUdeviceptr copy, uint32_t value)
{
    CUstream aside = cf_stream();
    begin(stream);
    cu_ok(cuMemsetD32Async(data, 1, COUNT, stream));
    begin(aside);
    cf_launch_add(aside, data, COUNT, value);
    cu_ok(cuMemcpyDtoDAsync(copy, data, COUNT * 4, aside));
    CUgraph child = end(aside);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    add_child(stream, child);
    cu_ok(cuGraphDestroy(child)); /* the node has a copy of it */
    cf_launch_add(stream, copy, COUNT, 10);
    return end(stream);
}

static void test_a_capture_takes_another_one_as_a_child(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), copy = cf_device(COUNT * 4);
    CUgraph graph = capture_with_child(stream, data, copy, 100);
    size_t edges = 0;
    cu_ok(cuGraphGetEdges(graph, NULL, NULL, &edges));
    assert_int_equal(nodes_in(graph), 3);
    assert_int_equal(edges, 2);
    CUgraphExec exec = NULL;
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, copy, COUNT, 111);
    CUgraph other = capture_with_child(stream, data, copy, 500); /* the same shape: an update does */
    CUgraphExecUpdateResultInfo info;
    cu_ok(cuGraphExecUpdate(exec, other, &info));
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, copy, COUNT, 511);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
    cu_ok(cuGraphDestroy(other));
}

/* Behind one node come a kernel that fills the device many times, and one of an urgent stream: the graph is
 * told to keep priorities, so that one goes before most blocks of the other. */
static void test_nodes_keep_the_priority_of_their_stream(void **state)
{
    (void)state;
    enum { THREADS = 1024 };
    const bool is_light = getenv("GANTRY_TEST_LIGHT") != NULL;
    /* What fills a device are its threads.  The emulated one takes blocks one by one: there few threads and a
     * longer time do the same for less. */
    const bool is_emulated = strcmp(cu->name, "emulated") == 0;
    const uint32_t threads = is_emulated ? 8 : THREADS, waves = is_emulated || is_light ? 4 : 20;
    int least = 0, greatest = 0, multiprocessors = 0;
    uint64_t ns = is_emulated ? 500000 : 20000;
    CUstream origin = cf_stream(), wide = cf_stream(), urgent = NULL;
    CUevent event = cf_event();
    CUdeviceptr count = cf_device(4), seen = cf_device(4);
    void *crowd[] = {&count, &ns}, *look[] = {&count, &seen};
    uint32_t got = 0;
    cu_ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    cu_ok(
        cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cf_context->device));
    cu_ok(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest));
    const uint32_t blocks = (uint32_t)multiprocessors * (2048 / THREADS) * waves;
    begin(origin);
    cu_ok(cuMemsetD32Async(count, 0, 1, origin));
    cu_ok(cuEventRecord(event, origin));
    cu_ok(cuStreamWaitEvent(wide, event, 0));
    cu_ok(cuStreamWaitEvent(urgent, event, 0));
    cu_ok(cuLaunchKernel(cf_crowd, blocks, 1, 1, threads, 1, 1, 0, wide, crowd, NULL));
    cu_ok(cuLaunchKernel(cf_look, 1, 1, 1, 1, 1, 1, 0, urgent, look, NULL));
    cu_ok(cuEventRecord(event, wide));
    cu_ok(cuStreamWaitEvent(origin, event, 0));
    cu_ok(cuEventRecord(event, urgent));
    cu_ok(cuStreamWaitEvent(origin, event, 0));
    CUgraph graph = end(origin);
    CUgraphExec exec = NULL;
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    for (int i = 0; i < (is_light ? 1 : 3); i++) {
        cu_ok(cuGraphLaunch(exec, origin));
        cu_ok(cuStreamSynchronize(origin));
        cu_ok(cuMemcpyDtoH(&got, seen, sizeof(got)));
        assert_true(got < blocks / 2);
        cf_expect_words(origin, count, 1, blocks);
    }
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
    cu_ok(cuStreamDestroy(urgent));
}

/* ---- nodes captured one by one into a graph ---------------------------------------------------- */

/* Make the work that `call` enqueues on the stream a node of `graph` behind `before`, and return the node. */
#define CAPTURE_INTO(graph, before, count, stream, call)                             \
    do {                                                                             \
        CUstreamCaptureStatus state_ = CU_STREAM_CAPTURE_STATUS_NONE;                \
        const CUgraphNode *last_ = NULL;                                             \
        size_t found_ = 0;                                                           \
        CUgraph same_ = NULL;                                                        \
        cu_ok(cuStreamBeginCaptureToGraph(stream, graph, before, NULL, count,        \
                                          CU_STREAM_CAPTURE_MODE_RELAXED));          \
        call;                                                                        \
        cu_ok(cuStreamGetCaptureInfo(stream, &state_, NULL, NULL, &last_, &found_)); \
        assert_int_equal(found_, 1);                                                 \
        captured_node = last_[0];                                                    \
        cu_ok(cuStreamEndCapture(stream, &same_));                                   \
        assert_ptr_equal(same_, graph);                                              \
    } while (0)
static CUgraphNode captured_node;

/* fill 1 and record; add 10 behind the fill; copy behind both. */
static void test_single_calls_are_captured_into_a_graph(void **state)
{
    (void)state;
    if (cu->cuStreamBeginCaptureToGraph == NULL) {
        cf_skip("cuStreamBeginCaptureToGraph is absent");
    }
    CUstream stream = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4), copy = cf_device(COUNT * 4);
    CUgraph graph = NULL;
    CUgraphNode recorded, both[2];
    cu_ok(cuGraphCreate(&graph, 0));
    CAPTURE_INTO(graph, NULL, 0, stream, cu_ok(cuMemsetD32Async(data, 1, COUNT, stream)));
    CUgraphNode fill = captured_node;
    cu_ok(cuGraphAddEventRecordNode(&recorded, graph, &fill, 1, event));
    CAPTURE_INTO(graph, &fill, 1, stream, cf_launch_add(stream, data, COUNT, 10));
    both[0] = captured_node;
    both[1] = recorded;
    CAPTURE_INTO(graph, both, 2, stream, cu_ok(cuMemcpyAsync(copy, data, COUNT * 4, stream)));
    size_t edges = 0;
    cu_ok(cuGraphGetEdges(graph, NULL, NULL, &edges));
    assert_int_equal(nodes_in(graph), 4);
    assert_int_equal(edges, 4);
    run(graph, stream);
    cf_expect_words(stream, copy, COUNT, 11);
    cu_ok(cuEventQuery(event));
    cu_ok(cuGraphDestroy(graph));
}

/* ---- what breaks when two are under way ------------------------------------------------------- */

/* An inner capture that forbids much is broken by a call that it forbids; does that break the outer one,
 * too? */
static void break_inner(CUstreamCaptureMode mode, CUstreamCaptureStatus then)
{
    CUstream outer = cf_stream(), inner = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4), address = 0;
    CUgraph graph = NULL;
    cu_ok(cuStreamBeginCapture(outer, mode));
    cu_ok(cuMemsetD32Async(data, 8, COUNT, outer));
    begin(inner);
    cf_launch_add(inner, data, COUNT, 1);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&address, 64));
    assert_int_equal(status_of(inner), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(status_of(outer), then);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(inner, &graph));
    if (then != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(outer, &graph));
        return;
    }
    cf_launch_add(outer, data, COUNT, 2);
    graph = end(outer);
    assert_int_equal(nodes_in(graph), 2);
    run(graph, outer);
    cf_expect_words(outer, data, COUNT, 10);
    cu_ok(cuGraphDestroy(graph));
}

static void test_a_forbidden_call_breaks_the_captures_that_forbid_it(void **state)
{
    (void)state;
    break_inner(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    break_inner(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

/* A thread that captures makes executable graphs in relaxed mode only. */
static void test_an_executable_graph_is_made_beside_a_capture(void **state)
{
    (void)state;
    CUstream stream = cf_stream(), other = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUgraphExec exec = NULL;
    CUgraph broken = NULL;
    begin(stream);
    cu_ok(cuMemsetD32Async(data, 8, COUNT, stream));
    CUgraph graph = end(stream);
    begin(stream);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &broken));
    begin(stream);
    cu_ok(cuThreadExchangeStreamCaptureMode(&mode));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuGraphLaunch(exec, other));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_ok(cuGraphDestroy(end(stream)));
    cf_expect_words(other, data, COUNT, 8);
    cu_ok(cuGraphDestroy(graph));
}

/* A capture breaks by itself, not by a call that others forbid: that does nothing to a relaxed one. */
static void test_a_relaxed_capture_goes_on_beside_one_that_fails(void **state)
{
    (void)state;
    CUstream outer = cf_stream(), inner = cf_stream(), side = cf_stream();
    CUevent fork = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    CUgraph graph = NULL;
    cu_ok(cuStreamBeginCapture(outer, CU_STREAM_CAPTURE_MODE_RELAXED));
    begin(inner);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(inner));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(inner, &graph));
    assert_int_equal(status_of(outer), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    begin(inner);
    cu_ok(cuEventRecord(fork, inner));
    cu_ok(cuStreamWaitEvent(side, fork, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(side, data, COUNT, 1);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(inner, &graph));
    assert_int_equal(status_of(outer), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_ok(cuGraphDestroy(end(outer)));
}

/* A context that has a capture, in whatever mode, cannot be synchronised; the call breaks the capture. */
static void test_no_capture_survives_its_context_being_synchronised(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUgraph graph = NULL;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_not_equal(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

/* ---- what copies of a graph tell -------------------------------------------------------------- */

static CUDA_MEMCPY3D params_of_only_node(CUgraph graph)
{
    CUgraphNode node = NULL;
    size_t count = 1;
    CUDA_MEMCPY3D params;
    memset(&params, 0, sizeof(params));
    assert_int_equal(nodes_in(graph), 1);
    cu_ok(cuGraphGetNodes(graph, &node, &count));
    cu_ok(cuGraphMemcpyNodeGetParams(node, &params));
    return params;
}

static uintptr_t source_of(const CUDA_MEMCPY3D *params)
{
    return params->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)params->srcHost
                                                       : (uintptr_t)params->srcDevice;
}

static uintptr_t target_of(const CUDA_MEMCPY3D *params)
{
    return params->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)params->dstHost
                                                       : (uintptr_t)params->dstDevice;
}

/* Pageable memory is captured without complaint; the node has both addresses of the copy. */
static void test_copy_nodes_tell_their_ends(void **state)
{
    (void)state;
    static uint32_t pageable[COUNT];
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    begin(stream);
    cu_ok(cuMemcpyHtoDAsync(data, pageable, sizeof(pageable), stream));
    CUgraph graph = end(stream);
    CUDA_MEMCPY3D params = params_of_only_node(graph);
    assert_int_equal(source_of(&params), (uintptr_t)pageable);
    assert_int_equal(target_of(&params), data);
    assert_int_equal(params.WidthInBytes * params.Height * params.Depth, sizeof(pageable));
    cu_ok(cuGraphDestroy(graph));
    begin(stream);
    cu_ok(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pageable, data, sizeof(pageable), stream));
    graph = end(stream);
    params = params_of_only_node(graph);
    assert_int_equal(source_of(&params), data);
    assert_int_equal(target_of(&params), (uintptr_t)pageable);
    cu_ok(cuGraphDestroy(graph));
}

/* ---- the log ----------------------------------------------------------------------------------- */

static struct {
    pthread_t thread;
    unsigned lines;
    char all[1024], last[256];
} heard;

static void hear(void *data, CUlogLevel level, char *message, size_t length)
{
    (void)level;
    assert_ptr_equal(data, &heard);
    heard.lines++;
    heard.thread = pthread_self();
    snprintf(heard.last, sizeof(heard.last), "%.*s", (int)length, message);
    strncat(heard.all, heard.last, sizeof(heard.all) - strlen(heard.all) - 1);
}

static void test_failing_calls_are_logged_on_their_thread(void **state)
{
    (void)state;
    if (cu->cuLogsRegisterCallback == NULL) {
        cf_skip("cuLogsRegisterCallback is absent");
    }
    CUlogsCallbackHandle handle = NULL;
    CUstream stream = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    uint32_t count = COUNT, value = 1;
    void *params[] = {&data, &count, &value};
    memset(&heard, 0, sizeof(heard));
    cu_ok(cuLogsRegisterCallback(hear, &heard, &handle));
    cf_close_gate(stream);
    cu_ok(cuEventRecord(event, stream));
    CUresult pending = cu->cuEventQuery(event);
    cf_open_gate();
    unsigned after_query = heard.lines;
    CUresult launch = cu->cuLaunchKernel(cf_add, 1, 1, 1, 4096, 1, 1, 0, stream, params, NULL);
    unsigned after_launch = heard.lines;
    cu_ok(cuLogsUnregisterCallback(handle));
    assert_int_not_equal(cu->cuLaunchKernel(cf_add, 1, 1, 1, 4096, 1, 1, 0, stream, params, NULL),
                         CUDA_SUCCESS);
    assert_int_equal(pending, CUDA_ERROR_NOT_READY);
    assert_int_equal(after_query, 0);
    assert_int_equal(launch, CUDA_ERROR_INVALID_VALUE);
    assert_true(after_launch >= 2); /* the reason, and the end of the call */
    assert_int_equal(heard.lines, after_launch);
    assert_true(pthread_equal(heard.thread, pthread_self()));
    assert_non_null(strstr(heard.all, "(4096,1,1)"));
    assert_non_null(strstr(heard.last, "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel"));
}

static const struct CMUnitTest captures[] = {
    CF_TEST(test_a_refused_batch_of_copies_leaves_the_capture),
    CF_TEST(test_synchronous_copies_go_on_beside_a_capture),
    CF_TEST(test_freeing_memory_waits_for_all_beside_a_capture),
    CF_TEST(test_streams_work_again_after_an_unjoined_capture),
    CF_TEST(test_a_capture_takes_another_one_as_a_child),
    CF_TEST(test_nodes_keep_the_priority_of_their_stream),
    CF_TEST(test_single_calls_are_captured_into_a_graph),
    CF_TEST(test_a_forbidden_call_breaks_the_captures_that_forbid_it),
    CF_TEST(test_an_executable_graph_is_made_beside_a_capture),
    CF_TEST(test_a_relaxed_capture_goes_on_beside_one_that_fails),
    CF_TEST(test_no_capture_survives_its_context_being_synchronised),
    CF_TEST(test_copy_nodes_tell_their_ends),
    CF_TEST(test_failing_calls_are_logged_on_their_thread),
};
CF_GROUP(captures)
