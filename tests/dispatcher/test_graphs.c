/* SPDX-License-Identifier: MIT */
/* Batches as graphs: which batches are captured, in how many parts, what cannot be captured, and what the
 * automatic mode chooses. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void test_steps_of_one_shape_share_an_executable_graph(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct modes_scene s;
    struct modes_job jobs[10] = {{0}};
    modes_open(&s, &options);
    for (uint32_t step = 0; step < 30; step++) {
        for (uint32_t i = 0; i < 10; i++) {
            jobs[i].spins = step; /* it has other arguments each time */
        }
        memset(s.stamps.cells, 0, 256);
        assert_ok(modes_run_chain(&s, modes_launch, jobs, 10));
        for (uint32_t i = 1; i < 10; i++) {
            assert_true(modes_end_of(&s, i - 1) < modes_begin_of(&s, i));
        }
    }
    gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_true(stats.graph_launches >= 30);
    assert_true(stats.graph_instantiations <= 3);
    assert_int_equal(stats.graph_cuts, 0);
    assert_int_equal(jobs[0].calls, 30);
    modes_close(&s);
}

/* The job's own work, or, in place of the second job's in the third step, a launch that no device takes: it
 * has at most 64 threads in z. */
static gantry_launch_result launch_too_deep(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    const struct stamps *stamps = &job->scene->stamps;
    const gantry_dim3 one = {1, 1, 1}, deep = {1, 1, 65};
    void *cell = &stamps->on_device[0];
    uint32_t spins = 0;
    void *args[] = {&cell, &cell, &cell, &spins};
    if (job->index != 1 || job->calls != 2) {
        return modes_launch(launch, arg);
    }
    job->calls++;
    return gantry_launch_kernel(launch, stamps->kernel, one, deep, 0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* A launch that the driver refuses fails its task.  It is no call that a capture forbids, so the callback is
 * not called again, and its function stays in graphs. */
static void test_a_refused_launch_keeps_its_function_in_graphs(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_GRAPHS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        gantry_context_options options = modes_options();
        options.submission = (gantry_submission)mode;
        struct modes_scene s;
        struct modes_job jobs[3] = {{0}};
        modes_open(&s, &options);
        gantry_context_dispatcher(s.gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
        for (uint32_t step = 1; step <= 5; step++) {
            assert_int_equal(modes_run_chain(&s, launch_too_deep, jobs, 3),
                             step == 3 ? GANTRY_ERR_DRIVER : GANTRY_OK);
            assert_int_equal(jobs[1].calls, step);
        }
        const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
        assert_ok(modes_run_chain(&s, launch_too_deep, jobs, 3));
        const gantry_dispatcher_stats now = gpu_fixture_stats(&s.gpu);
        /* the whole step was noted, as one batch, however auto has it done */
        assert_int_equal(now.graph_launches + now.graph_plays, stats.graph_launches + stats.graph_plays + 1);
        assert_int_equal(now.graph_cuts, stats.graph_cuts);
        modes_close(&s);
    }
}

enum { MOST_TASKS = 600 };

/* A step of so many tasks in pipelines, each after the one before it; a CPU task comes after the last of
 * them. */
static void run_pipelines(struct modes_scene *s, uint32_t pipelines, uint32_t count)
{
    static struct modes_job jobs[MOST_TASKS];
    gantry_task *tasks[MOST_TASKS];
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(&s->gpu, "done", modes_count_run, &ran);
    for (uint32_t i = 0; i < count; i++) {
        jobs[i] = (struct modes_job){s, i, 0, i + pipelines >= count ? done : NULL, false, 0};
        tasks[i] = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "part", modes_launch, &jobs[i]);
        if (i >= pipelines) {
            gpu_fixture_after(tasks[i], tasks[i - pipelines]);
        }
        if (jobs[i].completes != NULL) {
            gpu_fixture_after(done, tasks[i]);
        }
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_int_equal(ran, 1);
    for (uint32_t i = pipelines; i < count; i++) {
        assert_true(modes_end_of(s, i - pipelines) < modes_begin_of(s, i));
    }
}

/* How much four steps add to the counters, after everything that can be captured was tried. */
static void count_steps(uint32_t pipelines, uint32_t count, gantry_dispatcher_stats *before,
                        gantry_dispatcher_stats *after)
{
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct modes_scene s;
    modes_open(&s, &options);
    for (uint32_t step = 0; step < 6; step++) {
        if (step == 2) {
            *before = gpu_fixture_stats(&s.gpu);
        }
        run_pipelines(&s, pipelines, count);
    }
    *after = gpu_fixture_stats(&s.gpu);
    modes_close(&s);
}

/* In a batch of many calls the device begins while the rest is captured, in the same parts in every step. */
static void test_a_large_batch_is_launched_in_parts(void **state)
{
    (void)state;
    gantry_dispatcher_stats before, after;
    count_steps(6, MOST_TASKS, &before, &after);
    assert_int_equal(after.graph_launches - before.graph_launches, 4 * 2);
    assert_int_equal(after.graph_cuts - before.graph_cuts, 4);
    assert_int_equal(after.graph_instantiations, before.graph_instantiations);
}

/* Tasks that share streams because there are not enough share the same ones in every step. */
static void test_a_step_wider_than_the_streams_is_the_same_graph_again(void **state)
{
    (void)state;
    gantry_dispatcher_stats before, after;
    count_steps(45, 180, &before, &after); /* this is no multiple of the 32 streams */
    assert_int_equal(after.streams_peak, 32);
    assert_int_equal(after.graph_launches - before.graph_launches, 4);
    assert_int_equal(after.graph_instantiations, before.graph_instantiations);
}

/* The capture of any driver forbids this. */
static CUresult forbidden(gantry_launch *launch)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUdeviceptr address;
    CUresult result = driver->cuMemAlloc(&address, 256);
    return result == CUDA_SUCCESS ? driver->cuMemFree(address) : result;
}

static gantry_launch_result launch_forbidden(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    if (!modes_stamp(launch, job) || forbidden(launch) != CUDA_SUCCESS) {
        return GANTRY_LAUNCH_FAILED;
    }
    return modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_leaving(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    if (!modes_stamp(launch, job) || gantry_launch_leave_graph(launch) != GANTRY_OK ||
        forbidden(launch) != CUDA_SUCCESS) {
        return GANTRY_LAUNCH_FAILED;
    }
    return modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Run stamp → `odd` → modes_stamp, in graphs mode, three times; returns how often `odd` was called. */
static uint32_t run_odd(gantry_launch_fn odd)
{
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct modes_scene s;
    struct modes_job jobs[3] = {{0}};
    modes_open(&s, &options);
    for (int step = 0; step < 3; step++) {
        _Atomic(uint32_t) ran = 0;
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", modes_count_run, &ran);
        gantry_task *tasks[3];
        memset(s.stamps.cells, 0, 256);
        for (uint32_t i = 0; i < 3; i++) {
            jobs[i] = (struct modes_job){&s, i, 20, i == 2 ? done : NULL, false, jobs[i].calls};
            tasks[i] =
                gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "odd", i == 1 ? odd : modes_launch, &jobs[i]);
        }
        gpu_fixture_after(tasks[1], tasks[0]);
        gpu_fixture_after(tasks[2], tasks[1]);
        gpu_fixture_after(done, tasks[2]);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(ran, 1);
        assert_true(modes_end_of(&s, 0) < modes_begin_of(&s, 1));
        assert_true(modes_end_of(&s, 1) < modes_begin_of(&s, 2));
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_launches >= 6);
    modes_close(&s);
    return jobs[1].calls;
}

/* Do the same, and check that the log has named the task, once. */
static uint32_t run_odd_and_listen(gantry_launch_fn odd)
{
    struct log_lines lines;
    log_lines_begin(&lines, "task 'odd'");
    uint32_t calls = run_odd(odd);
    assert_int_equal(log_lines_end(&lines), 1);
    return calls;
}

static void test_a_callback_that_cannot_be_captured_is_called_again_on_streams(void **state)
{
    (void)state;
    assert_int_equal(run_odd_and_listen(launch_forbidden), 4);
}

static void test_a_callback_may_leave_the_graph(void **state)
{
    (void)state;
    assert_int_equal(run_odd_and_listen(launch_leaving), 3);
}

static gantry_launch_result launch_breaking_later(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    if (job->index == 3 && job->spins == 1) {
        (void)forbidden(launch);
        return GANTRY_LAUNCH_FAILED;
    }
    return modes_launch(launch, arg);
}

/* Only this task's work is enqueued again: the captured work of the others is launched. */
static void test_a_capture_broken_behind_our_back_costs_one_task(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.mode = GANTRY_CONTEXT_OWN;
    struct modes_scene s;
    struct modes_job jobs[6] = {{0}};
    modes_open(&s, &options);
    assert_ok(modes_run_chain(&s, launch_breaking_later, jobs, 6));
    jobs[3].spins = 1;
    assert_int_equal(modes_run_chain(&s, launch_breaking_later, jobs, 6), GANTRY_ERR_TASK_FAILED);
    assert_true(gantry_context_is_valid(s.gpu.context));
    jobs[3].spins = 0;
    assert_ok(modes_run_chain(&s, launch_breaking_later, jobs, 6));
    modes_close(&s);
}

static gantry_launch_result launch_pageable(gantry_launch *launch, void *arg)
{
    static uint32_t pageable[4];
    struct modes_job *job = arg;
    job->calls++;
    pageable[0] = job->calls;
    gantry_status status = gantry_launch_copy_htod(launch, job->scene->device, pageable, sizeof(pageable));
    pageable[0] = 0; /* this is too early for a graph, and early enough for a copy from pageable memory */
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_dtoh(launch, job->scene->stamps.cells + 100, job->scene->device, 16);
    }
    return status == GANTRY_OK && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_pageable_sources_are_never_read_late(void **state)
{
    (void)state;
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) {
        /* The copy reads pageable memory when it runs, so the test can only see that nothing is captured. */
        gantry_context_options options = modes_options();
        options.submission = GANTRY_SUBMISSION_GRAPHS;
        struct modes_scene s;
        struct modes_job jobs[1] = {{0}};
        modes_open(&s, &options);
        assert_ok(modes_run_chain(&s, launch_pageable, jobs, 1));
        uint64_t launches = gpu_fixture_stats(&s.gpu).graph_launches;
        assert_ok(modes_run_chain(&s, launch_pageable, jobs, 1));
        assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches, launches);
        modes_close(&s);
        return;
    }
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct modes_scene s;
    struct modes_job jobs[1] = {{0}};
    modes_open(&s, &options);
    for (uint32_t step = 1; step < 4; step++) {
        assert_ok(modes_run_chain(&s, launch_pageable, jobs, 1));
        assert_int_equal(s.stamps.cells[100], step);
    }
    modes_close(&s);
}

/* Work that a sync point within a capture comes after is behind the graph like all other work.  A task that
 * waits for its stream waits for the graph, since the stream itself comes after nothing until it gets more
 * work. */
static void test_work_before_a_sync_point_ends_with_its_graph(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct modes_scene s;
    modes_open(&s, &options);
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    /* in the first one, the callback's first call is captured alone */
    for (int round = 0; round < 3; round++) {
        struct modes_job jobs[3];
        gantry_task *tasks[3];
        _Atomic(uint32_t) ran = 0;
        for (uint32_t i = 0; i < 3; i++) {
            gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", modes_count_run, &ran);
            jobs[i] = (struct modes_job){&s, i, 200, done, i == 2, 0};
            tasks[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "t", modes_launch, &jobs[i]);
            gpu_fixture_after(done, tasks[i]);
        }
        gantry_dispatcher_start_group(d);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        gantry_dispatcher_finish_group(d);
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_int_equal(ran, 3);
        for (uint32_t i = 0; i < 3; i++) {
            gantry_task_launch_stats one = {.struct_size = sizeof(one)};
            assert_ok(gantry_task_get_launch_stats(tasks[i], &one));
            assert_true(d->streams.streams[one.stream - 1].line->seen == d->streams.barrier.generation ||
                        d->streams.streams[one.stream - 1].behind.end != NULL);
        }
        assert_ok(gantry_taskman_reset(s.gpu.manager));
    }
    modes_close(&s);
}

/* ---- pauses and hurry ----------------------------------------------------------------------- */

static struct {
    struct gy_graphs *graphs;
    _Atomic(bool) paused;
    _Atomic(uint32_t) captured; /* how many calls were in a capture meanwhile */
} pausing;

static gantry_launch_result launch_noting(gantry_launch *launch, void *arg)
{
    atomic_fetch_add(&pausing.captured,
                     atomic_load(&pausing.paused) && atomic_load(&pausing.graphs->gate.open));
    return modes_launch(launch, arg);
}

static void test_no_capture_begins_in_a_pause(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    static struct modes_scene s;
    static struct modes_job job;
    modes_open(&s, &options);
    pausing.graphs = &gantry_context_dispatcher(s.gpu.context)->graphs;
    job = (struct modes_job){.scene = &s};
    for (int round = 0; round < 5; round++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "noting", launch_noting, &job);
        gy_launch_gate_pause(&pausing.graphs->gate);
        atomic_store(&pausing.paused, true);
        uint32_t calls = job.calls;
        assert_ok(gantry_taskman_start(s.gpu.manager));
        for (int i = 0; i < 2000 && atomic_load(&pausing.captured) == 0; i++) {
            sched_yield(); /* a thread that would capture it may do so now */
        }
        assert_int_equal(job.calls, calls);
        atomic_store(&pausing.paused, false);
        gy_launch_gate_resume(&pausing.graphs->gate);
        assert_ok(gpu_fixture_stop(&s.gpu));
        assert_int_equal(atomic_load(&pausing.captured), 0);
        assert_int_equal(job.calls, calls + 1);
    }
    modes_close(&s);
}

static struct {
    struct gy_graphs *graphs;
    gantry_taskman *manager;
    _Atomic(bool) has_begun;
} hurry;

static void *wait_launched(void *arg)
{
    (void)arg;
    while (!atomic_load(&hurry.has_begun)) {
        sched_yield();
    }
    gy_launch_gate_wait(&hurry.graphs->gate, hurry.manager);
    return NULL;
}

/* The third task lets a thread wait for the capture, which ends before the fourth. */
static gantry_launch_result launch_hurried(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    if (job->index == 2) {
        atomic_store(&hurry.has_begun, true);
        while (atomic_load(&hurry.graphs->gate.waiting) == 0) {
            sched_yield();
        }
    }
    return modes_launch(launch, arg);
}

static void test_a_capture_is_cut_for_a_waiting_thread(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    static struct modes_scene s;
    static struct modes_job jobs[12];
    modes_open(&s, &options);
    hurry.graphs = &gantry_context_dispatcher(s.gpu.context)->graphs;
    hurry.manager = s.gpu.manager;
    uint64_t cuts = gpu_fixture_stats(&s.gpu).graph_cuts;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_launched, NULL), 0);
    assert_ok(modes_run_chain(&s, launch_hurried, jobs, 12));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(gpu_fixture_stats(&s.gpu).graph_cuts > cuts);
    modes_close(&s);
}

static gantry_launch_result launch_raw(gantry_launch *launch, void *arg)
{
    return gantry_launch_stream(launch) != NULL ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

/* Graphs that are updated as a whole: there is one shape more than there is room for.  The graph that was
 * not used for the longest time goes. */
static void test_the_cache_gives_up_the_oldest_graph(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    static struct modes_scene s;
    static struct modes_job jobs[GY_REFRESHED_MOST + 1];
    modes_open(&s, &options);
    for (uint32_t count = 2; count <= GY_REFRESHED_MOST + 1; count++) {
        assert_ok(modes_run_chain(&s, launch_raw, jobs, count));
    }
    uint64_t before = gpu_fixture_stats(&s.gpu).graph_instantiations;
    for (uint32_t count = GY_REFRESHED_MOST + 1; count >= 2; count--) {
        assert_ok(modes_run_chain(&s, launch_raw, jobs, count));
        assert_int_equal(gpu_fixture_stats(&s.gpu).graph_instantiations, before);
    }
    assert_ok(modes_run_chain(&s, launch_raw, jobs, 1)); /* this one is gone, and so is 33 then */
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_instantiations, before + 1);
    assert_ok(modes_run_chain(&s, launch_raw, jobs, 2));
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_instantiations, before + 1);
    assert_ok(modes_run_chain(&s, launch_raw, jobs, GY_REFRESHED_MOST + 1));
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_instantiations, before + 2);
    modes_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_one_shape_share_an_executable_graph),
        cmocka_unit_test(test_a_refused_launch_keeps_its_function_in_graphs),
        cmocka_unit_test(test_a_large_batch_is_launched_in_parts),
        cmocka_unit_test(test_a_step_wider_than_the_streams_is_the_same_graph_again),
        cmocka_unit_test(test_a_callback_that_cannot_be_captured_is_called_again_on_streams),
        cmocka_unit_test(test_a_callback_may_leave_the_graph),
        cmocka_unit_test(test_a_capture_broken_behind_our_back_costs_one_task),
        cmocka_unit_test(test_pageable_sources_are_never_read_late),
        cmocka_unit_test(test_work_before_a_sync_point_ends_with_its_graph),
        cmocka_unit_test(test_no_capture_begins_in_a_pause),
        cmocka_unit_test(test_a_capture_is_cut_for_a_waiting_thread),
        cmocka_unit_test(test_the_cache_gives_up_the_oldest_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
