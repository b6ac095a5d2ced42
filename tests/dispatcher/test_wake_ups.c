/* SPDX-License-Identifier: MIT */
/* The dispatcher's threads sleep, and hear of things that happen just before they fall asleep. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "taskman/cpu/worker.h"
#include "taskman/manager.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/stops.h"

#include <pthread.h>
#include <unistd.h>

static struct gpu_fixture fixture;
static gantry_task *waiting;

static gantry_launch_result launch_completing(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_add_completion(launch, waiting) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                      : GANTRY_LAUNCH_FAILED;
}

/* A GPU task, and a CPU task that waits for the GPU's end of it; frozen. */
static struct gantry_dispatcher *open_dispatcher(gantry_wait_mode mode)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.completion_wait = mode;
    gpu_fixture_open_with(&fixture, 1, &options);
    gpu_fixture_use_threads_only(&fixture); /* they sleep and are woken, whichever thread waits */
    waiting = gpu_fixture_cpu(&fixture, "waiting", NULL, NULL);
    gpu_fixture_after(waiting,
                      gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_completing, NULL));
    assert_ok(gantry_taskman_freeze(fixture.manager));
    return gantry_context_dispatcher(fixture.context);
}

static void run(void)
{
    deadline_begin("a run of one GPU task and one that waits for its end");
    assert_ok(gantry_taskman_run(fixture.manager, 1));
    deadline_end();
}

static void start(void)
{
    assert_ok(gantry_taskman_start(fixture.manager));
}

static void stop(void)
{
    deadline_begin("a step whose news came when a thread was about to sleep");
    assert_ok(gantry_taskman_stop(fixture.manager));
    deadline_end();
}

static void close_dispatcher(void)
{
    gy_point_hook(NULL);
    run();
    gpu_fixture_close(&fixture);
}

/* GD: a task is submitted between its last look and its sleep. */
static void test_the_dispatcher_hears_of_tasks(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t i = 0; i < 6; i++) {
        struct gantry_dispatcher *d = open_dispatcher(modes[i / 2]);
        run();
        deadline_await(atomic_load(&d->inbox.asleep), "the dispatcher to sleep");
        stops_arm(0, i % 2 == 0 ? GY_POINT_INBOX_READ : GY_POINT_INBOX_SLEEP, &d->inbox);
        gy_inbox_signal(&d->inbox);
        stops_await(0);
        start();
        stops_go(0);
        stop();
        close_dispatcher();
    }
}

static void *close_context(void *arg)
{
    (void)arg;
    gpu_fixture_close(&fixture);
    return NULL;
}

/* GD again: it shall end, and there is no task that would wake it up. */
static void test_the_dispatcher_hears_of_its_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        struct gantry_dispatcher *d = open_dispatcher(GANTRY_WAIT_BLOCK);
        run();
        deadline_await(atomic_load(&d->inbox.asleep), "the dispatcher to sleep");
        stops_arm(0, i == 0 ? GY_POINT_INBOX_READ : GY_POINT_INBOX_SLEEP, &d->inbox);
        gy_inbox_signal(&d->inbox);
        stops_await(0);
        uint32_t before = atomic_load(&d->inbox.signals);
        assert_int_equal(pthread_create(&thread, NULL, close_context, NULL), 0);
        deadline_await(atomic_load(&d->inbox.signals) != before, "the dispatcher to be told of its end");
        stops_go(0);
        deadline_begin("the end of a dispatcher that was about to sleep");
        assert_int_equal(pthread_join(thread, NULL), 0);
        deadline_end();
        gy_point_hook(NULL);
    }
}

/* A thread of a mode that never sleeps does not, however long there is nothing to do; the others sleep, and
 * soon. */
static void test_the_completion_thread_waits_as_it_was_told(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_SPIN, GANTRY_WAIT_YIELD, GANTRY_WAIT_BLOCK,
                                      GANTRY_WAIT_HYBRID};
    for (size_t i = 0; i < 4; i++) {
        struct gantry_dispatcher *d = open_dispatcher(modes[i]);
        struct gy_completion *ring = &d->completion.rings[0];
        run();
        if (i < 2) {
            (void)usleep(50000); /* 500 times as long as the others look for */
            assert_false(gy_completion_is_asleep(ring));
        } else {
            deadline_await(gy_completion_is_asleep(ring), "the completion thread to sleep");
        }
        close_dispatcher();
    }
}

/* It has nothing more to look for, and is stopped where it is about to sleep. */
static void stop_before_sleep(struct gy_completion *ring)
{
    deadline_await(gy_completion_is_asleep(ring), "the completion thread to sleep");
    stops_arm(0, GY_POINT_COMPLETION_SLEEP, ring);
    run();
    stops_await(0);
}

/* The same for the completion thread, with completions to look for. */
static void test_the_completion_thread_hears_of_completions(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t i = 0; i < 3; i++) {
        struct gantry_dispatcher *d = open_dispatcher(modes[i]);
        struct gy_completion *ring = &d->completion.rings[0];
        stop_before_sleep(ring);
        uint64_t news = atomic_load(&ring->news);
        start();
        deadline_await(atomic_load(&ring->news) != news, "completions to be published");
        stops_go(0);
        stop();
        close_dispatcher();
    }
}

/* It falls asleep while it is being informed: the informing thread looks afterwards whether it sleeps. */
static void test_the_completion_thread_may_fall_asleep_while_it_is_told(void **state)
{
    (void)state;
    struct gantry_dispatcher *d = open_dispatcher(GANTRY_WAIT_BLOCK);
    struct gy_completion *ring = &d->completion.rings[0];
    stop_before_sleep(ring);
    stops_arm(1, GY_POINT_COMPLETION_TELL, ring);
    start();
    stops_await(1);
    stops_go(0);
    deadline_await(gy_completion_is_asleep(ring), "the completion thread to sleep");
    stops_go(1);
    stop();
    close_dispatcher();
}

static atomic_bool gone;

static void *destroy_pool(void *arg)
{
    (void)arg;
    gantry_taskman_destroy(fixture.manager);
    gantry_cpu_dispatcher_destroy(fixture.cpus);
    fixture.manager = NULL;
    fixture.cpus = NULL;
    atomic_store(&gone, true);
    return NULL;
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static gantry_status run_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* GD hands the last task of a round to the pool.  The thread that stops the step runs the task, and the
 * pool could be destroyed. */
static void test_a_pool_stays_while_it_is_told_of_a_task(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *last;
    pthread_t thread;
    options.driver = gpu_fixture_driver();
    gpu_fixture_open_with(&fixture, 1, &options);
    gpu_fixture_use_threads_only(&fixture); /* they sleep and are woken, whichever thread waits */
    desc.run = run_nothing;
    desc.is_condition = true;
    assert_ok(gantry_taskman_submit(fixture.manager, &desc, &last));
    gpu_fixture_after(last, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_nothing, NULL));
    assert_ok(gantry_taskman_freeze(fixture.manager));
    atomic_store(&gone, false);
    stops_arm(0, GY_POINT_EVENT_NOTIFY, &fixture.cpus->events.work);
    start();
    stops_await(0);
    stop();
    assert_int_equal(pthread_create(&thread, NULL, destroy_pool, NULL), 0);
    (void)usleep(50000);
    bool early = atomic_load(&gone);
    stops_go(0);
    pthread_join(thread, NULL);
    gy_point_hook(NULL);
    assert_false(early);
    gpu_fixture_close(&fixture);
}

/* The thread that told a completion puts its events back for the next one. */
static void test_events_of_completions_are_used_again(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_YIELD};
    struct gantry_emu_control emu;
    if (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED) {
        skip(); /* no other thread counts them */
    }
    for (size_t i = 0; i < 3; i++) {
        (void)open_dispatcher(modes[i]);
        assert_true(gpu_fixture_controls(&emu));
        int64_t warm = 0;
        for (int runs = 0; runs < 60; runs++) {
            run();
            warm = runs == 20 ? emu.live(GANTRY_EMU_LIVE_EVENTS) : warm;
        }
        /* One more for each of the 39 runs, if they were not; on a busy machine some more are in flight at
         * once. */
        assert_true(emu.live(GANTRY_EMU_LIVE_EVENTS) <= warm + 20);
        close_dispatcher();
    }
}

/* ---- the gate of captures ------------------------------------------------------------------ */

static struct gy_launch_gate gate;
static struct gantry_taskman waited_for;

static void wait_launched(void *done)
{
    gy_launch_gate_wait(&gate, &waited_for);
    atomic_store((_Atomic(bool) *)done, true);
}

/* A thread waits for the end of the capture that is under way, not for a moment without one: the next may
 * begin before the thread has woken up. */
static void test_who_waits_for_a_launch_does_not_wait_for_the_next(void **state)
{
    (void)state;
    assert_ok(gy_launch_gate_init(&gate, 0));
    for (int i = 0; i < 200; i++) {
        gy_thread thread;
        _Atomic(bool) done = false;
        gy_launch_gate_open(&gate);
        gy_launch_gate_note(&gate, &waited_for);
        assert_ok(gy_thread_start(&thread, "waits", wait_launched, &done));
        deadline_await(atomic_load(&gate.waiting) != 0, "a thread to wait for a launch");
        assert_false(atomic_load(&done));
        gy_launch_gate_close(&gate);
        gy_launch_gate_open(&gate);
        deadline_await(atomic_load(&done), "a launch that another capture follows at once");
        gy_thread_join(&thread);
        gy_launch_gate_close(&gate);
    }
    gy_launch_gate_fini(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_dispatcher_hears_of_tasks),
        cmocka_unit_test(test_the_dispatcher_hears_of_its_end),
        cmocka_unit_test(test_the_completion_thread_waits_as_it_was_told),
        cmocka_unit_test(test_the_completion_thread_hears_of_completions),
        cmocka_unit_test(test_the_completion_thread_may_fall_asleep_while_it_is_told),
        cmocka_unit_test(test_who_waits_for_a_launch_does_not_wait_for_the_next),
        cmocka_unit_test(test_a_pool_stays_while_it_is_told_of_a_task),
        cmocka_unit_test(test_events_of_completions_are_used_again),
    };
    /* The emulated driver counts events. */
    size_t count = sizeof(tests) / sizeof(tests[0]) - (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED);
    return _cmocka_run_group_tests("wake_ups", tests, count, NULL, NULL);
}
