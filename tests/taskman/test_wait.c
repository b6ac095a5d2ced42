/* SPDX-License-Identifier: MIT */
/* How workers wait: which modes sleep, that sleeping workers wake up, and what an adaptive worker learns
 * from its pauses. */
#include "tests/support/stops.h"
#include "tests/taskman/fixture.h"

#include "base/clock.h"
#include "base/waiter.h"
#include "taskman/cpu/wait.h"
#include "taskman/cpu/wake.h"
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
    deadline_await(atomic_load(&pool->events.work.sleepers) == count, "workers to sleep, or to wake up");
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
            assert_int_equal(atomic_load(&pool->events.work.sleepers), 0);
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
        while (atomic_load(&pool->events.work.sleepers) != 2) {
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
    uint32_t epoch = atomic_load(&pool->events.work.epoch);
    gy_pool_expect(pool, for_ever);
    assert_int_equal(atomic_load(&pool->events.work.epoch), epoch);
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
        stops_arm(0, points[i % 2], &pool->events.work);
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
        stops_arm(0, points[i % 2], &pool->events.done);
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

/* A wait whose owner's next_end() says what the test sets. */
struct foreseen {
    gantry_cpu_dispatcher *pool;
    struct gy_task_owner owner;
    atomic_bool is_over, is_known;
    _Atomic(uint64_t) from_ns, until_ns, nap_ns;
    atomic_int asked;
};

static bool foreseen_is_over(void *user, bool thorough)
{
    (void)thorough;
    return atomic_load(&((struct foreseen *)user)->is_over);
}

static bool foreseen_next_end(void *user, struct gy_lookout *out)
{
    struct foreseen *f = user;
    atomic_fetch_add(&f->asked, 1);
    bool is_known = atomic_load(&f->is_known); /* before the times, which are set before it is */
    *out = (struct gy_lookout){atomic_load(&f->from_ns), atomic_load(&f->until_ns), atomic_load(&f->nap_ns)};
    return is_known;
}

static void *wait_foreseen(void *arg)
{
    struct foreseen *f = arg;
    struct gy_wait wait = {
        .condition = foreseen_is_over, .user = f, .owner = &f->owner, .next_end = foreseen_next_end};
    gy_pool_wait(f->pool, &wait);
    return NULL;
}

static void await_alarm(const struct foreseen *f, uint64_t alarm_ns)
{
    deadline_await(atomic_load(&f->owner.alarm_ns) == alarm_ns, "the waiting thread to set its alarm");
}

/* Between `from_ns` and `until_ns` from now on. */
static void foretell(struct foreseen *f, uint64_t from_ns, uint64_t until_ns, uint64_t nap_ns)
{
    uint64_t now = gy_clock_ns();
    atomic_store(&f->is_known, false);
    atomic_store(&f->from_ns, now + from_ns);
    atomic_store(&f->until_ns, now + until_ns);
    atomic_store(&f->nap_ns, nap_ns);
    atomic_store(&f->is_known, true);
    gy_pool_foretell_end(&f->owner, now + from_ns);
}

static void end_foreseen(struct foreseen *f, pthread_t thread)
{
    atomic_store(&f->is_over, true);
    gy_pool_notify_waiters(f->pool);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&f->owner.alarm_ns), GY_ALARM_NONE);
}

static gantry_cpu_dispatcher *waiting_pool(uint32_t workers, gantry_wait_mode mode)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_cpu_dispatcher *pool = NULL;
    options.worker_count = workers;
    options.inline_only = workers == 0;
    options.wait_mode = mode;
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    return pool;
}

/* With workers or without, in each mode in which a thread may look: the thread that waits sleeps while
 * nothing is known; sets its alarm when it hears of an end; looks when that is near; and sleeps on when it is
 * late. */
static void test_a_waiting_thread_gets_up_for_an_end(void **state)
{
    (void)state;
    const uint64_t hour = 3600u * 1000000000ull;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE, GANTRY_WAIT_SPIN};
    for (uint32_t i = 0; i < 6; i++) {
        struct foreseen f = {.pool = waiting_pool(i % 2, modes[i / 2])};
        f.owner.pool = f.pool;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_foreseen, &f), 0);
        await_alarm(&f, GY_ALARM_NEVER);
        foretell(&f, hour, 2 * hour, 0);
        deadline_await(atomic_load(&f.owner.alarm_ns) > GY_ALARM_AWAKE &&
                           atomic_load(&f.owner.alarm_ns) <= atomic_load(&f.from_ns),
                       "an alarm before the end");
        int asked = atomic_load(&f.asked);
        gy_pool_foretell_end(&f.owner, atomic_load(&f.until_ns)); /* later than the alarm: it sleeps on */
        foretell(&f, 2 * MS, hour, 0);
        deadline_await(atomic_load(&f.asked) > asked && atomic_load(&f.owner.alarm_ns) == GY_ALARM_AWAKE,
                       "the thread to look, for an hour");
        end_foreseen(&f, thread);
        atomic_store(&f.is_over, false);
        atomic_store(&f.is_known, false);
        assert_int_equal(pthread_create(&thread, NULL, wait_foreseen, &f), 0);
        await_alarm(&f, GY_ALARM_NEVER);
        asked = atomic_load(&f.asked);
        foretell(&f, 2 * MS, 4 * MS, i % 4 < 2 ? 0 : 200 * US);
        deadline_await(atomic_load(&f.asked) > asked && gy_clock_ns() > atomic_load(&f.until_ns),
                       "the end to be late");
        await_alarm(&f, GY_ALARM_NEVER);
        end_foreseen(&f, thread);
        gantry_cpu_dispatcher_destroy(f.pool);
    }
}

/* In BLOCK no thread looks in vain. */
static void test_a_blocking_thread_hears_of_no_end(void **state)
{
    (void)state;
    struct foreseen f = {.pool = waiting_pool(1, GANTRY_WAIT_BLOCK)};
    f.owner.pool = f.pool;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_foreseen, &f), 0);
    deadline_await(atomic_load(&f.pool->events.done.sleepers) == 1, "the thread to sleep");
    foretell(&f, 0, 1000 * MS, 0);
    assert_int_equal(atomic_load(&f.owner.alarm_ns), GY_ALARM_NONE);
    end_foreseen(&f, thread);
    assert_int_equal(f.asked, 0);
    gantry_cpu_dispatcher_destroy(f.pool);
}

/* When an end is near for which no thread waits, a worker wakes up. */
static void test_a_worker_is_awake_where_nobody_waits(void **state)
{
    (void)state;
    const uint64_t for_ever = 1000000000ull * US;
    gantry_cpu_dispatcher *pool = new_pool(2, GANTRY_WAIT_HYBRID);
    struct gy_task_owner owner = {.pool = pool};
    await_sleepers(pool, 2);
    while (atomic_load(&pool->events.work.sleepers) != 1) {
        gy_pool_expect_end(&owner, for_ever);
        sched_yield();
    }
    gy_pool_expect(pool, 0);
    await_sleepers(pool, 2);
    atomic_store(&owner.alarm_ns, GY_ALARM_AWAKE);
    gy_pool_expect_end(&owner, for_ever);
    assert_int_equal(gy_wake_hint_left(&pool->expected, gy_clock_ns()), 0); /* that of who waits will do */
    gantry_cpu_dispatcher_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spin_budget_follows_the_pauses),
        cmocka_unit_test(test_spinning_workers_sleep_in_the_end),
        cmocka_unit_test(test_busy_workers_never_sleep),
        cmocka_unit_test(test_one_worker_is_awake_for_expected_tasks),
        cmocka_unit_test(test_a_waiting_thread_gets_up_for_an_end),
        cmocka_unit_test(test_a_blocking_thread_hears_of_no_end),
        cmocka_unit_test(test_a_worker_is_awake_where_nobody_waits),
        cmocka_unit_test(test_a_worker_sees_what_comes_before_it_sleeps),
        cmocka_unit_test(test_who_waits_sees_an_end_before_it_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
