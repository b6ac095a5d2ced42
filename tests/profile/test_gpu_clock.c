/* SPDX-License-Identifier: MIT */
/* The arithmetic of host and GPU clocks, on made-up clocks: GPU time runs `ppm` fast. */
#include "tests/support/cmocka_c11.h"

#include "profile/gpu_clock.h"

#define START 1000000000000u
#define FAR UINT64_C(123456789000000000)

static uint64_t gpu_at(uint64_t host_ns, int64_t ppm)
{
    int64_t since = (int64_t)(host_ns - START);
    return FAR + (uint64_t)(since + since / 1000000 * ppm);
}

/* Make eight exchanges around host time `host_ns`, whose ways take `there` and `back`. */
static struct gy_gpu_clock met_at(uint64_t host_ns, int64_t ppm, uint64_t there, uint64_t back)
{
    struct gy_gpu_exchange exchanges[8];
    struct gy_gpu_clock clock = {0};
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t at = host_ns + i * 1000;
        exchanges[i] = (struct gy_gpu_exchange){.before_ns = at - there - 10 * i,
                                                .gpu_ns = gpu_at(at, ppm) / 32 * 32,
                                                .after_ns = at + back + 10 * (7 - i)};
    }
    assert_true(gy_gpu_clock_meet(exchanges, 8, 32, &clock));
    return clock;
}

static void assert_holds(const struct gy_gpu_clock *clock, uint64_t host_ns, int64_t ppm)
{
    int64_t error = (int64_t)(gy_gpu_clock_host(clock, gpu_at(host_ns, ppm)) - host_ns);
    assert_true((uint64_t)(error < 0 ? -error : error) <= gy_gpu_clock_bound(clock, gpu_at(host_ns, ppm)));
}

static void test_the_tightest_of_each_side_counts(void **state)
{
    (void)state;
    struct gy_gpu_clock clock = met_at(START, 0, 400, 600);
    assert_in_range(clock.bound_ns, 500, 550); /* half of both ways, and of a step or two */
    assert_holds(&clock, START, 0);
    assert_holds(&clock, START + 1000000, 90);
}

static void test_a_question_bounds_as_well_as_its_answer(void **state)
{
    (void)state;
    struct gy_gpu_clock clock;
    struct gy_gpu_exchange exchange = {.before_ns = 1000, .gpu_ns = 6500, .after_ns = 2100}; /* d is 5000 */
    assert_true(gy_gpu_clock_meet(&exchange, 1, 0, &clock));
    assert_int_equal(clock.bound_ns, 550 + 1);
    exchange.asked_ns = 5800; /* the difference shown from 1000 to 1100 */
    exchange.until_ns = 1100;
    assert_true(gy_gpu_clock_meet(&exchange, 1, 0, &clock));
    assert_int_equal(clock.bound_ns, 400 + 1);
    assert_in_range(clock.gpu_ns - clock.host_ns, 4700, 5500);
    exchange.asked_ns = 4000; /* this is too long ago to say more */
    assert_true(gy_gpu_clock_meet(&exchange, 1, 0, &clock));
    assert_int_equal(clock.bound_ns, 550 + 1);
}

static void test_exchanges_that_contradict_each_other_say_nothing(void **state)
{
    (void)state;
    struct gy_gpu_clock clock;
    struct gy_gpu_exchange exchanges[] = {{.before_ns = 100, .gpu_ns = 1000, .after_ns = 200},
                                          {.before_ns = 300, .gpu_ns = 1000, .after_ns = 400}};
    assert_false(gy_gpu_clock_meet(exchanges, 2, 1, &clock));
    assert_false(gy_gpu_clock_meet(exchanges, 0, 1, &clock));
    assert_true(gy_gpu_clock_meet(exchanges, 1, 1, &clock));
}

static void test_a_rate_is_learned_when_it_is_better_than_assumed(void **state)
{
    (void)state;
    struct gy_gpu_clock first = met_at(START, 20, 400, 600), soon = met_at(START + 1000000, 20, 400, 600),
                        late = met_at(START + 1000000000, 20, 400, 600);
    double assumed = soon.drift;
    gy_gpu_clock_compare(&soon, &first);
    assert_true(soon.drift == assumed && soon.rate == 1);
    gy_gpu_clock_compare(&late, &first);
    assert_true(late.drift < 2e-6);
    assert_true(late.rate < 1 - 17e-6 && late.rate > 1 - 23e-6);
    assert_holds(&late, START + 2000000000, 20);
    assert_true(gy_gpu_clock_age(&late) > 10 * gy_gpu_clock_age(&first));
    assert_int_equal(gy_gpu_clock_age(&(struct gy_gpu_clock){.rate = 0}), 0); /* never read */
}

static void test_between_two_points_no_rate_is_needed(void **state)
{
    (void)state;
    struct gy_gpu_clock first = met_at(START, 80, 400, 600), second = met_at(START + 5000000, 80, 300, 500);
    assert_true(gy_gpu_clock_follow(&second, &first));
    for (uint64_t ns = 0; ns <= 5000000; ns += 100000) {
        assert_holds(&second, START + ns, 80);
        assert_true(gy_gpu_clock_bound(&second, gpu_at(START + ns, 80)) <= first.bound_ns + 2);
    }
    /* Outside, it is as large as the documentation says, and times go on growing across the points. */
    assert_true(gy_gpu_clock_bound(&second, gpu_at(START + 25000000, 80)) > second.bound_ns + 1500);
    assert_true(gy_gpu_clock_bound(&second, gpu_at(START - 20000000, 80)) > second.before_bound_ns + 1500);
    for (uint64_t edge = 0; edge < 2; edge++) {
        uint64_t gpu = edge == 0 ? second.before_gpu_ns : second.gpu_ns;
        assert_true(gy_gpu_clock_host(&second, gpu - 100) < gy_gpu_clock_host(&second, gpu));
        assert_true(gy_gpu_clock_host(&second, gpu) < gy_gpu_clock_host(&second, gpu + 100));
    }
    assert_holds(&second, START + 25000000, 80);
    assert_holds(&second, START - 20000000, 80);
}

static void test_a_tight_point_helps_a_loose_one(void **state)
{
    (void)state;
    struct gy_gpu_clock tight = met_at(START, 0, 100, 100), loose = met_at(START + 1000000, 0, 2000, 5000);
    uint64_t before = loose.bound_ns;
    assert_true(gy_gpu_clock_follow(&loose, &tight));
    assert_true(loose.bound_ns < before / 5); /* 1 ms at 100 ppm on top of the tight one's */
    assert_holds(&loose, START + 500000, 0);
    assert_holds(&loose, START + 1000000, 0);
}

static void test_points_that_no_rate_joins_are_refused(void **state)
{
    (void)state;
    struct gy_gpu_clock first = met_at(START, 0, 400, 600), second = met_at(START + 10000000, 400, 400, 600);
    struct gy_gpu_clock same = second;
    assert_false(gy_gpu_clock_follow(&second, &first));
    assert_memory_equal(&same, &second, sizeof(same));
    assert_false(gy_gpu_clock_follow(&first, &second)); /* and not backwards either */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tightest_of_each_side_counts),
        cmocka_unit_test(test_a_question_bounds_as_well_as_its_answer),
        cmocka_unit_test(test_exchanges_that_contradict_each_other_say_nothing),
        cmocka_unit_test(test_a_rate_is_learned_when_it_is_better_than_assumed),
        cmocka_unit_test(test_between_two_points_no_rate_is_needed),
        cmocka_unit_test(test_a_tight_point_helps_a_loose_one),
        cmocka_unit_test(test_points_that_no_rate_joins_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
