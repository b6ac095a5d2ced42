/* SPDX-License-Identifier: MIT */
/* Busy time of the device is counted once, in whatever order it is reported. */
#include "partition/busy.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

static struct gy_busy busy;

static int begin_anew(void **state)
{
    (void)state;
    memset(&busy, 0, sizeof(busy));
    return 0;
}

static uint32_t add(double begin, double end)
{
    double more = gy_busy_add(&busy, begin, end);
    assert_true(gy_busy_is_valid(&busy));
    return (uint32_t)more;
}

static void test_each_moment_once(void **state)
{
    (void)state;
    assert_int_equal(add(10, 20), 10);
    assert_int_equal(add(10, 20), 0);
    assert_int_equal(add(12, 15), 0);
    assert_int_equal(add(15, 25), 5);
    assert_int_equal(add(5, 30), 10); /* on both sides */
    assert_int_equal(add(40, 40), 0);
    assert_int_equal(add(40, 39), 0);
    assert_int_equal(busy.count, 1);
}

/* An interval was launched later and ended earlier: nothing of it was reported. */
static void test_what_is_told_late_is_not_lost(void **state)
{
    (void)state;
    assert_int_equal(add(50, 60), 10);
    assert_int_equal(add(10, 20), 10);
    assert_int_equal(add(30, 40), 10);
    assert_int_equal(busy.count, 3);
    assert_int_equal(add(15, 55), 20); /* the two gaps */
    assert_int_equal(busy.count, 1);
    assert_int_equal(add(20, 30), 0);
    assert_int_equal(add(60, 70), 10); /* it touches the one that is there, and becomes one with it */
    assert_int_equal(busy.count, 1);
}

/* Random stretches: the counted time is that of a map of all moments. */
static void test_like_a_map(void **state)
{
    (void)state;
    enum { MOMENTS = 400, ROUNDS = 300 };
    uint32_t random = 12345;
    for (int round = 0; round < ROUNDS; round++) {
        bool told[MOMENTS] = {false};
        memset(&busy, 0, sizeof(busy));
        for (int i = 0; i < 60; i++) {
            random = random * 1664525u + 1013904223u;
            uint32_t begin = (random >> 8) % (MOMENTS - 20), expected = 0;
            uint32_t end = begin + (random >> 24) % 20;
            for (uint32_t k = begin; k < end; k++) {
                expected += !told[k];
                told[k] = true;
            }
            assert_int_equal(add(begin, end), expected);
        }
    }
}

/* It forgets the oldest stretches; time that would be reported in that range counts as reported. */
static void test_it_does_not_grow(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * GY_BUSY_STRETCHES; i++) {
        assert_int_equal(add(10.0 * i, 10.0 * i + 5), 5);
    }
    assert_int_equal(busy.count, GY_BUSY_STRETCHES);
    assert_int_equal(add(0, 100), 0);
    uint32_t newest = 10 * (3 * GY_BUSY_STRETCHES - 1);
    assert_int_equal(add(newest - 5, newest), 5);
}

static void test_what_is_wrong_is_seen(void **state)
{
    (void)state;
    (void)add(10, 20);
    (void)add(30, 40);
    busy.stretches[0].end = 35;
    assert_false(gy_busy_is_valid(&busy));
    busy.stretches[0].end = 20;
    busy.has_floor = true;
    busy.floor = 11;
    assert_false(gy_busy_is_valid(&busy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_moment_once, begin_anew),
        cmocka_unit_test_setup(test_what_is_told_late_is_not_lost, begin_anew),
        cmocka_unit_test_setup(test_like_a_map, begin_anew),
        cmocka_unit_test_setup(test_it_does_not_grow, begin_anew),
        cmocka_unit_test_setup(test_what_is_wrong_is_seen, begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
