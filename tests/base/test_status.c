/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "base/status.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

static void test_every_status_has_its_name_and_a_text(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                             \
    assert_int_equal(GANTRY_##name, value);                                  \
    assert_string_equal(gantry_status_name(GANTRY_##name), "GANTRY_" #name); \
    assert_string_equal(gantry_status_text(GANTRY_##name), text);            \
    assert_true(strlen(text) > 0 && text[strlen(text) - 1] != '.');
    GANTRY_STATUS_MAP(CHECK)
#undef CHECK
}

static void test_status_values_are_distinct_and_without_gaps(void **state)
{
    (void)state;
    int expected = 0;
#define CHECK(name, value, text) assert_int_equal(value, expected--);
    GANTRY_STATUS_MAP(CHECK)
#undef CHECK
}

static void test_unknown_status_has_a_name_too(void **state)
{
    (void)state;
    /* The value goes through memory: one outside the enum must not be a constant expression of its type. */
    int values[] = {1, -1000};
    for (size_t i = 0; i < 2; i++) {
        gantry_status status;
        memcpy(&status, &values[i], sizeof(status));
        assert_string_equal(gantry_status_name(status), "GANTRY_ERR_?");
        assert_string_equal(gantry_status_text(status), "unknown status");
    }
}

static void test_version_is_that_of_the_header(void **state)
{
    (void)state;
    char expected[32];
    snprintf(expected, sizeof(expected), "%d.%d.%d", GANTRY_VERSION_MAJOR, GANTRY_VERSION_MINOR,
             GANTRY_VERSION_PATCH);
    assert_string_equal(gantry_version(), expected);
}

static void swallow(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

static void test_error_text_has_cause_and_status(void **state)
{
    (void)state;
    gantry_set_log(swallow, NULL, GANTRY_LOG_INFO);
    assert_int_equal(GY_FAIL(GANTRY_ERR_STATE, "crane %d is up", 7), GANTRY_ERR_STATE);
    assert_string_equal(gantry_last_error(), "crane 7 is up [GANTRY_ERR_STATE]");
    gantry_set_log(NULL, NULL, GANTRY_LOG_DEBUG);
    assert_int_equal(GY_FAIL(GANTRY_ERR_STATE, "crane %d is up", 8), GANTRY_ERR_STATE);
    assert_string_equal(gantry_last_error(), "crane 8 is up [GANTRY_ERR_STATE]");
}

static void test_error_text_has_its_place_at_level_debug(void **state)
{
    (void)state;
    char place[64];
    gantry_set_log(swallow, NULL, GANTRY_LOG_DEBUG);
    gantry_status status = GY_FAIL(GANTRY_ERR_STATE, "crane %d is up", 7);
    snprintf(place, sizeof(place), "test_status.c:%d]", __LINE__ - 1);
    assert_int_equal(status, GANTRY_ERR_STATE);
    const char *text = gantry_last_error();
    assert_ptr_equal(strstr(text, "crane 7 is up [GANTRY_ERR_STATE, "), text);
    assert_string_equal(text + strlen(text) - strlen(place), place);
    assert_int_equal(gantry_last_native_error(), 0);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
}

static void test_native_code_is_kept_and_replaced(void **state)
{
    (void)state;
    assert_int_equal(GY_FAIL_NATIVE(GANTRY_ERR_DRIVER, 700, "cuX failed"), GANTRY_ERR_DRIVER);
    assert_int_equal(gantry_last_native_error(), 700);
    assert_int_equal(gy_error_last()->status, GANTRY_ERR_DRIVER);
    assert_int_equal(GY_FAIL(GANTRY_ERR_IO, "no file"), GANTRY_ERR_IO);
    assert_int_equal(gantry_last_native_error(), 0);
}

static void test_a_long_cause_keeps_its_place(void **state)
{
    (void)state;
    gantry_set_log(swallow, NULL, GANTRY_LOG_DEBUG);
    char cause[2 * GY_ERROR_TEXT_BYTES];
    memset(cause, 'x', sizeof(cause));
    cause[sizeof(cause) - 1] = '\0';
    (void)GY_FAIL(GANTRY_ERR_IO, "%s", cause);
    assert_true(strlen(gantry_last_error()) < GY_ERROR_TEXT_BYTES);
    assert_non_null(strstr(gantry_last_error(), "x [GANTRY_ERR_IO, "));
    assert_non_null(strstr(gantry_last_error(), "test_status.c:"));
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
}

struct other {
    char before[16];
    gantry_status adopted;
    char after[GY_ERROR_TEXT_BYTES];
    struct gy_error error; /* this is the error of the main thread */
};

static void adopt_in_thread(void *arg)
{
    struct other *other = arg;
    snprintf(other->before, sizeof(other->before), "%.15s", gantry_last_error());
    other->adopted = gy_error_adopt(&other->error);
    snprintf(other->after, sizeof(other->after), "%s", gantry_last_error());
}

static void test_errors_belong_to_threads_and_can_be_handed_over(void **state)
{
    (void)state;
    struct other other = {.before = "unset"};
    (void)GY_FAIL_NATIVE(GANTRY_ERR_DEVICE_LOST, 5, "gone");
    other.error = *gy_error_last();
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "other", adopt_in_thread, &other));
    gy_thread_join(&thread);
    assert_string_equal(other.before, "");
    assert_int_equal(other.adopted, GANTRY_ERR_DEVICE_LOST);
    assert_string_equal(other.after, gantry_last_error());
    assert_int_equal(gy_error_adopt(gy_error_last()), GANTRY_ERR_DEVICE_LOST);
}

struct lines {
    int count;
    gantry_log_level level;
    char text[GY_ERROR_TEXT_BYTES];
};

static void keep_line(void *user, gantry_log_level level, const char *line)
{
    struct lines *lines = user;
    lines->count++;
    lines->level = level;
    snprintf(lines->text, sizeof(lines->text), "%s", line);
}

static void test_log_delivers_up_to_its_level(void **state)
{
    (void)state;
    for (int max = GANTRY_LOG_ERROR; max <= GANTRY_LOG_DEBUG; max++) {
        struct lines lines = {0};
        gantry_set_log(keep_line, &lines, (gantry_log_level)max);
        for (int level = GANTRY_LOG_ERROR; level <= GANTRY_LOG_DEBUG; level++) {
            assert_int_equal(gy_log_enabled((gantry_log_level)level), level <= max);
            gy_log((gantry_log_level)level, "line %d", level);
        }
        gantry_set_log(NULL, NULL, GANTRY_LOG_DEBUG);
        assert_int_equal(lines.count, max + 1);
        assert_int_equal(lines.level, max);
    }
}

static void test_no_receiver_means_no_log(void **state)
{
    (void)state;
    struct lines lines = {0};
    gantry_set_log(keep_line, &lines, GANTRY_LOG_DEBUG);
    gantry_set_log(NULL, NULL, GANTRY_LOG_DEBUG);
    assert_false(gy_log_enabled(GANTRY_LOG_ERROR));
    gy_log(GANTRY_LOG_ERROR, "nobody hears this");
    (void)GY_FAIL(GANTRY_ERR_IO, "nor this");
    assert_int_equal(lines.count, 0);
}

static void test_a_failure_is_logged_once_and_adopting_does_not_log(void **state)
{
    (void)state;
    struct lines lines = {0};
    gantry_set_log(keep_line, &lines, GANTRY_LOG_ERROR);
    (void)GY_FAIL(GANTRY_ERR_IO, "disk full");
    struct gy_error error = *gy_error_last();
    (void)gy_error_adopt(&error);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, GANTRY_LOG_ERROR);
    assert_string_equal(lines.text, gantry_last_error());
}

static void test_words_are_put_before_an_error_while_there_is_room(void **state)
{
    (void)state;
    struct lines lines = {0};
    (void)GY_FAIL_NATIVE(GANTRY_ERR_IO, 5, "disk full");
    gantry_set_log(keep_line, &lines, GANTRY_LOG_ERROR);
    gy_error_put_before("run %d", 3);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_string_equal(gantry_last_error(), "run 3: disk full [GANTRY_ERR_IO]");
    assert_int_equal(gantry_last_native_error(), 5);
    assert_int_equal(lines.count, 0);
    gy_error_put_before("%*s", GY_ERROR_TEXT_BYTES - 1 - (int)strlen(gantry_last_error()), "");
    assert_string_equal(gantry_last_error(), "run 3: disk full [GANTRY_ERR_IO]");
    gy_error_put_before("%*s", GY_ERROR_TEXT_BYTES - 3 - (int)strlen(gantry_last_error()), "");
    assert_int_equal(strlen(gantry_last_error()), GY_ERROR_TEXT_BYTES - 1);
    assert_non_null(strstr(gantry_last_error(), "disk full [GANTRY_ERR_IO]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_its_name_and_a_text),
        cmocka_unit_test(test_status_values_are_distinct_and_without_gaps),
        cmocka_unit_test(test_unknown_status_has_a_name_too),
        cmocka_unit_test(test_version_is_that_of_the_header),
        cmocka_unit_test(test_error_text_has_cause_and_status),
        cmocka_unit_test(test_error_text_has_its_place_at_level_debug),
        cmocka_unit_test(test_native_code_is_kept_and_replaced),
        cmocka_unit_test(test_a_long_cause_keeps_its_place),
        cmocka_unit_test(test_errors_belong_to_threads_and_can_be_handed_over),
        cmocka_unit_test(test_log_delivers_up_to_its_level),
        cmocka_unit_test(test_no_receiver_means_no_log),
        cmocka_unit_test(test_a_failure_is_logged_once_and_adopting_does_not_log),
        cmocka_unit_test(test_words_are_put_before_an_error_while_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
