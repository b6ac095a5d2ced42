/* SPDX-License-Identifier: MIT */
/* A cancelled run ends at once: tasks that have not begun are not launched any more, whatever they wait for,
 * and tasks that were launched count as begun. */
#include "base/clock.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)
#define TASKS 8u
#define KERNEL_NS UINT64_C(10000000000) /* on the device's clock */
#define MOST_NS UINT64_C(60000000000)   /* much less than is owed then, and much more than an end takes */

static struct gantry_emu_control emu;
static struct modes_scene scene;
static _Atomic(uint32_t) calls, done, cancelled;

/* Tasks have cells of their own, since nothing orders them. */
static uint32_t cell_of[TASKS];

static gantry_launch_result launch_twice(gantry_launch *launch, void *arg)
{
    uint32_t cell = *(const uint32_t *)arg;
    atomic_fetch_add(&calls, 1);
    if (stamps_launch(&scene.stamps, launch, cell, cell + 1, 0) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(launch) == 0 ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

static void note_end(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)arg;
    assert_true(result == GANTRY_OK || result == GANTRY_ERR_CANCELLED);
    atomic_fetch_add(result == GANTRY_OK ? &done : &cancelled, 1);
}

static void open_scene(gantry_submission submission, uint64_t device_limit)
{
    gantry_context_options options = modes_options();
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.limit_bytes[GANTRY_MEMORY_DEVICE] = device_limit;
    options.submission = submission;
    options.heap = &heap;
    modes_open(&scene, &options);
    assert_true(gpu_fixture_controls(&emu));
    atomic_store(&calls, 0);
    atomic_store(&done, 0);
    atomic_store(&cancelled, 0);
}

static gantry_taskman *manager_with(const gantry_share *share)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = scene.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(scene.gpu.context);
    options.share = share;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

/* `index` is below TASKS. */
static void submit(gantry_taskman *manager, gantry_launch_fn launch, uint32_t index, uint32_t memory)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    cell_of[index] = 1 + 2 * index;
    desc.arg = &cell_of[index];
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.release = note_end;
    desc.memory = memory;
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
}

/* The first kernels use up the share for minutes. */
static void check_share(gantry_submission submission)
{
    const gantry_share share = {sizeof(share), .percent = 5};
    open_scene(submission, 0);
    gantry_dispatcher *d = gantry_context_dispatcher(scene.gpu.context);
    gantry_taskman *manager = manager_with(&share);
    emu.clock_manual(1);
    emu.clock_kernel_cost(KERNEL_NS);
    for (uint32_t i = 0; i < TASKS; i++) {
        submit(manager, launch_twice, i, 0);
    }
    assert_ok(gantry_taskman_start(manager));
    while (!gy_shares_hold_any(&d->shares) || (emu.clock_ns)() < KERNEL_NS) {
        sched_yield();
    }
    uint64_t begin = gy_clock_ns();
    assert_ok(gantry_taskman_cancel(manager));
    gantry_status status = gantry_taskman_stop(manager);
    assert_true(gy_clock_ns() - begin < MOST_NS);
    assert_int_equal(status, atomic_load(&cancelled) != 0 ? GANTRY_ERR_CANCELLED : GANTRY_OK);
    assert_int_equal(done + cancelled, TASKS);
    /* tasks that have begun were carried through, the rest was never called */
    assert_int_equal(calls, 2 * done);
    gantry_taskman_destroy(manager);
    emu.clock_manual(0);
    modes_close(&scene);
}

static void test_nobody_waits_until_a_share_is_paid(void **state)
{
    (void)state;
    check_share(GANTRY_SUBMISSION_STREAMS);
    check_share(GANTRY_SUBMISSION_GRAPHS);
    check_share(GANTRY_SUBMISSION_AUTO);
}

static gantry_launch_result launch_kernel(gantry_launch *launch, void *arg)
{
    uint32_t cell = *(const uint32_t *)arg;
    return stamps_launch(&scene.stamps, launch, cell, cell + 1, 0) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                : GANTRY_LAUNCH_FAILED;
}

/* Memory is held by another manager's work until the device has done it. */
static void test_nobody_waits_for_memory(void **state)
{
    (void)state;
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = 40 * MIB};
    uint32_t memory;
    open_scene(GANTRY_SUBMISSION_STREAMS, 64 * MIB);
    gantry_taskman *manager = manager_with(NULL), *holder = scene.gpu.manager;
    emu.hold();
    assert_ok(gantry_taskman_declare_memory(holder, bytes, &memory));
    submit(holder, launch_kernel, 0, memory);
    assert_ok(gantry_taskman_start(holder));
    assert_ok(gantry_taskman_stop(holder));
    for (int again = 0; again < 2; again++) {
        assert_ok(gantry_taskman_declare_memory(manager, bytes, &memory));
        submit(manager, launch_twice, 1, memory);
        submit(manager, launch_twice, 2, memory);
        assert_ok(gantry_taskman_start(manager));
        while (gpu_fixture_stats(&scene.gpu).memory_tasks_waiting != 2) {
            sched_yield();
        }
        assert_ok(gantry_taskman_cancel(manager));
        assert_int_equal(gantry_taskman_stop(manager), GANTRY_ERR_CANCELLED);
        assert_ok(gantry_taskman_reset(manager));
        assert_int_equal(gpu_fixture_stats(&scene.gpu).memory_tasks_waiting, 0);
    }
    emu.release();
    assert_int_equal(calls, 0);
    assert_int_equal(cancelled, 4);
    while (gpu_fixture_stats(&scene.gpu).memory_held_bytes[GANTRY_MEMORY_DEVICE] != 0) {
        sched_yield();
    }
    submit(manager, launch_twice, 1, 0); /* the next run is one like any other */
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_int_equal(calls, 2);
    gantry_taskman_destroy(manager);
    modes_close(&scene);
}

static gantry_status results[3];

static void cancel_after_the_first(gantry_task *task, void *arg, gantry_status result)
{
    gantry_status *mine = arg;
    *mine = result;
    if (mine == &results[0] && atomic_load(&calls) != 0) {
        assert_ok(gantry_taskman_cancel(gantry_task_manager(task)));
    }
}

static gantry_launch_result launch_third(gantry_launch *launch, void *arg)
{
    uint32_t cell = 1 + 2 * (uint32_t)((gantry_status *)arg - results);
    return stamps_launch(&scene.stamps, launch, cell, cell + 1, 0) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                : GANTRY_LAUNCH_FAILED;
}

/* Three stable tasks are one graph: with the first, all of them have begun. */
static void check_replay(gantry_submission submission)
{
    open_scene(submission, 0);
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task = NULL;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.launch = launch_third;
        desc.release = cancel_after_the_first;
        desc.arg = &results[i];
        desc.is_stable = true;
        assert_ok(gantry_taskman_submit(scene.gpu.manager, &desc, &task));
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_ok(gantry_taskman_freeze(scene.gpu.manager));
    assert_ok(gantry_taskman_run(scene.gpu.manager, 6));
    uint64_t before_it = gpu_fixture_stats(&scene.gpu).graph_replays;
    assert_ok(gantry_context_synchronize(scene.gpu.context));
    scene.stamps.cells[3] = scene.stamps.cells[5] = 0;
    atomic_store(&calls, 1); /* from now on the first release cancels */
    gantry_status status = gantry_taskman_run(scene.gpu.manager, 1);
    bool replays = gpu_fixture_stats(&scene.gpu).graph_replays != before_it;
    assert_true(submission == GANTRY_SUBMISSION_AUTO || replays == (submission == GANTRY_SUBMISSION_GRAPHS));
    assert_int_equal(status, replays ? GANTRY_OK : GANTRY_ERR_CANCELLED);
    assert_ok(gantry_context_synchronize(scene.gpu.context));
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(results[i], status);
        assert_int_equal(scene.stamps.cells[1 + 2 * i] != 0, replays);
    }
    modes_close(&scene);
}

static void test_what_was_launched_has_begun(void **state)
{
    (void)state;
    check_replay(GANTRY_SUBMISSION_STREAMS);
    check_replay(GANTRY_SUBMISSION_GRAPHS);
    check_replay(GANTRY_SUBMISSION_AUTO);
}

int main(void)
{
    unsetenv("GANTRY_TEST_DRIVER"); /* the test moves clocks and holds work back */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_waits_until_a_share_is_paid),
        cmocka_unit_test(test_nobody_waits_for_memory),
        cmocka_unit_test(test_what_was_launched_has_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
