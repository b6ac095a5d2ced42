/* SPDX-License-Identifier: MIT */
/* Two tenants on the emulated device's clock: each gets what it was promised, to one percentage point. */
#include "samples/two_tenants/tenants.h"
#include "tests/partition/share_scene.h"
#include "tests/support/cmocka_c11.h"

#include <math.h>

static void check(enum tenants_way way, double first, double second)
{
    struct tenants_result result;
    struct tenants_settings settings = {.driver = GANTRY_DRIVER_EMULATED,
                                        .ways = 1u << way,
                                        .percent = {first, second},
                                        .seconds = 2,
                                        .kernel_ns = 500000,
                                        .now_ns = share_scene_now};
    share_scene_start_clock(settings.kernel_ns);
    bool good = gantry_sample_tenants_run(&settings, &result);
    share_scene_stop_clock();
    assert_true(good);
    assert_true((result.ways[way].graphs != 0) == (way == TENANTS_GRAPHS));
    for (int i = 0; i < TENANTS; i++) {
        const struct tenant_result *t = &result.ways[way].tenants[i];
        double target = settings.percent[i] / 100;
        if (fabs(t->charged - target) > 0.01 || fabs(t->by_kernels - target) > 0.01) {
            fail_msg("tenant %d: charged %.4f, by kernels %.4f, not %.2f", i, t->charged, t->by_kernels,
                     target);
        }
    }
}

static void test_each_gets_its_share(void **state)
{
    (void)state;
    for (int way = TENANTS_STREAMS; way <= TENANTS_GRAPHS; way++) {
        check((enum tenants_way)way, 30, 70);
        check((enum tenants_way)way, 20, 25); /* the device is idle for more than half of the time */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_gets_its_share)};
    return share_scene_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
