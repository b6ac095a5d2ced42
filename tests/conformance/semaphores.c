/* SPDX-License-Identifier: MIT */
/* Timeline semaphores that another API has exported.  These are the tests that need no such API: on a
 * device only the error for descriptors that are no semaphores, on the emulated driver also a memory file
 * that stands for a timeline. */
#include "tests/conformance/conformance.h"

#include "tests/support/timeline_shell.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { WORDS = 64 };

static bool available(void)
{
    return cu->cuImportExternalSemaphore != NULL && cu->cuDestroyExternalSemaphore != NULL &&
           cu->cuSignalExternalSemaphoresAsync != NULL && cu->cuWaitExternalSemaphoresAsync != NULL;
}

static CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC timeline_of(int fd)
{
    return (CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC){
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = fd};
}

static void enqueue_wait(CUexternalSemaphore semaphore, uint64_t value, CUstream stream)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = value};
    cu_ok(cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

static void enqueue_signal(CUexternalSemaphore semaphore, uint64_t value, CUstream stream)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    cu_ok(cuSignalExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

/* A driver only says that the descriptor is wrong: Gantry looks at descriptors itself. */
static void test_what_is_no_semaphore_is_refused(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no external semaphores");
    }
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = timeline_of(open("/dev/null", O_RDWR | O_CLOEXEC));
    CUexternalSemaphore semaphore = NULL;
    assert_true(desc.handle.fd >= 0);
    cu_is(CUDA_ERROR_UNKNOWN, cuImportExternalSemaphore(&semaphore, &desc));
    assert_true(close(desc.handle.fd) == 0 || !cu->emulated); /* it is still ours */
}

static CUexternalSemaphore open_timeline(struct gy_timeline_file **file)
{
    CUexternalSemaphore semaphore = NULL;
    int fd = gy_timeline_file_create(file);
    assert_true(fd >= 0);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = timeline_of(fd);
    cu_ok(cuImportExternalSemaphore(&semaphore, &desc));
    return semaphore;
}

static void close_timeline(CUexternalSemaphore semaphore, struct gy_timeline_file *file)
{
    cu_ok(cuDestroyExternalSemaphore(semaphore));
    munmap(file, GY_TIMELINE_FILE_BYTES);
}

/* Only the emulated driver has timelines without Vulkan; on a device samples/shared_frame covers them. */
static bool has_timelines(void)
{
    return available() && cu->emulated;
}

static void test_none_at_all_is_refused(void **state)
{
    (void)state;
    if (!has_timelines()) {
        return;
    }
    struct gy_timeline_file *file;
    CUexternalSemaphore semaphore = open_timeline(&file);
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = 1};
    CUstream stream = cf_stream();
    cu_is(CUDA_ERROR_INVALID_VALUE, cuWaitExternalSemaphoresAsync(&semaphore, &wait, 0, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuSignalExternalSemaphoresAsync(&semaphore, &signal, 0, stream));
    close_timeline(semaphore, file);
}

static void test_a_wait_holds_its_own_stream_only(void **state)
{
    (void)state;
    if (!has_timelines()) {
        return;
    }
    struct gy_timeline_file *file;
    CUexternalSemaphore semaphore = open_timeline(&file);
    CUstream held = cf_stream(), other = cf_stream();
    CUdeviceptr data = cf_device(WORDS * 4);
    cu_ok(cuMemsetD32Async(data, 1, WORDS, other));
    cu_ok(cuStreamSynchronize(other));
    enqueue_wait(semaphore, 5, held);
    cf_launch_add(held, data, WORDS, 1);
    enqueue_signal(semaphore, 9, held);
    cf_expect_words(other, data, WORDS, 1);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    gy_timeline_file_signal(file, 4);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    gy_timeline_file_signal(file, 6); /* a value above it is enough */
    cf_expect_words(held, data, WORDS, 2);
    assert_int_equal(gy_timeline_file_read(file), 9);
    enqueue_signal(semaphore, 3, held); /* a device lowers the value, too */
    cu_ok(cuStreamSynchronize(held));
    assert_int_equal(gy_timeline_file_read(file), 3);
    close_timeline(semaphore, file);
}

static void test_another_process_signals(void **state)
{
    (void)state;
    if (!has_timelines()) {
        return;
    }
    struct gy_timeline_file *file;
    int fd = gy_timeline_file_create(&file), kept = dup(fd);
    CUexternalSemaphore semaphore = NULL;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = timeline_of(fd);
    cu_ok(cuImportExternalSemaphore(&semaphore, &desc));
    CUstream stream = cf_stream();
    enqueue_wait(semaphore, 1, stream);
    enqueue_signal(semaphore, 2, stream);
    pid_t child = timeline_shell_start(kept, 1, "exit 0");
    assert_int_not_equal(child, 0);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(gy_timeline_file_read(file), 2);
    assert_int_equal(close(kept), 0);
    close_timeline(semaphore, file);
}

static CUgraph capture(CUexternalSemaphore semaphore, uint64_t value, CUdeviceptr data, CUstream stream)
{
    CUgraph graph;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    enqueue_wait(semaphore, value, stream);
    cf_launch_add(stream, data, WORDS, 1);
    enqueue_signal(semaphore, value + 1, stream);
    cu_ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void expect_types(CUgraph graph)
{
    CUgraphNode nodes[3];
    size_t count = 3;
    uint32_t waits = 0, signals = 0;
    cu_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        cu_ok(cuGraphNodeGetType(nodes[i], &type));
        waits += type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
        signals += type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    }
    assert_int_equal(waits, 1);
    assert_int_equal(signals, 1);
}

/* Nodes of a graph, whose values are set anew by an update of the whole graph. */
static void test_a_graph_waits_and_signals(void **state)
{
    (void)state;
    if (!has_timelines()) {
        return;
    }
    struct gy_timeline_file *file;
    CUexternalSemaphore semaphore = open_timeline(&file);
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(WORDS * 4);
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    cu_ok(cuMemsetD32Async(data, 0, WORDS, stream));
    CUgraph first = capture(semaphore, 1, data, stream), second = capture(semaphore, 3, data, stream);
    expect_types(first);
    cu_ok(cuGraphInstantiateWithFlags(&exec, first, 0));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    gy_timeline_file_signal(file, 1);
    cf_expect_words(stream, data, WORDS, 1);
    assert_int_equal(gy_timeline_file_read(file), 2);
    cu_ok(cuGraphExecUpdate(exec, second, &info));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    gy_timeline_file_signal(file, 3);
    cf_expect_words(stream, data, WORDS, 2);
    assert_int_equal(gy_timeline_file_read(file), 4);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(first));
    cu_ok(cuGraphDestroy(second));
    close_timeline(semaphore, file);
}

/* Work that refers to a timeline keeps the timeline alive. */
static void test_a_wait_outlives_the_handle(void **state)
{
    (void)state;
    if (!has_timelines()) {
        return;
    }
    struct gy_timeline_file *file;
    CUexternalSemaphore semaphore = open_timeline(&file);
    CUstream stream = cf_stream();
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = 1};
    enqueue_wait(semaphore, 1, stream);
    cu_ok(cuDestroyExternalSemaphore(semaphore));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    gy_timeline_file_signal(file, 1);
    cu_ok(cuStreamSynchronize(stream));
    munmap(file, GY_TIMELINE_FILE_BYTES);
}

static const struct CMUnitTest semaphores[] = {
    CF_TEST(test_what_is_no_semaphore_is_refused),  CF_TEST(test_none_at_all_is_refused),
    CF_TEST(test_a_wait_holds_its_own_stream_only), CF_TEST(test_another_process_signals),
    CF_TEST(test_a_graph_waits_and_signals),        CF_TEST(test_a_wait_outlives_the_handle),
};
CF_GROUP(semaphores)
