/* Spans as NVTX ranges, which a stand-in for the library receives. */
#include "tests/profile/cta_fixture.h"
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int *pushed, *popped, *underflows, *started, *ended, *strays;
static char (*names)[64], (*steps)[64];

static int count_of(const char *name)
{
    int count = 0;
    for (int i = 0; i < atomic_load(pushed) && i < 256; i++) {
        count += strcmp(names[i], name) == 0;
    }
    return count;
}

static void run_step(void)
{
    gantry_task *done = gpu_fixture_cpu(&fixture, "done", do_nothing, NULL);
    gpu_fixture_after(done, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_done, done));
    assert_ok(gpu_fixture_step(&fixture));
}

static void test_ranges_are_forwarded_while_recording(void **state)
{
    (void)state;
    run_step();
    assert_int_equal(atomic_load(pushed), 0);
    for (int i = 1; i <= 3; i++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_OFF, 0, 0);
        run_step();
        assert_ok(gantry_profile_stop(profile, NULL));
        assert_int_equal(count_of("done"), i);
        assert_int_equal(count_of("work"), i);
        assert_int_equal(count_of("GD Kernel"), i);
        run_step(); /* it was not recorded */
        assert_int_equal(count_of("work"), i);
    }
    /* GD and the completion thread have ended: every range that was open is closed */
    gpu_fixture_close(&fixture);
    assert_int_equal(atomic_load(pushed), atomic_load(popped));
    assert_int_equal(atomic_load(underflows), 0);
    assert_int_equal(set_up(NULL), 0); /* for the tear-down */
}

static gantry_status wait_for_go(gantry_task *task, void *arg)
{
    (void)task;
    while (!atomic_load((atomic_bool *)arg)) {
        sched_yield();
    }
    return GANTRY_OK;
}

static void *stop_step(void *manager)
{
    return (void *)(intptr_t)gantry_taskman_stop(manager);
}

/* A step is a range from its start to its stop, on whatever threads they are called, and whether or not it
 * is still recorded when it ends. */
static void test_steps_are_ranges(void **state)
{
    (void)state;
    const int before = atomic_load(started);
    run_step(); /* it is not recorded */
    assert_int_equal(atomic_load(started), before);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_OFF, 0, 0);
    run_step();
    assert_int_equal(atomic_load(started), before + 1);
    assert_int_equal(atomic_load(ended), before + 1);
    atomic_bool go = false;
    (void)gpu_fixture_cpu(&fixture, "waits", wait_for_go, &go);
    assert_ok(gantry_taskman_start(fixture.manager));
    assert_int_equal(atomic_load(started), before + 2);
    assert_int_equal(atomic_load(ended), before + 1);
    assert_ok(gantry_profile_stop(profile, NULL));
    pthread_t stopper;
    void *status;
    assert_int_equal(pthread_create(&stopper, NULL, stop_step, fixture.manager), 0);
    assert_int_equal(atomic_load(ended), before + 1); /* the task still waits */
    atomic_store(&go, true);
    assert_int_equal(pthread_join(stopper, &status), 0);
    assert_ok((gantry_status)(intptr_t)status);
    assert_int_equal(atomic_load(ended), before + 2);
    assert_int_equal(atomic_load(strays), 0);
    assert_memory_equal(steps[before], "step ", 5);
    assert_memory_equal(steps[before + 1], "step ", 5);
    assert_string_not_equal(steps[before], steps[before + 1]);
    assert_ok(gantry_taskman_reset(fixture.manager));
}

static char last_warning[512];

static void keep_warning(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    if (level == GANTRY_LOG_WARNING) {
        snprintf(last_warning, sizeof(last_warning), "%s", line);
    }
}

/* The library is looked for once per process: in this process it is not there. */
static void test_a_missing_library_is_told(void **state)
{
    (void)state;
    gantry_set_log(keep_warning, NULL, GANTRY_LOG_WARNING);
    assert_int_equal(set_up(NULL), 0);
    run_step();
    assert_int_equal(tear_down(NULL), 0);
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
    assert_non_null(strstr(last_warning, "$GANTRY_NVTX says always"));
    assert_non_null(strstr(last_warning, "/nowhere/libnvtx.so"));
}

static void test_ranges_are_forwarded_without_a_recording(void **state)
{
    (void)state;
    int before = count_of("work");
    run_step(); /* off, as in the test before */
    assert_int_equal(count_of("work"), before);
    gpu_fixture_close(&fixture);
    assert_int_equal(setenv("GANTRY_NVTX", "always", 1), 0); /* the library is open already */
    assert_int_equal(set_up(NULL), 0);
    run_step();
    assert_int_equal(count_of("work"), before + 1);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_OFF, 0, 0); /* once each, recorded or not */
    run_step();
    assert_int_equal(count_of("work"), before + 2);
    assert_ok(gantry_profile_stop(profile, NULL));
    run_step();
    assert_int_equal(count_of("work"), before + 3);
    assert_int_equal(count_of("done"), count_of("work"));
    gpu_fixture_close(&fixture);
    assert_int_equal(atomic_load(pushed), atomic_load(popped));
    assert_int_equal(atomic_load(underflows), 0);
    assert_int_equal(set_up(NULL), 0); /* for the tear-down */
}

/* With an argument the stand-in is to be found by its name, libnvtx3interop.so.1, which the dynamic linker
 * knows once it is open; with "missing" there is no library. */
int main(int argc, char **argv)
{
    const struct CMUnitTest missing[] = {cmocka_unit_test(test_a_missing_library_is_told)};
    if (argc > 1 && strcmp(argv[1], "missing") == 0) {
        bool set = setenv("GANTRY_NVTX", "always:/nowhere/libnvtx.so", 1) == 0;
        return set && cta_begin() == 0 ? cmocka_run_group_tests(missing, NULL, NULL) : 77;
    }
    void *library = dlopen(FAKE_NVTX, RTLD_NOW);
    if (library == NULL || (argc < 2 ? setenv("GANTRY_NVTX", FAKE_NVTX, 1) : unsetenv("GANTRY_NVTX")) != 0) {
        return 1;
    }
    if (argc > 1 && dlopen("libnvToolsExt.so.1", RTLD_NOW) != NULL) {
        fputs("skipped: libnvToolsExt.so.1 is there, which comes first\n", stderr);
        return 77;
    }
    pushed = dlsym(library, "fake_nvtx_pushed");
    popped = dlsym(library, "fake_nvtx_popped");
    underflows = dlsym(library, "fake_nvtx_underflows");
    names = dlsym(library, "fake_nvtx_names");
    started = dlsym(library, "fake_nvtx_started");
    ended = dlsym(library, "fake_nvtx_ended");
    strays = dlsym(library, "fake_nvtx_strays");
    steps = dlsym(library, "fake_nvtx_steps");
    int status = cta_begin();
    if (status != 0) {
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges_are_forwarded_while_recording, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_are_ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ranges_are_forwarded_without_a_recording, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
