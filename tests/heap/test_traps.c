/* SPDX-License-Identifier: MIT */
/* The mistakes that one can make when jemalloc manages memory which it must not touch, one test for each:
 * the table is in docs/design/memory.md.  The blocks lie in memory that faults when touched, so a read or
 * write of one of them ends the test. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/growth.h"
#include "heap/jemalloc.h"
#include "heap/kind.h"
#include "tests/heap/untouchable.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define GRANULES 256

struct fixture {
    struct gy_granules map;
    struct gy_kind kind;
};

static void open_kind(struct fixture *f, const struct gy_backing_ops *ops, size_t slab_bytes,
                      size_t limit_bytes)
{
    memset(f, 0, sizeof(*f));
    untouchable_open(GRANULES);
    struct gy_kind_setup setup = {.kind = GANTRY_MEMORY_DEVICE,
                                  .ops = ops,
                                  .map = &f->map,
                                  .slab_bytes = slab_bytes,
                                  .limit_bytes = limit_bytes,
                                  .use_small = true};
    assert_ok(gy_kind_init(&f->kind, &setup));
}

static uintptr_t take(struct fixture *f, size_t bytes, size_t alignment)
{
    uintptr_t block;
    assert_ok(gy_kind_alloc(&f->kind, bytes, alignment, 0, &block));
    return block;
}

static void give(struct fixture *f, uintptr_t block)
{
    assert_true(gy_kind_free(&f->kind, gy_granules_find(&f->map, block), block));
}

static bool is_ours(uintptr_t address)
{
    return address - untouchable_window() < GRANULES * GY_GRANULE_BYTES;
}

/* ---- blocks that get into the application's malloc() ---- */

struct freer {
    struct fixture *f;
    uintptr_t *blocks;
    size_t count;
    bool mixed_up;
};

/* Does jemalloc give this thread ordinary memory? */
static bool gives_ours(void)
{
    bool any = false;
    for (size_t bytes = 8; bytes <= 65536; bytes += bytes / 4 + 8) {
        void *blocks[64];
        for (int i = 0; i < 64; i++) {
            blocks[i] = mallocx(bytes, 0);
            any = any || blocks[i] == NULL || is_ours((uintptr_t)blocks[i]);
        }
        for (int i = 0; i < 64; i++) {
            dallocx(blocks[i], 0);
        }
    }
    return any;
}

static void free_and_look(void *arg)
{
    struct freer *freer = arg;
    for (size_t i = 0; i < freer->count; i++) {
        struct gy_heap_region *region = gy_granules_find(&freer->f->map, freer->blocks[i]);
        freer->mixed_up = !gy_kind_free(&freer->f->kind, region, freer->blocks[i]) || freer->mixed_up;
    }
    freer->mixed_up = gives_ours() || freer->mixed_up;
}

static void test_freed_blocks_never_come_out_of_malloc(void **state)
{
    (void)state;
    enum { COUNT = 8000 };
    static uintptr_t blocks[COUNT];
    struct fixture f;
    open_kind(&f, &untouchable_ops, 0, 0);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = take(&f, 1 + i * 7919 % 30000, (size_t)256 << i % 5);
        }
        struct freer other = {&f, blocks, COUNT / 2, false};
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "other", free_and_look, &other));
        gy_thread_join(&thread);
        struct freer own = {&f, blocks + COUNT / 2, COUNT / 2, false};
        free_and_look(&own);
        assert_false(other.mixed_up);
        assert_false(own.mixed_up);
    }
    untouchable_close_kind(&f.kind, &f.map);
}

/* ---- memory that is lost between blocks ---- */

static void test_large_blocks_take_their_pages_and_no_more(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t blocks[4];
    open_kind(&f, &untouchable_ops, 256 * MIB, 256 * MIB);
    for (int i = 0; i < 4; i++) { /* no page and no odd start was added */
        blocks[i] = take(&f, 64 * MIB, 4096);
        assert_int_equal(blocks[i] % (2 * MIB), 0);
    }
    assert_int_equal(untouchable_taken(), 256 * MIB);
    for (int i = 0; i < 4; i++) {
        give(&f, blocks[i]);
    }
    static const size_t sizes[] = {14337, 64 * 1024 + 1, MIB + 1, 2 * MIB,
                                   64 * MIB + 1}; /* these are no size classes */
    for (int i = 0; i < 5; i++) {
        gantry_heap_stats before = {0}, after = {0};
        gy_kind_stats(&f.kind, &before);
        uintptr_t block = take(&f, sizes[i], 256);
        gy_kind_stats(&f.kind, &after);
        assert_int_equal(before.free_bytes - after.free_bytes, (sizes[i] + 4095) / 4096 * 4096);
        give(&f, block);
    }
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_small_blocks_take_little_more_than_their_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {256, 1024, 4096, 8192};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        open_kind(&f, &untouchable_ops, 2 * MIB, 0);
        size_t live = 0;
        while (live < 64 * MIB) {
            (void)take(&f, sizes[i], 256);
            live += sizes[i];
        }
        assert_true(untouchable_taken() <= live + live / 16 + 4 * MIB);
        untouchable_close_kind(&f.kind, &f.map);
    }
}

/* The limit allows one of the phases and a bit: the next size gets the memory that one size leaves. */
static void test_memory_of_one_size_comes_back_for_others(void **state)
{
    (void)state;
    enum { MOST = 24 * 1024 * 1024 / 256 };
    uintptr_t *blocks = malloc(MOST * sizeof(*blocks));
    assert_non_null(blocks);
    struct fixture f;
    open_kind(&f, &untouchable_ops, 2 * MIB, 32 * MIB);
    static const size_t sizes[] = {256, 14336, 768, 5120, 20480, 512, 2560, 3 * MIB, 1024};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t count = 0;
            for (size_t live = 0; live + sizes[i] <= 24 * MIB; live += sizes[i]) {
                blocks[count++] = take(&f, sizes[i], 256);
            }
            while (count > 0) {
                give(&f, blocks[--count]);
            }
        }
    }
    untouchable_close_kind(&f.kind, &f.map);
    free(blocks);
}

/* Caches that keep freed memory, pieces that nobody offers a second time, neighbours joined over the border
 * of two chunks: each of these would keep some slab from going back. */
static void test_everything_freed_goes_back(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    static uintptr_t blocks[COUNT];
    struct fixture f;
    open_kind(&f, &untouchable_ops, 2 * MIB, 0);
    for (size_t alignment = 256; alignment <= 4096; alignment *= 4) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = take(&f, 1 + i * 7919 % 14336, alignment);
        }
        assert_true(untouchable_taken() >= 8 * MIB); /* chunks that touch each other */
        for (size_t i = 0; i < COUNT; i++) {
            give(&f, blocks[(i * 1237) % COUNT]);
        }
        (void)gy_kind_trim(&f.kind, 0);
        assert_int_equal(untouchable_taken(), 0);
    }
    untouchable_close_kind(&f.kind, &f.map);
}

/* ---- growing ---- */

/* It belongs to the test that is running; there is one thread. */
static struct fixture *growing;
static uintptr_t held_block;
static unsigned calls;

/* Do everything that would be impossible inside of jemalloc or under a lock. */
static gantry_status take_and_use(struct gy_context *context, size_t bytes,
                                  const struct gy_backing_need *need, struct gy_backing *out)
{
    calls++;
    dallocx(mallocx(1000, 0), 0);
    if (held_block != 0) {
        give(growing, held_block);
        held_block = take(growing, 100, 256);
    }
    return untouchable_ops.take(context, bytes, need, out);
}

static void give_back(struct gy_context *context, const struct gy_backing *backing)
{
    untouchable_ops.give_back(context, backing);
}

static void test_the_driver_is_asked_outside_of_jemalloc(void **state)
{
    (void)state;
    static const struct gy_backing_ops ops = {take_and_use, give_back, NULL};
    struct fixture f;
    growing = &f;
    held_block = 0;
    calls = 0;
    open_kind(&f, &ops, 2 * MIB, 0);
    held_block = take(&f, 100, 256);
    for (int i = 0; i < 4000; i++) {
        (void)take(&f, 4096, 256);
    }
    assert_true(calls >= 8);
    untouchable_close_kind(&f.kind, &f.map);
}

/* ---- limits of the process ---- */

static void test_without_thread_caches_it_works(void **state)
{
    (void)state;
    static unsigned caches[8192];
    size_t count = 0;
    size_t bytes = sizeof(caches[0]);
    while (count < 8192 && mallctl("tcache.create", &caches[count], &bytes, NULL, 0) == 0) {
        count++;
    }
    assert_true(count < 8192); /* there are none left */
    struct fixture f;
    open_kind(&f, &untouchable_ops, 0, 0);
    uintptr_t blocks[300];
    for (int i = 0; i < 300; i++) {
        blocks[i] = take(&f, 300, 256);
        assert_true(gy_granules_find(&f.map, blocks[i])->is_chunk);
    }
    for (int i = 0; i < 300; i++) {
        give(&f, blocks[i]);
    }
    while (count > 0) {
        assert_int_equal(mallctl("tcache.destroy", NULL, NULL, &caches[--count], sizeof(caches[0])), 0);
    }
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_without_an_arena_blocks_take_pages(void **state)
{
    (void)state;
    if (getenv("GANTRY_TEST_LIGHT") != NULL || getenv("MALLOC_CONF") != NULL) {
        print_message("skipped: thousands of arenas take their time, once is enough\n");
        skip();
    }
    static struct gy_granules map;
    static struct gy_usage usage;
    struct gy_small *holder; /* these are from the arena that the probe has left */
    assert_ok(gy_small_create(&map, &usage, &holder));
    unsigned arena;
    size_t bytes = sizeof(arena);
    unsigned first = 0, last = 0;
    while (mallctl("arenas.create", &arena, &bytes, NULL, 0) == 0) {
        first = first == 0 ? arena : first;
        last = arena;
    }
    assert_true(last > first);
    struct fixture f;
    open_kind(&f, &untouchable_ops, 0, 0);
    uintptr_t block = take(&f, 300, 256);
    assert_false(gy_granules_find(&f.map, block)->is_chunk);
    give(&f, block);
    assert_null(gy_small_destroy(holder));
    untouchable_close_kind(&f.kind, &f.map);
    for (arena = last; arena >= first; arena--) { /* the last to go is the first to come again */
        char name[64];
        snprintf(name, sizeof(name), "arena.%u.destroy", arena);
        (void)mallctl(name, NULL, NULL, NULL, 0);
    }
    open_kind(&f, &untouchable_ops, 0, 0); /* there are some again */
    block = take(&f, 300, 256);
    assert_true(gy_granules_find(&f.map, block)->is_chunk);
    untouchable_close_kind(&f.kind, &f.map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* This test is the first: only the probe has left an arena for the next tier. */
        cmocka_unit_test(test_without_an_arena_blocks_take_pages),
        cmocka_unit_test(test_freed_blocks_never_come_out_of_malloc),
        cmocka_unit_test(test_large_blocks_take_their_pages_and_no_more),
        cmocka_unit_test(test_small_blocks_take_little_more_than_their_bytes),
        cmocka_unit_test(test_memory_of_one_size_comes_back_for_others),
        cmocka_unit_test(test_everything_freed_goes_back),
        cmocka_unit_test(test_the_driver_is_asked_outside_of_jemalloc),
        cmocka_unit_test(test_without_thread_caches_it_works),
    };
    if (gy_small_probe() != GANTRY_OK) {
        const char *version = "unknown";
        size_t bytes = sizeof(version);
        (void)mallctl("version", &version, &bytes, NULL, 0);
        if (strncmp(version, "5.3.0-", 6) == 0 && getenv("MALLOC_CONF") == NULL) {
            printf("jemalloc %s is known to leave the blocks that it manages alone: the mistake is ours\n",
                   version);
            return 1;
        }
        puts("skipped: this jemalloc, or MALLOC_CONF, touches the blocks it manages");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
