/* SPDX-License-Identifier: MIT */
/* Names of files with a part for each process. */
#include "tests/support/cmocka_c11.h"

#include "base/file_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char name[64];

static gantry_status read_name(const char *text)
{
    memset(name, 'x', sizeof(name));
    return gy_file_name("GANTRY_TEST", text, name, sizeof(name));
}

static void test_parts_are_filled_in(void **state)
{
    (void)state;
    char expected[128], host[65] = "";
    assert_int_equal(setenv("GANTRY_TEST_RANK", "rank 7", 1), 0);
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    assert_ok(read_name("plain.pftrace"));
    assert_string_equal(name, "plain.pftrace");
    assert_ok(read_name("run-%p.%q{GANTRY_TEST_RANK}%%"));
    snprintf(expected, sizeof(expected), "run-%ld.rank 7%%", (long)getpid());
    assert_string_equal(name, expected);
    if (strlen(host) < sizeof(name) - 2) {
        assert_ok(read_name("%h.x"));
        snprintf(expected, sizeof(expected), "%s.x", host);
        assert_string_equal(name, expected);
    }
}

static void test_what_cannot_be_filled_in_is_named(void **state)
{
    (void)state;
    const char *const bad[][2] = {{"run-%d", "$GANTRY_TEST: '%d' is none of %p (process), %h (host), "},
                                  {"run-%", "'%' is none of"},
                                  {"%q{GANTRY_TEST_NONE}", "%q{GANTRY_TEST_NONE}: there is no such variable"},
                                  {"%q{GANTRY_TEST_RANK", "'%q{GANTRY_TEST_RANK' is none of"},
                                  {"%qX", "'%qX' is none of"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(read_name(bad[i][0]), GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(gantry_last_error(), bad[i][1]));
    }
}

/* The text's length is all that is different. */
static void test_no_name_is_cut_off(void **state)
{
    (void)state;
    char text[sizeof(name) + 1];
    memset(text, 'a', sizeof(text));
    text[sizeof(name) - 1] = '\0';
    assert_ok(read_name(text));
    assert_int_equal(strlen(name), sizeof(name) - 1);
    text[sizeof(name) - 1] = 'a';
    text[sizeof(name)] = '\0';
    assert_int_equal(read_name(text), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "too long"));
    char both[128];
    assert_int_equal(setenv("GANTRY_TEST_LONG", "bbb", 1), 0);
    snprintf(both, sizeof(both), "%.60s%%q{GANTRY_TEST_LONG}", text);
    assert_ok(read_name(both));
    assert_int_equal(strlen(name), 63);
    snprintf(both, sizeof(both), "%.61s%%q{GANTRY_TEST_LONG}", text);
    assert_int_equal(read_name(both), GANTRY_ERR_INVALID_ARGUMENT);
}

/* Names of variables have room for 127 characters. */
static void test_a_long_variable_is_asked_for(void **state)
{
    (void)state;
    char variable[129], text[160];
    memset(variable, 'V', sizeof(variable));
    variable[128] = '\0';
    snprintf(text, sizeof(text), "%%q{%s}", variable);
    assert_int_equal(setenv(variable, "far", 1), 0);
    assert_int_equal(read_name(text), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "is none of"));
    variable[127] = '\0';
    snprintf(text, sizeof(text), "%%q{%s}", variable);
    assert_int_equal(setenv(variable, "near", 1), 0);
    assert_ok(read_name(text));
    assert_string_equal(name, "near");
}

/* What stops a file is asked for by writing to it once more. */
static void test_why_a_file_fails(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w"), *fine = fopen("/dev/null", "w"), *other = fopen("/dev/null", "r");
    assert_true(full != NULL && fine != NULL && other != NULL);
    assert_string_equal(gy_file_failure(full), strerrordesc_np(ENOSPC));
    assert_string_equal(gy_file_failure(fine), "a write failed");
    assert_string_equal(gy_file_failure(other), strerrordesc_np(EBADF));
    (void)fclose(full);
    (void)fclose(fine);
    (void)fclose(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_filled_in), cmocka_unit_test(test_what_cannot_be_filled_in_is_named),
        cmocka_unit_test(test_no_name_is_cut_off),  cmocka_unit_test(test_a_long_variable_is_asked_for),
        cmocka_unit_test(test_why_a_file_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
