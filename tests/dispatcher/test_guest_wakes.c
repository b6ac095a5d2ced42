/* SPDX-License-Identifier: MIT */
/* A thread that waits for a step does all of it, from the launch to the CPU task behind the GPU work, and
 * wakes no thread on the way: each that slept for long would come tens of microseconds later, and in the way.
 */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "taskman/manager.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"

#include "base/point.h"

#include <pthread.h>

#define FOREVER_NS UINT64_C(100000000000)

enum { STEPS = 20, MOST_KERNELS = 3, RUNS = 200 };

static struct gpu_fixture fixture;
static struct gantry_emu_control emu;
static gantry_task *behind;
static pthread_t called_on, ran_on;
static struct gantry_dispatcher *dispatcher;

/* From the launch to the CPU task. */
static atomic_int wakes;
static atomic_bool counts;
static atomic_int idle_turns; /* of the guest, since the launch */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    (void)arg;
    called_on = pthread_self();
    atomic_store(&counts, true);
    return gantry_launch_add_completion(launch, behind) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                     : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_held(gantry_launch *call, void *arg)
{
    const struct gy_driver *driver = dispatcher->config.context->driver;
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)arg;
    return driver->cuMemsetD8Async(word, 1, 4, gantry_launch_stream(call)) == CUDA_SUCCESS
               ? launch(call, arg)
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_run(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&counts, false);
    ran_on = pthread_self();
    return GANTRY_OK;
}

/* The GPU work ends when the thread has found twice that there is nothing to launch. */
static void hook(enum gy_point point, const void *at)
{
    if (!atomic_load(&counts)) {
        return;
    }
    if (point == GY_POINT_COND_WAKE) {
        atomic_fetch_add(&wakes, 1);
    } else if (point == GY_POINT_INBOX_READ && at == &dispatcher->inbox &&
               atomic_fetch_add(&idle_turns, 1) == 0) {
        emu.release();
    }
}

static void open_fixture(uint32_t workers, gantry_wait_mode mode)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED; /* which holds the work back */
    options.completion_wait = mode;
    gpu_fixture_open_with(&fixture, workers, &options);
    assert_true(emu_controls_open(&emu));
    dispatcher = gantry_context_dispatcher(fixture.context);
}

static void await_sleep(void)
{
    deadline_await(gy_inbox_is_free(&dispatcher->inbox), "the dispatcher to sleep");
    deadline_await(gy_completion_is_asleep(&dispatcher->completion.rings[0]),
                   "the completion threads to sleep");
    for (uint32_t i = 0; i < fixture.cpus->worker_count; i++) {
        deadline_await(atomic_load(&fixture.cpus->workers[i].holder) == GY_WORKER_ASLEEP,
                       "a worker to sleep");
    }
}

/* The thread looks for as long as it takes, however busy the machine is. */
static void run_step(void)
{
    await_sleep();
    atomic_store(&fixture.manager->hints.spin_budget_ns, FOREVER_NS);
    atomic_store(&wakes, 0);
    atomic_store(&idle_turns, 0);
    emu.hold();
    gy_point_hook(hook);
    deadline_begin("a step");
    assert_ok(gantry_taskman_run(fixture.manager, 1));
    deadline_end();
    gy_point_hook(NULL);
    emu.release();
}

static bool is_here(pthread_t thread)
{
    return pthread_equal(thread, pthread_self()) != 0;
}

/* A thread that seems to sleep may be on its way, woken when the graph was made, or the caller may lose its
 * CPU for long; so not every step has to be as it should.
 *
 * So many GPU tasks that end later, and a CPU task behind all of them. */
static void check(uint32_t workers, uint32_t kernels, gantry_wait_mode mode)
{
    open_fixture(workers, mode);
    void *words;
    assert_ok(gantry_heap_alloc(gantry_context_heap(fixture.context), GANTRY_MEMORY_DEVICE, 256, 0,
                                GANTRY_ALLOC_SITE("words"), &words));
    behind = gpu_fixture_cpu(&fixture, "behind", note_run, NULL);
    for (uint32_t i = 0; i < kernels; i++) {
        gpu_fixture_after(behind, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_held,
                                                  (uint32_t *)words + i));
    }
    assert_ok(gantry_taskman_freeze(fixture.manager));
    int good = 0;
    for (int n = 0; n < RUNS && good < STEPS; n++) {
        run_step();
        good += is_here(called_on) && is_here(ran_on) && atomic_load(&wakes) == 0;
    }
    assert_int_equal(good, STEPS);
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), words));
    gpu_fixture_close(&fixture);
}

static void test_no_thread_is_woken_on_the_way(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    const uint32_t workers[] = {1, 4};
    for (uint32_t kernels = 1; kernels <= MOST_KERNELS; kernels++) {
        for (size_t i = 0; i < 2; i++) {
            check(workers[i], kernels, modes[i]);
        }
    }
}

/* A thread that waits before it stops the step has done its work then, and nothing is left for the stop:
 * nobody need be awake for the next step all the same.  The dispatcher's thread wakes up at the start, and
 * may be faster. */
static void test_a_wait_before_the_stop_counts(void **state)
{
    (void)state;
    open_fixture(2, GANTRY_WAIT_HYBRID);
    behind = gpu_fixture_cpu(&fixture, "behind", note_run, NULL);
    gpu_fixture_after(behind, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch, NULL));
    assert_ok(gantry_taskman_freeze(fixture.manager));
    bool was_helped = false;
    for (int n = 0; n < RUNS && !was_helped; n++) {
        await_sleep();
        deadline_begin("a step");
        assert_ok(gantry_taskman_start(fixture.manager));
        assert_ok(gantry_taskman_wait(fixture.manager));
        assert_ok(gantry_taskman_stop(fixture.manager));
        deadline_end();
        was_helped = atomic_load(&fixture.manager->hints.was_helped);
    }
    assert_true(was_helped);
    gpu_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_thread_is_woken_on_the_way),
                                       cmocka_unit_test(test_a_wait_before_the_stop_counts)};
    return cmocka_run_group_tests_name("guest_wakes", tests, NULL, NULL);
}
