/* SPDX-License-Identifier: MIT */
/* libgantry-torch.so as PyTorch uses it: opened at run time by a program that knows nothing of Gantry, on the
 * emulated driver, or a device with GANTRY_TEST_DRIVER=cuda. */
#include "tests/support/cmocka_c11.h"

#include "driver/funcs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define CU(call) assert_int_equal(cu.call, CUDA_SUCCESS)

static struct {
#define F(need, member, symbol, prototype) CUresult(*member) prototype;
    GY_DRIVER_FUNCS(F)
#undef F
} cu;

/* The functions that PyTorch looks up by name. */
static struct {
    void *(*alloc)(size_t bytes, int device, void *stream);
    void (*free)(void *pointer, size_t bytes, int device, void *stream);
    void (*record_stream)(void *pointer, void *stream);
    void (*empty_cache)(void);
    void (*set_fraction)(double fraction, int device);
    void (*begin_pool)(int device, uint64_t first, uint64_t second, void *filter);
    void (*end_pool)(int device, uint64_t first, uint64_t second);
    void (*release_pool)(int device, uint64_t first, uint64_t second);
    uint64_t (*stat)(int device, int what);
    void (*reset_peaks)(int device);
} lib;

enum { USED, PEAK, TAKEN, MOST_TAKEN, ALLOCATIONS, WAITING };

static void *function(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fail_msg("%s", dlerror());
    }
    return symbol;
}

static int open_libraries(void **state)
{
    (void)state;
    const char *driver = getenv("GANTRY_TEST_DRIVER");
    bool is_device = driver != NULL && strcmp(driver, "cuda") == 0;
    setenv("GANTRY_DRIVER", is_device ? "cuda" : "emulated", 1);
    unsetenv("GLIBC_TUNABLES"); /* it has to work without this function */
    void *library = dlopen("./libgantry-torch.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fail_msg("%s", dlerror());
    }
#define BIND(member) *(void **)&lib.member = function(library, "gantry_torch_" #member)
    BIND(alloc);
    BIND(free);
    BIND(record_stream);
    BIND(empty_cache);
    BIND(set_fraction);
    BIND(begin_pool);
    BIND(end_pool);
    BIND(release_pool);
    BIND(stat);
    BIND(reset_peaks);
    assert_null(dlsym(library, "gantry_heap_alloc"));
    assert_null(dlsym(library, "gy_zalloc"));
    void *cuda = dlopen(is_device ? "libcuda.so.1" : getenv("GANTRY_EMULATOR"), RTLD_NOW);
    if (cuda == NULL) {
        fail_msg("%s", dlerror());
    }
#define F(need, member, symbol, prototype) *(void **)&cu.member = dlsym(cuda, #symbol);
    GY_DRIVER_FUNCS(F)
#undef F
    CUcontext context;
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    return 0;
}

static CUstream new_stream(void)
{
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void *take(size_t bytes, CUstream stream)
{
    void *block = lib.alloc(bytes, 0, stream);
    assert_non_null(block);
    return block;
}

static void give(void *block, size_t bytes, CUstream stream)
{
    lib.free(block, bytes, 0, stream);
}

static void test_blocks_are_used_again_on_their_stream(void **state)
{
    (void)state;
    CUstream stream = new_stream();
    assert_null(lib.alloc(0, 0, stream));
    lib.free(NULL, 0, 0, stream);
    void *block = take(8 * MIB, stream);
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, 8 * MIB, stream));
    assert_int_equal(lib.stat(0, USED), 8 * MIB);
    give(block, 8 * MIB, stream);
    assert_int_equal(lib.stat(0, USED), 0);
    assert_ptr_equal(take(8 * MIB, stream), block);
    lib.record_stream(block, NULL);
    give(block, 8 * MIB, stream);
    block = take(MIB, NULL); /* PyTorch's usual stream */
    give(block, MIB, NULL);
    lib.empty_cache();
    assert_int_equal(lib.stat(0, TAKEN), 0);
    assert_int_equal(lib.stat(0, WAITING), 0);
    CU(cuStreamDestroy(stream));
}

/* A training step runs again and again: after the first one nothing is taken from the driver. */
static void test_steps_reach_a_steady_state(void **state)
{
    (void)state;
    enum { LAYERS = 30 };
    CUstream stream = new_stream();
    uint64_t taken = 0;
    for (int step = 0; step < 20; step++) {
        void *kept[LAYERS];
        for (int i = 0; i < LAYERS; i++) {
            size_t bytes = (size_t)(1 + i % 7) * MIB;
            void *scratch = take(3 * bytes, stream);
            kept[i] = take(bytes, stream);
            give(scratch, 3 * bytes, stream);
        }
        for (int i = LAYERS; i-- > 0;) {
            size_t bytes = (size_t)(1 + i % 7) * MIB;
            void *gradient = take(2 * bytes, stream);
            give(kept[i], bytes, stream);
            give(gradient, 2 * bytes, stream);
        }
        if (step == 2) {
            usleep(300000); /* the memory that was mapped beforehand is there */
            taken = lib.stat(0, TAKEN);
        }
        assert_true(step < 2 || lib.stat(0, TAKEN) == taken);
    }
    assert_int_equal(lib.stat(0, USED), 0);
    CU(cuStreamDestroy(stream));
}

static void test_pools_of_graphs(void **state)
{
    (void)state;
    CUstream stream = new_stream();
    for (int round = 0; round < 3; round++) {
        lib.empty_cache();
        void *result[2];
        CUgraph graphs[2];
        CUgraphExec execs[2];
        for (int i = 0; i < 2; i++) { /* two graphs share a pool */
            lib.begin_pool(0, 7, 9, NULL);
            CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
            void *scratch = take(4 * MIB, stream);
            result[i] = take(4 * MIB, stream);
            CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)scratch, 1, 4 * MIB, stream));
            CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)result[i], 2, 4 * MIB, stream));
            give(scratch, 4 * MIB, stream);
            CU(cuStreamEndCapture(stream, &graphs[i]));
            lib.end_pool(0, 7, 9);
            CU(cuGraphInstantiateWithFlags(&execs[i], graphs[i], 0));
        }
        assert_int_equal(lib.stat(0, WAITING), 8 * MIB);
        for (int i = 0; i < 2; i++) {
            CU(cuGraphLaunch(execs[i], stream));
            unsigned char seen = 0;
            CU(cuStreamSynchronize(stream));
            CU(cuMemcpyDtoH(&seen, (CUdeviceptr)(uintptr_t)result[i], 1));
            assert_int_equal(seen, 2);
        }
        for (int i = 0; i < 2; i++) {
            CU(cuGraphLaunch(execs[i], stream)); /* it is still on its way when everything is given back */
            CU(cuGraphExecDestroy(execs[i]));
            CU(cuGraphDestroy(graphs[i]));
            lib.release_pool(0, 7, 9);
        }
        give(result[0], 4 * MIB, stream); /* the results are used longer than the pool */
        give(result[1], 4 * MIB, stream);
        lib.empty_cache();
        assert_int_equal(lib.stat(0, WAITING), 0);
        assert_int_equal(lib.stat(0, TAKEN), 0);
    }
    CU(cuStreamDestroy(stream));
}

static void test_streams_come_and_go(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        CUstream stream = new_stream();
        void *block = take(MIB, stream);
        CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, MIB, stream));
        give(block, MIB, stream);
        CU(cuStreamDestroy(stream));
    }
    lib.empty_cache();
    assert_int_equal(lib.stat(0, TAKEN), 0);
}

static void *train(void *arg)
{
    CUcontext context = arg;
    CU(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    uint64_t random = (uintptr_t)&stream;
    void *held[16] = {NULL};
    size_t bytes[16];
    for (int i = 0; i < 4000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned at = (unsigned)(random >> 60);
        if (held[at] != NULL) {
            give(held[at], bytes[at], stream);
            held[at] = NULL;
        } else {
            bytes[at] = (size_t)512 << (random >> 32) % 12;
            held[at] = take(bytes[at], stream);
        }
    }
    for (int i = 0; i < 16; i++) {
        give(held[i], held[i] != NULL ? bytes[i] : 0, stream);
    }
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy(stream));
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    CUcontext context;
    CU(cuCtxGetCurrent(&context));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, train, context), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(lib.stat(0, USED), 0);
}

/* Processes that load data are forked, and free memory that they have inherited. */
/* A sanitizer brings libstdc++ into the process: a failure is then an exception, which nobody here catches.
 * The test torch.exceptions covers those. */
static bool throws(void)
{
    return dlsym(RTLD_DEFAULT, "__cxa_throw") != NULL;
}

static void test_children_free_nothing(void **state)
{
    (void)state;
    CUstream stream = new_stream();
    void *block = take(MIB, stream);
    pid_t child = fork();
    if (child == 0) {
        lib.free(block, MIB, 0, stream);
        _exit(throws() || lib.alloc(MIB, 0, stream) == NULL ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(lib.stat(0, USED), MIB);
    give(block, MIB, stream);
    CU(cuStreamDestroy(stream));
}

/* When there is no room the caller frees something and tries again. */
static void test_out_of_memory_and_again(void **state)
{
    (void)state;
    if (throws()) {
        print_message("left out: failures are exceptions where libstdc++ is, see torch.exceptions\n");
        return;
    }
    CUstream stream = new_stream(), other = new_stream();
    lib.empty_cache();
    size_t free_bytes, total;
    CU(cuMemGetInfo(&free_bytes, &total));
    lib.set_fraction(64.0 * (double)MIB / (double)total, 0);
    void *first = take(40 * MIB, stream);
    assert_null(lib.alloc(40 * MIB, 0, stream));
    assert_null(lib.alloc(40 * MIB, 0, other));
    give(first, 40 * MIB, stream);
    void *second = take(40 * MIB, other); /* it waits for the other stream instead of failing */
    give(second, 40 * MIB, other);
    lib.set_fraction(1.0, 0);
    CU(cuStreamDestroy(stream));
    CU(cuStreamDestroy(other));
}

static void test_devices_that_there_are_not(void **state)
{
    (void)state;
    if (throws()) {
        print_message("left out: failures are exceptions where libstdc++ is, see torch.exceptions\n");
        return;
    }
    assert_null(lib.alloc(MIB, 63, NULL));
    assert_null(lib.alloc(MIB, 64, NULL));
    assert_null(lib.alloc(MIB, -1, NULL));
    assert_int_equal(lib.stat(-1, USED), 0);
    assert_int_equal(lib.stat(0, 99), 0);
    lib.reset_peaks(0);
    lib.reset_peaks(64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_used_again_on_their_stream),
        cmocka_unit_test(test_steps_reach_a_steady_state),
        cmocka_unit_test(test_pools_of_graphs),
        cmocka_unit_test(test_streams_come_and_go),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_children_free_nothing),
        cmocka_unit_test(test_out_of_memory_and_again),
        cmocka_unit_test(test_devices_that_there_are_not),
    };
    return cmocka_run_group_tests(tests, open_libraries, NULL);
}
