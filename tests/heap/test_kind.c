/* SPDX-License-Identifier: MIT */
/* Both tiers of one kind over memory that faults when touched, with the small tier and without: sizes and
 * alignments, growth, limits, running out of memory.  test_crowd.c has several threads. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/growth.h"
#include "heap/kind.h"
#include "tests/heap/untouchable.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

struct fixture {
    struct gy_granules map;
    struct gy_kind kind;
    bool has_small;
};

static void open_kind(struct fixture *f, size_t slab_bytes, size_t limit_bytes, size_t granules,
                      bool use_small)
{
    memset(f, 0, sizeof(*f));
    untouchable_open(granules);
    f->has_small = use_small && gy_small_probe() == GANTRY_OK;
    struct gy_kind_setup setup = {.kind = GANTRY_MEMORY_DEVICE,
                                  .ops = &untouchable_ops,
                                  .map = &f->map,
                                  .slab_bytes = slab_bytes,
                                  .limit_bytes = limit_bytes,
                                  .use_small = f->has_small};
    assert_ok(gy_kind_init(&f->kind, &setup));
}

static bool free_block(struct fixture *f, uintptr_t address)
{
    struct gy_heap_region *region = gy_granules_find(&f->map, address);
    return region != NULL && gy_kind_free(&f->kind, region, address);
}

static gantry_heap_stats stats_of(struct fixture *f)
{
    gantry_heap_stats stats = {0};
    gy_kind_stats(&f->kind, &stats);
    return stats;
}

static gantry_status allocate(struct fixture *f, size_t bytes, uintptr_t *out)
{
    return gy_kind_alloc(&f->kind, bytes, 256, 0, out);
}

static void test_default_slabs_start_small_and_double(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t block;
    open_kind(&f, 0, 0, 512, true);
    assert_int_equal(untouchable_taken(), 0); /* nothing is taken before it is needed */
    assert_ok(allocate(&f, 1, &block));
    assert_int_equal(untouchable_taken(), 2 * MIB);
    for (size_t total = 2 * MIB; total < 512 * MIB; total *= 2) {
        size_t before = untouchable_taken();
        assert_int_equal(before, total);
        while (untouchable_taken() == before) {
            assert_ok(allocate(&f, 1 * MIB, &block));
        }
    }
    assert_int_equal(untouchable_taken(), 512 * MIB);
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_large_request_gets_a_slab_of_its_size(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t block;
    open_kind(&f, 4 * MIB, 0, 64, true);
    assert_ok(allocate(&f, 33 * MIB + 1, &block));
    assert_int_equal(untouchable_taken(), 34 * MIB);
    assert_int_equal(stats_of(&f).slab_bytes, 34 * MIB);
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_limit_is_never_exceeded_and_all_of_it_is_usable(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t blocks[11];
    open_kind(&f, 8 * MIB, 11 * MIB, 64, true); /* 10 MiB in whole granules */
    for (int i = 0; i < 10; i++) {
        assert_ok(allocate(&f, 1 * MIB, &blocks[i]));
    }
    assert_int_equal(untouchable_taken(), 10 * MIB);
    blocks[10] = 1;
    assert_int_equal(allocate(&f, 1 * MIB, &blocks[10]), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(allocate(&f, 100, &blocks[10]), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(blocks[10], 1);
    assert_true(free_block(&f, blocks[3]));
    assert_ok(allocate(&f, 100, &blocks[3])); /* a whole chunk does not fit, but pages do */
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_unused_slabs_are_given_back_when_a_request_needs_the_room(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t small[2000];
    uintptr_t large;
    open_kind(&f, 2 * MIB, 16 * MIB, 64, true);
    for (int i = 0; i < 2000; i++) {
        assert_ok(allocate(&f, 4096, &small[i]));
    }
    assert_true(untouchable_taken() >= 8 * MIB);
    assert_int_equal(allocate(&f, 15 * MIB, &large), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    for (int i = 0; i < 2000; i++) {
        assert_true(free_block(&f, small[i]));
    }
    assert_ok(allocate(&f, 15 * MIB, &large)); /* 16 MiB in one piece */
    assert_int_equal(untouchable_taken(), 16 * MIB);
    assert_int_equal(stats_of(&f).slab_bytes, 16 * MIB);
    for (int i = 0; i < 2000; i++) {
        assert_true(small[i] == large || !free_block(&f, small[i]));
    }
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_driver_with_little_left_is_asked_for_less(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t block;
    open_kind(&f, 64 * MIB, 0, 5, true);
    assert_ok(allocate(&f, 3 * MIB, &block));
    assert_int_equal(untouchable_taken(), 8 * MIB); /* 64, 32, 16, 8 */
    assert_ok(allocate(&f, 5 * MIB, &block));
    assert_ok(allocate(&f, 1 * MIB, &block));
    assert_int_equal(untouchable_taken(), 10 * MIB);
    untouchable_close_kind(&f.kind, &f.map);
}

static struct gy_kind *reserving;

/* Another thread reserves address space just then. */
static void give_back_and_reserve(struct gy_context *context, const struct gy_backing *backing)
{
    struct gy_kind *kind = reserving;
    reserving = NULL;
    untouchable_ops.give_back(context, backing);
    assert_true(kind == NULL || gy_kind_reserve(kind, 12 * MIB) == GANTRY_OK);
}

static void test_what_is_reserved_while_excess_is_given_back_stays(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t blocks[4];
    struct gy_backing_ops ops = untouchable_ops;
    ops.give_back = give_back_and_reserve;
    open_kind(&f, 4 * MIB, 0, 64, true);
    f.kind.setup.ops = &ops;
    atomic_store(&f.kind.settings.keep_bytes, 4 * MIB);
    for (int i = 0; i < 4; i++) {
        assert_ok(allocate(&f, 4 * MIB, &blocks[i]));
    }
    for (int i = 0; i < 4; i++) {
        assert_true(free_block(&f, blocks[i]));
    }
    reserving = &f.kind;
    assert_int_equal(gy_kind_trim_excess(&f.kind), 4 * MIB);
    assert_null(reserving);
    assert_int_equal(stats_of(&f).slab_bytes, 12 * MIB);
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_every_size_and_alignment_comes_out_aligned_and_apart(void **state)
{
    (void)state;
    struct fixture f;
    open_kind(&f, 0, 0, 512, true);
    for (size_t alignment = 256; alignment <= 2 * MIB; alignment *= 2) {
        uintptr_t before = 0;
        for (size_t bytes = 1; bytes <= 3 * MIB; bytes = bytes * 3 + 1) {
            uintptr_t block;
            assert_ok(gy_kind_alloc(&f.kind, bytes, alignment, 0, &block));
            assert_int_equal(block % alignment, 0);
            assert_int_not_equal(block, before);
            before = block;
        }
    }
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_addresses_that_start_no_block_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    static const size_t sizes[] = {1, 256, 1000, 14336, 14337, 70000, 5 * MIB};
    open_kind(&f, 0, 0, 64, true);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uintptr_t block;
        assert_ok(allocate(&f, sizes[i], &block));
        static const size_t offsets[] = {1, 8, 255, 256, 4096, 8192};
        for (size_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]) && offsets[k] < sizes[i]; k++) {
            struct gy_heap_region *region = gy_granules_find(&f.map, block + offsets[k]);
            assert_false(free_block(&f, block + offsets[k]));
            assert_int_equal(gy_kind_resize(&f.kind, region, block + offsets[k], 1), GANTRY_ERR_NOT_FOUND);
            assert_true(gy_kind_contain(&f.kind, region, block + offsets[k]));
        }
        struct gy_heap_region *region = gy_granules_find(&f.map, block);
        assert_true(gy_kind_contain(&f.kind, region, block + sizes[i] - 1));
        assert_false(gy_kind_contain(&f.kind, region, block + sizes[i]));
        assert_true(free_block(&f, block));
        assert_false(free_block(&f, block));
        assert_false(gy_kind_contain(&f.kind, region, block));
    }
    assert_false(free_block(&f, (uintptr_t)&f));
    assert_false(free_block(&f, UINTPTR_MAX));
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_resize_of_small_blocks_stays_in_their_class(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t block;
    open_kind(&f, 8 * MIB, 0, 64, true);
    assert_ok(allocate(&f, 900, &block));
    struct gy_heap_region *region = gy_granules_find(&f.map, block);
    assert_ok(gy_kind_resize(&f.kind, region, block, 1024));
    assert_ok(gy_kind_resize(&f.kind, region, block, 1));
    assert_int_equal(stats_of(&f).used_bytes, 1);
    if (f.has_small) {
        assert_int_equal(gy_kind_resize(&f.kind, region, block, 5000), GANTRY_ERR_UNSUPPORTED);
        assert_int_equal(gy_kind_resize(&f.kind, region, block, 100000), GANTRY_ERR_UNSUPPORTED);
        assert_int_equal(stats_of(&f).used_bytes, 1);
    }
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_resize_of_large_blocks_goes_as_far_as_their_neighbour(void **state)
{
    (void)state;
    struct fixture f;
    uintptr_t large, wall;
    open_kind(&f, 8 * MIB, 0, 64, true);
    assert_ok(allocate(&f, 1 * MIB, &large));
    assert_ok(allocate(&f, 1 * MIB, &wall));
    struct gy_heap_region *region = gy_granules_find(&f.map, large);
    assert_ok(gy_kind_resize(&f.kind, region, large, 20000));
    assert_int_equal(stats_of(&f).used_bytes, 20000 + 1 * MIB);
    assert_ok(gy_kind_resize(&f.kind, region, large, 1 * MIB));
    assert_true(large + 1 * MIB == wall);
    assert_int_equal(gy_kind_resize(&f.kind, region, large, 1 * MIB + 1), GANTRY_ERR_UNSUPPORTED);
    assert_int_equal(gy_kind_resize(&f.kind, region, large, SIZE_MAX), GANTRY_ERR_UNSUPPORTED);
    assert_true(free_block(&f, wall));
    assert_ok(gy_kind_resize(&f.kind, region, large, 2 * MIB));
    assert_int_equal(stats_of(&f).used_bytes, 2 * MIB);
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_host_memory_faults_lose_nothing(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 14336, 14337, 3 * MIB};
    for (long nth = 0;; nth++) {
        struct fixture f;
        uintptr_t blocks[4] = {0};
        bool fired = false;
        open_kind(&f, 0, 0, 64, true);
        gy_fault_arm(nth);
        for (int i = 0; i < 4; i++) {
            uintptr_t address = 1;
            gantry_status status = allocate(&f, sizes[i], &address);
            if (status != GANTRY_OK) {
                assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
                assert_int_equal(address, 1);
                fired = true;
                assert_true(gy_fault_fired());
                assert_ok(allocate(&f, sizes[i], &address)); /* the next attempt succeeds */
            }
            blocks[i] = address;
        }
        fired = fired || gy_fault_fired(); /* the allocation survives some faults */
        gy_fault_arm(-1);
        for (int i = 0; i < 4; i++) {
            assert_true(free_block(&f, blocks[i]));
        }
        assert_int_equal(stats_of(&f).used_bytes, 0);
        assert_int_equal(stats_of(&f).block_count, 0);
        untouchable_close_kind(&f.kind, &f.map);
        if (!fired) {
            assert_true(nth > 3);
            return;
        }
    }
}

static void free_on_exit(void *arg)
{
    struct fixture *f = arg;
    uintptr_t block;
    for (int i = 0; i < 100; i++) {
        if (allocate(f, 5000, &block) != GANTRY_OK || !free_block(f, block)) {
            return;
        }
    }
    /* A block stays allocated; the thread's cache goes with the thread. */
    if (allocate(f, 5000, &block) != GANTRY_OK) {
        return;
    }
}

static void test_sums_survive_the_threads_that_made_them(void **state)
{
    (void)state;
    struct fixture f;
    open_kind(&f, 0, 0, 64, true);
    for (unsigned i = 1; i <= 20; i++) {
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "heap", free_on_exit, &f));
        gy_thread_join(&thread);
        gantry_heap_stats stats = stats_of(&f);
        assert_int_equal(stats.used_bytes, i * 5000);
        assert_int_equal(stats.block_count, i);
        assert_int_equal(stats.alloc_count, i * 101);
        assert_int_equal(stats.free_count, i * 100);
    }
    untouchable_close_kind(&f.kind, &f.map);
}

static void test_one_thread_uses_many_kinds_one_after_the_other_and_at_once(void **state)
{
    (void)state;
    struct fixture *fixtures = calloc(40, sizeof(*fixtures));
    assert_non_null(fixtures);
    for (int round = 0; round < 2; round++) {
        untouchable_open(1024);
        for (int i = 0; i < 40; i++) {
            struct gy_kind_setup setup = {.kind = GANTRY_MEMORY_DEVICE,
                                          .ops = &untouchable_ops,
                                          .map = &fixtures[i].map,
                                          .use_small = gy_small_probe() == GANTRY_OK};
            assert_ok(gy_kind_init(&fixtures[i].kind, &setup));
        }
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 40; i++) {
                uintptr_t kept, block;
                assert_ok(allocate(&fixtures[i], 300, &kept));
                assert_ok(allocate(&fixtures[i], 300, &block));
                assert_true(free_block(&fixtures[i], block));
            }
        }
        for (int i = 0; i < 40; i++) {
            assert_int_equal(stats_of(&fixtures[i]).used_bytes, 900);
            gy_kind_fini(&fixtures[i].kind);
            gy_granules_fini(&fixtures[i].map);
        }
        memset(fixtures, 0, 40 * sizeof(*fixtures));
        assert_int_equal(untouchable_taken(), 0);
        assert_int_equal(gy_alloc_live(), 0);
        untouchable_close();
    }
    free(fixtures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_slabs_start_small_and_double),
        cmocka_unit_test(test_large_request_gets_a_slab_of_its_size),
        cmocka_unit_test(test_limit_is_never_exceeded_and_all_of_it_is_usable),
        cmocka_unit_test(test_unused_slabs_are_given_back_when_a_request_needs_the_room),
        cmocka_unit_test(test_driver_with_little_left_is_asked_for_less),
        cmocka_unit_test(test_what_is_reserved_while_excess_is_given_back_stays),
        cmocka_unit_test(test_every_size_and_alignment_comes_out_aligned_and_apart),
        cmocka_unit_test(test_addresses_that_start_no_block_are_refused),
        cmocka_unit_test(test_resize_of_small_blocks_stays_in_their_class),
        cmocka_unit_test(test_resize_of_large_blocks_goes_as_far_as_their_neighbour),
        cmocka_unit_test(test_host_memory_faults_lose_nothing),
        cmocka_unit_test(test_sums_survive_the_threads_that_made_them),
        cmocka_unit_test(test_one_thread_uses_many_kinds_one_after_the_other_and_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
