/* SPDX-License-Identifier: MIT */
/* How often events are recorded on streams where memory is freed: the more memory a heap has, the more may be
 * freed between two of them. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define CU(call) assert_int_equal(context->driver->call, CUDA_SUCCESS)

enum { FREES = 15 }; /* fewer than the blocks that are always enough for an event */

/* Free blocks of 9 MiB on one of two streams, in a heap that has taken `bytes`; returns how many events that
 * took. */
static uint64_t events_with(size_t bytes)
{
    struct gy_context *context;
    gantry_heap *heap;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    CUstream streams[2];
    void *blocks[FREES], *other;
    uint64_t (*calls)(const char *name);
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gy_context_open(&options, &context));
    void *symbol = dlsym(context->driver->library, "gantry_emu_calls");
    assert_non_null(symbol);
    memcpy(&calls, &symbol, sizeof(calls));
    assert_ok(gy_heap_create(context, NULL, &heap));
    assert_ok(gy_context_push(context));
    for (int i = 0; i < 2; i++) {
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    gantry_alloc_site site = GANTRY_ALLOC_SITE("test");
    assert_ok(gantry_heap_reserve(heap, GANTRY_MEMORY_DEVICE, bytes));
    assert_ok(gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, MIB, 0, streams[1], site, &other));
    for (int i = 0; i < FREES; i++) {
        assert_ok(gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, 9 * MIB, 0, streams[0], site, &blocks[i]));
    }
    const uint64_t before = calls("cuEventRecord");
    for (int i = 0; i < FREES; i++) {
        assert_ok(gantry_heap_free_on(heap, blocks[i], streams[0]));
    }
    const uint64_t events = calls("cuEventRecord") - before;
    assert_ok(gantry_heap_free_on(heap, other, streams[1]));
    assert_ok(gantry_heap_settle(heap));
    for (int i = 0; i < 2; i++) {
        CU(cuStreamDestroy(streams[i]));
    }
    gy_heap_destroy(heap);
    (void)gy_context_pop(context);
    gy_context_close(context);
    return events;
}

static void test_a_large_heap_records_fewer_events(void **state)
{
    (void)state;
    assert_int_equal(events_with(256 * MIB), FREES);      /* 8 MiB are enough */
    assert_int_equal(events_with(4096 * MIB), FREES / 8); /* 64 MiB are */
    assert_int_equal(gy_alloc_live(), 0);
}

/* ---- one heap ---------------------------------------------------------------------------------- */

static struct {
    struct gy_context *context;
    gantry_heap *heap;
    CUstream streams[2];
    uint64_t (*calls)(const char *name);
    int (*fail)(const char *name, uint64_t nth, int result, int mode);
} one;

static int open_one(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gy_context_open(&options, &one.context));
    struct gy_context *context = one.context;
    *(void **)&one.calls = dlsym(context->driver->library, "gantry_emu_calls");
    *(void **)&one.fail = dlsym(context->driver->library, "gantry_emu_fail");
    assert_ok(gy_heap_create(context, NULL, &one.heap));
    assert_ok(gy_context_push(context));
    for (int i = 0; i < 2; i++) {
        CU(cuStreamCreate(&one.streams[i], CU_STREAM_NON_BLOCKING));
    }
    return 0;
}

static int close_one(void **state)
{
    (void)state;
    struct gy_context *context = one.context;
    for (int i = 0; i < 2; i++) {
        CU(cuStreamDestroy(one.streams[i]));
    }
    (void)gy_context_pop(context);
    gy_heap_destroy(one.heap);
    gy_context_close(context);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

static void *take(size_t bytes, int stream)
{
    void *block;
    assert_ok(gantry_heap_alloc_on(one.heap, GANTRY_MEMORY_DEVICE, bytes, 0, one.streams[stream],
                                   GANTRY_ALLOC_SITE("test"), &block));
    return block;
}

static void give(void *block, int stream)
{
    assert_ok(gantry_heap_free_on(one.heap, block, one.streams[stream]));
}

/* An event could not be recorded: the next call makes up for it, however little it frees. */
static void test_a_mark_that_fails_is_made_by_the_next_call(void **state)
{
    (void)state;
    assert_ok(gantry_heap_reserve(one.heap, GANTRY_MEMORY_DEVICE, 4096 * MIB)); /* 64 MiB are enough */
    void *other = take(MIB, 1), *large = take(128 * MIB, 0), *little = take(48 * MIB, 0);
    assert_int_equal((one.fail)("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
    uint64_t before = one.calls("cuEventRecord");
    give(large, 0);
    assert_int_equal(one.calls("cuEventRecord"), before + 1);
    give(little, 0);
    assert_int_equal(one.calls("cuEventRecord"), before + 2);
    give(other, 1);
    assert_ok(gantry_heap_settle(one.heap));
}

static gantry_heap_stats stats_of_one(void)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(one.heap, GANTRY_MEMORY_DEVICE, &stats));
    return stats;
}

/* Every count, of a block that has more bytes than 32 bits say. */
static void test_large_blocks_are_counted(void **state)
{
    (void)state;
    const size_t bytes[] = {3072 * MIB, 5120 * MIB};
    for (int i = 0; i < 2; i++) {
        for (int recorded = 0; recorded < 2; recorded++) {
            void *block = take(bytes[i], 0);
            assert_int_equal(stats_of_one().used_bytes, bytes[i]);
            if (recorded != 0) {
                assert_ok(gantry_heap_record_stream(one.heap, block, one.streams[1]));
            }
            give(block, 0);
            assert_int_equal(stats_of_one().used_bytes, 0);
            assert_int_equal(stats_of_one().block_count, 0);
            assert_ok(gantry_heap_settle(one.heap));
            assert_int_equal(stats_of_one().waiting_bytes, 0);
            assert_true(stats_of_one().free_bytes >= bytes[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_heap_records_fewer_events),
        cmocka_unit_test_setup_teardown(test_a_mark_that_fails_is_made_by_the_next_call, open_one, close_one),
        cmocka_unit_test_setup_teardown(test_large_blocks_are_counted, open_one, close_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
