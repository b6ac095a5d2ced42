/* SPDX-License-Identifier: MIT */
/* Which threads are woken up for tasks: not one worker for each task, but always one that looks when no
 * other does. */
#include "tests/support/stops.h"
#include "tests/taskman/fixture.h"

#include "taskman/cpu/wake.h"

#include <pthread.h>

enum { TASKS = 500 };

static void await_sleepers(const gantry_cpu_dispatcher *pool, uint32_t count)
{
    deadline_await(atomic_load(&pool->events.work.sleepers) == count, "workers to sleep, or to wake up");
}

/* Workers sleep at once, and have no guests. */
static struct fixture set_up_sleepers(uint32_t workers)
{
    gantry_cpu_dispatcher *pool = new_pool(workers, GANTRY_WAIT_BLOCK);
    struct fixture f = {pool, new_manager_with(pool, true)};
    await_sleepers(pool, workers);
    return f;
}

static void stop_in_time(struct fixture *f, const char *what)
{
    deadline_begin(what);
    assert_ok(gantry_taskman_stop(f->manager));
    deadline_end();
}

static gantry_task *add_held(gantry_taskman *manager, gantry_task_fn run, void *arg)
{
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_create_light(manager, run, arg, NULL, NULL, &task));
    return task;
}

/* ---- the event ------------------------------------------------------------------------------- */

struct sleeper {
    struct gy_event event;
    _Atomic(uint32_t) news, looked, awake;
};

static void *sleep_once(void *user)
{
    struct sleeper *s = user;
    for (;;) {
        uint32_t key = gy_event_prepare(&s->event);
        bool is_over = atomic_load(&s->news) != 0;
        atomic_fetch_add(&s->looked, 1);
        if (is_over) {
            gy_event_cancel(&s->event);
            break;
        }
        gy_event_sleep(&s->event, key);
        if (atomic_load(&s->news) == 0) { /* it was woken without news: this test counts such wake-ups */
            break;
        }
    }
    atomic_fetch_add(&s->awake, 1);
    return NULL;
}

static void *wake_one(void *user)
{
    gy_event_wake_one(user, 1);
    return NULL;
}

/* Two workers sleep.  While the first one that was woken is on its way, the other stays asleep; then it is
 * woken. */
static void test_one_is_on_its_way_at_a_time(void **state)
{
    (void)state;
    struct sleeper s = {.awake = 0};
    pthread_t threads[2];
    assert_ok(gy_event_init(&s.event));
    stops_arm(0, GY_POINT_EVENT_BACK, &s.event);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_once, &s), 0);
        deadline_await(atomic_load(&s.looked) == i + 1, "a thread to sleep");
    }
    gy_event_wake_one(&s.event, 1);
    stops_await(0);
    uint32_t epoch = atomic_load(&s.event.epoch);
    gy_event_wake_one(&s.event, 1);
    gy_event_wake_one(&s.event, 1);
    assert_int_equal(atomic_load(&s.event.epoch), epoch);
    gy_event_wake_one(&s.event, 2); /* a second one may be on its way */
    deadline_await(atomic_load(&s.awake) == 1, "the second one to wake up");
    stops_go(0);
    deadline_await(atomic_load(&s.awake) == 2, "the first one to go on");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    gy_point_hook(NULL);
    assert_int_equal(atomic_load(&s.event.on_their_way), 0);
    gy_event_fini(&s.event);
}

/* A thread has counted a sleeper as woken that is awake by itself by now.  Before the thread takes that
 * back, another worker falls asleep, and is not woken because of the count. */
static void test_a_thread_that_finds_no_sleeper_looks_again(void **state)
{
    (void)state;
    struct sleeper s = {.awake = 0};
    pthread_t sleeping, waking;
    assert_ok(gy_event_init(&s.event));
    (void)gy_event_prepare(&s.event); /* this thread, which does not sleep */
    stops_arm(0, GY_POINT_EVENT_WAKE, &s.event);
    assert_int_equal(pthread_create(&waking, NULL, wake_one, &s.event), 0);
    stops_await(0);
    atomic_fetch_sub(&s.event.sleepers, 1); /* it is awake, but has not said so */
    stops_arm(1, GY_POINT_EVENT_TAKE_BACK, &s.event);
    stops_go(0);
    stops_await(1);
    assert_int_equal(pthread_create(&sleeping, NULL, sleep_once, &s), 0);
    deadline_await(atomic_load(&s.looked) == 1, "a thread to sleep");
    atomic_store(&s.news, 1);
    gy_event_wake_one(&s.event, 1);
    stops_go(1);
    deadline_await(atomic_load(&s.awake) == 1, "the sleeper to hear of the news");
    assert_int_equal(pthread_join(waking, NULL), 0);
    assert_int_equal(pthread_join(sleeping, NULL), 0);
    gy_point_hook(NULL);
    gy_event_fini(&s.event);
}

/* A thread that is about to sleep is counted as woken before it has read the epoch: it sleeps all the
 * same. */
static void test_who_is_woken_too_early_is_woken_again(void **state)
{
    (void)state;
    struct sleeper s = {.awake = 0};
    pthread_t sleeping;
    assert_ok(gy_event_init(&s.event));
    stops_arm(0, GY_POINT_EVENT_KEY, &s.event);
    assert_int_equal(pthread_create(&sleeping, NULL, sleep_once, &s), 0);
    stops_await(0);
    gy_event_wake_one(&s.event, 1);
    stops_go(0);
    deadline_await(atomic_load(&s.looked) == 1, "a thread to sleep");
    atomic_store(&s.news, 1);
    gy_event_wake_one(&s.event, 1);
    deadline_await(atomic_load(&s.awake) == 1, "the sleeper to hear of the news");
    assert_int_equal(pthread_join(sleeping, NULL), 0);
    gy_point_hook(NULL);
    gy_event_fini(&s.event);
}

/* ---- workers ----------------------------------------------------------------------------------- */

struct many {
    atomic_int ran;
    atomic_int spawned;
};

static gantry_status spawn_many(gantry_task *task, void *arg)
{
    struct many *many = arg;
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < TASKS && status == GANTRY_OK; i++) {
        status = gantry_taskman_spawn(gantry_task_manager(task), count_body, &many->ran, NULL, NULL);
    }
    atomic_store(&many->spawned, 1);
    return status;
}

/* The first worker that is woken for a body's tasks has not come back yet: no other one is woken. */
static void test_many_tasks_wake_one_worker(void **state)
{
    (void)state;
    struct fixture f = set_up_sleepers(3);
    struct many many = {.ran = 0};
    assert_ok(gantry_taskman_start(f.manager));
    gantry_task *spawner = add_held(f.manager, spawn_many, &many);
    uint32_t epoch = atomic_load(&f.pool->events.work.epoch);
    assert_ok(gantry_task_remove_reference(spawner)); /* this wakes the worker that spawns */
    deadline_await(atomic_load(&many.spawned) != 0, "a body that spawns");
    stop_in_time(&f, "tasks that one body has spawned");
    assert_int_equal(atomic_load(&many.ran), TASKS);
    uint32_t woken = atomic_load(&f.pool->events.work.epoch) - epoch;
    assert_in_range(woken, 1, TASKS / 4);
    tear_down(&f);
}

struct three {
    struct meeting meeting;
    atomic_int go;
};

static gantry_status spawn_meeting(gantry_task *task, void *arg)
{
    struct three *three = arg;
    for (int i = 1; i < three->meeting.size; i++) {
        gantry_status status =
            gantry_taskman_spawn(gantry_task_manager(task), meet_body, &three->meeting, NULL, NULL);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    atomic_store(&three->go, 1);
    return meet_body(task, &three->meeting);
}

/* All tasks are there before the first worker that was woken for them is back: it wakes the next one. */
static void test_what_a_woken_worker_leaves_is_passed_on(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct fixture f = set_up_sleepers(5);
        struct three three = {.meeting = {.size = size}};
        assert_ok(gantry_taskman_start(f.manager));
        gantry_task *first = add_held(f.manager, spawn_meeting, &three);
        stops_arm(0, GY_POINT_WORKER_FOUND, f.pool); /* the worker that spawns, before it passes tasks on */
        assert_ok(gantry_task_remove_reference(first));
        stops_await(0);
        stops_arm(1, GY_POINT_EVENT_BACK, &f.pool->events.work);
        stops_go(0);
        deadline_await(atomic_load(&three.go) != 0, "a body that spawns");
        stops_await(1);
        stops_go(1);
        stop_in_time(&f, "tasks that need each other to run");
        gy_point_hook(NULL);
        tear_down(&f);
    }
}

struct theft {
    struct meeting meeting; /* the body's worker and those for two of the tasks that it spawns */
    atomic_int may_spawn, has_spawned, may_steal, ran;
    _Atomic(struct gy_worker *) thief;
};

static gantry_status become_thief(gantry_task *task, void *arg)
{
    (void)task;
    struct theft *theft = arg;
    atomic_store(&theft->thief, gy_worker_current);
    while (atomic_load(&theft->may_steal) == 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status be_robbed(gantry_task *task, void *arg)
{
    struct theft *theft = arg;
    gantry_taskman *manager = gantry_task_manager(task);
    while (atomic_load(&theft->may_spawn) == 0) {
        sched_yield();
    }
    for (int i = 0; i < 3; i++) {
        gantry_status status =
            gantry_taskman_spawn(manager, i < 2 ? meet_body : count_body,
                                 i < 2 ? (void *)&theft->meeting : (void *)&theft->ran, NULL, NULL);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    atomic_store(&theft->has_spawned, 1);
    return meet_body(task, &theft->meeting);
}

/* A thief holds a task that is in no queue.  Meanwhile another worker looks, finds nothing, and sleeps. */
static void test_stolen_tasks_wake_workers_that_have_not_seen_them(void **state)
{
    (void)state;
    struct fixture f = set_up_sleepers(3);
    struct theft theft = {.meeting = {.size = 3}};
    assert_ok(gantry_taskman_start(f.manager));
    gantry_task *thief = add_held(f.manager, become_thief, &theft);
    gantry_task *robbed = add_held(f.manager, be_robbed, &theft);
    assert_ok(gantry_task_remove_reference(thief));
    deadline_await(atomic_load(&theft.thief) != NULL, "a worker that will steal");
    assert_ok(gantry_task_remove_reference(robbed));
    await_sleepers(f.pool, 1);
    stops_arm(1, GY_POINT_EVENT_BACK, &f.pool->events.work);
    atomic_store(&theft.may_spawn, 1);
    stops_await(1); /* the third worker is on its way */
    deadline_await(atomic_load(&theft.has_spawned) != 0, "three tasks");
    stops_arm(0, GY_POINT_WORKER_STOLE, atomic_load(&theft.thief));
    atomic_store(&theft.may_steal, 1);
    stops_await(0); /* it has the first task and holds the second */
    stops_go(1);
    deadline_await(atomic_load(&theft.ran) == 1, "the third task");
    await_sleepers(f.pool, 1);
    stops_go(0);
    stop_in_time(&f, "a task that a thief held");
    gy_point_hook(NULL);
    tear_down(&f);
}

/* ---- loops --------------------------------------------------------------------------------------- */

struct parts {
    atomic_uint inside, helpers; /* threads in the loop; how many of them have not called it */
    atomic_int flag;
};

static _Thread_local bool has_called_the_loop;

static int32_t wait_in_part(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    struct parts *parts = arg;
    atomic_fetch_add(&parts->helpers, !has_called_the_loop);
    atomic_fetch_add(&parts->inside, 1);
    while (atomic_load(&parts->flag) == 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status raise_flag(gantry_task *task, void *arg)
{
    (void)task;
    atomic_store(&((struct parts *)arg)->flag, 1);
    return GANTRY_OK;
}

struct loop_caller {
    gantry_cpu_dispatcher *pool;
    struct parts *parts;
};

static void *call_loop(void *user)
{
    struct loop_caller *caller = user;
    has_called_the_loop = true;
    return gantry_parallel_for(caller->pool, 0, 2, 1, wait_in_part, caller->parts) == GANTRY_OK ? NULL : user;
}

/* A worker that helps with a loop does not look for tasks: another one is woken for the task that the loop
 * waits for.  One worker helps, or two while the thread that has called the loop does not get to run. */
static void test_a_worker_in_a_loop_does_not_look(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t m = 0; m < 3; m++) {
        gantry_cpu_dispatcher *pool = new_pool(3, modes[m]);
        struct fixture f = {pool, new_manager_with(pool, true)};
        struct parts parts = {.flag = 0};
        struct loop_caller caller = {pool, &parts};
        pthread_t thread;
        void *wrong;
        assert_ok(gantry_taskman_start(f.manager));
        gantry_task *task = add_held(f.manager, raise_flag, &parts);
        await_sleepers(pool, 3);
        assert_int_equal(pthread_create(&thread, NULL, call_loop, &caller), 0);
        deadline_await(atomic_load(&parts.inside) == 2, "a worker to help with the loop");
        uint32_t others = 3 - atomic_load(&parts.helpers);
        await_sleepers(pool, others);
        assert_int_equal(atomic_load(&pool->idle), others);
        assert_ok(gantry_task_remove_reference(task));
        deadline_begin("a task beside a loop");
        assert_int_equal(pthread_join(thread, &wrong), 0);
        deadline_end();
        assert_null(wrong);
        stop_in_time(&f, "a task beside a loop");
        tear_down(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_is_on_its_way_at_a_time),
        cmocka_unit_test(test_a_thread_that_finds_no_sleeper_looks_again),
        cmocka_unit_test(test_who_is_woken_too_early_is_woken_again),
        cmocka_unit_test(test_many_tasks_wake_one_worker),
        cmocka_unit_test(test_what_a_woken_worker_leaves_is_passed_on),
        cmocka_unit_test(test_stolen_tasks_wake_workers_that_have_not_seen_them),
        cmocka_unit_test(test_a_worker_in_a_loop_does_not_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
