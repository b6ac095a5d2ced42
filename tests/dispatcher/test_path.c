/* SPDX-License-Identifier: MIT */
/* The steps of docs/design/path-of-a-task.md: which of them a task passes, in which order, and on which
 * thread. tests/docs/check_docs.py checks that the page and the marks in the code name the same functions. */
#include "base/point.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST_STEPS = 64 };

struct walked {
    const void *at;
    char step; /* '1' to '9' */
    bool on_gd;
};

static struct gpu_fixture fixture;
static struct walked walked[MOST_STEPS];
static atomic_uint steps; /* atomic; a step that comes after another has a higher number */
static gantry_task *awaited;

static void note(enum gy_point point, const void *at)
{
    if (point >= GY_POINT_PATH_1 && point <= GY_POINT_PATH_9) {
        uint32_t i = atomic_fetch_add(&steps, 1);
        if (i < MOST_STEPS) { /* otherwise the count shows it */
            walked[i] = (struct walked){at, (char)('1' + (point - GY_POINT_PATH_1)), gy_gd_current != NULL};
        }
    }
}

/* The steps of a task, with a letter behind those that its dispatcher's thread did.  Steps 7 and 8 belong to
 * several tasks, and are shown as if they were this one's. */
static const char *path_of(const gantry_task *task, bool with_batches)
{
    static char path[2 * MOST_STEPS + 1];
    size_t length = 0;
    assert_in_range(atomic_load(&steps), 1, MOST_STEPS);
    for (uint32_t i = 0; i < atomic_load(&steps); i++) {
        bool is_of_batch = walked[i].step == '7' || walked[i].step == '8';
        if (is_of_batch ? with_batches : walked[i].at == task) {
            path[length++] = walked[i].step;
            if (walked[i].on_gd) {
                path[length++] = 'd';
            }
        }
    }
    path[length] = '\0';
    return path;
}

static void *filled; /* NULL: callbacks launch nothing */

static bool fills(gantry_launch *launch)
{
    return filled == NULL || gantry_launch_fill(launch, filled, 1, 4, 16) == GANTRY_OK;
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)arg;
    return fills(launch) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_completing(gantry_launch *launch, void *arg)
{
    (void)arg;
    return fills(launch) && gantry_launch_add_completion(launch, awaited) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                       : GANTRY_LAUNCH_FAILED;
}

/* What is known of a function outlives its context on a CUDA context that others hold: a test whose functions
 * must be new has its own. */
static gantry_launch_result launch_frozen(gantry_launch *launch, void *arg)
{
    return launch_nothing(launch, arg);
}

static gantry_launch_result launch_frozen_completing(gantry_launch *launch, void *arg)
{
    return launch_completing(launch, arg);
}

static gantry_status run_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_task *upload, *kernel;

/* upload > kernel > awaited; the last one is a CPU task that also waits for a completion of the kernel. */
static void build(gantry_launch_fn uploads, gantry_launch_fn completes)
{
    atomic_store(&steps, 0);
    gy_point_hook(note);
    awaited = gpu_fixture_cpu(&fixture, "awaited", run_nothing, NULL);
    upload = gpu_fixture_gpu(&fixture, GANTRY_TASK_HTOD, "upload", uploads, NULL);
    kernel = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "kernel", completes, NULL);
    gpu_fixture_after(kernel, upload);
    gpu_fixture_after(awaited, kernel);
}

static void run(void)
{
    deadline_begin("a step of three tasks");
    assert_ok(gantry_taskman_start(fixture.manager));
    assert_ok(gantry_taskman_stop(fixture.manager));
    deadline_end();
    gy_point_hook(NULL);
}

static void test_the_path_of_a_task(void **state)
{
    (void)state;
    gpu_fixture_open(&fixture, 1, 4);
    build(launch_nothing, launch_completing);
    run();
    assert_string_equal(path_of(upload, false), "12345d6d9d");
    /* Tasks that GD has made ready itself do not go through the inbox; then the event that was asked for
     * comes. */
    assert_string_equal(path_of(kernel, true), "12d3d5d6d9d8d");
    /* It goes on when another thread has seen the event. */
    assert_string_equal(path_of(awaited, true), "18d29");
    assert_ok(gantry_taskman_reset(fixture.manager));
    gpu_fixture_close(&fixture);
}

/* A frozen graph takes the same way in every run, and is not described again. */
static void test_the_path_of_a_frozen_task(void **state)
{
    (void)state;
    gpu_fixture_open(&fixture, 1, 4);
    build(launch_frozen, launch_frozen_completing);
    assert_ok(gantry_taskman_freeze(fixture.manager));
    for (int i = 0; i < 3; i++) {
        atomic_store(&steps, 0);
        gy_point_hook(note);
        run();
        assert_string_equal(path_of(upload, false), "2345d6d9d");
        /* From the second run on it is noted: the list has nothing but the event. */
        assert_string_equal(path_of(kernel, true), i == 0 ? "2d3d5d6d9d8d" : "2d3d5d6d9d7d8d");
        assert_string_equal(path_of(awaited, true), i == 0 ? "8d29" : "7d8d29");
    }
    gpu_fixture_close(&fixture);
}

/* What callbacks launch is noted, by default, and reaches the device when the batch has no more calls. */
static void test_the_path_of_noted_work(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    gpu_fixture_open_with(&fixture, 1, &options);
    gantry_context_dispatcher(fixture.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    gantry_heap *heap = gantry_context_heap(fixture.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 64, 0, GANTRY_ALLOC_SITE("filled"), &filled));
    for (int i = 0; i < 8; i++) { /* the first calls go to the streams */
        assert_ok(gantry_taskman_reset(fixture.manager));
        build(launch_nothing, launch_completing);
        run();
    }
    assert_string_equal(path_of(upload, false), "12345d6d9d");
    assert_string_equal(path_of(kernel, true), "12d3d5d6d9d7d8d");
    assert_string_equal(path_of(awaited, false), "129");
    assert_ok(gantry_taskman_reset(fixture.manager));
    gantry_heap_free(heap, filled);
    filled = NULL;
    gpu_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_path_of_a_task),
        cmocka_unit_test(test_the_path_of_a_frozen_task),
        cmocka_unit_test(test_the_path_of_noted_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
