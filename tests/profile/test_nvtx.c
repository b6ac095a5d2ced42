/* SPDX-License-Identifier: MIT */
/* Spans as NVTX ranges, which a stand-in for a tool receives: recorded or not, in a domain of their own, with
 * kinds, bytes, and the names of devices and streams.  With an argument the tool is named or lacking in
 * another way. */
#include "tests/profile/cta_fixture.h"
#include "tests/profile/fake_tool.h"
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static struct fake_tool *tool;
static void *stream_of_work;

/* The last of those with this name; NULL: there is none. */
static const struct fake_tool_event *find(enum fake_tool_list list, const char *name, int *count)
{
    const struct fake_tool_event *found = NULL;
    *count = 0;
    for (int i = 0; i < atomic_load(&tool->count[list]) && i < FAKE_TOOL_MOST; i++) {
        if (atomic_load(&tool->events[list][i].is_whole) && strcmp(tool->events[list][i].name, name) == 0) {
            found = &tool->events[list][i];
            *count += 1;
        }
    }
    return found;
}

static int count_of(const char *name)
{
    int count;
    (void)find(FAKE_TOOL_PUSHES, name, &count);
    return count;
}

static const char *category_of(enum fake_tool_list list, const char *name)
{
    int count;
    const struct fake_tool_event *event = find(list, name, &count);
    assert_non_null(event);
    return tool->categories[event->category % FAKE_TOOL_CATEGORIES];
}

static gantry_launch_result note_stream(gantry_launch *launch, void *arg)
{
    stream_of_work = gantry_launch_stream(launch);
    return launch_done(launch, arg);
}

static void run_step(void)
{
    gantry_task *done = gpu_fixture_cpu(&fixture, "done", do_nothing, NULL);
    gpu_fixture_after(done, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", note_stream, done));
    assert_ok(gpu_fixture_step(&fixture));
}

static void test_ranges_are_told_recorded_or_not(void **state)
{
    (void)state;
    const int before = count_of("work");
    for (int i = 1; i <= 2; i++) {
        run_step();
        assert_int_equal(count_of("work"), before + 2 * i - 1);
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_OFF, 0, 0); /* once each */
        run_step();
        assert_ok(gantry_profile_stop(profile, NULL));
        assert_int_equal(count_of("work"), before + 2 * i);
    }
    assert_int_equal(count_of("done"), count_of("work"));
    /* GD and the completion thread have ended: every range that was open is closed */
    gpu_fixture_close(&fixture);
    assert_int_equal(atomic_load(&tool->count[FAKE_TOOL_PUSHES]), atomic_load(&tool->popped));
    assert_int_equal(atomic_load(&tool->strays), 0);
    assert_int_equal(set_up(NULL), 0); /* for the tear-down */
}

static void test_kinds_and_names(void **state)
{
    (void)state;
    run_step();
    assert_string_equal(tool->domain, "gantry");
    assert_string_equal(category_of(FAKE_TOOL_PUSHES, "work"), "kernel");
    assert_string_equal(category_of(FAKE_TOOL_PUSHES, "done"), "CPU task");
    assert_string_equal(category_of(FAKE_TOOL_PUSHES, "GD Kernel"), "phase");
    assert_string_equal(category_of(FAKE_TOOL_PUSHES, "GD batch"), "batch");
    gantry_device_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_context_device_info(fixture.context, &info));
    assert_string_equal(tool->device, info.name);
    assert_ptr_equal(tool->stream, stream_of_work);
    assert_memory_equal(tool->stream_name, "gantry", 6);
}

static uint32_t *there, *here;

static gantry_launch_result copy_back(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_copy_dtoh(launch, here, there, 1000) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                           : GANTRY_LAUNCH_FAILED;
}

static void test_bytes_of_copies(void **state)
{
    (void)state;
    gantry_heap *heap = gantry_context_heap(fixture.context);
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 1000, 0, GANTRY_ALLOC_SITE("there"), (void **)&there));
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 1000, 0, GANTRY_ALLOC_SITE("here"), (void **)&here));
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_DTOH, "back", copy_back, NULL);
    assert_ok(gpu_fixture_step(&fixture));
    int count;
    const struct fake_tool_event *copy = find(FAKE_TOOL_MARKS, "back", &count);
    assert_non_null(copy);
    assert_int_equal(copy->payload, 1000);
    assert_string_equal(category_of(FAKE_TOOL_MARKS, "back"), "copy");
    assert_string_equal(category_of(FAKE_TOOL_PUSHES, "back"), "DtoH");
    assert_ok(gantry_context_synchronize(fixture.context));
    gantry_heap_free(heap, there);
    gantry_heap_free(heap, here);
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

/* A step is a range from its start to its stop, on whatever threads they are called. */
static void test_steps_are_ranges(void **state)
{
    (void)state;
    const int before = atomic_load(&tool->count[FAKE_TOOL_STARTS]), ended = atomic_load(&tool->ended);
    run_step();
    assert_int_equal(atomic_load(&tool->count[FAKE_TOOL_STARTS]), before + 1);
    assert_int_equal(atomic_load(&tool->ended), ended + 1);
    atomic_bool go = false;
    (void)gpu_fixture_cpu(&fixture, "waits", wait_for_go, &go);
    assert_ok(gantry_taskman_start(fixture.manager));
    pthread_t stopper;
    void *status;
    assert_int_equal(pthread_create(&stopper, NULL, stop_step, fixture.manager), 0);
    assert_int_equal(atomic_load(&tool->ended), ended + 1); /* the task still waits */
    atomic_store(&go, true);
    assert_int_equal(pthread_join(stopper, &status), 0);
    assert_ok((gantry_status)(intptr_t)status);
    assert_int_equal(atomic_load(&tool->ended), ended + 2);
    assert_int_equal(atomic_load(&tool->strays), 0);
    const struct fake_tool_event *steps = tool->events[FAKE_TOOL_STARTS];
    assert_memory_equal(steps[before].name, "step ", 5);
    assert_string_not_equal(steps[before].name, steps[before + 1].name);
    assert_string_equal(tool->categories[steps[before].category], "step");
    assert_ok(gantry_taskman_reset(fixture.manager));
}

static char note[512];

static void keep_note(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    if (level == GANTRY_LOG_INFO && strstr(line, "NVTX") != NULL) {
        snprintf(note, sizeof(note), "%s", line);
    }
}

/* The tool is looked for once per process: in this process it cannot be used. */
static void test_a_tool_that_cannot_be_used_is_told(void **state)
{
    gantry_set_log(keep_note, NULL, GANTRY_LOG_INFO);
    assert_int_equal(set_up(NULL), 0);
    run_step();
    assert_int_equal(tear_down(NULL), 0);
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
    assert_non_null(strstr(note, "no NVTX ranges: "));
    assert_non_null(strstr(note, *state));
}

static void test_an_empty_name_is_none(void **state)
{
    (void)state;
    run_step();
    assert_string_equal(tool->domain, "");
    assert_int_equal(count_of("work"), 0);
}

static int run_without_a_tool(char *file, char *cause)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_a_tool_that_cannot_be_used_is_told, cause)};
    return setenv("NVTX_INJECTION64_PATH", file, 1) == 0 && cta_begin() == 0
               ? cmocka_run_group_tests(tests, NULL, NULL)
               : 1;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    if (strcmp(way, "missing") == 0) {
        return run_without_a_tool("/nowhere/libtool.so", "/nowhere/libtool.so");
    }
    if (strcmp(way, "wrong") == 0) {
        return run_without_a_tool("libm.so.6", "has no InitializeInjectionNvtx2()");
    }
    void *library = dlopen(FAKE_TOOL, RTLD_NOW);
    tool = library != NULL ? dlsym(library, "fake_tool") : NULL;
    const bool is_ours = strcmp(way, "ours") == 0, is_off = strcmp(way, "off") == 0;
    if (tool == NULL ||
        setenv("NVTX_INJECTION64_PATH", is_ours ? "/nowhere/libtool.so" : FAKE_TOOL, 1) != 0 ||
        (is_ours || is_off ? setenv("GANTRY_NVTX", is_ours ? FAKE_TOOL : "", 1) : unsetenv("GANTRY_NVTX")) !=
            0) {
        return 1;
    }
    int status = cta_begin();
    if (status != 0) {
        return status;
    }
    const struct CMUnitTest off[] = {
        cmocka_unit_test_setup_teardown(test_an_empty_name_is_none, set_up, tear_down)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges_are_told_recorded_or_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kinds_and_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_of_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_are_ranges, set_up, tear_down),
    };
    return is_off ? cmocka_run_group_tests(off, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
