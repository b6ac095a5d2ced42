/* SPDX-License-Identifier: MIT */
/* What the emulated driver tells the proof: who has enqueued what it carries out, and which bytes that
 * touches. */
#include "tests/emulator/emu_test.h"

#include "base/proof.h"

#include <pthread.h>
#include <string.h>

enum { MOST = 64 };

/* One line for each thing that was told while something of `number` was carried out. */
struct told {
    char what[80];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static struct told told[MOST];
static int told_count;
static uintptr_t watched;
static size_t watched_bytes;
static _Thread_local uint32_t enqueuing; /* whose work the thread enqueues */
static _Thread_local int depth;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    if (told_count < MOST) {
        vsnprintf(told[told_count++].what, sizeof(told[0].what), format, args);
    }
    pthread_mutex_unlock(&lock);
    va_end(args);
}

static int count_told(const char *what)
{
    int count = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < told_count; i++) {
        count += strcmp(told[i].what, what) == 0;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

/* What is being told now is behind it. */
static void forget_told(void)
{
    pthread_mutex_lock(&lock);
    told_count = 0;
    pthread_mutex_unlock(&lock);
}

static uint32_t enqueue(const void *queue)
{
    assert_non_null(queue);
    return enqueuing;
}

static void enter(uint32_t work, const char *name, uint64_t block, bool is_kernel)
{
    depth++;
    if (work != 0) {
        tell("%u: %s %d%s", work, name, (int)block, is_kernel ? " of a kernel" : "");
    }
}

static void leave(void)
{
    if (--depth != 0) {
        tell("left too often");
    }
}

static void touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    if ((uintptr_t)address - watched < watched_bytes) {
        tell("%s %zu at %zu", how == GY_PROOF_WRITE ? "write" : "read", bytes, (uintptr_t)address % 4096);
    }
}

static void watch(const void *from, size_t bytes)
{
    watched = (uintptr_t)from;
    watched_bytes = bytes;
}

static void forget(const void *address, size_t bytes)
{
    tell("forget %zu at %d", bytes, (uintptr_t)address - watched < watched_bytes);
}

/* Queues are told by the order in which they were heard of. */
static const void *known[MOST];
static int known_count; /* the emulated driver's lock is held where they are told; so is `known` guarded */

static int number_of(const void *queue)
{
    int at = 0;
    while (at < known_count && known[at] != queue) {
        at++;
    }
    if (at == known_count && known_count < MOST) {
        known[known_count++] = queue;
    }
    return at;
}

static void follow(const void *queue, const void *other)
{
    const int later = number_of(queue);
    tell("%d follows %d", later, number_of(other));
}

static void done(const void *queue)
{
    tell("%d is done", number_of(queue));
}

static void gone(const void *queue)
{
    tell("%d is gone", number_of(queue));
}

static const struct gy_proof_device device = {enqueue, enter,  leave, touch, watch,
                                              forget,  follow, done,  gone};

static int open_proof(void **state)
{
    const int result = et_open(state);
    if (result == 0) {
        emu.prove(&device);
        forget_told();
    }
    return result;
}

static void test_kernels_copies_and_fills(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    const CUdeviceptr words = et_words(1024, 0);
    assert_true((uintptr_t)words - watched < watched_bytes);
    forget_told();
    enqueuing = 7;
    cu_ok(cuMemsetD32Async(words + 64, 1, 10, stream));
    enqueuing = 8;
    cu_ok(cuMemcpyDtoDAsync(words + 1024, words + 128, 100, stream));
    enqueuing = 9;
    et_add(stream, words, 256, 1); /* of some blocks */
    enqueuing = 0;
    cu_ok(cuMemsetD32Async(words, 0, 1, stream));
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(count_told("7: a fill 0"), 1);
    assert_int_equal(count_told("write 40 at 64"), 1);
    assert_int_equal(count_told("8: a copy 0"), 1);
    assert_int_equal(count_told("read 100 at 128"), 1);
    assert_int_equal(count_told("write 100 at 1024"), 1);
    assert_int_equal(count_told("9: add 0 of a kernel"), 1);
    assert_int_equal(count_told("left too often"), 0);
    cu_ok(cuMemFree(words));
    assert_int_equal(count_told("forget 4096 at 1"), 1);
}

static void nothing(void *user)
{
    (void)user;
}

/* Nodes are of whoever launches the graph, each time anew. */
static void test_graphs(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    const CUdeviceptr words = et_words(64, 0);
    CUgraph graph;
    CUgraphExec exec;
    enqueuing = 1;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    et_add(stream, words, 1, 1);
    cu_ok(cuLaunchHostFunc(stream, nothing, NULL));
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t launch = 2; launch < 4; launch++) {
        enqueuing = launch;
        cu_ok(cuGraphLaunch(exec, stream));
    }
    enqueuing = 0;
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(count_told("1: add 0 of a kernel"), 0);
    assert_int_equal(count_told("2: add 0 of a kernel"), 1);
    assert_int_equal(count_told("3: add 0 of a kernel"), 1);
    assert_int_equal(count_told("2: a host function 0"), 1);
    assert_int_equal(count_told("3: a host function 0"), 1);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

/* Of rows the bytes between them are not touched. */
static void test_rows(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    const CUdeviceptr words = et_words(1024, 0);
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = words,
                                .srcPitch = 128,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = words + 2048,
                                .dstPitch = 256,
                                .WidthInBytes = 12,
                                .Height = 2};
    forget_told();
    known_count = 0;
    enqueuing = 5;
    cu_ok(cuMemcpy2DAsync(&copy, stream));
    enqueuing = 0;
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(count_told("5: a copy 0"), 1);
    assert_int_equal(count_told("read 12 at 0") + count_told("read 12 at 128"), 2);
    assert_int_equal(count_told("write 12 at 2048") + count_told("write 12 at 2304"), 2);
    assert_int_equal(count_told("0 is done"), 1); /* what the test has waited for */
    assert_int_equal(told_count, 6);
}

/* Each record, wait and question is told, of streams and events in the order in which they are named. */
static void test_queues(void **state)
{
    (void)state;
    CUstream one = et_stream(), other = et_stream(), waits = et_stream(), blocking;
    CUevent event;
    cu_ok(cuEventCreate(&event, 0));
    cu_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    forget_told();
    known_count = 0;
    cu_ok(cuStreamSynchronize(one)); /* 0 */
    cu_ok(cuStreamSynchronize(other));
    cu_ok(cuEventRecord(event, one)); /* 2 */
    cu_ok(cuStreamWaitEvent(waits, event, 0));
    cu_ok(cuEventSynchronize(event));
    cu_ok(cuEventQuery(event));
    cu_ok(cuStreamQuery(waits)); /* 3 */
    static const char *const lines[] = {"0 is done",   "1 is done", "2 is gone", "2 follows 0",
                                        "3 follows 2", "2 is done", "2 is done", "3 is done"};
    const int count = (int)(sizeof(lines) / sizeof(lines[0]));
    assert_int_equal(told_count, count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(told[i].what, lines[i]);
    }
    forget_told();
    cu_ok(cuStreamQuery(blocking)); /* 4 */
    cu_ok(cuStreamSynchronize(NULL));
    assert_int_equal(count_told("4 is done"), 2); /* the null stream stands for it */
    assert_int_equal(count_told("3 is done"), 0);
    cu_ok(cuCtxSynchronize());
    assert_int_equal(count_told("4 is done"), 3);
    assert_int_equal(count_told("3 is done"), 1);
    cu_ok(cuMemsetD32Async(et_words(1, 0), 1, 1, blocking));
    assert_int_equal(count_told("4 follows 5"), 1); /* the null stream */
    forget_told();
    cu_ok(cuStreamDestroy(one));
    assert_int_equal(count_told("0 is gone"), 1);
    cu_ok(cuEventDestroy(event));
    assert_int_equal(count_told("2 is gone"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kernels_copies_and_fills, open_proof, et_close),
        cmocka_unit_test_setup_teardown(test_graphs, open_proof, et_close),
        cmocka_unit_test_setup_teardown(test_rows, open_proof, et_close),
        cmocka_unit_test_setup_teardown(test_queues, open_proof, et_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
