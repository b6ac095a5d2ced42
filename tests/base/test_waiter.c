/* SPDX-License-Identifier: MIT */
/* The waiter, with a clock that the test moves: what it says in each mode, and when it reads the clock; and
 * that a thread which waits as its page says misses no wake-up. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include "base/thread.h"
#include "base/waiter.h"

#include <stdatomic.h>

enum { ROUNDS = 3000, BEFORE = GY_WAITER_CLOCK_LOOKS - 1 };

static uint64_t now_ns, readings;

static uint64_t read_clock(void)
{
    readings++;
    return now_ns;
}

static int set_clock(void **state)
{
    (void)state;
    now_ns = 1000000;
    readings = 0;
    gy_waiter_test_clock = read_clock;
    return 0;
}

static int unset_clock(void **state)
{
    (void)state;
    gy_waiter_test_clock = NULL;
    return 0;
}

/* Make so many pauses, which must all give the same answer. */
static void pause_times(struct gy_waiter *w, uint32_t times, enum gy_waiter_next next)
{
    for (uint32_t i = 0; i < times; i++) {
        assert_int_equal(gy_waiter_pause(w), next);
    }
}

static void test_spinning_and_yielding_never_sleep(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_SPIN, GANTRY_WAIT_YIELD};
    for (int i = 0; i < 2; i++) {
        struct gy_waiter w = gy_waiter_begin(modes[i], 1000, 0);
        for (int j = 0; j < 1000; j++) {
            now_ns += 1000000;
            assert_int_equal(gy_waiter_pause(&w), GY_WAITER_LOOK);
        }
    }
    assert_int_equal(readings, 0); /* there is no deadline */
}

static void test_blocking_sleeps_at_once_and_every_time(void **state)
{
    (void)state;
    struct gy_waiter w = gy_waiter_begin(GANTRY_WAIT_BLOCK, 1000000, 0);
    pause_times(&w, 10, GY_WAITER_SLEEP);
    assert_int_equal(readings, 0);
}

static void test_a_budget_is_spun_away_once(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (int i = 0; i < 2; i++) {
        struct gy_waiter w = gy_waiter_begin(modes[i], 50000, 0);
        readings = 0;
        pause_times(&w, BEFORE, GY_WAITER_LOOK);
        assert_int_equal(readings, 0); /* a wait that is over soon reads no clock */
        pause_times(&w, 1, GY_WAITER_LOOK);
        assert_int_equal(readings, 1); /* the budget counts from here */
        now_ns += 49999;
        pause_times(&w, GY_WAITER_CLOCK_LOOKS, GY_WAITER_LOOK);
        pause_times(&w, BEFORE, GY_WAITER_LOOK);
        now_ns += 1;
        pause_times(&w, 1,
                    GY_WAITER_LOOK); /* after the clock was read the condition is looked at once more */
        pause_times(&w, 10, GY_WAITER_SLEEP);
        assert_int_equal(readings, 3);
    }
}

static void test_no_budget_is_none(void **state)
{
    (void)state;
    struct gy_waiter w = gy_waiter_begin(GANTRY_WAIT_HYBRID, 0, 0);
    pause_times(&w, 3, GY_WAITER_SLEEP);
}

static void test_a_deadline_ends_every_wait(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_SPIN, GANTRY_WAIT_YIELD, GANTRY_WAIT_BLOCK,
                                      GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (int i = 0; i < 5; i++) {
        enum gy_waiter_next before = modes[i] == GANTRY_WAIT_BLOCK ? GY_WAITER_SLEEP : GY_WAITER_LOOK;
        uint32_t looks = 0;
        struct gy_waiter w = gy_waiter_begin(modes[i], 1000000, now_ns + 500);
        pause_times(&w, GY_WAITER_CLOCK_LOOKS, before);
        now_ns += 499;
        pause_times(&w, GY_WAITER_CLOCK_LOOKS, before);
        now_ns += 1;
        while (gy_waiter_pause(&w) != GY_WAITER_GIVE_UP) {
            assert_in_range(++looks, 1, GY_WAITER_CLOCK_LOOKS);
        }
    }
}

/* A deadline is noticed before the sleep, not after it. */
static void test_a_deadline_that_is_over_is_not_slept_for(void **state)
{
    (void)state;
    struct gy_waiter w = gy_waiter_begin(GANTRY_WAIT_HYBRID, 100, now_ns + 1000);
    pause_times(&w, GY_WAITER_CLOCK_LOOKS, GY_WAITER_LOOK);
    now_ns += 999;
    pause_times(&w, GY_WAITER_CLOCK_LOOKS, GY_WAITER_LOOK);
    pause_times(&w, 1, GY_WAITER_SLEEP);
    now_ns += 1;
    pause_times(&w, 1, GY_WAITER_GIVE_UP);
}

/* The pauses between two looks are one, two, three … up to the number that was asked for; the clock goes by
 * pauses. */
static void test_dear_looks_come_after_more_and_more_pauses(void **state)
{
    (void)state;
    struct gy_waiter w = gy_waiter_begin_dear(GANTRY_WAIT_HYBRID, 50000, 0, 4);
    uint32_t expected = 0;
    for (uint32_t i = 1; i <= 20; i++) {
        expected += i < 4 ? i : 4;
        assert_int_equal(gy_waiter_pause(&w), GY_WAITER_LOOK);
        assert_int_equal(w.pauses, expected);
        assert_int_equal(readings, expected / GY_WAITER_CLOCK_LOOKS);
    }
    w = gy_waiter_begin_dear(GANTRY_WAIT_SPIN, 50000, 0, 4);
    pause_times(&w, 10, GY_WAITER_LOOK);
    assert_int_equal(w.pauses, 10);
}

static void test_a_hint_prolongs_the_looking(void **state)
{
    (void)state;
    struct gy_waiter w = gy_waiter_begin(GANTRY_WAIT_HYBRID, 0, 0);
    pause_times(&w, 1, GY_WAITER_SLEEP);
    gy_waiter_prolong(&w, now_ns + 1000);
    now_ns += 999;
    pause_times(&w, GY_WAITER_CLOCK_LOOKS, GY_WAITER_LOOK);
    now_ns += 1;
    pause_times(&w, GY_WAITER_CLOCK_LOOKS, GY_WAITER_LOOK);
    pause_times(&w, 2, GY_WAITER_SLEEP);
    w = gy_waiter_begin(GANTRY_WAIT_BLOCK, 0, 0);
    gy_waiter_prolong(&w, now_ns + 1000);
    pause_times(&w, 2, GY_WAITER_SLEEP); /* this is never asked for */
}

static void test_a_budget_is_learned(void **state)
{
    (void)state;
    uint64_t budget = 0;
    budget = gy_waiter_learn(budget, 60000, GY_WAITER_HYBRID_NS);
    assert_int_equal(budget, 120000); /* twice as long, at once */
    assert_int_equal(gy_waiter_learn(budget, 20000, GY_WAITER_HYBRID_NS),
                     110000); /* an eighth of the way down */
    /* it does not go further */
    assert_int_equal(gy_waiter_learn(budget, 180000, GY_WAITER_HYBRID_NS), GY_WAITER_HYBRID_NS);
    /* this wait could not have been bridged */
    assert_int_equal(gy_waiter_learn(budget, 5000000, GY_WAITER_HYBRID_NS), 60000);
    assert_int_equal(gy_waiter_learn(0, 5000000, GY_WAITER_HYBRID_NS), GY_WAITER_LEAST_NS);
}

/* ---- a thread that waits as the page says ---------------------------------------------------- */

struct ball {
    _Atomic(uint32_t) thrown, caught;
    _Atomic(bool) asleep;
    gy_mutex lock;
    gy_cond wake;
    gantry_wait_mode mode;
};

static void catch_all(void *arg)
{
    struct ball *b = arg;
    for (uint32_t n = 1; n <= ROUNDS; n++) {
        struct gy_waiter w = gy_waiter_begin(b->mode, 2000, 0);
        while (atomic_load(&b->thrown) < n) {
            if (gy_waiter_pause(&w) == GY_WAITER_SLEEP) {
                gy_mutex_lock(&b->lock);
                atomic_store(&b->asleep, true);
                while (atomic_load(&b->thrown) < n) {
                    gy_cond_wait(&b->wake, &b->lock);
                }
                atomic_store(&b->asleep, false);
                gy_mutex_unlock(&b->lock);
            }
        }
        atomic_store(&b->caught, n);
    }
}

static void test_no_wake_up_is_lost(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_YIELD};
    for (int i = 0; i < 3; i++) {
        struct ball b = {.mode = modes[i]};
        gy_thread thread;
        assert_int_equal(gy_guard_init(&b.lock, GY_RANK_LEAF, &b.wake), GANTRY_OK);
        assert_int_equal(gy_thread_start(&thread, "catcher", catch_all, &b), GANTRY_OK);
        for (uint32_t n = 1; n <= ROUNDS; n++) {
            atomic_store(&b.thrown, n);
            if (atomic_load(&b.asleep)) {
                gy_mutex_lock(&b.lock);
                gy_cond_signal(&b.wake);
                gy_mutex_unlock(&b.lock);
            }
            struct gy_waiter w = gy_waiter_begin(GANTRY_WAIT_YIELD, 0, 0);
            deadline_begin("a ball that was thrown");
            while (atomic_load(&b.caught) < n) {
                (void)gy_waiter_pause(&w);
            }
            deadline_end();
        }
        gy_thread_join(&thread);
        gy_guard_fini(&b.lock, &b.wake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_spinning_and_yielding_never_sleep, set_clock, unset_clock),
        cmocka_unit_test_setup_teardown(test_blocking_sleeps_at_once_and_every_time, set_clock, unset_clock),
        cmocka_unit_test_setup_teardown(test_a_budget_is_spun_away_once, set_clock, unset_clock),
        cmocka_unit_test_setup_teardown(test_no_budget_is_none, set_clock, unset_clock),
        cmocka_unit_test_setup_teardown(test_a_deadline_ends_every_wait, set_clock, unset_clock),
        cmocka_unit_test_setup_teardown(test_a_deadline_that_is_over_is_not_slept_for, set_clock,
                                        unset_clock),
        cmocka_unit_test_setup_teardown(test_dear_looks_come_after_more_and_more_pauses, set_clock,
                                        unset_clock),
        cmocka_unit_test_setup_teardown(test_a_hint_prolongs_the_looking, set_clock, unset_clock),
        cmocka_unit_test(test_a_budget_is_learned),
        cmocka_unit_test(test_no_wake_up_is_lost),
    };
    return cmocka_run_group_tests_name("waiter", tests, NULL, NULL);
}
