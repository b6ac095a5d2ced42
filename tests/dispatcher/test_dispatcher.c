/* SPDX-License-Identifier: MIT */
/* The dispatcher's behaviour as an application sees it. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <string.h>

/* A log of calls, which GD writes, and which is read after the step. */
struct call_log {
    _Atomic(uint32_t) count;
    const char *labels[64];
    uint32_t indices[64];
    void *streams[64];
};

static struct call_log calls;

static void log_call(gantry_launch *launch)
{
    uint32_t at = atomic_fetch_add(&calls.count, 1);
    if (at < 64) {
        calls.labels[at] = gantry_task_label(gantry_launch_task(launch));
        calls.indices[at] = (uint32_t)gantry_launch_index(launch);
        calls.streams[at] = gantry_launch_stream(launch);
    }
}

static gantry_launch_result launch_once(gantry_launch *launch, void *arg)
{
    (void)arg;
    log_call(launch);
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_thrice(gantry_launch *launch, void *arg)
{
    (void)arg;
    log_call(launch);
    return gantry_launch_index(launch) == 2 ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_AGAIN;
}

static gantry_launch_result launch_nothing_and_fail(gantry_launch *launch, void *arg)
{
    (void)arg;
    log_call(launch);
    return GANTRY_LAUNCH_FAILED;
}

static gantry_status count_run(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((_Atomic(uint32_t) *)arg, 1);
    return GANTRY_OK;
}

static int open_fixture(void **state)
{
    static struct gpu_fixture fixture;
    memset(&calls, 0, sizeof(calls));
    gpu_fixture_open(&fixture, 2, 0);
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    gpu_fixture_close(*state);
    return 0;
}

static uint32_t position_of(const char *label, uint32_t index)
{
    for (uint32_t i = 0; i < atomic_load(&calls.count); i++) {
        if (strcmp(calls.labels[i], label) == 0 && calls.indices[i] == index) {
            return i;
        }
    }
    fail_msg("no call of %s with index %u", label, index);
    return 0;
}

static void *stream_of(const char *label)
{
    return calls.streams[position_of(label, 0)];
}

static void test_flavours_run_in_three_phases(void **state)
{
    struct gpu_fixture *f = *state;
    /* The tasks are submitted in the opposite order: the phases decide. */
    gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "out", launch_once, NULL);
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "work", launch_once, NULL);
    gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "in", launch_once, NULL);
    gantry_dispatcher *d = gantry_context_dispatcher(f->context);
    gantry_dispatcher_start_group(d);
    gantry_dispatcher_start_group(d);
    gantry_dispatcher_finish_group(d); /* the outer group is still open */
    assert_ok(gantry_taskman_start(f->manager));
    gantry_dispatcher_finish_group(d);
    assert_ok(gantry_taskman_stop(f->manager));
    assert_int_equal(calls.count, 3);
    assert_int_equal(position_of("in", 0), 0);
    assert_int_equal(position_of("work", 0), 1);
    assert_int_equal(position_of("out", 0), 2);
    assert_int_equal(gpu_fixture_stats(f).batches, 1);
}

static void test_launches_of_running_tasks_are_interleaved(void **state)
{
    struct gpu_fixture *f = *state;
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "a", launch_thrice, NULL);
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "b", launch_thrice, NULL);
    assert_ok(gpu_fixture_step(f));
    assert_int_equal(calls.count, 6);
    for (uint32_t index = 0; index < 3; index++) {
        assert_int_equal(position_of("a", index), 2 * index);
        assert_int_equal(position_of("b", index), 2 * index + 1);
        assert_ptr_equal(calls.streams[2 * index], stream_of("a"));
        assert_ptr_equal(calls.streams[2 * index + 1], stream_of("b"));
    }
    assert_ptr_not_equal(stream_of("a"), stream_of("b"));
}

static void test_a_same_flavour_dependent_joins_the_running_phase(void **state)
{
    struct gpu_fixture *f = *state;
    gantry_task *first = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "first", launch_once, NULL);
    gantry_task *second = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "second", launch_once, NULL);
    gantry_task *out = gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "out", launch_once, NULL);
    gpu_fixture_after(second, first);
    gpu_fixture_after(out, first);
    assert_ok(gpu_fixture_step(f));
    assert_true(position_of("second", 0) < position_of("out", 0));
    assert_int_equal(gpu_fixture_stats(f).batches, 1);
}

/* What is counted are the waits and streams of this way. */
static void use_streams(struct gpu_fixture *f)
{
    assert_ok(
        gantry_dispatcher_set_submission(gantry_context_dispatcher(f->context), GANTRY_SUBMISSION_STREAMS));
}

static void test_a_chain_keeps_its_stream_and_needs_no_wait(void **state)
{
    struct gpu_fixture *f = *state;
    use_streams(f);
    gantry_task *in = gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "in", launch_once, NULL);
    gantry_task *work = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "work", launch_once, NULL);
    gantry_task *out = gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "out", launch_once, NULL);
    gpu_fixture_after(work, in);
    gpu_fixture_after(out, work);
    assert_ok(gpu_fixture_step(f));
    assert_ptr_equal(stream_of("in"), stream_of("work"));
    assert_ptr_equal(stream_of("work"), stream_of("out"));
    gantry_dispatcher_stats stats = gpu_fixture_stats(f);
    assert_int_equal(stats.wfi_edges, 0);
    assert_int_equal(stats.events_recorded, 0);
    assert_int_equal(stats.streams_created, 1);
}

static void test_a_fork_and_join_inherit_one_stream_and_wait_for_the_other(void **state)
{
    struct gpu_fixture *f = *state;
    use_streams(f);
    gantry_task *in = gpu_fixture_gpu(f, GANTRY_TASK_HTOD, "in", launch_once, NULL);
    gantry_task *left = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "left", launch_once, NULL);
    gantry_task *right = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "right", launch_once, NULL);
    gantry_task *join = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "join", launch_once, NULL);
    gpu_fixture_after(left, in);
    gpu_fixture_after(right, in);
    gpu_fixture_after(join, left);
    gpu_fixture_after(join, right);
    assert_ok(gpu_fixture_step(f));
    assert_ptr_equal(stream_of("left"), stream_of("in"));
    assert_ptr_not_equal(stream_of("right"), stream_of("in"));
    assert_ptr_equal(stream_of("join"), stream_of("left"));
    gantry_dispatcher_stats stats = gpu_fixture_stats(f);
    assert_int_equal(stats.wfi_edges, 2); /* right after in, join after right */
    assert_int_equal(stats.streams_created, 2);
}

static void test_a_cpu_task_and_a_sync_point_pass_the_stream_on(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0;
    gantry_task *first = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "first", launch_once, NULL);
    gantry_task *cpu = gpu_fixture_cpu(f, "cpu", count_run, &ran);
    gantry_task *sync = gpu_fixture_cpu(f, "sync", NULL, NULL);
    gantry_task *second = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "second", launch_once, NULL);
    gpu_fixture_after(cpu, first);
    gpu_fixture_after(sync, cpu);
    gpu_fixture_after(second, sync);
    assert_ok(gpu_fixture_step(f));
    assert_int_equal(ran, 1);
    assert_ptr_equal(stream_of("second"), stream_of("first"));
}

static void test_a_failed_launch_fails_only_its_dependents(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0, others = 0;
    gantry_task *bad = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "bad", launch_nothing_and_fail, NULL);
    gantry_task *after = gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "after", launch_once, NULL);
    gantry_task *cpu = gpu_fixture_cpu(f, "cpu", count_run, &ran);
    gantry_task *other = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "other", launch_once, NULL);
    gantry_task *other_cpu = gpu_fixture_cpu(f, "other cpu", count_run, &others);
    gpu_fixture_after(after, bad);
    gpu_fixture_after(cpu, after);
    gpu_fixture_after(other_cpu, other);
    assert_int_equal(gpu_fixture_step(f), GANTRY_ERR_TASK_FAILED);
    assert_non_null(strstr(gantry_last_error(), "bad"));
    assert_int_equal(ran, 0);
    assert_int_equal(others, 1);
    assert_false(gantry_dispatcher_failure_detected(gantry_context_dispatcher(f->context)));
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "again", launch_once, NULL);
    assert_ok(gpu_fixture_step(f));
}

/* ---- completions ---- */

static gantry_launch_result launch_with_completion(gantry_launch *launch, void *arg)
{
    log_call(launch);
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_too_much(gantry_launch *launch, void *arg)
{
    void *out;
    (void)arg;
    return gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, (size_t)1 << 50, 0, GANTRY_ALLOC_SITE("much"),
                               &out) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_and_fail_with(gantry_launch *launch, void *arg)
{
    return gantry_launch_fail(launch, *(const gantry_status *)arg);
}

static gantry_launch_result launch_badly(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_fill(launch, launch, 1, 3, 1) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                    : GANTRY_LAUNCH_FAILED;
}

static void count_errors(void *user, gantry_log_level level, const char *line)
{
    (void)line;
    atomic_fetch_add((_Atomic(uint32_t) *)user, level == GANTRY_LOG_ERROR);
}

/* The task, and the step in which it is the first to fail, end with the status of the failed call, and one
 * line says so. */
static void test_a_failed_call_tells_its_status(void **state)
{
    struct gpu_fixture *f = *state;
    static const gantry_status io = GANTRY_ERR_IO, ok = GANTRY_OK;
    const struct {
        gantry_launch_fn launch;
        const gantry_status *arg;
        gantry_status status;
    } cases[] = {
        {launch_too_much, NULL, GANTRY_ERR_OUT_OF_DEVICE_MEMORY},
        {launch_badly, NULL, GANTRY_ERR_INVALID_ARGUMENT},
        {launch_nothing_and_fail, NULL, GANTRY_ERR_TASK_FAILED},
        {launch_and_fail_with, &io, GANTRY_ERR_IO},
        {launch_and_fail_with, &ok, GANTRY_ERR_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        _Atomic(uint32_t) lines = 0;
        gantry_task *task =
            gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "culprit", cases[i].launch, (void *)cases[i].arg);
        gantry_task *after = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "after", launch_once, NULL);
        gpu_fixture_after(after, task);
        gantry_set_log(count_errors, &lines, GANTRY_LOG_INFO);
        assert_ok(gantry_taskman_start(f->manager));
        gantry_status status = gantry_taskman_stop(f->manager);
        gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(gantry_task_result(task), cases[i].status);
        assert_int_equal(gantry_task_result(after), GANTRY_ERR_TASK_FAILED);
        assert_int_equal(lines, 1);
        const char *named = strstr(gantry_last_error(), "'culprit'");
        assert_non_null(named);
        assert_null(strstr(named + 1, "'culprit'"));
        assert_ok(gantry_taskman_reset(f->manager));
    }
}

static void test_several_tasks_may_complete_one_cpu_task(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0;
    gantry_task *done = gpu_fixture_cpu(f, "done", count_run, &ran);
    for (int i = 0; i < 20; i++) {
        gpu_fixture_after(done, gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "out", launch_with_completion, done));
    }
    assert_ok(gpu_fixture_step(f));
    assert_int_equal(ran, 1);
    assert_int_equal(gpu_fixture_stats(f).completions, 20);
}

static void test_more_completions_than_the_ring_holds_are_all_told(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0;
    for (int i = 0; i < 3000; i++) {
        gantry_task *done = gpu_fixture_cpu(f, "done", count_run, &ran);
        gpu_fixture_after(done, gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "out", launch_with_completion, done));
    }
    assert_ok(gpu_fixture_step(f));
    assert_int_equal(ran, 3000);
}

struct misuse {
    gantry_task *target;
    gantry_status status;
};

static gantry_launch_result launch_completion_of_released(gantry_launch *launch, void *arg)
{
    struct misuse *misuse = arg;
    misuse->status = gantry_launch_add_completion(launch, misuse->target);
    return GANTRY_LAUNCH_DONE;
}

static void test_completing_a_dispatched_task_is_an_error(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0;
    struct misuse misuse = {gpu_fixture_cpu(f, "early", count_run, &ran), GANTRY_OK};
    gantry_task *gpu = gpu_fixture_gpu(f, GANTRY_TASK_DTOH, "late", launch_completion_of_released, &misuse);
    gpu_fixture_after(gpu, misuse.target);
    assert_ok(gpu_fixture_step(f));
    assert_int_equal(misuse.status, GANTRY_ERR_LATE_DEPENDENCY);
    assert_int_equal(ran, 1);
}

static void test_launch_calls_outside_their_callback_are_refused(void **state)
{
    struct gpu_fixture *f = *state;
    (void)f;
    assert_int_equal(gantry_launch_copy_htod(NULL, (void *)&calls, &calls, 4), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_copy_launch(NULL, NULL, 1), GANTRY_ERR_INVALID_ARGUMENT);
}

/* ---- failure of the context ---- */

static gantry_launch_result launch_and_force_failure(gantry_launch *launch, void *arg)
{
    (void)arg;
    gantry_dispatcher_force_failure(gantry_context_dispatcher(gantry_launch_context(launch)));
    return GANTRY_LAUNCH_DONE;
}

static void test_a_lost_context_releases_everything_and_refuses_the_next_step(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0;
    gantry_task *previous = NULL;
    for (int i = 0; i < 30; i++) {
        gantry_task *done = gpu_fixture_cpu(f, "done", count_run, &ran);
        gantry_task *gpu = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "work", launch_with_completion, done);
        gpu_fixture_after(done, gpu);
        if (previous != NULL) {
            gpu_fixture_after(gpu, previous);
        }
        previous = gpu;
    }
    gantry_task *breaker = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "breaker", launch_and_force_failure, NULL);
    gpu_fixture_after(breaker, previous);
    gantry_task *last = gpu_fixture_cpu(f, "last", count_run, &ran);
    gpu_fixture_after(last, breaker);
    assert_int_equal(gpu_fixture_step(f), GANTRY_ERR_DEVICE_LOST);
    assert_non_null(strstr(gantry_last_error(), "force_failure"));
    assert_true(gantry_dispatcher_failure_detected(gantry_context_dispatcher(f->context)));
    assert_false(gantry_context_is_valid(f->context));
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "again", launch_once, NULL);
    assert_int_equal(gantry_taskman_start(f->manager), GANTRY_ERR_DEVICE_LOST);
    assert_ok(gantry_taskman_reset(f->manager));
}

static void test_steps_without_gpu_tasks_outlive_the_context(void **state)
{
    struct gpu_fixture *f = *state;
    _Atomic(uint32_t) ran = 0;
    gantry_dispatcher_force_failure(gantry_context_dispatcher(f->context));
    for (uint32_t step = 1; step <= 20; step++) {
        gpu_fixture_after(gpu_fixture_cpu(f, "second", count_run, &ran),
                          gpu_fixture_cpu(f, "first", count_run, &ran));
        assert_ok(gpu_fixture_step(f));
        assert_int_equal(ran, 2 * step);
    }
    gpu_fixture_cpu(f, "cpu", count_run, &ran);
    assert_ok(gantry_taskman_start(f->manager));
    gantry_task *late = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "late", launch_once, NULL);
    assert_ok(gantry_task_remove_reference(late));
    assert_int_equal(gantry_taskman_stop(f->manager), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(gantry_task_result(late), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(ran, 41);
    assert_ok(gantry_taskman_reset(f->manager));
}

#define LONG_FILL_BYTES ((size_t)32 << 20)

static gantry_launch_result launch_long_fill_and_force_failure(gantry_launch *launch, void *device)
{
    gantry_copy_desc fill = {
        .dest = device, .bytes = LONG_FILL_BYTES, .type = GANTRY_COPY_FILL, .pattern_bytes = 1};
    if (gantry_copy_launch(launch, &fill, 1) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    gantry_dispatcher_force_failure(gantry_context_dispatcher(gantry_launch_context(launch)));
    return GANTRY_LAUNCH_DONE;
}

/* The device does not know that the context is given up: the context's memory must last until the device is
 * done.  If it did not, this test crashes, or on a real device a later test finds its context broken. */
static void test_memory_outlives_work_that_a_forced_failure_leaves_in_flight(void **state)
{
    struct gpu_fixture *f = *state;
    gantry_heap *heap = gantry_context_heap(f->context);
    void *device;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, LONG_FILL_BYTES, 0, GANTRY_ALLOC_SITE("long"),
                                &device));
    gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "long", launch_long_fill_and_force_failure, device);
    assert_int_equal(gpu_fixture_step(f), GANTRY_ERR_DEVICE_LOST);
    assert_ok(gantry_heap_free(heap, device));
}

static void test_two_managers_share_the_dispatcher(void **state)
{
    struct gpu_fixture *f = *state;
    struct gpu_fixture second = *f;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = f->cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(f->context);
    assert_ok(gantry_taskman_create(&options, &second.manager));
    _Atomic(uint32_t) ran = 0;
    for (int i = 0; i < 50; i++) {
        struct gpu_fixture *to = i % 2 == 0 ? f : &second;
        gantry_task *done = gpu_fixture_cpu(to, "done", count_run, &ran);
        gpu_fixture_after(done, gpu_fixture_gpu(to, GANTRY_TASK_KERNEL, "k", launch_with_completion, done));
    }
    assert_ok(gantry_taskman_start(f->manager));
    assert_ok(gantry_taskman_start(second.manager));
    assert_ok(gantry_taskman_stop(f->manager));
    assert_ok(gantry_taskman_stop(second.manager));
    assert_int_equal(ran, 50);
    gantry_taskman_destroy(second.manager);
}

static void test_streams_are_given_out_again_after_the_last_step(void **state)
{
    struct gpu_fixture *f = *state;
    for (int step = 0; step < 50; step++) {
        for (int i = 0; i < 4; i++) {
            gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "k", launch_once, NULL);
        }
        assert_ok(gpu_fixture_step(f));
    }
    assert_true(gpu_fixture_stats(f).streams_created <= 4);
    assert_true(gpu_fixture_stats(f).streams_peak <= 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_flavours_run_in_three_phases),
        TEST(test_launches_of_running_tasks_are_interleaved),
        TEST(test_a_same_flavour_dependent_joins_the_running_phase),
        TEST(test_a_chain_keeps_its_stream_and_needs_no_wait),
        TEST(test_a_fork_and_join_inherit_one_stream_and_wait_for_the_other),
        TEST(test_a_cpu_task_and_a_sync_point_pass_the_stream_on),
        TEST(test_a_failed_launch_fails_only_its_dependents),
        TEST(test_a_failed_call_tells_its_status),
        TEST(test_several_tasks_may_complete_one_cpu_task),
        TEST(test_more_completions_than_the_ring_holds_are_all_told),
        TEST(test_completing_a_dispatched_task_is_an_error),
        TEST(test_launch_calls_outside_their_callback_are_refused),
        TEST(test_a_lost_context_releases_everything_and_refuses_the_next_step),
        TEST(test_steps_without_gpu_tasks_outlive_the_context),
        TEST(test_memory_outlives_work_that_a_forced_failure_leaves_in_flight),
        TEST(test_two_managers_share_the_dispatcher),
        TEST(test_streams_are_given_out_again_after_the_last_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
