/* SPDX-License-Identifier: MIT */
/* The pool without task managers: this program is the client of taskman/cpu/client.h, and owns the tasks
 * itself.  If the pool asked for anything more, the linker would find these functions defined twice. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include "base/alloc.h"
#include "base/point.h"
#include "taskman/cpu/account.h"
#include "taskman/cpu/bundle.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/guest.h"
#include "taskman/cpu/owners.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/queues.h"
#include "taskman/cpu/start_batch.h"
#include "taskman/cpu/wait.h"
#include "taskman/graph/graph.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MOST_TASKS = 512 };

/* ---- the client ------------------------------------------------------------------------------ */

static struct {
    struct gy_task_owner owner; /* of all tasks */
    gantry_task tasks[MOST_TASKS];
    atomic_int runs[MOST_TASKS];
    atomic_int ran, abandoned, told_quiet;
    _Atomic(pthread_t) runner; /* of the last task */
} client;

void gy_worker_run(struct gy_worker *self, gantry_task *task)
{
    if (self->debt.owner != task->owner) {
        gy_worker_flush(self);
    }
    self->running = task;
    gy_worker_enter(self, GY_WORKER_IN_BODY);
    gy_task_enter(task, GANTRY_TASK_STATE_RUNNING);
    self->filling.made = 0;
    (void)!task->body.run(task, task->arg);
    gy_worker_end_bundles(self);
    atomic_fetch_add(&client.runs[task - client.tasks], 1);
    atomic_store(&client.runner, pthread_self());
    gy_task_enter(task, GANTRY_TASK_STATE_DONE);
    self->running = NULL;
    gy_worker_enter(self, GY_WORKER_BETWEEN);
    atomic_fetch_add(&client.ran, 1);
    gy_worker_owe(self, task->owner, GY_WORK_PENDING + GY_WORK_ACTIVE);
}

void gy_worker_abandon(struct gy_worker *self)
{
    gantry_task *task = self->running;
    assert_int_equal(self->activity, GY_WORKER_IN_BODY);
    gy_worker_end_bundles(self);
    atomic_store(&task->result, GANTRY_ERR_STATE);
    gy_task_enter(task, GANTRY_TASK_STATE_FAILED);
    self->running = NULL;
    gy_worker_enter(self, GY_WORKER_BETWEEN);
    atomic_fetch_add(&client.abandoned, 1);
    gy_worker_owe(self, task->owner, GY_WORK_PENDING + GY_WORK_ACTIVE);
}

void gy_ready_dispatch(struct gy_task_owner *owner, struct gy_ready *ready)
{
    if (ready->cpu.first != NULL) {
        gy_pool_submit(owner->pool, ready->cpu.first, ready->cpu.last, ready->cpu.count);
    }
    if (ready->queued.first != NULL) {
        gy_pool_queue(owner->pool, ready->queued.first);
    }
}

void gy_owner_fell_quiet(struct gy_task_owner *owner)
{
    assert_ptr_equal(owner, &client.owner);
    atomic_fetch_add(&client.told_quiet, 1);
}

/* ---- what the tests share ---------------------------------------------------------------------- */

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* `workers` 0: inline */
static gantry_cpu_dispatcher *open_pool(uint32_t workers)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.worker_count = workers;
    options.inline_only = workers == 0;
    options.wait_mode = GANTRY_WAIT_BLOCK;
    gantry_cpu_dispatcher *pool = NULL;
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    memset(&client, 0, sizeof(client));
    client.owner.pool = pool;
    client.owner.lets_guests = true;
    return pool;
}

static void close_pool(gantry_cpu_dispatcher *pool)
{
    gantry_cpu_dispatcher_destroy(pool);
    assert_int_equal(atomic_load(&client.owner.work), 0);
    assert_int_equal(gy_alloc_live(), 0);
}

/* Make READY tasks from `first`, linked, and count them as pending and active. */
static struct gy_task_list make_tasks(int first, int count, gantry_task_fn run, void *arg)
{
    struct gy_task_list list = {0};
    for (int i = first; i < first + count; i++) {
        gantry_task *task = &client.tasks[i];
        task->owner = &client.owner;
        task->body.run = run;
        task->arg = arg;
        gy_task_set(task, GY_TASK_FILLED);
        gy_task_state_init(task, GANTRY_TASK_STATE_READY);
        gy_task_list_add(&list, task);
    }
    atomic_fetch_add(&client.owner.work, (uint64_t)count * (GY_WORK_PENDING + GY_WORK_ACTIVE));
    return list;
}

static void submit(struct gy_task_list list)
{
    gantry_cpu_dispatcher *pool = client.owner.pool;
    gy_pool_enter(pool);
    gy_pool_submit(pool, list.first, list.last, list.count);
    gy_pool_leave(pool);
}

static bool nothing_is_left(void *unused, bool thorough)
{
    (void)unused;
    (void)thorough;
    return atomic_load(&client.owner.work) == 0;
}

static void wait_for_all(struct gy_task_owner *owner)
{
    struct gy_wait wait = {.condition = nothing_is_left, .owner = owner};
    gy_pool_wait(client.owner.pool, &wait);
}

static void each_ran_once(int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(atomic_load(&client.runs[i]), 1);
    }
    assert_int_equal(atomic_load(&client.ran), count);
}

static void until_workers_sleep(gantry_cpu_dispatcher *pool, uint32_t count)
{
    for (uint32_t asleep = 0; asleep < count;) {
        asleep = 0;
        for (uint32_t i = 0; i < pool->worker_count; i++) {
            asleep += atomic_load(&pool->workers[i].holder) == GY_WORKER_ASLEEP;
        }
        sched_yield();
    }
}

/* ---- the tests ----------------------------------------------------------------------------------- */

static void test_tasks_from_outside_run_once_and_wake_waiting_threads(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 4; workers++) {
        gantry_cpu_dispatcher *pool = open_pool(workers);
        submit(make_tasks(0, MOST_TASKS, do_nothing, NULL));
        wait_for_all(NULL);
        each_ran_once(MOST_TASKS);
        close_pool(pool);
    }
}

/* The task has made as many tasks as `arg` says, and does not end before another worker has stolen one. */
static gantry_status wait_for_a_thief(gantry_task *task, void *arg)
{
    (void)task;
    struct gy_task_list list = make_tasks(1, *(int *)arg, do_nothing, NULL);
    for (gantry_task *made = list.first, *next; made != NULL; made = next) {
        next = made->next;
        gy_worker_push(gy_worker_current, made);
    }
    while (atomic_load(&client.ran) == 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

static void test_a_worker_steals_tasks_that_another_has_made(void **state)
{
    (void)state;
    for (int count = GY_BUNDLE_BEHIND; count < GY_BUNDLE_BEHIND + 9;
         count++) { /* the bundle: 0 to 8 of them */
        gantry_cpu_dispatcher *pool = open_pool(2);
        submit(make_tasks(0, 1, wait_for_a_thief, &count));
        wait_for_all(NULL);
        each_ran_once(count + 1);
        close_pool(pool);
    }
}

static void test_a_guest_runs_tasks_of_its_owner_in_a_sleepers_place(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = open_pool(1);
    until_workers_sleep(pool, 1);
    struct gy_worker *self = gy_guest_begin(&client.owner);
    assert_ptr_equal(self, &pool->workers[0]);
    assert_int_equal(atomic_load(&self->holder), GY_WORKER_ON_LOAN);
    assert_int_equal(atomic_load(&pool->shown.on_loan), 1);
    assert_null(gy_guest_begin(&client.owner)); /* there is no other one */
    submit(make_tasks(0, 30, do_nothing, NULL));
    struct gy_wait wait = {.condition = nothing_is_left, .owner = &client.owner, .self = self};
    gy_pool_wait(pool, &wait);
    each_ran_once(30);
    assert_true(pthread_equal(atomic_load(&client.runner), pthread_self()));
    assert_int_equal(atomic_load(&pool->shown.on_loan), 0);
    assert_null(self->only_owner);
    assert_null(gy_worker_current);
    close_pool(pool);
}

static void test_an_owner_that_does_not_let_them_has_no_guests(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = open_pool(1);
    until_workers_sleep(pool, 1);
    client.owner.lets_guests = false;
    assert_null(gy_guest_begin(&client.owner));
    submit(make_tasks(0, 3, do_nothing, NULL));
    wait_for_all(&client.owner);
    assert_false(pthread_equal(atomic_load(&client.runner), pthread_self()));
    close_pool(pool);
}

static gantry_status exit_thread(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    pthread_exit(NULL);
}

static void test_a_worker_whose_body_exits_abandons_the_task_and_goes_on(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = open_pool(1);
    submit(make_tasks(0, 1, exit_thread, NULL));
    submit(make_tasks(1, 20, do_nothing, NULL));
    wait_for_all(NULL);
    assert_int_equal(atomic_load(&client.abandoned), 1);
    assert_int_equal(atomic_load(&client.ran), 20);
    assert_int_equal(gy_task_state_of(&client.tasks[0]), GANTRY_TASK_STATE_FAILED);
    close_pool(pool);
}

/* Its roots become READY and active when a worker takes them; the job itself is active until then. */
static void test_a_start_is_fetched_in_batches(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers < 4; workers++) {
        gantry_cpu_dispatcher *pool = open_pool(workers);
        static gantry_task *roots[MOST_TASKS];
        for (int i = 0; i < MOST_TASKS; i++) {
            gantry_task *task = roots[i] = &client.tasks[i];
            task->owner = &client.owner;
            task->body.run = do_nothing;
            gy_task_set(task, GY_TASK_FILLED);
            gy_task_set(task, GY_TASK_FROZEN);
            gy_task_state_init(task, GANTRY_TASK_STATE_HELD);
        }
        atomic_store(&client.owner.work, MOST_TASKS * GY_WORK_PENDING + GY_WORK_ACTIVE);
        struct gy_start_job job = {.owner = &client.owner, .roots = roots, .left = MOST_TASKS};
        assert_true(gy_pool_fetches(pool));
        gy_pool_enter(pool);
        gy_pool_start(pool, &job, NULL);
        gy_pool_leave(pool);
        wait_for_all(NULL);
        each_ran_once(MOST_TASKS);
        assert_int_equal(job.left, 0);
        close_pool(pool);
    }
}

static void test_tasks_of_high_priority_come_before_the_others(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = open_pool(0);
    submit(make_tasks(0, 10, do_nothing, NULL));
    struct gy_task_list urgent = make_tasks(10, 1, do_nothing, NULL);
    urgent.first->traits |= GY_TRAIT_HIGH;
    gy_pool_queue(pool, urgent.first);
    struct gy_worker self = {.pool = pool, .last_error = gy_error_last()};
    assert_ptr_equal(gy_worker_find(&self), urgent.first);
    gy_pool_queue(pool, urgent.first);
    wait_for_all(NULL);
    each_ran_once(11);
    close_pool(pool);
}

static void test_a_quiet_owner_is_told_of_while_tasks_are_held_back(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = open_pool(1);
    gy_pool_add_owner(pool, &client.owner);
    submit(make_tasks(0, 1, do_nothing, NULL));
    wait_for_all(NULL);
    assert_int_equal(atomic_load(&client.told_quiet), 0);
    gy_pool_count_held_back(pool, true);
    submit(make_tasks(1, 1, do_nothing, NULL));
    while (atomic_load(&client.told_quiet) == 0) { /* behind those that wait */
        sched_yield();
    }
    gy_pool_count_held_back(pool, false);
    gy_pool_remove_owner(pool, &client.owner);
    close_pool(pool);
}

/* A step begins just before a worker that has found nothing says that it will sleep. */
static struct gy_start_job late_job;

static void start_late(enum gy_point point, const void *at)
{
    gantry_cpu_dispatcher *pool = client.owner.pool;
    if (point == GY_POINT_EVENT_PREPARE && at == &pool->events.work && late_job.left != 0) {
        gy_point_hook(NULL);
        gy_pool_start(pool, &late_job, NULL);
    }
}

/* None of its tasks can run yet: the worker that has found that out in its last look owes nothing when it
 * sleeps. */
static void test_a_worker_sleeps_without_debts(void **state)
{
    (void)state;
    enum { TASKS = 10 };
    gantry_cpu_dispatcher *pool = open_pool(1);
    until_workers_sleep(pool, 1);
    size_t bytes = sizeof(struct gy_task_chunk) + TASKS * sizeof(gantry_task);
    struct gy_task_chunk *chunk = gy_alloc_aligned(bytes, 64);
    assert_non_null(chunk);
    memset(chunk, 0, bytes);
    chunk->capacity = chunk->used = TASKS;
    for (int i = 0; i < TASKS; i++) {
        chunk->tasks[i].owner = &client.owner;
        atomic_store(&chunk->tasks[i].references, 2);
    }
    late_job = (struct gy_start_job){.owner = &client.owner, .chunk = chunk, .left = TASKS};
    atomic_store(&client.owner.work, TASKS * GY_WORK_PENDING + GY_WORK_ACTIVE);
    gy_point_hook(start_late);
    submit(make_tasks(0, 1, do_nothing, NULL)); /* this wakes the worker */
    deadline_await(atomic_load(&client.owner.work) == TASKS * GY_WORK_PENDING, "the worker to pay");
    assert_int_equal(late_job.left, 0);
    gy_point_hook(NULL);
    atomic_store(&client.owner.work, 0);
    until_workers_sleep(pool, 1);
    gy_free(chunk);
    close_pool(pool);
}

/* The tasks that a worker has spawned are counted before their owner can be destroyed, so the worker owes
 * something until then. */
static void test_a_worker_that_has_spawned_owes(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = open_pool(1);
    struct gy_worker self = {.pool = pool, .has_deque = true};
    for (int i = 1; i <= 100; i++) {
        gy_worker_claim_task(&self, &client.owner);
        assert_true(self.debt.work >= GY_WORK_PENDING);
    }
    gy_worker_flush(&self);
    for (int i = 1; i <= 100; i++) {
        gy_worker_claim_odd_task(&self, &client.owner);
        assert_true(self.debt.odd != 0);
    }
    gy_worker_flush(&self);
    assert_int_equal(atomic_load(&client.owner.spawned), 200);
    assert_int_equal(atomic_load(&client.owner.work), 100 * GY_WORK_PENDING + 200 * GY_WORK_ACTIVE);
    assert_int_equal(atomic_load(&client.owner.odd_pending), 100);
    atomic_store(&client.owner.work, 0);
    close_pool(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_from_outside_run_once_and_wake_waiting_threads),
        cmocka_unit_test(test_a_worker_steals_tasks_that_another_has_made),
        cmocka_unit_test(test_a_guest_runs_tasks_of_its_owner_in_a_sleepers_place),
        cmocka_unit_test(test_an_owner_that_does_not_let_them_has_no_guests),
        cmocka_unit_test(test_a_worker_whose_body_exits_abandons_the_task_and_goes_on),
        cmocka_unit_test(test_a_start_is_fetched_in_batches),
        cmocka_unit_test(test_tasks_of_high_priority_come_before_the_others),
        cmocka_unit_test(test_a_quiet_owner_is_told_of_while_tasks_are_held_back),
        cmocka_unit_test(test_a_worker_sleeps_without_debts),
        cmocka_unit_test(test_a_worker_that_has_spawned_owes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
