/* SPDX-License-Identifier: MIT */
/* Options in the environment that make jemalloc write to its blocks: the small tier must notice this and
 * stay off, and the heap must work without it.  The program starts itself again for each option, since
 * jemalloc reads them when it is loaded. */
#include "tests/support/cmocka_c11.h"

#include "heap/small.h"

#include <gantry/gantry.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self;

/* Returns the status of gy_small_probe() in a process of its own with MALLOC_CONF=`options`. */
static gantry_status probe_with(const char *options)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("MALLOC_CONF", options, 1);
        execl(self, self, "probe", (char *)NULL);
        _exit(100);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 100);
    return -(gantry_status)WEXITSTATUS(status);
}

static void test_plain_jemalloc_is_used(void **state)
{
    (void)state;
    assert_int_equal(probe_with(""), GANTRY_OK);
    assert_int_equal(probe_with("retain:false,narenas:1,dirty_decay_ms:0"), GANTRY_OK);
}

static void test_filling_jemalloc_is_not_used(void **state)
{
    (void)state;
    assert_int_equal(probe_with("junk:true"), GANTRY_ERR_UNSUPPORTED);
    assert_int_equal(probe_with("junk:free"), GANTRY_ERR_UNSUPPORTED);
    assert_int_equal(probe_with("zero:true"), GANTRY_ERR_UNSUPPORTED);
}

static void test_verdict_is_kept(void **state)
{
    (void)state;
    gantry_status first = gy_small_probe();
    assert_int_equal(gy_small_probe(), first);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1) {
        return -(int)gy_small_probe();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_jemalloc_is_used),
        cmocka_unit_test(test_filling_jemalloc_is_not_used),
        cmocka_unit_test(test_verdict_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
