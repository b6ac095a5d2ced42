/* SPDX-License-Identifier: MIT */
/* Which CPUs share a cache: the same made-up machines are described to hwloc, and in files like those of
 * sysfs. */
#include "tests/support/cmocka_c11.h"

#include "taskman/cpu/caches.h"

#include <gantry/taskman.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_CPUS = 16 };

/* ---- machines ---- */

struct machine {
    const char *synthetic;        /* for hwloc */
    uint32_t cpus;                /* numbered from 0 */
    const char *lists[MOST_CPUS]; /* the index3/shared_cpu_list of each CPU; NULL: there is no such file */
};

/* Two packages with two caches each. */
static const struct machine linear = {
    "pack:2 l3:2 core:2 pu:1", 8, {"0-1\n", "0-1\n", "2-3\n", "2-3\n", "4-5\n", "4-5\n", "6-7\n", "6-7\n"}};

/* Hyperthreads are numbered after all cores. */
static const struct machine threads = {
    "l3:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)",
    8,
    {"0-1,4-5\n", "0-1,4-5\n", "2-3,6-7\n", "2-3,6-7\n", "0-1,4-5\n", "0-1,4-5\n", "2-3,6-7\n", "2-3,6-7\n"}};

static const struct machine without = {"pack:2 core:2 pu:1", 4, {NULL}};

/* ---- both ways ---- */

static char folder[] = "/tmp/gantry-caches-XXXXXX";

static void path_of(char *out, size_t bytes, uint32_t cpu, int depth)
{
    static const char *const parts[] = {"", "/cache", "/cache/index3", "/cache/index3/shared_cpu_list"};
    snprintf(out, bytes, "%s/cpu%u%s", folder, cpu, parts[depth]);
}

static void write_files(const struct machine *machine)
{
    char path[128];
    for (uint32_t cpu = 0; cpu < machine->cpus && machine->lists[cpu] != NULL; cpu++) {
        for (int depth = 0; depth < 3; depth++) {
            path_of(path, sizeof(path), cpu, depth);
            assert_int_equal(mkdir(path, 0700), 0);
        }
        path_of(path, sizeof(path), cpu, 3);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        assert_true(fputs(machine->lists[cpu], file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
}

static void remove_files(const struct machine *machine)
{
    char path[128];
    for (uint32_t cpu = 0; cpu < machine->cpus && machine->lists[cpu] != NULL; cpu++) {
        path_of(path, sizeof(path), cpu, 3);
        assert_int_equal(unlink(path), 0);
        for (int depth = 2; depth >= 0; depth--) {
            path_of(path, sizeof(path), cpu, depth);
            assert_int_equal(rmdir(path), 0);
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

static void ask_sysfs(const struct machine *machine, const gy_cpus *usable, struct gy_caches *out)
{
    snprintf(folder, sizeof(folder), "/tmp/gantry-caches-XXXXXX");
    assert_non_null(mkdtemp(folder));
    write_files(machine);
    gy_caches_from_sysfs(folder, usable, out);
    remove_files(machine);
}

/* False: this build has no hwloc. */
static bool ask_hwloc(const struct machine *machine, const gy_cpus *usable, struct gy_caches *out)
{
    (void)usable;
    assert_int_equal(setenv("HWLOC_SYNTHETIC", machine->synthetic, 1), 0);
    bool is_known = gy_caches_from_hwloc(out);
    assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
    assert_int_equal(is_known, GANTRY_HAS_HWLOC);
    return is_known;
}

/* Text like "0,1,4,5 2,3 ", with a word per domain. */
static void describe(const struct gy_caches *caches, const gy_cpus *usable, char *out, size_t bytes)
{
    size_t at = 0;
    uint32_t cpus[MOST_CPUS], count;
    out[0] = '\0';
    for (uint32_t index = 0; (count = gy_caches_domain(caches, usable, index, cpus, MOST_CPUS)) != 0;
         index++) {
        assert_true(count <= MOST_CPUS);
        for (uint32_t i = 0; i < count; i++) {
            at += (size_t)snprintf(out + at, bytes - at, "%u%c", cpus[i], i + 1 == count ? ' ' : ',');
        }
    }
}

/* Check that the CPUs of `usable` (a bit each) are in these domains. */
static void check(const struct machine *machine, unsigned usable, const char *expected)
{
    gy_cpus set = {.words = {0}};
    struct gy_caches caches;
    char text[128];
    for (unsigned cpu = 0; cpu < MOST_CPUS; cpu++) {
        if ((usable >> cpu & 1u) != 0) {
            gy_cpus_add(&set, cpu);
        }
    }
    ask_sysfs(machine, &set, &caches);
    describe(&caches, &set, text, sizeof(text));
    assert_string_equal(text, expected);
    if (ask_hwloc(machine, &set, &caches)) {
        describe(&caches, &set, text, sizeof(text));
        assert_string_equal(text, expected);
    }
}

/* ---- tests ---- */

static void test_domains_are_the_caches(void **state)
{
    (void)state;
    check(&linear, 0xff, "0,1 2,3 4,5 6,7 ");
    check(&threads, 0xff, "0,1,4,5 2,3,6,7 ");
}

static void test_cpus_that_may_not_be_used_are_in_none(void **state)
{
    (void)state;
    check(&linear, 0xd8, "3 4 6,7 ");
    check(&threads, 0xd8, "3,6,7 4 ");
    check(&threads, 0x01, "0 ");
    check(&threads, 0, "");
}

static void test_cpus_of_which_nothing_is_known_are_together(void **state)
{
    (void)state;
    check(&without, 0x0f, "0,1,2,3 ");
    check(&linear, 0x3ff & ~0x3cu, "0,1 6,7 8,9 "); /* there are no CPUs 8 and 9 */
}

static void test_files_that_make_no_sense_do_no_harm(void **state)
{
    (void)state;
    static const struct machine odd = {
        NULL, 6, {"0-1,999999\n", "\n", "words\n", "3-1\n", "4-\n", "0-3,5\n"}};
    gy_cpus set = {.words = {0}};
    struct gy_caches caches;
    char text[128];
    for (unsigned cpu = 0; cpu < 6; cpu++) {
        gy_cpus_add(&set, cpu);
    }
    ask_sysfs(&odd, &set, &caches);
    describe(&caches, &set, text, sizeof(text));
    assert_string_equal(text, "0,1 2 3 4 5 ");
}

/* The description has a cache per CPU, which no machine has by itself: so an answer that says so comes from
 * hwloc. */
static void test_the_library_asks_hwloc(void **state)
{
    (void)state;
    gy_cpus mine;
    gy_cpus_usable(&mine);
    assert_int_equal(setenv("HWLOC_SYNTHETIC", "l3:1024 pu:1", 1), 0);
    uint32_t cpu = 0, count = 0, domains = 0;
    while (gantry_cpu_cache_domain(domains, &cpu, 1, &count) == GANTRY_OK && count != 0) {
        assert_true(gy_cpus_has(&mine, cpu));
        domains++;
#if GANTRY_HAS_HWLOC
        assert_int_equal(count, 1);
#endif
    }
    assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
#if GANTRY_HAS_HWLOC
    assert_int_equal(domains, gy_cpus_count(&mine));
#else
    fprintf(stderr, "the half about hwloc was left out: this build has none\n");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains_are_the_caches),
        cmocka_unit_test(test_cpus_that_may_not_be_used_are_in_none),
        cmocka_unit_test(test_cpus_of_which_nothing_is_known_are_together),
        cmocka_unit_test(test_files_that_make_no_sense_do_no_harm),
        cmocka_unit_test(test_the_library_asks_hwloc),
    };
    return cmocka_run_group_tests_name("caches", tests, NULL, NULL);
}
