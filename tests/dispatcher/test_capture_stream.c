/* SPDX-License-Identifier: MIT */
/* Callbacks that ask for their stream by gantry_launch_capture_stream(): the auto mode makes what they
 * enqueue there part of its graphs, and calls them once, unless it turns out that it cannot be captured. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 6, OWN = 3, STEPS = 6 }; /* the fourth task of the row is the one that asks */
enum {
    SOURCE = 100,
    TARGET = 200,
    ELSEWHERE = 300,
    FETCHED = 100
}; /* words in the device's and host's memory */

/* How does the callback ask, and what does it do besides? */
enum ask { BEARS, PLAIN, BEARS_THEN_PLAIN, PLAIN_THEN_BEARS };
enum trouble { NONE, ALLOCATES, FORKS, COPIES_PAGEABLE };

static struct {
    enum ask ask;
    enum trouble trouble;
    bool is_captured;      /* its stream was, when it had asked last */
    bool on_a_thread;      /* another thread asks, once */
    gantry_status refused; /* why that thread got no stream; GANTRY_OK: it always did */
    CUstream side;
    CUevent fork;
} own;

static const struct gy_driver *driver_of(gantry_launch *launch)
{
    return launch->dispatcher->config.context->driver;
}

static CUdeviceptr word(const struct modes_job *job, uint32_t index)
{
    return (CUdeviceptr)(uintptr_t)((uint32_t *)job->scene->device + index);
}

static CUstream ask_once(gantry_launch *launch, bool bears)
{
    CUstream stream = bears ? gantry_launch_capture_stream(launch) : gantry_launch_stream(launch);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream == NULL || driver_of(launch)->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) {
        return NULL;
    }
    own.is_captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return stream;
}

static bool copy(gantry_launch *launch, const struct modes_job *job, uint32_t to, uint32_t from,
                 CUstream stream)
{
    return stream != NULL &&
           driver_of(launch)->cuMemcpyDtoDAsync(word(job, to), word(job, from), 4, stream) == CUDA_SUCCESS;
}

static bool makes_trouble(gantry_launch *launch, const struct modes_job *job, CUstream stream)
{
    const struct gy_driver *driver = driver_of(launch);
    static const uint32_t pageable = 7;
    CUdeviceptr address;
    switch (own.trouble) {
    case NONE:
        return true;
    case ALLOCATES:
        return driver->cuMemAlloc(&address, 256) == CUDA_SUCCESS &&
               driver->cuMemFree(address) == CUDA_SUCCESS;
    case FORKS:
        return driver->cuEventRecord(own.fork, stream) == CUDA_SUCCESS &&
               driver->cuStreamWaitEvent(own.side, own.fork, 0) == CUDA_SUCCESS &&
               copy(launch, job, ELSEWHERE, ELSEWHERE + 1, own.side);
    case COPIES_PAGEABLE:
        return driver->cuMemcpyHtoDAsync(word(job, ELSEWHERE + 2), &pageable, 4, stream) == CUDA_SUCCESS;
    }
    return false;
}

struct asker {
    gantry_launch *launch;
    CUstream stream;
};

static void *ask_beside(void *arg)
{
    struct asker *asker = arg;
    asker->stream = ask_once(asker->launch, own.ask == BEARS);
    own.refused = asker->stream == NULL ? gy_error_last()->status : own.refused;
    return NULL;
}

static CUstream ask_on_a_thread(gantry_launch *launch)
{
    struct asker asker = {.launch = launch};
    pthread_t thread;
    return pthread_create(&thread, NULL, ask_beside, &asker) == 0 && pthread_join(thread, NULL) == 0
               ? asker.stream
               : NULL;
}

/* The number goes from SOURCE to TARGET, half of the way behind each time that it asks. */
static gantry_launch_result launch_own(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    CUstream stream = own.on_a_thread ? ask_on_a_thread(launch)
                                      : ask_once(launch, own.ask == BEARS || own.ask == BEARS_THEN_PLAIN);
    bool done = copy(launch, job, TARGET + 1, SOURCE, stream) && modes_stamp(launch, job);
    if (done && !own.on_a_thread) {
        stream = ask_once(launch, own.ask == BEARS || own.ask == PLAIN_THEN_BEARS);
    }
    done = done && copy(launch, job, TARGET, TARGET + 1, stream) && makes_trouble(launch, job, stream);
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_prepare(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    uint32_t *words = job->scene->device;
    return gantry_launch_fill(launch, words + SOURCE, job->calls + 1, 4, 1) == GANTRY_OK
               ? modes_launch(launch, arg)
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    return gantry_launch_copy_dtoh(launch, job->scene->stamps.cells + FETCHED,
                                   (uint32_t *)job->scene->device + TARGET, 4) == GANTRY_OK
               ? modes_launch(launch, arg)
               : GANTRY_LAUNCH_FAILED;
}

/* ---- steps of six tasks in a row, of which one asks ------------------------------------------------------
 */

struct scene {
    struct modes_scene on;
    struct modes_job jobs[JOBS];
    bool by_turns; /* the tasks are in the two partitions by turns */
    bool is_stable;
    _Atomic(uint32_t) ran;
};

static void open_scene(struct scene *s, const gantry_context_options *options)
{
    memset(s, 0, sizeof(*s));
    memset(&own, 0, sizeof(own));
    modes_open(&s->on, options);
    gantry_context_dispatcher(s->on.gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    assert_ok(gantry_context_acquire(s->on.gpu.context));
    const struct gy_driver *driver = s->on.gpu.context->cuda->driver;
    assert_int_equal(driver->cuStreamCreate(&own.side, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventCreate(&own.fork, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
}

static void open_in(struct scene *s, gantry_submission submission)
{
    gantry_context_options options = modes_options();
    options.submission = submission;
    open_scene(s, &options);
}

static void close_scene(struct scene *s)
{
    const struct gy_driver *driver = s->on.gpu.context->cuda->driver;
    assert_true(gantry_context_is_valid(s->on.gpu.context));
    assert_ok(gantry_context_synchronize(s->on.gpu.context));
    assert_int_equal(driver->cuStreamDestroy(own.side), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventDestroy(own.fork), CUDA_SUCCESS);
    assert_ok(gantry_context_release(s->on.gpu.context));
    modes_close(&s->on);
}

static void submit(struct scene *s)
{
    gantry_task *done = gpu_fixture_cpu(&s->on.gpu, "done", modes_count_run, &s->ran), *before = NULL;
    for (uint32_t i = 0; i < JOBS; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        s->jobs[i].scene = &s->on;
        s->jobs[i].index = i;
        s->jobs[i].completes = i == JOBS - 1 ? done : NULL;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = i == OWN ? "own" : "link";
        desc.launch = i == OWN        ? launch_own
                      : i == 0        ? launch_prepare
                      : i == JOBS - 1 ? launch_fetch
                                      : modes_launch;
        desc.arg = &s->jobs[i];
        desc.is_stable = s->is_stable;
        desc.partition = s->by_turns ? gantry_partition_at(s->on.gpu.context, i % 2) : NULL;
        assert_ok(gantry_taskman_submit(s->on.gpu.manager, &desc, &task));
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    gpu_fixture_after(done, before);
}

/* The work was done once, in order: the number is the one that was written first. */
static void expect_right(const struct scene *s, uint32_t number)
{
    assert_int_equal(s->on.stamps.cells[FETCHED], number);
    for (uint32_t i = 1; i < JOBS; i++) {
        assert_true(modes_end_of(&s->on, i - 1) < modes_begin_of(&s->on, i));
    }
}

static void run(struct scene *s, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t ran = s->ran;
        memset(s->on.stamps.cells, 0, 512);
        submit(s);
        assert_ok(gpu_fixture_step(&s->on.gpu));
        assert_ok(gantry_context_synchronize(s->on.gpu.context));
        assert_int_equal(s->ran, ran + 1);
        expect_right(s, s->jobs[0].calls);
    }
}

/* Run steps, each of which is one graph like the one before, with the work of the task that asks. */
static void expect_graphs(struct scene *s, uint32_t steps)
{
    const gantry_dispatcher_stats before = gpu_fixture_stats(&s->on.gpu);
    const uint32_t calls = s->jobs[OWN].calls;
    run(s, steps);
    const gantry_dispatcher_stats after = gpu_fixture_stats(&s->on.gpu);
    assert_true(own.is_captured);
    assert_int_equal(s->jobs[OWN].calls, calls + steps);
    assert_int_equal(after.graph_launches - before.graph_launches, steps);
    assert_int_equal(after.graph_instantiations, before.graph_instantiations);
    assert_int_equal(after.graph_cuts, before.graph_cuts);
}

/* Run steps in which it is called once and its stream is plain. */
static void expect_plain(struct scene *s, uint32_t steps)
{
    const uint32_t calls = s->jobs[OWN].calls;
    for (uint32_t i = 1; i <= steps; i++) {
        run(s, 1);
        assert_false(own.is_captured);
        assert_int_equal(s->jobs[OWN].calls, calls + i);
    }
}

/* ---- what it says is taken -------------------------------------------------------------------------------
 */

static void test_what_it_enqueues_is_part_of_the_graph(void **state)
{
    (void)state;
    static const gantry_submission ways[] = {GANTRY_SUBMISSION_AUTO, GANTRY_SUBMISSION_GRAPHS};
    for (int way = 0; way < 2; way++) {
        struct scene s;
        struct log_lines lines;
        open_in(&s, ways[way]);
        log_lines_begin(&lines, "on streams");
        run(&s, 3);
        assert_int_equal(s.jobs[OWN].calls, 3); /* also in the first steps */
        expect_graphs(&s, STEPS);
        assert_int_equal(log_lines_end(&lines), 0);
        close_scene(&s);
    }
}

/* It is called once more, and its function stays on streams; no work of others is lost.  In the second half
 * of the cases it could be captured for some steps.  Its first call is never captured.  Where that frees
 * memory, which may wait for the device, the function is not met, and then no call of it is made twice. */
static void test_what_cannot_be_captured_is_called_again_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct scene s;
        struct log_lines lines;
        const uint32_t good = i < 3 ? 1 : 4;
        open_in(&s, GANTRY_SUBMISSION_AUTO);
        log_lines_begin(&lines, "its callback runs on streams");
        own.trouble = i < 3 ? ALLOCATES + i % 3 : NONE;
        run(&s, good);
        assert_int_equal(s.jobs[OWN].calls, good);
        own.trouble = ALLOCATES + i % 3;
        run(&s, 1);
        const uint32_t again = s.jobs[OWN].calls - good - 1;
        assert_true(again == 1 || (again == 0 && i == 0));
        expect_plain(&s, STEPS);
        assert_int_equal(log_lines_end(&lines), again);
        close_scene(&s);
    }
}

static void test_on_streams_it_is_the_plain_stream(void **state)
{
    (void)state;
    struct scene s;
    open_in(&s, GANTRY_SUBMISSION_STREAMS);
    expect_plain(&s, STEPS);
    assert_int_equal(gpu_fixture_stats(&s.on.gpu).graph_launches, 0);
    close_scene(&s);
}

/* ---- beside gantry_launch_stream() -----------------------------------------------------------------------
 */

/* Who asks in both ways has not said it of all that is enqueued: nothing is captured that is enqueued behind
 * gantry_launch_stream(), in the first call, and nothing at all later. */
static void test_asking_in_both_ways_is_asking_plainly(void **state)
{
    (void)state;
    static const enum ask asks[] = {PLAIN, BEARS_THEN_PLAIN, PLAIN_THEN_BEARS};
    for (uint32_t i = 0; i < 6; i++) {
        struct scene s;
        struct log_lines lines;
        open_in(&s, GANTRY_SUBMISSION_AUTO);
        run(&s, i < 3 ? 0 : 4); /* captured aside from the call's beginning on */
        own.ask = asks[i % 3];
        log_lines_begin(&lines, "asks by gantry_launch_capture_stream()");
        expect_plain(&s, STEPS);
        own.ask = BEARS;
        expect_plain(&s, 2);
        assert_int_equal(log_lines_end(&lines), 1);
        close_scene(&s);
    }
}

/* In graphs mode both are captured, and auto knows which of them it was. */
static void test_graphs_mode_teaches_auto_what_was_said(void **state)
{
    (void)state;
    for (enum ask ask = BEARS; ask <= PLAIN_THEN_BEARS; ask++) {
        struct scene s;
        open_in(&s, GANTRY_SUBMISSION_GRAPHS);
        own.ask = ask;
        run(&s, 2);
        expect_graphs(&s, 2);
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.on.gpu.context),
                                                   GANTRY_SUBMISSION_AUTO));
        own.ask = BEARS;
        if (ask == BEARS) {
            expect_graphs(&s, STEPS);
        } else {
            expect_plain(&s, STEPS);
        }
        close_scene(&s);
    }
}

/* ---- another thread --------------------------------------------------------------------------------------
 */

/* A thread that the callback waits for may ask for a stream that is captured already, if it says that it
 * bears that.  Else it gets none, and the callback is called again on the plain stream.  In the first call,
 * which is not captured, it may ask for anything. */
static void test_another_thread_may_ask_for_what_is_captured_already(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct scene s;
        const uint32_t good = i < 2 ? 4 : 0;
        open_in(&s, GANTRY_SUBMISSION_AUTO);
        run(&s, good);
        own.on_a_thread = true;
        own.ask = i % 2 == 0 ? BEARS : PLAIN;
        if (good == 0) {
            run(&s, 3);
        }
        if (i == 1) {
            run(&s, 1);
            assert_int_equal(s.jobs[OWN].calls, good + 2);
            assert_int_equal(own.refused, GANTRY_ERR_STATE);
            expect_plain(&s, STEPS);
        } else {
            (i == 3 ? expect_plain : expect_graphs)(&s, STEPS);
            assert_int_equal(own.refused, GANTRY_OK);
        }
        close_scene(&s);
    }
}

/* ---- recordings, replays, partitions ---------------------------------------------------------------------
 */

static void test_a_recording_changes_nothing(void **state)
{
    (void)state;
    struct scene s;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile = NULL;
    open_in(&s, GANTRY_SUBMISSION_AUTO);
    run(&s, 3);
    options.path = "capture_stream.trace";
    assert_ok(gantry_profile_start(&options, &profile));
    run(&s, 2); /* the first recorded step of a shape may make its graph */
    expect_graphs(&s, STEPS);
    assert_ok(gantry_profile_stop(profile, NULL));
    run(&s, 2);
    expect_graphs(&s, STEPS);
    assert_int_equal(remove(options.path), 0);
    close_scene(&s);
}

static void test_stable_tasks_are_replayed_with_it(void **state)
{
    (void)state;
    for (enum ask ask = BEARS; ask <= PLAIN; ask++) {
        struct scene s;
        open_in(&s, GANTRY_SUBMISSION_AUTO);
        own.ask = ask;
        s.is_stable = true;
        submit(&s);
        assert_ok(gantry_taskman_freeze(s.on.gpu.manager));
        for (uint32_t step = 1; step <= 2 * STEPS; step++) {
            memset(s.on.stamps.cells, 0, 512);
            assert_ok(gantry_taskman_run(s.on.gpu.manager, 1));
            assert_ok(gantry_context_synchronize(s.on.gpu.context));
            expect_right(&s, s.jobs[0].calls);
        }
        if (ask == BEARS) {
            assert_true(gpu_fixture_stats(&s.on.gpu).graph_replays >= STEPS);
            assert_true(s.jobs[OWN].calls <= STEPS);
        }
        assert_ok(gantry_taskman_reset(s.on.gpu.manager));
        close_scene(&s);
    }
}

static void test_work_stays_in_its_partition(void **state)
{
    (void)state;
    gantry_partition_request requests[2] = {{.struct_size = sizeof(requests[0]), .name = "first"},
                                            {.struct_size = sizeof(requests[0]), .name = "second"}};
    requests[0].sm_count = requests[1].sm_count = 16;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = modes_options();
    struct scene s;
    plan.requests = requests;
    plan.count = 2;
    options.submission = GANTRY_SUBMISSION_AUTO;
    options.partitions = &plan;
    open_scene(&s, &options);
    s.by_turns = true;
    run(&s, STEPS);
    s.by_turns = false; /* now all in one, as a graph */
    run(&s, 3);
    expect_graphs(&s, STEPS);
    assert_int_equal(s.jobs[OWN].calls, 2 * STEPS + 3);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_enqueues_is_part_of_the_graph),
        cmocka_unit_test(test_what_cannot_be_captured_is_called_again_once),
        cmocka_unit_test(test_on_streams_it_is_the_plain_stream),
        cmocka_unit_test(test_asking_in_both_ways_is_asking_plainly),
        cmocka_unit_test(test_graphs_mode_teaches_auto_what_was_said),
        cmocka_unit_test(test_another_thread_may_ask_for_what_is_captured_already),
        cmocka_unit_test(test_a_recording_changes_nothing),
        cmocka_unit_test(test_stable_tasks_are_replayed_with_it),
        cmocka_unit_test(test_work_stays_in_its_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
