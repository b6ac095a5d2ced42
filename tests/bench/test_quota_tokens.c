/* SPDX-License-Identifier: MIT */
/* The tokens of `gantry bench quota`: their step, and how many come back, with an NVML whose answers the test
 * sets. */
#include "bench/quota_tokens.h"
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <stdio.h>

static void (*use)(int of_process, int of_device);
static int (*started)(void);

static void test_the_step_is_that_of_the_formula(void **state)
{
    (void)state;
    struct quota_tokens t = {.limit = 50, .sms = 48, .threads = 2048, .whole = 48 * 2048 * 32};
    assert_int_equal(bench_quota_tokens_share(&t, 40), 18432);
    t.share = 1000;
    assert_int_equal(bench_quota_tokens_share(&t, 50), 1000);
    t.share = 20000;
    assert_int_equal(bench_quota_tokens_share(&t, 60), 20000 - 18432);
    t.share = 100;
    assert_int_equal(bench_quota_tokens_share(&t, 60), 0);
    t.share = t.whole - 5;
    assert_int_equal(bench_quota_tokens_share(&t, 0), t.whole);
}

static void test_the_tokens_follow_nvml(void **state)
{
    (void)state;
    const gantry_device_info info = {.total_sms = 132, .threads_per_sm = 2048};
    struct quota_tokens t;
    assert_true(bench_quota_tokens_open(&t, &info, 30));
    assert_int_equal(started(), 1);
    assert_int_equal(t.tokens, 132 * 2048 * 32);
    use(80, 10); /* above the limit: the amount given back stays 0 */
    bench_quota_tokens_take(&t, 1000);
    assert_int_equal(t.tokens, t.whole - 1000);
    bench_quota_tokens_tick(&t);
    assert_int_equal(t.use, 80);
    assert_int_equal(t.tokens, t.whole - 1000);
    bench_quota_tokens_take(&t, (uint64_t)t.whole);
    assert_int_equal(t.tokens, -1000);
    use(-1, 10); /* NVML reports nothing about the process: the device's utilisation counts */
    bench_quota_tokens_tick(&t);
    assert_int_equal(t.use, 10);
    assert_true(t.share > 1000);
    assert_int_equal(t.tokens, t.share - 1000);
    use(-1, -1);
    bench_quota_tokens_tick(&t); /* no process was seen running */
    assert_int_equal(t.use, -1);
    t.tokens = -1; /* a launch waits until it was asked again */
    t.next_ns = 0;
    bench_quota_tokens_take(&t, 1);
    assert_int_equal(t.tokens, t.share - 2);
    bench_quota_tokens_close(&t);
    assert_int_equal(started(), 0);
    bench_quota_tokens_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_step_is_that_of_the_formula),
        cmocka_unit_test(test_the_tokens_follow_nvml),
    };
    void *library = dlopen(FAKE_NVML, RTLD_NOW); /* by whose name it is found then */
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&use = dlsym(library, "fake_nvml_use");
    *(void **)&started = dlsym(library, "fake_nvml_started");
    return use != NULL && started != NULL ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
