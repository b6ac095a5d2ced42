/* SPDX-License-Identifier: MIT */
/* Callbacks whose work cannot be captured, or not any more: the work is done on a plain stream, or that task
 * fails by name.  No other task's work is lost, and the context never is.  Work that callbacks enqueue
 * themselves, on the stream they ask for, is part of the batch, in order. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOBS = 6,
    ODD = 3,
    SOURCE = 100,
    TARGET = 200,
    ELSEWHERE = 300
}; /* indices of jobs; words in the scene's device memory */

static const struct gy_driver *driver_of(gantry_launch *launch)
{
    return launch->dispatcher->config.context->driver;
}

static CUdeviceptr word(const struct modes_job *job, uint32_t index)
{
    return (CUdeviceptr)(uintptr_t)((uint32_t *)job->scene->device + index);
}

/* ---- what an odd callback does ---------------------------------------------------------------- */

static CUstream side; /* streams and events of the application's own */
static CUevent fork_event, join_event;

static bool allocates(gantry_launch *launch, const struct modes_job *job)
{
    (void)job;
    CUdeviceptr address;
    return driver_of(launch)->cuMemAlloc(&address, 256) == CUDA_SUCCESS &&
           driver_of(launch)->cuMemFree(address) == CUDA_SUCCESS;
}

static bool waits_for_the_context(gantry_launch *launch, const struct modes_job *job)
{
    (void)job;
    return driver_of(launch)->cuCtxSynchronize() == CUDA_SUCCESS;
}

static bool waits_for_its_stream(gantry_launch *launch, const struct modes_job *job)
{
    (void)job;
    return driver_of(launch)->cuStreamSynchronize(gantry_launch_stream(launch)) == CUDA_SUCCESS;
}

static bool copies_as_batch(gantry_launch *launch, const struct modes_job *job)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr to = word(job, TARGET), from = word(job, SOURCE);
    size_t bytes = 4, first = 0, failed = 0;
    return driver_of(launch)->cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, &failed,
                                                 gantry_launch_stream(launch)) == CUDA_SUCCESS;
}

static bool forks(gantry_launch *launch, const struct modes_job *job, bool joins)
{
    const struct gy_driver *driver = driver_of(launch);
    CUstream own = gantry_launch_stream(launch);
    CUdeviceptr to = word(job, joins ? TARGET : ELSEWHERE);
    CUdeviceptr from = word(job, joins ? SOURCE : ELSEWHERE + 1); /* no other task's: it is in no order */
    bool done = driver->cuEventRecord(fork_event, own) == CUDA_SUCCESS &&
                driver->cuStreamWaitEvent(side, fork_event, 0) == CUDA_SUCCESS &&
                driver->cuMemcpyDtoDAsync(to, from, 4, side) == CUDA_SUCCESS;
    return done && (!joins || (driver->cuEventRecord(join_event, side) == CUDA_SUCCESS &&
                               driver->cuStreamWaitEvent(own, join_event, 0) == CUDA_SUCCESS));
}

static bool forks_without_join(gantry_launch *launch, const struct modes_job *job)
{
    return forks(launch, job, false);
}

static bool forks_and_joins(gantry_launch *launch, const struct modes_job *job)
{
    return forks(launch, job, true);
}

static bool copies_pageable(gantry_launch *launch, const struct modes_job *job)
{
    static uint32_t pageable;
    pageable = 7;
    bool done = driver_of(launch)->cuMemcpyHtoDAsync(word(job, TARGET), &pageable, 4,
                                                     gantry_launch_stream(launch)) == CUDA_SUCCESS;
    return done && driver_of(launch)->cuStreamWaitEvent != NULL;
}

static bool copies_plainly(gantry_launch *launch, const struct modes_job *job)
{
    return driver_of(launch)->cuMemcpyDtoDAsync(word(job, TARGET), word(job, SOURCE), 4,
                                                gantry_launch_stream(launch)) == CUDA_SUCCESS;
}

static struct {
    bool (*acts)(gantry_launch *launch, const struct modes_job *job);
    bool now;          /* in this step */
    bool stamps_first; /* it asks before it acts; else behind */
    bool asks;         /* it asks for its stream, in every call */
    bool ignores;      /* the answer of its act */
} odd;

static gantry_launch_result launch_odd(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    bool done = !odd.asks || gantry_launch_stream(launch) != NULL;
    done = done && (!odd.stamps_first || modes_stamp(launch, job));
    bool acted = !odd.now || odd.acts(launch, job) || odd.ignores;
    done = done && (odd.stamps_first || modes_stamp(launch, job));
    return done && acted && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* ---- steps of six tasks in a row, of which one is odd ------------------------------------------- */

static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    uint32_t *cells = job->scene->stamps.cells;
    if (gantry_launch_copy_dtoh(launch, cells + 100, (uint32_t *)job->scene->device + TARGET, 4) !=
        GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return modes_launch(launch, arg);
}

static gantry_launch_result launch_prepare(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    uint32_t *words = job->scene->device;
    if (gantry_launch_fill(launch, words + SOURCE, 7, 4, 1) != GANTRY_OK ||
        gantry_launch_fill(launch, words + TARGET, 1, 4, 1) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return modes_launch(launch, arg);
}

/* The odd one is the fourth; a bystander that nothing depends on runs beside them.  Returns the status of
 * the step. */
static gantry_status run(struct modes_scene *s, struct modes_job *jobs)
{
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(&s->gpu, "done", modes_count_run, &ran), *before = NULL;
    gantry_task *aside = gpu_fixture_cpu(&s->gpu, "beside", modes_count_run, &ran);
    memset(s->stamps.cells, 0, 512);
    for (uint32_t i = 0; i <= JOBS; i++) {
        gantry_launch_fn fn = i == ODD        ? launch_odd
                              : i == 0        ? launch_prepare
                              : i == JOBS - 1 ? launch_fetch
                                              : modes_launch;
        jobs[i] = (struct modes_job){.scene = s, .index = i, .spins = 20, .calls = jobs[i].calls};
        jobs[i].completes = i == JOBS - 1 ? done : i == JOBS ? aside : NULL;
        gantry_task *task =
            gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, i == ODD ? "odd" : "link", fn, &jobs[i]);
        if (before != NULL && i != JOBS) {
            gpu_fixture_after(task, before);
        }
        if (jobs[i].completes != NULL) {
            gpu_fixture_after(jobs[i].completes, task);
        }
        before = task;
    }
    gantry_status status = gpu_fixture_step(&s->gpu);
    assert_int_equal(s->gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(ran, status == GANTRY_OK ? 2 : 1); /* the bystander's work is done in any case */
    assert_true(modes_end_of(s, JOBS) != 0);
    for (uint32_t i = 1; i < (status == GANTRY_OK ? JOBS : ODD); i++) {
        assert_true(modes_end_of(s, i - 1) < modes_begin_of(s, i));
    }
    return status;
}

static void open_with(struct modes_scene *s, gantry_submission submission)
{
    gantry_context_options options = modes_options();
    options.submission = submission;
    options.mode = GANTRY_CONTEXT_PRIMARY;
    modes_open(s, &options);
    assert_ok(gantry_context_acquire(s->gpu.context));
    const struct gy_driver *driver = s->gpu.context->cuda->driver;
    assert_int_equal(driver->cuStreamCreate(&side, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
}

static void close_scene(struct modes_scene *s)
{
    const struct gy_driver *driver = s->gpu.context->cuda->driver;
    assert_true(gantry_context_is_valid(s->gpu.context));
    assert_int_equal(driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(driver->cuStreamDestroy(side), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventDestroy(fork_event), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventDestroy(join_event), CUDA_SUCCESS);
    assert_ok(gantry_context_release(s->gpu.context));
    modes_close(s);
}

static const struct {
    const char *name;
    bool (*acts)(gantry_launch *launch, const struct modes_job *job);
    bool copies;   /* it copies the source to the target */
    bool can_hide; /* a callback that ignores the answer is found out all the same */
} acts[] = {
    {"allocates", allocates, false, true},
    {"waits for the context", waits_for_the_context, false, true},
    {"waits for its stream", waits_for_its_stream, false, true},
    {"copies as a batch", copies_as_batch, true, true},
    {"forks without a join", forks_without_join, false, false},
    {"copies from pageable memory", copies_pageable, true, false},
};
enum { ACTS = sizeof(acts) / sizeof(acts[0]) };

static void expect_copied(struct modes_scene *s, uint32_t act)
{
    if (acts[act].copies && s->stamps.cells[100] != 7) {
        fail_msg("%s: %u was copied", acts[act].name, s->stamps.cells[100]);
    }
}

/* From the first call on. */
static void test_what_was_never_capturable_runs_on_streams(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4 * ACTS; i++) {
        const uint32_t act = i / 4;
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        struct log_lines lines;
        odd.acts = acts[act].acts;
        odd.now = true;
        odd.asks = false;
        odd.stamps_first = i % 2 != 0;
        odd.ignores = i % 4 >= 2;
        open_with(&s, GANTRY_SUBMISSION_GRAPHS);
        log_lines_begin(&lines, "its callback runs on streams");
        for (int step = 0; step < 3; step++) {
            assert_ok(run(&s, jobs));
            expect_copied(&s, act);
        }
        assert_int_equal(log_lines_end(&lines), 1);
        assert_int_equal(jobs[ODD].calls, 4); /* twice in the first step */
        close_scene(&s);
    }
}

/* The auto mode takes what our functions enqueue: a callback that asks for its stream gets it as it is, and
 * is called once, whatever it does there. */
static void test_auto_lends_no_stream(void **state)
{
    (void)state;
    for (uint32_t act = 0; act < ACTS; act++) {
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        odd.acts = acts[act].acts;
        odd.now = odd.asks = true;
        odd.stamps_first = odd.ignores = false;
        open_with(&s, GANTRY_SUBMISSION_AUTO);
        for (uint32_t step = 1; step <= 3; step++) {
            assert_ok(run(&s, jobs));
            expect_copied(&s, act);
            assert_int_equal(jobs[ODD].calls, step);
        }
        assert_true(gpu_fixture_stats(&s.gpu).graph_launches != 0); /* of the other tasks */
        close_scene(&s);
    }
}

static bool leaves_and_waits(gantry_launch *launch, const struct modes_job *job)
{
    CUstream stream = gantry_launch_stream(launch);
    uint32_t *cells = job->scene->stamps.cells;
    bool left =
        copies_plainly(launch, job) &&
        driver_of(launch)->cuMemcpyDtoHAsync(cells + 101, word(job, TARGET), 4, stream) == CUDA_SUCCESS &&
        gantry_launch_leave_graph(launch) == GANTRY_OK;
    return left && stream == gantry_launch_stream(launch) &&
           driver_of(launch)->cuStreamSynchronize(stream) == CUDA_SUCCESS && cells[101] == 7;
}

/* The work that it has enqueued by itself is launched with the graph that it leaves. */
static void test_a_callback_leaves_the_graph_with_what_it_has_enqueued(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        odd.acts = leaves_and_waits;
        odd.now = true;
        odd.asks = i % 2 != 0;
        odd.stamps_first = i >= 2;
        odd.ignores = false;
        open_with(&s, GANTRY_SUBMISSION_GRAPHS);
        for (int step = 0; step < 3; step++) {
            assert_ok(run(&s, jobs));
            assert_int_equal(s.stamps.cells[100], 7);
        }
        assert_int_equal(jobs[ODD].calls, 3);
        close_scene(&s);
    }
}

/* It can be captured for a while, and then not any more: the work that the call has put into the batch is
 * taken out again. */
static void test_what_stops_being_capturable_goes_on_on_streams(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8 * ACTS; i++) {
        const uint32_t act = i / 8;
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        odd.acts = acts[act].acts;
        odd.now = false;
        odd.asks = i % 2 != 0;
        odd.stamps_first = i % 4 >= 2;
        odd.ignores = i % 8 >= 4;
        open_with(&s, GANTRY_SUBMISSION_GRAPHS);
        assert_ok(run(&s, jobs));
        assert_ok(run(&s, jobs));
        assert_int_equal(jobs[ODD].calls, 2);
        odd.now = true;
        assert_ok(run(&s, jobs));
        expect_copied(&s, act);
        assert_int_equal(jobs[ODD].calls, 4);
        assert_ok(run(&s, jobs)); /* from now on */
        expect_copied(&s, act);
        assert_int_equal(jobs[ODD].calls, 5);
        close_scene(&s);
    }
}

/* ---- blocks that such a call gives back -------------------------------------------------------- */

enum { BLOCK = 512 };
static struct {
    void *kept;     /* allocated before the step, and given back in each call */
    void *once;     /* likewise, but given back only in the call that is refused */
    uint32_t calls; /* in this step */
    bool is_right;
} gives;

static bool can_be_freed_again(gantry_launch *launch, void *block)
{
    return gantry_free_after(block, launch) != GANTRY_ERR_NOT_FOUND;
}

/* The block that is taken here must not be the one that the call uses until it gives it back. */
static bool gives_back(gantry_launch *launch, const struct modes_job *job)
{
    gantry_heap *heap = job->scene->stamps.heap;
    void *own = NULL, *taken = NULL;
    bool is_first = gives.calls++ == 0;
    bool done = gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BLOCK, 0, GANTRY_ALLOC_SITE("own"), &own) ==
                    GANTRY_OK &&
                gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BLOCK, 0, GANTRY_ALLOC_SITE("taken"),
                                    &taken) == GANTRY_OK;
    gives.is_right &= done && taken != gives.kept && taken != gives.once;
    gives.is_right &= gantry_free_after(own, launch) == GANTRY_OK &&
                      gantry_free_after(taken, launch) == GANTRY_OK &&
                      gantry_free_after(gives.kept, launch) == GANTRY_OK &&
                      (!is_first || gantry_free_after(gives.once, launch) == GANTRY_OK);
    gives.is_right &= !can_be_freed_again(launch, gives.kept) && !can_be_freed_again(launch, own);
    return copies_as_batch(launch, job);
}

static uint64_t used_bytes(const struct modes_scene *s)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(s->stamps.heap, GANTRY_MEMORY_DEVICE, &stats));
    return stats.used_bytes;
}

/* In a call that is made once more they may be given back again, and all of them come back. */
static void test_blocks_that_a_refused_call_gave_back_come_back_once(void **state)
{
    (void)state;
    for (int was_captured = 0; was_captured < 2; was_captured++) {
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        odd.acts = gives_back;
        odd.asks = true;
        odd.stamps_first = odd.ignores = odd.now = false;
        open_with(&s, GANTRY_SUBMISSION_GRAPHS);
        for (int step = 0; step < 2 * was_captured; step++) {
            assert_ok(run(&s, jobs));
        }
        uint64_t before = used_bytes(&s);
        gives.calls = 0;
        gives.is_right = odd.now = true;
        assert_ok(gantry_heap_alloc(s.stamps.heap, GANTRY_MEMORY_DEVICE, BLOCK, 0, GANTRY_ALLOC_SITE("kept"),
                                    &gives.kept));
        assert_ok(gantry_heap_alloc(s.stamps.heap, GANTRY_MEMORY_DEVICE, BLOCK, 0, GANTRY_ALLOC_SITE("once"),
                                    &gives.once));
        assert_ok(run(&s, jobs));
        assert_int_equal(s.stamps.cells[100], 7);
        assert_int_equal(gives.calls, 2);
        assert_true(gives.is_right);
        while (gpu_fixture_stats(&s.gpu).frees_pending != 0) {
            sched_yield();
        }
        assert_int_equal(used_bytes(&s), before);
        close_scene(&s);
    }
}

/* ---- what can be captured ------------------------------------------------------------------------ */

static void test_what_callbacks_enqueue_themselves_is_part_of_the_batch(void **state)
{
    (void)state;
    static bool (*const capturable[])(gantry_launch *, const struct modes_job *) = {copies_plainly,
                                                                                    forks_and_joins};
    for (uint32_t i = 0; i < 8; i++) {
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        odd.acts = capturable[i / 4];
        odd.now = true;
        odd.asks = i % 2 != 0;
        odd.stamps_first = i % 4 >= 2;
        odd.ignores = false;
        open_with(&s, GANTRY_SUBMISSION_GRAPHS);
        for (int step = 0; step < 3; step++) {
            assert_ok(run(&s, jobs));
            assert_int_equal(s.stamps.cells[100], 7);
        }
        gantry_dispatcher_stats before = gpu_fixture_stats(&s.gpu);
        for (int step = 0; step < 5; step++) {
            assert_ok(run(&s, jobs));
            assert_int_equal(s.stamps.cells[100], 7);
        }
        gantry_dispatcher_stats after = gpu_fixture_stats(&s.gpu);
        assert_int_equal(jobs[ODD].calls, 8);
        /* one graph each, all of one shape */
        assert_int_equal(after.graph_launches - before.graph_launches, 5);
        assert_int_equal(after.graph_instantiations, before.graph_instantiations);
        assert_int_equal(after.graph_cuts, before.graph_cuts);
        close_scene(&s);
    }
}

static struct {
    void *streams[4];
    bool sync_points;
} many;

static gantry_launch_result launch_many(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    uint32_t call = (uint32_t)gantry_launch_index(launch);
    CUstream stream = gantry_launch_stream(launch);
    many.streams[call] = stream;
    if (call == 0 && driver_of(launch)->cuMemsetD32Async(word(job, TARGET), 5, 1, stream) != CUDA_SUCCESS) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (many.sync_points && gantry_launch_request_sync_point(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    /* with the stream that it has from before */
    if (call != 0 && driver_of(launch)->cuMemcpyDtoDAsync(
                         word(job, TARGET + call), word(job, TARGET + call - 1), 4, stream) != CUDA_SUCCESS) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (call < 3) {
        return GANTRY_LAUNCH_AGAIN;
    }
    gantry_status status = gantry_launch_copy_dtoh(launch, job->scene->stamps.cells + 100,
                                                   (uint32_t *)job->scene->device + TARGET + 3, 4);
    return status == GANTRY_OK && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_a_task_has_one_stream_whatever_its_calls_do(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct modes_scene s;
        struct modes_job jobs[1] = {{0}};
        many.sync_points = i != 0;
        open_with(&s, GANTRY_SUBMISSION_GRAPHS);
        for (int step = 0; step < 4; step++) {
            s.stamps.cells[100] = 0;
            assert_ok(modes_run_chain(&s, launch_many, jobs, 1));
            assert_int_equal(s.stamps.cells[100], 5);
            for (int call = 1; call < 4; call++) {
                assert_ptr_equal(many.streams[call], many.streams[0]);
            }
        }
        close_scene(&s);
    }
}

/* ---- the whole context -------------------------------------------------------------------------- */

enum { SLOW = 20000 };
static struct {
    uint32_t now;      /* in this step: which of the tasks */
    uint32_t seen;     /* the data that it found when it had waited */
    bool stamps_first; /* before it waits; else behind */
} sync;

static gantry_launch_result launch_waiting(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    struct modes_scene *s = job->scene;
    job->calls++;
    bool done = !sync.stamps_first || modes_stamp(launch, job);
    if (job->index == sync.now) {
        done = done && driver_of(launch)->cuCtxSynchronize() == CUDA_SUCCESS;
        sync.seen = modes_end_of(s, job->index - 1) != 0;
    }
    done = done && (sync.stamps_first || modes_stamp(launch, job));
    return done && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Whichever task of a batch waits for the context finds the work before it done, as on streams, and no task
 * loses its own. */
static void test_a_context_synchronised_in_a_batch_costs_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        struct modes_scene s;
        struct modes_job jobs[6] = {{0}};
        gantry_context_options options = modes_options();
        options.submission = GANTRY_SUBMISSION_GRAPHS;
        options.mode = GANTRY_CONTEXT_PRIMARY;
        modes_open(&s, &options);
        sync.stamps_first = i % 2 != 0;
        sync.now = UINT32_MAX;
        for (int step = 0; step < 4; step++) {
            jobs[0].spins = SLOW;
            sync.now = step == 2 ? 1 + i / 2 : UINT32_MAX;
            sync.seen = 0;
            memset(s.stamps.cells, 0, 256);
            assert_ok(modes_run_chain(&s, launch_waiting, jobs, 6));
            for (uint32_t j = 1; j < 6; j++) {
                assert_true(modes_end_of(&s, j - 1) < modes_begin_of(&s, j));
            }
            assert_int_equal(sync.seen, step == 2);
        }
        assert_int_equal(jobs[0].calls, 4);
        assert_int_equal(jobs[1 + i / 2].calls, 5);
        assert_true(gantry_context_is_valid(s.gpu.context));
        modes_close(&s);
    }
}

/* ---- auto -------------------------------------------------------------------------------------- */

static void test_auto_survives_all_of_it(void **state)
{
    (void)state;
    for (uint32_t act = 0; act < ACTS; act++) {
        struct modes_scene s;
        struct modes_job jobs[JOBS + 1] = {{0}};
        odd.acts = acts[act].acts;
        odd.now = true;
        odd.asks = odd.stamps_first = odd.ignores = false;
        open_with(&s, GANTRY_SUBMISSION_AUTO);
        for (int step = 0; step < 16; step++) {
            assert_ok(run(&s, jobs));
            expect_copied(&s, act);
        }
        close_scene(&s);
    }
}

/* ---- stable tasks, priorities ------------------------------------------------------------------ */

static gantry_task *submit(struct modes_scene *s, gantry_launch_fn launch, struct modes_job *job,
                           gantry_partition *partition)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = job;
    desc.label = "odd";
    desc.is_stable = partition == NULL;
    desc.partition = partition;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

static void test_stable_tasks_that_use_their_stream_are_replayed(void **state)
{
    (void)state;
    struct modes_scene s;
    struct modes_job jobs[3] = {{0}};
    gantry_launch_fn functions[] = {launch_prepare, launch_odd, launch_fetch};
    gantry_task *tasks[3];
    _Atomic(uint32_t) ran = 0;
    odd.acts = copies_plainly;
    odd.now = true;
    odd.asks = odd.stamps_first = odd.ignores = false;
    open_with(&s, GANTRY_SUBMISSION_GRAPHS);
    gantry_task *done = gpu_fixture_cpu(&s.gpu, "done", modes_count_run, &ran);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = (struct modes_job){.scene = &s, .index = i, .completes = i == 2 ? done : NULL};
        tasks[i] = submit(&s, functions[i], &jobs[i], NULL);
        if (i != 0) {
            gpu_fixture_after(tasks[i], tasks[i - 1]);
        }
    }
    gpu_fixture_after(done, tasks[2]);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    for (uint32_t step = 1; step <= 8; step++) {
        memset(s.stamps.cells, 0, 512);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_int_equal(ran, step);
        assert_int_equal(s.stamps.cells[100], 7);
        assert_true(modes_end_of(&s, 0) < modes_begin_of(&s, 1) &&
                    modes_end_of(&s, 1) < modes_begin_of(&s, 2));
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_replays >= 4);
    assert_true(jobs[1].calls < 5);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

/* A batch of plain tasks and an urgent one, all ready at once, goes to the device as one graph while the
 * device is stopped: whose kernel begins first? */
static void test_priorities_hold_in_graphs(void **state)
{
    (void)state;
    enum { PLAIN = 6 };
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    gantry_partition_request requests[2] = {{.struct_size = sizeof(requests[0]), .name = "urgent"},
                                            {.struct_size = sizeof(requests[0]), .name = "plain"}};
    requests[0].sm_count = requests[1].sm_count = 16;
    requests[0].priority = -2;
    requests[1].is_default = 1;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.partitions = &plan;
    struct modes_scene s;
    struct modes_job jobs[PLAIN + 1] = {{0}};
    modes_open(&s, &options);
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(s.gpu.context);
    for (int step = 0; step < 3; step++) { /* in the first one, the callback's first call is captured alone */
        for (uint32_t i = 0; i <= PLAIN; i++) {
            jobs[i] = (struct modes_job){.scene = &s, .index = i};
            (void)submit(&s, modes_launch, &jobs[i], gantry_partition_at(s.gpu.context, i == PLAIN ? 0 : 1));
        }
        emu.hold();
        gantry_dispatcher_start_group(dispatcher);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        gantry_dispatcher_finish_group(dispatcher);
        assert_ok(gantry_taskman_stop(s.gpu.manager)); /* launched */
        struct gantry_emu_operation first = {0};
        assert_int_equal(emu.log_start(1), 0);
        emu.step(1); /* of all that are ready, one begins */
        while (emu.log_read(&first, 1) == 0 || first.end == 0) {
            sched_yield();
        }
        for (uint32_t i = 0; i <= PLAIN; i++) {
            assert_int_equal(modes_end_of(&s, i) != 0, i == PLAIN);
        }
        emu.release();
        assert_ok(gantry_context_acquire(s.gpu.context));
        assert_int_equal(s.gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(gantry_context_release(s.gpu.context));
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        memset(s.stamps.cells, 0, 512);
    }
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_cuts, 0);
    modes_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_lends_no_stream),
        cmocka_unit_test(test_what_was_never_capturable_runs_on_streams),
        cmocka_unit_test(test_a_callback_leaves_the_graph_with_what_it_has_enqueued),
        cmocka_unit_test(test_what_stops_being_capturable_goes_on_on_streams),
        cmocka_unit_test(test_blocks_that_a_refused_call_gave_back_come_back_once),
        cmocka_unit_test(test_what_callbacks_enqueue_themselves_is_part_of_the_batch),
        cmocka_unit_test(test_a_task_has_one_stream_whatever_its_calls_do),
        cmocka_unit_test(test_a_context_synchronised_in_a_batch_costs_nothing),
        cmocka_unit_test(test_auto_survives_all_of_it),
        cmocka_unit_test(test_stable_tasks_that_use_their_stream_are_replayed),
        cmocka_unit_test(test_priorities_hold_in_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
