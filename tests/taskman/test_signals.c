/* SPDX-License-Identifier: MIT */
/* Signals that a body gets for what it does reach the application's handlers on the thread of the body. */
#include "tests/taskman/fixture.h"

#include <pthread.h>
#include <signal.h>

static const int of_code[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
#define COUNT (sizeof(of_code) / sizeof(of_code[0]))

static _Thread_local volatile sig_atomic_t caught; /* the signal that a handler got on this thread */

static void note(int signal_number)
{
    caught = signal_number;
}

static gantry_status raise_each(gantry_task *task, void *arg)
{
    uint32_t *handled = arg;
    (void)task;
    for (size_t i = 0; i < COUNT; i++) {
        caught = 0;
        *handled += pthread_kill(pthread_self(), of_code[i]) == 0 && caught == of_code[i];
    }
    return GANTRY_OK;
}

static void test_signals_of_a_body_reach_the_handler(void **state)
{
    (void)state;
    struct sigaction before[COUNT], action = {.sa_handler = note};
    uint32_t handled = 0;
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *pool;
    options.worker_count = 1;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(sigaction(of_code[i], &action, &before[i]), 0);
    }
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    gantry_taskman *manager = new_manager_with(pool, true);
    add_cpu(manager, NULL, raise_each, &handled);
    assert_ok(gantry_taskman_freeze(manager));
    assert_ok(gantry_taskman_run(manager, 1));
    assert_int_equal(handled, COUNT);
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
    for (size_t i = 0; i < COUNT; i++) {
        (void)sigaction(of_code[i], &before[i], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signals_of_a_body_reach_the_handler)};
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
