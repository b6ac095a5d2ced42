/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=forks and =stable: work that callbacks leave unjoined, and stable tasks whose calls differ. */
#include "base/checking.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    struct gpu_fixture gpu;
    const struct gy_driver *driver;
    gantry_kernel *count_up;
    gantry_task *other; /* another task of the graph */
    char *memory;       /* on the device */
    CUstream side;      /* streams and events of the application's own */
    CUevent event;
    uint32_t act;
    bool is_other; /* in this call it does something else than before */
    uint32_t calls;
};

static void open_scene(struct scene *s, const char *check, gantry_submission submission)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module;
    void *memory;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    memset(s, 0, sizeof(*s));
    setenv("GANTRY_CHECK", check, 1);
    gpu_fixture_open_with(&s->gpu, 1, &options);
    assert_ok(gantry_context_acquire(s->gpu.context));
    s->driver = s->gpu.context->cuda->driver;
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), GANTRY_MEMORY_DEVICE, 65536, 0,
                                GANTRY_ALLOC_SITE("checked"), &memory));
    s->memory = memory;
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "count_up", &s->count_up));
    assert_int_equal(s->driver->cuStreamCreate(&s->side, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(s->driver->cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
}

static void close_scene(struct scene *s)
{
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_int_equal(s->driver->cuStreamSynchronize(s->side), CUDA_SUCCESS);
    assert_int_equal(s->driver->cuStreamDestroy(s->side), CUDA_SUCCESS);
    assert_int_equal(s->driver->cuEventDestroy(s->event), CUDA_SUCCESS);
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->memory));
    assert_ok(gantry_context_release(s->gpu.context));
    gpu_fixture_close(&s->gpu);
    unsetenv("GANTRY_CHECK");
    (void)gy_checks_read();
}

/* ---- forks ------------------------------------------------------------------------------------- */

enum fork_act {
    FORKS,
    FORKS_AND_JOINS,
    LEAVES_WORK,      /* this stream comes after nothing of the task's */
    LEAVES_AND_JOINS, /* the task's stream comes after it */
    WAITS_FOR_IT,     /* the host waits for it */
    STAYS,
    FORK_ACTS
};

static gantry_launch_result fork_off(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    CUstream own = gantry_launch_stream(launch);
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)s->memory;
    CUresult worst = CUDA_SUCCESS;
    s->calls++;
    assert_ok(gantry_launch_fill(launch, s->memory, 1, 4, 64));
    if (s->act == FORKS || s->act == FORKS_AND_JOINS) {
        worst |= s->driver->cuEventRecord(s->event, own);
        worst |= s->driver->cuStreamWaitEvent(s->side, s->event, 0);
    }
    if (s->act != STAYS) {
        worst |= s->driver->cuMemsetD32Async(to + 4096, 2, 64, s->side);
        worst |= s->driver->cuMemsetD32Async(to + 4096, 3, 64, s->side);
    }
    if (s->act == FORKS_AND_JOINS || s->act == LEAVES_AND_JOINS) {
        worst |= s->driver->cuEventRecord(s->event, s->side);
        worst |= s->driver->cuStreamWaitEvent(own, s->event, 0);
    }
    if (s->act == WAITS_FOR_IT) {
        worst |= s->driver->cuStreamSynchronize(s->side);
    }
    return worst == CUDA_SUCCESS ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Returns how many lines name a task of this label that does so; runs two steps. */
static uint32_t fork_lines(struct scene *s, enum fork_act act, const char *label)
{
    static const char what[] = "leaves work on stream";
    struct log_lines lines;
    char expected[80];
    s->act = act;
    snprintf(expected, sizeof(expected), "task '%s' %s", label, what);
    log_lines_begin(&lines, expected);
    for (int step = 0; step < 2; step++) {
        (void)gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, label, fork_off, s);
        assert_ok(gpu_fixture_step(&s->gpu));
        assert_int_equal(s->driver->cuStreamSynchronize(s->side), CUDA_SUCCESS);
    }
    return log_lines_end(&lines);
}

static bool is_emulated(void)
{
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED;
}

static void test_work_that_is_left_elsewhere_is_told_once(void **state)
{
    static const char *const labels[2][2] = {{"forks", "leaves"}, {"forks, all on", "leaves, all on"}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene s;
        open_scene(&s, i == 0 ? "forks" : "1", GANTRY_SUBMISSION_STREAMS);
        assert_int_equal(fork_lines(&s, FORKS, labels[i][0]), is_emulated());
        assert_int_equal(fork_lines(&s, FORKS, labels[i][0]), 0);
        assert_int_equal(fork_lines(&s, LEAVES_WORK, labels[i][1]), is_emulated());
        assert_int_equal(s.calls, 6); /* no task is called again */
        close_scene(&s);
    }
}

static void test_the_message_has_the_number_and_the_stream(void **state)
{
    (void)state;
    struct scene s;
    struct log_lines lines;
    char expected[120];
    open_scene(&s, "forks", GANTRY_SUBMISSION_STREAMS);
    snprintf(expected, sizeof(expected),
             "leaves work on stream %p that its own stream does not wait for (2 calls)", (void *)s.side);
    log_lines_begin(&lines, expected);
    s.act = FORKS;
    (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "numbers", fork_off, &s);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(log_lines_end(&lines), is_emulated());
    close_scene(&s);
}

static void test_what_is_joined_is_not_told(void **state)
{
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                              GANTRY_SUBMISSION_AUTO};
    static const enum fork_act acts[] = {FORKS_AND_JOINS, WAITS_FOR_IT, STAYS};
    (void)state;
    for (int m = 0; m < 3; m++) {
        for (int a = 0; a < 3; a++) {
            struct scene s;
            open_scene(&s, "1", modes[m]);
            assert_int_equal(fork_lines(&s, acts[a], "joined"), 0);
            close_scene(&s);
        }
    }
    struct scene s;
    open_scene(&s, "1", GANTRY_SUBMISSION_STREAMS); /* no capture takes that */
    assert_int_equal(fork_lines(&s, LEAVES_AND_JOINS, "joined"), 0);
    close_scene(&s);
}

/* The driver of a device sees it there, too. */
static void test_a_capture_tells_forks(void **state)
{
    (void)state;
    struct scene s;
    struct log_lines lines;
    open_scene(&s, "forks", GANTRY_SUBMISSION_GRAPHS);
    s.act = FORKS;
    log_lines_begin(&lines,
                    "task 'captured' forks to a stream that it does not join; completions of the task");
    (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "captured", fork_off, &s);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_int_equal(log_lines_end(&lines), s.driver->log != NULL);
    close_scene(&s);
}

static void test_no_forks_are_told_without_the_check(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, "completions", GANTRY_SUBMISSION_STREAMS);
    assert_int_equal(fork_lines(&s, FORKS, "unchecked"), 0);
    close_scene(&s);
}

/* ---- stable tasks ------------------------------------------------------------------------------ */

enum call_act {
    GRID,
    BLOCK,
    SHARED,
    ARGUMENT,
    COPY_BYTES,
    COPY_SOURCE,
    FILL_PATTERN,
    FILL_SIZE,
    BATCH_TARGET,
    BATCH_SIZE, /* of a pattern */
    BATCH_END,
    BATCH_COUNT,
    QUEUED,
    MORE_CALLS,
    FEWER_CALLS,
    OTHER_CALL,
    COMPLETES,
    CALL_ACTS
};

static gantry_status launch_kernel(struct scene *s, gantry_launch *launch)
{
    const uint32_t other = s->is_other;
    const gantry_dim3 grid = {s->act == GRID ? 1 + other : 1, 1, 1},
                      block = {1, s->act == BLOCK ? 1 + other : 1, 1};
    char *clock = s->memory;
    uint32_t by = s->act == ARGUMENT ? 7 + other : 7;
    void *args[] = {&clock, &by};
    return gantry_launch_kernel(launch, s->count_up, grid, block, s->act == SHARED ? 16 * other : 0, args);
}

static gantry_status launch_copies(struct scene *s, gantry_launch *launch)
{
    const uint32_t other = s->is_other;
    char *m = s->memory;
    const unsigned char pattern[16] = {[0] = 1, [15] = s->act == BATCH_END ? (unsigned char)other : 0};
    const gantry_copy_desc descs[] = {
        {.dest = m + 8192 + (s->act == BATCH_TARGET ? 64 * other : 0),
         .source = pattern,
         .bytes = 64,
         .type = GANTRY_COPY_FILL,
         .pattern_bytes = s->act == BATCH_END                  ? 16
                          : s->act == BATCH_SIZE && other != 0 ? 2
                                                               : 4,
         .pattern = 1},
        {.dest = m + 16384, .source = m + 12288, .bytes = 64, .type = GANTRY_COPY_DTOD},
    };
    gantry_status status =
        gantry_launch_copy_dtod(launch, m + 4096, m + 1024 + (s->act == COPY_SOURCE ? 64 * other : 0),
                                s->act == COPY_BYTES ? 128 + other : 128);
    if (status == GANTRY_OK) {
        const bool is_short = s->act == FILL_SIZE && other != 0;
        status = gantry_launch_fill(launch, m + 2048, s->act == FILL_PATTERN ? 5 + other : 5,
                                    is_short ? 2 : 4, is_short ? 32 : 16);
    }
    return status == GANTRY_OK ? gantry_copy_launch(launch, descs, s->act == BATCH_COUNT ? 1 + other : 2)
                               : status;
}

static gantry_status launch_queue(struct scene *s, gantry_launch *launch)
{
    gantry_copy_queue *queue;
    gantry_status status = gantry_copy_queue_create(4, &queue);
    gantry_copy_desc desc = {.dest = s->memory + 20480 + (s->act == QUEUED ? 64u * s->is_other : 0u),
                             .source = s->memory,
                             .bytes = 64,
                             .type = GANTRY_COPY_DTOD};
    if (status == GANTRY_OK) {
        status = gantry_copy_queue_enqueue(queue, &desc);
        status = status == GANTRY_OK ? gantry_copy_queue_flush(queue, launch) : status;
        gantry_copy_queue_destroy(queue);
    }
    return status;
}

/* ---- pageable memory ---------------------------------------------------------------------------- */

static gantry_launch_result launch_pageable(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    static char pageable[64];
    return gantry_launch_copy_htod(launch, s->memory, pageable, sizeof(pageable)) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static uint32_t count_told_of_pageable(const char *check, gantry_submission submission)
{
    struct scene s;
    struct log_lines lines;
    open_scene(&s, check, submission);
    log_lines_begin(&lines, "'pages': gantry_launch_copy_htod of 64 bytes at");
    for (int step = 0; step < 3; step++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_HTOD, "pages", launch_pageable, &s);
        assert_ok(gpu_fixture_step(&s.gpu));
    }
    const uint32_t told = log_lines_end(&lines);
    close_scene(&s);
    return told;
}

static void test_copies_of_pageable_memory_are_told_once(void **state)
{
    (void)state;
    assert_int_equal(count_told_of_pageable("forks", GANTRY_SUBMISSION_STREAMS), 0);
    assert_int_equal(count_told_of_pageable("1", GANTRY_SUBMISSION_STREAMS), 1);
    assert_int_equal(count_told_of_pageable("bounds", GANTRY_SUBMISSION_GRAPHS),
                     0); /* the same label and call */
}

static gantry_launch_result launch_stable(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    s->calls++;
    bool done = launch_kernel(s, launch) == GANTRY_OK && launch_copies(s, launch) == GANTRY_OK &&
                launch_queue(s, launch) == GANTRY_OK;
    if (s->act == MORE_CALLS || s->act == FEWER_CALLS) {
        done = done && ((s->act == MORE_CALLS) != s->is_other || launch_kernel(s, launch) == GANTRY_OK);
    } else if (s->act == OTHER_CALL && s->is_other) {
        done = done && gantry_launch_fill(launch, s->memory, 0, 4, 1) == GANTRY_OK;
    } else if (s->act == OTHER_CALL) {
        done = done && launch_kernel(s, launch) == GANTRY_OK;
    }
    if (s->act == COMPLETES && s->is_other) {
        done = done && gantry_launch_add_completion(launch, s->other) == GANTRY_OK;
    }
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_task *freeze_stable(struct scene *s, gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "steady";
    desc.launch = launch;
    desc.arg = s;
    desc.is_stable = true;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    s->other = gpu_fixture_cpu(&s->gpu, "other", NULL, NULL);
    gpu_fixture_after(s->other, task);
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
    return task;
}

static void run(struct scene *s)
{
    assert_ok(gantry_taskman_start(s->gpu.manager));
    assert_ok(gantry_taskman_stop(s->gpu.manager));
}

static void test_a_stable_task_whose_calls_differ_is_told(void **state)
{
    static const char *const said[] = {
        [GRID] = "call 0 (kernel count_up): grid.x is 2, and was 1;",
        [BLOCK] = "call 0 (kernel count_up): block.y is 2, and was 1;",
        [SHARED] = "call 0 (kernel count_up): shared_bytes is 16, and was 0;",
        [ARGUMENT] = "call 0 (kernel count_up): argument 1 (4 bytes) is 0x8 from byte 0 on, and was 0x7;",
        [COPY_BYTES] = "call 1 (copy): its bytes is 129, and was 128;",
        [COPY_SOURCE] = "call 1 (copy): its source is 0x",
        [FILL_PATTERN] = "call 2 (fill): its pattern is 0x6, and was 0x5;",
        [FILL_SIZE] = "call 2 (fill): its pattern's size is 2, and was 4;",
        [BATCH_SIZE] = "call 3 (batched copy): its pattern is 0x1000100010001, and was 0x100000001;",
        [BATCH_END] = "call 3 (batched copy): the end of its pattern is 0x100000000000000, and was 0x0;",
        [BATCH_TARGET] = "call 3 (batched copy): its target is 0x",
        [BATCH_COUNT] = "call 4 (batched copy): its ",
        [QUEUED] = "call 5 (batched copy): its target is 0x",
        [FEWER_CALLS] = "it makes 6 calls, and made 7, the next of them a kernel count_up;",
        [MORE_CALLS] = "call 6 is kernel count_up, and there were only 6 calls;",
        [OTHER_CALL] = "call 6 is fill, and was kernel count_up;",
        [COMPLETES] = "call 6 is completion, and there were only 6 calls;",
    };
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    (void)state;
    for (uint32_t i = 0; i < 2 * CALL_ACTS; i++) {
        struct scene s;
        struct log_lines lines;
        char expected[200];
        open_scene(&s, i % 3 == 0 ? "1" : "stable", modes[i % 2]);
        s.act = i / 2;
        (void)freeze_stable(&s, launch_stable);
        snprintf(expected, sizeof(expected),
                 "stable task 'steady' does not enqueue what it did in the run before: %s", said[s.act]);
        log_lines_begin(&lines, expected);
        for (int n = 0; n < 5; n++) {
            run(&s);
        }
        assert_int_equal(atomic_load(&lines.count), 0);
        s.is_other = true;
        run(&s);
        run(&s);
        if (log_lines_end(&lines) != 1) {
            fail_msg("mode %u: nothing says \"%s\"", i % 2, said[s.act]);
        }
        assert_true(s.calls >= 7); /* replays call it, too */
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        close_scene(&s);
    }
}

/* Returns how many lines about stable tasks `runs` runs write. */
static uint32_t stable_lines(struct scene *s, gantry_task *task, int runs, bool invalidates)
{
    struct log_lines lines;
    log_lines_begin(&lines, "does not enqueue what it did");
    for (int n = 0; n < runs; n++) {
        run(s);
        if (invalidates) {
            s->is_other = !s->is_other;
            assert_ok(gantry_task_invalidate(task));
        }
    }
    return log_lines_end(&lines);
}

/* The task has several calls: index 0 launches, the others fill. */
static gantry_launch_result launch_again(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    const uint32_t index = (uint32_t)gantry_launch_index(launch);
    bool done = index == 0 ? launch_kernel(s, launch) == GANTRY_OK
                           : gantry_launch_fill(launch, s->memory + 64 * index, index, 4, 4) == GANTRY_OK;
    return !done ? GANTRY_LAUNCH_FAILED : index < 3 ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

/* Its work cannot be replayed, so that it is called in every run and may differ. */
static gantry_launch_result launch_allocating(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    void *block;
    if (gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 4096u << s->calls++ % 4, 0,
                            GANTRY_ALLOC_SITE("scratch"), &block) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    bool done = gantry_launch_fill(launch, block, 1, 4, 16) == GANTRY_OK &&
                gantry_free_after(block, launch) == GANTRY_OK;
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Its first call in a run is made again on a plain stream, as a capture does not take it. */
static gantry_launch_result launch_spoilt(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    bool done = launch_kernel(s, launch) == GANTRY_OK;
    s->driver->cuStreamSynchronize(gantry_launch_stream(launch));
    return done && launch_kernel(s, launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* The same for its second call, in a run that is compared. */
static gantry_launch_result launch_spoilt_later(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    CUstream own = gantry_launch_stream(launch);
    s->calls++;
    if (launch_kernel(s, launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (gantry_launch_index(launch) == 0) {
        return GANTRY_LAUNCH_AGAIN;
    }
    if (s->is_other) {
        s->driver->cuStreamSynchronize(own);
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_failing(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    s->calls++;
    if (launch_kernel(s, launch) != GANTRY_OK || s->calls == 1) {
        return GANTRY_LAUNCH_FAILED;
    }
    return launch_kernel(s, launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_a_stable_task_that_keeps_its_word_is_not_told(void **state)
{
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                              GANTRY_SUBMISSION_AUTO};
    static const gantry_launch_fn functions[] = {launch_stable, launch_again, launch_allocating,
                                                 launch_spoilt};
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct scene s;
        open_scene(&s, "1", modes[i % 3]);
        gantry_task *task = freeze_stable(&s, functions[i / 3]);
        s.act = CALL_ACTS;
        assert_int_equal(stable_lines(&s, task, 6, false), 0);
        s.act = GRID;
        assert_ok(gantry_task_invalidate(task));
        assert_int_equal(stable_lines(&s, task, 6, true), 0);
        assert_ok(gantry_taskman_reset(s.gpu.manager));
        close_scene(&s);
    }
}

static void test_a_call_that_is_repeated_counts_once(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, "stable", GANTRY_SUBMISSION_GRAPHS);
    s.act = CALL_ACTS;
    gantry_task *task = freeze_stable(&s, launch_spoilt_later);
    assert_int_equal(stable_lines(&s, task, 4, false), 0);
    assert_true(s.driver->log == NULL || s.calls == 8);
    s.is_other = true;
    assert_int_equal(stable_lines(&s, task, 1, false), 0);
    assert_true(s.driver->log == NULL || s.calls == 11);
    assert_int_equal(stable_lines(&s, task, 2, false), 0);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

static void test_a_run_that_fails_is_not_compared_with(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, "stable", GANTRY_SUBMISSION_STREAMS);
    s.act = CALL_ACTS;
    gantry_task *task = freeze_stable(&s, launch_failing);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_not_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_OK);
    assert_int_equal(stable_lines(&s, task, 4, false), 0);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

static void test_replays_go_on_without_the_check(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, "forks", GANTRY_SUBMISSION_GRAPHS);
    s.act = GRID;
    gantry_task *task = freeze_stable(&s, launch_stable);
    assert_int_equal(stable_lines(&s, task, 4, false), 0);
    const uint32_t calls = s.calls;
    s.is_other = true;
    assert_int_equal(stable_lines(&s, task, 4, false), 0);
    assert_int_equal(s.calls, calls);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_that_is_left_elsewhere_is_told_once),
        cmocka_unit_test(test_the_message_has_the_number_and_the_stream),
        cmocka_unit_test(test_what_is_joined_is_not_told),
        cmocka_unit_test(test_a_capture_tells_forks),
        cmocka_unit_test(test_no_forks_are_told_without_the_check),
        cmocka_unit_test(test_copies_of_pageable_memory_are_told_once),
        cmocka_unit_test(test_a_stable_task_whose_calls_differ_is_told),
        cmocka_unit_test(test_a_stable_task_that_keeps_its_word_is_not_told),
        cmocka_unit_test(test_a_call_that_is_repeated_counts_once),
        cmocka_unit_test(test_a_run_that_fails_is_not_compared_with),
        cmocka_unit_test(test_replays_go_on_without_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
