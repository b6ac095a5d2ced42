/* SPDX-License-Identifier: MIT */
/* Detached tasks whose time is over, and what happens at the worst moment: nobody waits in vain. */
#include "tests/support/log_lines.h"
#include "tests/taskman/detached.h"

#include "taskman/cpu/wait.h"
#include "taskman/stall.h"

static void note_told(void *user, gantry_detached handle, gantry_status why)
{
    struct work *work = user;
    atomic_store(&work->why, handle == atomic_load(&work->handle) ? (int)why : 1);
    atomic_fetch_add(&work->told, 1);
}

static void complete_when_told(void *user, gantry_detached handle, gantry_status why)
{
    note_told(user, handle, why);
    (void)gantry_task_complete(handle, GANTRY_ERR_CANCELLED, "the reader has stopped");
}

/* ---- its time is over ------------------------------------------------------------------------- */

static const char memory_text[] = "its memory may still be written";

/* Who is told, and what each answer comes to.  The times are as short as can be: nothing is measured. */
static void test_a_time_out_tells_the_holder_and_gives_up(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct fixture f = set_up((uint32_t)way);
        struct work work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT};
        work.options.timeout_ns = 1;
        work.options.grace_ns = way == 2 ? 600000000000 : 1;
        work.options.tell = way == 0 ? NULL : way == 1 ? note_told : complete_when_told;
        work.options.user = &work;
        gantry_task *task = add_detached(f.manager, "silent", &work);
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_TIMED_OUT);
        assert_last_error_has("'silent'");
        assert_last_error_has(way == 2 ? "the reader has stopped" : memory_text);
        assert_int_equal(strstr(gantry_last_error(), memory_text) != NULL, way != 2);
        assert_int_equal(atomic_load(&work.told), way != 0);
        assert_int_equal(atomic_load(&work.why), way == 0 ? 0 : GANTRY_ERR_TIMED_OUT);
        assert_int_equal(gantry_task_result(task), GANTRY_ERR_TIMED_OUT);
        assert_error(gantry_task_complete(await_handle(&work), GANTRY_OK, NULL), GANTRY_ERR_STATE);
        tear_down(&f);
    }
}

/* A long time-out does not go off, and does not keep anybody. */
static void test_a_task_that_is_completed_in_time_is_not_told(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct work work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT};
    work.options.timeout_ns = UINT64_MAX - 1;
    work.options.tell = note_told;
    work.options.user = &work;
    add_detached(f.manager, "in time", &work);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_task_complete(await_handle(&work), GANTRY_OK, NULL));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(atomic_load(&work.told), 0);
    tear_down(&f);
}

static gantry_status cancel_body(gantry_task *task, void *arg)
{
    (void)arg;
    return gantry_taskman_cancel(gantry_task_manager(task));
}

/* cancel() before the body, in it, or behind it; the holder answers, or does not. */
static void test_cancel_tells_the_holder_and_gives_up(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct fixture f = set_up(way < 2 ? 1 : 2);
        struct work work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT};
        work.options.grace_ns = way % 2 == 0 ? 1 : 600000000000;
        work.options.tell = way % 2 == 0 ? note_told : complete_when_told;
        work.options.user = &work;
        gantry_task *task = add_detached(f.manager, "cancelled", &work);
        if (way >= 2) {
            add_cpu(f.manager, NULL, cancel_body, NULL);
        }
        assert_ok(gantry_taskman_start(f.manager));
        if (way < 2) {
            deadline_await(atomic_load(&work.handle) != 0, "the body");
            assert_ok(gantry_taskman_cancel(f.manager));
            assert_ok(gantry_taskman_cancel(f.manager));
        }
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_CANCELLED);
        if (atomic_load(&work.begun) != 0) {
            assert_last_error_has(way % 2 == 0 ? memory_text : "the reader has stopped");
            assert_int_equal(atomic_load(&work.told), 1);
            assert_int_equal(atomic_load(&work.why), GANTRY_ERR_CANCELLED);
        }
        assert_int_equal(gantry_task_result(task), GANTRY_ERR_CANCELLED);
        assert_int_equal(atomic_load(&work.released), 1);
        tear_down(&f);
    }
}

/* The manager stays, and names what it waits for. */
static void test_destroy_with_awaited_tasks_is_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct work works[2] = {{.returns = GANTRY_OK}};
    add_detached(f.manager, "first read", &works[0]);
    add_detached(f.manager, "second read", &works[1]);
    assert_ok(gantry_taskman_start(f.manager));
    const gantry_detached handles[2] = {await_handle(&works[0]), await_handle(&works[1])};
    gantry_taskman_destroy(f.manager);
    assert_last_error_has("2 tasks are awaited");
    assert_last_error_has("'first read'");
    assert_last_error_has("'second read'");
    assert_ok(gantry_task_complete(handles[0], GANTRY_OK, NULL));
    assert_ok(gantry_task_complete(handles[1], GANTRY_OK, NULL));
    assert_ok(gantry_taskman_stop(f.manager));
    tear_down(&f);
}

/* ---- what a step waits for -------------------------------------------------------------------- */

static gantry_status linger_body(gantry_task *task, void *arg)
{
    (void)task;
    while (atomic_load((atomic_int *)arg) == 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status spawn_body(gantry_task *task, void *arg)
{
    return gantry_taskman_spawn(gantry_task_manager(task), linger_body, arg, "light", NULL);
}

/* Nothing is told while a body runs, be it one that no graph knows. */
static void test_what_a_step_waits_for_is_told(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up_workers_only(2);
        struct work work = {0};
        struct log_lines lines;
        atomic_int go = 0;
        gantry_task *task = add_detached(f.manager, "message", &work);
        gantry_task *held = add_sync(f.manager, "point");
        gantry_task *behind = add_sync(f.manager, "behind");
        assert_ok(gantry_task_add_reference(held));
        assert_ok(gantry_task_start_after(behind, held));
        assert_ok(gantry_task_start_after(behind, task));
        gantry_task *body = add_cpu(f.manager, "body", way == 0 ? linger_body : spawn_body, &go);
        assert_ok(gantry_taskman_start(f.manager));
        if (way == 1) {
            await_state(body, GANTRY_TASK_STATE_DONE);
        }
        const gantry_detached handle = await_handle(&work);
        await_state(task, GANTRY_TASK_STATE_AWAITED);
        log_lines_begin(&lines, "are 2: awaited 'message' held 'point'");
        deadline_await(atomic_load(&f.pool->idle) == 1, "the other worker");
        assert_false(gy_taskman_tell_of_waits(f.manager));
        atomic_store(&go, 1);
        deadline_await(atomic_load(&f.pool->idle) == 2, "the workers");
        assert_true(gy_taskman_tell_of_waits(f.manager));
        assert_int_equal(log_lines_end(&lines), 1);
        assert_int_equal(gantry_task_get_state(body), GANTRY_TASK_STATE_DONE);
        assert_ok(gantry_task_complete(handle, GANTRY_OK, NULL));
        assert_ok(gantry_task_remove_reference(held));
        assert_ok(gantry_taskman_stop(f.manager));
        tear_down(&f);
    }
}

struct patience {
    atomic_int reminded;
};

static void note_reminder(void *user)
{
    atomic_fetch_add(&((struct patience *)user)->reminded, 1);
}

static bool was_reminded(void *user, bool thorough)
{
    (void)thorough;
    return atomic_load(&((struct patience *)user)->reminded) >= 2;
}

/* With workers, and where the thread that waits is one: it is reminded as often as it has slept for so long.
 */
static void test_a_thread_that_sleeps_is_reminded(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        struct patience patience = {0};
        const struct gy_wait wait = {
            .condition = was_reminded, .user = &patience, .remind = note_reminder, .remind_ns = 1000};
        gy_pool_wait(f.pool, &wait);
        assert_int_equal(atomic_load(&patience.reminded), 2);
        tear_down(&f);
    }
}

/* ---- at the worst moment ---------------------------------------------------------------------- */

static void test_complete_while_the_body_returns(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up_workers_only(1);
        struct work work = {0};
        gantry_task *task = add_detached(f.manager, "returns", &work);
        stops_arm(0, GY_POINT_AWAIT_RETURNED, task);
        assert_ok(gantry_taskman_start(f.manager));
        stops_await(0);
        const gantry_detached handle = await_handle(&work);
        assert_ok(gantry_task_complete(handle, way == 0 ? GANTRY_OK : GANTRY_ERR_IO, "cut short"));
        assert_error(gantry_task_complete(handle, GANTRY_OK, NULL), GANTRY_ERR_STATE);
        assert_int_equal(atomic_load(&work.released), 0);
        assert_int_equal(gantry_task_get_state(task), GANTRY_TASK_STATE_RUNNING);
        stops_go(0);
        assert_error(gantry_taskman_stop(f.manager), way == 0 ? GANTRY_OK : GANTRY_ERR_IO);
        gy_point_hook(NULL);
        tear_down(&f);
    }
}

/* When this returns the clock has looked at all that is awaited. */
static void let_the_clock_look(void)
{
    gantry_cpu_dispatcher *pool = new_pool(0, GANTRY_WAIT_DEFAULT);
    gantry_taskman *manager = new_manager(pool);
    struct work work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT};
    work.options.timeout_ns = work.options.grace_ns = 1;
    add_detached(manager, "ticks", &work);
    assert_ok(gantry_taskman_start(manager));
    assert_error(gantry_taskman_stop(manager), GANTRY_ERR_TIMED_OUT);
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(pool);
}

/* Its time is over while the body runs: the holder is told when that has returned. */
static void test_nobody_is_told_while_the_body_runs(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up_workers_only(1);
        struct work work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT};
        work.options.timeout_ns = way == 0 ? 0 : 1;
        work.options.grace_ns = 600000000000;
        work.options.tell = complete_when_told;
        work.options.user = &work;
        gantry_task *task = add_detached(f.manager, "runs", &work);
        stops_arm(0, GY_POINT_AWAIT_RETURNED, task);
        assert_ok(gantry_taskman_start(f.manager));
        stops_await(0);
        assert_ok(way == 0 ? gantry_taskman_cancel(f.manager) : GANTRY_OK);
        let_the_clock_look();
        assert_int_equal(atomic_load(&work.told), 0);
        stops_go(0);
        assert_error(gantry_taskman_stop(f.manager), way == 0 ? GANTRY_ERR_CANCELLED : GANTRY_ERR_TIMED_OUT);
        assert_int_equal(atomic_load(&work.told), 1);
        gy_point_hook(NULL);
        tear_down(&f);
    }
}

/* While one thread notes why the work has failed, nobody else ends the task, nor can its time pass. */
static void test_a_task_is_completed_or_given_up(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up_workers_only(1);
        struct work work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT};
        struct later later = {.work = &work, .status = GANTRY_ERR_IO, .text = "cut short"};
        work.options.timeout_ns = way == 0 ? 0 : 1;
        work.options.grace_ns = 1;
        gantry_task *task = add_detached(f.manager, "contended", &work);
        stops_arm(0, way == 0 ? GY_POINT_AWAIT_COMPLETED : GY_POINT_AWAIT_GIVEN_UP, task);
        assert_ok(gantry_taskman_start(f.manager));
        deadline_await(atomic_load(&work.handle) != 0, "the body");
        const gantry_detached handle = atomic_load(&work.handle);
        if (way == 0) {
            begin_later(&later);
        }
        stops_await(0);
        assert_error(gantry_task_complete(handle, GANTRY_OK, NULL), GANTRY_ERR_STATE);
        assert_ok(gantry_taskman_cancel(f.manager));
        assert_int_equal(gantry_task_get_state(task), GANTRY_TASK_STATE_AWAITED);
        stops_go(0);
        assert_error(gantry_taskman_stop(f.manager), way == 0 ? GANTRY_ERR_IO : GANTRY_ERR_TIMED_OUT);
        if (way == 0) {
            gy_thread_join(&later.thread);
            assert_ok(later.got);
        }
        gy_point_hook(NULL);
        assert_int_equal(atomic_load(&work.released), 1);
        tear_down(&f);
    }
}

struct slow {
    struct work work;
    atomic_int inside, go;
};

static void tell_slowly(void *user, gantry_detached handle, gantry_status why)
{
    struct slow *slow = user;
    (void)handle;
    (void)why;
    atomic_store(&slow->inside, 1);
    while (atomic_load(&slow->go) == 0) {
        sched_yield();
    }
}

/* The holder completes the task while he is told: what he was given to be told with stays until then. */
static void test_a_task_is_not_released_while_its_holder_is_told(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct slow slow = {.work = {.has_options = true, .options = GANTRY_DETACH_OPTIONS_INIT}};
    slow.work.options.timeout_ns = 1;
    slow.work.options.tell = tell_slowly;
    slow.work.options.user = &slow;
    gantry_task *task = add_detached(f.manager, "told", &slow.work);
    assert_ok(gantry_taskman_start(f.manager));
    deadline_await(atomic_load(&slow.inside) != 0, "the call");
    assert_ok(gantry_task_complete(await_handle(&slow.work), GANTRY_OK, NULL));
    assert_int_equal(gantry_task_get_state(task), GANTRY_TASK_STATE_AWAITED);
    atomic_store(&slow.go, 1);
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(atomic_load(&slow.work.released), 1);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_time_out_tells_the_holder_and_gives_up),
        cmocka_unit_test(test_a_task_that_is_completed_in_time_is_not_told),
        cmocka_unit_test(test_cancel_tells_the_holder_and_gives_up),
        cmocka_unit_test(test_destroy_with_awaited_tasks_is_refused),
        cmocka_unit_test(test_what_a_step_waits_for_is_told),
        cmocka_unit_test(test_a_thread_that_sleeps_is_reminded),
        cmocka_unit_test(test_complete_while_the_body_returns),
        cmocka_unit_test(test_nobody_is_told_while_the_body_runs),
        cmocka_unit_test(test_a_task_is_completed_or_given_up),
        cmocka_unit_test(test_a_task_is_not_released_while_its_holder_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
