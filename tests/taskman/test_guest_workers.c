/* SPDX-License-Identifier: MIT */
/* A thread that waits for a manager is a guest: it runs that manager's tasks in the place of workers that
 * sleep.  Whose tasks it runs, how many guests there are at a time, and that no task waits for a sleeping
 * worker. */
#include "tests/support/stops.h"
#include "tests/taskman/fixture.h"
#include "tests/taskman/guests.h"

#include "base/thread.h"
#include "taskman/cpu/worker.h"

#include <pthread.h>
#include <sched.h>

static struct fixture set_up_with(const gantry_cpu_dispatcher_options *cpus, bool workers_only)
{
    struct fixture f;
    assert_ok(gantry_cpu_dispatcher_create(cpus, &f.pool));
    f.manager = new_manager_with(f.pool, workers_only);
    return f;
}

static void add_chain(struct fixture *f, int length, gantry_task_fn run, void *arg)
{
    gantry_task *before = NULL;
    for (int i = 0; i < length; i++) {
        gantry_task *task = add_cpu(f->manager, NULL, run, arg);
        assert_ok(before != NULL ? gantry_task_start_after(task, before) : GANTRY_OK);
        before = task;
    }
    assert_ok(gantry_taskman_freeze(f->manager));
}

static void test_a_small_run_wakes_nobody(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        struct fixture f = set_up(workers);
        struct where where = {.caller = pthread_self()};
        add_chain(&f, 10, where_body, &where);
        await_sleep(f.pool);
        uint32_t epoch = atomic_load(&f.pool->events.work.epoch);
        assert_ok(gantry_taskman_run(f.manager, 5));
        assert_int_equal(where.here, 50);
        assert_int_equal(where.elsewhere, 0);
        assert_int_equal(atomic_load(&f.pool->events.work.epoch), epoch); /* no worker was woken */
        assert_int_equal(atomic_load(&f.pool->shown.on_loan), 0);
        await_sleep(f.pool);
        tear_down(&f);
    }
}

static void test_one_worker_is_enough_for_a_wide_run(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct where where = {.caller = pthread_self()};
    for (int i = 0; i < 200; i++) {
        add_cpu(f.manager, NULL, where_body, &where);
    }
    assert_ok(gantry_taskman_freeze(f.manager));
    await_sleep(f.pool);
    assert_ok(gantry_taskman_run(f.manager, 1));
    assert_int_equal(where.here, 200); /* the worker is not woken for a task that only the guest may run */
    tear_down(&f);
}

static void test_bodies_stay_with_workers_where_asked_to(void **state)
{
    (void)state;
    cpu_set_t mine;
    uint32_t cpu = usable_cpus(&mine);
    for (int way = 0; way < 3; way++) {
        gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
        cpus.worker_count = 2;
        cpus.pin_workers = way == 1;
        cpus.cpus = way == 2 ? &cpu : NULL;
        cpus.cpu_count = way == 2;
        struct fixture f = set_up_with(&cpus, way == 0);
        struct where where = {.caller = pthread_self()};
        add_chain(&f, 10, where_body, &where);
        for (int i = 0; i < 20; i++) {
            await_sleep(f.pool);
            assert_ok(i % 2 == 0 ? gantry_taskman_run(f.manager, 1) : gantry_taskman_start(f.manager));
            assert_ok(i % 2 == 0 ? GANTRY_OK : gantry_taskman_stop(f.manager));
        }
        assert_int_equal(where.here, 0);
        assert_int_equal(where.elsewhere, 200);
        tear_down(&f);
    }
}

/* ---- parallelism ------------------------------------------------------------------------------- */

/* As many tasks as there are workers are all needed at once: at the start, or behind another task. */
static void test_nobody_sleeps_while_there_is_work(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID};
    for (uint32_t i = 0; i < 2 * 3 * 2; i++) {
        uint32_t workers = 1 + i % 3;
        gantry_cpu_dispatcher *pool = new_pool(workers, modes[i / 6]);
        struct fixture f = {pool, new_manager(pool)};
        struct meeting meeting = {.size = (int)workers};
        atomic_int count = 0;
        gantry_task *first = i / 3 % 2 == 0 ? add_cpu(f.manager, NULL, count_body, &count) : NULL;
        for (uint32_t t = 0; t < workers; t++) {
            gantry_task *task = add_cpu(f.manager, NULL, meet_body, &meeting);
            assert_ok(first != NULL ? gantry_task_start_after(task, first) : GANTRY_OK);
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 30; run++) {
            if (run % 3 != 0) {
                await_sleep(pool);
            }
            assert_ok(run % 2 == 0 ? gantry_taskman_start(f.manager) : gantry_taskman_run(f.manager, 1));
            assert_ok(run % 2 == 0 ? gantry_taskman_stop(f.manager) : GANTRY_OK);
            assert_int_equal(meeting.arrived, run * (int)workers);
        }
        tear_down(&f);
    }
}

struct visitor {
    gantry_taskman *manager;
    int good; /* the test reads it once the thread has ended */
    gy_thread thread;
};

enum { VISITS = 60, VISITED = 12 };

/* Each thread runs steps of its own manager on the pool that all share. */
static void visit(void *arg)
{
    struct visitor *visitor = arg;
    for (int i = 0; i < VISITS; i++) {
        if (i % 2 == 0) {
            visitor->good += gantry_taskman_run(visitor->manager, 1) == GANTRY_OK;
        } else {
            visitor->good += gantry_taskman_start(visitor->manager) == GANTRY_OK &&
                             gantry_taskman_wait(visitor->manager) == GANTRY_OK &&
                             gantry_taskman_stop(visitor->manager) == GANTRY_OK;
        }
    }
}

static void visit_together(gantry_cpu_dispatcher *pool, struct crowd *crowd)
{
    struct visitor visitors[3];
    for (int v = 0; v < 3; v++) {
        struct fixture f = {pool, new_manager(pool)};
        visitors[v] = (struct visitor){.manager = f.manager};
        if (v == 0) {
            add_chain(&f, VISITED, crowd_body, crowd);
        } else {
            for (int i = 0; i < VISITED; i++) {
                add_cpu(f.manager, NULL, crowd_body, crowd);
            }
            assert_ok(gantry_taskman_freeze(f.manager));
        }
    }
    for (int v = 0; v < 3; v++) {
        assert_ok(gy_thread_start(&visitors[v].thread, "visitor", visit, &visitors[v]));
    }
    for (int v = 0; v < 3; v++) {
        gy_thread_join(&visitors[v].thread);
        assert_int_equal(visitors[v].good, VISITS);
        gantry_taskman_destroy(visitors[v].manager);
    }
}

/* Several threads wait at once: no more bodies run at a time than there are workers. */
static void test_no_more_bodies_at_a_time_than_workers(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t workers = 1 + i % 2;
        gantry_cpu_dispatcher *pool = new_pool(workers, modes[i / 2]);
        struct crowd crowd = {0};
        visit_together(pool, &crowd);
        assert_int_equal(crowd.ran, 3 * VISITS * VISITED);
        assert_in_range(crowd.most, 1, workers);
        assert_int_equal(atomic_load(&pool->shown.on_loan), 0);
        assert_int_equal(atomic_load(&pool->shown.running), 0);
        gantry_cpu_dispatcher_destroy(pool);
        assert_int_equal(gy_alloc_live(), 0);
    }
}

/* ---- whose tasks ------------------------------------------------------------------------------- */

struct foreign {
    struct where where;
    gantry_task *held;
};

static gantry_status let_go_body(gantry_task *task, void *arg)
{
    (void)task;
    return gantry_task_remove_reference(((struct foreign *)arg)->held);
}

static void let_go_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)let_go_body(task, arg);
    (void)result;
}

/* Tasks that a body, or a release callback, makes ready in another manager are for workers to run. */
static void test_tasks_of_other_managers_are_left_to_workers(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct fixture f = set_up(1);
        gantry_taskman *other = new_manager(f.pool);
        struct foreign foreign = {.where = {.caller = pthread_self()}};
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = way % 2 == 0 ? let_go_body : where_body;
        desc.release = way % 2 == 0 ? NULL : let_go_release;
        desc.arg = &foreign; /* its struct begins with `where` */
        assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
        gantry_task *after = add_cpu(other, NULL, where_body, &foreign.where);
        foreign.held = after;
        if (way >= 2) { /* through something that does not run */
            foreign.held = add_sync(other, NULL);
            assert_ok(gantry_task_start_after(after, foreign.held));
        }
        assert_ok(gantry_task_add_reference(foreign.held));
        assert_ok(gantry_taskman_freeze(f.manager));
        assert_ok(gantry_taskman_start(other));
        await_sleep(f.pool);
        assert_ok(gantry_taskman_run(f.manager, 1));
        while (gantry_task_get_state(after) != GANTRY_TASK_STATE_DONE) {
            sched_yield(); /* nobody waits for the other manager, and still it goes on */
        }
        assert_int_equal(foreign.where.elsewhere, 1);
        assert_int_equal(foreign.where.here, way % 2);
        assert_ok(gantry_taskman_stop(other));
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

/* The same holds when it is time to look at other queues first, which happens once in so many tasks. */
static void test_tasks_of_other_managers_are_left_at_any_turn(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 64; turn++) {
        struct fixture f = set_up(1);
        gantry_taskman *other = new_manager(f.pool);
        struct foreign foreign = {.where = {.caller = pthread_self()}};
        atomic_int count = 0;
        gantry_task *held = add_cpu(other, NULL, where_body, &foreign.where);
        foreign.held = held;
        assert_ok(gantry_task_add_reference(held));
        for (int i = 0; i < 6; i++) {
            add_cpu(f.manager, NULL, i == 2 ? let_go_body : count_body, i == 2 ? (void *)&foreign : &count);
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        assert_ok(gantry_taskman_start(other));
        await_sleep(f.pool);
        f.pool->workers[0].ran = turn;
        assert_ok(gantry_taskman_run(f.manager, 1));
        while (gantry_task_get_state(held) != GANTRY_TASK_STATE_DONE) {
            sched_yield();
        }
        assert_int_equal(count, 5);
        assert_int_equal(foreign.where.here, 0);
        assert_ok(gantry_taskman_stop(other));
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

struct endless {
    struct foreign foreign; /* this is first, for its bodies */
    atomic_int has_run;
};

static gantry_status run_once_body(gantry_task *task, void *arg)
{
    (void)task;
    atomic_store(&((struct endless *)arg)->has_run, 1);
    return GANTRY_OK;
}

/* Makes itself ready again until the other manager's task has run. */
static gantry_status endless_body(gantry_task *task, void *arg)
{
    struct endless *endless = arg;
    return atomic_load(&endless->has_run) != 0
               ? GANTRY_OK
               : gantry_taskman_spawn(gantry_task_manager(task), endless_body, arg, NULL, NULL);
}

static void let_go_later(void *arg)
{
    (void)gantry_task_remove_reference(((struct endless *)arg)->foreign.held);
}

/* The only worker is on loan, for a manager that always has something to do: other managers get their
 * turn. */
static void test_other_managers_are_not_kept_waiting(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up(1);
        gantry_taskman *other = new_manager(f.pool);
        struct endless endless = {.has_run = 0};
        gantry_task *first = NULL;
        if (way == 0) {
            first = add_cpu(f.manager, NULL, let_go_body, &endless);
        }
        gantry_task *task = add_cpu(f.manager, NULL, endless_body, &endless);
        assert_ok(first != NULL ? gantry_task_start_after(task, first) : GANTRY_OK);
        endless.foreign.held = add_cpu(other, NULL, run_once_body, &endless);
        assert_ok(gantry_task_add_reference(endless.foreign.held));
        assert_ok(gantry_taskman_freeze(f.manager));
        assert_ok(gantry_taskman_start(other));
        await_sleep(f.pool);
        gy_thread thread;
        assert_ok(way == 1 ? gy_thread_start(&thread, "later", let_go_later, &endless) : GANTRY_OK);
        assert_ok(gantry_taskman_run(f.manager, 1));
        assert_ok(gantry_taskman_stop(other));
        if (way == 1) {
            gy_thread_join(&thread);
        }
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

/* A pool of one worker, whose class 1 has CPUs and whose class 2 has none. */
static struct fixture set_up_with_cpus_for_class(void)
{
    const uint32_t limits[] = {2, 2};
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    cpus.class_count = 2;
    cpus.class_limits = limits;
    struct fixture f = set_up_with(&cpus, false);
    uint32_t cpu[CPU_SETSIZE], count;
    assert_ok(gantry_cpu_cache_domain(0, cpu, CPU_SETSIZE, &count));
    gantry_cpu_class_options options = GANTRY_CPU_CLASS_OPTIONS_INIT;
    options.cpus = cpu;
    options.cpu_count = 1;
    assert_ok(gantry_cpu_dispatcher_set_class(f.pool, 1, &options));
    return f;
}

static void test_tasks_with_cpus_are_left_to_workers(void **state)
{
    (void)state;
    struct fixture f = set_up_with_cpus_for_class();
    struct where where[2] = {{.caller = pthread_self()}, {.caller = pthread_self()}};
    for (uint32_t i = 0; i < 20; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = where_body;
        desc.arg = &where[i % 2];
        desc.cpu_class = 1 + i % 2;
        assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    }
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int i = 0; i < 10; i++) {
        await_sleep(f.pool);
        assert_ok(gantry_taskman_run(f.manager, 1));
    }
    assert_int_equal(where[0].here, 0);
    assert_int_equal(where[0].elsewhere, 100);
    assert_int_equal(where[1].here + where[1].elsewhere, 100);
    tear_down(&f);
}

/* The only worker is on loan, and the guest's manager always has something to do: classes with CPUs have
 * their turn, too. */
static void test_tasks_with_cpus_are_not_kept_waiting(void **state)
{
    (void)state;
    for (int priority = GANTRY_TASK_PRIORITY_NORMAL; priority <= GANTRY_TASK_PRIORITY_HIGH; priority++) {
        struct fixture f = set_up_with_cpus_for_class();
        struct endless endless = {.has_run = 0};
        add_cpu(f.manager, NULL, endless_body, &endless);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = run_once_body;
        desc.arg = &endless;
        desc.cpu_class = 1;
        desc.priority = (gantry_task_priority)priority;
        assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
        assert_ok(gantry_taskman_freeze(f.manager));
        await_sleep(f.pool);
        assert_ok(gantry_taskman_run(f.manager, 1));
        tear_down(&f);
    }
}

struct leaver {
    struct foreign foreign; /* this is first, for its bodies */
    gantry_cpu_dispatcher *pool;
    gantry_taskman *manager;
    atomic_int locked, good;
};

static gantry_status spawn_and_let_go_body(gantry_task *task, void *arg)
{
    for (int i = 0; i < 2; i++) {
        gantry_status status = gantry_taskman_spawn(gantry_task_manager(task), where_body, arg, NULL, NULL);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return let_go_body(task, arg);
}

static void run_leaver(void *arg)
{
    struct leaver *leaver = arg;
    atomic_store(&leaver->good, gantry_taskman_run(leaver->manager, 1) == GANTRY_OK);
}

/* No worker wakes up until the thread that waits for the other manager sleeps, or has run a task that it
 * must not run. */
static void keep_asleep(void *arg)
{
    struct leaver *leaver = arg;
    gy_mutex_lock(&leaver->pool->events.work.lock);
    atomic_store(&leaver->locked, 1);
    while (atomic_load(&leaver->pool->events.done.sleepers) == 0 &&
           atomic_load(&leaver->foreign.where.here) == 0) {
        sched_yield();
    }
    gy_mutex_unlock(&leaver->pool->events.work.lock);
}

/* A guest of one manager leaves, and tasks of that manager are in the worker's queue.  Before the worker
 * wakes up, a thread that waits for another manager borrows it. */
static void test_what_others_have_left_is_not_taken(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_taskman *other = new_manager(f.pool);
    struct leaver leaver = {.foreign.where.caller = pthread_self(), .pool = f.pool, .manager = f.manager};
    struct gy_worker *worker = &f.pool->workers[0];
    atomic_int count = 0;
    add_cpu(f.manager, NULL, spawn_and_let_go_body, &leaver);
    assert_ok(gantry_taskman_freeze(f.manager));
    leaver.foreign.held = add_cpu(other, NULL, count_body, &count);
    assert_ok(gantry_task_add_reference(leaver.foreign.held));
    assert_ok(gantry_taskman_start(other));
    while (gantry_task_references(leaver.foreign.held) != 1) {
        sched_yield();
    }
    await_sleep(f.pool);
    gy_thread keeper, thread;
    assert_ok(gy_thread_start(&keeper, "keeper", keep_asleep, &leaver));
    while (atomic_load(&leaver.locked) == 0) {
        sched_yield();
    }
    assert_ok(gy_thread_start(&thread, "leaver", run_leaver, &leaver));
    while (atomic_load(&worker->deque.bottom) == atomic_load(&worker->deque.top) ||
           atomic_load(&worker->holder) != GY_WORKER_ASLEEP || atomic_load(&f.pool->shown.on_loan) != 0) {
        sched_yield();
    }
    assert_ok(gantry_taskman_stop(other));
    gy_thread_join(&thread);
    gy_thread_join(&keeper);
    assert_int_equal(leaver.good, 1);
    assert_int_equal(leaver.foreign.where.here, 0);
    assert_int_equal(leaver.foreign.where.elsewhere, 2);
    assert_int_equal(count, 1);
    gantry_taskman_destroy(other);
    tear_down(&f);
}

/* ---- what a body may do ------------------------------------------------------------------------ */

static gantry_status refused_body(gantry_task *task, void *arg)
{
    gantry_taskman *manager = gantry_task_manager(task);
    bool refused = gantry_taskman_stop(manager) == GANTRY_ERR_STATE &&
                   gantry_taskman_wait(manager) == GANTRY_ERR_STATE &&
                   strstr(gantry_last_error(), "called from a task") != NULL;
    atomic_fetch_add((atomic_int *)arg, refused);
    return GANTRY_OK;
}

static void test_errors_of_bodies_are_not_the_callers(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int refused = 0;
    add_chain(&f, 3, refused_body, &refused);
    gy_error_clear();
    await_sleep(f.pool);
    assert_ok(gantry_taskman_run(f.manager, 1));
    assert_int_equal(refused, 3);
    assert_string_equal(gantry_last_error(), "");
    assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_STATE);
    assert_last_error_has("stopped");
    await_sleep(f.pool);
    assert_ok(gantry_taskman_run(f.manager, 1));
    assert_last_error_has("stopped"); /* as before */
    tear_down(&f);
}

static gantry_status add_range(size_t begin, size_t end, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, (int)(end - begin));
    return GANTRY_OK;
}

static gantry_status loop_body(gantry_task *task, void *arg)
{
    gantry_taskman *manager = gantry_task_manager(task);
    for (int i = 0; i < 100; i++) {
        gantry_status status = gantry_taskman_spawn(manager, count_body, arg, NULL, NULL);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return gantry_parallel_for(gy_worker_current->pool, 0, 1000, 10, add_range, arg);
}

static void test_bodies_spawn_and_loop_as_on_workers(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct fixture f = set_up(workers);
        atomic_int count = 0;
        add_chain(&f, 3, loop_body, &count);
        for (int run = 1; run <= 10; run++) {
            await_sleep(f.pool);
            assert_ok(gantry_taskman_run(f.manager, 1));
            assert_int_equal(count, run * 3300);
        }
        tear_down(&f);
    }
}

static gantry_status cancel_body(gantry_task *task, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return gantry_taskman_cancel(gantry_task_manager(task));
}

static void test_a_cancelled_run_ends_here_too(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    add_chain(&f, 5, cancel_body, &count);
    await_sleep(f.pool);
    assert_error(gantry_taskman_run(f.manager, 3), GANTRY_ERR_CANCELLED);
    assert_int_equal(count, 1);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_run_wakes_nobody),
        cmocka_unit_test(test_one_worker_is_enough_for_a_wide_run),
        cmocka_unit_test(test_bodies_stay_with_workers_where_asked_to),
        cmocka_unit_test(test_nobody_sleeps_while_there_is_work),
        cmocka_unit_test(test_no_more_bodies_at_a_time_than_workers),
        cmocka_unit_test(test_tasks_of_other_managers_are_left_to_workers),
        cmocka_unit_test(test_tasks_of_other_managers_are_left_at_any_turn),
        cmocka_unit_test(test_other_managers_are_not_kept_waiting),
        cmocka_unit_test(test_tasks_with_cpus_are_left_to_workers),
        cmocka_unit_test(test_tasks_with_cpus_are_not_kept_waiting),
        cmocka_unit_test(test_what_others_have_left_is_not_taken),
        cmocka_unit_test(test_errors_of_bodies_are_not_the_callers),
        cmocka_unit_test(test_bodies_spawn_and_loop_as_on_workers),
        cmocka_unit_test(test_a_cancelled_run_ends_here_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
