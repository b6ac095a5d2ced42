/* The ways in which a dispatcher can be told to work: waits, sync points, synchronous mode, submission. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "driver/emulator/gantry_emu.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 2048u

struct scene {
    struct gpu_fixture gpu;
    struct stamps stamps;
    void *device; /* WORDS words */
};

static gantry_context_options default_options(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    return options;
}

static void open_scene(struct scene *s, const gantry_context_options *options)
{
    memset(s, 0, sizeof(*s));
    gpu_fixture_open_with(&s->gpu, 1, options);
    stamps_open(&s->stamps, s->gpu.context, WORDS * sizeof(uint32_t));
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("device"), &s->device));
}

static void close_scene(struct scene *s)
{
    if (gantry_context_is_valid(s->gpu.context)) { /* not every task here has a completion */
        assert_ok(gantry_context_acquire(s->gpu.context));
        assert_int_equal(s->gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(gantry_context_release(s->gpu.context));
    }
    stamps_close(&s->stamps);
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->device));
    gpu_fixture_close(&s->gpu);
}

/* What one GPU task of these tests does. */
struct job {
    struct scene *scene;
    uint32_t index;
    uint32_t spins;
    gantry_task *completes;
    bool sync_point;
    uint32_t calls;
};

static bool stamp(gantry_launch *launch, const struct job *job)
{
    uint32_t begin = 1 + 2 * job->index;
    return stamps_launch(&job->scene->stamps, launch, begin, begin + 1, job->spins) == GANTRY_OK;
}

static bool complete(gantry_launch *launch, const struct job *job)
{
    return job->completes == NULL || gantry_launch_add_completion(launch, job->completes) == GANTRY_OK;
}

static gantry_launch_result launch_stamp(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    job->calls++;
    if (job->sync_point && gantry_launch_request_sync_point(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return stamp(launch, job) && complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status count_run(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((_Atomic(uint32_t) *)arg, 1);
    return GANTRY_OK;
}

static uint32_t begin_of(const struct scene *s, uint32_t index)
{
    return s->stamps.cells[1 + 2 * index];
}

static uint32_t end_of(const struct scene *s, uint32_t index)
{
    return s->stamps.cells[2 + 2 * index];
}

/* A step of `count` jobs in a row (each after the one before) that ends with a completion. */
static gantry_status run_chain(struct scene *s, gantry_launch_fn launch, struct job *jobs, uint32_t count)
{
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(&s->gpu, "done", count_run, &ran);
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        jobs[i].scene = s;
        jobs[i].index = i;
        jobs[i].completes = i + 1 == count ? done : NULL;
        gantry_task *task = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "link", launch, &jobs[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    gpu_fixture_after(done, before);
    gantry_status status = gpu_fixture_step(&s->gpu);
    assert_int_equal(ran, status == GANTRY_OK);
    return status;
}

static void test_every_wait_mode_completes(void **state)
{
    (void)state;
    static const gantry_wait_mode modes[] = {GANTRY_WAIT_DEFAULT, GANTRY_WAIT_BLOCK,  GANTRY_WAIT_YIELD,
                                             GANTRY_WAIT_SPIN,    GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        gantry_context_options options = default_options();
        options.completion_wait = modes[m];
        struct scene s;
        struct job jobs[4] = {{.spins = 50}};
        open_scene(&s, &options);
        for (int step = 0; step < 5; step++) {
            assert_ok(run_chain(&s, launch_stamp, jobs, 4));
        }
        close_scene(&s);
    }
}

/* ---- back-pressure ------------------------------------------------------------------------- */

#define COMPLETIONS (GY_COMPLETION_SLOTS + 500u)

static void wait_for_go(void *user)
{
    while (!atomic_load((_Atomic(bool) *)user)) {
        sched_yield();
    }
}

/* The stream goes on when the flag is set. */
static gantry_launch_result launch_gate(gantry_launch *launch, void *arg)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    return driver->cuLaunchHostFunc(gantry_launch_stream(launch), wait_for_go, arg) == CUDA_SUCCESS
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_completing(gantry_launch *launch, void *arg)
{
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_a_full_ring_holds_the_dispatcher_back(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    struct scene s;
    _Atomic(bool) go = false;
    _Atomic(uint32_t) ran = 0;
    open_scene(&s, &options);
    gantry_task *before = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "gate", launch_gate, &go);
    for (uint32_t i = 0; i < COMPLETIONS; i++) {
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", count_run, &ran);
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "work", launch_completing, done);
        gpu_fixture_after(task, before);
        gpu_fixture_after(done, task);
        before = task;
    }
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (gpu_fixture_stats(&s.gpu).completions < GY_COMPLETION_SLOTS) {
        sched_yield();
    }
    /* Not one more fits, and none is told: the device is at the gate. */
    assert_int_equal(gpu_fixture_stats(&s.gpu).completions, GY_COMPLETION_SLOTS);
    assert_int_equal(atomic_load(&ran), 0);
    atomic_store(&go, true);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(atomic_load(&ran), COMPLETIONS);
    assert_int_equal(gpu_fixture_stats(&s.gpu).completions, COMPLETIONS);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

/* ---- fills, copies, statistics ------------------------------------------------------------- */

static gantry_launch_result launch_fill_and_copy(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    uint32_t *words = job->scene->device;
    bool good = gantry_launch_fill(launch, words, 0xa1b2c3d4u, 4, 8) == GANTRY_OK &&
                gantry_launch_fill(launch, words + 8, 0x77665544u, 2, 4) == GANTRY_OK &&
                gantry_launch_fill(launch, words + 10, 0x99u, 1, 8) == GANTRY_OK &&
                gantry_launch_copy_dtod(launch, words + 100, words, 48) == GANTRY_OK &&
                gantry_launch_copy_dtoh(launch, job->scene->stamps.cells, words + 100, 48) == GANTRY_OK &&
                gantry_launch_fill(launch, words, 1, 3, 4) == GANTRY_ERR_INVALID_ARGUMENT &&
                gantry_launch_fill(launch, (char *)words + 1, 1, 2, 4) == GANTRY_ERR_INVALID_ARGUMENT &&
                gantry_launch_fill(launch, NULL, 1, 1, 4) == GANTRY_ERR_INVALID_ARGUMENT &&
                gantry_launch_fill(launch, words, 1, 1, 0) == GANTRY_OK;
    return good && complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_fills_and_device_copies_do_what_they_say(void **state)
{
    (void)state;
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (int m = 0; m < 2; m++) {
        gantry_context_options options = default_options();
        options.submission = modes[m];
        struct scene s;
        struct job jobs[1] = {{0}};
        open_scene(&s, &options);
        for (int step = 0; step < 3; step++) {
            memset(s.stamps.cells, 0, 64);
            assert_ok(run_chain(&s, launch_fill_and_copy, jobs, 1));
            for (int i = 0; i < 8; i++) {
                assert_int_equal(s.stamps.cells[i], 0xa1b2c3d4u);
            }
            assert_int_equal(s.stamps.cells[8], 0x55445544u);
            assert_int_equal(s.stamps.cells[9], 0x55445544u);
            assert_int_equal(s.stamps.cells[10], 0x99999999u);
            assert_int_equal(s.stamps.cells[11], 0x99999999u);
        }
        close_scene(&s);
    }
}

static void test_statistics_tell_tasks_phases_and_batches(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    struct scene s;
    struct job job = {.spins = 1};
    open_scene(&s, &options);
    job.scene = &s;
    gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_DTOH, "one", launch_stamp, &job);
    gantry_task *cpu = gpu_fixture_cpu(&s.gpu, "sync", NULL, NULL);
    gantry_task_launch_stats one = {.struct_size = sizeof(one)};
    assert_int_equal(gantry_task_get_launch_stats(task, &one), GANTRY_ERR_STATE);
    assert_int_equal(gantry_task_get_launch_stats(cpu, &one), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_ok(gantry_task_get_launch_stats(task, &one));
    assert_int_equal(one.launch_calls, 1);
    assert_int_equal(one.stream, 1);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    assert_int_equal(gpu_fixture_stats(&s.gpu).phase_tasks[2], 1);
    struct job jobs[3] = {{0}};
    assert_ok(run_chain(&s, launch_stamp, jobs, 3)); /* its completion is flushed after its batch's phases */
    assert_int_equal(gpu_fixture_stats(&s.gpu).phase_tasks[1], 3);
    assert_ok(run_chain(&s, launch_stamp, jobs, 2)); /* by now the batch before has ended */
    gantry_batch_stats batch = {.struct_size = sizeof(batch)};
    assert_ok(gantry_dispatcher_get_batch_stats(gantry_context_dispatcher(s.gpu.context), &batch));
    assert_true(batch.number == 2 || batch.number == 3);
    assert_int_equal(batch.tasks, batch.number == 2 ? 3 : 2);
    assert_int_equal(batch.launch_calls, batch.tasks);
    assert_int_equal(batch.phase_tasks[1], batch.tasks);
    assert_int_equal(batch.as_graph, 0);
    assert_true(batch.ns >= batch.phase_ns[1]);
    assert_int_equal(gantry_dispatcher_get_batch_stats(NULL, &batch), GANTRY_ERR_INVALID_ARGUMENT);
    close_scene(&s);
}

/* ---- sync points --------------------------------------------------------------------------- */

static void check_sync_point(gantry_submission submission)
{
    gantry_context_options options = default_options();
    options.submission = submission;
    struct scene s;
    open_scene(&s, &options);
    for (int round = 0; round < 20; round++) {
        struct job jobs[9];
        _Atomic(uint32_t) ran = 0;
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", count_run, &ran);
        memset(s.stamps.cells, 0, 256);
        /* Nine tasks that do not depend on each other; the fifth asks for a sync point. */
        for (uint32_t i = 0; i < 9; i++) {
            jobs[i] = (struct job){&s, i, 200, done, i == 4, 0};
            gpu_fixture_after(done, gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "t", launch_stamp, &jobs[i]));
        }
        gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
        gantry_dispatcher_start_group(d);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        gantry_dispatcher_finish_group(d);
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t j = 4; j < 9; j++) {
                assert_true(end_of(&s, i) < begin_of(&s, j));
            }
        }
    }
    close_scene(&s);
}

static void test_nothing_passes_a_sync_point(void **state)
{
    (void)state;
    check_sync_point(GANTRY_SUBMISSION_STREAMS);
    check_sync_point(GANTRY_SUBMISSION_GRAPHS);
}

static void test_the_stream_switch_takes_effect_between_steps(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    struct scene s;
    open_scene(&s, &options);
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    assert_true(gantry_dispatcher_get_concurrent_streams(d));
    gantry_dispatcher_set_concurrent_streams(d, false);
    assert_false(gantry_dispatcher_get_concurrent_streams(d));
    struct job jobs[4] = {{0}};
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            jobs[i] = (struct job){.scene = &s, .index = i};
            gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "t", launch_stamp, &jobs[i]);
        }
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(gpu_fixture_stats(&s.gpu).streams_created > 1, round == 1);
        gantry_dispatcher_set_concurrent_streams(d, true);
    }
    close_scene(&s);
}

/* ---- graphs -------------------------------------------------------------------------------- */

static void test_steps_of_one_shape_share_an_executable_graph(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct scene s;
    struct job jobs[10] = {{0}};
    open_scene(&s, &options);
    for (uint32_t step = 0; step < 30; step++) {
        for (uint32_t i = 0; i < 10; i++) {
            jobs[i].spins = step; /* other arguments each time */
        }
        memset(s.stamps.cells, 0, 256);
        assert_ok(run_chain(&s, launch_stamp, jobs, 10));
        for (uint32_t i = 1; i < 10; i++) {
            assert_true(end_of(&s, i - 1) < begin_of(&s, i));
        }
    }
    gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_true(stats.graph_launches >= 30);
    assert_true(stats.graph_instantiations <= 3);
    assert_int_equal(stats.graph_cuts, 0); /* the first call is captured alone, but is the first anyway */
    assert_int_equal(jobs[0].calls, 30);
    close_scene(&s);
}

/* A batch of many calls: the device begins while the rest is captured, in the same parts in every step. */
static void test_a_large_batch_is_launched_in_parts(void **state)
{
    enum { PIPELINES = 6, TASKS = 600 };
    static struct job jobs[TASKS];
    gantry_task *tasks[TASKS];
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct scene s;
    gantry_dispatcher_stats before = {0};
    open_scene(&s, &options);
    for (uint32_t step = 0; step < 6; step++) {
        _Atomic(uint32_t) ran = 0;
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", count_run, &ran);
        for (uint32_t i = 0; i < TASKS; i++) {
            jobs[i] = (struct job){&s, i, 0, i + PIPELINES >= TASKS ? done : NULL, false, 0};
            tasks[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "part", launch_stamp, &jobs[i]);
            if (i >= PIPELINES) {
                gpu_fixture_after(tasks[i], tasks[i - PIPELINES]);
            }
            if (jobs[i].completes != NULL) {
                gpu_fixture_after(done, tasks[i]);
            }
        }
        before =
            step == 2 ? gpu_fixture_stats(&s.gpu) : before; /* the first steps try what can be captured */
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(ran, 1);
        for (uint32_t i = PIPELINES; i < TASKS; i++) {
            assert_true(end_of(&s, i - PIPELINES) < begin_of(&s, i));
        }
    }
    gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_int_equal(stats.graph_launches - before.graph_launches, 4 * 2);
    assert_int_equal(stats.graph_cuts - before.graph_cuts, 4);
    assert_int_equal(stats.graph_instantiations, before.graph_instantiations);
    close_scene(&s);
}

/* Every driver's capture forbids this. */
static CUresult forbidden(gantry_launch *launch)
{
    return launch->dispatcher->config.context->driver->cuStreamSynchronize(launch->stream);
}

static gantry_launch_result launch_forbidden(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    job->calls++;
    if (!stamp(launch, job) || forbidden(launch) != CUDA_SUCCESS) {
        return GANTRY_LAUNCH_FAILED;
    }
    return complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_leaving(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    job->calls++;
    if (!stamp(launch, job) || gantry_launch_leave_graph(launch) != GANTRY_OK ||
        forbidden(launch) != CUDA_SUCCESS) {
        return GANTRY_LAUNCH_FAILED;
    }
    return complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* stamp → `odd` → stamp, in graphs mode, three times; how often `odd` was called. */
static uint32_t run_odd(gantry_launch_fn odd)
{
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct scene s;
    struct job jobs[3] = {{0}};
    open_scene(&s, &options);
    for (int step = 0; step < 3; step++) {
        _Atomic(uint32_t) ran = 0;
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", count_run, &ran);
        gantry_task *tasks[3];
        memset(s.stamps.cells, 0, 256);
        for (uint32_t i = 0; i < 3; i++) {
            jobs[i] = (struct job){&s, i, 20, i == 2 ? done : NULL, false, jobs[i].calls};
            tasks[i] =
                gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "odd", i == 1 ? odd : launch_stamp, &jobs[i]);
        }
        gpu_fixture_after(tasks[1], tasks[0]);
        gpu_fixture_after(tasks[2], tasks[1]);
        gpu_fixture_after(done, tasks[2]);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(ran, 1);
        assert_true(end_of(&s, 0) < begin_of(&s, 1));
        assert_true(end_of(&s, 1) < begin_of(&s, 2));
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_launches >= 6);
    close_scene(&s);
    return jobs[1].calls;
}

/* The same; the log has named the task, once. */
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
    struct job *job = arg;
    if (job->index == 3 && job->spins == 1) {
        (void)forbidden(launch);
        return GANTRY_LAUNCH_FAILED;
    }
    return launch_stamp(launch, arg);
}

static void test_a_capture_broken_behind_our_back_is_never_silent(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.mode = GANTRY_CONTEXT_OWN;
    struct scene s;
    struct job jobs[6] = {{0}};
    open_scene(&s, &options);
    assert_ok(run_chain(&s, launch_breaking_later, jobs, 6));
    jobs[3].spins = 1;
    assert_int_equal(run_chain(&s, launch_breaking_later, jobs, 6), GANTRY_ERR_DEVICE_LOST);
    assert_non_null(strstr(gantry_last_error(), "gantry_launch_leave_graph"));
    close_scene(&s);
}

static gantry_launch_result launch_pageable(gantry_launch *launch, void *arg)
{
    static uint32_t pageable[4];
    struct job *job = arg;
    job->calls++;
    pageable[0] = job->calls;
    gantry_status status = gantry_launch_copy_htod(launch, job->scene->device, pageable, sizeof(pageable));
    pageable[0] = 0; /* too early for a graph, not for a copy from pageable memory */
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_dtoh(launch, job->scene->stamps.cells + 100, job->scene->device, 16);
    }
    return status == GANTRY_OK && complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_pageable_sources_are_never_read_late(void **state)
{
    (void)state;
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) {
        /* It reads pageable memory when the copy runs; what can be seen is that nothing is captured. */
        gantry_context_options options = default_options();
        options.submission = GANTRY_SUBMISSION_GRAPHS;
        struct scene s;
        struct job jobs[1] = {{0}};
        open_scene(&s, &options);
        assert_ok(run_chain(&s, launch_pageable, jobs, 1));
        uint64_t launches = gpu_fixture_stats(&s.gpu).graph_launches;
        assert_ok(run_chain(&s, launch_pageable, jobs, 1));
        assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches, launches);
        close_scene(&s);
        return;
    }
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    struct scene s;
    struct job jobs[1] = {{0}};
    open_scene(&s, &options);
    for (uint32_t step = 1; step < 4; step++) {
        assert_ok(run_chain(&s, launch_pageable, jobs, 1));
        assert_int_equal(s.stamps.cells[100], step);
    }
    close_scene(&s);
}

/* A shape's batches cost so much per call as streams, and as graphs: which way does the last of many go? */
static bool settles_on_graphs(struct gy_graphs *graphs, uint64_t shape, uint64_t streams_ns,
                              uint64_t graph_ns)
{
    bool as_graph = false;
    for (int batch = 0; batch < 20; batch++) {
        as_graph = gy_graphs_choose(graphs, shape);
        uint64_t ns = as_graph ? graph_ns : streams_ns;
        gy_graphs_learn(graphs, shape, as_graph, batch % 3 == 0 ? 10 * ns : ns, 10); /* some are disturbed */
    }
    return as_graph;
}

static void test_auto_keeps_what_costs_less_for_each_shape(void **state)
{
    (void)state;
    static struct gy_graphs graphs;
    memset(&graphs, 0, sizeof(graphs));
    assert_true(settles_on_graphs(&graphs, 1, 4000, 600));
    assert_false(settles_on_graphs(&graphs, 2, 4000, 9000));
    assert_true(gy_graphs_choose(&graphs, 1));
    assert_false(gy_graphs_choose(&graphs, 2));
    /* After some hundred batches it looks again: the machine has changed. */
    for (int batch = 0; batch < 600; batch++) {
        bool as_graph = gy_graphs_choose(&graphs, 1);
        gy_graphs_learn(&graphs, 1, as_graph, as_graph ? 9000 : 4000, 10);
    }
    assert_false(gy_graphs_choose(&graphs, 1));
}

static void test_auto_tries_both_and_settles(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_AUTO;
    struct scene s;
    struct job jobs[10] = {{0}};
    open_scene(&s, &options);
    for (int step = 0; step < 30; step++) {
        assert_ok(run_chain(&s, launch_stamp, jobs, 10));
    }
    gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_true(stats.graph_launches >= 4);
    assert_true(stats.graph_launches <= stats.batches - 4);
    assert_int_equal(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.gpu.context), 9),
                     GANTRY_ERR_INVALID_ARGUMENT);
    close_scene(&s);
}

/* ---- synchronous mode ---------------------------------------------------------------------- */

static void check_synchronous(bool by_environment)
{
    struct gantry_emu_control emu;
    gantry_context_options options = default_options();
    options.mode = GANTRY_CONTEXT_OWN;
    options.submission = GANTRY_SUBMISSION_GRAPHS; /* overruled */
    options.synchronous = !by_environment;
    if (by_environment) {
        assert_int_equal(setenv("GANTRY_SYNC", "1", 1), 0);
    }
    struct scene s;
    open_scene(&s, &options);
    (void)unsetenv("GANTRY_SYNC");
#define X(result, name, parameters) *(void **)&emu.name = gpu_fixture_emulator("gantry_emu_" #name);
    GANTRY_EMU_CONTROLS(X)
#undef X
    static const char *const names[] = {"alpha", "beta", "gamma", "delta"};
    struct job jobs[4];
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < 4; i++) {
        jobs[i] = (struct job){.scene = &s, .index = i};
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, names[i], launch_stamp, &jobs[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_int_equal(emu.fail_kernel(3, 719, GANTRY_EMU_ONCE), 0);
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_DEVICE_LOST);
    assert_non_null(strstr(gantry_last_error(), "'gamma'"));
    assert_int_equal(jobs[3].calls, 0);
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches, 0);
    emu.clear_faults();
    close_scene(&s);
}

static void test_synchronous_mode_names_the_task_that_failed(void **state)
{
    (void)state;
    check_synchronous(false);
    check_synchronous(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wait_mode_completes),
        cmocka_unit_test(test_a_full_ring_holds_the_dispatcher_back),
        cmocka_unit_test(test_fills_and_device_copies_do_what_they_say),
        cmocka_unit_test(test_statistics_tell_tasks_phases_and_batches),
        cmocka_unit_test(test_nothing_passes_a_sync_point),
        cmocka_unit_test(test_the_stream_switch_takes_effect_between_steps),
        cmocka_unit_test(test_steps_of_one_shape_share_an_executable_graph),
        cmocka_unit_test(test_a_large_batch_is_launched_in_parts),
        cmocka_unit_test(test_a_callback_that_cannot_be_captured_is_called_again_on_streams),
        cmocka_unit_test(test_a_callback_may_leave_the_graph),
        cmocka_unit_test(test_a_capture_broken_behind_our_back_is_never_silent),
        cmocka_unit_test(test_pageable_sources_are_never_read_late),
        cmocka_unit_test(test_auto_keeps_what_costs_less_for_each_shape),
        cmocka_unit_test(test_auto_tries_both_and_settles),
        cmocka_unit_test(test_synchronous_mode_names_the_task_that_failed),
    };
    /* Failing kernels are the emulated driver's. */
    size_t count = sizeof(tests) / sizeof(tests[0]) - (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED);
    return _cmocka_run_group_tests("modes", tests, count, NULL, NULL);
}
