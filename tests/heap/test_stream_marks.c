/* How often events are recorded on streams where memory is freed: the more memory a heap has, the more may be
 * freed between two of them. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "driver/emulator/gantry_emu.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_heap_records_fewer_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
