/* SPDX-License-Identifier: MIT */
/* Every mistake that a caller can make is reported, and leaves the manager as it was. */
#include "tests/taskman/fixture.h"

static void test_bad_arguments_are_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *task = NULL, *untouched = (gantry_task *)&count;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    assert_error(gantry_taskman_submit(NULL, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_taskman_submit(f.manager, NULL, &task), GANTRY_ERR_INVALID_ARGUMENT);
    task = untouched;
    /* it must not run */
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    desc.run = count_body;
    desc.kind = (gantry_task_kind)17;
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    desc.kind = GANTRY_TASK_CPU;
    desc.name = "";
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    desc.name = NULL;
    desc.struct_size = 8;
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_INVALID_ARGUMENT);
    struct {
        gantry_task_desc desc;
        uint64_t newer;
    } newer = {{.struct_size = sizeof(newer), .run = count_body}, 1};
    assert_error(gantry_taskman_submit(f.manager, &newer.desc, &task), GANTRY_ERR_UNSUPPORTED);
    assert_error(gantry_taskman_get_named(f.manager, "", &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_taskman_get_named(f.manager, NULL, &task), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_taskman_get_named(f.manager, "x", NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_taskman_create_light(f.manager, NULL, NULL, NULL, NULL, &task),
                 GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_taskman_get_stats(f.manager, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_add_reference(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_remove_reference(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(task, untouched);
    assert_int_equal(stats_of(f.manager).tasks, 0);
    newer.newer = 0;
    assert_ok(gantry_taskman_submit(f.manager, &newer.desc, &task));
    tear_down(&f);
}

static void test_callbacks_of_the_other_kind_are_named(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.run = count_body;
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "launch is NULL, and a GPU task has no `run`"));
    desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
    desc.launch = (gantry_launch_fn)(void (*)(void))count_body; /* it is never called */
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "run is NULL, and a CPU task has no `launch`"));
    tear_down(&f);
}

static void test_bad_options_are_refused(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = NULL;
    gantry_cpu_dispatcher_options pool_options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    assert_error(gantry_cpu_dispatcher_create(&pool_options, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    pool_options.worker_count = 1u << 30;
    assert_error(gantry_cpu_dispatcher_create(&pool_options, &pool), GANTRY_ERR_INVALID_ARGUMENT);
    pool_options.worker_count = 2;
    pool_options.inline_only = true;
    assert_error(gantry_cpu_dispatcher_create(&pool_options, &pool), GANTRY_ERR_INVALID_ARGUMENT);
    pool_options.inline_only = false;
    pool_options.wait_mode = (gantry_wait_mode)9;
    assert_error(gantry_cpu_dispatcher_create(&pool_options, &pool), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(pool);
    gantry_taskman *manager = NULL;
    assert_error(gantry_taskman_create(NULL, &manager), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(manager);
    gantry_taskman_destroy(NULL);
    gantry_cpu_dispatcher_destroy(NULL);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_duplicate_name_is_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *first = add_cpu(f.manager, "name", count_body, &count);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.name = "name";
    desc.run = count_body;
    desc.arg = &count;
    gantry_task *second = NULL;
    assert_error(gantry_taskman_submit(f.manager, &desc, &second), GANTRY_ERR_DUPLICATE_NAME);
    assert_null(second);
    assert_ptr_equal(get_named(f.manager, "name"), first);
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_submit(f.manager, &desc, &second), GANTRY_ERR_DUPLICATE_NAME);
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 1);
    assert_ok(gantry_taskman_reset(f.manager));
    add_cpu(f.manager, "name", count_body, &count); /* this is a new step with a new namespace */
    tear_down(&f);
}

static void test_gpu_task_without_dispatcher_is_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    desc.launch = (gantry_launch_fn)(void (*)(void))count_body; /* it is never called */
    desc.label = "kernel";
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_UNSUPPORTED);
    assert_last_error_has("kernel");
    tear_down(&f);
}

static void test_impossible_edges_are_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_taskman *other = new_manager(f.pool);
    gantry_task *a = add_sync(f.manager, "a"), *foreign = add_sync(other, "a");
    gantry_task *light = NULL;
    atomic_int count = 0;
    assert_ok(gantry_taskman_create_light(f.manager, count_body, &count, "light", NULL, &light));
    assert_error(gantry_task_start_after(a, a), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_start_after(a, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_finish_before(NULL, a), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_start_after(a, foreign), GANTRY_ERR_FOREIGN_HANDLE);
    assert_error(gantry_task_start_after(a, light), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_start_after(light, a), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_task *lost = NULL;
    assert_error(gantry_taskman_create_light(f.manager, count_body, &count, NULL, foreign, &lost),
                 GANTRY_ERR_FOREIGN_HANDLE);
    assert_null(lost);
    assert_int_equal(gantry_task_references(a), 1);
    assert_int_equal(stats_of(f.manager).edges, 0);
    gantry_taskman_destroy(other);
    tear_down(&f);
}

static void test_cycle_is_found_and_named_before_anything_runs(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int count = 0;
    gantry_task *before = add_cpu(f.manager, "before", count_body, &count);
    gantry_task *one = add_cpu(f.manager, "one", count_body, &count);
    gantry_task *two = add_cpu(f.manager, "two", count_body, &count);
    gantry_task *hole = get_named(f.manager, "hole"); /* this closes a cycle through a placeholder */
    gantry_task *after = add_cpu(f.manager, "after", count_body, &count);
    assert_ok(gantry_task_start_after(one, before));
    assert_ok(gantry_task_start_after(two, one));
    assert_ok(gantry_task_start_after(hole, two));
    assert_ok(gantry_task_start_after(after, hole));
    assert_ok(gantry_task_start_after(one, hole));
    assert_error(gantry_taskman_start(f.manager), GANTRY_ERR_CYCLE);
    assert_last_error_has("'one'");
    assert_last_error_has("'two'");
    assert_last_error_has("'hole'");
    assert_null(strstr(gantry_last_error(), "'before'"));
    assert_null(strstr(gantry_last_error(), "'after'"));
    /* the failure goes along the edges */
    assert_true(strstr(gantry_last_error(), "'one' -> 'two'") != NULL ||
                strstr(gantry_last_error(), "'two' -> 'hole' -> 'one'") != NULL);
    assert_int_equal(count, 0);
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE); /* it never started */
    assert_ok(gantry_taskman_reset(f.manager));
    add_cpu(f.manager, "one", count_body, &count);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 1);
    tear_down(&f);
}

static void test_backward_edges_without_a_cycle_are_fine(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct trace trace = {0};
    gantry_task *tasks[16];
    for (int i = 0; i < 16; i++) {
        tasks[i] = add_cpu(f.manager, NULL, trace_body, &trace);
        if (i > 0) {
            assert_ok(gantry_task_finish_before(tasks[i], tasks[i - 1]));
        }
    }
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    for (int i = 0; i < 16; i++) {
        assert_ptr_equal(trace.tasks[i], tasks[15 - i]);
    }
    tear_down(&f);
}

static void test_long_cycle_is_named_in_short(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_task *first = add_sync(f.manager, "first"), *last = first;
    for (int i = 0; i < 1000; i++) {
        gantry_task *next = add_sync(f.manager, NULL);
        assert_ok(gantry_task_start_after(next, last));
        last = next;
    }
    assert_ok(gantry_task_start_after(first, last));
    assert_error(gantry_taskman_start(f.manager), GANTRY_ERR_CYCLE);
    assert_last_error_has("1001 tasks");
    tear_down(&f);
}

static void test_wrong_phase_is_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    gantry_task *task = NULL;
    atomic_int count = 0;
    assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_reset(f.manager));
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_start(f.manager), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_reset(f.manager), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_stop(f.manager));
    assert_error(gantry_taskman_start(f.manager), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_submit(f.manager, &desc, &task), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_get_named(f.manager, "x", &task), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_create_light(f.manager, count_body, &count, NULL, NULL, &task),
                 GANTRY_ERR_STATE);
    assert_null(task);
    assert_ok(gantry_taskman_reset(f.manager));
    assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    tear_down(&f);
}

static void test_late_dependencies_are_refused(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *done = add_cpu(f.manager, "done", count_body, &count);
    gantry_task *done_too = add_cpu(f.manager, "done too", count_body, &count);
    gantry_task *held = add_cpu(f.manager, "held", count_body, &count);
    gantry_task *hole = get_named(f.manager, "hole");
    assert_ok(gantry_task_add_reference(held));
    assert_ok(gantry_taskman_start(f.manager));
    while (gantry_task_get_state(done) != GANTRY_TASK_STATE_DONE ||
           gantry_task_get_state(done_too) != GANTRY_TASK_STATE_DONE ||
           gantry_task_get_state(hole) != GANTRY_TASK_STATE_DONE) {
        sched_yield();
    }
    assert_error(gantry_task_start_after(done, held), GANTRY_ERR_LATE_DEPENDENCY);
    assert_error(gantry_task_start_after(done, done_too), GANTRY_ERR_LATE_DEPENDENCY);
    assert_error(gantry_task_add_reference(done), GANTRY_ERR_LATE_DEPENDENCY);
    assert_error(gantry_task_remove_reference(done), GANTRY_ERR_STATE);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.name = "hole";
    desc.run = count_body;
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_LATE_DEPENDENCY);
    assert_ok(gantry_task_remove_reference(held));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_UNFILLED_NAME);
    assert_error(gantry_task_remove_reference(held), GANTRY_ERR_STATE);
    assert_int_equal(count, 3);
    tear_down(&f);
}

static void test_edge_from_a_released_task_is_late(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *done = add_cpu(f.manager, "done", count_body, &count);
    gantry_task *held = add_cpu(f.manager, "held", count_body, &count);
    assert_ok(gantry_task_add_reference(held));
    assert_ok(gantry_taskman_start(f.manager));
    gantry_status status = GANTRY_OK;
    int linked = 0;
    while ((status = gantry_task_start_after(held, done)) == GANTRY_OK) {
        linked++; /* this is still in time */
    }
    assert_int_equal(status, GANTRY_ERR_LATE_DEPENDENCY);
    assert_int_equal(stats_of(f.manager).edges, linked);
    assert_ok(gantry_task_remove_reference(held));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 2);
    tear_down(&f);
}

static void test_references_of_others_cannot_be_removed_while_building(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *a = add_cpu(f.manager, "a", count_body, &count);
    gantry_task *b = add_cpu(f.manager, "b", count_body, &count);
    assert_ok(gantry_task_start_after(b, a));
    assert_error(gantry_task_remove_reference(a), GANTRY_ERR_STATE);
    assert_error(gantry_task_remove_reference(b), GANTRY_ERR_STATE);
    assert_ok(gantry_task_add_reference(b));
    assert_ok(gantry_task_remove_reference(b));
    assert_error(gantry_task_remove_reference(b), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 2);
    tear_down(&f);
}

static gantry_status wait_body(gantry_task *task, void *arg)
{
    gantry_taskman *manager = gantry_task_manager(task);
    int *wrong = arg;
    *wrong += gantry_taskman_wait(manager) != GANTRY_ERR_STATE;
    *wrong += gantry_taskman_stop(manager) != GANTRY_ERR_STATE;
    *wrong += gantry_taskman_reset(manager) != GANTRY_ERR_STATE;
    *wrong += gantry_taskman_start(manager) != GANTRY_ERR_STATE;
    return GANTRY_OK;
}

static void test_waiting_inside_a_task_is_refused(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        int wrong = 0;
        add_cpu(f.manager, NULL, wait_body, &wrong);
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(wrong, 0);
        tear_down(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_arguments_are_refused),
        cmocka_unit_test(test_callbacks_of_the_other_kind_are_named),
        cmocka_unit_test(test_bad_options_are_refused),
        cmocka_unit_test(test_duplicate_name_is_refused),
        cmocka_unit_test(test_gpu_task_without_dispatcher_is_refused),
        cmocka_unit_test(test_impossible_edges_are_refused),
        cmocka_unit_test(test_cycle_is_found_and_named_before_anything_runs),
        cmocka_unit_test(test_backward_edges_without_a_cycle_are_fine),
        cmocka_unit_test(test_long_cycle_is_named_in_short),
        cmocka_unit_test(test_wrong_phase_is_refused),
        cmocka_unit_test(test_late_dependencies_are_refused),
        cmocka_unit_test(test_edge_from_a_released_task_is_late),
        cmocka_unit_test(test_references_of_others_cannot_be_removed_while_building),
        cmocka_unit_test(test_waiting_inside_a_task_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
