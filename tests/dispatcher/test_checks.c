/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK: a CPU task that follows GPU work for which nothing has waited is reported. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include "base/checking.h"

#include <stdio.h>
#include <stdlib.h>

struct scene {
    struct gpu_fixture gpu;
    void *memory;
    gantry_task *completes; /* waited for in the callback; NULL: none */
};

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    assert_ok(gantry_launch_fill(launch, s->memory, 0, 4, 1024));
    if (s->completes != NULL) {
        assert_ok(gantry_launch_add_completion(launch, s->completes));
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_status nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void open_scene(struct scene *s, const char *check, gantry_submission submission)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    *s = (struct scene){.completes = NULL};
    setenv("GANTRY_CHECK", check, 1);
    gpu_fixture_open_with(&s->gpu, 1, &options);
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), GANTRY_MEMORY_DEVICE, 4096, 0,
                                GANTRY_ALLOC_SITE("checked"), &s->memory));
}

static void close_scene(struct scene *s)
{
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->memory));
    gpu_fixture_close(&s->gpu);
    unsetenv("GANTRY_CHECK");
    (void)gy_checks_read();
}

enum way { FORGOTTEN, COMPLETED, AFTER_DONE, COMPLETED_BEFORE };

/* Run a GPU task and `label`, a CPU task after it; returns how many warnings name that. */
static uint32_t warnings(struct scene *s, enum way way, const char *label, bool with_sync_point)
{
    struct log_lines lines;
    char expected[80];
    gantry_task *gpu = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_DTOH, "gpu", launch, s);
    gantry_task *cpu = gpu_fixture_cpu(&s->gpu, label, nothing, NULL), *before = gpu;
    s->completes = way == COMPLETED ? cpu : NULL;
    if (with_sync_point) {
        before = gpu_fixture_cpu(&s->gpu, "sync", NULL, NULL);
        gpu_fixture_after(before, gpu);
        s->completes = way == COMPLETED_BEFORE ? before : s->completes;
    }
    if (way == AFTER_DONE) {
        assert_ok(gantry_task_start_after_done(cpu, gpu));
    } else {
        gpu_fixture_after(cpu, before);
    }
    snprintf(expected, sizeof(expected), "task '%s' runs while the GPU may still work on what", label);
    log_lines_begin(&lines, expected);
    assert_ok(gpu_fixture_step(&s->gpu));
    return log_lines_end(&lines);
}

static void test_a_forgotten_completion_is_told_once(void **state)
{
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    static const char *const labels[2][2] = {{"a", "b"}, {"c", "d"}};
    (void)state;
    for (int m = 0; m < 2; m++) {
        struct scene s;
        open_scene(&s, "1", modes[m]);
        assert_int_equal(warnings(&s, FORGOTTEN, labels[m][0], false), 1);
        assert_int_equal(warnings(&s, FORGOTTEN, labels[m][0], false), 0);
        assert_int_equal(warnings(&s, FORGOTTEN, labels[m][1], true), 1); /* a sync point waits for nothing */
        close_scene(&s);
    }
}

static void test_whoever_waits_is_not_told(void **state)
{
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                              GANTRY_SUBMISSION_AUTO};
    (void)state;
    for (int m = 0; m < 3; m++) {
        struct scene s;
        open_scene(&s, "completions", modes[m]);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(warnings(&s, COMPLETED, "waits", false), 0);
            assert_int_equal(warnings(&s, AFTER_DONE, "waits", false), 0);
            assert_int_equal(warnings(&s, COMPLETED, "waits", true), 0);
            assert_int_equal(warnings(&s, COMPLETED_BEFORE, "waits", true), 0);
        }
        close_scene(&s);
    }
}

static void test_nothing_is_told_without_the_check(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, "bounds", GANTRY_SUBMISSION_STREAMS);
    assert_int_equal(warnings(&s, FORGOTTEN, "unchecked", false), 0);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_forgotten_completion_is_told_once),
        cmocka_unit_test(test_whoever_waits_is_not_told),
        cmocka_unit_test(test_nothing_is_told_without_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
