/* SPDX-License-Identifier: MIT */
/* Declared memory and blocks on their way back while the GPU is slow: nothing is given out again before the
 * GPU has passed, and everything is when it has. */
#include "base/alloc.h"
#include "base/clock.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "taskman/manager.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/stops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define ROOM (32 * MIB) /* for one job */
#define JOB (20 * MIB)

static struct gpu_fixture fixture; /* tasks of a test that has failed may still look at it */
static struct gantry_emu_control emu;
static gantry_dispatcher *dispatcher;

static int open_fixture(void **state)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    gpu_fixture_open_with(&fixture, 2, &options);
    assert_true(emu_controls_open(&emu));
    dispatcher = gantry_context_dispatcher(fixture.context);
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    gantry_heap *heap = gantry_context_heap(fixture.context);
    assert_ok(gantry_heap_get_stats(heap, GANTRY_MEMORY_DEVICE, &stats));
    gantry_heap_settings settings = {
        .struct_size = sizeof(settings), .slab_bytes = 2 * MIB, .limit_bytes = stats.slab_bytes + ROOM};
    assert_ok(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    emu.reset();
    gpu_fixture_close(&fixture);
    return 0;
}

static uint32_t declare(void)
{
    return gpu_fixture_declare(fixture.manager, JOB);
}

static gantry_task *submit(gantry_task_kind kind, gantry_launch_fn launch, void *arg, uint32_t memory)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = kind;
    desc.launch = launch;
    desc.arg = arg;
    desc.memory = memory;
    assert_ok(gantry_taskman_submit(fixture.manager, &desc, &task));
    return task;
}

static _Atomic(uint32_t) calls;

static gantry_launch_result count_call(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    atomic_fetch_add(&calls, 1);
    return GANTRY_LAUNCH_DONE;
}

/* All jobs start at once: in the order in which they were submitted. */
static void start(void)
{
    atomic_store(&calls, 0);
    gantry_dispatcher_start_group(dispatcher);
    assert_ok(gantry_taskman_start(fixture.manager));
    gantry_dispatcher_finish_group(dispatcher);
}

/* The dispatcher has looked at everything, twice, and found nothing to do. */
static void let_it_look(void)
{
    for (int i = 0; i < 3; i++) {
        gy_inbox_signal(&dispatcher->inbox);
        deadline_await(atomic_load(&dispatcher->inbox.asleep), "the dispatcher to sleep");
    }
}

static void await_nothing_held(void)
{
    deadline_await(gpu_fixture_stats(&fixture).memory_held_bytes[GANTRY_MEMORY_DEVICE] == 0,
                   "declared memory to come back when the GPU has passed");
}

/* ---- declared memory ------------------------------------------------------------------------ */

static void test_memory_is_handed_on_when_the_gpu_has_passed(void **state)
{
    (void)state;
    for (uint32_t tasks = 1; tasks <= 3; tasks++) { /* of the first job */
        uint32_t first = declare(), second = declare();
        uint64_t admitted = gpu_fixture_stats(&fixture).memory_admitted;
        gantry_task *before = NULL;
        for (uint32_t i = 0; i < tasks; i++) {
            gantry_task *task = submit(GANTRY_TASK_KERNEL, count_call, NULL, first);
            if (before != NULL) {
                gpu_fixture_after(task, before);
            }
            before = task;
        }
        (void)submit(GANTRY_TASK_KERNEL, count_call, NULL, second);
        emu.hold();
        start();
        deadline_await(atomic_load(&dispatcher->admission.ending) == 1, "the first job to have launched");
        let_it_look();
        gantry_dispatcher_stats stats = gpu_fixture_stats(&fixture);
        assert_int_equal(stats.memory_admitted, admitted + 1);
        assert_int_equal(stats.memory_tasks_waiting, 1);
        assert_int_equal(stats.memory_held_bytes[GANTRY_MEMORY_DEVICE], JOB);
        assert_int_equal(atomic_load(&calls), tasks);
        emu.release();
        assert_ok(gpu_fixture_stop(&fixture));
        assert_int_equal(gpu_fixture_stats(&fixture).memory_admitted, admitted + 2);
        assert_int_equal(gpu_fixture_stats(&fixture).memory_forced, 0);
        await_nothing_held();
    }
}

static _Atomic(bool) may_end;

static gantry_status wait_to_end(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    while (!atomic_load(&may_end)) {
        sched_yield();
    }
    return GANTRY_OK;
}

/* There are two jobs, and one fits.  The first ends with a CPU task that waits for `may_end`. */
static void submit_two_jobs(void)
{
    uint32_t first = declare(), second = declare();
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *last;
    desc.run = wait_to_end;
    desc.memory = first;
    assert_ok(gantry_taskman_submit(fixture.manager, &desc, &last));
    gpu_fixture_after(last, submit(GANTRY_TASK_KERNEL, count_call, NULL, first));
    (void)submit(GANTRY_TASK_KERNEL, count_call, NULL, second);
}

/* The first job ends with a CPU task, when everything else was flushed long ago. */
static void test_memory_that_ends_after_the_last_flush_comes_back(void **state)
{
    (void)state;
    submit_two_jobs();
    atomic_store(&may_end, false);
    emu.hold();
    start();
    deadline_await(atomic_load(&calls) == 1, "the first job to be launched");
    let_it_look();
    atomic_store(&may_end, true);
    deadline_await(atomic_load(&dispatcher->admission.ending) == 1, "the first job to end");
    /* it looks once */
    deadline_await(atomic_load(&dispatcher->inbox.asleep), "the dispatcher to sleep");
    assert_int_equal(atomic_load(&calls), 1);
    emu.release();
    assert_ok(gpu_fixture_stop(&fixture));
    assert_int_equal(atomic_load(&calls), 2);
    await_nothing_held();
}

/* The first job ends when the dispatcher has looked for ended work, and has yet to look whether its manager
 * waits.  No other job is let in beside it: its memory comes back by itself. */
static void test_memory_that_ends_while_the_dispatcher_looks_is_not_forced(void **state)
{
    (void)state;
    submit_two_jobs();
    atomic_store(&may_end, false);
    emu.hold();
    start();
    deadline_await(atomic_load(&calls) == 1, "the first job to be launched");
    let_it_look();
    stops_arm(0, GY_POINT_ADMISSION_QUIET, &dispatcher->admission);
    gy_inbox_signal(&dispatcher->inbox);
    stops_await(0);
    atomic_store(&may_end, true);
    deadline_await(gy_taskman_is_quiet(fixture.manager), "the manager to have nothing to do");
    stops_go(0);
    deadline_await(atomic_load(&dispatcher->admission.ending) != 0, "the first job to end");
    let_it_look();
    gy_point_hook(NULL);
    assert_int_equal(atomic_load(&calls), 1);
    assert_int_equal(gpu_fixture_stats(&fixture).memory_forced, 0);
    emu.release();
    assert_ok(gpu_fixture_stop(&fixture));
    assert_int_equal(atomic_load(&calls), 2);
    await_nothing_held();
}

static _Atomic(bool) may_stop;

static gantry_launch_result poll_until_told(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return atomic_load(&may_stop) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_AGAIN;
}

/* The dispatcher does not go to sleep, and no other thread looks at the stream. */
static void test_memory_comes_back_while_a_task_polls(void **state)
{
    (void)state;
    submit_two_jobs();
    (void)submit(GANTRY_TASK_KERNEL, poll_until_told, NULL, 0);
    atomic_store(&may_end, false);
    atomic_store(&may_stop, false);
    emu.hold();
    start();
    deadline_await(atomic_load(&calls) == 1, "the first job to be launched");
    atomic_store(&may_end, true);
    deadline_await(atomic_load(&dispatcher->admission.ending) == 1, "the first job to end");
    emu.release();
    deadline_await(atomic_load(&calls) == 2, "the second job to have the memory of the first");
    atomic_store(&may_stop, true);
    assert_ok(gpu_fixture_stop(&fixture));
    assert_int_equal(gpu_fixture_stats(&fixture).memory_forced, 0);
    await_nothing_held();
}

static void *stop_step(void *unused)
{
    (void)unused;
    return gantry_taskman_stop(fixture.manager) == GANTRY_OK ? NULL : &fixture;
}

/* The same when the dispatcher has just looked, and found nothing, or is about to sleep.  The thread that
 * waits for the step has nothing more to report then: it looks once.  It is no guest, so that the sleeping
 * thread is the dispatcher's. */
static void test_memory_that_ends_before_the_dispatcher_sleeps_comes_back(void **state)
{
    (void)state;
    static const enum gy_point points[] = {GY_POINT_INBOX_READ, GY_POINT_INBOX_SLEEP};
    gpu_fixture_use_threads_only(&fixture);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *wrong;
        submit_two_jobs();
        atomic_store(&may_end, false);
        start();
        assert_int_equal(pthread_create(&thread, NULL, stop_step, NULL), 0);
        deadline_await(atomic_load(&calls) == 1, "the first job to be launched");
        let_it_look();
        stops_arm(0, points[i], &dispatcher->inbox);
        gy_inbox_signal(&dispatcher->inbox);
        stops_await(0);
        atomic_store(&may_end, true);
        deadline_await(atomic_load(&dispatcher->admission.has_events), "the first job to end");
        deadline_await(atomic_load(&dispatcher->admission.stall.asked), "the manager to say that it waits");
        stops_go(0);
        deadline_begin("the second job to have the memory of the first");
        assert_int_equal(pthread_join(thread, &wrong), 0);
        deadline_end();
        gy_point_hook(NULL);
        assert_null(wrong);
        assert_ok(gantry_taskman_reset(fixture.manager));
        assert_int_equal(atomic_load(&calls), 2);
        await_nothing_held();
    }
}

static gantry_launch_result take_some(gantry_launch *launch, void *arg)
{
    return gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 9 * MIB, 0, GANTRY_ALLOC_SITE("some"), arg) ==
                   GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Memory that jobs have declared and taken is counted once: three fit, one after the other, while all hold
 * theirs. */
static void test_declared_memory_is_not_given_to_others(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    void *blocks[COUNT];
    uint32_t memory[COUNT];
    gantry_task *before = NULL;
    gantry_dispatcher_stats stats = gpu_fixture_stats(&fixture);
    for (int i = 0; i < COUNT; i++) {
        memory[i] = gpu_fixture_declare(fixture.manager, 10 * MIB);
        gantry_task *task = submit(GANTRY_TASK_HTOD, take_some, &blocks[i], memory[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    for (int i = 0; i < COUNT; i++) {
        gpu_fixture_after(submit(GANTRY_TASK_KERNEL, count_call, NULL, memory[i]), before);
    }
    assert_ok(gpu_fixture_step(&fixture));
    gantry_dispatcher_stats now = gpu_fixture_stats(&fixture);
    assert_int_equal(now.memory_admitted, stats.memory_admitted + COUNT);
    assert_int_equal(now.memory_waited, stats.memory_waited);
    assert_int_equal(now.memory_forced, 0);
    await_nothing_held();
    for (int i = 0; i < COUNT; i++) {
        assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), blocks[i]));
    }
}

enum { LINKS = 3000, PATIENCE_NS = 1000000 };

static struct {
    _Atomic(bool) admitted;
    uint32_t links; /* launched before that */
} busy;

static gantry_launch_result note_admitted(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    atomic_store(&busy.admitted, true);
    return GANTRY_LAUNCH_DONE;
}

/* Let the other threads run, but not for ever. */
static gantry_launch_result link_on(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    if (!atomic_load(&busy.admitted)) {
        busy.links++;
        for (uint64_t until = gy_clock_ns() + PATIENCE_NS;
             gy_clock_ns() < until && atomic_load(&dispatcher->admission.ending) != 0;) {
            if (atomic_load(&dispatcher->streams.streams[0].completed) != 0 && busy.links > 2) {
                break; /* the GPU is known to have passed the first job */
            }
            sched_yield();
        }
    }
    return GANTRY_LAUNCH_DONE;
}

/* A chain of kernels and copies to the device, each of which needs another round: the dispatcher is not idle
 * until it has ended, and memory goes from one job to the next all the same. */
static void test_memory_comes_back_while_the_dispatcher_is_busy(void **state)
{
    (void)state;
    atomic_store(&busy.admitted, false);
    busy.links = 0;
    uint32_t first = declare(), second = declare();
    gantry_task *before = NULL;
    (void)submit(GANTRY_TASK_HTOD, count_call, NULL, first);
    (void)submit(GANTRY_TASK_HTOD, note_admitted, NULL, second);
    for (uint32_t i = 0; i < LINKS; i++) {
        gantry_task_kind kind = i % 2 == 0 ? GANTRY_TASK_KERNEL : GANTRY_TASK_HTOD;
        gantry_task *task = submit(kind, link_on, NULL, 0);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    start();
    assert_ok(gpu_fixture_stop(&fixture));
    assert_true(busy.admitted);
    if (busy.links == LINKS) {
        fail_msg("the second job had to wait until the dispatcher was idle");
    }
    await_nothing_held();
}

/* ---- blocks on their way back --------------------------------------------------------------- */

enum { MANY = 300 };

static struct {
    void *blocks[MANY];
    uint32_t count;
    gantry_status status;
} work;

static void allocate(uint32_t count)
{
    gantry_heap *heap = gantry_context_heap(fixture.context);
    work.count = count;
    work.status = GANTRY_OK;
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 256, 0, GANTRY_ALLOC_SITE("test"),
                                    &work.blocks[i]));
    }
}

static gantry_launch_result free_all(gantry_launch *launch, void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < work.count && work.status == GANTRY_OK; i++) {
        work.status = gantry_free_after(work.blocks[i], launch);
    }
    return GANTRY_LAUNCH_DONE;
}

static uint64_t blocks_in_use(void)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(gantry_context_heap(fixture.context), GANTRY_MEMORY_DEVICE, &stats));
    return stats.block_count;
}

/* So many blocks wait on one stream, some of which the ring has passed already when it has to grow, at any
 * place. */
static void test_the_queue_of_a_stream_grows_wherever_it_is(void **state)
{
    (void)state;
    gantry_dispatcher_set_concurrent_streams(dispatcher, false);
    static const uint32_t rounds[] = {40, 100, 7, 130, 61, MANY};
    uint64_t before = blocks_in_use();
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        allocate(rounds[i]);
        (void)submit(GANTRY_TASK_KERNEL, free_all, NULL, 0);
        emu.hold();
        assert_ok(gpu_fixture_step(&fixture));
        assert_ok(work.status);
        assert_int_equal(gpu_fixture_stats(&fixture).frees_pending, rounds[i]);
        assert_int_equal(blocks_in_use(), before + rounds[i]);
        emu.release();
        deadline_await(gpu_fixture_stats(&fixture).frees_pending == 0,
                       "blocks to come back when the GPU has passed");
        assert_int_equal(blocks_in_use(), before);
    }
}

static struct {
    _Atomic(bool) asks;
    void *block;
    gantry_status status;
} asking;

static gantry_launch_result ask_for_more(gantry_launch *launch, void *arg)
{
    (void)arg;
    atomic_store(&asking.asks, true);
    asking.status = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 21 * MIB, 0, GANTRY_ALLOC_SITE("more"),
                                        &asking.block);
    return GANTRY_LAUNCH_DONE;
}

/* The dispatcher's thread itself waits for a block on its way back, which the GPU is still using. */
static void test_a_callback_waits_for_blocks_on_their_way(void **state)
{
    (void)state;
    gantry_heap *heap = gantry_context_heap(fixture.context);
    work.count = 1;
    work.status = GANTRY_OK;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 20 * MIB, 0, GANTRY_ALLOC_SITE("test"),
                                &work.blocks[0]));
    (void)submit(GANTRY_TASK_KERNEL, free_all, NULL, 0);
    emu.hold();
    assert_ok(gpu_fixture_step(&fixture));
    let_it_look();
    atomic_store(&asking.asks, false);
    (void)submit(GANTRY_TASK_KERNEL, ask_for_more, NULL, 0);
    start();
    deadline_await(atomic_load(&asking.asks), "a callback to be called");
    for (int i = 0; i < 1000; i++) {
        sched_yield(); /* a thread that would give up may do so now */
    }
    emu.release();
    assert_ok(gpu_fixture_stop(&fixture));
    assert_ok(asking.status);
    assert_ok(gantry_heap_free(heap, asking.block));
}

static gantry_launch_result ask_for_less(gantry_launch *launch, void *arg)
{
    (void)arg;
    asking.status = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 100000, 0, GANTRY_ALLOC_SITE("less"),
                                        &asking.block);
    return GANTRY_LAUNCH_DONE;
}

/* A block is tried and is too small, and its turn comes meanwhile: it comes back all the same. */
static void test_a_block_that_is_tried_when_its_turn_comes_is_not_lost(void **state)
{
    (void)state;
    gantry_dispatcher_set_concurrent_streams(dispatcher, false);
    uint64_t before = blocks_in_use();
    allocate(1);
    (void)submit(GANTRY_TASK_KERNEL, free_all, NULL, 0);
    emu.hold();
    assert_ok(gpu_fixture_step(&fixture));
    stops_arm(0, GY_POINT_DEFERRED_TRY, &dispatcher->deferred);
    (void)submit(GANTRY_TASK_KERNEL, ask_for_less, NULL, 0);
    start();
    stops_await(0);
    const struct gy_deferred_queue *queue = &dispatcher->deferred.queues[0];
    emu.release();
    deadline_await(atomic_load(&queue->head) == queue->tail, "the block's turn to come");
    stops_go(0);
    assert_ok(gpu_fixture_stop(&fixture));
    gy_point_hook(NULL);
    assert_ok(asking.status);
    deadline_await(gpu_fixture_stats(&fixture).frees_pending == 0, "the block to come back");
    assert_int_equal(blocks_in_use(), before + 1);
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), asking.block));
}

static gantry_launch_result free_without_memory(gantry_launch *launch, void *arg)
{
    gantry_status *statuses = arg;
    gy_fault_arm(0);
    statuses[0] = gantry_free_after(work.blocks[0], launch);
    gy_fault_arm(-1);
    statuses[1] = gantry_free_after(work.blocks[0], launch);
    return GANTRY_LAUNCH_DONE;
}

/* The block is the application's until there is memory to remember it. */
static void test_a_free_without_host_memory_can_be_repeated(void **state)
{
    (void)state;
    gantry_status statuses[2];
    uint64_t before = blocks_in_use();
    allocate(1);
    (void)submit(GANTRY_TASK_KERNEL, free_without_memory, statuses, 0);
    assert_ok(gpu_fixture_step(&fixture));
    assert_int_equal(statuses[0], GANTRY_ERR_OUT_OF_HOST_MEMORY);
    assert_ok(statuses[1]);
    deadline_await(gpu_fixture_stats(&fixture).frees_pending == 0, "a block to come back");
    assert_int_equal(blocks_in_use(), before);
}

/* It waits for a timeline point that no thread looks for any more. */
static void test_blocks_of_a_lost_context_come_back_whatever_they_wait_for(void **state)
{
    (void)state;
    uint64_t before = blocks_in_use();
    (void)submit(GANTRY_TASK_KERNEL, count_call, NULL, 0); /* this makes a stream */
    assert_ok(gpu_fixture_step(&fixture));
    let_it_look();
    allocate(1);
    /* for GD, which sleeps */
    assert_ok(gy_deferred_add(&dispatcher->deferred, 0, 1000, work.blocks[0]));
    assert_int_equal(gpu_fixture_stats(&fixture).frees_pending, 1);
    gantry_dispatcher_force_failure(dispatcher);
    deadline_await(gpu_fixture_stats(&fixture).frees_pending == 0, "blocks to come back from a lost context");
    assert_int_equal(blocks_in_use(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_is_handed_on_when_the_gpu_has_passed),
        TEST(test_memory_that_ends_after_the_last_flush_comes_back),
        TEST(test_memory_that_ends_while_the_dispatcher_looks_is_not_forced),
        TEST(test_memory_that_ends_before_the_dispatcher_sleeps_comes_back),
        TEST(test_declared_memory_is_not_given_to_others),
        TEST(test_memory_comes_back_while_the_dispatcher_is_busy),
        TEST(test_memory_comes_back_while_a_task_polls),
        TEST(test_the_queue_of_a_stream_grows_wherever_it_is),
        TEST(test_a_callback_waits_for_blocks_on_their_way),
        TEST(test_a_block_that_is_tried_when_its_turn_comes_is_not_lost),
        TEST(test_a_free_without_host_memory_can_be_repeated),
        TEST(test_blocks_of_a_lost_context_come_back_whatever_they_wait_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
