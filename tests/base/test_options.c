/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "base/options.h"

struct options_v1 {
    size_t struct_size;
    uint64_t width;
};

struct options_v2 {
    size_t struct_size;
    uint64_t width;
    uint64_t depth;
};

struct options_v3 {
    size_t struct_size;
    uint64_t width;
    uint64_t depth;
    uint64_t height;
};

/* For these tests the library is at version 2. */
static gantry_status import(struct options_v2 *ours, const void *theirs)
{
    *ours = (struct options_v2){0};
    return gy_options_import(ours, sizeof(*ours), theirs, sizeof(struct options_v1), "options");
}

static void test_same_version_is_copied(void **state)
{
    (void)state;
    struct options_v2 ours, theirs = {sizeof(theirs), 3, 4};
    assert_ok(import(&ours, &theirs));
    assert_memory_equal(&ours, &theirs, sizeof(ours));
}

static void test_null_means_all_defaults(void **state)
{
    (void)state;
    struct options_v2 ours, zero = {0};
    assert_ok(import(&ours, NULL));
    assert_memory_equal(&ours, &zero, sizeof(ours));
}

static void test_older_caller_gets_defaults_for_new_fields(void **state)
{
    (void)state;
    /* The bytes behind the older struct must not be read. */
    struct options_v2 ours, memory = {sizeof(struct options_v1), 3, 99};
    assert_ok(import(&ours, &memory));
    assert_int_equal(ours.width, 3);
    assert_int_equal(ours.depth, 0);
}

static void test_newer_caller_is_taken_when_the_unknown_is_zero(void **state)
{
    (void)state;
    struct options_v2 ours;
    struct options_v3 theirs = {sizeof(theirs), 3, 4, 0};
    assert_ok(import(&ours, &theirs));
    assert_int_equal(ours.width, 3);
    assert_int_equal(ours.depth, 4);
}

static void test_newer_caller_is_refused_when_it_uses_the_unknown(void **state)
{
    (void)state;
    struct options_v2 ours, zero = {0};
    struct options_v3 theirs = {sizeof(theirs), 3, 4, 0};
    for (size_t byte = sizeof(struct options_v2); byte < sizeof(theirs); byte++) {
        struct options_v3 copy = theirs;
        ((unsigned char *)&copy)[byte] = 1;
        assert_int_equal(import(&ours, &copy), GANTRY_ERR_UNSUPPORTED);
        assert_memory_equal(&ours, &zero, sizeof(ours));
    }
    assert_non_null(strstr(gantry_last_error(), "options"));
    assert_non_null(strstr(gantry_last_error(), "31")); /* this is the last byte that is tried */
}

static void test_struct_size_too_small_is_refused(void **state)
{
    (void)state;
    struct options_v2 ours, zero = {0};
    for (size_t size = 0; size < sizeof(struct options_v1); size++) {
        struct options_v2 theirs = {size, 3, 4};
        assert_int_equal(import(&ours, &theirs), GANTRY_ERR_INVALID_ARGUMENT);
        assert_memory_equal(&ours, &zero, sizeof(ours));
    }
}

static gantry_status fill(void *theirs)
{
    struct options_v2 ours = {0, 5, 6};
    return gy_stats_export(theirs, &ours, sizeof(ours), "stats");
}

static void test_stats_fill_a_caller_of_the_same_age(void **state)
{
    (void)state;
    struct options_v2 theirs = {sizeof(theirs), 0, 0};
    assert_ok(fill(&theirs));
    assert_int_equal(theirs.struct_size, sizeof(theirs));
    assert_int_equal(theirs.width, 5);
    assert_int_equal(theirs.depth, 6);
}

static void test_stats_leave_memory_behind_an_older_caller_alone(void **state)
{
    (void)state;
    struct options_v2 memory = {sizeof(struct options_v1), 0, 99};
    assert_ok(fill(&memory));
    assert_int_equal(memory.struct_size, sizeof(struct options_v1));
    assert_int_equal(memory.width, 5);
    assert_int_equal(memory.depth, 99);
}

static void test_stats_leave_a_newer_callers_tail_alone(void **state)
{
    (void)state;
    struct options_v3 theirs = {sizeof(theirs), 0, 0, 7};
    assert_ok(fill(&theirs));
    assert_int_equal(theirs.depth, 6);
    assert_int_equal(theirs.height, 7);
}

static void test_stats_refuse_null_and_too_small(void **state)
{
    (void)state;
    struct options_v1 theirs = {sizeof(size_t), 9};
    assert_int_equal(fill(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(fill(&theirs), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(theirs.width, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_version_is_copied),
        cmocka_unit_test(test_null_means_all_defaults),
        cmocka_unit_test(test_older_caller_gets_defaults_for_new_fields),
        cmocka_unit_test(test_newer_caller_is_taken_when_the_unknown_is_zero),
        cmocka_unit_test(test_newer_caller_is_refused_when_it_uses_the_unknown),
        cmocka_unit_test(test_struct_size_too_small_is_refused),
        cmocka_unit_test(test_stats_fill_a_caller_of_the_same_age),
        cmocka_unit_test(test_stats_leave_memory_behind_an_older_caller_alone),
        cmocka_unit_test(test_stats_leave_a_newer_callers_tail_alone),
        cmocka_unit_test(test_stats_refuse_null_and_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
