/* SPDX-License-Identifier: MIT */
/* The application's code on threads of the library: it sees a thread like any other, and what it leaves
 * behind, another CUDA context or none, does not reach the library. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"

#include "context/context.h"
#include "dispatcher/internal.h"
#include "driver/driver.h"

#include <stdatomic.h>
#include <string.h>

enum { WORDS = 256, BYTES = WORDS * 4, TASKS = 8 };

struct scene {
    struct gpu_fixture gpu;
    uint32_t *host, *device;
    CUcontext left;    /* what spoilers leave current */
    bool pushes, pops; /* how */
    atomic_int told;   /* lines of the log that name the spoiler */
    atomic_int called;
    atomic_int mode; /* of the thread in the latest callback */
    unsigned number; /* of the scene */
    atomic_int grew; /* callbacks that found more contexts below them than the first one on their thread */
};

static const struct gy_driver *driver;
static CUcontext other;

static void must(CUresult result)
{
    assert_int_equal(result, CUDA_SUCCESS);
}

static void count_lines(void *user, gantry_log_level level, const char *line)
{
    struct scene *s = user;
    (void)level;
    if (strstr(line, "'spoil'") != NULL && strstr(line, "current") != NULL) {
        atomic_fetch_add(&s->told, 1);
    }
}

/* Take the thread's capture mode, which stays as it is. */
static void note_mode(struct scene *s)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    (void)driver->cuThreadExchangeStreamCaptureMode(&mode);
    atomic_store(&s->mode, (int)mode);
    (void)driver->cuThreadExchangeStreamCaptureMode(&mode);
}

/* Count the thread's contexts, which stay as they are.  What is pushed onto them must not mount up. */
static void note_depth(struct scene *s)
{
    enum { MOST = 32 };
    static _Thread_local int first;
    static _Thread_local unsigned scene;
    CUcontext contexts[MOST];
    int depth = 0;
    while (depth < MOST && driver->cuCtxPopCurrent(&contexts[depth]) == CUDA_SUCCESS) {
        depth++;
    }
    for (int i = depth; i > 0; i--) {
        (void)driver->cuCtxPushCurrent(contexts[i - 1]);
    }
    if (scene != s->number) {
        scene = s->number;
        first = depth;
    }
    atomic_fetch_add(&s->grew, depth > first ? 1 : 0);
}

static void spoil(struct scene *s)
{
    CUcontext popped;
    note_depth(s);
    if (s->pops) {
        (void)driver->cuCtxPopCurrent(&popped);
    } else if (s->pushes) {
        (void)driver->cuCtxPushCurrent(s->left);
    } else {
        (void)driver->cuCtxSetCurrent(s->left);
    }
}

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    note_mode(s);
    return gantry_launch_fill(launch, s->device, 5, 4, WORDS) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                           : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_and_spoil(gantry_launch *launch, void *arg)
{
    const gantry_launch_result result = launch_fill(launch, arg);
    spoil(arg);
    return result;
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return gantry_launch_copy_dtoh(launch, s->host, s->device, BYTES) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                   : GANTRY_LAUNCH_FAILED;
}

static void release_and_spoil(gantry_task *task, void *arg, gantry_status result)
{
    struct scene *s = arg;
    (void)task;
    (void)result;
    atomic_fetch_add(&s->called, 1);
    note_mode(s);
    spoil(s);
}

static void open_scene(struct scene *s, gantry_submission submission)
{
    static unsigned scenes;
    memset(s, 0, sizeof(*s));
    s->number = ++scenes;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&s->gpu, 1, &options);
    gpu_fixture_use_threads_only(&s->gpu);
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    const gantry_alloc_site site = GANTRY_ALLOC_SITE("scene");
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, site, (void **)&s->host));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, site, (void **)&s->device));
    gantry_set_log(count_lines, s, GANTRY_LOG_WARNING);
}

static void close_scene(struct scene *s)
{
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->host));
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->device));
    gpu_fixture_close(&s->gpu);
}

/* A step whose tasks spoil the thread, and one behind them that needs it as it was. */
static void run_step(struct scene *s, bool in_launch, bool in_release)
{
    memset(s->host, 0, BYTES);
    gantry_task *out = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_DTOH, "out", launch_out, s), *before = NULL;
    for (int i = 0; i < TASKS; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = "spoil";
        desc.launch = in_launch ? launch_and_spoil : launch_fill;
        desc.release = in_release ? release_and_spoil : NULL;
        desc.arg = s;
        assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    gpu_fixture_after(out, before);
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_int_equal(s->host[0], 5);
    assert_int_equal(s->host[WORDS - 1], 5);
    assert_true(gantry_context_is_valid(s->gpu.context));
    assert_int_equal(atomic_load(&s->mode), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void check_spoilers(gantry_submission submission, bool in_launch, bool in_release)
{
    for (int how = 0; how < 4; how++) {
        struct scene s;
        open_scene(&s, submission);
        s.left = how == 0 ? NULL : other;
        s.pushes = how == 2;
        s.pops = how == 3;
        for (int step = 0; step < 3; step++) {
            run_step(&s, in_launch, in_release);
        }
        assert_int_equal(atomic_load(&s.told), 1);
        assert_int_equal(atomic_load(&s.grew), 0);
        close_scene(&s);
    }
}

static void test_a_launch_callback_may_leave_any_context_current(void **state)
{
    (void)state;
    for (int submission = 1; submission <= (int)GANTRY_SUBMISSION_AUTO; submission++) {
        check_spoilers((gantry_submission)submission, true, false);
    }
}

static void test_a_release_callback_may_leave_any_context_current(void **state)
{
    (void)state;
    for (int submission = 1; submission <= (int)GANTRY_SUBMISSION_AUTO; submission++) {
        check_spoilers((gantry_submission)submission, false, true);
    }
}

/* What a callback acquires and does not release is given back, so that it cannot mount up. */
static gantry_launch_result launch_and_acquire(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_context_acquire(s->gpu.context) == GANTRY_OK ? launch_fill(launch, arg)
                                                               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_and_release(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_context_release(s->gpu.context) == GANTRY_ERR_STATE ? launch_fill(launch, arg)
                                                                      : GANTRY_LAUNCH_FAILED;
}

static void test_what_a_callback_acquires_ends_with_it(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    gantry_task *before = NULL;
    for (int i = 0; i < 40; i++) {
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "acquire", launch_and_acquire, &s);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_ok(gpu_fixture_step(&s.gpu));
    (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "release", launch_and_release, &s);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_true(gantry_context_is_valid(s.gpu.context));
    close_scene(&s);
}

/* Whatever the driver says of captures, the work goes on. */
static void test_no_result_of_a_capture_loses_the_context(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    static const char *const calls[] = {"cuEventQuery", "cuEventSynchronize"};
    for (int result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
         result++) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            struct scene s;
            open_scene(&s, GANTRY_SUBMISSION_STREAMS);
            assert_int_equal((emu.fail)(calls[i], 1, result, GANTRY_EMU_ONCE), 0);
            for (int step = 0; step < 3; step++) {
                gantry_task *cpu = gpu_fixture_cpu(&s.gpu, "behind", NULL, NULL);
                assert_ok(gantry_task_start_after_done(
                    cpu, gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "fill", launch_fill, &s)));
                assert_ok(gpu_fixture_step(&s.gpu));
            }
            assert_true(gantry_context_is_valid(s.gpu.context));
            emu.clear_faults();
            close_scene(&s);
        }
    }
}

/* A library that keeps its latest error for all threads until somebody takes it; CUDA's runtime has one for
 * each (dispatcher.stale_errors). */
static gantry_launch_result launch_with_stale_error(gantry_launch *launch, void *arg)
{
    static bool is_stale;
    CUdeviceptr block;
    const bool was_stale = is_stale;
    is_stale = driver->cuMemAlloc(&block, 256) != CUDA_SUCCESS;
    if (is_stale || driver->cuMemFree(block) != CUDA_SUCCESS || was_stale) {
        return GANTRY_LAUNCH_FAILED;
    }
    return launch_fill(launch, arg);
}

/* A call is refused, and the second one fails at what it has left behind.  That step fails by name, and no
 * other: the callback is refused nothing any more. */
static void test_what_fails_again_runs_on_streams_from_then_on(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    for (int step = 0; step < 4; step++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "stale", launch_with_stale_error, &s);
        const gantry_status status = gpu_fixture_step(&s.gpu);
        assert_int_equal(status, step == 0 ? GANTRY_ERR_TASK_FAILED : GANTRY_OK);
        assert_true(step != 0 || strstr(gantry_last_error(), "stale") != NULL);
    }
    close_scene(&s);
}

static int open_device(void **state)
{
    (void)state;
    CUdevice device;
    CUcontext popped;
    assert_ok(gy_driver_open(gpu_fixture_driver(), &driver));
    must(driver->cuDeviceGet(&device, 0));
    must(driver->cuCtxCreate(&other, 0, device));
    must(driver->cuCtxPopCurrent(&popped));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    must(driver->cuCtxDestroy(other));
    gy_driver_close(driver);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_launch_callback_may_leave_any_context_current),
        cmocka_unit_test(test_a_release_callback_may_leave_any_context_current),
        cmocka_unit_test(test_what_a_callback_acquires_ends_with_it),
        cmocka_unit_test(test_no_result_of_a_capture_loses_the_context),
        cmocka_unit_test(test_what_fails_again_runs_on_streams_from_then_on),
    };
    return cmocka_run_group_tests_name("outside", tests, open_device, close_device);
}
