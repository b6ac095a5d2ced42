/* SPDX-License-Identifier: MIT */
/* Handles that are looked up: which are valid, which are not, and how long destroyed objects are kept. */
#include "base/handle.h"

#include "base/alloc.h"
#include "base/status.h"
#include "tests/support/cmocka_c11.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 256 };

static bool refuses;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *p = NULL;
    return !refuses && posix_memalign(&p, alignment, bytes) == 0 ? p : NULL;
}

static void release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(pointer);
}

static bool is_bad_task(const void *handle)
{
    gy_error_clear();
    return GY_HANDLE_IS_BAD(TASK, handle);
}

static void test_only_the_living_are_good(void **state)
{
    (void)state;
    char *block = gy_zalloc(160);
    gy_handle_born(GY_HANDLE_TASK, block, 128, 32);
    assert_true(gy_handles_are_checked());
    assert_false(is_bad_task(NULL));
    assert_false(is_bad_task(block));
    assert_false(is_bad_task(block + 96));
    assert_true(is_bad_task(block + 1));
    assert_true(is_bad_task(block + 128));
    assert_non_null(strstr(gantry_last_error(), "is no task"));
    assert_true(GY_HANDLE_IS_BAD(HEAP, block));
    assert_non_null(strstr(gantry_last_error(), "the task "));
    gy_handle_died(block);
    assert_true(is_bad_task(block + 32));
    assert_non_null(strstr(gantry_last_error(), "was destroyed, or forgotten by gantry_taskman_reset()"));
    gy_handle_born(GY_HANDLE_TASK, block + 16, 32, 32); /* the place is used again */
    assert_false(is_bad_task(block + 16));
    assert_true(is_bad_task(block + 96));
    gy_handle_free(block + 16, block);
    assert_true(is_bad_task(block + 16));
    gy_handle_free(NULL, NULL);
}

/* The latest destroyed objects are known by name, and their memory is not given out again; older ones are
 * freed. */
static void test_the_latest_are_kept(void **state)
{
    (void)state;
    char *blocks[2 * MOST_KEPT];
    long live = gy_alloc_live();
    for (int i = 0; i < 2 * MOST_KEPT; i++) {
        blocks[i] = gy_zalloc(64);
        gy_handle_born(GY_HANDLE_HEAP, blocks[i], 64, 64);
        for (int j = i > MOST_KEPT ? i - MOST_KEPT : 0; j < i; j++) {
            assert_ptr_not_equal(blocks[i], blocks[j]);
        }
        gy_handle_free(blocks[i], blocks[i]);
        assert_int_equal(gy_alloc_live(), live); /* kept objects are not counted */
    }
    assert_true(gy_handle_kept() > MOST_KEPT);
    assert_true(GY_HANDLE_IS_BAD(HEAP, blocks[2 * MOST_KEPT - 1]));
    assert_non_null(strstr(gantry_last_error(), "was destroyed"));
    assert_null(strstr(gantry_last_error(), "gantry_taskman_reset"));
    gy_handle_flush();
    assert_int_equal(gy_handle_kept(), 0);
    assert_true(GY_HANDLE_IS_BAD(HEAP, blocks[2 * MOST_KEPT - 1]));
    assert_non_null(strstr(gantry_last_error(), "is no heap"));
}

static void test_without_memory_handles_are_trusted(void **state)
{
    (void)state;
    char *block = gy_zalloc(64);
    gy_handle_flush();
    refuses = true;
    gy_handle_born(GY_HANDLE_HEAP, block, 64, 64);
    refuses = false;
    assert_false(gy_handles_are_checked());
    assert_false(GY_HANDLE_IS_BAD(TASK, block));
    gy_handle_free(block, block);
    assert_int_equal(gy_handle_kept(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_living_are_good),
        cmocka_unit_test(test_the_latest_are_kept),
        /* this test is the last one: the setting stays */
        cmocka_unit_test(test_without_memory_handles_are_trusted),
    };
    static const gantry_allocator allocator = {sizeof(allocator), allocate, release, NULL};
    setenv("GANTRY_CHECK", "handles", 1);
    if (gantry_set_allocator(&allocator) != GANTRY_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
