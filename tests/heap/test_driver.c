/* SPDX-License-Identifier: MIT */
/* The heap on a whole driver: the emulated one, or a device's with GANTRY_TEST_DRIVER=cuda. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")

struct fixture {
    struct gy_context *context;
    gantry_heap *heap;
    bool emulated;
    struct gantry_emu_control emu; /* when emulated */
};

static void open_context(struct fixture *f)
{
    const char *name = getenv("GANTRY_TEST_DRIVER");
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = name != NULL && strcmp(name, "cuda") == 0 ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN; /* some tests break the context */
    memset(f, 0, sizeof(*f));
    assert_ok(gy_context_open(&options, &f->context));
    f->emulated = f->context->driver->emulated;
    if (f->emulated) {
#define BIND(result, member, parameters)                                                  \
    *(void **)&f->emu.member = dlsym(f->context->driver->library, "gantry_emu_" #member); \
    assert_non_null(*(void **)&f->emu.member);
        GANTRY_EMU_CONTROLS(BIND)
#undef BIND
        f->emu.reset();
    }
}

static int setup(void **state)
{
    static struct fixture f;
    open_context(&f);
    assert_ok(gy_heap_create(f.context, NULL, &f.heap));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gy_heap_destroy(f->heap);
    if (f->emulated) {
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), 0);
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_PINNED_BLOCKS), 0);
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_RESERVATIONS), 0);
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
        f->emu.reset();
    }
    gy_context_close(f->context);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

/* Returns the address by which the device knows a block. */
static CUdeviceptr device_address(struct fixture *f, int kind, void *block)
{
    void *address = block;
    if (kind != GANTRY_MEMORY_DEVICE) {
        assert_ok(gantry_heap_device_address(f->heap, block, &address));
    }
    return (CUdeviceptr)(uintptr_t)address;
}

static void test_blocks_of_every_kind_carry_the_devices_data(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {1, 300, 14336, 14337, 70001, 5 * MIB + 3};
    unsigned char *out = malloc(6 * MIB);
    unsigned char *in = malloc(6 * MIB);
    assert_true(out != NULL && in != NULL);
    assert_ok(gy_context_push(f->context));
    for (int kind = 0; kind < GANTRY_MEMORY_HOST; kind++) {
        void *blocks[6];
        for (int i = 0; i < 6; i++) {
            memset(out, 10 * kind + i + 1, sizes[i]);
            assert_ok(gantry_heap_alloc(f->heap, (gantry_memory_kind)kind, sizes[i], 0, SITE, &blocks[i]));
            CUdeviceptr to = device_address(f, kind, blocks[i]);
            assert_ok(GY_CALL(f->context, cuMemcpyHtoD(to, out, sizes[i])));
        }
        for (int i = 0; i < 6; i++) { /* no block was written into by another one's owner */
            memset(out, 10 * kind + i + 1, sizes[i]);
            CUdeviceptr from = device_address(f, kind, blocks[i]);
            assert_ok(GY_CALL(f->context, cuMemcpyDtoH(in, from, sizes[i])));
            assert_memory_equal(in, out, sizes[i]);
            if (kind != GANTRY_MEMORY_DEVICE) {
                assert_memory_equal(blocks[i], out, sizes[i]);
            }
            assert_ok(gantry_heap_free(f->heap, blocks[i]));
        }
    }
    assert_ok(gy_context_pop(f->context));
    free(out);
    free(in);
}

/* Allocate and free blocks of many sizes. */
static void churn(struct fixture *f, int kind)
{
    void *blocks[50];
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < 50; i++) {
            size_t bytes = 1 + (i * 7919 + round * 104729) % (i % 10 == 0 ? 200000 : 15000);
            assert_ok(gantry_heap_alloc(f->heap, (gantry_memory_kind)kind, bytes, 0, SITE, &blocks[i]));
        }
        for (size_t i = 0; i < 50; i++) {
            assert_ok(gantry_heap_free(f->heap, blocks[i * 7 % 50]));
        }
    }
}

static void test_steady_state_makes_no_driver_call(void **state)
{
    struct fixture *f = *state;
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        churn(f, kind);
        if (f->emulated) {
            f->emu.reset_counters();
        }
        churn(f, kind);
        if (f->emulated) {
            assert_int_equal(f->emu.calls(NULL), 0);
        }
    }
}

static void test_slab_is_taken_while_a_graph_is_captured(void **state)
{
    struct fixture *f = *state;
    CUstream stream;
    CUgraph graph;
    assert_ok(gy_context_push(f->context));
    assert_ok(GY_CALL(f->context, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    assert_ok(GY_CALL(f->context, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)));
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        void *block;
        assert_ok(gantry_heap_alloc(f->heap, (gantry_memory_kind)kind, 3 * MIB, 0, SITE, &block));
        assert_ok(gantry_heap_free(f->heap, block));
    }
    assert_ok(GY_CALL(f->context, cuStreamEndCapture(stream, &graph)));
    assert_ok(GY_CALL(f->context, cuGraphDestroy(graph)));
    assert_ok(GY_CALL(f->context, cuStreamDestroy(stream)));
    assert_ok(gy_context_pop(f->context));
}

/* Allocate one small and one large block of each kind; returns the first status that is not OK. */
static gantry_status use_heap(gantry_heap *heap)
{
    gantry_status status = GANTRY_OK;
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        for (int i = 0; i < 2; i++) {
            void *block = NULL;
            size_t bytes = i == 0 ? 500 : 3 * MIB;
            gantry_status one = gantry_heap_alloc(heap, (gantry_memory_kind)kind, bytes, 0, SITE, &block);
            status = status != GANTRY_OK ? status : one;
            assert_ok(gantry_heap_free(heap, block));
        }
    }
    return status;
}

static void test_each_failing_driver_call_is_reported_and_leaks_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const functions[] = {
        "cuCtxPushCurrent", "cuMemCreate",    "cuMemAddressReserve",       "cuMemMap",
        "cuMemSetAccess",   "cuMemHostAlloc", "cuMemHostGetDevicePointer",
    };
    static const struct {
        CUresult result;
        gantry_status status;
    } failures[] = {
        {CUDA_ERROR_OUT_OF_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY},
        {CUDA_ERROR_INVALID_VALUE, GANTRY_ERR_DRIVER},
    };
    if (!f->emulated) {
        skip();
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (size_t k = 0; k < 2; k++) {
            gantry_heap *heap;
            assert_ok(gy_heap_create(f->context, NULL, &heap));
            /* From now on, retries with fewer bytes fail, too. */
            assert_int_equal((f->emu.fail)(functions[i], 1, (int)failures[k].result, GANTRY_EMU_ALWAYS), 0);
            gantry_status status = use_heap(heap);
            f->emu.clear_faults();
            assert_int_equal(status, failures[k].status);
            assert_ok(use_heap(heap));
            gy_heap_destroy(heap);
            assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), 0);
            assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_RESERVATIONS), 0);
            assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
            assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_PINNED_BLOCKS), 0);
        }
    }
}

static void test_device_without_room_says_so_and_recovers(void **state)
{
    struct fixture *f = *state;
    void *block;
    size_t more = (size_t)f->context->info.memory_bytes + MIB;
    assert_int_equal(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, more, 0, SITE, &block),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 3 * MIB, 0, SITE, &block));
    assert_ok(gantry_heap_free(f->heap, block));
}

static void test_lost_context_is_reported_and_the_heap_still_closes(void **state)
{
    struct fixture *f = *state;
    void *before, *block = NULL;
    if (!f->emulated) {
        skip();
    }
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 300, 0, SITE, &before));
    assert_int_equal(f->emu.break_context(f->context->native, CUDA_ERROR_ILLEGAL_ADDRESS), 0);
    gantry_status status = gantry_heap_alloc(f->heap, GANTRY_MEMORY_PINNED, 1, 0, SITE, &block);
    assert_int_equal(status, GANTRY_ERR_DEVICE_LOST);
    status = gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 64 * MIB, 0, SITE, &block);
    assert_int_equal(status, GANTRY_ERR_DEVICE_LOST);
    assert_null(block);
    assert_ok(gantry_heap_free(f->heap, before));
    /* The memory of the broken context goes when it is destroyed. */
    gy_heap_destroy(f->heap);
    gy_context_close(f->context);
    open_context(f);
    assert_ok(gy_heap_create(f->context, NULL, &f->heap));
}

/* Nobody knows what the device still does with memory that tasks have freed as they failed: it stays mapped
 * up to the end, and the heap waits for nothing. */
static void test_a_lost_context_keeps_its_memory_up_to_the_end(void **state)
{
    struct fixture *f = *state;
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    uint64_t given = 1;
    void *block;
    if (!f->emulated) {
        skip();
    }
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 64 * MIB, 0, SITE, &block));
    gy_context_lose(f->context,
                    &(struct gy_error){.status = GANTRY_ERR_DEVICE_LOST, .text = "lost to us only"});
    assert_ok(gantry_heap_free(f->heap, block));
    assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, &given));
    assert_int_equal(given, 0);
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_true(stats.slab_bytes >= 64 * MIB);
    const uint64_t waits = f->emu.calls("cuCtxSynchronize");
    gy_heap_destroy(f->heap);
    assert_int_equal(f->emu.calls("cuCtxSynchronize"), waits);
    assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
    gy_context_close(f->context);
    open_context(f);
    assert_ok(gy_heap_create(f->context, NULL, &f->heap));
}

static void keep_error(void *user, gantry_log_level level, const char *line)
{
    char *text = user;
    if (level == GANTRY_LOG_ERROR) {
        snprintf(text, 1000, "%s", line);
    }
}

/* A freed device block is poisoned on the emulated driver: a program that reads it sees that, and one that
 * writes to it is reported when the block is given out again. */
static void test_use_after_free_of_device_memory_shows(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {3000, 100000};
    static unsigned char bytes[100000];
    if (!f->emulated) {
        print_message("only the emulated driver's device memory is poisoned\n");
        return;
    }
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.check = true;
    gantry_heap *heap;
    char text[1000] = "";
    assert_ok(gy_heap_create(f->context, &options, &heap));
    gantry_set_log(keep_error, text, GANTRY_LOG_ERROR);
    assert_ok(gy_context_push(f->context));
    for (int i = 0; i < 2; i++) {
        void *block, *again;
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, sizes[i], 0, SITE, &block));
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)block;
        memset(bytes, 7, sizes[i]);
        assert_ok(GY_CALL(f->context, cuMemcpyHtoD(at, bytes, sizes[i])));
        assert_ok(gantry_heap_free(heap, block));
        assert_ok(GY_CALL(f->context, cuMemcpyDtoH(bytes, at, sizes[i])));
        assert_int_equal(bytes[0], 0xdb);
        assert_int_equal(bytes[2000], 0xdb);
        bytes[0] = 7;
        assert_ok(GY_CALL(f->context, cuMemcpyHtoD(at + 1000, bytes, 1)));
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, sizes[i], 0, SITE, &again));
        assert_ptr_equal(again, block);
        assert_non_null(strstr(text, "byte 1000 of the block at"));
        text[0] = '\0';
        assert_ok(gantry_heap_free(heap, again));
    }
    assert_ok(gy_context_pop(f->context));
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    gy_heap_destroy(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks_of_every_kind_carry_the_devices_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_steady_state_makes_no_driver_call, setup, teardown),
        cmocka_unit_test_setup_teardown(test_use_after_free_of_device_memory_shows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slab_is_taken_while_a_graph_is_captured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_failing_driver_call_is_reported_and_leaks_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_device_without_room_says_so_and_recovers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_context_keeps_its_memory_up_to_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_context_is_reported_and_the_heap_still_closes, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
