/* SPDX-License-Identifier: MIT */
/* Calls that cannot begin in their mode, or cannot leave it: everything they have taken is given back, and
 * nothing of them is enqueued twice, or on a stream that is no member of the graph. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "profile/gpu_marks.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_OF_MEMORY 2
#define FORKED 300u /* words of the scene's device memory: the forked work writes there, */
#define LATE 310u   /* and here the work that a callback enqueues after its leaving has failed */

static struct gantry_emu_control emu;
static struct modes_scene scene;

static void open_scene(bool aborts)
{
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.abort_on_out_of_memory = aborts;
    modes_open(&scene, &options);
    assert_true(gpu_fixture_controls(&emu));
}

static gantry_profile *begin_recording(const char *path)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    return profile;
}

static uint64_t end_recording(gantry_profile *profile, const char *path)
{
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(profile, &stats));
    (void)remove(path);
    return stats.lost;
}

/* ---- a call that cannot begin ------------------------------------------------------------------- */

static gantry_launch_result launch_raw(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    return gantry_launch_stream(launch) != NULL && modes_stamp(launch, job) ? GANTRY_LAUNCH_DONE
                                                                            : GANTRY_LAUNCH_FAILED;
}

/* Run one batch with the task, and with a task that has a completion: until that is told, marks are
 * collected. */
static gantry_status run_raw(struct modes_job *job)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(scene.gpu.context);
    _Atomic(uint32_t) ran = 0;
    struct modes_job beside = {.scene = &scene, .index = 1};
    (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "raw", launch_raw, job);
    beside.completes = gpu_fixture_cpu(&scene.gpu, "done", modes_count_run, &ran);
    gpu_fixture_after(beside.completes,
                      gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "beside", modes_launch, &beside));
    gantry_dispatcher_start_group(dispatcher);
    assert_ok(gantry_taskman_start(scene.gpu.manager));
    gantry_dispatcher_finish_group(dispatcher);
    gantry_status status = gpu_fixture_stop(&scene.gpu);
    assert_int_equal(ran, 1);
    return status;
}

/* The function is known to ask for its stream, which cannot be captured: its capture is the second that is
 * begun, the first is the guard's. */
static void run_what_cannot_begin(struct modes_job *job)
{
    const uint32_t calls = job->calls;
    assert_int_equal((emu.fail)("cuStreamBeginCapture", 2, OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
    assert_int_equal(run_raw(job), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    emu.clear_faults();
    assert_int_equal(job->calls, calls);
}

static void test_a_call_that_cannot_begin_keeps_no_mark(void **state)
{
    (void)state;
    enum { MARKS = 64, TIMES = 300 };
    static const char path[] = "call-modes-begin.pftrace";
    gy_gpu_marks_set_first(MARKS);
    open_scene(false);
    struct modes_job job = {.scene = &scene};
    assert_ok(run_raw(&job)); /* it asks for its stream, which is known from now on */
    gantry_profile *profile = begin_recording(path);
    assert_ok(run_raw(&job));
    for (int i = 0; i < 4; i++) {
        run_what_cannot_begin(&job);
    }
    const int64_t events = emu.live(GANTRY_EMU_LIVE_EVENTS);
    for (int i = 0; i < TIMES; i++) {
        run_what_cannot_begin(&job);
    }
    assert_ok(run_raw(&job));
    const int64_t more = emu.live(GANTRY_EMU_LIVE_EVENTS) - events;
    (void)end_recording(profile, path); /* of so many steps something else may be lost */
    assert_in_range(more, 0, TIMES);    /* if each mark had two, there would be twice as many */
    modes_close(&scene);
}

/* ---- a task that ends while others build a graph -------------------------------------------------- */

static gantry_launch_result launch_half(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    for (uint32_t i = 0; i < 8; i++) { /* more nodes than the graph has in which the task is not */
        assert_true(modes_stamp(launch, job));
    }
    return job->sync_point ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_on_streams(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    job->calls++;
    return gantry_launch_leave_graph(launch) == GANTRY_OK && modes_stamp(launch, job) ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_last(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    void *block;
    assert_true(modes_stamp(launch, job));
    if (job->sync_point) {
        assert_int_not_equal(gantry_heap_alloc(scene.stamps.heap, GANTRY_MEMORY_DEVICE, (size_t)1 << 50, 0,
                                               GANTRY_ALLOC_SITE("too large"), &block),
                             GANTRY_OK);
    }
    return GANTRY_LAUNCH_DONE;
}

/* One graph has the first task, the second task runs by itself, another graph has the third.  `aborts`:
 * memory runs out while that graph is built, so that the first task ends without its second call, and its
 * stream is no member of that graph. */
static gantry_status run_three(struct modes_job jobs[3], bool aborts)
{
    static const gantry_launch_fn fns[] = {launch_half, launch_on_streams, launch_last};
    static const char *const labels[] = {"half", "on streams", "last"};
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(scene.gpu.context);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = (struct modes_job){.scene = &scene, .index = i, .sync_point = aborts};
        (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, labels[i], fns[i], &jobs[i]);
    }
    memset(scene.stamps.cells, 0, 64);
    gantry_dispatcher_start_group(dispatcher); /* one batch */
    assert_ok(gantry_taskman_start(scene.gpu.manager));
    gantry_dispatcher_finish_group(dispatcher);
    gantry_status status = gpu_fixture_stop(&scene.gpu);
    assert_ok(gantry_context_acquire(scene.gpu.context));
    assert_int_equal(scene.gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(gantry_context_release(scene.gpu.context));
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(modes_end_of(&scene, i) != 0);
    }
    return status;
}

static void test_a_mark_ends_on_the_stream_that_is_no_member(void **state)
{
    (void)state;
    static const char path[] = "call-modes-end.pftrace";
    open_scene(true);
    struct modes_job jobs[3];
    assert_ok(run_three(jobs, false)); /* the second one leaves its graph for good */
    gantry_profile *profile = begin_recording(path);
    assert_ok(run_three(jobs, false));
    for (int i = 0; i < 4; i++) {
        const gantry_dispatcher_stats before = gpu_fixture_stats(&scene.gpu);
        assert_int_equal(run_three(jobs, true), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        const gantry_dispatcher_stats after = gpu_fixture_stats(&scene.gpu);
        assert_int_equal(jobs[0].calls, 1);
        assert_int_equal(after.graph_launches - before.graph_launches, 2);
        assert_true(gantry_context_is_valid(scene.gpu.context));
        gantry_context_clear_abort(scene.gpu.context);
    }
    assert_ok(run_three(jobs, false));
    assert_int_equal(end_recording(profile, path), 0);
    modes_close(&scene);
}

/* ---- a call that cannot leave --------------------------------------------------------------------- */

static CUstream side;
static CUevent forked;
static struct {
    enum { GIVES_UP, SAYS_THAT_ALL_IS_WELL, GOES_ON, TRIES_AGAIN, WAS_REFUSED, WAYS } way;
    uint32_t refusals;
} stay;

static CUdeviceptr word(uint32_t index)
{
    return (CUdeviceptr)(uintptr_t)((uint32_t *)scene.device + index);
}

/* The work it enqueues cannot go with the graph: there is a fork that it does not join, or it makes a call
 * that is refused, and ignores the answer. */
static bool enqueues_what_cannot_go(gantry_launch *launch, CUstream own)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    if (stay.way == WAS_REFUSED) {
        (void)driver->cuCtxSynchronize();
        return gantry_launch_copy_dtod(launch, (uint32_t *)scene.device + FORKED,
                                       (uint32_t *)scene.device + FORKED + 1, 4) == GANTRY_OK;
    }
    return driver->cuEventRecord(forked, own) == CUDA_SUCCESS &&
           driver->cuStreamWaitEvent(side, forked, 0) == CUDA_SUCCESS &&
           driver->cuMemcpyDtoDAsync(word(FORKED), word(FORKED + 1), 4, side) == CUDA_SUCCESS;
}

static gantry_launch_result launch_staying(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUstream own = stay.way == WAS_REFUSED ? NULL : gantry_launch_stream(launch);
    job->calls++;
    assert_true(enqueues_what_cannot_go(launch, own));
    if (gantry_launch_leave_graph(launch) != GANTRY_OK) {
        stay.refusals++;
        if (stay.way <= SAYS_THAT_ALL_IS_WELL) {
            return stay.way == GIVES_UP ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
        }
        stay.refusals += stay.way == TRIES_AGAIN && gantry_launch_leave_graph(launch) != GANTRY_OK;
    }
    own = gantry_launch_stream(launch);
    (void)driver->cuMemcpyDtoDAsync(word(LATE), word(LATE + 1), 4, own);
    return modes_stamp(launch, job) && modes_complete(launch, job) ? GANTRY_LAUNCH_DONE
                                                                   : GANTRY_LAUNCH_FAILED;
}

static uint32_t count_copies_to(const struct gantry_emu_operation *log, size_t count, uint32_t to)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += log[i].kind == GANTRY_EMU_COPY && log[i].first_word == word(to);
    }
    return found;
}

static void run_one_that_stays(struct modes_job jobs[3])
{
    static const gantry_launch_fn fns[] = {modes_launch, launch_staying, modes_launch};
    enum { ROOM = 64 };
    struct gantry_emu_operation log[ROOM];
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(&scene.gpu, "done", modes_count_run, &ran), *before = NULL;
    memset(scene.stamps.cells, 0, 64);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = (struct modes_job){.scene = &scene, .index = i, .spins = 50};
        jobs[i].completes = i == 2 ? done : NULL;
        gantry_task *task = gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "link", fns[i], &jobs[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    gpu_fixture_after(done, before);
    assert_int_equal(emu.log_start(ROOM), 0);
    assert_ok(gpu_fixture_step(&scene.gpu));
    assert_int_equal(scene.gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_in_range(emu.log_stop(), 1, ROOM);
    const size_t count = emu.log_read(log, ROOM);
    assert_int_equal(ran, 1);
    assert_int_equal(count_copies_to(log, count, FORKED), 1);
    assert_int_equal(count_copies_to(log, count, LATE), 1);
    for (uint32_t i = 1; i < 3; i++) {
        assert_true(modes_end_of(&scene, i - 1) < modes_begin_of(&scene, i));
    }
}

/* Its call is made again on its stream, whatever it did about the refusal. */
static void test_a_call_that_cannot_leave_is_made_again(void **state)
{
    (void)state;
    for (stay.way = GIVES_UP; stay.way < WAYS; stay.way++) {
        struct modes_job jobs[3];
        stay.refusals = 0;
        open_scene(false);
        assert_ok(gantry_context_acquire(scene.gpu.context));
        const struct gy_driver *driver = scene.gpu.context->cuda->driver;
        assert_int_equal(driver->cuStreamCreate(&side, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_int_equal(driver->cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
        run_one_that_stays(jobs);
        assert_int_equal(jobs[1].calls, 2);
        run_one_that_stays(jobs);
        assert_int_equal(jobs[1].calls, 1); /* it is called on its stream from the beginning */
        assert_int_equal(stay.refusals, stay.way == TRIES_AGAIN ? 2 : 1);
        assert_int_equal(driver->cuStreamDestroy(side), CUDA_SUCCESS);
        assert_int_equal(driver->cuEventDestroy(forked), CUDA_SUCCESS);
        assert_ok(gantry_context_release(scene.gpu.context));
        modes_close(&scene);
    }
}

/* ---- a queue that a call which is made again has emptied --------------------------------------------- */

/* What a callback does with its queue before it flushes it. */
enum { ADDS = 1, ADDS_ONCE = 2, CLEARS_FIRST = 4, FLUSHES_TWICE = 8 };

static struct {
    gantry_copy_queue *queue;
    unsigned acts;
    bool is_filled; /* copies are queued before the step */
    bool waits;     /* the callback waits for the context, which no graph can contain */
    size_t seen[2]; /* how many copies the queue held when it was called */
} flush;

/* Words that a run writes: each copy that was queued before the step writes one, from word 0 on, and the
 * last one writes the word LAST, as does the copy that the callback adds. */
enum { QUEUED = 5, LAST = 8 };

static void queue_word(uint32_t index, uint32_t pattern)
{
    const gantry_copy_desc desc = {.dest = (void *)(uintptr_t)word(index),
                                   .bytes = 4,
                                   .type = GANTRY_COPY_FILL,
                                   .pattern = pattern,
                                   .pattern_bytes = 4};
    assert_ok(gantry_copy_queue_enqueue(flush.queue, &desc));
}

static gantry_launch_result launch_flush(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    const bool is_first = job->calls == 0;
    flush.seen[job->calls != 0] = gantry_copy_queue_count(flush.queue);
    job->calls++;
    if ((flush.acts & CLEARS_FIRST) != 0 && is_first) {
        gantry_copy_queue_clear(flush.queue);
    }
    if ((flush.acts & FLUSHES_TWICE) != 0 && gantry_copy_queue_flush(flush.queue, launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if ((flush.acts & ADDS) != 0 || ((flush.acts & ADDS_ONCE) != 0 && is_first)) {
        queue_word(LAST, job->index);
    }
    const bool flushed = gantry_copy_queue_flush(flush.queue, launch) == GANTRY_OK;
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    return flushed && (!flush.waits || driver->cuCtxSynchronize() == CUDA_SUCCESS) ? GANTRY_LAUNCH_DONE
                                                                                   : GANTRY_LAUNCH_FAILED;
}

/* Returns the status of the step; all words were written if that is GANTRY_OK. */
static gantry_status run_flush(uint32_t pattern, uint32_t calls)
{
    struct modes_job job = {.scene = &scene, .index = pattern};
    uint32_t seen[LAST + 1] = {0};
    for (uint32_t i = 0; i < QUEUED && flush.is_filled; i++) {
        queue_word(i, pattern);
    }
    if (flush.is_filled) {
        queue_word(LAST, (flush.acts & ADDS) != 0 ? 0 : pattern); /* the added copy comes after it */
    }
    (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "flush", launch_flush, &job);
    const gantry_status status = gpu_fixture_step(&scene.gpu);
    const struct gy_driver *driver = scene.gpu.context->cuda->driver;
    assert_int_equal(driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemcpyDtoH(seen, word(0), sizeof(seen)), CUDA_SUCCESS);
    assert_int_equal(job.calls, calls);
    assert_int_equal(flush.seen[calls - 1], flush.is_filled ? QUEUED + 1 : 0);
    assert_int_equal(gantry_copy_queue_count(flush.queue), 0);
    for (uint32_t i = 0; i <= LAST && status == GANTRY_OK; i++) {
        const bool is_written = i == LAST || (i < QUEUED && flush.is_filled);
        assert_true(!is_written || seen[i] == pattern);
    }
    return status;
}

/* The copies of a queue that do not touch each other are one kernel, also where the call is made twice. */
static void test_a_flush_counts_its_kernels(void **state)
{
    (void)state;
    flush.acts = 0;
    flush.is_filled = true;
    open_scene(false);
    assert_ok(gantry_context_acquire(scene.gpu.context));
    assert_ok(gantry_copy_queue_create(0, &flush.queue));
    for (uint32_t run = 0; run < 3; run++) {
        const gantry_dispatcher_stats first = gpu_fixture_stats(&scene.gpu);
        flush.waits = run == 1;
        assert_ok(run_flush(10 + run, run == 1 ? 2 : 1));
        const gantry_dispatcher_stats stats = gpu_fixture_stats(&scene.gpu);
        assert_int_equal(stats.kernels - first.kernels, 1);
        assert_int_equal(stats.batched_copies - first.batched_copies, QUEUED + 1);
    }
    gantry_copy_queue_destroy(flush.queue);
    assert_ok(gantry_context_release(scene.gpu.context));
    modes_close(&scene);
}

/* Its copies are done, whichever thread has queued them and whatever the first call has done with the
 * queue.  Copies that only the first call has queued are lost, and then the task fails. */
static void test_a_repeated_call_finds_its_queue_as_before(void **state)
{
    (void)state;
    static const struct {
        bool is_filled;
        unsigned acts;
        gantry_status status;
    } cases[] = {
        {true, 0, GANTRY_OK},
        {false, ADDS, GANTRY_OK},
        {true, ADDS, GANTRY_OK},
        {true, ADDS | FLUSHES_TWICE, GANTRY_OK},
        {true, ADDS | CLEARS_FIRST, GANTRY_OK},
        {false, ADDS_ONCE, GANTRY_ERR_STATE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        flush.acts = cases[i].acts & ~(unsigned)CLEARS_FIRST;
        flush.is_filled = cases[i].is_filled;
        flush.waits = false;
        open_scene(false);
        assert_ok(gantry_context_acquire(scene.gpu.context));
        assert_ok(gantry_copy_queue_create(0, &flush.queue));
        for (uint32_t run = 0; run < 3; run++) { /* none of them is called again, and nothing is done twice */
            assert_ok(run_flush(10 + run, 1));
        }
        flush.acts = cases[i].acts;
        flush.waits = true;
        assert_int_equal(run_flush(2, 2), cases[i].status);
        flush.acts &= ~(unsigned)CLEARS_FIRST;
        assert_ok(run_flush(3, 1)); /* it runs on streams from now on */
        gantry_copy_queue_destroy(flush.queue);
        assert_ok(gantry_context_release(scene.gpu.context));
        modes_close(&scene);
    }
}

/* ---- what a call that is made again counts and asks for ------------------------------------------------ */

static gantry_launch_result launch_all_kinds(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    const gantry_copy_desc desc = {.dest = (uint32_t *)scene.device + 1,
                                   .bytes = 4,
                                   .type = GANTRY_COPY_FILL,
                                   .pattern = 7,
                                   .pattern_bytes = 4};
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    job->calls++;
    const bool done =
        modes_complete(launch, job) && modes_complete(launch, job) && modes_stamp(launch, job) &&
        gantry_launch_copy_dtod(launch, scene.device, (uint32_t *)scene.device + 8, 4) == GANTRY_OK &&
        gantry_copy_launch_with(launch, &desc, 1, NULL) == GANTRY_OK;
    return done && (!flush.waits || driver->cuCtxSynchronize() == CUDA_SUCCESS) ? GANTRY_LAUNCH_DONE
                                                                                : GANTRY_LAUNCH_FAILED;
}

/* Run a step with this callback between two others, and return what it has counted. */
static gantry_dispatcher_stats count_all_kinds(uint32_t calls)
{
    struct modes_job jobs[3];
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(&scene.gpu, "done", modes_count_run, &ran), *before = NULL;
    const gantry_dispatcher_stats first = gpu_fixture_stats(&scene.gpu);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = (struct modes_job){.scene = &scene, .index = i, .completes = i < 2 ? done : NULL};
        gantry_task *task = gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "counted",
                                            i == 1 ? launch_all_kinds : modes_launch, &jobs[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    gpu_fixture_after(done, before);
    assert_ok(gpu_fixture_step(&scene.gpu));
    gantry_dispatcher_stats stats = gpu_fixture_stats(&scene.gpu);
    assert_int_equal(ran, 1);
    assert_int_equal(jobs[1].calls, calls);
    stats.kernels -= first.kernels;
    stats.copies -= first.copies;
    stats.batched_copies -= first.batched_copies;
    stats.completions -= first.completions;
    stats.launch_calls -= first.launch_calls;
    return stats;
}

/* Its work is enqueued once, and each completion told once: the counts are those of a call that is made once.
 */
static void test_what_is_done_once_is_counted_once(void **state)
{
    (void)state;
    open_scene(false);
    for (uint32_t round = 0; round < 3; round++) { /* in a graph, refused there and made again, on streams */
        flush.waits = round > 0;
        const gantry_dispatcher_stats stats = count_all_kinds(round == 1 ? 2 : 1);
        assert_int_equal(stats.launch_calls, round == 1 ? 4 : 3);
        assert_int_equal(stats.kernels, 4);
        assert_int_equal(stats.copies, 1);
        assert_int_equal(stats.batched_copies, 1);
        assert_int_equal(stats.completions, 3);
    }
    modes_close(&scene);
}

int main(void)
{
    unsetenv("GANTRY_TEST_DRIVER"); /* faults and operations are the emulated driver's */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_that_cannot_begin_keeps_no_mark),
        cmocka_unit_test(test_a_mark_ends_on_the_stream_that_is_no_member),
        cmocka_unit_test(test_a_call_that_cannot_leave_is_made_again),
        cmocka_unit_test(test_a_flush_counts_its_kernels),
        cmocka_unit_test(test_a_repeated_call_finds_its_queue_as_before),
        cmocka_unit_test(test_what_is_done_once_is_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
