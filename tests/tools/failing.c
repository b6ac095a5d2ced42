/* SPDX-License-Identifier: MIT */
/* Tests that fail, for test_failing.py, which looks at how they end. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include "base/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void look_at(const char *line)
{
    if (strcmp(line, "crane 7") != 0) {
        fail_msg("the log says '%s'", line);
    }
}

/* tools/check_style.py forbids the call, but does not see it behind a function. */
static void assert_in_log(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    look_at(line);
}

static void fails_in_the_log(void **state)
{
    (void)state;
    gantry_set_log(assert_in_log, NULL, GANTRY_LOG_INFO);
    gy_log(GANTRY_LOG_INFO, "crane %d", 8);
}

static void logs_again(void **state)
{
    (void)state;
    gantry_set_log(assert_in_log, NULL, GANTRY_LOG_INFO);
    gy_log(GANTRY_LOG_INFO, "crane %d", 7);
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
}

static void waits_in_vain(void **state)
{
    (void)state;
    deadline_await(getenv("GANTRY_TEST_NEVER") != NULL, "what is never there");
}

static void fails(void **state)
{
    (void)state;
    assert_int_equal(4, 5);
}

static int hang(void **state)
{
    (void)state;
    for (;;) {
        (void)sched_yield();
    }
    return 0;
}

static void *fail_in_thread(void *arg)
{
    (void)arg;
    assert_int_equal(6, 7);
    return NULL;
}

static void hangs(void **state)
{
    (void)hang(state);
}

static void fails_on_a_thread(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fails_in_the_log),     cmocka_unit_test(logs_again),
        cmocka_unit_test(waits_in_vain),        cmocka_unit_test(hangs),
        cmocka_unit_test_teardown(fails, hang), cmocka_unit_test(fails_on_a_thread),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
