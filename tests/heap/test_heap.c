/* SPDX-License-Identifier: MIT */
/* The public heap on a driver that can be made to fail. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/heap.h"
#include "tests/heap/fake_driver.h"
#include "tests/heap/heap_scene.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")

static void test_every_kind_allocates_resizes_and_frees(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    assert_int_equal(fake_driver.held, 0); /* nothing is taken before it is needed */
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        static const size_t sizes[] = {1, 256, 14336, 14337, 100000, 3 * MIB};
        void *blocks[6];
        uint64_t used = 0;
        for (int i = 0; i < 6; i++) {
            assert_ok(gantry_heap_alloc(heap, (gantry_memory_kind)kind, sizes[i], 0, SITE, &blocks[i]));
            assert_int_equal((uintptr_t)blocks[i] % 256, 0);
            if (kind != GANTRY_MEMORY_DEVICE) {
                memset(blocks[i], kind + 1, sizes[i]);
            }
            used += sizes[i];
        }
        gantry_heap_stats stats = heap_scene_stats(heap, (gantry_memory_kind)kind);
        assert_int_equal(stats.used_bytes, used);
        assert_int_equal(stats.peak_bytes, used);
        assert_int_equal(stats.block_count, 6);
        assert_int_equal(stats.alloc_count, 6);
        assert_int_equal(stats.free_count, 0);
        assert_true(stats.slab_bytes >= used && stats.slab_bytes % (2 * MIB) == 0);
        assert_true(stats.largest_free < stats.slab_bytes);
        for (int i = 0; i < 6; i++) {
            assert_ok(gantry_heap_resize(heap, blocks[i], (sizes[i] + 1) / 2));
            assert_ok(gantry_heap_free(heap, blocks[i]));
            assert_int_equal(gantry_heap_free(heap, blocks[i]), GANTRY_ERR_NOT_FOUND);
        }
        stats = heap_scene_stats(heap, (gantry_memory_kind)kind);
        assert_int_equal(stats.used_bytes, 0);
        assert_int_equal(stats.block_count, 0);
        assert_int_equal(stats.free_count, 6);
        assert_int_equal(stats.peak_bytes, used);
    }
    heap_scene_close(heap);
}

static void test_bad_requests_are_refused(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    void *out = &heap;
    assert_int_equal(gantry_heap_alloc(NULL, GANTRY_MEMORY_HOST, 1, 0, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 1, 0, SITE, NULL),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 0, 0, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, (gantry_memory_kind)4, 1, 0, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, (gantry_memory_kind)-1, 1, 0, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 1, 3, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 1, 4 * MIB, SITE, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, SIZE_MAX, 0, SITE, &out),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, SIZE_MAX - 1, 0, SITE, &out),
                     GANTRY_ERR_OUT_OF_HOST_MEMORY);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, SIZE_MAX - 2 * MIB, 0, SITE, &out),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_ptr_equal(out, &heap); /* nothing is ever written there */
    assert_ok(gantry_heap_free(heap, NULL));
    assert_int_equal(gantry_heap_free(heap, &out), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_free(NULL, &out), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_free(heap, (void *)UINTPTR_MAX), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_resize(heap, &out, 1), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_resize(heap, &out, 0), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_heap_stats stats = {.struct_size = sizeof(size_t)};
    assert_int_equal(gantry_heap_get_stats(heap, GANTRY_MEMORY_HOST, &stats), GANTRY_ERR_INVALID_ARGUMENT);
    stats.struct_size = sizeof(stats);
    assert_int_equal(gantry_heap_get_stats(heap, (gantry_memory_kind)4, &stats), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_get_stats(NULL, GANTRY_MEMORY_HOST, &stats), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_get_stats(heap, GANTRY_MEMORY_HOST, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    heap_scene_close(heap);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    gantry_heap *heap = (gantry_heap *)&state;
    struct gy_context *context = fake_driver_open((uint64_t)1 << 30);
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.slab_bytes[1] = SIZE_MAX;
    assert_int_equal(gy_heap_create(context, &options, &heap), GANTRY_ERR_INVALID_ARGUMENT);
    options.slab_bytes[1] = 0;
    options.struct_size = 4;
    assert_int_equal(gy_heap_create(context, &options, &heap), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(heap, &state);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_blocks_of_another_heap_are_refused(void **state)
{
    (void)state;
    gantry_heap *a = heap_scene_open(NULL);
    gantry_heap *b = NULL;
    void *block;
    assert_ok(gantry_heap_alloc(a, GANTRY_MEMORY_HOST, 100, 0, SITE, &block));
    assert_ok(gy_heap_create(fake_driver_open((uint64_t)1 << 30), NULL, &b));
    assert_int_equal(gantry_heap_free(b, block), GANTRY_ERR_NOT_FOUND);
    assert_ok(gantry_heap_free(a, block));
    gy_heap_destroy(b);
    heap_scene_close(a);
}

static void test_slab_sizes_and_limits_take_effect(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.slab_bytes[GANTRY_MEMORY_DEVICE] = 16 * MIB - 5;
    options.slab_bytes[GANTRY_MEMORY_PINNED] = 512 * MIB;
    options.limit_bytes[GANTRY_MEMORY_PINNED] = 6 * MIB;
    gantry_heap *heap = heap_scene_open(&options);
    void *block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 1, 0, SITE, &block));
    assert_int_equal(fake_driver.device_bytes, 16 * MIB);
    assert_ok(gantry_heap_free(heap, block));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 1, 0, SITE, &block));
    assert_int_equal(fake_driver.pinned_bytes, 6 * MIB);
    assert_ok(gantry_heap_free(heap, block));
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 6 * MIB + 1, 0, SITE, &block),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_true(fake_driver.pinned_bytes <= 6 * MIB);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 6 * MIB, 0, SITE, &block));
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

static void test_slab_stays_within_an_eighth_of_the_device(void **state)
{
    (void)state;
    gantry_heap *heap = NULL;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.slab_bytes[GANTRY_MEMORY_DEVICE] = 256 * MIB;
    struct gy_context *context = fake_driver_open(128 * MIB);
    assert_ok(gy_heap_create(context, &options, &heap));
    void *block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 1, 0, SITE, &block));
    assert_int_equal(fake_driver.device_bytes, 16 * MIB);
    assert_ok(gantry_heap_free(heap, block));
    /* only if it must */
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 60 * MIB, 0, SITE, &block));
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

static void test_pinned_kinds_have_device_addresses(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    for (int kind = GANTRY_MEMORY_PINNED; kind <= GANTRY_MEMORY_WRITE_COMBINED; kind++) {
        static const size_t sizes[] = {300, 5000, 20000, 3 * MIB};
        for (int i = 0; i < 4; i++) {
            char *block;
            void *device;
            assert_ok(gantry_heap_alloc(heap, (gantry_memory_kind)kind, sizes[i], 0, SITE, (void **)&block));
            for (size_t offset = 0; offset < sizes[i]; offset = offset * 2 + 1) {
                assert_ok(gantry_heap_device_address(heap, block + offset, &device));
                assert_true((uintptr_t)device == (uintptr_t)block + offset + FAKE_DEVICE_DISTANCE);
            }
            assert_ok(gantry_heap_device_address(heap, block + sizes[i] - 1, &device));
            assert_int_equal(gantry_heap_device_address(heap, block + sizes[i], &device),
                             GANTRY_ERR_NOT_FOUND);
            assert_ok(gantry_heap_free(heap, block));
            assert_int_equal(gantry_heap_device_address(heap, block, &device), GANTRY_ERR_NOT_FOUND);
        }
        bool combined = (fake_driver.flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0;
        assert_int_equal(combined, kind == GANTRY_MEMORY_WRITE_COMBINED);
        assert_true((fake_driver.flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
        assert_true((fake_driver.flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0);
    }
    void *block, *device;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 100, 0, SITE, &block));
    assert_int_equal(gantry_heap_device_address(heap, block, &device), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_device_address(heap, &block, &device), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_device_address(heap, NULL, &device), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_device_address(heap, block, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

static void test_driver_without_mapping_and_with_odd_addresses_works(void **state)
{
    (void)state;
    struct gy_context *context = fake_driver_open((uint64_t)1 << 30);
    gantry_heap *heap = NULL;
    struct gy_driver plain = *context->driver;
    plain.cuMemCreate = NULL;
    context->driver = &plain;
    fake_driver.misaligned = true;
    assert_ok(gy_heap_create(context, NULL, &heap));
    for (int kind = 0; kind < GANTRY_MEMORY_HOST; kind++) {
        void *block, *device;
        struct gy_heap_look look;
        assert_ok(gantry_heap_alloc(heap, (gantry_memory_kind)kind, 2 * MIB, 2 * MIB, SITE, &block));
        assert_int_equal((uintptr_t)block % (2 * MIB), 0);
        assert_int_equal(gy_heap_look(heap, (char *)block + 5, &look), GY_HEAP_LIVE);
        assert_int_equal(look.kind, kind);
        assert_true(look.base == (uintptr_t)block);
        if (kind != GANTRY_MEMORY_DEVICE) {
            memset(block, 1, 2 * MIB);
            assert_ok(gantry_heap_device_address(heap, block, &device));
            assert_true((uintptr_t)device == (uintptr_t)block + FAKE_DEVICE_DISTANCE);
            assert_true(look.device == (uintptr_t)device);
        }
        assert_ok(gantry_heap_free(heap, block));
    }
    heap_scene_close(heap);
}

/* No counter of bytes or pages has only 32 bits. */
static void test_blocks_may_be_larger_than_4_gib(void **state)
{
    (void)state;
    const uint64_t gib = (uint64_t)1 << 30;
    gantry_heap *heap = NULL;
    gantry_alloc_site site = SITE;
    char *large, *other;
    gantry_heap_block found = {.struct_size = sizeof(found)};
    struct gy_context *context = fake_driver_open(40 * gib);
    fake_driver.room = 40 * gib;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    /* nothing is mapped beside what the program asks for */
    options.ahead_bytes[GANTRY_MEMORY_DEVICE] = SIZE_MAX;
    assert_ok(gy_heap_create(context, &options, &heap));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 6 * gib + 5, 0, site, (void **)&large));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 5 * gib, 2 * MIB, site, (void **)&other));
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_true(stats.used_bytes == 11 * gib + 5 && stats.peak_bytes == 11 * gib + 5);
    assert_true(stats.slab_bytes >= 11 * gib && stats.slab_bytes == fake_driver.device_bytes);
    assert_ok(gantry_heap_find_block(heap, large + 6 * gib + 4, &found));
    assert_true(found.base == large && found.bytes == 6 * gib + 5);
    assert_int_equal(gantry_heap_find_block(heap, large + 6 * gib + 5, &found), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(gantry_heap_free(heap, large + 4 * gib), GANTRY_ERR_NOT_FOUND);
    assert_ok(gantry_heap_resize(heap, large, 4 * gib + 1));
    gantry_heap_tag_stats tag;
    size_t count;
    assert_ok(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_DEVICE, &tag, 1, &count));
    assert_true(tag.used_bytes == 9 * gib + 1 && tag.peak_bytes == 11 * gib + 5);
    assert_ok(gantry_heap_free(heap, large));
    assert_ok(gantry_heap_free(heap, other));
    assert_ok(gantry_heap_reserve(heap, GANTRY_MEMORY_DEVICE, 20 * gib));
    assert_true(fake_driver.device_bytes >= 20 * gib);
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 41 * gib, 0, site, (void **)&other),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    heap_scene_close(heap);
}

static void test_a_look_tells_live_blocks_from_other_memory(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    char *small, *large;
    struct gy_heap_look look;
    assert_int_equal(gy_heap_look(heap, &small, &look), GY_HEAP_FOREIGN);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 300, 0, SITE, (void **)&small));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 5 * MIB - 1, 0, SITE, (void **)&large));
    assert_int_equal(gy_heap_look(heap, large + 4 * MIB, &look), GY_HEAP_LIVE);
    assert_int_equal(look.kind, GANTRY_MEMORY_DEVICE);
    assert_true(look.base == (uintptr_t)large && look.bytes == 5 * MIB - 1 && look.device == look.base);
    assert_int_equal(gy_heap_look(heap, large + 5 * MIB - 1, &look), GY_HEAP_NOT_LIVE);
    assert_int_equal(gy_heap_look(heap, small + 299, &look), GY_HEAP_LIVE);
    assert_true(look.base == (uintptr_t)small && look.bytes == 300 && look.device == look.base);
    assert_int_equal(gy_heap_look(heap, small + 300, &look), GY_HEAP_NOT_LIVE);
    assert_int_equal(look.kind, GANTRY_MEMORY_DEVICE);
    assert_ok(gantry_heap_free(heap, small));
    assert_int_equal(gy_heap_look(heap, small, &look), GY_HEAP_NOT_LIVE);
    assert_ok(gantry_heap_free(heap, large));
    assert_int_equal(gy_heap_look(heap, large, &look), GY_HEAP_NOT_LIVE);
    heap_scene_close(heap);
}

/* ---- leaks ---- */

struct log {
    char text[4096];
    int warnings;
};

static void keep_line(void *user, gantry_log_level level, const char *line)
{
    struct log *log = user;
    size_t used = strlen(log->text);
    log->warnings += level == GANTRY_LOG_WARNING ? 1 : 0;
    snprintf(log->text + used, sizeof(log->text) - used, "%s\n", line);
}

static void test_leaks_are_logged_once_per_tag_and_place(void **state)
{
    (void)state;
    struct log log = {.warnings = 0};
    gantry_heap *heap = heap_scene_open(NULL);
    void *block;
    gantry_alloc_site mesh = {"mesh", "scene.c", 12};
    char same_file[] = "scene.c"; /* the same site with another address of its string */
    gantry_alloc_site again = {"mesh", same_file, 12};
    gantry_alloc_site other_line = {"mesh", "scene.c", 13};
    gantry_alloc_site untagged = {NULL, "io.c", 7};
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 100, 0, mesh, &block));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 3 * MIB, 0, mesh, &block));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 1, 0, again, &block));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 20000, 0, other_line, &block));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 64, 0, untagged, &block));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 64, 0, mesh, &block));
    assert_ok(gantry_heap_free(heap, block)); /* this is no leak */
    gantry_set_log(keep_line, &log, GANTRY_LOG_WARNING);
    heap_scene_close(heap);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_int_equal(log.warnings, 3);
    assert_non_null(
        strstr(log.text, "heap: 3 device blocks of 3145829 bytes leaked, mesh, from scene.c:12\n"));
    assert_non_null(strstr(log.text, "heap: 1 device block of 20000 bytes leaked, mesh, from scene.c:13\n"));
    assert_non_null(strstr(log.text, "heap: 1 host block of 64 bytes leaked, untagged, from io.c:7\n"));
}

static void test_many_sites_are_told_apart(void **state)
{
    (void)state;
    struct log log = {.warnings = 0};
    gantry_heap *heap = heap_scene_open(NULL);
    void *block;
    for (int line = 1; line <= 1000; line++) {
        gantry_alloc_site site = {"many", "many.c", line};
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, (size_t)line, 0, site, &block));
        if (line != 777) {
            assert_ok(gantry_heap_free(heap, block));
        }
    }
    gantry_set_log(keep_line, &log, GANTRY_LOG_WARNING);
    heap_scene_close(heap);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_string_equal(log.text, "heap: 1 host block of 777 bytes leaked, many, from many.c:777\n");
}

/* ---- failures ---- */

/* Allocate one block of each kind and tier; returns the first status that is not OK.  The blocks are freed
 * again. */
static gantry_status use_heap(gantry_heap *heap)
{
    gantry_status status = GANTRY_OK;
    void *blocks[GANTRY_MEMORY_KIND_COUNT][2] = {{NULL}};
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        for (int i = 0; i < 2; i++) {
            gantry_status one = gantry_heap_alloc(heap, (gantry_memory_kind)kind, i == 0 ? 500 : 3 * MIB, 0,
                                                  SITE, &blocks[kind][i]);
            status = status != GANTRY_OK ? status : one;
        }
    }
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        for (int i = 0; i < 2; i++) {
            assert_ok(gantry_heap_free(heap, blocks[kind][i]));
        }
    }
    return status;
}

static void test_host_memory_faults_anywhere_leak_nothing(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        gantry_heap *heap = (gantry_heap *)&nth;
        struct gy_context *context = fake_driver_open((uint64_t)1 << 30);
        gy_fault_arm(nth);
        gantry_status status = gy_heap_create(context, NULL, &heap);
        if (status != GANTRY_OK) {
            assert_true(gy_fault_fired());
            gy_fault_arm(-1);
            assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_ptr_equal(heap, &nth);
            assert_int_equal(gy_alloc_live(), 0);
            assert_int_equal(fake_driver.held, 0);
            continue;
        }
        status = use_heap(heap);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        assert_true(status == GANTRY_OK || (fired && status == GANTRY_ERR_OUT_OF_HOST_MEMORY));
        assert_ok(use_heap(heap));
        heap_scene_close(heap);
        if (!fired) {
            assert_true(nth > 20);
            return;
        }
    }
}

/* Every driver call fails once with `result`; the heap must give everything back and work afterwards. */
static void fail_each_call(CUresult result, gantry_status expected)
{
    for (long nth = 0;; nth++) {
        gantry_heap *heap = (gantry_heap *)&nth;
        struct gy_context *context = fake_driver_open((uint64_t)1 << 30);
        fake_driver.fail_at = nth;
        fake_driver.fail_with = result;
        gantry_status status = gy_heap_create(context, NULL, &heap);
        if (status != GANTRY_OK) {
            assert_true(fake_driver.failed);
            assert_int_equal(status, expected);
            assert_ptr_equal(heap, &nth);
            assert_int_equal(gy_alloc_live(), 0);
            continue;
        }
        status = use_heap(heap);
        bool failed = fake_driver.failed;
        fake_driver.fail_at = -1;
        assert_true(status == GANTRY_OK || (failed && status == expected));
        assert_ok(use_heap(heap));
        heap_scene_close(heap);
        if (!failed) {
            assert_true(nth > 20);
            return;
        }
    }
}

static void test_every_driver_failure_leaks_nothing(void **state)
{
    (void)state;
    fail_each_call(CUDA_ERROR_INVALID_VALUE, GANTRY_ERR_DRIVER);
}

static void test_driver_out_of_memory_anywhere_leaks_nothing(void **state)
{
    (void)state;
    fail_each_call(CUDA_ERROR_OUT_OF_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
}

static void test_exhausted_device_is_one_error_that_names_the_request(void **state)
{
    (void)state;
    struct log log = {.warnings = 0};
    gantry_heap *heap = heap_scene_open(NULL);
    void *block = NULL;
    fake_driver.room = 64 * MIB;
    gantry_set_log(keep_line, &log, GANTRY_LOG_WARNING);
    gantry_status status = gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 65 * MIB, 0, SITE, &block);
    assert_int_equal(status, GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 64 * MIB, 0, SITE, &block));
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_null(strchr(strchr(log.text, '\n') + 1, '\n')); /* the log has one line */
    assert_non_null(strstr(log.text, "no room for 68157440 bytes of device memory"));
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

static void test_destroy_of_nothing_is_ignored(void **state)
{
    (void)state;
    gy_heap_destroy(NULL);
    heap_scene_close(heap_scene_open(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_allocates_resizes_and_frees),
        cmocka_unit_test(test_bad_requests_are_refused),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_blocks_of_another_heap_are_refused),
        cmocka_unit_test(test_slab_sizes_and_limits_take_effect),
        cmocka_unit_test(test_slab_stays_within_an_eighth_of_the_device),
        cmocka_unit_test(test_pinned_kinds_have_device_addresses),
        cmocka_unit_test(test_driver_without_mapping_and_with_odd_addresses_works),
        cmocka_unit_test(test_blocks_may_be_larger_than_4_gib),
        cmocka_unit_test(test_a_look_tells_live_blocks_from_other_memory),
        cmocka_unit_test(test_leaks_are_logged_once_per_tag_and_place),
        cmocka_unit_test(test_many_sites_are_told_apart),
        cmocka_unit_test(test_host_memory_faults_anywhere_leak_nothing),
        cmocka_unit_test(test_every_driver_failure_leaks_nothing),
        cmocka_unit_test(test_driver_out_of_memory_anywhere_leaks_nothing),
        cmocka_unit_test(test_exhausted_device_is_one_error_that_names_the_request),
        cmocka_unit_test(test_destroy_of_nothing_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
