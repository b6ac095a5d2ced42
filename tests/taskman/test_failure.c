/* SPDX-License-Identifier: MIT */
/* Failing tasks: which tasks fail with them, which go on, and what the waiting thread is told. */
#include "tests/taskman/fixture.h"

#include "base/sanitizers.h"
#include "base/status.h"

static gantry_status fail_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_ERR_IO;
}

static gantry_status fail_with_cause_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GY_FAIL(GANTRY_ERR_NOT_FOUND, "the spoon does not exist");
}

static gantry_status handled_error_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    (void)GY_FAIL(GANTRY_ERR_NOT_FOUND, "an error that was dealt with");
    return GANTRY_OK;
}

struct note {
    atomic_int calls;
    _Atomic(int) result;
};

static void note_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    struct note *note = arg;
    atomic_fetch_add(&note->calls, 1);
    atomic_store(&note->result, result);
}

static gantry_status never_body(gantry_task *task, void *arg)
{
    (void)task;
    struct note *note = arg;
    atomic_fetch_add(&note->calls, 100);
    return GANTRY_OK;
}

static gantry_task *add_noted(gantry_taskman *manager, gantry_task_fn run, struct note *note,
                              gantry_task_kind kind)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.run = run;
    desc.release = note_release;
    desc.arg = note;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

struct heard {
    atomic_int calls;
    gantry_status status;
    char label[32], text[200];
};

static void hear(void *user, const gantry_task *task, gantry_status status, const char *text)
{
    struct heard *heard = user;
    atomic_fetch_add(&heard->calls, 1);
    heard->status = status;
    snprintf(heard->label, sizeof(heard->label), "%s", gantry_task_label(task));
    snprintf(heard->text, sizeof(heard->text), "%s", text);
    (void)GY_FAIL(GANTRY_ERR_IO, "what the callback does stays its own");
}

/* Each manager's callback hears of its own tasks, of those that fail by themselves, with the cause. */
static void test_a_managers_callback_hears_of_failures(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct heard heard[2] = {0};
        for (int i = 0; i < 2; i++) {
            gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
            options.cpu_dispatcher = f.pool;
            options.on_failure = hear;
            options.on_failure_user = &heard[i];
            gantry_taskman *manager = NULL;
            assert_ok(gantry_taskman_create(&options, &manager));
            gantry_task *bad =
                add_cpu(manager, "bad", i == 0 ? fail_with_cause_body : handled_error_body, NULL);
            assert_ok(gantry_task_start_after(add_cpu(manager, "next", fail_body, NULL), bad));
            assert_ok(gantry_taskman_start(manager));
            assert_error(gantry_taskman_stop(manager), i == 0 ? GANTRY_ERR_NOT_FOUND : GANTRY_ERR_IO);
            assert_last_error_has(heard[i].text);
            gantry_taskman_destroy(manager);
        }
        assert_int_equal(heard[0].calls, 1);
        assert_int_equal(heard[0].status, GANTRY_ERR_NOT_FOUND);
        assert_string_equal(heard[0].label, "bad");
        assert_non_null(strstr(heard[0].text, "the spoon does not exist"));
        assert_int_equal(heard[1].calls, 1);
        assert_string_equal(heard[1].label, "next");
        assert_non_null(strstr(heard[1].text, "returned GANTRY_ERR_IO"));
        tear_down(&f);
    }
}

static void test_dependents_of_a_failed_task_fail_without_running(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct note notes[4] = {0};
        atomic_int count = 0;
        gantry_task *bad = add_noted(f.manager, fail_body, &notes[0], GANTRY_TASK_CPU);
        gantry_task *sync = add_noted(f.manager, NULL, &notes[1], GANTRY_TASK_SYNC_POINT);
        gantry_task *hole = get_named(f.manager, "hole");
        gantry_task *next = add_noted(f.manager, never_body, &notes[2], GANTRY_TASK_CPU);
        gantry_task *free = add_cpu(f.manager, "free", count_body, &count);
        gantry_task *after_both = add_noted(f.manager, never_body, &notes[3], GANTRY_TASK_CPU);
        assert_ok(gantry_task_start_after(sync, bad));
        assert_ok(gantry_task_start_after(hole, sync));
        assert_ok(gantry_task_start_after(next, hole));
        assert_ok(gantry_task_start_after(after_both, free));
        assert_ok(gantry_task_start_after(after_both, next));
        assert_int_equal(gantry_task_result(next), GANTRY_OK);
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_IO);
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
        assert_int_equal(count, 1);
        assert_int_equal(notes[0].result, GANTRY_ERR_IO);
        assert_int_equal(gantry_task_result(bad), GANTRY_ERR_IO);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(notes[i].calls, 1);
            assert_true(i == 0 || notes[i].result == GANTRY_ERR_TASK_FAILED);
        }
        assert_int_equal(gantry_task_result(next), GANTRY_ERR_TASK_FAILED);
        assert_int_equal(gantry_task_get_state(hole), GANTRY_TASK_STATE_FAILED);
        assert_int_equal(gantry_task_get_state(free), GANTRY_TASK_STATE_DONE);
        assert_int_equal(stats_of(f.manager).failed, 5);
        assert_ok(gantry_taskman_reset(f.manager)); /* the failure is forgotten with its step */
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        tear_down(&f);
    }
}

static void test_the_first_failure_is_told_with_its_cause(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        gantry_task *handled = add_cpu(f.manager, "handled", handled_error_body, NULL);
        gantry_task *first = add_cpu(f.manager, "first", fail_with_cause_body, NULL);
        gantry_task *second = add_cpu(f.manager, "second", fail_body, NULL);
        gantry_task *gate = add_sync(f.manager, NULL);
        assert_ok(gantry_task_add_reference(gate));
        assert_ok(gantry_task_start_after(first, handled));
        assert_ok(gantry_task_start_after(second, gate));
        assert_ok(gantry_taskman_start(f.manager));
        if (workers != 0) {
            while (gantry_task_get_state(first) != GANTRY_TASK_STATE_FAILED) {
                sched_yield();
            }
            while (stats_of(f.manager).released != 2) {
                sched_yield();
            }
        }
        assert_ok(gantry_task_remove_reference(gate));
        assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_NOT_FOUND);
        assert_last_error_has("'first'");
        assert_last_error_has("the spoon does not exist");
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_NOT_FOUND);
        assert_last_error_has("'first'");
        tear_down(&f);
    }
}

static void test_a_failure_without_cause_names_the_status(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_task *handled = add_cpu(f.manager, "handled", handled_error_body, NULL);
    gantry_task *bad = add_cpu(f.manager, "bad", fail_body, NULL);
    /* it is the same worker, and its old error is not the cause */
    assert_ok(gantry_task_start_after(bad, handled));
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
    assert_last_error_has("'bad' returned GANTRY_ERR_IO");
    assert_null(strstr(gantry_last_error(), "dealt with"));
    tear_down(&f);
}

static gantry_status strange_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return (gantry_status)77;
}

static void test_a_status_that_is_none_is_shown_as_a_number(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    (void)add_cpu(f.manager, "strange", strange_body, NULL);
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_TASK_FAILED);
    assert_last_error_has("'strange' returned 77, which is no gantry_status");
    tear_down(&f);
}

static void test_inline_tasks_leave_the_callers_last_error_alone(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    add_cpu(f.manager, "handled", handled_error_body, NULL);
    assert_ok(gantry_taskman_start(f.manager));
    (void)GY_FAIL(GANTRY_ERR_IO, "what went wrong before");
    assert_ok(gantry_taskman_stop(f.manager));
    assert_last_error_has("what went wrong before");
    tear_down(&f);
}

static void test_a_long_chain_fails_without_recursion(void **state)
{
    (void)state;
#if GY_WITH_TSAN
    enum { LENGTH = 100000 };
#else
    enum { LENGTH = 1000000 };
#endif
    struct fixture f = set_up(1);
    struct note note = {0};
    gantry_task *last = add_cpu(f.manager, "bad", fail_body, NULL);
    for (int i = 0; i < LENGTH; i++) {
        gantry_task *next =
            i % 3 == 0 ? add_sync(f.manager, NULL) : add_cpu(f.manager, NULL, never_body, &note);
        assert_ok(gantry_task_start_after(next, last));
        last = next;
    }
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
    assert_last_error_has("'bad'");
    assert_int_equal(note.calls, 0);
    assert_int_equal(stats_of(f.manager).failed, LENGTH + 1);
    tear_down(&f);
}

static void test_a_failed_light_task_fails_its_continuation(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct note note = {0};
    gantry_task *end = add_noted(f.manager, never_body, &note, GANTRY_TASK_CPU), *light = NULL;
    assert_ok(gantry_taskman_create_light(f.manager, fail_body, NULL, "light", end, &light));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_task_remove_reference(light));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
    assert_last_error_has("'light'");
    assert_int_equal(note.calls, 1);
    assert_int_equal(note.result, GANTRY_ERR_TASK_FAILED);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_managers_callback_hears_of_failures),
        cmocka_unit_test(test_dependents_of_a_failed_task_fail_without_running),
        cmocka_unit_test(test_the_first_failure_is_told_with_its_cause),
        cmocka_unit_test(test_a_failure_without_cause_names_the_status),
        cmocka_unit_test(test_a_status_that_is_none_is_shown_as_a_number),
        cmocka_unit_test(test_inline_tasks_leave_the_callers_last_error_alone),
        cmocka_unit_test(test_a_long_chain_fails_without_recursion),
        cmocka_unit_test(test_a_failed_light_task_fails_its_continuation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
