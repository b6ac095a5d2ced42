/* SPDX-License-Identifier: MIT */
/* A task says GANTRY_LAUNCH_AGAIN until something else has happened, and that something does happen beside
 * it: other tasks are launched, completions are told, memory is let go. */
#include "base/clock.h"
#include "dispatcher/gates/quota.h"
#include "dispatcher/internal.h"
#include "taskman/gpu_task.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <sched.h>
#include <stdatomic.h>

#define MIB ((uint64_t)1 << 20)
#define PATIENCE_NS UINT64_C(60000000000) /* after so long, something is wrong */

static struct modes_scene scene;
static _Atomic(bool) flag;
static _Atomic(uint32_t) polls; /* calls since the flag was taken down */

static gantry_launch_result poll(gantry_launch *launch, void *arg)
{
    static uint64_t begin;
    (void)launch;
    (void)arg;
    if (atomic_fetch_add(&polls, 1) == 0) {
        begin = gy_clock_ns();
    }
    if (atomic_load(&flag)) {
        return GANTRY_LAUNCH_DONE;
    }
    return gy_clock_ns() - begin < PATIENCE_NS ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result raise_flag(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    atomic_store(&flag, true);
    return GANTRY_LAUNCH_DONE;
}

static gantry_status raise_on_cpu(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&flag, true);
    return GANTRY_OK;
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static void open_with(gantry_submission submission, uint64_t device_limit)
{
    gantry_context_options options = modes_options();
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    options.submission = submission;
    if (device_limit != 0) {
        heap.limit_bytes[GANTRY_MEMORY_DEVICE] = device_limit;
        options.heap = &heap;
    }
    modes_open(&scene, &options);
    atomic_store(&flag, false);
    atomic_store(&polls, 0);
}

static gantry_taskman *another_manager(void)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = scene.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(scene.gpu.context);
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

static void start_polling(void)
{
    (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "poll", poll, NULL);
    assert_ok(gantry_taskman_start(scene.gpu.manager));
    while (atomic_load(&polls) == 0) {
        sched_yield();
    }
}

static void test_other_tasks_are_launched(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        for (int kind = GANTRY_TASK_HTOD; kind <= GANTRY_TASK_DTOH; kind++) {
            open_with((gantry_submission)mode, 0);
            struct gpu_fixture other = scene.gpu;
            other.manager = another_manager();
            start_polling();
            (void)gpu_fixture_gpu(&other, (gantry_task_kind)kind, "raise", raise_flag, NULL);
            assert_ok(gpu_fixture_step(&other));
            assert_ok(gantry_taskman_stop(scene.gpu.manager));
            gantry_taskman_destroy(other.manager);
            modes_close(&scene);
        }
    }
}

static void test_completions_are_told(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        open_with((gantry_submission)mode, 0);
        struct modes_job job = {.scene = &scene};
        gantry_task *first = gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "k", modes_launch, &job);
        job.completes = gpu_fixture_cpu(&scene.gpu, "raise", raise_on_cpu, NULL);
        gpu_fixture_after(job.completes, first);
        (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "poll", poll, NULL);
        assert_ok(gpu_fixture_step(&scene.gpu));
        modes_close(&scene);
    }
}

static gantry_task *submit_needing(gantry_taskman *manager, gantry_launch_fn launch, uint32_t memory)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.memory = memory;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* All tasks of a manager wait for memory that the manager itself holds: the dispatcher lets one in, though
 * it has work. */
static void test_memory_is_let_go(void **state)
{
    (void)state;
    open_with(GANTRY_SUBMISSION_STREAMS, 64 * MIB);
    gantry_taskman *other = another_manager();
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = 33 * MIB};
    uint32_t first, second;
    assert_ok(gantry_taskman_declare_memory(other, bytes, &first));
    assert_ok(gantry_taskman_declare_memory(other, bytes, &second));
    start_polling();
    gantry_task *begin = submit_needing(other, launch_nothing, first);
    gantry_task *between = submit_needing(other, launch_nothing, second);
    gantry_task *end = submit_needing(other, raise_flag, first);
    gpu_fixture_after(between, begin);
    gpu_fixture_after(end, between);
    assert_ok(gantry_taskman_start(other));
    assert_ok(gantry_taskman_stop(other));
    assert_ok(gantry_taskman_stop(scene.gpu.manager));
    gantry_taskman_destroy(other);
    modes_close(&scene);
}

static struct {
    uint64_t calls; /* in this run */
    bool fails, is_cancelled;
    uint64_t wrong;
} often;

/* In its first call it pretends to have been called 2^32 - 2 times. */
static gantry_launch_result call_often(gantry_launch *launch, void *arg)
{
    (void)arg;
    if (often.calls++ == 0) {
        often.wrong += gantry_launch_index(launch) != 0;
        gantry_launch_task(launch)->launch_index = UINT32_MAX - 1;
        return GANTRY_LAUNCH_AGAIN;
    }
    assert_ok(often.is_cancelled && often.calls == 3 ? gantry_taskman_cancel(scene.gpu.manager) : GANTRY_OK);
    often.wrong += gantry_launch_index(launch) != UINT32_MAX - 1 + (often.calls - 2);
    return often.calls < 6 ? GANTRY_LAUNCH_AGAIN
           : often.fails   ? gantry_launch_fail(launch, GANTRY_ERR_IO)
                           : GANTRY_LAUNCH_DONE;
}

/* After 2^32 calls a task has still begun, and is not cancelled in the middle of its work.  Its calls are
 * counted in the place of its result, which comes later, and of the result of the run before, which does not
 * count. */
static void test_calls_are_counted_beyond_32_bits(void **state)
{
    (void)state;
    open_with(GANTRY_SUBMISSION_STREAMS, 0);
    gantry_task *task = gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "often", call_often, NULL);
    assert_ok(gantry_taskman_freeze(scene.gpu.manager));
    for (int run = 0; run < 6; run++) {
        gantry_task_launch_stats stats = {.struct_size = sizeof(stats)};
        often.calls = 0;
        often.fails = run % 2 == 0;
        often.is_cancelled = run >= 4;
        gantry_status expected = often.fails ? GANTRY_ERR_IO : GANTRY_OK;
        assert_int_equal(gantry_taskman_run(scene.gpu.manager, 1), expected);
        assert_int_equal(gantry_task_result(task), expected);
        assert_int_equal(often.calls, 6);
        assert_int_equal(often.wrong, 0);
        assert_ok(gantry_task_get_launch_stats(task, &stats));
        assert_int_equal(stats.launch_calls, UINT32_MAX);
    }
    modes_close(&scene);
}

/* When it is declared stable, such a task keeps its unit from being recorded, and does not keep the others
 * from being called. */
static void test_a_stable_task_that_polls_is_called_in_every_run(void **state)
{
    (void)state;
    open_with(GANTRY_SUBMISSION_GRAPHS, 0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = poll;
    desc.label = "poll";
    desc.is_stable = true;
    assert_ok(gantry_taskman_submit(scene.gpu.manager, &desc, NULL));
    (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "raise", raise_flag, NULL);
    assert_ok(gantry_taskman_freeze(scene.gpu.manager));
    for (int run = 0; run < 6; run++) {
        atomic_store(&flag, false);
        atomic_store(&polls, 0);
        assert_ok(gantry_taskman_run(scene.gpu.manager, 1));
        assert_true(atomic_load(&polls) > 0);
    }
    assert_int_equal(gpu_fixture_stats(&scene.gpu).graph_replays, 0);
    modes_close(&scene);
}

static gantry_taskman *manager_with_share(void)
{
    const gantry_share share = {sizeof(share), .percent = 50};
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = scene.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(scene.gpu.context);
    options.share = &share;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

/* The work it has launched so far is measured: its share is never the one that waits for room. */
static gantry_launch_result poll_when_measured(gantry_launch *launch, void *arg)
{
    struct gy_shares *shares = &gantry_context_dispatcher(scene.gpu.context)->shares;
    for (uint32_t i = 0; i < atomic_load(&shares->count); i++) {
        struct gy_meter *meter = shares->quotas[i]->meters[0];
        while (meter != NULL && atomic_load(&meter->collected) != atomic_load(&meter->published)) {
            sched_yield();
        }
    }
    return poll(launch, arg);
}

static void submit_to(gantry_taskman *manager, gantry_task_kind kind, gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.launch = launch;
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
}

/* Two managers take turns on the GPU; one of them polls for something that the other does in a later
 * phase. */
static void check_turns(gantry_submission submission)
{
    open_with(submission, 0);
    gantry_taskman *polls_here = manager_with_share(), *raises = manager_with_share();
    submit_to(polls_here, GANTRY_TASK_KERNEL, poll_when_measured);
    submit_to(raises, GANTRY_TASK_DTOH, raise_flag);
    assert_ok(gantry_taskman_start(polls_here));
    deadline_await(atomic_load(&polls) > 1000, "a task that polls"); /* the time of a call is known then */
    assert_ok(gantry_taskman_start(raises));
    deadline_begin("the turn of the other manager");
    assert_ok(gantry_taskman_stop(raises));
    assert_ok(gantry_taskman_stop(polls_here));
    deadline_end();
    gantry_taskman_destroy(raises);
    gantry_taskman_destroy(polls_here);
    modes_close(&scene);
}

static void test_other_managers_have_their_turn(void **state)
{
    (void)state;
    check_turns(GANTRY_SUBMISSION_STREAMS);
    check_turns(GANTRY_SUBMISSION_GRAPHS);
    check_turns(GANTRY_SUBMISSION_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_tasks_are_launched),
        cmocka_unit_test(test_completions_are_told),
        cmocka_unit_test(test_memory_is_let_go),
        cmocka_unit_test(test_other_managers_have_their_turn),
        cmocka_unit_test(test_a_stable_task_that_polls_is_called_in_every_run),
        cmocka_unit_test(test_calls_are_counted_beyond_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
