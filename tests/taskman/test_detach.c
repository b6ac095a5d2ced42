/* SPDX-License-Identifier: MIT */
/* Detached tasks: they end once, with complete(), whatever kind of task they are. */
#include "tests/taskman/detached.h"

/* ---- one task --------------------------------------------------------------------------------- */

/* The body has returned, one worker runs others, and what comes after the task waits for complete(). */
static void test_an_awaited_task_keeps_no_worker(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    struct work work = {0};
    atomic_int others = 0, after = 0;
    gantry_task *task = add_detached(f.manager, "read", &work);
    gantry_task *behind = add_cpu(f.manager, "behind", count_body, &after);
    gantry_task *other = add_cpu(f.manager, "other", count_body, &others);
    assert_ok(gantry_task_start_after(behind, task));
    assert_ok(gantry_taskman_start(f.manager));
    const gantry_detached handle = await_handle(&work);
    await_state(task, GANTRY_TASK_STATE_AWAITED);
    await_state(other, GANTRY_TASK_STATE_DONE);
    assert_int_equal(gantry_task_get_state(behind), GANTRY_TASK_STATE_HELD);
    assert_int_equal(work.refusal, GANTRY_ERR_STATE);
    assert_int_equal(atomic_load(&work.released), 0);
    assert_ok(gantry_task_complete(handle, GANTRY_OK, "not looked at"));
    assert_error(gantry_task_complete(handle, GANTRY_OK, NULL), GANTRY_ERR_STATE);
    assert_last_error_has("is of no task that is awaited");
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(gantry_task_get_state(task), GANTRY_TASK_STATE_DONE);
    assert_int_equal(atomic_load(&after), 1);
    assert_int_equal(atomic_load(&work.released), 1);
    assert_int_equal(atomic_load(&work.result), GANTRY_OK);
    assert_ok(gantry_taskman_reset(f.manager));
    assert_error(gantry_task_complete(handle, GANTRY_OK, NULL), GANTRY_ERR_STATE);
    tear_down(&f);
    assert_error(gantry_task_complete(handle, GANTRY_OK, NULL), GANTRY_ERR_STATE);
}

static void test_complete_before_the_body_returns(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct work work = {.completes = true};
        atomic_int after = 0;
        gantry_task *task = add_detached(f.manager, "early", &work);
        assert_ok(gantry_task_start_after(add_cpu(f.manager, NULL, count_body, &after), task));
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_error(gantry_task_complete(await_handle(&work), GANTRY_OK, NULL), GANTRY_ERR_STATE);
        assert_int_equal(atomic_load(&after), 1);
        assert_int_equal(atomic_load(&work.released), 1);
        tear_down(&f);
    }
}

/* Inline, where the thread that waits is the worker, and with workers. */
static void test_a_failure_brings_its_text(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct work work = {0};
        struct later later = {.work = &work, .status = GANTRY_ERR_IO, .text = "rank 3: tag 17: cut short"};
        gantry_task *task = add_detached(f.manager, "receive", &work);
        gantry_task *behind = add_cpu(f.manager, NULL, count_body, &work.begun);
        assert_ok(gantry_task_start_after(behind, task));
        assert_ok(gantry_taskman_start(f.manager));
        begin_later(&later);
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
        assert_last_error_has("'receive'");
        assert_last_error_has("rank 3: tag 17: cut short");
        gy_thread_join(&later.thread);
        assert_ok(later.got);
        assert_int_equal(gantry_task_result(task), GANTRY_ERR_IO);
        assert_int_equal(gantry_task_result(behind), GANTRY_ERR_TASK_FAILED);
        assert_int_equal(atomic_load(&work.begun), 1);
        tear_down(&f);
    }
}

/* A body that fails behind its own detach, or goes, ends the task: nobody will complete it. */
static void test_a_body_that_fails_ends_the_task(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct fixture f = set_up_workers_only(1);
        struct work work = {.returns = way % 2 == 0 ? GANTRY_ERR_IO : GANTRY_OK,
                            .exits = way % 2 != 0,
                            .completes = way >= 2};
        atomic_int others = 0;
        gantry_task *task = add_detached(f.manager, "goes", &work);
        add_cpu(f.manager, NULL, count_body, &others);
        assert_ok(gantry_taskman_start(f.manager));
        const gantry_status why = way % 2 == 0 ? GANTRY_ERR_IO : GANTRY_ERR_STATE;
        assert_error(gantry_taskman_stop(f.manager), why);
        assert_last_error_has(way % 2 == 0 ? "'goes' returned" : "pthread_exit()");
        assert_int_equal(gantry_task_result(task), why);
        assert_error(gantry_task_complete(await_handle(&work), GANTRY_OK, NULL), GANTRY_ERR_STATE);
        assert_int_equal(atomic_load(&others), 1);
        assert_int_equal(atomic_load(&work.released), 1);
        tear_down(&f);
    }
}

/* ---- kinds of tasks --------------------------------------------------------------------------- */

/* A handle of an earlier run does not reach the next one. */
static void test_frozen_runs_have_handles_of_their_own(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct work work = {0};
        atomic_int after = 0;
        gantry_task *task = add_detached(f.manager, "again", &work);
        assert_ok(gantry_task_start_after(add_cpu(f.manager, NULL, count_body, &after), task));
        assert_ok(gantry_taskman_freeze(f.manager));
        gantry_detached before = 0;
        for (int run = 1; run <= 20; run++) {
            assert_ok(gantry_taskman_start(f.manager));
            struct later later = {.work = &work};
            if (workers != 0) {
                const gantry_detached handle = await_handle(&work);
                assert_true(handle != before);
                if (before != 0) {
                    assert_error(gantry_task_complete(before, GANTRY_OK, NULL), GANTRY_ERR_STATE);
                }
                assert_int_equal(atomic_load(&after), run - 1);
                assert_ok(gantry_task_complete(handle, GANTRY_OK, NULL));
                before = handle;
            } else {
                begin_later(&later);
            }
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(atomic_load(&after), run);
            if (workers == 0) {
                gy_thread_join(&later.thread);
                assert_ok(later.got);
            }
        }
        assert_int_equal(atomic_load(&work.released), 20);
        tear_down(&f);
    }
}

struct rounds {
    atomic_int left;
    gantry_status detach;
};

static gantry_status decide_body(gantry_task *task, void *arg)
{
    struct rounds *rounds = arg;
    gantry_detached handle = 0;
    rounds->detach = gantry_task_detach(task, &handle);
    return atomic_fetch_sub(&rounds->left, 1) > 1 ? gantry_task_choose(task, 0) : GANTRY_OK;
}

/* A loop goes round through a task that is awaited; the condition itself cannot be. */
static void test_loops_go_on_when_the_task_is_completed(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct work work = {0};
    struct rounds rounds = {.left = 5};
    gantry_task *task = add_detached(f.manager, "body of the loop", &work);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = decide_body;
    desc.arg = &rounds;
    desc.is_condition = true;
    gantry_task *condition = NULL;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &condition));
    assert_ok(gantry_task_start_after(condition, task));
    gantry_task *entry = add_sync(f.manager, "entry");
    assert_ok(gantry_task_start_after(task, entry));
    assert_ok(gantry_task_start_after(task, condition));
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_ok(gantry_taskman_start_from(f.manager, &task, 1));
    for (int round = 0; round < 5; round++) {
        const gantry_detached handle = await_handle(&work);
        await_state(task, GANTRY_TASK_STATE_AWAITED);
        assert_ok(gantry_task_complete(handle, GANTRY_OK, NULL));
    }
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(atomic_load(&work.begun), 5);
    assert_int_equal(rounds.detach, GANTRY_ERR_UNSUPPORTED);
    tear_down(&f);
}

enum { SPAWNED = 200 };

struct spawning {
    struct work works[SPAWNED];
    gantry_taskman *manager;
    gantry_task *join;
};

static gantry_status spawn_body(gantry_task *task, void *arg)
{
    struct spawning *all = arg;
    gantry_status status = GANTRY_OK;
    (void)task;
    for (int i = 0; i < SPAWNED && status == GANTRY_OK; i++) {
        status = gantry_taskman_spawn(all->manager, detach_body, &all->works[i], "spawned", all->join);
    }
    return status;
}

static void test_spawned_tasks_are_awaited(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers < 4; workers++) {
        struct fixture f = set_up(workers);
        static struct spawning all;
        memset(&all, 0, sizeof(all));
        atomic_int joined = 0;
        all.manager = f.manager;
        all.join = add_cpu(f.manager, "join", count_body, &joined);
        assert_ok(gantry_task_start_after(all.join, add_cpu(f.manager, "spawn", spawn_body, &all)));
        assert_ok(gantry_taskman_start(f.manager));
        for (int i = 0; i < SPAWNED; i++) {
            const gantry_detached handle = await_handle(&all.works[i]);
            assert_int_equal(atomic_load(&joined), 0);
            assert_ok(gantry_task_complete(handle, GANTRY_OK, NULL));
        }
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(atomic_load(&joined), 1);
        tear_down(&f);
    }
}

/* One place in the class, one worker, each priority: all of them are awaited at once. */
static void test_a_class_slot_is_free_while_its_task_is_awaited(void **state)
{
    (void)state;
    for (int priority = -1; priority <= 1; priority++) {
        gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
        const uint32_t limit = 1;
        options.worker_count = 1;
        options.class_limits = &limit;
        options.class_count = 1;
        gantry_cpu_dispatcher *pool = NULL;
        assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
        struct fixture f = {pool, new_manager(pool)};
        struct work works[3] = {{.returns = GANTRY_OK}};
        for (int i = 0; i < 3; i++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            desc.run = detach_body;
            desc.arg = &works[i];
            desc.cpu_class = 1;
            desc.priority = (gantry_task_priority)priority;
            assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
        }
        assert_ok(gantry_taskman_start(f.manager));
        gantry_detached handles[3];
        for (int i = 0; i < 3; i++) {
            handles[i] = await_handle(&works[i]);
        }
        for (int i = 0; i < 3; i++) {
            assert_ok(gantry_task_complete(handles[i], GANTRY_OK, NULL));
        }
        assert_ok(gantry_taskman_stop(f.manager));
        tear_down(&f);
    }
}

/* A host pool whose one thread is the test's. */
struct host {
    atomic_int count;
    gantry_task *tasks[8];
};

static void submit_to_host(void *user, gantry_cpu_dispatcher *pool, gantry_task *task)
{
    struct host *host = user;
    (void)pool;
    host->tasks[atomic_load(&host->count)] = task; /* all are made ready by this thread */
    atomic_fetch_add(&host->count, 1);
}

static void test_a_host_pool_runs_what_detaches(void **state)
{
    (void)state;
    struct host host = {.count = 0};
    gantry_cpu_pool_ops ops = {sizeof(ops), submit_to_host, &host, 1, 0};
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.host_pool = &ops;
    gantry_cpu_dispatcher *pool = NULL;
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    struct fixture f = {pool, new_manager(pool)};
    struct work work = {0};
    atomic_int after = 0;
    gantry_task *task = add_detached(f.manager, "hosted", &work);
    assert_ok(gantry_task_start_after(add_cpu(f.manager, NULL, count_body, &after), task));
    assert_ok(gantry_taskman_start(f.manager));
    assert_int_equal(atomic_load(&host.count), 1);
    assert_ok(gantry_cpu_dispatcher_execute(pool, host.tasks[0]));
    assert_int_equal(gantry_task_get_state(task), GANTRY_TASK_STATE_AWAITED);
    assert_int_equal(atomic_load(&host.count), 1);
    assert_ok(gantry_task_complete(await_handle(&work), GANTRY_OK, NULL));
    assert_int_equal(atomic_load(&host.count), 2);
    assert_ok(gantry_cpu_dispatcher_execute(pool, host.tasks[1]));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(atomic_load(&after), 1);
    tear_down(&f);
}

/* ---- several threads -------------------------------------------------------------------------- */

struct racer {
    _Atomic(gantry_detached) *handle;
    atomic_int *ready, *won;
    gy_thread thread;
};

enum { RACES = 300 };

static void race(void *arg)
{
    struct racer *racer = arg;
    gantry_detached last = 0;
    for (int i = 0; i < RACES; i++) {
        gantry_detached handle;
        while ((handle = atomic_load(racer->handle)) == last) {
            sched_yield();
        }
        last = handle;
        atomic_fetch_add(racer->won, gantry_task_complete(handle, GANTRY_OK, NULL) == GANTRY_OK);
        atomic_fetch_add(racer->ready, 1);
    }
}

/* Two threads have the handle: one of them has ended the task, whenever the body returns. */
static void test_one_of_two_threads_completes(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct work work = {0};
    atomic_int ready = 0, won = 0;
    struct racer racers[2];
    add_detached(f.manager, "raced for", &work);
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int r = 0; r < 2; r++) {
        racers[r] = (struct racer){.handle = &work.handle, .ready = &ready, .won = &won};
        assert_ok(gy_thread_start(&racers[r].thread, "racer", race, &racers[r]));
    }
    for (int i = 1; i <= RACES; i++) {
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        deadline_await(atomic_load(&ready) == 2 * i, "the racers");
        assert_int_equal(atomic_load(&won), i);
    }
    for (int r = 0; r < 2; r++) {
        gy_thread_join(&racers[r].thread);
    }
    assert_int_equal(atomic_load(&work.released), RACES);
    tear_down(&f);
}

/* ---- what is wrong ---------------------------------------------------------------------------- */

static gantry_status wrong_body(gantry_task *task, void *arg)
{
    gantry_task *other = *(gantry_task **)arg;
    gantry_detached handle = 7;
    assert_error(gantry_task_detach(NULL, &handle), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_detach(task, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_detach(other, &handle), GANTRY_ERR_STATE);
    gantry_detach_options options = {.struct_size = 4};
    assert_error(gantry_task_detach_with(task, &options, &handle), GANTRY_ERR_INVALID_ARGUMENT);
    struct {
        gantry_detach_options ours;
        uint64_t newer;
    } more = {.ours = GANTRY_DETACH_OPTIONS_INIT, .newer = 1};
    more.ours.struct_size = sizeof(more);
    assert_error(gantry_task_detach_with(task, &more.ours, &handle), GANTRY_ERR_UNSUPPORTED);
    assert_int_equal(handle, 7);
    return GANTRY_OK;
}

static void test_bad_input_changes_nothing(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    gantry_detached handle = 7;
    gantry_task *other = NULL;
    gantry_task *task = add_cpu(f.manager, "wrong", wrong_body, &other);
    other = add_sync(f.manager, "other");
    assert_error(gantry_task_detach(task, &handle), GANTRY_ERR_STATE);
    assert_error(gantry_task_complete(0, GANTRY_OK, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_complete(7, 1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_complete(7, GANTRY_OK, NULL), GANTRY_ERR_STATE);
    assert_error(gantry_task_complete(UINT64_MAX, GANTRY_OK, NULL), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    tear_down(&f);
}

/* Each of its allocations, and its thread, fails once: then the task ends with its body. */
static void test_what_cannot_be_had_is_told(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        struct fixture f = set_up(0);
        struct work work = {.completes = true};
        gantry_task *task = add_detached(f.manager, "poor", &work);
        assert_ok(gantry_taskman_start(f.manager));
        gy_fault_arm(nth);
        const gantry_status status = gantry_taskman_stop(f.manager);
        const bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(status, failed ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_OK);
        assert_int_equal(gantry_task_result(task), status);
        tear_down(&f);
        if (!failed) {
            assert_true(nth >= 2); /* the thread, and the table */
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_awaited_task_keeps_no_worker),
        cmocka_unit_test(test_complete_before_the_body_returns),
        cmocka_unit_test(test_a_failure_brings_its_text),
        cmocka_unit_test(test_a_body_that_fails_ends_the_task),
        cmocka_unit_test(test_frozen_runs_have_handles_of_their_own),
        cmocka_unit_test(test_loops_go_on_when_the_task_is_completed),
        cmocka_unit_test(test_spawned_tasks_are_awaited),
        cmocka_unit_test(test_a_class_slot_is_free_while_its_task_is_awaited),
        cmocka_unit_test(test_a_host_pool_runs_what_detaches),
        cmocka_unit_test(test_one_of_two_threads_completes),
        cmocka_unit_test(test_bad_input_changes_nothing),
        cmocka_unit_test(test_what_cannot_be_had_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
