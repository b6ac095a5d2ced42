/* SPDX-License-Identifier: MIT */
/* What threads wait for when memory was freed on streams: each for what it needs, and none takes another's
 * result for its own. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/point.h"
#include "emulator/gantry_emu.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
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

/* ---- who is waited for ---- */

enum { PARTS = 2, PART_MIB = 28 };

/* Let the heap have room for PARTS parts, and a little more. */
static void limit(struct fixture *f)
{
    gantry_heap_settings settings = {.struct_size = sizeof(settings)};
    assert_ok(gantry_heap_get_settings(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    settings.limit_bytes = settings.slab_bytes = (PARTS * PART_MIB + 4) * MIB;
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
}

/* Free a part on each of the streams, in this order, behind work that ends when its gate is opened. */
static void free_parts(struct fixture *f, const int streams[PARTS])
{
    void *parts[PARTS];
    limit(f);
    for (int i = 0; i < PARTS; i++) {
        parts[i] = take(f, PART_MIB * MIB, streams[i]);
    }
    for (int i = 0; i < PARTS; i++) {
        close_gate(f, streams[i]);
        give(f, parts[i], streams[i]);
    }
}

static int gate_to_open;

static void open_when_there_is_no_room(enum gy_point point, const void *at)
{
    (void)at;
    if (point == GY_POINT_HEAP_ROOM) {
        open_gate(&fixture, gate_to_open);
    }
}

/* Allocate a part on stream 1, for which `gate` has to be opened, and no other. */
static void take_behind(struct fixture *f, int gate)
{
    gate_to_open = gate;
    gy_point_hook(open_when_there_is_no_room);
    void *block = take(f, PART_MIB * MIB, 1);
    gy_point_hook(NULL);
    assert_ok(gantry_heap_free(f->heap, block));
}

static void open_all(struct fixture *f)
{
    for (int i = 0; i < STREAMS; i++) {
        open_gate(f, i);
    }
}

static void test_a_stream_that_holds_nothing_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    close_gate(f, 3);
    free_parts(f, (const int[]){0, 0});
    take_behind(f, 0);
    assert_ok(gantry_heap_settle(f->heap)); /* neither, since events tell of all that was freed */
    open_all(f);
}

static void test_what_was_freed_first_is_waited_for_first(void **state)
{
    struct fixture *f = *state;
    free_parts(f, (const int[]){2, 0});
    take_behind(f, 2);
    open_all(f);
}

/* The stream has an event, but uses again itself what it has freed before that. */
static void test_an_event_without_memory_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    free_parts(f, (const int[]){2, 0});
    void *again = take(f, PART_MIB * MIB, 2);
    take_behind(f, 0);
    open_all(f);
    give(f, again, 2);
}

/* What was freed on the stream later is behind work that does not end. */
static void test_the_first_event_of_a_stream_is_enough(void **state)
{
    struct fixture *f = *state;
    CUevent event;
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    limit(f);
    void *first = take(f, PART_MIB * MIB, 0);
    void *other = take(f, MIB, 1); /* between the two, which would be one range */
    void *second = take(f, PART_MIB * MIB, 0);
    close_gate(f, 0);
    give(f, first, 0);
    close_gate(f, 3);
    CU(cuEventRecord(event, f->streams[3]));
    CU(cuStreamWaitEvent(f->streams[0], event, 0));
    give(f, second, 0);
    take_behind(f, 0);
    open_all(f);
    give(f, other, 1);
    CU(cuEventDestroy(event));
}

static void *take_in_thread(void *user)
{
    struct fixture *f = user;
    void *block;
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, PART_MIB * MIB, 0, GANTRY_ALLOC_SITE("waits"),
                                &block));
    return block;
}

/* The second does not give up because the first waits already. */
static void test_two_threads_without_room_both_wait(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[PARTS];
    void *blocks[PARTS];
    free_parts(f, (const int[]){0, 2});
    for (uint64_t i = 0; i < PARTS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_in_thread, f), 0);
        while (f->emu.calls("cuEventSynchronize") <= i) {
            sched_yield();
        }
    }
    open_all(f);
    for (int i = 0; i < PARTS; i++) {
        pthread_join(threads[i], &blocks[i]);
    }
    assert_ptr_not_equal(blocks[0], blocks[1]);
}

/* ---- recorded blocks ---- */

/* An event of before the free has passed, and so have the other streams, but the block's own has not. */
static void test_a_recorded_block_waits_for_its_own_stream(void **state)
{
    struct fixture *f = *state;
    limit(f);
    void *before = take(f, PART_MIB * MIB, 0);
    void *between = take(f, MIB, 1);
    void *recorded = take(f, PART_MIB * MIB, 0);
    assert_ok(gantry_heap_record_stream(f->heap, recorded, f->streams[2]));
    give(f, before, 0);
    CU(cuStreamSynchronize(f->streams[0]));
    close_gate(f, 0);
    give(f, recorded, 0);
    assert_ptr_equal(take(f, PART_MIB * MIB, 1), before); /* this asks for all events */
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.waiting_bytes, PART_MIB * MIB);
    gate_to_open = 0;
    gy_point_hook(open_when_there_is_no_room);
    assert_ptr_equal(take(f, PART_MIB * MIB, 1), recorded);
    gy_point_hook(NULL);
    give(f, between, 1);
}

/* A block has no event for a stream that it was recorded for, so the device is waited for.  Then it joins its
 * own stream, which has a mark that nobody had a reason to ask, and memory behind that. */
static void test_a_recorded_block_without_an_event_is_settled(void **state)
{
    struct fixture *f = *state;
    void *recorded = take(f, BLOCK_MIB * MIB, 0), *marked = take(f, PART_MIB * MIB, 0),
         *behind = take(f, BLOCK_MIB * MIB, 0), *other = take(f, MIB, 2);
    assert_ok(gantry_heap_record_stream(f->heap, recorded, f->streams[1]));
    close_gate(f, 0);
    assert_int_equal((f->emu.fail)("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
    give(f, recorded, 0);
    const uint64_t before = f->emu.calls("cuEventRecord");
    give(f, marked, 0);
    assert_int_equal(f->emu.calls("cuEventRecord"), before + 1);
    assert_ptr_equal(take(f, PART_MIB * MIB, 0), marked);
    give(f, behind, 0);
    open_gate(f, 0);
    assert_ok(gantry_heap_settle(f->heap));
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.waiting_bytes, 0);
    give(f, marked, 0);
    give(f, other, 2);
}

/* ---- captures of others ---- */

static struct capture {
    struct fixture *f;
    CUstream stream;
    CUstreamCaptureMode mode;
    sem_t begun, ends;
    CUresult result;
} capture;

static void *capture_stream(void *user)
{
    struct fixture *f = capture.f;
    CUgraph graph = NULL;
    (void)user;
    assert_ok(gy_context_push(f->context));
    CU(cuStreamBeginCapture(capture.stream, capture.mode));
    sem_post(&capture.begun);
    sem_wait(&capture.ends);
    capture.result = f->context->driver->cuStreamEndCapture(capture.stream, &graph);
    if (graph != NULL) {
        CU(cuGraphDestroy(graph));
    }
    assert_ok(gy_context_pop(f->context));
    return NULL;
}

/* Have another thread capture the stream, of which the heap is not told, while `call` runs. */
static void during_capture(struct fixture *f, CUstream stream, CUstreamCaptureMode mode,
                           void (*call)(struct fixture *f))
{
    pthread_t thread;
    capture.f = f;
    capture.stream = stream;
    capture.mode = mode;
    assert_int_equal(sem_init(&capture.begun, 0, 0), 0);
    assert_int_equal(sem_init(&capture.ends, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, capture_stream, NULL), 0);
    sem_wait(&capture.begun);
    call(f);
    sem_post(&capture.ends);
    pthread_join(thread, NULL);
    assert_int_equal(capture.result, CUDA_SUCCESS);
    assert_int_equal(sem_destroy(&capture.begun), 0);
    assert_int_equal(sem_destroy(&capture.ends), 0);
}

static const CUstreamCaptureMode modes[] = {
    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};

/* Find no room, wait, grow, free, trim and settle: all that the heap does by itself. */
static void use_heap(struct fixture *f)
{
    void *blocks[PARTS];
    free_parts(f, (const int[]){0, 2});
    open_all(f);
    for (int i = 0; i < PARTS; i++) {
        blocks[i] = take(f, PART_MIB * MIB, 1);
        assert_ok(gantry_heap_record_stream(f->heap, blocks[i], f->streams[i]));
    }
    for (int i = 0; i < PARTS; i++) {
        give(f, blocks[i], 1);
    }
    void *block = NULL;
    assert_int_equal(gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, (2 * PART_MIB + 8) * MIB, 0,
                                          f->streams[1], GANTRY_ALLOC_SITE("waits"), &block),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_PINNED, MIB, 0, GANTRY_ALLOC_SITE("waits"), &block));
    assert_ok(gantry_heap_free(f->heap, block));
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_PINNED, 0, NULL));
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, NULL));
}

static void test_the_heap_breaks_no_capture(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        during_capture(f, f->streams[3], modes[i], use_heap);
        assert_ok(gantry_heap_settle(f->heap));
    }
}

static void settle_is_refused(struct fixture *f)
{
    (void)f;
    assert_int_equal(gantry_heap_settle(fixture.heap), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), "gantry_heap_settle"));
}

static void test_settling_is_refused_during_a_capture(void **state)
{
    struct fixture *f = *state;
    CUstream blocking;
    CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    give(f, take(f, BLOCK_MIB * MIB, 0), 0);
    for (int i = 0; i < 3; i++) {
        during_capture(f, blocking, modes[i], settle_is_refused);
    }
    CU(cuStreamDestroy(blocking));
    assert_ok(gantry_heap_settle(f->heap));
}

/* A thread that has chosen a capture mode keeps it. */
static void test_capture_modes_are_put_back(void **state)
{
    struct fixture *f = *state;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    free_parts(f, (const int[]){0, 2});
    take_behind(f, 0);
    open_all(f);
    assert_ok(gantry_heap_settle(f->heap));
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

/* ---- captures that keep memory ---- */

/* Capture the first `count` streams, the others forked off the first, with a block freed on each. */
static uint64_t capture_frees(struct fixture *f, int count, CUgraph *graph)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUevent event;
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuStreamBeginCapture(f->streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuStreamGetCaptureInfo(f->streams[0], &status, &id, NULL, NULL, NULL));
    for (int i = 0; i < count; i++) {
        CU(cuEventRecord(event, f->streams[0]));
        CU(cuStreamWaitEvent(f->streams[i], event, 0));
        give(f, take(f, BLOCK_MIB * MIB, i), i);
        CU(cuEventRecord(event, f->streams[i]));
        CU(cuStreamWaitEvent(f->streams[0], event, 0));
    }
    CU(cuStreamEndCapture(f->streams[0], graph));
    CU(cuEventDestroy(event));
    return id;
}

/* What an allocation says that finds no room. */
static const char *no_room(struct fixture *f)
{
    void *none = NULL;
    assert_int_equal(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, (size_t)1 << 50, 0,
                                       GANTRY_ALLOC_SITE("waits"), &none),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    return gantry_last_error();
}

static void test_captures_that_keep_memory_are_named(void **state)
{
    struct fixture *f = *state;
    CUgraph graphs[2];
    uint64_t captures[2];
    captures[0] = capture_frees(f, 2, &graphs[0]);
    captures[1] = capture_frees(f, 1, &graphs[1]);
    assert_null(strstr(no_room(f), "wait for streams"));
    assert_non_null(strstr(no_room(f), "; 12582912 stay with 2 captures until gantry_heap_end_capture() says "
                                       "that their graphs are gone"));
    assert_ok(gantry_heap_end_capture(f->heap, captures[0], true));
    assert_non_null(strstr(no_room(f), "; 4194304 stay with 1 capture until gantry_heap_end_capture() says "
                                       "that its graph is gone"));
    assert_ok(gantry_heap_end_capture(f->heap, captures[1], true));
    assert_null(strstr(no_room(f), "stay with"));
    for (int i = 0; i < 2; i++) {
        CU(cuGraphDestroy(graphs[i]));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_waits_do_not_take_each_others_results),
        TEST(test_a_stream_that_holds_nothing_is_not_waited_for),
        TEST(test_what_was_freed_first_is_waited_for_first),
        TEST(test_an_event_without_memory_is_not_waited_for),
        TEST(test_the_first_event_of_a_stream_is_enough),
        TEST(test_two_threads_without_room_both_wait),
        TEST(test_a_recorded_block_waits_for_its_own_stream),
        TEST(test_a_recorded_block_without_an_event_is_settled),
        TEST(test_the_heap_breaks_no_capture),
        TEST(test_settling_is_refused_during_a_capture),
        TEST(test_capture_modes_are_put_back),
        TEST(test_captures_that_keep_memory_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
