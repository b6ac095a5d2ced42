/* SPDX-License-Identifier: MIT */
/* The process's limit on GPU time: the sum that several accounts of one device may use, with a clock that
 * the test moves. */
#include "partition/budget.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include <string.h>

#define MS 1000000u
#define GROUP (0.5 * MS)

static struct gy_driver driver, other_driver;

static struct gy_context context_of(const struct gy_driver *of, int ordinal)
{
    struct gy_context context;
    memset(&context, 0, sizeof(context));
    context.driver = of;
    context.info.ordinal = ordinal;
    return context;
}

static struct gy_budget *join(const struct gy_driver *of, int ordinal, double rate)
{
    struct gy_context context = context_of(of, ordinal);
    struct gy_budget *budget;
    assert_ok(gy_budget_join(&context, rate, 4 * MS, 0, &budget));
    return budget;
}

static void test_a_device_has_one(void **state)
{
    (void)state;
    struct gy_budget *first = join(&driver, 0, 0.3), *second = join(&driver, 0, 0.3);
    struct gy_budget *device = join(&driver, 1, 0.3), *emulated = join(&other_driver, 0, 0.3);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, device);
    assert_ptr_not_equal(first, emulated);
    assert_int_equal(gy_budget_count(), 3);
    gy_budget_leave(first);
    assert_int_equal(gy_budget_count(), 3);
    gy_budget_leave(device);
    gy_budget_leave(second);
    gy_budget_leave(emulated);
    gy_budget_leave(NULL);
    assert_int_equal(gy_budget_count(), 0);
}

/* Tenants that always want more take turns: the pieces of one take 1 ms, those of the other 3 ms. */
static void test_all_together_keep_the_rate(void **state)
{
    (void)state;
    const double pieces[2] = {1.0 * MS, 3.0 * MS};
    struct gy_budget *budgets[2] = {join(&driver, 0, 0.3), join(&driver, 0, 0.3)};
    double used[2] = {0, 0};
    uint64_t now = 0;
    for (int i = 0; i < 2; i++) {
        gy_budget_set_busy(budgets[i], true, now);
    }
    while (now < 2000 * (uint64_t)MS) {
        bool any = false;
        for (int i = 0; i < 2; i++) {
            if (gy_budget_admits(budgets[i], GROUP, now)) {
                gy_budget_begin(budgets[i], pieces[i]);
                now += (uint64_t)pieces[i];
                gy_budget_end(budgets[i], pieces[i], pieces[i], now);
                used[i] += pieces[i];
                any = true;
            }
        }
        uint64_t ready = gy_budget_ready_ns(budgets[0]);
        now = any || ready <= now ? now : ready;
    }
    double most = 0.3 * (double)now, sum = used[0] + used[1];
    assert_true(sum <= most + 4 * MS + 3 * 3 * MS && sum >= most - 3 * 3 * MS);
    assert_true(used[0] > 0 && used[1] > 0);
    for (int i = 0; i < 2; i++) {
        gy_budget_set_busy(budgets[i], false, now);
        gy_budget_leave(budgets[i]);
    }
}

/* While one tenant is busy the idleness of the others caps nothing; when all are idle a burst is left. */
static void test_idle_ones_save_a_burst_together(void **state)
{
    (void)state;
    struct gy_budget *a = join(&driver, 0, 0.5), *b = join(&driver, 0, 0.5);
    gy_budget_set_busy(a, true, 0);
    gy_budget_set_busy(b, true, 0);
    gy_budget_begin(a, 10.0 * MS);
    gy_budget_end(a, 10.0 * MS, 10.0 * MS, 0);
    assert_false(gy_budget_admits(a, GROUP, 0));
    gy_budget_set_busy(b, false, 0);
    assert_true(gy_budget_admits(a, GROUP, 60 * (uint64_t)MS)); /* 24 ms have been saved */
    gy_budget_begin(a, 20.0 * MS);
    assert_true(gy_budget_admits(a, GROUP, 60 * (uint64_t)MS));
    gy_budget_end(a, 20.0 * MS, 20.0 * MS, 60 * (uint64_t)MS);
    gy_budget_set_busy(a, false, 60 * (uint64_t)MS);
    gy_budget_set_busy(a, true, 1000 * (uint64_t)MS);
    gy_budget_begin(a, 4.0 * MS); /* everything that was saved */
    assert_false(gy_budget_admits(a, GROUP, 1000 * (uint64_t)MS));
    gy_budget_end(a, 4.0 * MS, 0, 1000 * (uint64_t)MS);
    gy_budget_set_busy(a, false, 1000 * (uint64_t)MS);
    gy_budget_leave(a);
    gy_budget_leave(b);
}

/* Work that another tenant has in flight may end sooner than predicted: no tenant sleeps because of its
 * prediction. */
static void test_others_work_is_looked_at_again(void **state)
{
    (void)state;
    struct gy_budget *a = join(&driver, 0, 0.1), *b = join(&driver, 0, 0.1);
    gy_budget_set_busy(a, true, 0);
    gy_budget_begin(a, 100.0 * MS);
    assert_false(gy_budget_admits(b, GROUP, 0));
    assert_in_range(gy_budget_ready_ns(b), 1, 5 * MS);
    gy_budget_end(a, 100.0 * MS, 1.0 * MS, 0);
    assert_true(gy_budget_admits(b, GROUP, 0));
    gy_budget_set_busy(a, false, 0);
    gy_budget_leave(a);
    gy_budget_leave(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_has_one),
        cmocka_unit_test(test_all_together_keep_the_rate),
        cmocka_unit_test(test_idle_ones_save_a_burst_together),
        cmocka_unit_test(test_others_work_is_looked_at_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
