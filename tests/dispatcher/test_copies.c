/* SPDX-License-Identifier: MIT */
/* Single copies and fills: which of them are refused, and that a refused one touches nothing. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include "base/checking.h"
#include "context/context.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, SMALL = 100 };

/* The answer of one call. */
struct answer {
    gantry_status status;
    char text[400];
};

struct copies {
    struct gpu_fixture gpu;
    char *host, *other;            /* page-locked, 2 * BLOCK and BLOCK bytes */
    char *device, *victim, *small; /* BLOCK, BLOCK and SMALL bytes; the first two are neighbours */
    char *foreign;                 /* BLOCK bytes, allocated with the driver */
    void (*body)(struct copies *copies, gantry_launch *launch);
    struct answer answers[16];
    uint32_t count;
};

static void note(struct copies *c, gantry_status status)
{
    struct answer *answer = &c->answers[c->count++];
    answer->status = status;
    if (status != GANTRY_OK) {
        (void)snprintf(answer->text, sizeof(answer->text), "%s", gantry_last_error());
    }
}

static gantry_launch_result launch_body(gantry_launch *launch, void *arg)
{
    struct copies *c = arg;
    c->body(c, launch);
    return GANTRY_LAUNCH_DONE;
}

static void *allocate(struct copies *c, gantry_memory_kind kind, size_t bytes)
{
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(c->gpu.context), kind, bytes, 0,
                                GANTRY_ALLOC_SITE("copied"), &block));
    return block;
}

static int open_copies(void **state)
{
    static struct copies copies;
    struct copies *c = &copies;
    memset(c, 0, sizeof(*c));
    gpu_fixture_open(&c->gpu, 1, 0);
    c->host = allocate(c, GANTRY_MEMORY_PINNED, 2 * BLOCK);
    c->other = allocate(c, GANTRY_MEMORY_PINNED, BLOCK);
    c->device = allocate(c, GANTRY_MEMORY_DEVICE, 2 * BLOCK);
    assert_ok(gantry_heap_resize(gantry_context_heap(c->gpu.context), c->device, BLOCK));
    c->victim = allocate(c, GANTRY_MEMORY_DEVICE, BLOCK);
    c->small = allocate(c, GANTRY_MEMORY_DEVICE, SMALL);
    *state = c;
    return 0;
}

static int close_copies(void **state)
{
    struct copies *c = *state;
    void *blocks[] = {c->host, c->other, c->device, c->victim, c->small};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        assert_ok(gantry_heap_free(gantry_context_heap(c->gpu.context), blocks[i]));
    }
    gpu_fixture_close(&c->gpu);
    return 0;
}

static void run(struct copies *c, void (*body)(struct copies *copies, gantry_launch *launch))
{
    c->body = body;
    c->count = 0;
    gpu_fixture_gpu(&c->gpu, GANTRY_TASK_KERNEL, "copies", launch_body, c);
    assert_ok(gpu_fixture_step(&c->gpu));
}

static void copy_too_much(struct copies *c, gantry_launch *l)
{
    note(c, gantry_launch_copy_htod(l, c->device, c->host, 2 * BLOCK));
    note(c, gantry_launch_copy_dtoh(l, c->host, c->device, 2 * BLOCK));
    note(c, gantry_launch_copy_dtod(l, c->victim, c->device, BLOCK + 1));
    note(c, gantry_launch_copy_dtod(l, c->device + 1, c->victim, BLOCK));
    note(c, gantry_launch_fill(l, c->device, 0xab, 4, BLOCK / 4 + 1));
    note(c, gantry_launch_fill(l, c->device, 0xab, 4, SIZE_MAX / 4 + 2));
    note(c, gantry_launch_copy_htod(l, c->small, c->host, SMALL + 1));
    note(c, gantry_launch_copy_htod(l, c->device, c->host + BLOCK + 1, BLOCK));
}

static void test_copies_and_fills_stay_inside_of_their_block(void **state)
{
    struct copies *c = *state;
    gpu_fixture_clear(&c->gpu, c->victim, BLOCK);
    memset(c->host, 0xab, 2 * BLOCK);
    run(c, copy_too_much);
    static const char *const parts[] = {
        "gantry_launch_copy_htod: 8192 bytes, but device ",
        "gantry_launch_copy_dtoh: 8192 bytes, but device ",
        "gantry_launch_copy_dtod: 4097 bytes, but to ",
        "has 4095 left: it lies 1 bytes into a device",
        "gantry_launch_fill: 4100 bytes, but device ",
        "patterns of 4 bytes are more than any memory",
        "device block of 100 bytes (copied, from ",
        "has 4095 left: it lies 4097 bytes into a pinned",
    };
    assert_int_equal(c->count, sizeof(parts) / sizeof(parts[0]));
    for (uint32_t i = 0; i < c->count; i++) {
        assert_int_equal(c->answers[i].status, GANTRY_ERR_INVALID_ARGUMENT);
        if (strstr(c->answers[i].text, parts[i]) == NULL) {
            fail_msg("'%s' lacks '%s'", c->answers[i].text, parts[i]);
        }
    }
    assert_int_equal(gpu_fixture_stats(&c->gpu).copies, 1); /* the mark of gpu_fixture_clear() */
}

static void copy_to_the_end(struct copies *c, gantry_launch *l)
{
    note(c, gantry_launch_copy_htod(l, c->device, c->host, BLOCK));
    note(c, gantry_launch_copy_htod(l, c->device + BLOCK - 1, c->host, 1));
    note(c, gantry_launch_copy_dtod(l, c->victim, c->device, BLOCK));
    note(c, gantry_launch_copy_dtoh(l, c->host + BLOCK, c->victim, BLOCK));
    note(c, gantry_launch_fill(l, c->small, 1, 1, SMALL));
    note(c, gantry_launch_fill(l, c->small, 1, 4, SMALL / 4));
}

static void test_a_copy_may_reach_the_last_byte(void **state)
{
    struct copies *c = *state;
    run(c, copy_to_the_end);
    for (uint32_t i = 0; i < c->count; i++) {
        assert_int_equal(c->answers[i].status, GANTRY_OK);
    }
}

static void copy_nothing(struct copies *c, gantry_launch *l)
{
    note(c, gantry_launch_copy_htod(l, NULL, NULL, 0));
    note(c, gantry_launch_copy_dtoh(l, NULL, NULL, 0));
    note(c, gantry_launch_copy_dtod(l, NULL, NULL, 0));
    note(c, gantry_launch_fill(l, NULL, 0, 4, 0));
    note(c, gantry_launch_copy_htod(l, c->device + BLOCK, c->host, 0));
}

static void test_0_bytes_do_nothing(void **state)
{
    struct copies *c = *state;
    run(c, copy_nothing);
    for (uint32_t i = 0; i < c->count; i++) {
        assert_int_equal(c->answers[i].status, GANTRY_OK);
    }
    assert_int_equal(gpu_fixture_stats(&c->gpu).copies, 0);
}

static void copy_stale(struct copies *c, gantry_launch *l)
{
    void *mine;
    assert_ok(gantry_launch_alloc(l, GANTRY_MEMORY_DEVICE, BLOCK, 0, GANTRY_ALLOC_SITE("mine"), &mine));
    assert_ok(gantry_free_after(mine, l));
    note(c, gantry_launch_copy_htod(l, mine, c->host, BLOCK));
    note(c, gantry_launch_copy_htod(l, NULL, c->host, BLOCK));
    note(c, gantry_launch_copy_htod(l, c->device, NULL, BLOCK));
    note(c, gantry_launch_fill(l, NULL, 0, 4, 1));
}

static void test_memory_without_a_live_block_is_refused(void **state)
{
    struct copies *c = *state;
    run(c, copy_stale);
    assert_int_equal(c->count, 4);
    static const char *const parts[] = {"is in no live block of the heap's device memory", "device is NULL",
                                        "host is NULL", "device is NULL"};
    for (uint32_t i = 0; i < c->count; i++) {
        assert_int_equal(c->answers[i].status, GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(c->answers[i].text, parts[i]));
    }
}

/* Only the driver knows the bounds of memory that is not the heap's. */
static void copy_foreign(struct copies *c, gantry_launch *l)
{
    note(c, gantry_launch_copy_htod(l, c->foreign, c->host, 2 * BLOCK));
    note(c, gantry_launch_copy_dtod(l, c->device, c->foreign + 96, BLOCK - 95));
    note(c, gantry_launch_copy_htod(l, c->foreign, c->host, BLOCK));
}

static void test_bounds_of_other_memory_are_checked_on_demand(void **state)
{
    struct copies *c = *state;
    const struct gy_driver *driver = c->gpu.context->cuda->driver;
    CUdeviceptr memory;
    assert_ok(gantry_context_acquire(c->gpu.context));
    assert_int_equal(driver->cuMemAlloc(&memory, BLOCK), CUDA_SUCCESS);
    c->foreign = (char *)(uintptr_t)memory;
    setenv("GANTRY_CHECK", "bounds", 1);
    (void)gy_checks_read();
    run(c, copy_foreign);
    unsetenv("GANTRY_CHECK");
    (void)gy_checks_read();
    assert_int_equal(c->answers[0].status, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(c->answers[0].text, "8192 bytes, but device 0x"));
    assert_non_null(strstr(c->answers[0].text, "has 4096 left: it lies 0 bytes into an allocation of 4096"));
    assert_int_equal(c->answers[1].status, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(c->answers[1].text, "has 4000 left: it lies 96 bytes into an allocation"));
    assert_int_equal(c->answers[2].status, GANTRY_OK);
    assert_int_equal(driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemFree(memory), CUDA_SUCCESS);
    assert_ok(gantry_context_release(c->gpu.context));
}

/* The emulated driver's device memory has guard bytes, too: a kernel that writes behind its block is found
 * out. */
static void test_writes_of_the_device_behind_a_block_are_found(void **state)
{
    (void)state;
    if (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED) {
        return;
    }
    struct gpu_fixture gpu;
    struct log_lines lines;
    char *block;
    setenv("GANTRY_CHECK", "1", 1);
    gpu_fixture_open(&gpu, 1, 0);
    unsetenv("GANTRY_CHECK");
    gantry_heap *heap = gantry_context_heap(gpu.context);
    const struct gy_driver *driver = gpu.context->cuda->driver;
    log_lines_begin(&lines, "byte 1 behind the device block at");
    for (int round = 0; round < 2; round++) {
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 5000, 0, GANTRY_ALLOC_SITE("overrun"),
                                    (void **)&block));
        assert_ok(gantry_context_acquire(gpu.context));
        assert_int_equal(
            driver->cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, 5000 + (size_t)round, NULL),
            CUDA_SUCCESS);
        assert_int_equal(driver->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(gantry_context_release(gpu.context));
        assert_ok(gantry_heap_free(heap, block));
        assert_int_equal(atomic_load(&lines.count), round);
    }
    (void)log_lines_end(&lines);
    gpu_fixture_close(&gpu);
    (void)gy_checks_read();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_copies, close_copies)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_copies_and_fills_stay_inside_of_their_block),
        TEST(test_a_copy_may_reach_the_last_byte),
        TEST(test_0_bytes_do_nothing),
        TEST(test_memory_without_a_live_block_is_refused),
        TEST(test_bounds_of_other_memory_are_checked_on_demand),
        cmocka_unit_test(test_writes_of_the_device_behind_a_block_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
