/* SPDX-License-Identifier: MIT */
/* Which CPUs may be used, and what the quotas of control groups leave of them: of made-up systems, whose
 * files lie in a folder. */
#include "tests/support/cmocka_c11.h"

#include "base/cpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];

static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", folder, path);
    for (char *slash = strchr(whole + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(whole, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gantry-cpus-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void put_v2(const char *group, const char *mounted)
{
    char line[256];
    snprintf(line, sizeof(line), "0::%s\n", group);
    put("/proc/self/cgroup", line);
    snprintf(
        line, sizeof(line),
        "22 1 0:2 / /proc rw - proc proc rw\n31 22 0:26 %s /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
        mounted);
    put("/proc/self/mountinfo", line);
}

static void test_without_files_there_is_no_quota(void **state)
{
    (void)state;
    assert_int_equal(gy_cpus_quota(folder), 0);
    put_v2("/", "/");
    assert_int_equal(gy_cpus_quota(folder), 0);
    put("/sys/fs/cgroup/cpu.max", "nonsense\n");
    assert_int_equal(gy_cpus_quota(folder), 0);
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 0);
}

static void test_quotas_are_rounded_up(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t cpus;
    } cases[] = {{"50000 100000\n", 1},  {"1000 100000\n", 1},   {"100000 100000\n", 1},
                 {"100001 100000\n", 2}, {"250000 100000\n", 3}, {"8000 1000\n", 8}};
    put_v2("/", "/"); /* a container with a view of its own */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put("/sys/fs/cgroup/cpu.max", cases[i].text);
        assert_int_equal(gy_cpus_quota(folder), cases[i].cpus);
    }
}

static void test_the_groups_around_it_count(void **state)
{
    (void)state;
    put_v2("/jobs/ours/deep", "/");
    put("/sys/fs/cgroup/jobs/ours/deep/cpu.max", "max 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 0);
    put("/sys/fs/cgroup/jobs/cpu.max", "300000 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 3);
    put("/sys/fs/cgroup/jobs/ours/cpu.max", "200000 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 2);
    put("/sys/fs/cgroup/jobs/ours/deep/cpu.max", "500000 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 2);
    put("/sys/fs/cgroup/jobs/others/cpu.max", "100000 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 2);
}

static void test_a_container_has_a_part_of_the_hierarchy(void **state)
{
    (void)state;
    put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    put_v2("/docker/1234", "/docker/1234"); /* the paths are the host's */
    assert_int_equal(gy_cpus_quota(folder), 2);
    put_v2("/docker/12345", "/docker/1234");
    assert_int_equal(gy_cpus_quota(folder), 2); /* the files that are to be seen are those of the container */
    put_v2("/../..", "/");
    assert_int_equal(gy_cpus_quota(folder), 2);
    put("/sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
    put_v2("/docker/1234/inner", "/docker/1234");
    assert_int_equal(gy_cpus_quota(folder), 1);
}

static void test_version_1_has_its_quota_too(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "5:cpuset:/a\n4:cpuacct,cpu:/a/b\n2:memory:/m\n0::/\n");
    put("/proc/self/mountinfo",
        "30 1 0:9 / /sys/fs/cgroup/cpuset rw shared:3 - cgroup cgroup rw,cpuset\n"
        "31 1 0:8 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n"
        "32 1 0:7 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "1\n"); /* of another hierarchy */
    put("/sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    assert_int_equal(gy_cpus_quota(folder), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "350000\n");
    assert_int_equal(gy_cpus_quota(folder), 0); /* without a period */
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(gy_cpus_quota(folder), 4);
    put("/sys/fs/cgroup/unified/cpu.max", "100000 100000\n");
    assert_int_equal(gy_cpus_quota(folder), 1); /* the less of both */
}

static void test_sets_have_room_for_all_cpus(void **state)
{
    (void)state;
    gy_cpus set = {.words = {0}}, mine;
    gy_cpus_add(&set, 3);
    gy_cpus_add(&set, 1279);
    gy_cpus_add(&set, GY_CPUS_MOST - 1);
    gy_cpus_add(&set, GY_CPUS_MOST);
    assert_int_equal(gy_cpus_count(&set), 3);
    assert_true(gy_cpus_has(&set, 1279) && !gy_cpus_has(&set, 1278) && !gy_cpus_has(&set, GY_CPUS_MOST));
    gy_cpus_usable(&mine);
    assert_in_range(gy_cpus_usable_at_once(), 1, gy_cpus_count(&mine));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_without_files_there_is_no_quota), TEST(test_quotas_are_rounded_up),
        TEST(test_the_groups_around_it_count),      TEST(test_a_container_has_a_part_of_the_hierarchy),
        TEST(test_version_1_has_its_quota_too),     cmocka_unit_test(test_sets_have_room_for_all_cpus),
    };
    return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
