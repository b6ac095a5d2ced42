/* SPDX-License-Identifier: MIT */
/* Tasks that end between two of their calls: memory has run out, or a driver call failed.  Work of the
 * first call is on the stream then, and everything that waits for it goes on waiting. */
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define DECLARED ((uint64_t)2 << 20)
#define OUT_OF_MEMORY 2

static struct gantry_emu_control emu;
static struct modes_scene scene;

/* One task with two calls, of which only the first is made. */
struct half {
    bool aborts; /* memory runs out in the first call; else a driver call fails before the second */
    gantry_task *completes;
    void *block;    /* a block that is given back in the first call */
    uint32_t calls; /* GD only */
    /* 1 + the value that the kernel writes when it ends, as it was when the completion came */
    _Atomic(uint32_t) told;
};

static gantry_launch_result launch_half(gantry_launch *launch, void *arg)
{
    struct half *half = arg;
    void *block;
    if (half->calls++ != 0) {
        return GANTRY_LAUNCH_DONE;
    }
    assert_ok(stamps_launch(&scene.stamps, launch, 1, 2, 0));
    assert_ok(gantry_launch_add_completion(launch, half->completes));
    assert_ok(gantry_free_after(half->block, launch));
    if (half->aborts) {
        assert_int_not_equal(gantry_heap_alloc(scene.stamps.heap, GANTRY_MEMORY_DEVICE, (size_t)1 << 50, 0,
                                               GANTRY_ALLOC_SITE("too large"), &block),
                             GANTRY_OK);
    }
    return GANTRY_LAUNCH_AGAIN;
}

/* Called between the two: the stream of the other task must wait for the barrier before its second call. */
static gantry_launch_result launch_barrier(gantry_launch *launch, void *arg)
{
    const struct half *half = arg;
    if (half->calls == 0) {
        return GANTRY_LAUNCH_AGAIN;
    }
    assert_ok(gantry_launch_request_sync_point(launch));
    assert_int_equal((emu.fail)("cuStreamWaitEvent", 1, OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
    return GANTRY_LAUNCH_DONE;
}

static void note_told(gantry_task *task, void *arg, gantry_status result)
{
    struct half *half = arg;
    (void)task;
    assert_ok(result);
    atomic_store(&half->told, 1 + scene.stamps.cells[2]);
}

static uint64_t held_bytes(void)
{
    return gpu_fixture_stats(&scene.gpu).memory_held_bytes[GANTRY_MEMORY_DEVICE];
}

static void submit_half(struct half *half)
{
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = DECLARED};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_half;
    desc.arg = half;
    assert_ok(gantry_taskman_declare_memory(scene.gpu.manager, bytes, &desc.memory));
    assert_ok(gantry_taskman_submit(scene.gpu.manager, &desc, NULL));
    if (!half->aborts) {
        (void)gpu_fixture_gpu(&scene.gpu, GANTRY_TASK_KERNEL, "barrier", launch_barrier, half);
    }
}

/* The completed task belongs to another manager, so it does not depend on the task that fails. */
static gantry_taskman *start_waiter(struct half *half)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman *waiter;
    options.cpu_dispatcher = scene.gpu.cpus;
    assert_ok(gantry_taskman_create(&options, &waiter));
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.release = note_told;
    desc.arg = half;
    assert_ok(gantry_taskman_submit(waiter, &desc, &half->completes));
    assert_ok(gantry_task_add_reference(half->completes));
    assert_ok(gantry_taskman_start(waiter));
    return waiter;
}

static void check_half(gantry_submission submission, bool aborts)
{
    struct half half = {.aborts = aborts};
    gantry_context_options options = modes_options();
    options.submission = submission;
    options.abort_on_out_of_memory = true;
    options.completion_wait = GANTRY_WAIT_SPIN;
    modes_open(&scene, &options);
    assert_true(gpu_fixture_controls(&emu));
    assert_ok(gantry_heap_alloc(scene.stamps.heap, GANTRY_MEMORY_DEVICE, 4096, 0, GANTRY_ALLOC_SITE("block"),
                                &half.block));
    gantry_taskman *waiter = start_waiter(&half);
    submit_half(&half);
    emu.hold();
    assert_ok(gantry_taskman_start(scene.gpu.manager));
    assert_int_not_equal(gantry_taskman_stop(scene.gpu.manager), GANTRY_OK);
    assert_int_equal(half.calls, 1);
    assert_ok(gantry_task_remove_reference(half.completes));
    emu.reset_counters();
    while ((emu.calls)("cuEventQuery") < 16 && atomic_load(&half.told) == 0) {
        sched_yield(); /* the completion thread looks again and again */
    }
    uint32_t told = atomic_load(&half.told);
    uint64_t pending = gpu_fixture_stats(&scene.gpu).frees_pending, held = held_bytes();
    emu.release(); /* before anything is checked: the teardown of a failed check would hang */
    assert_int_equal(told, 0);
    assert_int_equal(pending, 1);
    assert_int_equal(held, DECLARED);
    assert_ok(gantry_taskman_stop(waiter));
    assert_int_equal(half.told, 1 + 1); /* after the kernel's end, its second tick */
    while (gpu_fixture_stats(&scene.gpu).frees_pending != 0 || held_bytes() != 0) {
        sched_yield();
    }
    gantry_taskman_destroy(waiter);
    gantry_context_clear_abort(scene.gpu.context);
    modes_close(&scene);
}

static void test_when_memory_has_run_out(void **state)
{
    (void)state;
    check_half(GANTRY_SUBMISSION_STREAMS, true);
    check_half(GANTRY_SUBMISSION_GRAPHS, true);
    check_half(GANTRY_SUBMISSION_AUTO, true);
}

static void test_when_a_driver_call_has_failed(void **state)
{
    (void)state;
    check_half(GANTRY_SUBMISSION_STREAMS, false);
}

int main(void)
{
    unsetenv("GANTRY_TEST_DRIVER"); /* work is held back, which only the emulated driver can do */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when_memory_has_run_out),
        cmocka_unit_test(test_when_a_driver_call_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
