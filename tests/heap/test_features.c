/* SPDX-License-Identifier: MIT */
/* Settings, statistics per tag, running out of memory, sources, checks and the map. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "heap/heap.h"
#include "tests/heap/fake_driver.h"
#include "tests/heap/heap_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SITE GANTRY_ALLOC_SITE("test")

/* ---- settings ---- */

static void test_settings_take_effect_whenever_set(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .slab_bytes = 5 * MIB};
    assert_ok(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
    void *first = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 3 * MIB);
    assert_int_equal(heap_scene_stats(heap, GANTRY_MEMORY_DEVICE).slab_bytes, 6 * MIB);
    settings.slab_bytes = 16 * MIB;
    assert_ok(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
    void *second = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 4 * MIB);
    assert_int_equal(heap_scene_stats(heap, GANTRY_MEMORY_DEVICE).slab_bytes, 22 * MIB);

    /* The limit is set below what is taken: unused memory goes back at once, the rest when it is freed. */
    assert_ok(gantry_heap_free(heap, first));
    settings.limit_bytes = 8 * MIB;
    assert_ok(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
    assert_int_equal(fake_driver.device_bytes, 16 * MIB);
    void *more = &heap;
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 13 * MIB, 0, SITE, &more),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_ptr_equal(more, &heap);
    assert_ok(gantry_heap_free(heap, second));
    void *third = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 8 * MIB);
    assert_int_equal(fake_driver.device_bytes, 16 * MIB); /* free memory is used first */
    assert_ok(gantry_heap_free(heap, third));
    assert_ok(gantry_heap_trim(heap, GANTRY_MEMORY_DEVICE, SIZE_MAX, NULL));
    assert_int_equal(fake_driver.device_bytes, 0);

    gantry_heap_settings got = {.struct_size = sizeof(got)};
    assert_ok(gantry_heap_get_settings(heap, GANTRY_MEMORY_DEVICE, &got));
    assert_int_equal(got.slab_bytes, 16 * MIB);
    assert_int_equal(got.limit_bytes, 8 * MIB);
    settings.slab_bytes = SIZE_MAX;
    assert_int_equal(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_configure(heap, (gantry_memory_kind)9, &got), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_get_settings(NULL, GANTRY_MEMORY_DEVICE, &got), GANTRY_ERR_INVALID_ARGUMENT);
    heap_scene_close(heap);
}

static void test_base_size_is_taken_at_once_and_stays(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.base_bytes[GANTRY_MEMORY_DEVICE] = 31 * MIB;
    options.keep_bytes[GANTRY_MEMORY_DEVICE] = 1;
    gantry_heap *heap = heap_scene_open(&options);
    void *block = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 1 * MIB);
    assert_int_equal(fake_driver.device_bytes, 32 * MIB);
    void *large = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB);
    assert_ok(gantry_heap_free(heap, block));
    assert_ok(gantry_heap_free(heap, large));
    uint64_t given = 0;
    assert_ok(gantry_heap_trim(heap, GANTRY_MEMORY_DEVICE, 0, &given));
    assert_int_equal(given, 40 * MIB);
    assert_int_equal(fake_driver.device_bytes, 32 * MIB);
    assert_int_equal(gantry_heap_trim(NULL, GANTRY_MEMORY_DEVICE, 0, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    heap_scene_close(heap);
}

static void test_reserve_makes_later_allocations_free_of_driver_calls(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    assert_ok(gantry_heap_reserve(heap, GANTRY_MEMORY_PINNED, 100 * MIB));
    gantry_heap_stats stats = heap_scene_stats(heap, GANTRY_MEMORY_PINNED);
    assert_true(stats.empty_bytes >= 100 * MIB && stats.free_bytes == stats.slab_bytes);
    long calls = fake_driver.calls;
    assert_ok(gantry_heap_reserve(heap, GANTRY_MEMORY_PINNED, 90 * MIB)); /* they are there already */
    void *blocks[40];
    for (int i = 0; i < 40; i++) {
        blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, i % 2 == 0 ? 300 : 2 * MIB);
    }
    for (int i = 0; i < 40; i++) {
        assert_ok(gantry_heap_free(heap, blocks[i]));
    }
    assert_int_equal(fake_driver.calls, calls);
    assert_int_equal(gantry_heap_reserve(heap, GANTRY_MEMORY_DEVICE, (size_t)4 << 30),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(gantry_heap_reserve(NULL, GANTRY_MEMORY_DEVICE, 1), GANTRY_ERR_INVALID_ARGUMENT);
    heap_scene_close(heap);
}

/* ---- statistics ---- */

static void test_places_that_read_the_same_are_one(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    char file[3][8] = {"scene.c", "scene.c", "scene.c"}; /* as if the string came from three object files */
    void *blocks[6];
    for (int i = 0; i < 6; i++) {
        gantry_alloc_site site = {"mesh", file[i / 2], i % 2 == 0 ? 10 : 20};
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, i % 2 == 0 ? 1000 : 3000, 0, site, &blocks[i]));
    }
    gantry_heap_tag_stats tags[4];
    size_t count;
    assert_ok(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_HOST, tags, 4, &count));
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tags[i].line, i == 0 ? 20 : 10);
        assert_int_equal(tags[i].used_bytes, i == 0 ? 9000 : 3000);
        assert_int_equal(tags[i].block_count, 3);
    }
    for (int i = 0; i < 6; i++) {
        assert_ok(gantry_heap_free(heap, blocks[i]));
    }
    heap_scene_close(heap);
}

static void test_tags_tell_current_peak_and_count(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    gantry_alloc_site mesh = {"mesh", "scene.c", 1};
    char same_file[] = "scene.c";
    gantry_alloc_site again = {"mesh", same_file, 1};
    gantry_alloc_site cloth = {"cloth", "scene.c", 2};
    void *a, *b, *c, *d;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 5 * MIB, 0, mesh, &a));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 300, 0, mesh, &b));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 400, 0, again, &c));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, 7000, 0, cloth, &d));
    gantry_heap_tag_stats tags[4];
    size_t count;
    assert_ok(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_HOST, tags, 4, &count));
    assert_int_equal(count, 2);
    assert_string_equal(tags[0].tag, "mesh");
    assert_int_equal(tags[0].used_bytes, 5 * MIB + 700);
    assert_int_equal(tags[0].block_count, 3);
    assert_string_equal(tags[1].tag, "cloth");
    assert_int_equal(tags[1].line, 2);
    assert_ok(gantry_heap_resize(heap, a, 1 * MIB));
    assert_ok(gantry_heap_free(heap, b));
    assert_ok(gantry_heap_free(heap, d));
    assert_ok(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_HOST, tags, 1, &count));
    assert_int_equal(count, 2); /* sites that once had something are still listed */
    assert_int_equal(tags[0].used_bytes, 1 * MIB + 400);
    assert_int_equal(tags[0].peak_bytes, 5 * MIB + 700);
    assert_int_equal(tags[0].block_count, 2);
    assert_ok(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_DEVICE, NULL, 0, &count));
    assert_int_equal(count, 0);
    assert_int_equal(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_HOST, NULL, 1, &count),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_heap_free(heap, a));
    assert_ok(gantry_heap_free(heap, c));
    heap_scene_close(heap);
}

static void test_map_shows_slabs_and_tags(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    void *small = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 300);
    void *large = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 3 * MIB);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_ok(gantry_heap_dump(heap, GANTRY_MEMORY_DEVICE, out));
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "device memory: 3146028 bytes in 2 blocks"));
    assert_non_null(strstr(text, "|################################################................|"));
    assert_non_null(strstr(text, "3146028 bytes          2 blocks        3146028 peak  test"));
    free(text);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(gantry_heap_dump(heap, GANTRY_MEMORY_DEVICE, full), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "No space left on device"));
    fclose(full);
    assert_int_equal(gantry_heap_dump(heap, GANTRY_MEMORY_DEVICE, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_heap_free(heap, small));
    assert_ok(gantry_heap_free(heap, large));
    heap_scene_close(heap);
}

static void test_block_is_found_by_any_address_in_it(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    static const size_t sizes[] = {300, 20000};
    for (int i = 0; i < 2; i++) {
        char *block = heap_scene_alloc(heap, GANTRY_MEMORY_WRITE_COMBINED, sizes[i]);
        gantry_heap_block found = {.struct_size = sizeof(found)};
        assert_ok(gantry_heap_find_block(heap, block + sizes[i] - 1, &found));
        assert_ptr_equal(found.base, block);
        assert_int_equal(found.bytes, sizes[i]);
        assert_int_equal(found.kind, GANTRY_MEMORY_WRITE_COMBINED);
        assert_string_equal(found.site.tag, "test");
        assert_int_equal(gantry_heap_find_block(heap, block + sizes[i], &found), GANTRY_ERR_NOT_FOUND);
        assert_ok(gantry_heap_free(heap, block));
        assert_int_equal(gantry_heap_find_block(heap, block, &found), GANTRY_ERR_NOT_FOUND);
    }
    assert_int_equal(gantry_heap_find_block(heap, heap, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    heap_scene_close(heap);
}

/* ---- running out ---- */

struct rescue {
    gantry_heap *heap;
    void *spare;
    int calls;
    bool again;
};

static bool free_spare(void *user, gantry_heap *heap, gantry_memory_kind kind, size_t bytes)
{
    struct rescue *rescue = user;
    rescue->calls++;
    assert_true(kind == GANTRY_MEMORY_DEVICE && bytes == 40 * MIB);
    (void)gantry_heap_free(heap, rescue->spare);
    rescue->spare = NULL;
    return rescue->again;
}

static void test_out_of_memory_callback_is_asked_once_and_retried(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct rescue rescue = {.again = again != 0};
        gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
        options.limit_bytes[GANTRY_MEMORY_DEVICE] = 64 * MIB;
        options.out_of_memory = free_spare;
        options.out_of_memory_user = &rescue;
        gantry_heap *heap = heap_scene_open(&options);
        rescue.spare = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 30 * MIB);
        void *block = NULL;
        gantry_status status = gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, SITE, &block);
        assert_int_equal(status, again != 0 ? GANTRY_OK : GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(rescue.calls, 1);
        assert_ok(gantry_heap_free(heap, block));
        heap_scene_close(heap);
    }
}

/* Memory that waits for its stream may come back by itself after the allocation has failed and before
 * anybody asks for it: then nothing waits any more, and there is room all the same. */
static bool freed_by_somebody_else(void *user, gantry_memory_kind kind)
{
    struct rescue *rescue = user;
    (void)kind;
    rescue->calls++;
    (void)gantry_heap_free(rescue->heap, rescue->spare);
    rescue->spare = NULL;
    return false;
}

static void test_what_came_back_meanwhile_is_found(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.limit_bytes[GANTRY_MEMORY_DEVICE] = 64 * MIB;
    gantry_heap *heap = heap_scene_open(&options);
    struct rescue rescue = {.heap = heap, .spare = heap_scene_alloc(heap, GANTRY_MEMORY_DEVICE, 30 * MIB)};
    gy_heap_set_pending(heap, freed_by_somebody_else, &rescue);
    void *block = NULL;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, SITE, &block));
    assert_int_equal(rescue.calls, 1);
    gy_heap_set_pending(heap, NULL, NULL);
    assert_ok(gantry_heap_free(heap, block));
    heap_scene_close(heap);
}

static void test_out_of_memory_names_sizes_and_the_largest_tags(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.limit_bytes[GANTRY_MEMORY_DEVICE] = 64 * MIB;
    gantry_heap *heap = heap_scene_open(&options);
    void *a, *b, *c;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 30 * MIB, 0, GANTRY_ALLOC_SITE("mesh"), &a));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 10 * MIB, 0, GANTRY_ALLOC_SITE("cloth"), &b));
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, SITE, &c),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(gantry_last_error(), "no room for 41943040 bytes of device memory"));
    assert_non_null(strstr(gantry_last_error(), "the limit is 67108864"));
    assert_non_null(strstr(gantry_last_error(), "most have: mesh 31457280, cloth 10485760"));
    assert_ok(gantry_heap_free(heap, a));
    assert_ok(gantry_heap_free(heap, b));
    heap_scene_close(heap);
}

/* ---- sources ---- */

struct pool {
    void *memory[16];
    size_t bytes[16];
    int taken;
    int given;
    bool empty;
};

static gantry_status take_from_pool(void *user, gantry_memory_kind kind, size_t bytes, void **out,
                                    void **out_device)
{
    struct pool *pool = user;
    assert_true(kind == GANTRY_MEMORY_PINNED);
    if (pool->empty) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    char *raw = aligned_alloc(4096, bytes + 4096);
    assert_non_null(raw);
    pool->memory[pool->taken] = raw + 4096; /* it is hardly ever aligned to 2 MiB */
    pool->bytes[pool->taken++] = bytes;
    *out = raw + 4096;
    *out_device = raw + 4096 + FAKE_DEVICE_DISTANCE;
    return GANTRY_OK;
}

static void give_to_pool(void *user, gantry_memory_kind kind, void *memory, size_t bytes)
{
    struct pool *pool = user;
    assert_true(kind == GANTRY_MEMORY_PINNED);
    for (int i = 0; i < pool->taken; i++) {
        if (pool->memory[i] == memory) {
            assert_int_equal(pool->bytes[i], bytes);
            pool->memory[i] = NULL;
            pool->given++;
            free((char *)memory - 4096);
            return;
        }
    }
    fail_msg("%p was not taken", memory);
}

static void test_slabs_may_come_from_a_pool_of_the_application(void **state)
{
    (void)state;
    struct pool pool = {.taken = 0};
    gantry_memory_source source = {sizeof(source), take_from_pool, give_to_pool, &pool};
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.source[GANTRY_MEMORY_PINNED] = &source;
    gantry_heap *heap = heap_scene_open(&options);
    long calls = fake_driver.calls;
    char *small = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, 300);
    char *large = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, 3 * MIB);
    memset(large, 1, 3 * MIB);
    void *device;
    assert_ok(gantry_heap_device_address(heap, large + 12345, &device));
    assert_true((uintptr_t)device == (uintptr_t)large + 12345 + FAKE_DEVICE_DISTANCE);
    assert_int_equal(fake_driver.calls,
                     calls + 2 * 10); /* per slab, the context is pushed and popped, in relaxed mode, but
                                         not in the three calls of the source */
    pool.empty = true;
    void *none;
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 100 * MIB, 0, SITE, &none),
                     GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_ok(gantry_heap_free(heap, small));
    assert_ok(gantry_heap_free(heap, large));
    heap_scene_close(heap);
    assert_true(pool.taken >= 2);
    assert_int_equal(pool.given, pool.taken);

    source.give_back = NULL;
    gantry_heap *no_heap = NULL;
    assert_int_equal(gy_heap_create(fake_driver_open(MIB), &options, &no_heap), GANTRY_ERR_INVALID_ARGUMENT);
    source = (gantry_memory_source){0, take_from_pool, give_to_pool, &pool};
    assert_int_equal(gy_heap_create(fake_driver_open(MIB), &options, &no_heap), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "gantry_memory_source: struct_size 0"));
}

/* ---- checks ---- */

static void keep_error(void *user, gantry_log_level level, const char *line)
{
    char *text = user;
    if (level == GANTRY_LOG_ERROR) {
        snprintf(text, 1000, "%s", line);
    }
}

static void test_refused_addresses_are_told_apart(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.check = true;
    gantry_heap *heap = heap_scene_open(&options);
    gantry_alloc_site mesh = {"mesh", "scene.c", 12};
    static const size_t sizes[] = {3000, 100000};
    for (int i = 0; i < 2; i++) {
        char *block;
        void *device;
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, sizes[i], 0, mesh, (void **)&block));
        assert_int_equal(gantry_heap_free(heap, block + 256), GANTRY_ERR_NOT_FOUND);
        assert_non_null(strstr(gantry_last_error(), "256 bytes into a host block (mesh, from scene.c:12)"));
        assert_int_equal(gantry_heap_device_address(heap, block, &device), GANTRY_ERR_NOT_FOUND);
        assert_non_null(strstr(gantry_last_error(), "but in its host memory"));
        assert_ok(gantry_heap_free(heap, block));
        assert_int_equal(gantry_heap_free(heap, block), GANTRY_ERR_NOT_FOUND);
        assert_non_null(strstr(gantry_last_error(), "bytes, mesh, from scene.c:12) was freed before"));
    }
    assert_int_equal(gantry_heap_free(heap, &heap), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(), "memory of somebody else"));
    heap_scene_close(heap);
}

/* Freed blocks are remembered by address: a block of another heap has nothing to do with them. */
static void test_only_a_freed_block_was_freed_before(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.check = true;
    gantry_heap *heap = heap_scene_open(&options);
    char *blocks[64];
    for (int i = 0; i < 64; i++) {
        blocks[i] = heap_scene_alloc(heap, GANTRY_MEMORY_HOST, 100000);
    }
    for (int i = 0; i < 64; i++) {
        assert_ok(gantry_heap_free(heap, blocks[i]));
    }
    for (int i = 0; i < 64; i++) {
        assert_int_equal(gantry_heap_free(heap, blocks[i] + 64), GANTRY_ERR_NOT_FOUND);
        assert_null(strstr(gantry_last_error(), "was freed before"));
        assert_non_null(strstr(gantry_last_error(), "nothing starts there"));
    }
    heap_scene_close(heap);
}

static void test_write_after_free_is_found_when_the_memory_is_given_out_again(void **state)
{
    (void)state;
    assert_int_equal(setenv("GANTRY_CHECK", "frees", 1), 0);
    gantry_heap *heap = heap_scene_open(NULL);
    assert_int_equal(unsetenv("GANTRY_CHECK"), 0);
    char text[1000] = "";
    gantry_set_log(keep_error, text, GANTRY_LOG_ERROR);
    static const size_t sizes[] = {3000, 100000};
    for (int i = 0; i < 2; i++) {
        unsigned char *block = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, sizes[i]);
        memset(block, 7, sizes[i]);
        assert_ok(gantry_heap_free(heap, block));
        unsigned char *same = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, sizes[i]);
        assert_ptr_equal(same, block);
        assert_string_equal(text, ""); /* nobody wrote to it */
        assert_ok(gantry_heap_free(heap, block));
        unsigned char pattern = block[1000];
        block[1000] = 7;
        (void)heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, sizes[i]);
        assert_non_null(strstr(text, "byte 1000 of the block at"));
        assert_non_null(strstr(text, "was written to after it was freed"));
        assert_int_equal(pattern, 0xdb);
        assert_ok(gantry_heap_free(heap, block));
        text[0] = '\0';
    }
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    heap_scene_close(heap);
}

/* A byte written behind a block is noticed when the block is freed or resized, in every kind that the CPU
 * may touch. */
static void test_writes_behind_a_block_are_found(void **state)
{
    (void)state;
    gantry_heap_options options = GANTRY_HEAP_OPTIONS_INIT;
    options.check = true;
    gantry_heap *heap = heap_scene_open(&options);
    char text[1000] = "";
    gantry_set_log(keep_error, text, GANTRY_LOG_ERROR);
    static const size_t sizes[] = {1, 255, 256, 1001, 14336, 20001, 4096, 3 * MIB};
    static const gantry_memory_kind kinds[] = {GANTRY_MEMORY_PINNED, GANTRY_MEMORY_HOST};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        gantry_memory_kind kind = kinds[i % 2];
        unsigned char *block = heap_scene_alloc(heap, kind, sizes[i]);
        gantry_heap_block found = {.struct_size = sizeof(found)};
        assert_ok(gantry_heap_find_block(heap, block, &found));
        assert_int_equal(found.bytes, sizes[i]); /* guard bytes do not belong to the block */
        assert_int_equal(gantry_heap_find_block(heap, block + sizes[i], &found), GANTRY_ERR_NOT_FOUND);
        text[0] = '\0'; /* this was logged */
        memset(block, 1, sizes[i]);
        assert_ok(gantry_heap_free(heap, block));
        assert_string_equal(text, "");
        block = heap_scene_alloc(heap, kind, sizes[i]);
        block[sizes[i] + 3] = 9;
        assert_ok(gantry_heap_free(heap, block));
        char expected[100];
        snprintf(expected, sizeof(expected), "byte 4 behind the %s block at", gy_kind_name(kind));
        assert_non_null(strstr(text, expected));
        assert_non_null(strstr(text, "was written to before it was freed"));
        text[0] = '\0';
    }
    unsigned char *block = heap_scene_alloc(heap, GANTRY_MEMORY_PINNED, 3000);
    block[3000] = 1;
    assert_ok(gantry_heap_resize(heap, block, 2000));
    assert_non_null(strstr(text, "(3000 bytes, test, from"));
    assert_non_null(strstr(text, "was written to before it was resized"));
    text[0] = '\0';
    memset(block, 1, 2000);
    assert_int_equal(gantry_heap_resize(heap, block, 600 * MIB), GANTRY_ERR_UNSUPPORTED);
    text[0] = '\0';
    assert_ok(gantry_heap_free(heap, block));
    assert_string_equal(text, "");
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_PINNED, &stats));
    assert_int_equal(stats.used_bytes, 0);
    void *none;
    assert_int_equal(gantry_heap_alloc(heap, GANTRY_MEMORY_HOST, SIZE_MAX, 0, SITE, &none),
                     GANTRY_ERR_OUT_OF_HOST_MEMORY);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    heap_scene_close(heap);
}

static void test_peaks_start_anew_when_they_are_reset(void **state)
{
    (void)state;
    gantry_heap *heap = heap_scene_open(NULL);
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    gantry_heap_tag_stats tag;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("test");
    size_t count;
    void *large, *small;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 5 * MIB, 0, site, &large));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 700, 0, site, &small));
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.peak_bytes, 5 * MIB + 700);
    uint64_t slabs = stats.slab_bytes;
    assert_int_equal(stats.peak_slab_bytes, slabs);
    assert_ok(gantry_heap_free(heap, large));
    assert_ok(gantry_heap_trim(heap, GANTRY_MEMORY_DEVICE, 0, NULL));
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.peak_bytes, 5 * MIB + 700);
    assert_true(stats.slab_bytes <= slabs && stats.peak_slab_bytes == slabs);
    assert_ok(gantry_heap_reset_peaks(heap, GANTRY_MEMORY_DEVICE));
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.peak_bytes, 700);
    assert_int_equal(stats.peak_slab_bytes, stats.slab_bytes);
    assert_ok(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_DEVICE, &tag, 1, &count));
    assert_int_equal(tag.peak_bytes, 700);
    for (int i = 0; i < 300; i++) { /* it was alone for so long that the thread keeps its sums to itself */
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 3 * MIB, 0, site, &large));
        assert_ok(gantry_heap_free(heap, large));
    }
    assert_ok(gantry_heap_reset_peaks(heap, GANTRY_MEMORY_DEVICE));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * MIB, 0, site, &large));
    assert_ok(gantry_heap_free(heap, large));
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    assert_int_equal(stats.peak_bytes, 2 * MIB + 700); /* it is less than before, and seen all the same */
    assert_ok(gantry_heap_free(heap, small));
    assert_int_equal(gantry_heap_reset_peaks(NULL, GANTRY_MEMORY_DEVICE), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_heap_reset_peaks(heap, (gantry_memory_kind)7), GANTRY_ERR_INVALID_ARGUMENT);
    heap_scene_close(heap);
}

static int count_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0;
    assert_non_null(maps);
    for (int c = getc(maps); c != EOF; c = getc(maps)) {
        lines += c == '\n';
    }
    assert_int_equal(fclose(maps), 0);
    return lines;
}

/* Returns how many pages of addresses the process has. */
static long count_addresses(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    assert_int_equal(fclose(file), 0);
    return pages;
}

/* Is there where LeakSanitizer is linked alone, as tools/mutate --sample does. */
extern void __lsan_do_leak_check(void) __attribute__((weak));

/* A program that makes and destroys contexts all day has no more mappings than one that does so once. */
static void test_destroyed_heaps_leave_no_mappings(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizer keeps freed memory */
#endif
    if (__lsan_do_leak_check != NULL) {
        skip(); /* so does this one */
    }
    int before = 0;
    long addresses = 0;
    for (int i = 0; i < 320; i++) {
        gantry_heap *heap = heap_scene_open(NULL);
        for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
            void *small = heap_scene_alloc(heap, (gantry_memory_kind)kind, 300);
            void *large = heap_scene_alloc(heap, (gantry_memory_kind)kind, 5 * MIB);
            assert_ok(gantry_heap_free(heap, large));
            if (i % 2 == 0) { /* with a block left, too */
                assert_ok(gantry_heap_free(heap, small));
            }
        }
        heap_scene_close(heap);
        before = i == 20 ? count_maps() : before;
        addresses = i == 20 ? count_addresses() : addresses;
    }
    assert_true(count_maps() <= before + 8);
    assert_true(count_addresses() - addresses < (long)(256 * MIB / 4096));
}

/* ---- huge pages ---- */

/* Has the system been asked for huge pages in the mapping of that address?  -1: it does not say. */
static int is_asked_for_huge_pages(const void *address)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_ours = false;
    int found = -1;
    while (file != NULL && found < 0 && fgets(line, sizeof(line), file) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
            is_ours = (uintptr_t)address >= begin && (uintptr_t)address < end;
        } else if (is_ours && strncmp(line, "VmFlags:", 8) == 0) {
            found = strstr(line, " hg") != NULL;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

static void test_host_slabs_ask_for_huge_pages(void **state)
{
    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
        return; /* the system has none */
    }
    for (int asks = 0; asks < 2; asks++) {
        assert_int_equal(setenv("GANTRY_HUGE_PAGES", asks ? "1" : "0", 1), 0);
        gantry_heap *heap = heap_scene_open(NULL);
        char *block = heap_scene_alloc(heap, GANTRY_MEMORY_HOST, 8 * MIB);
        memset(block, 1, 8 * MIB);
        const int asked = is_asked_for_huge_pages(block + 4 * MIB);
        assert_true(asked == asks || asked == -1);
        assert_ok(gantry_heap_free(heap, block));
        heap_scene_close(heap);
    }
    assert_int_equal(unsetenv("GANTRY_HUGE_PAGES"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_slabs_ask_for_huge_pages),
        cmocka_unit_test(test_settings_take_effect_whenever_set),
        cmocka_unit_test(test_base_size_is_taken_at_once_and_stays),
        cmocka_unit_test(test_reserve_makes_later_allocations_free_of_driver_calls),
        cmocka_unit_test(test_tags_tell_current_peak_and_count),
        cmocka_unit_test(test_peaks_start_anew_when_they_are_reset),
        cmocka_unit_test(test_writes_behind_a_block_are_found),
        cmocka_unit_test(test_destroyed_heaps_leave_no_mappings),
        cmocka_unit_test(test_map_shows_slabs_and_tags),
        cmocka_unit_test(test_block_is_found_by_any_address_in_it),
        cmocka_unit_test(test_out_of_memory_callback_is_asked_once_and_retried),
        cmocka_unit_test(test_what_came_back_meanwhile_is_found),
        cmocka_unit_test(test_out_of_memory_names_sizes_and_the_largest_tags),
        cmocka_unit_test(test_slabs_may_come_from_a_pool_of_the_application),
        cmocka_unit_test(test_refused_addresses_are_told_apart),
        cmocka_unit_test(test_only_a_freed_block_was_freed_before),
        cmocka_unit_test(test_places_that_read_the_same_are_one),
        cmocka_unit_test(test_write_after_free_is_found_when_the_memory_is_given_out_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
