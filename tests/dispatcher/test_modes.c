/* SPDX-License-Identifier: MIT */
/* The settings of a dispatcher: wait modes, sync points, synchronous mode. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "emulator/gantry_emu.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const gantry_wait_mode wait_modes[] = {GANTRY_WAIT_DEFAULT, GANTRY_WAIT_BLOCK,  GANTRY_WAIT_YIELD,
                                              GANTRY_WAIT_SPIN,    GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};

static void test_every_wait_mode_completes(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof(wait_modes) / sizeof(wait_modes[0]); m++) {
        gantry_context_options options = modes_options();
        options.completion_wait = wait_modes[m];
        struct modes_scene s;
        struct modes_job jobs[4] = {{.spins = 50}};
        modes_open(&s, &options);
        for (int step = 0; step < 5; step++) {
            assert_ok(modes_run_chain(&s, modes_launch, jobs, 4));
        }
        modes_close(&s);
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
    gantry_context_options options = modes_options();
    struct modes_scene s;
    _Atomic(bool) go = false;
    _Atomic(uint32_t) ran = 0;
    modes_open(&s, &options);
    gantry_task *before = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "gate", launch_gate, &go);
    for (uint32_t i = 0; i < COMPLETIONS; i++) {
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", modes_count_run, &ran);
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "work", launch_completing, done);
        gpu_fixture_after(task, before);
        gpu_fixture_after(done, task);
        before = task;
    }
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (gpu_fixture_stats(&s.gpu).completions < GY_COMPLETION_SLOTS) {
        sched_yield();
    }
    /* No more completions fit, and none is told: the device is stopped at the gate. */
    assert_int_equal(gpu_fixture_stats(&s.gpu).completions, GY_COMPLETION_SLOTS);
    assert_int_equal(atomic_load(&ran), 0);
    atomic_store(&go, true);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(atomic_load(&ran), COMPLETIONS);
    assert_int_equal(gpu_fixture_stats(&s.gpu).completions, COMPLETIONS);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    modes_close(&s);
}

static gantry_status open_gate(gantry_task *task, void *arg)
{
    (void)task;
    atomic_store((_Atomic(bool) *)arg, true);
    return GANTRY_OK;
}

struct gated {
    _Atomic(bool) *go;
    gantry_task *completes;
};

static gantry_launch_result launch_gate_completing(gantry_launch *launch, void *arg)
{
    const struct gated *gated = arg;
    return launch_gate(launch, gated->go) == GANTRY_LAUNCH_DONE ? launch_completing(launch, gated->completes)
                                                                : GANTRY_LAUNCH_FAILED;
}

/* More completions than fit are told while the one that was asked for first waits for them. */
static void test_completions_do_not_wait_for_older_work(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof(wait_modes) / sizeof(wait_modes[0]); m++) {
        gantry_context_options options = modes_options();
        struct modes_scene s;
        _Atomic(bool) go = false;
        _Atomic(uint32_t) ran = 0;
        options.completion_wait = wait_modes[m];
        modes_open(&s, &options);
        struct gated gated = {&go, gpu_fixture_cpu(&s.gpu, "late", modes_count_run, &ran)};
        gantry_task *gate =
            gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "gate", launch_gate_completing, &gated);
        gantry_task *opens = gpu_fixture_cpu(&s.gpu, "open", open_gate, &go), *before = NULL;
        gpu_fixture_after(gated.completes, gate);
        for (uint32_t i = 0; i < COMPLETIONS; i++) {
            gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", modes_count_run, &ran);
            gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "work", launch_completing, done);
            if (before != NULL) {
                gpu_fixture_after(task, before);
            }
            gpu_fixture_after(done, task);
            gpu_fixture_after(opens, done);
            before = task;
        }
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(atomic_load(&ran), COMPLETIONS + 1);
        modes_close(&s);
    }
}

struct of_all {
    gantry_task *own, *all; /* one is completed behind the task's own work, the other behind all work */
    _Atomic(bool) go;
    _Atomic(uint32_t) own_ran, all_ran;
};

static gantry_launch_result launch_of_all(gantry_launch *launch, void *arg)
{
    struct of_all *o = arg;
    return gantry_launch_add_completion(launch, o->own) == GANTRY_OK &&
                   gantry_launch_add_completion_of_all(launch, o->all) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* One task waits for the work that another task has enqueued before, on a stream of its own, and the other
 * does not. */
static void test_a_completion_may_cover_all_work(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        gantry_context_options options = modes_options();
        struct modes_scene s;
        struct of_all o = {.go = false};
        modes_open(&s, &options);
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.gpu.context),
                                                   (gantry_submission)mode));
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_HTOD, "gate", launch_gate, &o.go);
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "task", launch_of_all, &o);
        o.own = gpu_fixture_cpu(&s.gpu, "own", modes_count_run, &o.own_ran);
        o.all = gpu_fixture_cpu(&s.gpu, "all", modes_count_run, &o.all_ran);
        gpu_fixture_after(o.own, task);
        gpu_fixture_after(o.all, task);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        while (mode == GANTRY_SUBMISSION_STREAMS && atomic_load(&o.own_ran) == 0) {
            sched_yield();
        }
        for (int i = 0; i < 1000; i++) {
            sched_yield(); /* a task that would be released too early may run now */
        }
        uint32_t early = atomic_load(&o.all_ran);
        atomic_store(&o.go, true);
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_int_equal(early, 0);
        assert_int_equal(o.own_ran + o.all_ran, 2);
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        modes_close(&s);
    }
}

struct burst {
    gantry_task *done[COMPLETIONS];
    _Atomic(bool) go;
    _Atomic(uint32_t) ran, early;
};

static gantry_status run_after_gate(gantry_task *task, void *arg)
{
    (void)task;
    struct burst *burst = arg;
    atomic_fetch_add(&burst->early, !atomic_load(&burst->go));
    atomic_fetch_add(&burst->ran, 1);
    return GANTRY_OK;
}

static gantry_launch_result launch_burst(gantry_launch *launch, void *arg)
{
    struct burst *burst = arg;
    bool good = launch_gate(launch, &burst->go) == GANTRY_LAUNCH_DONE;
    for (uint32_t i = 0; i < COMPLETIONS && good; i++) {
        good = gantry_launch_add_completion(launch, burst->done[i]) == GANTRY_OK;
    }
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* The ring is flushed while the call that fills it is under way, and the timeline point of that call is
 * still open. */
static void test_one_call_with_more_completions_than_fit(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    struct modes_scene s;
    static struct burst burst;
    modes_open(&s, &options);
    for (int step = 0; step < 2; step++) { /* once on a stream that is new, once on a used one */
        memset(&burst, 0, sizeof(burst));
        gantry_task *work = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "work", launch_burst, &burst);
        for (uint32_t i = 0; i < COMPLETIONS; i++) {
            burst.done[i] = gpu_fixture_cpu(&s.gpu, "done", run_after_gate, &burst);
            gpu_fixture_after(burst.done[i], work);
        }
        uint64_t before = gpu_fixture_stats(&s.gpu).completions;
        assert_ok(gantry_taskman_start(s.gpu.manager));
        while (gpu_fixture_stats(&s.gpu).completions < before + GY_COMPLETION_SLOTS) {
            sched_yield();
        }
        for (int i = 0; i < 1000; i++) {
            sched_yield(); /* a task that would be released too early may run now */
        }
        assert_int_equal(gpu_fixture_stats(&s.gpu).completions, before + GY_COMPLETION_SLOTS);
        atomic_store(&burst.go, true);
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_int_equal(atomic_load(&burst.ran), COMPLETIONS);
        assert_int_equal(atomic_load(&burst.early), 0);
        assert_ok(gantry_taskman_reset(s.gpu.manager));
    }
    modes_close(&s);
}

/* The ring is full, and the context is lost when it is flushed: all tasks in it are released in the end. */
static void test_a_full_ring_that_cannot_be_flushed_keeps_no_task(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gantry_context_options options = modes_options();
    options.mode = GANTRY_CONTEXT_OWN;
    static struct modes_scene s;
    static struct burst burst;
    modes_open(&s, &options);
    assert_true(gpu_fixture_controls(&emu));
    memset(&burst, 0, sizeof(burst));
    atomic_store(&burst.go, true);
    gantry_task *work = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "work", launch_burst, &burst);
    for (uint32_t i = 0; i < COMPLETIONS; i++) {
        burst.done[i] = gpu_fixture_cpu(&s.gpu, "done", run_after_gate, &burst);
        gpu_fixture_after(burst.done[i], work);
    }
    assert_int_equal((emu.fail)("cuEventRecord", 1, 719, GANTRY_EMU_ONCE), 0);
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(atomic_load(&burst.ran), 0);
    emu.clear_faults();
    modes_close(&s);
}

/* ---- fills, copies, statistics ------------------------------------------------------------- */

static gantry_launch_result launch_fill_and_copy(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
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
    return good && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_fills_and_device_copies_do_what_they_say(void **state)
{
    (void)state;
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (int m = 0; m < 2; m++) {
        gantry_context_options options = modes_options();
        options.submission = modes[m];
        struct modes_scene s;
        struct modes_job jobs[1] = {{0}};
        modes_open(&s, &options);
        for (int step = 0; step < 3; step++) {
            memset(s.stamps.cells, 0, 64);
            assert_ok(modes_run_chain(&s, launch_fill_and_copy, jobs, 1));
            for (int i = 0; i < 8; i++) {
                assert_int_equal(s.stamps.cells[i], 0xa1b2c3d4u);
            }
            assert_int_equal(s.stamps.cells[8], 0x55445544u);
            assert_int_equal(s.stamps.cells[9], 0x55445544u);
            assert_int_equal(s.stamps.cells[10], 0x99999999u);
            assert_int_equal(s.stamps.cells[11], 0x99999999u);
        }
        modes_close(&s);
    }
}

static gantry_task *submit_completing(struct modes_scene *s, gantry_task_kind kind, struct modes_job *job,
                                      _Atomic(uint32_t) *ran)
{
    *job = (struct modes_job){.scene = s, .index = job->index};
    job->completes = gpu_fixture_cpu(&s->gpu, "done", modes_count_run, ran);
    gantry_task *task = gpu_fixture_gpu(&s->gpu, kind, "completing", modes_launch, job);
    gpu_fixture_after(job->completes, task);
    return task;
}

/* There is one flush per round trip, when its last phase is over.  But a CPU task in the middle of a step
 * that everything else waits for is released before that is over. */
static void test_completions_are_flushed_once_per_round_trip(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    struct modes_scene s;
    struct modes_job jobs[6] = {{.index = 0}, {.index = 1}, {.index = 2},
                                {.index = 3}, {.index = 4}, {.index = 5}};
    _Atomic(uint32_t) ran = 0;
    gantry_task *before = NULL;
    modes_open(&s, &options);
    for (int i = 0; i < 6; i++) { /* two of each flavour, the second after the first */
        gantry_task_kind kind = (gantry_task_kind)(GANTRY_TASK_HTOD + i / 2);
        gantry_task *task = submit_completing(&s, kind, &jobs[i], &ran);
        if (i % 2 != 0) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(ran, 6);
    assert_int_equal(gpu_fixture_stats(&s.gpu).flushes, 1);
    (void)submit_completing(&s, GANTRY_TASK_HTOD, &jobs[0], &ran);
    gpu_fixture_after(submit_completing(&s, GANTRY_TASK_KERNEL, &jobs[1], &ran), jobs[0].completes);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(ran, 8);
    gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_int_equal(stats.flushes, 3);
    assert_int_equal(stats.completions, 8);
    modes_close(&s);
}

static void test_statistics_tell_tasks_phases_and_batches(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_STREAMS; /* the streams and batches of the tasks are counted */
    struct modes_scene s;
    struct modes_job job = {.spins = 1};
    modes_open(&s, &options);
    job.scene = &s;
    gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_DTOH, "one", modes_launch, &job);
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
    struct modes_job jobs[3] = {{0}};
    assert_ok(
        /* its completion is flushed after the phases of its batch */
        modes_run_chain(&s, modes_launch, jobs, 3));
    assert_int_equal(gpu_fixture_stats(&s.gpu).phase_tasks[1], 3);
    assert_ok(modes_run_chain(&s, modes_launch, jobs, 2)); /* by now the batch before has ended */
    gantry_batch_stats batch = {.struct_size = sizeof(batch)};
    assert_ok(gantry_dispatcher_get_batch_stats(gantry_context_dispatcher(s.gpu.context), &batch));
    assert_true(batch.number == 2 || batch.number == 3);
    assert_int_equal(batch.tasks, batch.number == 2 ? 3 : 2);
    assert_int_equal(batch.launch_calls, batch.tasks);
    assert_int_equal(batch.phase_tasks[1], batch.tasks);
    assert_int_equal(batch.as_graph, 0);
    assert_true(batch.ns >= batch.phase_ns[1]);
    assert_int_equal(gantry_dispatcher_get_batch_stats(NULL, &batch), GANTRY_ERR_INVALID_ARGUMENT);
    modes_close(&s);
}

/* ---- sync points --------------------------------------------------------------------------- */

static void check_sync_point(gantry_submission submission)
{
    gantry_context_options options = modes_options();
    options.submission = submission;
    struct modes_scene s;
    modes_open(&s, &options);
    for (int round = 0; round < 20; round++) {
        struct modes_job jobs[9];
        _Atomic(uint32_t) ran = 0;
        gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", modes_count_run, &ran);
        memset(s.stamps.cells, 0, 256);
        /* Nine tasks that do not depend on each other; the fifth asks for a sync point. */
        for (uint32_t i = 0; i < 9; i++) {
            jobs[i] = (struct modes_job){&s, i, 200, done, i == 4, 0};
            gpu_fixture_after(done, gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "t", modes_launch, &jobs[i]));
        }
        gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
        gantry_dispatcher_start_group(d);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        gantry_dispatcher_finish_group(d);
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t j = 4; j < 9; j++) {
                assert_true(modes_end_of(&s, i) < modes_begin_of(&s, j));
            }
        }
    }
    modes_close(&s);
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
    gantry_context_options options = modes_options();
    struct modes_scene s;
    modes_open(&s, &options);
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    assert_true(gantry_dispatcher_get_concurrent_streams(d));
    gantry_dispatcher_set_concurrent_streams(d, false);
    assert_false(gantry_dispatcher_get_concurrent_streams(d));
    struct modes_job jobs[4] = {{0}};
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            /* It has cells of its own: the first round may still run on the device. */
            jobs[i] = (struct modes_job){.scene = &s, .index = 4 * round + i};
            gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "t", modes_launch, &jobs[i]);
        }
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(gpu_fixture_stats(&s.gpu).streams_created > 1, round == 1);
        gantry_dispatcher_set_concurrent_streams(d, true);
    }
    modes_close(&s);
}

/* ---- synchronous mode ---------------------------------------------------------------------- */

static void check_synchronous(bool by_environment)
{
    struct gantry_emu_control emu;
    gantry_context_options options = modes_options();
    options.mode = GANTRY_CONTEXT_OWN;
    options.submission = GANTRY_SUBMISSION_GRAPHS; /* the callback's own answer is ignored */
    options.synchronous = !by_environment;
    if (by_environment) {
        assert_int_equal(setenv("GANTRY_SYNC", "1", 1), 0);
    }
    struct modes_scene s;
    modes_open(&s, &options);
    (void)unsetenv("GANTRY_SYNC");
    (void)gpu_fixture_controls(&emu);
    static const char *const names[] = {"alpha", "beta", "gamma", "delta"};
    struct modes_job jobs[4];
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < 4; i++) {
        jobs[i] = (struct modes_job){.scene = &s, .index = i};
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, names[i], modes_launch, &jobs[i]);
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
    modes_close(&s);
}

static void test_synchronous_mode_names_the_task_that_failed(void **state)
{
    (void)state;
    check_synchronous(false);
    check_synchronous(true);
}

static gantry_launch_result launch_twice(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    (void)modes_launch(launch, arg);
    return job->calls % 2 != 0 ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

/* Whichever of its calls asked for it. */
static void test_synchronous_mode_looks_after_every_call(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    for (uint64_t failing = 1; failing <= 4; failing++) {
        gantry_context_options options = modes_options();
        options.mode = GANTRY_CONTEXT_OWN;
        options.synchronous = 1;
        static struct modes_scene s;
        static struct modes_job jobs[2];
        modes_open(&s, &options);
        assert_true(gpu_fixture_controls(&emu));
        jobs[0] = (struct modes_job){.scene = &s, .index = 0};
        jobs[1] = (struct modes_job){.scene = &s, .index = 1};
        gantry_task *first = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "first", launch_twice, &jobs[0]);
        gpu_fixture_after(gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "second", launch_twice, &jobs[1]),
                          first);
        assert_int_equal(emu.fail_kernel(failing, 719, GANTRY_EMU_ONCE), 0);
        assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_DEVICE_LOST);
        assert_non_null(strstr(gantry_last_error(), failing <= 2 ? "'first'" : "'second'"));
        assert_int_equal(jobs[0].calls, failing < 2 ? failing : 2);
        assert_int_equal(jobs[1].calls, failing < 3 ? 0 : failing - 2);
        emu.clear_faults();
        modes_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wait_mode_completes),
        cmocka_unit_test(test_a_full_ring_holds_the_dispatcher_back),
        cmocka_unit_test(test_completions_do_not_wait_for_older_work),
        cmocka_unit_test(test_a_completion_may_cover_all_work),
        cmocka_unit_test(test_one_call_with_more_completions_than_fit),
        cmocka_unit_test(test_fills_and_device_copies_do_what_they_say),
        cmocka_unit_test(test_completions_are_flushed_once_per_round_trip),
        cmocka_unit_test(test_statistics_tell_tasks_phases_and_batches),
        cmocka_unit_test(test_nothing_passes_a_sync_point),
        cmocka_unit_test(test_the_stream_switch_takes_effect_between_steps),
        cmocka_unit_test(test_synchronous_mode_names_the_task_that_failed),
        cmocka_unit_test(test_synchronous_mode_looks_after_every_call),
        cmocka_unit_test(test_a_full_ring_that_cannot_be_flushed_keeps_no_task),
    };
    /* Only the emulated driver's kernels fail. */
    size_t count =
        sizeof(tests) / sizeof(tests[0]) - (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED ? 3 : 0);
    return _cmocka_run_group_tests("modes", tests, count, NULL, NULL);
}
