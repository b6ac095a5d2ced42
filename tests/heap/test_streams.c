/* SPDX-License-Identifier: MIT */
/* Blocks that are used on streams, on the emulated driver or a device (GANTRY_TEST_DRIVER=cuda). */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")
#define CU(call) assert_int_equal(f->context->driver->call, CUDA_SUCCESS)

struct fixture {
    struct gy_context *context;
    gantry_heap *heap;
    bool emulated;
    struct gantry_emu_control emu; /* when emulated */
    CUstream s, t;
    CUdeviceptr filled; /* keep_busy() works on this memory */
};

static struct fixture *open_with(const gantry_heap_options *options)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    memset(f, 0, sizeof(*f));
    const char *driver = getenv("GANTRY_TEST_DRIVER");
    gantry_context_options ours = GANTRY_CONTEXT_OPTIONS_INIT;
    f->emulated = driver == NULL || strcmp(driver, "cuda") != 0;
    ours.driver = f->emulated ? GANTRY_DRIVER_EMULATED : GANTRY_DRIVER_CUDA;
    ours.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gy_context_open(&ours, &f->context));
    if (f->emulated) {
#define BIND(result, member, parameters)                                                  \
    *(void **)&f->emu.member = dlsym(f->context->driver->library, "gantry_emu_" #member); \
    assert_non_null(*(void **)&f->emu.member);
        GANTRY_EMU_CONTROLS(BIND)
#undef BIND
        f->emu.reset();
    }
    gantry_heap_options plain = GANTRY_HEAP_OPTIONS_INIT;
    plain.ahead_bytes[GANTRY_MEMORY_DEVICE] = SIZE_MAX; /* slabs are counted here */
    assert_ok(gy_heap_create(f->context, options != NULL ? options : &plain, &f->heap));
    assert_ok(gy_context_push(f->context));
    CU(cuStreamCreate(&f->s, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&f->t, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&f->filled, 64 * MIB));
    return f;
}

static int setup(void **state)
{
    *state = open_with(NULL);
    return 0;
}

static void close_all(struct fixture *f)
{
    CU(cuCtxSynchronize());
    CU(cuMemFree(f->filled));
    CU(cuStreamDestroy(f->s));
    CU(cuStreamDestroy(f->t));
    assert_ok(gy_context_pop(f->context));
    gy_heap_destroy(f->heap);
    if (f->emulated) {
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_EVENTS), 0);
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
        f->emu.reset();
    }
    gy_context_close(f->context);
    assert_int_equal(gy_alloc_live(), 0);
}

static int teardown(void **state)
{
    close_all(*state);
    return 0;
}

/* Enqueue work that does not end before let_go(), so that the next calls are made meanwhile. */
static void keep_busy(struct fixture *f, CUstream stream)
{
    if (f->emulated) {
        f->emu.hold();
    }
    for (int i = 0; i < (f->emulated ? 1 : 2000); i++) {
        CU(cuMemsetD8Async(f->filled, 1, 64 * MIB, stream));
    }
}

static void let_go(struct fixture *f)
{
    if (f->emulated) {
        f->emu.release();
    }
    CU(cuCtxSynchronize());
}

static void *take(struct fixture *f, size_t bytes, CUstream stream)
{
    void *block = NULL;
    assert_ok(gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, bytes, 0, stream, SITE, &block));
    return block;
}

static void give(struct fixture *f, void *block, CUstream stream)
{
    assert_ok(gantry_heap_free_on(f->heap, block, stream));
}

static gantry_heap_stats stats_of(struct fixture *f)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &stats));
    return stats;
}

/* Do the first bytes of `block` lie in [base, base + bytes)? */
static bool lies_in(const void *block, const void *base, size_t bytes)
{
    return (uintptr_t)block - (uintptr_t)base < bytes;
}

/* ---- order --------------------------------------------------------------------------------- */

static void test_freed_memory_is_used_again_on_its_stream_at_once(void **state)
{
    struct fixture *f = *state;
    void *other = take(f, MIB, f->t); /* so that there is more than one stream */
    void *block = take(f, 8 * MIB, f->s);
    uint64_t slabs = stats_of(f).slab_bytes;
    keep_busy(f, f->s);
    give(f, block, f->s);
    assert_int_equal(stats_of(f).waiting_bytes, 8 * MIB);
    assert_int_equal(stats_of(f).used_bytes, MIB);
    void *parts[4]; /* in other sizes, too */
    for (int i = 0; i < 4; i++) {
        parts[i] = take(f, 2 * MIB, f->s);
        assert_true(lies_in(parts[i], block, 8 * MIB));
    }
    assert_int_equal(stats_of(f).waiting_bytes, 0);
    for (int i = 0; i < 4; i++) {
        give(f, parts[i], f->s);
    }
    assert_ptr_equal(take(f, 8 * MIB, f->s), block); /* they are joined again */
    assert_int_equal(stats_of(f).slab_bytes, slabs);
    let_go(f);
    give(f, block, f->s);
    give(f, other, f->t);
}

static void test_others_get_it_when_the_stream_has_passed(void **state)
{
    struct fixture *f = *state;
    gantry_heap_settings settings = {
        .struct_size = sizeof(settings), .slab_bytes = 64 * MIB, .limit_bytes = 192 * MIB};
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    void *first = take(f, 64 * MIB, f->t);
    void *block = take(f, 64 * MIB, f->s);
    keep_busy(f, f->s);
    give(f, block, f->s);
    void *plain;
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 64 * MIB, 0, SITE, &plain));
    assert_ptr_not_equal(plain, block);
    /* the stream uses it; and it makes a mark, since others want the memory */
    give(f, take(f, MIB, f->s), f->s);
    let_go(f);
    assert_ptr_equal(take(f, 64 * MIB, f->t), block);
    give(f, block, f->t);
    give(f, first, f->t);
    assert_ok(gantry_heap_free(f->heap, plain));
}

static void test_nothing_is_unmapped_while_it_is_in_use(void **state)
{
    struct fixture *f = *state;
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .keep_bytes = 1};
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    void *block = take(f, 64 * MIB, f->s);
    keep_busy(f, f->s);
    /* this faults when it is not mapped */
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 7, 64 * MIB, f->s));
    give(f, block, f->s);
    uint64_t given = 1;
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, &given));
    assert_ok(gantry_heap_reclaim_wait(f->heap));
    assert_true(stats_of(f).slab_bytes >= 64 * MIB);
    let_go(f);
    assert_ok(gantry_heap_settle(f->heap));
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, &given));
    assert_int_equal(stats_of(f).slab_bytes, 0);
}

static void test_a_stream_alone_joins_its_memory_with_what_is_free(void **state)
{
    struct fixture *f = *state;
    void *large = take(f, 100 * MIB, f->s); /* there is one slab of it then */
    uint64_t slabs = stats_of(f).slab_bytes;
    keep_busy(f, f->s);
    give(f, large, f->s);
    void *parts[10];
    for (int i = 0; i < 10; i++) {
        parts[i] = take(f, 10 * MIB, f->s);
    }
    for (int i = 0; i < 10; i++) {
        give(f, parts[i], f->s);
    }
    assert_ptr_equal(take(f, 100 * MIB, f->s), large);
    assert_int_equal(stats_of(f).slab_bytes, slabs);
    let_go(f);
    give(f, large, f->s);
}

static void test_recorded_streams_are_waited_for(void **state)
{
    struct fixture *f = *state;
    void *block = take(f, 8 * MIB, f->s);
    assert_ok(gantry_heap_record_stream(f->heap, block, f->t));
    assert_ok(gantry_heap_record_stream(f->heap, block, f->t)); /* once is enough */
    keep_busy(f, f->t);
    give(f, block, f->s);
    void *other = take(f, 8 * MIB, f->s); /* not even on its own stream */
    assert_false(lies_in(other, block, 8 * MIB));
    let_go(f);
    void *third = take(f, 16 * MIB, f->s); /* it finds no room at first, and so it looks */
    give(f, third, f->s);
    void *again[8];
    bool found = false;
    for (int i = 0; i < 8; i++) {
        again[i] = take(f, 8 * MIB, f->s);
        found = found || again[i] == block;
    }
    assert_true(found);
    for (int i = 0; i < 8; i++) {
        give(f, again[i], f->s);
    }
    give(f, other, f->s);
    /* A block that is freed without a stream forgets its streams. */
    block = take(f, 8 * MIB, f->s);
    assert_ok(gantry_heap_record_stream(f->heap, block, f->t));
    assert_ok(gantry_heap_free(f->heap, block));
}

static void test_small_blocks_wait_too(void **state)
{
    struct fixture *f = *state;
    void *small;
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 300, 0, SITE, &small));
    keep_busy(f, f->s);
    give(f, small, f->s);
    assert_int_equal(gantry_heap_free(f->heap, small), GANTRY_ERR_NOT_FOUND);
    void *others[200];
    for (int i = 0; i < 200; i++) {
        assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 300, 0, SITE, &others[i]));
        assert_ptr_not_equal(others[i], small);
    }
    let_go(f);
    for (int i = 0; i < 200; i++) {
        assert_ok(gantry_heap_free(f->heap, others[i]));
    }
    give(f, take(f, 1, f->s), f->s);
    assert_ok(gantry_heap_settle(f->heap));
    assert_int_equal(stats_of(f).used_bytes, 0);
}

/* ---- running out --------------------------------------------------------------------------- */

static void test_without_room_streams_are_waited_for(void **state)
{
    struct fixture *f = *state;
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .limit_bytes = 64 * MIB};
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    for (int i = 0; i < 4;
         i++) { /* by its own event, and by the device for a stream that is not named again */
        void *block = take(f, 60 * MIB, f->s);
        for (int k = 0; k < 8; k++) {
            CU(cuMemsetD8Async(f->filled, 1, 64 * MIB, f->s));
        }
        give(f, block, f->s);
        CUstream stream = i % 2 == 0 ? f->t : f->s;
        block = take(f, 50 * MIB, stream);
        give(f, block, stream);
        assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 60 * MIB, 0, SITE, &block));
        assert_ok(gantry_heap_free(f->heap, block));
    }
    void *block = NULL;
    assert_int_equal(gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, 65 * MIB, 0, f->s, SITE, &block),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
}

/* Memory that counts as occupied is wanted: the next call on the stream makes a mark, however little was
 * freed. */
static void test_what_waits_does_not_count_for_ever(void **state)
{
    struct fixture *f = *state;
    give(f, take(f, 8 * MIB, f->s), f->s);
    CU(cuStreamSynchronize(f->s));
    assert_true(gy_heap_occupied(f->heap, GANTRY_MEMORY_DEVICE) >=
                8 * MIB); /* nobody knows that the work has ended */
    void *block = take(f, MIB, f->s);
    CU(cuStreamSynchronize(f->s));
    assert_ok(gantry_heap_free(f->heap, block));
    assert_int_equal(gy_heap_occupied(f->heap, GANTRY_MEMORY_DEVICE), 0);
}

/* ---- captures ------------------------------------------------------------------------------ */

static uint64_t begin_capture(struct fixture *f, CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
    return id;
}

static void end_capture(struct fixture *f, CUstream stream, CUgraph *graph)
{
    CU(cuStreamEndCapture(stream, graph)); /* this fails when anything was written there */
}

static void test_what_is_freed_in_a_capture_stays_with_the_graph(void **state)
{
    struct fixture *f = *state;
    void *before = take(f, 8 * MIB, f->s);
    uint64_t capture = begin_capture(f, f->s);
    uint64_t records = f->emulated ? f->emu.calls("cuEventRecord") : 0;
    uint64_t queries = f->emulated ? f->emu.calls("cuEventQuery") : 0;
    void *inside = take(f, 8 * MIB, f->s);
    void *kept = take(f, 8 * MIB, f->s);
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)inside, 1, 8 * MIB, f->s));
    give(f, inside, f->s);
    void *second = take(f, 4 * MIB, f->s); /* in the same capture it may be used again */
    assert_true(lies_in(second, inside, 8 * MIB));
    give(f, second, f->s);
    give(f, before, f->s);
    if (f->emulated) {
        assert_int_equal(f->emu.calls("cuEventRecord"), records);
        assert_int_equal(f->emu.calls("cuEventQuery"), queries);
    }
    CUgraph graph;
    end_capture(f, f->s, &graph);
    give(f, kept, f->s); /* a result that is freed later */
    CU(cuCtxSynchronize());
    assert_int_equal(stats_of(f).waiting_bytes, 24 * MIB);
    void *others[12];
    for (int i = 0; i < 12; i++) {
        others[i] = take(f, 8 * MIB, i % 2 == 0 ? f->s : f->t);
        assert_false(lies_in(others[i], inside, 8 * MIB));
        assert_false(lies_in(others[i], before, 8 * MIB));
        assert_false(lies_in(others[i], kept, 8 * MIB));
    }
    for (int i = 0; i < 12; i++) {
        give(f, others[i], i % 2 == 0 ? f->s : f->t);
    }
    CU(cuGraphDestroy(graph));
    assert_ok(gantry_heap_end_capture(f->heap, capture, true));
    assert_ok(gantry_heap_settle(f->heap));
    assert_int_equal(stats_of(f).waiting_bytes, 0);
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, NULL));
    assert_int_equal(stats_of(f).slab_bytes, 0);
}

static void test_a_result_may_outlive_its_graph(void **state)
{
    struct fixture *f = *state;
    uint64_t capture = begin_capture(f, f->s);
    void *result = take(f, 8 * MIB, f->s);
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)result, 1, 8 * MIB, f->s));
    CUgraph graph;
    end_capture(f, f->s, &graph);
    CU(cuGraphDestroy(graph));
    assert_ok(gantry_heap_end_capture(f->heap, capture, true));
    assert_ok(gantry_heap_free(f->heap, result));
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, NULL));
    assert_int_equal(stats_of(f).slab_bytes, 0);
}

static void test_others_go_on_during_a_capture(void **state)
{
    struct fixture *f = *state;
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .limit_bytes = 96 * MIB};
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    give(f, take(f, 30 * MIB, f->t), f->t);
    uint64_t capture = begin_capture(f, f->s);
    void *inside = take(f, 20 * MIB, f->s);
    give(f, inside, f->s);
    for (int i = 0; i < 40; i++) { /* on the other stream: with marks, growth and everything */
        give(f, take(f, (size_t)(20 + i) * MIB, f->t), f->t);
        assert_int_equal(gantry_heap_settle(f->heap), GANTRY_ERR_STATE);
    }
    void *none = NULL; /* there is no room, and the device cannot be waited for */
    assert_int_equal(gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, 90 * MIB, 0, f->t, SITE, &none),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    CUgraph graph;
    end_capture(f, f->s, &graph); /* it was not overwritten */
    CU(cuGraphDestroy(graph));
    assert_ok(gantry_heap_end_capture(f->heap, capture, true));
    assert_ok(gantry_heap_settle(f->heap));
    give(f, take(f, 90 * MIB, f->t), f->t);
}

static void test_a_block_recorded_for_a_capture_stays_with_the_graph(void **state)
{
    struct fixture *f = *state;
    void *block = take(f, 8 * MIB, f->t);
    void *small;
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 100, 0, SITE, &small));
    uint64_t capture = begin_capture(f, f->s);
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, 8 * MIB, f->s));
    assert_ok(gantry_heap_record_stream(f->heap, block, f->s));
    give(f, block, f->t);
    give(f, small, f->s);
    CUgraph graph;
    end_capture(f, f->s, &graph);
    CU(cuCtxSynchronize());
    void *other = take(f, 8 * MIB, f->t);
    assert_ptr_not_equal(other, block);
    give(f, other, f->t);
    assert_true(stats_of(f).used_bytes <= 100); /* the small tier counts it until it is free */
    CU(cuGraphDestroy(graph));
    assert_ok(gantry_heap_end_capture(f->heap, capture, true));
    assert_int_equal(stats_of(f).used_bytes, 0);
}

/* ---- streams that come and go -------------------------------------------------------------- */

static void test_streams_are_destroyed_and_made_again(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 300; i++) {
        CUstream stream;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        void *block = take(f, MIB, stream);
        CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, MIB, stream));
        give(f, block, stream);
        give(f, take(f, 2 * MIB, f->s), f->s);
        CU(cuStreamDestroy(stream));
        if (i % 50 == 49) {
            assert_ok(gantry_heap_settle(f->heap));
        }
    }
    assert_true(stats_of(f).slab_bytes < 256 * MIB);
    assert_ok(gantry_heap_settle(f->heap));
    assert_int_equal(stats_of(f).waiting_bytes, 0);
}

/* A stream with the handle of a destroyed stream is another stream. */
static void test_a_reused_handle_is_another_stream(void **state)
{
    struct fixture *f = *state;
    give(f, take(f, MIB, f->t), f->t);
    CUstream first;
    CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    void *block = take(f, 3 * MIB, first);
    keep_busy(f, first);
    give(f, block, first);
    CU(cuStreamDestroy(first)); /* its work goes on */
    CUstream streams[24];       /* for more the driver would wait for the work */
    for (int i = 0; i < 24; i++) {
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        void *other = take(f, 3 * MIB, streams[i]);
        assert_false(lies_in(other, block, 3 * MIB));
        give(f, other, streams[i]);
    }
    let_go(f);
    for (int i = 0; i < 24; i++) {
        CU(cuStreamDestroy(streams[i]));
    }
}

static void *use_per_thread(void *arg)
{
    struct fixture *f = arg;
    assert_ok(gy_context_push(f->context));
    void *block = take(f, 5 * MIB, (CUstream)(uintptr_t)2);
    give(f, block, (CUstream)(uintptr_t)2);
    assert_ok(gy_context_pop(f->context));
    return block;
}

static void test_default_streams(void **state)
{
    struct fixture *f = *state;
    void *block = take(f, 5 * MIB, NULL);
    give(f, block, NULL);
    assert_ptr_equal(take(f, 5 * MIB, (CUstream)(uintptr_t)1), block); /* it is the same stream */
    keep_busy(f, (CUstream)(uintptr_t)2);
    give(f, block, (CUstream)(uintptr_t)2); /* this is the thread's own */
    pthread_t thread;
    void *other;
    assert_int_equal(pthread_create(&thread, NULL, use_per_thread, f), 0);
    pthread_join(thread, &other);
    assert_ptr_not_equal(other, block);
    let_go(f);
    /* The call comes from a thread without a context. */
    gantry_heap *heap = f->heap;
    assert_ok(gy_context_pop(f->context));
    assert_ok(gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, MIB, 0, NULL, SITE, &block));
    assert_ok(gantry_heap_free_on(heap, block, NULL));
    assert_ok(gy_context_push(f->context));
}

static void test_a_child_does_nothing(void **state)
{
    struct fixture *f = *state;
#ifdef __SANITIZE_THREAD__
    skip(); /* the sanitizer cannot follow jemalloc's locks through a fork */
#endif
    void *block = take(f, MIB, f->s);
    pid_t child = fork();
    if (child == 0) {
        void *none;
        bool right = gantry_heap_free_on(f->heap, block, f->s) == GANTRY_OK &&
                     gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, MIB, 0, f->s, SITE, &none) ==
                         GANTRY_ERR_STATE &&
                     gantry_heap_record_stream(f->heap, block, f->s) == GANTRY_ERR_STATE &&
                     gantry_heap_settle(f->heap) == GANTRY_ERR_STATE;
        _exit(right ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    give(f, block, f->s);
}

static void test_wrong_arguments(void **state)
{
    struct fixture *f = *state;
    void *block = NULL;
    gantry_memory_kind device = GANTRY_MEMORY_DEVICE;
    assert_int_equal(gantry_heap_alloc_on(f->heap, device, 0, 0, f->s, SITE, &block),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "gantry_heap_alloc_on: 0 bytes"));
    assert_int_equal(gantry_heap_alloc_on(f->heap, device, 1, 0, f->s, SITE, NULL),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_free_on(NULL, block, f->s), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_record_stream(f->heap, NULL, f->s), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_heap_free_on(f->heap, NULL, f->s));
    block = take(f, MIB, f->s);
    give(f, block, f->s);
    assert_int_equal(gantry_heap_free_on(f->heap, block, f->s), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "gantry_heap_free_on"));
    assert_int_equal(gantry_heap_free_on(f->heap, &block, f->s), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_record_stream(f->heap, block, f->s), GANTRY_ERR_NOT_FOUND);
    if (f->emulated) { /* a real driver may not find it out */
        CUstream gone;
        CU(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
        CU(cuStreamDestroy(gone));
        assert_int_equal(gantry_heap_alloc_on(f->heap, device, 1, 0, gone, SITE, &block),
                         GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(gantry_last_error(), "is not a stream"));
    }
}

/* ---- with checks --------------------------------------------------------------------------- */

static void test_with_checks(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.check = true;
    struct fixture *f = open_with(&options);
    for (int i = 0; i < 50; i++) {
        void *block = take(f, (size_t)(i + 1) * 10000, i % 2 == 0 ? f->s : f->t);
        CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, (size_t)(i + 1) * 10000, f->s));
        assert_ok(gantry_heap_record_stream(f->heap, block, f->s));
        give(f, block, i % 2 == 0 ? f->s : f->t);
    }
    uint64_t capture = begin_capture(f, f->s);
    give(f, take(f, MIB, f->s), f->s);
    CUgraph graph;
    end_capture(f, f->s, &graph);
    CU(cuGraphDestroy(graph));
    assert_ok(gantry_heap_end_capture(f->heap, capture, true));
    assert_ok(gantry_heap_settle(f->heap));
    assert_int_equal(stats_of(f).used_bytes, 0);
    assert_int_equal(stats_of(f).waiting_bytes, 0);
    close_all(f);
}

/* ---- all at once --------------------------------------------------------------------------- */

#define THREADS 4
#define STEPS 3000
#define HELD 24

struct worker {
    struct fixture *f;
    pthread_t thread;
    CUstream stream;
    uint64_t random;
    unsigned char number;
};

static uint64_t next_random(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random >> 7;
}

/* The order on the stream holds: a reader of the block finds in it what was written there. */
static void fill(struct fixture *f, void *block, size_t bytes, unsigned char with, CUstream stream)
{
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, with, bytes < 4096 ? bytes : 4096, stream));
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct fixture *f = w->f;
    void *held[HELD] = {NULL};
    assert_ok(gy_context_push(f->context));
    for (int i = 0; i < STEPS; i++) {
        unsigned at = (unsigned)(next_random(w) % HELD);
        if (held[at] != NULL) {
            unsigned char seen = 0;
            if (i % 64 == 0) {
                CU(cuStreamSynchronize(w->stream));
                CU(cuMemcpyDtoH(&seen, (CUdeviceptr)(uintptr_t)held[at], 1));
                assert_int_equal(seen, w->number);
            }
            if (i % 16 == 0) {
                assert_ok(gantry_heap_record_stream(f->heap, held[at], f->s));
            }
            give(f, held[at], w->stream);
            held[at] = NULL;
        } else {
            size_t bytes = (size_t)1 << (8 + next_random(w) % 14);
            held[at] = take(f, bytes, w->stream);
            fill(f, held[at], bytes, w->number, w->stream);
        }
    }
    for (int i = 0; i < HELD; i++) {
        if (held[i] != NULL) {
            give(f, held[i], w->stream);
        }
    }
    assert_ok(gy_context_pop(f->context));
    return NULL;
}

static void test_threads_with_a_stream_each(void **state)
{
    struct fixture *f = *state;
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .limit_bytes = 192 * MIB};
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .f = f, .random = 88172645463325252u + (uint64_t)i, .number = (unsigned char)(i + 1)};
        CU(cuStreamCreate(&workers[i].stream, CU_STREAM_NON_BLOCKING));
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    assert_ok(gantry_heap_settle(f->heap));
    assert_int_equal(stats_of(f).used_bytes, 0);
    assert_int_equal(stats_of(f).waiting_bytes, 0);
    for (int i = 0; i < THREADS; i++) {
        CU(cuStreamDestroy(workers[i].stream));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_freed_memory_is_used_again_on_its_stream_at_once),
        TEST(test_others_get_it_when_the_stream_has_passed),
        TEST(test_nothing_is_unmapped_while_it_is_in_use),
        TEST(test_a_stream_alone_joins_its_memory_with_what_is_free),
        TEST(test_recorded_streams_are_waited_for),
        TEST(test_small_blocks_wait_too),
        TEST(test_without_room_streams_are_waited_for),
        TEST(test_what_waits_does_not_count_for_ever),
        TEST(test_what_is_freed_in_a_capture_stays_with_the_graph),
        TEST(test_a_result_may_outlive_its_graph),
        TEST(test_others_go_on_during_a_capture),
        TEST(test_a_block_recorded_for_a_capture_stays_with_the_graph),
        TEST(test_streams_are_destroyed_and_made_again),
        TEST(test_a_reused_handle_is_another_stream),
        TEST(test_default_streams),
        TEST(test_a_child_does_nothing),
        TEST(test_wrong_arguments),
        cmocka_unit_test(test_with_checks),
        TEST(test_threads_with_a_stream_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
