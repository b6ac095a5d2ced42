/* SPDX-License-Identifier: MIT */
/* A machine with more possible CPUs than cpu_set_t has room for: the kernel refuses sets that are too small.
 */
#include "tests/taskman/fixture.h"

#include "base/cpus.h"

#include <errno.h>

#define POSSIBLE 1280u
#define LAST (POSSIBLE - 1)

/* In the place of the C library's: CPU 0 and the last one may be used. */
int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *out)
{
    (void)thread;
    if (bytes < POSSIBLE / 8) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(bytes, out);
    CPU_SET_S(0, bytes, out);
    CPU_SET_S(LAST, bytes, out);
    return 0;
}

static void test_a_pool_has_a_worker_for_each_cpu(void **state)
{
    (void)state;
    const uint32_t quota = gy_cpus_quota("");
    gantry_cpu_dispatcher *pool;
    assert_ok(gantry_cpu_dispatcher_create(NULL, &pool));
    assert_int_equal(gantry_cpu_dispatcher_worker_count(pool), quota == 1 ? 1 : 2);
    gantry_cpu_dispatcher_destroy(pool);
}

static void test_cpus_beyond_1024_can_be_named(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool;
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    uint32_t cpu = LAST, cpus[2], count = 0;
    options.cpus = &cpu;
    options.cpu_count = 1;
    assert_ok(
        gantry_cpu_dispatcher_create(&options, &pool)); /* this machine has no such CPU: that is a warning */
    assert_int_equal(gantry_cpu_dispatcher_worker_count(pool), 1);
    gantry_cpu_dispatcher_destroy(pool);
    cpu = LAST - 1;
    assert_error(gantry_cpu_dispatcher_create(&options, &pool), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "CPU 1278 may not be used"));
    uint32_t found = 0;
    for (uint32_t index = 0; gantry_cpu_cache_domain(index, cpus, 2, &count) == GANTRY_OK && count != 0;
         index++) {
        found += count;
    }
    assert_int_equal(found, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pool_has_a_worker_for_each_cpu),
        cmocka_unit_test(test_cpus_beyond_1024_can_be_named),
    };
    return cmocka_run_group_tests_name("many_cpus", tests, NULL, NULL);
}
