/* SPDX-License-Identifier: MIT */
/* Wake hints and forecasts: until when a thread should stay awake, and how soon it may be needed. */
#include "base/wake_hint.h"
#include "tests/support/cmocka_c11.h"

static void test_a_hint_runs_out_at_its_time(void **state)
{
    (void)state;
    struct gy_wake_hint hint = {0};
    assert_false(gy_wake_hint_was_given(&hint));
    assert_int_equal(gy_wake_hint_left(&hint, 100), 0);
    gy_wake_hint_give(&hint, 130);
    assert_true(gy_wake_hint_was_given(&hint));
    assert_int_equal(gy_wake_hint_left(&hint, 100), 30);
    assert_int_equal(gy_wake_hint_left(&hint, 129), 1);
    assert_int_equal(gy_wake_hint_left(&hint, 130), 0);
    assert_int_equal(gy_wake_hint_left(&hint, UINT64_MAX), 0);
    assert_true(gy_wake_hint_was_given(&hint));
}

static void test_a_newer_hint_replaces_the_older_one(void **state)
{
    (void)state;
    struct gy_wake_hint hint = {0};
    gy_wake_hint_give(&hint, 500);
    gy_wake_hint_give(&hint, 200);
    assert_int_equal(gy_wake_hint_left(&hint, 100), 100);
    gy_wake_hint_give(&hint, 600);
    assert_int_equal(gy_wake_hint_left(&hint, 100), 500);
}

static void test_a_forecast_is_told_once(void **state)
{
    (void)state;
    struct gy_wake_forecast forecast = {0};
    assert_int_equal(gy_wake_forecast_ask(&forecast), 0);
    gy_wake_forecast_set(&forecast, 40);
    gy_wake_forecast_set(&forecast, 50);
    assert_int_equal(gy_wake_forecast_ask(&forecast), 50);
    assert_int_equal(gy_wake_forecast_ask(&forecast), 0);
    gy_wake_forecast_set(&forecast, 60);
    assert_int_equal(gy_wake_forecast_ask(&forecast), 60);
    gy_wake_forecast_set(&forecast, 60);
    gy_wake_forecast_set(&forecast, 0); /* from now on it comes late */
    assert_int_equal(gy_wake_forecast_ask(&forecast), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hint_runs_out_at_its_time),
        cmocka_unit_test(test_a_newer_hint_replaces_the_older_one),
        cmocka_unit_test(test_a_forecast_is_told_once),
    };
    return cmocka_run_group_tests_name("wake_hint", tests, NULL, NULL);
}
