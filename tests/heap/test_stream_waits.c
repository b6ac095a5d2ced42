/* What threads wait for when memory was freed on streams: each for what it needs, and none takes another's
 * result for its own. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/point.h"
#include "driver/emulator/gantry_emu.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define CU(call) assert_int_equal(f->context->driver->call, CUDA_SUCCESS)

enum { STREAMS = 4 };

static struct fixture {
    struct gy_context *context;
    gantry_heap *heap;
    struct gantry_emu_control emu;
    CUstream streams[STREAMS];
    _Atomic(uint32_t) *gates; /* page-locked; a stream whose gate is 0 goes no further */
} fixture;

static int setup(void **state)
{
    struct fixture *f = &fixture;
    void *gates;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gy_context_open(&options, &f->context));
#define BIND(result, member, parameters)                                                  \
    *(void **)&f->emu.member = dlsym(f->context->driver->library, "gantry_emu_" #member); \
    assert_non_null(*(void **)&f->emu.member);
    GANTRY_EMU_CONTROLS(BIND)
#undef BIND
    f->emu.reset();
    gantry_heap_options plain = GANTRY_HEAP_OPTIONS_INIT;
    plain.ahead_bytes[GANTRY_MEMORY_DEVICE] = SIZE_MAX;
    assert_ok(gy_heap_create(f->context, &plain, &f->heap));
    assert_ok(gy_context_push(f->context));
    CU(cuMemHostAlloc(&gates, STREAMS * sizeof(f->gates[0]), CU_MEMHOSTALLOC_DEVICEMAP));
    f->gates = gates;
    for (int i = 0; i < STREAMS; i++) {
        CU(cuStreamCreate(&f->streams[i], CU_STREAM_NON_BLOCKING));
        atomic_init(&f->gates[i], 1);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gy_point_hook(NULL);
    for (int i = 0; i < STREAMS; i++) {
        CU(cuStreamSynchronize(f->streams[i]));
        CU(cuStreamDestroy(f->streams[i]));
    }
    CU(cuMemFreeHost((void *)f->gates));
    assert_ok(gy_context_pop(f->context));
    gy_heap_destroy(f->heap);
    assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_EVENTS), 0);
    assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
    f->emu.reset();
    gy_context_close(f->context);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

/* What the stream is given from now on begins when its gate is opened. */
static void close_gate(struct fixture *f, int stream)
{
    CUdeviceptr gate;
    CU(cuMemHostGetDevicePointer(&gate, (void *)f->gates, 0));
    atomic_store(&f->gates[stream], 0);
    CU(cuStreamWaitValue32(f->streams[stream], gate + (CUdeviceptr)stream * sizeof(f->gates[0]), 1,
                           CU_STREAM_WAIT_VALUE_GEQ));
}

static void open_gate(struct fixture *f, int stream)
{
    atomic_store(&f->gates[stream], 1);
}

static void *take(struct fixture *f, size_t bytes, int stream)
{
    void *block = NULL;
    assert_ok(gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, bytes, 0, f->streams[stream],
                                   GANTRY_ALLOC_SITE("waits"), &block));
    return block;
}

static void give(struct fixture *f, void *block, int stream)
{
    assert_ok(gantry_heap_free_on(f->heap, block, f->streams[stream]));
}

static bool lies_in(const void *block, const void *base, size_t bytes)
{
    return (uintptr_t)block - (uintptr_t)base < bytes;
}

/* ---- results of waits ---- */

enum { BLOCK_MIB = 4 }; /* more than a lap keeps, and too little for an event */

static struct {
    pthread_t first; /* of the two that wait */
    pthread_t second;
    sem_t second_waits;
    void *block;
} both;

static void *settle(void *user)
{
    struct fixture *f = user;
    assert_ok(gantry_heap_settle(f->heap));
    return NULL;
}

/* The first has waited, and frees nothing yet: meanwhile a block in use is freed, and the second waits. */
static void free_in_between(enum gy_point point, const void *at)
{
    struct fixture *f = &fixture;
    (void)at;
    if (point == GY_POINT_HEAP_SETTLE && !pthread_equal(pthread_self(), both.first)) {
        sem_post(&both.second_waits);
    } else if (point == GY_POINT_HEAP_SETTLED && pthread_equal(pthread_self(), both.first)) {
        close_gate(f, 0);
        give(f, both.block, 0);
        assert_int_equal(pthread_create(&both.second, NULL, settle, f), 0);
        sem_wait(&both.second_waits);
    }
}

static void test_two_waits_do_not_take_each_others_results(void **state)
{
    struct fixture *f = *state;
    both.first = pthread_self();
    assert_int_equal(sem_init(&both.second_waits, 0, 0), 0);
    both.block = take(f, BLOCK_MIB * MIB, 0);
    give(f, take(f, BLOCK_MIB * MIB, 0), 0);
    gy_point_hook(free_in_between);
    assert_ok(gantry_heap_settle(f->heap));
    gy_point_hook(NULL);
    for (int i = 0; i < 4; i++) {
        assert_false(lies_in(take(f, BLOCK_MIB * MIB, 1), both.block, BLOCK_MIB * MIB));
    }
    open_gate(f, 0);
    pthread_join(both.second, NULL);
    assert_int_equal(sem_destroy(&both.second_waits), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_waits_do_not_take_each_others_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
