/* SPDX-License-Identifier: MIT */
/* A callback that uses a library which keeps its latest error per thread, as CUDA's runtime does: a call that
 * a capture forbids is refused, the callback fails, and later calls of the library on that thread tell of the
 * refusal.  In every mode and from the first step on the work is done once and right, and neither that
 * callback nor another one that uses the library is seen to fail. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <pthread.h>
#include <string.h>

enum { JOBS = 8, STEPS = 5, MORE = 10, BLOCKS = JOBS * (STEPS + MORE) };

enum forbidden { ALLOCATES, FREES, WAITS, FORBIDDEN };

static struct cell {
    gantry_submission submission;
    enum forbidden forbidden;
    bool is_frozen;
    bool peeks; /* the error stays, as behind cudaPeekAtLastError(); else who asks for it takes it */
    bool asks;  /* for its stream */
    bool late;  /* forbidden calls are made from the third step on */
} cell;

static uint32_t step, sorts, others, blocks;
static CUdeviceptr block[2 * BLOCKS];

/* ---- the library ------------------------------------------------------------------------------- */

static _Thread_local CUresult latest;

static bool library_does(CUresult result)
{
    latest = result != CUDA_SUCCESS ? result : latest;
    return result == CUDA_SUCCESS;
}

static bool library_is_well(void)
{
    const CUresult result = latest;
    latest = cell.peeks ? latest : CUDA_SUCCESS;
    return result == CUDA_SUCCESS;
}

static bool library_works(const gantry_launch *launch, CUstream stream)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    const uint32_t next = blocks;
    assert_true(next < sizeof(block) / sizeof(block[0]));
    switch (cell.forbidden) {
    case ALLOCATES:
        blocks += library_does(driver->cuMemAlloc(&block[next], 256));
        return blocks != next;
    case FREES:
        if (next != 0 && library_does(driver->cuMemFree(block[next - 1]))) {
            blocks--;
        }
        return blocks != next;
    case WAITS:
        return library_does(driver->cuStreamSynchronize(stream));
    case FORBIDDEN:
        break;
    }
    return false;
}

/* ---- callbacks --------------------------------------------------------------------------------- */

static gantry_launch_result launch_sort(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    sorts++;
    CUstream stream = cell.asks ? gantry_launch_capture_stream(launch) : launch->stream;
    const bool may = cell.late && step < 2;
    if (stream == NULL || (!may && !library_works(launch, stream)) || !modes_stamp(launch, job)) {
        return GANTRY_LAUNCH_FAILED;
    }
    return library_is_well() ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Makes no call that is forbidden. */
static gantry_launch_result launch_other(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    others++;
    return modes_stamp(launch, job) && library_is_well() ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* ---- steps ------------------------------------------------------------------------------------- */

static void submit(struct modes_scene *s, struct modes_job *jobs)
{
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < JOBS; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        jobs[i] = (struct modes_job){.scene = s, .index = i};
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = i % 2 == 0 ? "sort" : "other";
        desc.launch = i % 2 == 0 ? launch_sort : launch_other;
        desc.arg = &jobs[i];
        desc.is_stable = true;
        assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
}

static gantry_status run(struct modes_scene *s, struct modes_job *jobs)
{
    if (cell.is_frozen) {
        return gantry_taskman_run(s->gpu.manager, 1);
    }
    submit(s, jobs);
    return gpu_fixture_step(&s->gpu);
}

static void check_step(struct modes_scene *s, struct modes_job *jobs)
{
    memset(s->stamps.cells, 0, 512);
    const gantry_status status = run(s, jobs);
    if (status != GANTRY_OK) {
        fail_msg("step %u: %s (submission %d, call %d, frozen %d, peeks %d, asks %d, late %d)", step,
                 gantry_last_error(), (int)cell.submission, (int)cell.forbidden, cell.is_frozen, cell.peeks,
                 cell.asks, cell.late);
    }
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_int_equal(s->stamps.cells[0], 2 * JOBS); /* each kernel has run once */
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_true(modes_end_of(s, i) != 0 && (i == 0 || modes_end_of(s, i - 1) < modes_begin_of(s, i)));
    }
}

static bool is_watched_as_stale(const struct modes_scene *s)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(s->gpu.context);
    return (atomic_load(&dispatcher->watching.why) & GY_WATCHED_STALE) != 0;
}

static void *check_cell(void *unused)
{
    struct modes_scene s;
    struct modes_job jobs[JOBS];
    gantry_context_options options = modes_options();
    (void)unused;
    options.submission = cell.submission;
    sorts = others = blocks = 0;
    modes_open(&s, &options);
    const struct gy_driver *driver = s.gpu.context->cuda->driver;
    assert_ok(gantry_context_acquire(s.gpu.context));
    for (; cell.forbidden == FREES && blocks < BLOCKS; blocks++) {
        assert_int_equal(driver->cuMemAlloc(&block[blocks], 256), CUDA_SUCCESS);
    }
    if (cell.is_frozen) {
        submit(&s, jobs);
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
    }
    for (step = 0; step < STEPS; step++) {
        check_step(&s, jobs);
    }
    assert_true(sorts <= STEPS * JOBS / 2 + 2 && others <= STEPS * JOBS / 2 + 2);
    assert_true(sorts + others >= (cell.late || !cell.is_frozen ? JOBS : STEPS * JOBS / 2));
    /* The thread has an heir, or is a guest no more.  It may have become stale in the last step, and its turn
     * of the loop goes on while steps follow each other so closely that it always finds work. */
    for (uint32_t more = 0; more < MORE && is_watched_as_stale(&s); more++) {
        check_step(&s, jobs);
    }
    deadline_await(!is_watched_as_stale(&s), "a thread that is not stale to have the loop");
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    while (blocks != 0) {
        assert_int_equal(driver->cuMemFree(block[--blocks]), CUDA_SUCCESS);
    }
    assert_ok(gantry_context_release(s.gpu.context));
    modes_close(&s);
    return NULL;
}

/* Each on a thread of its own, since that is a guest of the dispatcher and may have the error, too. */
static void check_all(gantry_submission submission)
{
    for (uint32_t i = 0; i < FORBIDDEN << 4; i++) {
        pthread_t thread;
        cell = (struct cell){submission,  (enum forbidden)(i >> 4), (i & 1) != 0, (i & 2) != 0, (i & 4) != 0,
                             (i & 8) != 0};
        assert_int_equal(pthread_create(&thread, NULL, check_cell, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void test_on_streams(void **state)
{
    (void)state;
    check_all(GANTRY_SUBMISSION_STREAMS);
}

static void test_in_graphs_mode(void **state)
{
    (void)state;
    check_all(GANTRY_SUBMISSION_GRAPHS);
}

static void test_in_auto_mode(void **state)
{
    (void)state;
    check_all(GANTRY_SUBMISSION_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_streams),
        cmocka_unit_test(test_in_graphs_mode),
        cmocka_unit_test(test_in_auto_mode),
    };
    return cmocka_run_group_tests_name("stale_errors", tests, NULL, NULL);
}
