/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void test_zalloc_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 5000; bytes = bytes * 2 + 1) {
        unsigned char *p = gy_zalloc(bytes);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(p[i], 0);
        }
        memset(p, 0xa5, bytes); /* the next block may be this one again, and must be zeroed */
        gy_free(p);
    }
}

static void test_alloc_aligned_honours_every_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        char *p = gy_alloc_aligned(100, alignment);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % alignment, 0);
        memset(p, 1, 100);
        gy_free(p);
    }
}

static void test_sizes_that_wrap_are_refused(void **state)
{
    (void)state;
    long live = gy_alloc_live();
    assert_null(gy_zalloc_array(SIZE_MAX / 2, 3));
    assert_null(gy_alloc_aligned(SIZE_MAX - 8, 16));
    assert_int_equal(gy_alloc_live(), live);
}

static void test_zalloc_array_covers_every_element(void **state)
{
    (void)state;
    uint64_t *p = gy_zalloc_array(100, sizeof(*p));
    assert_non_null(p);
    for (size_t i = 0; i < 100; i++) {
        assert_true(p[i] == 0);
        p[i] = i;
    }
    gy_free(p);
}

static void test_live_count_follows_allocations(void **state)
{
    (void)state;
    long live = gy_alloc_live();
    char *a = gy_zalloc(1);
    char *b = gy_strdup("crane");
    assert_int_equal(gy_alloc_live(), live + 2);
    assert_string_equal(b, "crane");
    gy_free(a);
    gy_free(NULL);
    assert_int_equal(gy_alloc_live(), live + 1);
    gy_free(b);
    assert_int_equal(gy_alloc_live(), live);
}

static void test_fault_hits_only_the_armed_allocation(void **state)
{
    (void)state;
    for (long nth = 0; nth < 4; nth++) {
        gy_fault_arm(nth);
        for (long i = 0; i < 4; i++) {
            void *p = gy_zalloc(8);
            assert_int_equal(p == NULL, i == nth);
            assert_int_equal(gy_fault_fired(), i >= nth);
            gy_free(p);
        }
    }
    gy_fault_arm(-1);
    assert_false(gy_fault_fired());
    void *p = gy_zalloc(8);
    assert_non_null(p);
    gy_free(p);
}

#define FAULT_THREADS 4
#define FAULT_ROUNDS 1000

static void count_failures(void *arg)
{
    atomic_int *failures = arg;
    for (int i = 0; i < FAULT_ROUNDS; i++) {
        void *p = gy_zalloc(16);
        if (p == NULL) {
            atomic_fetch_add(failures, 1);
        }
        gy_free(p);
    }
}

static void test_fault_is_counted_over_all_threads(void **state)
{
    (void)state;
    atomic_int failures = 0;
    gy_thread threads[FAULT_THREADS];
    /* Each start takes one allocation and one thread, so the fault hits inside the loops. */
    gy_fault_arm(2 * FAULT_THREADS + FAULT_ROUNDS / 2);
    for (int i = 0; i < FAULT_THREADS; i++) {
        assert_ok(gy_thread_start(&threads[i], "fault", count_failures, &failures));
    }
    for (int i = 0; i < FAULT_THREADS; i++) {
        gy_thread_join(&threads[i]);
    }
    assert_int_equal(failures, 1);
    assert_true(gy_fault_fired());
    gy_fault_arm(-1);
}

/* An allocator that keeps books: each block must come back with the size that it was given out with. */
struct books {
    long blocks;
    size_t bytes;
    bool refuse;
};

static void *book_allocate(void *user, size_t bytes, size_t alignment)
{
    struct books *books = user;
    if (books->refuse || bytes == 0 || alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return NULL;
    }
    books->blocks++;
    books->bytes += bytes;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void book_release(void *user, void *pointer, size_t bytes)
{
    struct books *books = user;
    books->blocks--;
    books->bytes -= bytes;
    free(pointer);
}

static void test_own_allocator_gets_every_block_back_with_its_size(void **state)
{
    (void)state;
    struct books books = {0};
    gantry_allocator allocator = {sizeof(allocator), book_allocate, book_release, &books};
    assert_ok(gantry_set_allocator(&allocator));
    void *blocks[10];
    for (size_t i = 0; i < 10; i++) {
        blocks[i] = gy_alloc_aligned(100 * i + 1, (size_t)8 << i % 4);
        assert_non_null(blocks[i]);
    }
    assert_int_equal(books.blocks, 10);
    books.refuse = true;
    assert_null(gy_zalloc(1));
    for (size_t i = 0; i < 10; i++) {
        gy_free(blocks[i]);
    }
    assert_int_equal(books.blocks, 0);
    assert_int_equal(books.bytes, 0);
    assert_ok(gantry_set_allocator(NULL));
    gy_free(gy_zalloc(1));
    assert_int_equal(books.blocks, 0);
}

static void test_allocator_is_not_changed_while_blocks_live(void **state)
{
    (void)state;
    struct books books = {0};
    gantry_allocator allocator = {sizeof(allocator), book_allocate, book_release, &books};
    void *p = gy_zalloc(1);
    assert_int_equal(gantry_set_allocator(&allocator), GANTRY_ERR_STATE);
    assert_int_equal(gantry_set_allocator(NULL), GANTRY_ERR_STATE);
    gy_free(p);
    assert_int_equal(books.blocks, 0);
}

static void test_half_an_allocator_is_refused(void **state)
{
    (void)state;
    gantry_allocator no_release = {sizeof(no_release), book_allocate, NULL, NULL};
    gantry_allocator no_allocate = {sizeof(no_allocate), NULL, book_release, NULL};
    assert_int_equal(gantry_set_allocator(&no_release), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_set_allocator(&no_allocate), GANTRY_ERR_INVALID_ARGUMENT);
    gy_free(gy_zalloc(1)); /* it is still the one before */
}

static void test_array_grows_and_keeps_what_it_holds(void **state)
{
    (void)state;
    uint32_t *numbers = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(gy_grow_array(&numbers, &room, i + (size_t)1, sizeof(*numbers)));
        assert_true(room > i);
        assert_int_equal(numbers[i], 0);
        numbers[i] = i + 1;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(numbers[i], i + 1);
    }
    const uint32_t *before = numbers;
    const size_t room_before = room;
    gy_fault_arm(0);
    assert_false(gy_grow_array(&numbers, &room, room + 1, sizeof(*numbers)));
    assert_true(gy_fault_fired());
    gy_fault_arm(-1);
    assert_false(gy_grow_array(&numbers, &room, SIZE_MAX, sizeof(*numbers)));
    assert_false(gy_grow_array(&numbers, &room, SIZE_MAX / 4, sizeof(*numbers)));
    assert_ptr_equal(numbers, before);
    assert_int_equal(room, room_before);
    assert_int_equal(numbers[999], 1000);
    gy_free(numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zalloc_gives_zeroed_aligned_memory),
        cmocka_unit_test(test_alloc_aligned_honours_every_alignment),
        cmocka_unit_test(test_sizes_that_wrap_are_refused),
        cmocka_unit_test(test_zalloc_array_covers_every_element),
        cmocka_unit_test(test_array_grows_and_keeps_what_it_holds),
        cmocka_unit_test(test_live_count_follows_allocations),
        cmocka_unit_test(test_fault_hits_only_the_armed_allocation),
        cmocka_unit_test(test_fault_is_counted_over_all_threads),
        cmocka_unit_test(test_own_allocator_gets_every_block_back_with_its_size),
        cmocka_unit_test(test_allocator_is_not_changed_while_blocks_live),
        cmocka_unit_test(test_half_an_allocator_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
