/* How workers wait: which modes sleep, that sleeping workers wake up, and what an adaptive worker learns
 * from its pauses. */
#include "tests/support/stops.h"
#include "tests/taskman/fixture.h"

#include "base/waiter.h"
#include "taskman/cpu/wait.h"
#include "taskman/cpu/worker.h"

#include <pthread.h>
#include <sched.h>

enum { US = 1000, MS = 1000 * US };

static uint64_t after_pauses(uint64_t budget, uint64_t pause_ns, int times)
{
    for (int i = 0; i < times; i++) {
        budget = gy_waiter_learn(budget, pause_ns, GY_WAITER_MOST_NS);
        assert_in_range(budget, GY_WAITER_LEAST_NS, GY_WAITER_MOST_NS);
    }
    return budget;
}

static void test_spin_budget_follows_the_pauses(void **state)
{
    (void)state;
    /* After one pause the budget is long enough to bridge the next one of that length, with some to spare. */
    uint64_t budget = after_pauses(GY_WAITER_LEAST_NS, 100 * US, 1);
    assert_int_equal(budget, 200 * US);
    assert_int_equal(after_pauses(budget, 100 * US, 50), 200 * US);
    assert_int_equal(after_pauses(GY_WAITER_LEAST_NS, 900 * US, 1), 1800 * US);
    /* The budget never exceeds its maximum. */
    assert_int_equal(after_pauses(GY_WAITER_LEAST_NS, 1900 * US, 1), GY_WAITER_MOST_NS);
    assert_int_equal(after_pauses(GY_WAITER_LEAST_NS, GY_WAITER_MOST_NS, 1), GY_WAITER_MOST_NS);
    /* One short pause among long ones costs little; many of them bring the budget down. */
    assert_in_range(after_pauses(1800 * US, 1 * US, 1), 1500 * US, 1700 * US);
    assert_int_equal(after_pauses(1800 * US, 1 * US, 100), GY_WAITER_LEAST_NS);
    /* A thread that may waste less has a smaller budget. */
    assert_int_equal(gy_waiter_learn(40 * US, 150 * US, GY_WAITER_HYBRID_NS), GY_WAITER_HYBRID_NS);
    assert_int_equal(gy_waiter_learn(80 * US, 250 * US, GY_WAITER_HYBRID_NS), 40 * US);
    /* Pauses that no budget could bridge halve it, down to the least. */
    assert_int_equal(after_pauses(800 * US, 3 * MS, 1), 400 * US);
    assert_int_equal(after_pauses(800 * US, UINT64_MAX, 1), 400 * US);
    assert_int_equal(after_pauses(GY_WAITER_MOST_NS, 1000 * (uint64_t)MS, 10), GY_WAITER_LEAST_NS);
    assert_int_equal(after_pauses(GY_WAITER_LEAST_NS, 0, 3), GY_WAITER_LEAST_NS);
}

static void await_sleepers(const gantry_cpu_dispatcher *pool, uint32_t count)
{
    deadline_await(atomic_load(&pool->work.sleepers) == count, "workers to sleep, or to wake up");
}

/* Every worker falls asleep by itself, however large its spin budget, and a start wakes it. */
static void test_spinning_workers_sleep_in_the_end(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        gantry_cpu_dispatcher *pool = new_pool(2, modes[m]);
        struct fixture f = {pool, new_manager(pool)};
        atomic_int count = 0;
        for (int i = 0; i < 10; i++) {
            add_cpu(f.manager, NULL, count_body, &count);
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 20; run++) {
            await_sleepers(pool, 2);
            for (uint32_t w = 0; w < 2 && modes[m] == GANTRY_WAIT_ADAPTIVE; w++) {
                assert_in_range(pool->workers[w].spin_budget_ns, GY_WAITER_LEAST_NS, GY_WAITER_MOST_NS);
            }
            assert_ok(gantry_taskman_run(f.manager, 1));
            assert_int_equal(count, 10 * run);
        }
        tear_down(&f);
    }
}

static void test_busy_workers_never_sleep(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_YIELD, GANTRY_WAIT_SPIN};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        gantry_cpu_dispatcher *pool = new_pool(1, modes[m]);
        struct fixture f = {pool, new_manager(pool)};
        atomic_int count = 0;
        add_cpu(f.manager, NULL, count_body, &count);
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 20; run++) {
            assert_ok(gantry_taskman_run(f.manager, 1));
            assert_int_equal(atomic_load(&pool->work.sleepers), 0);
        }
        assert_int_equal(count, 20);
        tear_down(&f);
    }
}

/* One worker wakes up for tasks that are likely to come, and looks for them until they come or the time is
 * over.  A worker of a mode that sleeps at once is not disturbed. */
static void test_one_worker_is_awake_for_expected_tasks(void **state)
{
    (void)state;
    const uint64_t for_ever = 1000000000ull * US;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        gantry_cpu_dispatcher *pool = new_pool(3, modes[m]);
        await_sleepers(pool, 3);
        while (atomic_load(&pool->work.sleepers) != 2) {
            gy_pool_expect(pool,
                           /* it is given again: a hint may be lost on a worker that wakes up by chance */
                           for_ever);
            sched_yield();
        }
        gy_pool_expect(pool, 0);
        await_sleepers(pool, 3);
        gantry_cpu_dispatcher_destroy(pool);
    }
    gantry_cpu_dispatcher *pool = new_pool(1, GANTRY_WAIT_BLOCK);
    await_sleepers(pool, 1);
    uint32_t epoch = atomic_load(&pool->work.epoch);
    gy_pool_expect(pool, for_ever);
    assert_int_equal(atomic_load(&pool->work.epoch), epoch);
    gantry_cpu_dispatcher_destroy(pool);
}

/* ---- lost wake-ups ------------------------------------------------------------------------- */

/* A worker has found nothing and is about to sleep when the last task of a step is queued.  The thread that
 * queues it either sees nobody asleep and wakes nobody, or sees the worker and must wake it. */
static void test_a_worker_sees_what_comes_before_it_sleeps(void **state)
{
    (void)state;
    const enum gy_point points[] = {GY_POINT_EVENT_PREPARE, GY_POINT_EVENT_KEY};
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t i = 0; i < 6; i++) {
        gantry_cpu_dispatcher *pool = new_pool(1, modes[i / 2]);
        struct fixture f = {pool, new_manager_with(pool, true)};
        atomic_int count = 0;
        add_cpu(f.manager, NULL, count_body, &count);
        assert_ok(gantry_taskman_freeze(f.manager));
        await_sleepers(pool, 1);
        stops_arm(0, points[i % 2], &pool->work);
        assert_ok(gantry_taskman_run(f.manager, 1));
        stops_await(0);
        assert_ok(gantry_taskman_start(f.manager));
        stops_go(0);
        deadline_begin("a task that was queued when the worker was about to sleep");
        assert_ok(gantry_taskman_stop(f.manager));
        deadline_end();
        gy_point_hook(NULL);
        assert_int_equal(count, 2);
        tear_down(&f);
    }
}

static void *stop_step(void *manager)
{
    return gantry_taskman_stop(manager) == GANTRY_OK ? NULL : manager;
}

static gantry_status wait_for_flag(gantry_task *task, void *arg)
{
    (void)task;
    while (atomic_load((atomic_int *)arg) == 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

/* The same for a thread that waits for a step, which ends just before it sleeps. */
static void test_who_waits_sees_an_end_before_it_sleeps(void **state)
{
    (void)state;
    const enum gy_point points[] = {GY_POINT_EVENT_PREPARE, GY_POINT_EVENT_KEY};
    for (size_t i = 0; i < 4; i++) {
        gantry_cpu_dispatcher *pool = new_pool(1, i < 2 ? GANTRY_WAIT_BLOCK : GANTRY_WAIT_HYBRID);
        struct fixture f = {pool, new_manager_with(pool, true)};
        atomic_int flag = 0;
        add_cpu(f.manager, NULL, wait_for_flag, &flag);
        stops_arm(0, points[i % 2], &pool->done);
        assert_ok(gantry_taskman_start(f.manager));
        pthread_t thread;
        void *wrong;
        assert_int_equal(pthread_create(&thread, NULL, stop_step, f.manager), 0);
        stops_await(0);
        atomic_store(&flag, 1);
        await_sleepers(pool, 1); /* the worker is done with the step */
        stops_go(0);
        deadline_begin("the thread that was about to sleep when the step ended");
        assert_int_equal(pthread_join(thread, &wrong), 0);
        deadline_end();
        assert_null(wrong);
        gy_point_hook(NULL);
        tear_down(&f);
    }
}

static void await_waiters(const gantry_cpu_dispatcher *pool, uint32_t count)
{
    deadline_await(atomic_load(&pool->done.sleepers) == count, "waiting threads to sleep, or to wake up");
}

/* The only thread that waits wakes up for an end that is near, looks until the hint has run out and sleeps
 * again.  Where several wait, a worker wakes up instead. */
static void test_the_waiting_thread_is_awake_for_an_expected_end(void **state)
{
    (void)state;
    const uint64_t for_ever = 1000000000ull * US;
    gantry_cpu_dispatcher *pool = new_pool(2, GANTRY_WAIT_HYBRID);
    gantry_taskman *managers[2];
    gantry_task *tasks[2];
    pthread_t threads[2];
    atomic_int count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        managers[i] = new_manager(pool);
        tasks[i] = add_cpu(managers[i], NULL, count_body, &count);
        assert_ok(gantry_task_add_reference(tasks[i]));
        assert_ok(gantry_taskman_start(managers[i]));
        assert_int_equal(pthread_create(&threads[i], NULL, stop_step, managers[i]), 0);
        await_waiters(pool, i + 1);
        await_sleepers(pool, 2);
        while (i == 0 && atomic_load(&pool->done.sleepers) != 0) {
            gy_pool_expect_end(pool, 100 * MS); /* again: on a slow machine it may have run out unseen */
            sched_yield();
        }
        await_waiters(pool, i + 1); /* the hint has run out */
    }
    while (atomic_load(&pool->work.sleepers) != 1) {
        gy_pool_expect_end(pool, for_ever);
        sched_yield();
    }
    assert_int_equal(atomic_load(&pool->done.sleepers), 2);
    gy_pool_expect(pool, 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(gantry_task_remove_reference(tasks[i]));
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        gantry_taskman_destroy(managers[i]);
    }
    assert_int_equal(count, 2);
    gantry_cpu_dispatcher_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spin_budget_follows_the_pauses),
        cmocka_unit_test(test_spinning_workers_sleep_in_the_end),
        cmocka_unit_test(test_busy_workers_never_sleep),
        cmocka_unit_test(test_one_worker_is_awake_for_expected_tasks),
        cmocka_unit_test(test_the_waiting_thread_is_awake_for_an_expected_end),
        cmocka_unit_test(test_a_worker_sees_what_comes_before_it_sleeps),
        cmocka_unit_test(test_who_waits_sees_an_end_before_it_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
