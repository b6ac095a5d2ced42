/* SPDX-License-Identifier: MIT */
/* A body calls pthread_exit(), which it must not do: its task fails, with a reason, and everything else goes
 * on. */
#include "tests/taskman/fixture.h"

#include "base/sanitizers.h"
#include "base/thread.h"
#include "taskman/cpu/worker.h"

#include <gantry/bandwidth.h>

#include <pthread.h>
#include <sched.h>

static gantry_status exit_body(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((atomic_int *)arg, 1);
    pthread_exit(NULL);
}

static void test_a_worker_survives_it(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct fixture f = set_up_workers_only(workers);
        atomic_int exits = 0, count = 0;
        gantry_task *tasks[30];
        for (int i = 0; i < 30; i++) {
            bool is_bad = i % 10 == 4;
            tasks[i] = add_cpu(f.manager, NULL, is_bad ? exit_body : count_body, is_bad ? &exits : &count);
            assert_ok(i % 10 != 0 ? gantry_task_start_after(tasks[i], tasks[i - 1]) : GANTRY_OK);
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 10; run++) {
            assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_STATE);
            assert_last_error_has("pthread_exit()");
            assert_int_equal(exits, 3 * run);
            assert_int_equal(count, 12 * run); /* those before it in each chain of ten */
            assert_error(gantry_task_result(tasks[14]), GANTRY_ERR_STATE);
            assert_error(gantry_task_result(tasks[15]), GANTRY_ERR_TASK_FAILED);
        }
        assert_ok(gantry_taskman_reset(f.manager));
        struct meeting meeting = {.size = (int)workers};
        for (uint32_t i = 0; i < workers; i++) {
            add_cpu(f.manager, NULL, meet_body, &meeting);
        }
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager)); /* all workers have started */
        assert_int_equal(atomic_load(&f.pool->outside), 0);
        tear_down(&f);
    }
}

/* The things that a body holds end with it: its class's place, the bandwidth gate, tasks it has spawned. */
static gantry_status spawn_and_exit_body(gantry_task *task, void *arg)
{
    if (gantry_taskman_spawn(gantry_task_manager(task), count_body, arg, NULL, NULL) == GANTRY_OK) {
        pthread_exit(NULL);
    }
    return GANTRY_OK;
}

static void test_what_the_task_held_is_given_back(void **state)
{
    (void)state;
    const uint32_t limit = 1;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 2;
    cpus.class_count = 1;
    cpus.class_limits = &limit;
    struct fixture f;
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &f.pool));
    f.manager = new_manager_with(f.pool, true);
    atomic_int count = 0;
    for (int i = 0; i < 20; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = spawn_and_exit_body;
        desc.arg = &count;
        desc.cpu_class = 1;
        desc.bandwidth_critical = true;
        assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    }
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE);
    assert_int_equal(count, 20);
    assert_int_equal(stats_of(f.manager).failed, 20);
    assert_int_equal(__atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_SEQ_CST), 0);
    tear_down(&f);
}

/* ---- loops ------------------------------------------------------------------------------------- */

struct loop {
    gantry_cpu_dispatcher *pool;
    pthread_t caller;
    bool caller_exits;
    atomic_int inside, returned;
};

/* Two bodies meet, and one of them exits. */
static gantry_status exit_part(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    struct loop *loop = arg;
    atomic_fetch_add(&loop->inside, 1);
    while (atomic_load(&loop->inside) < 2) {
        sched_yield();
    }
    if ((pthread_equal(pthread_self(), loop->caller) != 0) == loop->caller_exits) {
        pthread_exit(NULL);
    }
    return GANTRY_OK;
}

static gantry_status loop_body(gantry_task *task, void *arg)
{
    (void)task;
    struct loop *loop = arg;
    loop->caller = pthread_self();
    gantry_status status = gantry_parallel_for(loop->pool, 0, 2, 1, exit_part, loop);
    atomic_fetch_add(&loop->returned, 1);
    return status;
}

static void test_a_loop_fails_whoever_exits(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(2);
    struct loop loop = {.pool = f.pool};
    add_cpu(f.manager, NULL, loop_body, &loop);
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int run = 0; run < 20; run++) {
        loop.caller_exits = run % 2 == 1;
        loop.inside = 0;
        assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_STATE);
        assert_int_equal(loop.returned, run / 2 + 1);
        assert_null(atomic_load(&f.pool->shown.loops));
    }
    while (atomic_load(&f.pool->events.work.sleepers) != 2) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&f.pool->idle), 2);
    tear_down(&f);
}

/* ---- threads of the application ---------------------------------------------------------------- */

struct stopper {
    gantry_taskman *manager;
    atomic_int returned;
    gy_thread thread;
};

static void run_in_thread(void *arg)
{
    struct stopper *stopper = arg;
    (void)!gantry_taskman_run(stopper->manager, 1);
    atomic_store(&stopper->returned, 1);
}

/* It ends the thread that waits, if that ran the body; then another thread can end the step. */
static void test_a_waiting_thread_goes_alone(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct fixture f = set_up(workers);
        atomic_int exits = 0, count = 0;
        gantry_task *bad = add_cpu(f.manager, NULL, exit_body, &exits);
        for (int i = 0; i < 30; i++) {
            gantry_task *task = add_cpu(f.manager, NULL, count_body, &count);
            assert_ok(i < 10 ? gantry_task_start_after(bad, task) : GANTRY_OK);
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 5; run++) {
            for (uint32_t w = 0; w < workers; w++) {
                while (atomic_load(&f.pool->workers[w].holder) != GY_WORKER_ASLEEP) {
                    sched_yield();
                }
            }
            struct stopper stopper = {.manager = f.manager};
            assert_ok(gy_thread_start(&stopper.thread, "stopper", run_in_thread, &stopper));
            gy_thread_join(&stopper.thread);
            if (stopper.returned == 0) {
                assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE);
                assert_last_error_has("pthread_exit()");
            }
            /* Which thread ran it?  A worker may have been woken for work that the thread before left
             * behind. */
            assert_true(stopper.returned == 0 || workers == 2 || (workers == 1 && run > 1));
            assert_int_equal(exits, run);
            assert_int_equal(count, 30 * run);
            assert_int_equal(atomic_load(&f.pool->shown.on_loan), 0);
        }
        tear_down(&f);
    }
}

/* ---- cancellation ------------------------------------------------------------------------------ */

static void *stop_and_tell(void *manager)
{
    gantry_status status = gantry_taskman_stop(manager);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return status == GANTRY_OK ? manager : NULL;
}

/* A thread that is cancelled while it waits goes on until it has left the library. */
static void test_waiting_is_no_cancellation_point(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 1; workers++) {
        struct fixture f = set_up(workers);
        atomic_int count = 0;
        gantry_task *task = add_cpu(f.manager, NULL, count_body, &count);
        assert_ok(gantry_task_add_reference(task));
        assert_ok(gantry_taskman_start(f.manager));
        while (gantry_task_references(task) != 1 && workers != 0) {
            sched_yield();
        }
        pthread_t thread;
        void *result = NULL;
        assert_int_equal(pthread_create(&thread, NULL, stop_and_tell, f.manager), 0);
        struct gy_event *event = workers != 0 ? &f.pool->events.done : &f.pool->events.work;
        while (atomic_load(&event->sleepers) == 0) {
            sched_yield();
        }
        assert_int_equal(pthread_cancel(thread), 0);
        gantry_task_remove_reference(task);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, f.manager);
        assert_int_equal(count, 1);
        tear_down(&f);
    }
}

static gantry_status cancel_self_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return pthread_cancel(pthread_self()) == 0 ? GANTRY_OK : GANTRY_ERR_STATE;
}

static gantry_status testcancel_body(gantry_task *task, void *arg)
{
    pthread_testcancel();
    return count_body(task, arg);
}

/* The cancellation takes effect where a body has a cancellation point, and then it acts like
 * pthread_exit(). */
static void test_a_cancelled_worker_survives_it(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    atomic_int count = 0;
    add_cpu(f.manager, NULL, cancel_self_body, NULL);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    while (atomic_load(&f.pool->workers[0].holder) != GY_WORKER_ASLEEP) {
        sched_yield();
    }
    assert_ok(gantry_taskman_reset(f.manager));
    add_cpu(f.manager, NULL, testcancel_body, &count);
    assert_ok(gantry_taskman_freeze(f.manager));
#if !GY_WITH_ASAN /* the sanitizer does not see that a cancelled thread leaves its frames */
    assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_STATE);
    assert_int_equal(count, 0);
    assert_ok(gantry_taskman_run(f.manager, 1));
    assert_int_equal(count, 1);
#endif
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worker_survives_it),
        cmocka_unit_test(test_what_the_task_held_is_given_back),
        cmocka_unit_test(test_a_loop_fails_whoever_exits),
        cmocka_unit_test(test_a_waiting_thread_goes_alone),
        cmocka_unit_test(test_waiting_is_no_cancellation_point),
        cmocka_unit_test(test_a_cancelled_worker_survives_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
