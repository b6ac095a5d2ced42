/* SPDX-License-Identifier: MIT */
#include "tests/support/cmocka_c11.h"

#include "bench/harness.h"

#include <string.h>

/* The calls of a case's callbacks, in order: p/r/v are ours, P/R/V the yardstick's. */
struct trace {
    char calls[128];
    int run_fails_at; /* the n-th run of ours fails; 0: never */
    int wrong_at;     /* the n-th result of ours is wrong; 0: never */
    int runs, checks;
};

static void note(struct trace *trace, char call)
{
    size_t used = strlen(trace->calls);
    if (used + 1 < sizeof(trace->calls)) {
        trace->calls[used] = call;
    }
}

static bool prepare_ours(void *arg)
{
    note(arg, 'p');
    return true;
}

static bool run_ours(void *arg)
{
    struct trace *trace = arg;
    note(trace, 'r');
    return ++trace->runs != trace->run_fails_at;
}

static bool verify_ours(void *arg)
{
    struct trace *trace = arg;
    note(trace, 'v');
    return ++trace->checks != trace->wrong_at;
}

static bool prepare_theirs(void *arg)
{
    note(arg, 'P');
    return true;
}

static bool run_theirs(void *arg)
{
    note(arg, 'R');
    return true;
}

static bool verify_theirs(void *arg)
{
    note(arg, 'V');
    return true;
}

static struct bench_case make_case(struct trace *trace)
{
    return (struct bench_case){.name = "test/trace",
                               .item = "thing",
                               .items = 10,
                               .ours = {NULL, prepare_ours, run_ours, verify_ours},
                               .yardstick = {"plain", prepare_theirs, run_theirs, verify_theirs},
                               .arg = trace};
}

/* Run the case; `line` gets the printed text. */
static bool run(const struct bench_case *bench, bool json, uint32_t runs, struct bench_result *result,
                char *line, size_t room)
{
    memset(line, 0, room);
    FILE *out = fmemopen(line, room, "w");
    assert_non_null(out);
    struct bench_options options = {.out = out, .json = json, .runs = runs};
    bool verified = bench_run(&options, bench, result);
    fclose(out);
    return verified;
}

static void test_sides_alternate_after_one_warm_up_round(void **state)
{
    (void)state;
    struct trace trace = {.calls = ""};
    struct bench_case bench = make_case(&trace);
    char line[512];
    assert_true(run(&bench, true, 3, NULL, line, sizeof(line)));
    assert_string_equal(trace.calls, "prvPRVprvPRVprvPRVprvPRV");
}

static void test_json_line_has_every_key_in_order(void **state)
{
    (void)state;
    struct trace trace = {.calls = ""};
    struct bench_case bench = make_case(&trace);
    struct bench_result result;
    char line[512], expected[512];
    assert_true(run(&bench, true, 5, &result, line, sizeof(line)));
    assert_true(result.verified && result.min_ns > 0 && result.min_ns <= result.median_ns);
    assert_true(result.yardstick_min_ns > 0 && result.yardstick_min_ns <= result.yardstick_median_ns);
    snprintf(expected, sizeof(expected),
             "{\"name\":\"test/trace\",\"value\":%.6g,\"unit\":\"ns/thing\",\"yardstick\":\"plain\","
             "\"yardstick_value\":%.6g,\"ratio\":%.4g,\"verified\":true,\"emulated\":false}\n",
             result.min_ns, result.yardstick_min_ns, result.min_ns / result.yardstick_min_ns);
    assert_string_equal(line, expected);
}

static void test_without_a_yardstick_its_keys_are_null(void **state)
{
    (void)state;
    struct trace trace = {.calls = ""};
    struct bench_case bench = make_case(&trace);
    memset(&bench.yardstick, 0, sizeof(bench.yardstick));
    char line[512];
    assert_true(run(&bench, true, 2, NULL, line, sizeof(line)));
    assert_string_equal(trace.calls, "prvprvprv");
    assert_non_null(strstr(
        line,
        "\"yardstick\":null,\"yardstick_value\":null,\"ratio\":null,\"verified\":true,\"emulated\":false}"));
}

static void test_pairs_take_turns_and_state_their_error(void **state)
{
    (void)state;
    struct trace trace = {.calls = ""};
    struct bench_case bench = make_case(&trace);
    bench.pairs = 2;
    struct bench_result result;
    char line[512], expected[64];
    assert_true(run(&bench, true, 1, &result, line, sizeof(line)));
    assert_string_equal(trace.calls, "prvPRVPRVprvprvPRV");
    assert_true(result.ratio > 0 && result.ratio_error >= 0);
    snprintf(expected, sizeof(expected), "\"ratio\":%.4g,\"ratio_error\":%.2g,", result.ratio,
             result.ratio_error);
    assert_non_null(strstr(line, expected));
    assert_true(run(&bench, false, 20, &result, line, sizeof(line)));
    snprintf(expected, sizeof(expected), "ratio %.4f +- %.4f", result.ratio, result.ratio_error);
    assert_non_null(strstr(line, expected));
}

static void test_a_failed_run_is_not_verified(void **state)
{
    (void)state;
    struct trace trace = {.calls = "", .run_fails_at = 3};
    struct bench_case bench = make_case(&trace);
    struct bench_result result;
    char line[512];
    assert_false(run(&bench, true, 5, &result, line, sizeof(line)));
    assert_false(result.verified);
    assert_non_null(strstr(line, "\"verified\":false,\"emulated\":false}"));
    assert_string_equal(trace.calls, "prvPRVprvPRVpr");
}

static void test_a_wrong_result_is_not_verified(void **state)
{
    (void)state;
    struct trace trace = {.calls = "", .wrong_at = 1};
    struct bench_case bench = make_case(&trace);
    char line[512];
    assert_false(run(&bench, false, 5, NULL, line, sizeof(line)));
    assert_non_null(strstr(line, "test/trace"));
    assert_non_null(strstr(line, "failed"));
}

static void test_table_shows_both_sides_and_the_ratio(void **state)
{
    (void)state;
    struct trace trace = {.calls = ""};
    struct bench_case bench = make_case(&trace);
    char line[512];
    assert_true(run(&bench, false, 1, NULL, line, sizeof(line)));
    assert_non_null(strstr(line, "ns/thing"));
    assert_non_null(strstr(line, "plain"));
    assert_non_null(strstr(line, "ratio"));
}

static void test_an_emulated_device_has_no_times_for_people(void **state)
{
    (void)state;
    struct trace trace = {.calls = ""};
    struct bench_case bench = make_case(&trace);
    char line[512] = "";
    FILE *out = fmemopen(line, sizeof(line), "w");
    assert_non_null(out);
    struct bench_options options = {.out = out, .runs = 1, .emulated = true};
    assert_true(bench_run(&options, &bench, NULL));
    options.json = true;
    assert_true(bench_run(&options, &bench, NULL));
    fclose(out);
    static const char right[] = "test/trace                           right\n{\"name\":\"test/trace\",";
    assert_ptr_equal(strstr(line, right), line);
    assert_non_null(strstr(line, "\"verified\":true,\"emulated\":true}\n"));
}

static void expect_median(uint32_t count, double is, double low, double high)
{
    double sorted[100];
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = i + 1;
    }
    const struct bench_median median = bench_median_of(sorted, count);
    assert_true(median.is == is && median.low == low && median.high == high);
}

static void test_a_median_has_an_interval_by_ranks(void **state)
{
    (void)state;
    expect_median(1, 1, 1, 1);
    expect_median(2, 1.5, 1, 2);
    expect_median(5, 3, 1, 5);
    expect_median(9, 5, 2, 8);
    expect_median(100, 50.5, 41, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_median_has_an_interval_by_ranks),
        cmocka_unit_test(test_sides_alternate_after_one_warm_up_round),
        cmocka_unit_test(test_json_line_has_every_key_in_order),
        cmocka_unit_test(test_without_a_yardstick_its_keys_are_null),
        cmocka_unit_test(test_pairs_take_turns_and_state_their_error),
        cmocka_unit_test(test_a_failed_run_is_not_verified),
        cmocka_unit_test(test_a_wrong_result_is_not_verified),
        cmocka_unit_test(test_an_emulated_device_has_no_times_for_people),
        cmocka_unit_test(test_table_shows_both_sides_and_the_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
