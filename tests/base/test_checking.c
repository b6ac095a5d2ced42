/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include "base/checking.h"

#include <stdlib.h>

static unsigned parts_of(const char *check)
{
    if (check != NULL) {
        setenv("GANTRY_CHECK", check, 1);
    } else {
        unsetenv("GANTRY_CHECK");
    }
    return gy_checks_read();
}

static void test_one_variable_turns_everything_on(void **state)
{
    (void)state;
    const unsigned all = GY_CHECK_HANDLES | GY_CHECK_FREES | GY_CHECK_GUARDS | GY_CHECK_BOUNDS |
                         GY_CHECK_COMPLETIONS | GY_CHECK_FORKS | GY_CHECK_STABLE;
    assert_int_equal(parts_of(NULL), 0);
    assert_false(gy_check_is_on(all));
    assert_int_equal(parts_of(""), 0);
    assert_int_equal(parts_of("0"), 0);
    assert_int_equal(parts_of("1") & all, all);
    assert_true(gy_check_is_on(GY_CHECK_BOUNDS) && gy_check_is_on(GY_CHECK_HANDLES));
}

static void test_parts_have_names(void **state)
{
    (void)state;
    assert_int_equal(parts_of("bounds"), GY_CHECK_BOUNDS);
    assert_int_equal(parts_of("handles,frees,bounds"), GY_CHECK_HANDLES | GY_CHECK_FREES | GY_CHECK_BOUNDS);
    assert_true(gy_check_is_on(GY_CHECK_FREES | GY_CHECK_GUARDS));
    assert_false(gy_check_is_on(GY_CHECK_GUARDS));
}

/* What the proof tells on request takes the proof; none of it is of "1". */
static void test_parts_of_the_proof(void **state)
{
    (void)state;
    assert_int_equal(parts_of("edges"), GY_CHECK_EDGES);
    assert_int_equal(parts_of("needless"), GY_CHECK_EDGES | GY_CHECK_NEEDLESS);
    assert_int_equal(parts_of("unwritten,unread"), GY_CHECK_EDGES | GY_CHECK_UNWRITTEN | GY_CHECK_NEVER_READ);
    assert_int_equal(parts_of("malloc"), GY_CHECK_EDGES | GY_CHECK_MALLOC);
    assert_int_equal(parts_of("1") & GY_CHECKS_OF_PROOF, 0);
}

static void test_what_is_no_part_is_named(void **state)
{
    (void)state;
    struct log_lines lines;
    log_lines_begin(&lines, "$GANTRY_CHECK has \"bonds\", which is none of: 1, handles, frees, guards,");
    assert_int_equal(parts_of("guards,bonds,,bounds"), GY_CHECK_GUARDS | GY_CHECK_BOUNDS);
    assert_int_equal(parts_of("bonds"), 0); /* a second context reads it again, and is silent */
    assert_int_equal(log_lines_end(&lines), 1);
    (void)parts_of(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_variable_turns_everything_on),
        cmocka_unit_test(test_parts_have_names),
        cmocka_unit_test(test_parts_of_the_proof),
        cmocka_unit_test(test_what_is_no_part_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
