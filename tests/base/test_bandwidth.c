/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "base/bandwidth.h"
#include "base/span.h"
#include "base/thread.h"

#include <sched.h>
#include <string.h>

enum { SECOND_NS = 1000000000 };

static gantry_bandwidth_stats stats_now(void)
{
    gantry_bandwidth_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_bandwidth_get_stats(&stats));
    return stats;
}

static void configure(uint64_t most_held_ns, uint32_t run_percent)
{
    gantry_bandwidth_settings settings = GANTRY_BANDWIDTH_SETTINGS_INIT;
    settings.most_held_ns = most_held_ns;
    settings.run_percent = run_percent;
    assert_ok(gantry_bandwidth_configure(&settings));
}

static int defaults(void **state)
{
    (void)state;
    assert_ok(gantry_bandwidth_configure(NULL));
    return 0;
}

static void test_yield_does_nothing_while_the_gate_is_down(void **state)
{
    (void)state;
    gantry_bandwidth_stats before = stats_now();
    for (int i = 0; i < 1000; i++) {
        gantry_bandwidth_yield();
        gantry_bandwidth_wait();
    }
    gantry_bandwidth_stats after = stats_now();
    assert_true(after.holds == before.holds && after.passes == before.passes);
}

struct yielder {
    gy_thread thread;
    uint32_t seen; /* the state of the gate when the yield has returned */
};

static void yield_once(void *arg)
{
    struct yielder *yielder = arg;
    gantry_bandwidth_yield();
    yielder->seen = __atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_SEQ_CST);
}

static void test_a_yield_sleeps_until_all_have_lowered(void **state)
{
    (void)state;
    configure(SECOND_NS, 1);
    gantry_bandwidth_stats before = stats_now();
    gantry_bandwidth_gate_raise();
    gantry_bandwidth_gate_raise();
    struct yielder yielder = {.seen = 99};
    assert_ok(gy_thread_start(&yielder.thread, "yielder", yield_once, &yielder));
    while (gy_bandwidth_sleepers() == 0 && stats_now().holds == before.holds) {
        sched_yield();
    }
    assert_ok(gantry_bandwidth_gate_lower());
    assert_int_equal(gantry_bandwidth_raised, 1);
    assert_ok(gantry_bandwidth_gate_lower());
    gy_thread_join(&yielder.thread);
    gantry_bandwidth_stats after = stats_now();
    /* If the machine stood still for a second, the bound may have ended the wait. */
    assert_true(yielder.seen == 0 || after.bounded > before.bounded);
    assert_true(after.holds == before.holds + 1);
    assert_true(after.held_ns > before.held_ns && after.most_held_ns > 0);
    assert_true(after.raises == before.raises + 2);
    assert_true(after.raised_ns > before.raised_ns);
}

/* Without the bound this would not return. */
static void yield_while_it_stays_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        gantry_bandwidth_yield();
    }
}

static void test_nobody_starves_while_the_gate_stays_up(void **state)
{
    (void)state;
    configure(1000, 50);
    gantry_bandwidth_stats before = stats_now();
    gantry_bandwidth_gate_raise();
    gy_thread threads[3];
    for (int i = 0; i < 3; i++) {
        assert_ok(gy_thread_start(&threads[i], "yielder", yield_while_it_stays_up, NULL));
    }
    for (int i = 0; i < 3; i++) {
        gy_thread_join(&threads[i]);
    }
    assert_ok(gantry_bandwidth_gate_lower());
    gantry_bandwidth_stats after = stats_now();
    assert_true(after.holds - before.holds >= 3);
    assert_true(after.bounded - before.bounded == after.holds - before.holds);
    assert_true(after.holds - before.holds + after.passes - before.passes == 3000);
}

/* The defaults promise that a loop keeps nine tenths of any second, however long the gate is up. */
static void test_by_default_a_loop_keeps_nearly_all_of_its_time(void **state)
{
    (void)state;
    configure(0, 0);
    gantry_bandwidth_stats before = stats_now();
    gantry_bandwidth_gate_raise();
    struct yielder yielder = {.seen = 0};
    assert_ok(gy_thread_start(&yielder.thread, "yielder", yield_while_it_stays_up, NULL));
    gy_thread_join(&yielder.thread);
    assert_ok(gantry_bandwidth_gate_lower());
    gantry_bandwidth_stats after = stats_now();
    assert_true(after.bounded > before.bounded);
    assert_true(after.passes >
                before.passes); /* 1000 yields at once: a loop that has slept for 0.1 ms goes on for 0.9 ms */
}

static void test_the_yielding_way_never_sleeps(void **state)
{
    (void)state;
    gantry_bandwidth_settings settings = GANTRY_BANDWIDTH_SETTINGS_INIT;
    settings.most_held_ns = SECOND_NS;
    settings.run_percent = 1;
    settings.way = GANTRY_BANDWIDTH_YIELD;
    assert_ok(gantry_bandwidth_configure(&settings));
    gantry_bandwidth_stats before = stats_now();
    gantry_bandwidth_gate_raise();
    gy_thread thread;
    assert_ok(
        /* if it slept, it would take 1000 s */
        gy_thread_start(&thread, "yielder", yield_while_it_stays_up, NULL));
    gy_thread_join(&thread);
    assert_int_equal(gy_bandwidth_sleepers(), 0);
    assert_ok(gantry_bandwidth_gate_lower());
    gantry_bandwidth_stats after = stats_now();
    assert_true(after.holds == before.holds + 1000 && after.bounded == before.bounded + 1000);
    assert_true(after.passes == before.passes);
}

static void test_who_has_raised_it_is_not_held(void **state)
{
    (void)state;
    configure(SECOND_NS, 1);
    gantry_bandwidth_stats before = stats_now();
    gantry_bandwidth_gate_raise();
    gantry_bandwidth_yield();
    gantry_bandwidth_gate_raise();
    assert_ok(gantry_bandwidth_gate_lower());
    gantry_bandwidth_yield();
    assert_ok(gantry_bandwidth_gate_lower());
    assert_true(stats_now().holds == before.holds);
}

static void lower_of_another(void *arg)
{
    *(gantry_status *)arg = gantry_bandwidth_gate_lower();
}

static void test_only_the_thread_that_has_raised_it_lowers_it(void **state)
{
    (void)state;
    assert_int_equal(gantry_bandwidth_gate_lower(), GANTRY_ERR_STATE);
    gantry_bandwidth_gate_raise();
    gantry_status status = GANTRY_OK;
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "other", lower_of_another, &status));
    gy_thread_join(&thread);
    assert_int_equal(status, GANTRY_ERR_STATE);
    assert_int_equal(gantry_bandwidth_raised, 1);
    assert_ok(gantry_bandwidth_gate_lower());
    assert_int_equal(gantry_bandwidth_raised, 0);
}

/* A thread is held as long as allowed whenever it looks: the promise holds from any moment on. */
static void check_promise(uint64_t bound, uint32_t percent)
{
    enum { LOOKS = 400 };
    /* when a run began, and how long it had been held until then */
    static uint64_t at[LOOKS + 1], held[LOOKS + 1];
    struct gy_bandwidth_account account = {0};
    uint64_t now = 12345, sum = 0;
    uint64_t random = 7;
    at[0] = now;
    for (int i = 1; i <= LOOKS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        now += (random >> 32) % (2 * bound);
        uint64_t allowed = gy_bandwidth_allowance(&account, now, bound, percent);
        assert_true(allowed <= bound);
        now += allowed;
        account.debt_ns += allowed;
        account.since_ns = now;
        sum += allowed;
        at[i] = now;
        held[i] = sum;
        for (int from = 0; from < i; from++) {
            uint64_t length = now - at[from];
            assert_true(sum - held[from] <= bound + length * (100 - percent) / 100 + LOOKS);
        }
    }
    assert_true(sum > bound); /* it was held more than once */
}

static void test_the_promise_holds_over_any_span_of_time(void **state)
{
    (void)state;
    static const uint32_t percents[] = {1, 20, 50, 99};
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        check_promise(1000000, percents[i]);
        check_promise(SECOND_NS, percents[i]);
    }
}

static void test_settings_out_of_range_are_refused(void **state)
{
    (void)state;
    gantry_bandwidth_settings settings = GANTRY_BANDWIDTH_SETTINGS_INIT;
    settings.run_percent = 100;
    assert_int_equal(gantry_bandwidth_configure(&settings), GANTRY_ERR_INVALID_ARGUMENT);
    settings.run_percent = 0;
    settings.most_held_ns = SECOND_NS + 1ull;
    assert_int_equal(gantry_bandwidth_configure(&settings), GANTRY_ERR_INVALID_ARGUMENT);
    settings.most_held_ns = 0;
    settings.way = GANTRY_BANDWIDTH_YIELD + 1;
    assert_int_equal(gantry_bandwidth_configure(&settings), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_bandwidth_get_stats(NULL), GANTRY_ERR_INVALID_ARGUMENT);
}

struct recorder {
    struct gy_span_sink sink;
    uint64_t counts[4];
    int count;
};

static void ignore_span(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                        uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    (void)self, (void)category, (void)name, (void)begin_ns, (void)end_ns, (void)id;
}

static void record_count(struct gy_span_sink *self, const char *name, uint64_t value)
{
    struct recorder *recorder = (struct recorder *)self;
    assert_string_equal(name, "Raises of the bandwidth gate");
    recorder->counts[recorder->count++] = value;
}

static void test_recordings_show_the_gate(void **state)
{
    (void)state;
    struct recorder recorder = {.sink = {ignore_span, record_count}};
    gy_span_set_sink(&recorder.sink);
    gantry_bandwidth_gate_raise();
    gantry_bandwidth_gate_raise();
    assert_ok(gantry_bandwidth_gate_lower());
    assert_ok(gantry_bandwidth_gate_lower());
    gy_span_set_sink(NULL);
    assert_int_equal(recorder.count, 4);
    static const uint64_t expected[] = {1, 2, 1, 0};
    assert_memory_equal(recorder.counts, expected, sizeof(expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_yield_does_nothing_while_the_gate_is_down, defaults),
        cmocka_unit_test_setup(test_a_yield_sleeps_until_all_have_lowered, defaults),
        cmocka_unit_test_setup(test_nobody_starves_while_the_gate_stays_up, defaults),
        cmocka_unit_test_setup(test_by_default_a_loop_keeps_nearly_all_of_its_time, defaults),
        cmocka_unit_test_setup(test_the_yielding_way_never_sleeps, defaults),
        cmocka_unit_test_setup(test_who_has_raised_it_is_not_held, defaults),
        cmocka_unit_test_setup(test_only_the_thread_that_has_raised_it_lowers_it, defaults),
        cmocka_unit_test_setup(test_the_promise_holds_over_any_span_of_time, defaults),
        cmocka_unit_test_setup(test_settings_out_of_range_are_refused, defaults),
        cmocka_unit_test(test_recordings_show_the_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
