/* SPDX-License-Identifier: MIT */
/* A thread that waits for a manager does the dispatcher's work while its threads sleep: where callbacks are
 * called, the state of the thread afterwards, and when it leaves the work to the dispatcher's own threads. */
#include "base/clock.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "taskman/manager.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_STACK = 128 << 10, TASKS = 40, RUNS = 200, MANY = 2500 };

static struct gpu_fixture fixture;
static gantry_task *waiting;
static pthread_t called_on, ran_on, released_on, waits_on;
static atomic_int calls;

static gantry_launch_result note_call(gantry_launch *launch, void *arg)
{
    (void)arg;
    called_on = pthread_self();
    atomic_fetch_add(&calls, 1);
    return gantry_launch_add_completion(launch, waiting) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                      : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result note_the_thread(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    called_on = pthread_self();
    return GANTRY_LAUNCH_DONE;
}

static gantry_status note_run(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    ran_on = pthread_self();
    return GANTRY_OK;
}

static void note_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)arg;
    (void)result;
    released_on = pthread_self();
}

static struct gantry_dispatcher *dispatcher(void)
{
    return gantry_context_dispatcher(fixture.context);
}

/* A GPU task, a sync point that waits for the GPU's end of it, and a CPU task behind that; frozen. */
static void make_graph(gantry_launch_fn launch)
{
    gantry_task_desc point = GANTRY_TASK_DESC_INIT;
    point.kind = GANTRY_TASK_SYNC_POINT;
    point.release = note_release;
    assert_ok(gantry_taskman_submit(fixture.manager, &point, &waiting));
    gpu_fixture_after(waiting, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch, NULL));
    gpu_fixture_after(gpu_fixture_cpu(&fixture, "behind", note_run, NULL), waiting);
    assert_ok(gantry_taskman_freeze(fixture.manager));
}

static void open_fixture(gantry_wait_mode mode)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.completion_wait = mode;
    gpu_fixture_open_with(&fixture, 2, &options);
    atomic_store(&calls, 0);
    memset(&called_on, 0, sizeof(called_on));
    memset(&ran_on, 0, sizeof(ran_on));
    memset(&released_on, 0, sizeof(released_on));
}

static void open_graph(gantry_wait_mode mode)
{
    open_fixture(mode);
    make_graph(note_call);
}

/* Wait until GD, the completion thread and the workers sleep. */
static void await_sleep(void)
{
    struct gantry_dispatcher *d = dispatcher();
    deadline_await(gy_inbox_is_free(&d->inbox), "the dispatcher to sleep");
    deadline_await(gy_completion_is_free(&d->completion.rings[0]), "the completion threads to sleep");
    for (uint32_t i = 0; i < fixture.cpus->worker_count; i++) {
        deadline_await(atomic_load(&fixture.cpus->workers[i].holder) == GY_WORKER_ASLEEP,
                       "a worker to sleep");
    }
}

static bool is_here(pthread_t thread)
{
    return pthread_equal(thread, pthread_self()) != 0;
}

static void run(void)
{
    waits_on = pthread_self();
    deadline_begin("a run");
    assert_ok(gantry_taskman_run(fixture.manager, 1));
    deadline_end();
}

/* On a busy machine a caller may lose its CPU for long and leave the rest of its work to other threads, so
 * it is asked several times. */
static void run_until_here(pthread_t *const *threads, size_t count)
{
    for (int n = 0; n < RUNS; n++) {
        bool all = true;
        await_sleep();
        run();
        for (size_t i = 0; i < count; i++) {
            all = all && is_here(*threads[i]);
        }
        if (all) {
            return;
        }
    }
    fail_msg("never done by the caller");
}

static void run_until_called_here(void)
{
    run_until_here((pthread_t *const[]){&called_on}, 1);
}

/* The caller does everything, and no other thread was awake for it. */
static void test_the_caller_does_everything(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t i = 0; i < 2; i++) {
        open_graph(modes[i]);
        run_until_here((pthread_t *const[]){&called_on, &released_on, &ran_on}, 3);
        gpu_fixture_close(&fixture);
    }
}

/* A thread that started a step and stops it later takes over as soon as no other thread is awake. */
static void test_who_stops_a_step_takes_over(void **state)
{
    (void)state;
    open_graph(GANTRY_WAIT_HYBRID);
    for (int n = 0; n < 20; n++) {
        await_sleep();
        assert_ok(gantry_taskman_start(fixture.manager));
        deadline_begin("the end of a step");
        assert_ok(gantry_taskman_stop(fixture.manager));
        deadline_end();
        assert_int_equal(atomic_load(&calls), n + 1);
    }
    gpu_fixture_close(&fixture);
}

static void test_a_manager_may_want_the_dispatchers_threads_only(void **state)
{
    (void)state;
    open_fixture(GANTRY_WAIT_HYBRID);
    gpu_fixture_use_threads_only(&fixture);
    make_graph(note_call);
    for (int n = 0; n < 5; n++) {
        await_sleep();
        run();
        assert_false(is_here(called_on));
        assert_false(is_here(released_on));
    }
    gpu_fixture_close(&fixture);
}

/* A thread of a mode that may not spin does not look at the GPU, and one that never sleeps needs no help. */
static void test_other_modes_do_it_themselves(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD};
    for (size_t i = 0; i < 2; i++) {
        open_graph(modes[i]);
        for (int n = 0; n < 3; n++) {
            run();
            assert_false(is_here(called_on));
            assert_false(is_here(released_on));
        }
        gpu_fixture_close(&fixture);
    }
}

/* ---- the loan -------------------------------------------------------------------------------- */

static struct gy_inbox inbox;
static atomic_bool is_back;

static void wait_at_the_inbox(void *arg)
{
    (void)arg;
    gy_inbox_wait(&inbox, 0, true, GANTRY_WAIT_BLOCK, 0, 0);
    atomic_store(&is_back, true);
}

/* The work that a guest leaves need not be news: it is in the bins already, or a gate has a deadline.  A
 * dispatcher's thread that is woken while the loop is on loan sleeps on. */
static void test_who_is_left_something_wakes_up(void **state)
{
    (void)state;
    for (int n = 0; n < 100; n++) {
        gy_thread thread;
        atomic_store(&is_back, false);
        assert_ok(gy_inbox_init(&inbox));
        assert_false(gy_inbox_borrow(&inbox));
        assert_ok(gy_thread_start(&thread, "taker", wait_at_the_inbox, NULL));
        deadline_await(gy_inbox_is_free(&inbox), "the taker to sleep");
        assert_true(gy_inbox_borrow(&inbox));
        assert_false(gy_inbox_borrow(&inbox));
        if (n % 2 == 0) {
            gy_inbox_give_back(&inbox, 0, true, false);
            (void)usleep(100);
            assert_false(atomic_load(&is_back));
            assert_true(gy_inbox_borrow(&inbox));
        } else {
            gy_inbox_signal(&inbox);
            (void)usleep(100);
            assert_false(atomic_load(&is_back));
        }
        gy_inbox_give_back(&inbox, 0, true, n % 2 == 0);
        deadline_await(atomic_load(&is_back), "the taker, for whom something was left");
        gy_thread_join(&thread);
        gy_inbox_fini(&inbox);
    }
}

static atomic_bool is_there;

static void spin_at_the_inbox(void *arg)
{
    (void)arg;
    atomic_store(&is_there, true);
    gy_inbox_wait(&inbox, 0, true, GANTRY_WAIT_HYBRID, UINT64_C(10000000000), 0);
    atomic_store(&is_back, true);
}

/* A taker that is awake leaves its place to a guest that was announced and comes; and takes what there is if
 * that does not come. */
static void test_a_taker_gives_way_to_a_guest_that_was_announced(void **state)
{
    (void)state;
    for (int n = 0; n < 20; n++) {
        gy_thread thread;
        atomic_store(&is_back, false);
        atomic_store(&is_there, false);
        assert_ok(gy_inbox_init(&inbox));
        assert_ok(gy_thread_start(&thread, "taker", spin_at_the_inbox, NULL));
        deadline_await(atomic_load(&is_there), "the taker"); /* it gives way only for some microseconds */
        (void)usleep(100);
        gy_inbox_expect_guest(&inbox);
        if (n % 2 == 0) { /* for longer, since this thread may be kept from running */
            gy_wake_hint_give(&inbox.guest_comes, gy_clock_ns() + UINT64_C(60000000000));
        }
        gy_inbox_signal(&inbox);
        if (n % 2 == 0) {
            deadline_await(gy_inbox_borrow(&inbox), "the taker to give way");
            (void)usleep(100);
            assert_false(atomic_load(&is_back));
            gy_wake_hint_give(&inbox.guest_comes, 1);
            gy_inbox_give_back(&inbox, 0, true, false);
        }
        deadline_await(atomic_load(&is_back), "the taker, which has news");
        gy_thread_join(&thread);
        gy_inbox_fini(&inbox);
    }
}

/* ---- who is woken --------------------------------------------------------------------------- */

/* Start a step and do something else: its tasks are called all the same, also when the steps before it were
 * waited for at once, and the next one does not count on the caller. */
static void test_a_step_that_nobody_waits_for_is_done(void **state)
{
    (void)state;
    open_fixture(GANTRY_WAIT_HYBRID);
    make_graph(note_call);
    for (int n = 0; n < 30; n++) {
        for (int at_once = n % 7; at_once > 0; at_once--) {
            assert_ok(gantry_taskman_start(fixture.manager));
            assert_ok(gantry_taskman_stop(fixture.manager));
        }
        const int before = atomic_load(&calls);
        assert_ok(gantry_taskman_start(fixture.manager));
        deadline_await(atomic_load(&calls) == before + 1, "the dispatcher's thread");
        (void)usleep(50);
        assert_ok(gantry_taskman_stop(fixture.manager));
        assert_int_equal(atomic_load(&fixture.manager->hints.punctual), 0);
    }
    gpu_fixture_close(&fixture);
}

/* A guest that has done everything wakes nobody when it leaves: a call would count as a signal besides the
 * note at the end of the step. */
static void test_a_guest_that_leaves_nothing_wakes_nobody(void **state)
{
    (void)state;
    bool was_quiet = false;
    open_fixture(GANTRY_WAIT_HYBRID);
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "plain", note_the_thread, NULL);
    assert_ok(gantry_taskman_freeze(fixture.manager));
    for (int n = 0; n < RUNS && !was_quiet; n++) {
        await_sleep();
        const uint32_t before = atomic_load(&dispatcher()->inbox.signals);
        run();
        was_quiet = is_here(called_on) && atomic_load(&dispatcher()->inbox.signals) == before + 1;
    }
    assert_true(was_quiet);
    gpu_fixture_close(&fixture);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *run_with_a_small_stack(void *arg)
{
    (void)arg;
    run();
    assert_false(is_here(called_on));
    return NULL;
}

static void test_a_small_stack_is_left_alone(void **state)
{
    (void)state;
    pthread_attr_t attributes;
    pthread_t thread;
    open_graph(GANTRY_WAIT_HYBRID);
    await_sleep();
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_with_a_small_stack, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    gpu_fixture_close(&fixture);
}

static const struct gy_driver *driver(void)
{
    return dispatcher()->config.context->driver;
}

/* It pushes a context once too often. */
static gantry_launch_result leave_another_context(gantry_launch *launch, void *arg)
{
    (void)driver()->cuCtxPushCurrent(dispatcher()->config.context->native);
    return note_call(launch, arg);
}

static gantry_launch_result look_at_the_thread(gantry_launch *launch, void *arg)
{
    CUcontext current = NULL;
    int cancel;
    assert_int_equal(driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
    assert_ptr_equal(current, dispatcher()->config.context->native);
    assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel), 0);
    assert_true(!is_here(waits_on) || cancel == PTHREAD_CANCEL_DISABLE);
    (void)pthread_setcancelstate(cancel, NULL);
    assert_int_equal(gantry_taskman_wait(fixture.manager), GANTRY_ERR_STATE); /* it would wait for itself */
    return note_call(launch, arg);
}

/* The state of the thread: its context, capture mode, last error, and whether it can be cancelled. */
static void test_the_thread_is_as_before(void **state)
{
    (void)state;
    const gantry_launch_fn launches[] = {look_at_the_thread, leave_another_context, look_at_the_thread};
    for (int i = 0; i < 3; i++) {
        CUcontext before = NULL, after = NULL;
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        int cancel;
        open_fixture(GANTRY_WAIT_HYBRID);
        make_graph(launches[i]);
        if (i == 2) {
            assert_ok(gantry_context_acquire(fixture.context));
        }
        await_sleep();
        assert_int_equal(driver()->cuCtxGetCurrent(&before), CUDA_SUCCESS);
        assert_int_equal(driver()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        assert_int_equal(gantry_taskman_reset(NULL), GANTRY_ERR_INVALID_ARGUMENT);
        run_until_called_here();
        assert_int_equal(driver()->cuCtxGetCurrent(&after), CUDA_SUCCESS);
        assert_ptr_equal(after, before);
        assert_int_equal(gy_error_last()->status, GANTRY_ERR_INVALID_ARGUMENT);
        mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        assert_int_equal(driver()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel), 0);
        assert_int_equal(cancel, PTHREAD_CANCEL_ENABLE);
        if (i == 2) {
            assert_ok(gantry_context_release(fixture.context));
        }
        gpu_fixture_close(&fixture);
    }
}

/* A capture of the application's own, on a stream of its own, goes on. */
static void test_a_capture_of_the_callers_is_not_spoilt(void **state)
{
    (void)state;
    CUstream stream;
    CUgraph graph = NULL;
    open_graph(GANTRY_WAIT_HYBRID);
    assert_ok(gantry_context_acquire(fixture.context));
    assert_int_equal(driver()->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int n = 0; n < 3; n++) {
        assert_int_equal(driver()->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         CUDA_SUCCESS);
        run_until_called_here();
        assert_int_equal(driver()->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
        assert_int_equal(driver()->cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    assert_int_equal(driver()->cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(gantry_context_release(fixture.context));
    gpu_fixture_close(&fixture);
}

/* ---- what only a completion thread can end ------------------------------------------------------ */

static gantry_task *told[MANY];

static gantry_launch_result ask_for_one_of_many(gantry_launch *launch, void *arg)
{
    called_on = pthread_self();
    return gantry_launch_add_completion(launch, *(gantry_task **)arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                   : GANTRY_LAUNCH_FAILED;
}

/* There are more completions than a ring has slots: the thread that waits for room tells none itself. */
static void test_a_guest_does_not_wait_for_itself(void **state)
{
    (void)state;
    open_fixture(GANTRY_WAIT_HYBRID);
    for (int i = 0; i < MANY; i++) {
        told[i] = gpu_fixture_cpu(&fixture, "told", NULL, NULL);
        gpu_fixture_after(
            told[i], gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", ask_for_one_of_many, &told[i]));
    }
    assert_ok(gantry_taskman_freeze(fixture.manager));
    run_until_called_here();
    gpu_fixture_close(&fixture);
}

static atomic_bool has_run;

static gantry_status note_that_it_has_run(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&has_run, true);
    return GANTRY_OK;
}

/* The thread gives up in the end, long after the GPU has had nothing to do. */
static gantry_launch_result ask_again_until_it_has_run(gantry_launch *launch, void *arg)
{
    (void)arg;
    if (gantry_launch_index(launch) > 20000000) {
        return GANTRY_LAUNCH_FAILED;
    }
    return atomic_load(&has_run) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_AGAIN;
}

/* A callback asks to be called again until a task has run that waits for a completion, and the thread that
 * calls it is the only one awake that could tell this completion. */
static void test_a_callback_waits_for_a_completion(void **state)
{
    (void)state;
    open_fixture(GANTRY_WAIT_HYBRID);
    waiting = gpu_fixture_cpu(&fixture, "raises", note_that_it_has_run, NULL);
    gpu_fixture_after(waiting, gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", note_call, NULL));
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "asks", ask_again_until_it_has_run, NULL);
    assert_ok(gantry_taskman_freeze(fixture.manager));
    for (int n = 0; n < 20; n++) {
        atomic_store(&has_run, false);
        await_sleep();
        run();
    }
    gpu_fixture_close(&fixture);
}

/* ---- several managers ------------------------------------------------------------------------ */

static gantry_taskman *other;
static atomic_bool other_called;
static pthread_t guest_thread;
static atomic_bool called_by_a_guest;

static gantry_launch_result note_others(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    atomic_store(&called_by_a_guest, is_here(guest_thread));
    atomic_store(&other_called, true);
    return GANTRY_LAUNCH_DONE;
}

static gantry_taskman *new_other(void)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman *manager;
    options.cpu_dispatcher = fixture.cpus;
    options.gpu_dispatcher = dispatcher();
    assert_ok(gantry_taskman_create(&options, &manager));
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = note_others;
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    return manager;
}

static atomic_bool shall_start, has_started;

static void *start_the_other(void *arg)
{
    (void)arg;
    deadline_await(atomic_load(&shall_start), "a callback of the guest's");
    assert_ok(gantry_taskman_start(other));
    atomic_store(&has_started, true);
    return NULL;
}

/* In the middle of a batch another manager's step begins. */
static gantry_launch_result wait_for_the_other(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    if (atomic_fetch_add(&calls, 1) == TASKS / 2) {
        guest_thread = pthread_self();
        atomic_store(&shall_start, true);
        while (!atomic_load(&has_started)) {
            (void)usleep(100);
        }
    }
    return GANTRY_LAUNCH_DONE;
}

/* It leaves in the middle of a batch, and the dispatcher's thread goes on: the caller may hold a lock that
 * the other manager's callbacks take. */
static void test_other_managers_callbacks_are_not_the_callers(void **state)
{
    (void)state;
    bool was_guest = false;
    for (int n = 0; n < 10 || (!was_guest && n < RUNS); n++) {
        pthread_t starter;
        open_fixture(GANTRY_WAIT_HYBRID);
        other = new_other();
        atomic_store(&other_called, false);
        atomic_store(&shall_start, false);
        atomic_store(&has_started, false);
        assert_int_equal(pthread_create(&starter, NULL, start_the_other, NULL), 0);
        for (int i = 0; i < TASKS; i++) {
            (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", wait_for_the_other, NULL);
        }
        assert_ok(gantry_taskman_freeze(fixture.manager));
        await_sleep();
        run();
        pthread_join(starter, NULL);
        assert_int_equal(atomic_load(&calls), TASKS);
        was_guest = was_guest || is_here(guest_thread);
        deadline_await(atomic_load(&other_called), "the other manager's callback");
        assert_false(is_here(guest_thread) && atomic_load(&called_by_a_guest));
        assert_ok(gantry_taskman_stop(other));
        gantry_taskman_destroy(other);
        gpu_fixture_close(&fixture);
    }
    assert_true(was_guest);
}

/* While another step is open the dispatcher's own threads do the work. */
static void test_with_another_step_open_nobody_is_a_guest(void **state)
{
    (void)state;
    open_graph(GANTRY_WAIT_HYBRID);
    other = new_other();
    assert_ok(gantry_taskman_start(other));
    deadline_await(atomic_load(&other_called), "the other manager's callback");
    for (int n = 0; n < 3; n++) {
        await_sleep();
        run();
        assert_false(is_here(called_on));
        assert_false(is_here(released_on));
    }
    assert_ok(gantry_taskman_stop(other));
    gantry_taskman_destroy(other);
    gpu_fixture_close(&fixture);
}

/* ---- ways ------------------------------------------------------------------------------------ */

static pthread_t refused_on;

static gantry_launch_result use_what_captures_forbid(gantry_launch *launch, void *arg)
{
    CUstream stream = gantry_launch_stream(launch);
    CUdeviceptr memory = 0;
    (void)arg;
    called_on = pthread_self();
    if (stream != NULL && driver()->cuMemAlloc(&memory, 256) == CUDA_SUCCESS) {
        (void)driver()->cuMemFree(memory);
        atomic_fetch_add(&calls, 1);
    } else {
        refused_on = pthread_self();
    }
    return GANTRY_LAUNCH_DONE;
}

/* A callback that a capture would spoil is called again outside of one, on a thread on which nothing was
 * refused, and a guest that was refused something is none any more (call/stand_in.h). */
static void test_graphs_are_captured_as_on_the_dispatchers_thread(void **state)
{
    (void)state;
    open_fixture(GANTRY_WAIT_HYBRID);
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "plain", use_what_captures_forbid, NULL);
    assert_ok(gantry_taskman_freeze(fixture.manager));
    assert_ok(gantry_dispatcher_set_submission(dispatcher(), GANTRY_SUBMISSION_GRAPHS));
    for (int n = 0; n < 5; n++) {
        const int before = atomic_load(&calls);
        await_sleep();
        run();
        assert_int_equal(atomic_load(&calls), before + 1); /* not in a capture, once that is known */
        assert_false(pthread_equal(called_on, refused_on));
    }
    gpu_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_caller_does_everything),
        cmocka_unit_test(test_who_stops_a_step_takes_over),
        cmocka_unit_test(test_a_manager_may_want_the_dispatchers_threads_only),
        cmocka_unit_test(test_other_modes_do_it_themselves),
        cmocka_unit_test(test_who_is_left_something_wakes_up),
        cmocka_unit_test(test_a_taker_gives_way_to_a_guest_that_was_announced),
        cmocka_unit_test(test_a_step_that_nobody_waits_for_is_done),
        cmocka_unit_test(test_a_guest_that_leaves_nothing_wakes_nobody),
        cmocka_unit_test(test_a_small_stack_is_left_alone),
        cmocka_unit_test(test_the_thread_is_as_before),
        cmocka_unit_test(test_a_capture_of_the_callers_is_not_spoilt),
        cmocka_unit_test(test_a_guest_does_not_wait_for_itself),
        cmocka_unit_test(test_a_callback_waits_for_a_completion),
        cmocka_unit_test(test_other_managers_callbacks_are_not_the_callers),
        cmocka_unit_test(test_with_another_step_open_nobody_is_a_guest),
        cmocka_unit_test(test_graphs_are_captured_as_on_the_dispatchers_thread),
    };
    return cmocka_run_group_tests_name("guest", tests, NULL, NULL);
}
