/* SPDX-License-Identifier: MIT */
/* The contract with a GPU dispatcher, checked with a fake one. */
#include "tests/taskman/fake_gpu.h"

static void test_carry_submit_drop_release_come_in_this_order(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    gantry_task *up = add_gpu(&f, GANTRY_TASK_HTOD, "up");
    gantry_task *one = add_gpu(&f, GANTRY_TASK_KERNEL, "one");
    gantry_task *two = add_gpu(&f, GANTRY_TASK_KERNEL, "two");
    gantry_task *down = add_gpu(&f, GANTRY_TASK_DTOH, "down");
    assert_ok(gantry_task_start_after(one, up));
    assert_ok(gantry_task_start_after(two, up));
    assert_ok(gantry_task_start_after(down, one));
    assert_ok(gantry_task_start_after(down, two));
    assert_int_equal(gy_task_count_dependents(gy_task_successors(up)), 2);
    assert_ptr_equal(gy_task_launch_fn(up), no_launch);
    assert_ok(gantry_taskman_start(f.base.manager));
    assert_ok(gantry_taskman_stop(f.base.manager));
    struct fake *fake = f.fake;
    assert_int_equal(fake->records[0].call, STEP_BEGIN);
    assert_int_equal(fake->records[fake->record_count - 1].call, STEP_END);
    assert_int_equal(count_calls(fake, SUBMIT), 3); /* up; one and two together; down */
    int carry_one = find(fake, CARRY, up, one), carry_two = find(fake, CARRY, up, two);
    int submit = find(fake, SUBMIT, one, NULL);
    assert_int_equal(fake->records[submit].count, 2);
    assert_true(carry_one >= 0 && carry_one < carry_two && carry_two < submit);
    assert_int_equal(fake->records[carry_one].count, 1); /* its reference is still there */
    int drop = find(fake, DROP, up, NULL);
    assert_true(submit < drop && drop < find(fake, RELEASED, up, NULL));
    assert_int_equal(count_calls(fake, DROP), 4);
    assert_int_equal(atomic_load(&down->wait_set), 6);
    gantry_taskman_stats stats = stats_of(f.base.manager);
    assert_int_equal(stats.tasks_gpu, 4);
    assert_int_equal(stats.tasks_cpu, 0);
    tear_down_gpu(&f);
}

/* GPU -> CPU -> sync point -> unfilled name -> GPU: the last task gets the wait set of the first. */
static void test_wait_sets_go_through_cpu_tasks_and_sync_points(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct gpu_fixture f = set_up_gpu(workers);
        struct trace trace = {0};
        gantry_taskman *manager = f.base.manager;
        gantry_task *first = add_gpu(&f, GANTRY_TASK_KERNEL, "first");
        gantry_task *cpu = add_cpu(manager, "cpu", trace_body, &trace);
        gantry_task *sync = add_sync(manager, "sync");
        gantry_task *hole = get_named(manager, "hole");
        gantry_task *last = add_gpu(&f, GANTRY_TASK_KERNEL, "last");
        gantry_task *alone = add_cpu(manager, "alone", trace_body, &trace);
        gantry_task *end = add_gpu(&f, GANTRY_TASK_DTOH, "end");
        assert_ok(gantry_task_start_after(cpu, first));
        assert_ok(gantry_task_start_after(sync, cpu));
        assert_ok(gantry_task_start_after(hole, sync));
        assert_ok(gantry_task_start_after(last, hole));
        assert_ok(gantry_task_start_after(end, alone));
        assert_ok(gantry_taskman_start(manager));
        assert_error(gantry_taskman_stop(manager), GANTRY_ERR_UNFILLED_NAME);
        assert_int_equal(atomic_load(&last->wait_set), 4);
        assert_int_equal(atomic_load(&end->wait_set), 2);
        assert_true(find(f.fake, CARRY, cpu, sync) >= 0);
        assert_true(find(f.fake, CARRY, sync, hole) >= 0);
        assert_true(find(f.fake, CARRY, hole, last) >= 0);
        assert_int_equal(find(f.fake, CARRY, alone, end), -1); /* there is no wait set to carry */
        assert_true(find(f.fake, DROP, sync, NULL) >= 0);
        assert_int_equal(find(f.fake, DROP, alone, NULL), -1);
        tear_down_gpu(&f);
    }
}

static void test_ready_tasks_of_a_start_are_one_list_in_order(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    gantry_task *tasks[3000];
    for (int i = 0; i < 3000; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_HTOD;
        desc.launch = no_launch;
        assert_ok(gantry_taskman_submit(f.base.manager, &desc, &tasks[i]));
    }
    atomic_store(&f.fake->open, false);
    assert_ok(gantry_taskman_start(f.base.manager));
    assert_int_equal(count_calls(f.fake, SUBMIT), 1);
    int at = find(f.fake, SUBMIT, tasks[0], NULL);
    assert_int_equal(f.fake->records[at].count, 3000);
    gantry_task *task = tasks[0];
    for (int i = 0; i < 3000; i++) {
        assert_ptr_equal(task, tasks[i]);
        task = task->next;
    }
    fake_open(f.fake);
    assert_ok(gantry_taskman_stop(f.base.manager));
    tear_down_gpu(&f);
}

static void test_failed_launch_fails_dependents_without_beginning_them(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    struct trace trace = {0};
    gantry_task *bad = add_gpu(&f, GANTRY_TASK_KERNEL, "bad");
    gantry_task *next = add_gpu(&f, GANTRY_TASK_KERNEL, "next");
    gantry_task *cpu = add_cpu(f.base.manager, "cpu", trace_body, &trace);
    assert_ok(gantry_task_start_after(next, bad));
    assert_ok(gantry_task_start_after(cpu, next));
    f.fake->fails = bad;
    assert_ok(gantry_taskman_start(f.base.manager));
    assert_error(gantry_taskman_wait(f.base.manager), GANTRY_ERR_DRIVER);
    assert_last_error_has("'bad'");
    assert_last_error_has("the launch went wrong");
    assert_int_equal(f.fake->not_begun, 1);
    assert_int_equal(trace.length, 0);
    assert_int_equal(gantry_task_result(bad), GANTRY_ERR_DRIVER);
    assert_int_equal(gantry_task_result(next), GANTRY_ERR_TASK_FAILED);
    assert_int_equal(gantry_task_result(cpu), GANTRY_ERR_TASK_FAILED);
    f.fake->adopted = GANTRY_ERR_DEVICE_LOST; /* this failure wins over the task's own */
    assert_error(gantry_taskman_stop(f.base.manager), GANTRY_ERR_DEVICE_LOST);
    assert_last_error_has("the fake's first cause");
    tear_down_gpu(&f);
}

static void test_lost_dispatcher_refuses_the_start(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    struct trace trace = {0};
    add_cpu(f.base.manager, "cpu", trace_body, &trace);
    add_gpu(&f, GANTRY_TASK_KERNEL, "gpu");
    f.fake->begin_status = GANTRY_ERR_DEVICE_LOST;
    assert_error(gantry_taskman_start(f.base.manager), GANTRY_ERR_DEVICE_LOST);
    assert_last_error_has("the fake is lost");
    assert_int_equal(count_calls(f.fake, STEP_END), 0);
    assert_error(gantry_taskman_stop(f.base.manager), GANTRY_ERR_STATE);
    f.fake->begin_status = GANTRY_OK;
    assert_ok(gantry_taskman_start(f.base.manager));
    assert_ok(gantry_taskman_stop(f.base.manager));
    assert_int_equal(trace.length, 1);
    assert_int_equal(count_calls(f.fake, STEP_END), 1);
    tear_down_gpu(&f);
}

/* A step of CPU tasks needs no device: it goes on without one, however it is started. */
static void test_a_lost_dispatcher_lets_cpu_steps_run(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    struct trace trace = {0};
    f.fake->begin_status = f.fake->adopted = GANTRY_ERR_DEVICE_LOST;
    gantry_task *first = add_cpu(f.base.manager, "first", trace_body, &trace);
    assert_ok(gantry_task_start_after(add_cpu(f.base.manager, "second", trace_body, &trace), first));
    assert_ok(gantry_taskman_start(f.base.manager));
    assert_ok(gantry_taskman_wait(f.base.manager));
    assert_ok(gantry_taskman_stop(f.base.manager));
    assert_int_equal(trace.length, 2);
    assert_ok(gantry_taskman_reset(f.base.manager));
    gantry_task *only = add_cpu(f.base.manager, "only", trace_body, &trace);
    assert_ok(gantry_taskman_freeze(f.base.manager));
    assert_ok(gantry_taskman_run(f.base.manager, 2));
    assert_ok(gantry_taskman_start_from(f.base.manager, &only, 1));
    assert_ok(gantry_taskman_stop(f.base.manager));
    assert_ok(gantry_taskman_start_all(&f.base.manager, 1));
    assert_ok(gantry_taskman_stop(f.base.manager));
    assert_int_equal(trace.length, 6);
    assert_int_equal(count_calls(f.fake, STEP_END), 0);
    f.fake->begin_status = f.fake->adopted = GANTRY_OK;
    assert_ok(gantry_taskman_run(f.base.manager, 1)); /* the device is back */
    assert_int_equal(count_calls(f.fake, STEP_END), 1);
    f.fake->adopted = GANTRY_ERR_DEVICE_LOST;
    assert_error(gantry_taskman_run(f.base.manager, 1), GANTRY_ERR_DEVICE_LOST); /* it was lost in the step */
    assert_int_equal(count_calls(f.fake, STEP_END), 2);
    tear_down_gpu(&f);
}

static void test_a_manager_tells_its_dispatchers(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    assert_ptr_equal(gantry_taskman_cpu_dispatcher(f.base.manager), f.base.pool);
    assert_ptr_equal(gantry_taskman_gpu_dispatcher(f.base.manager), (gantry_dispatcher *)(void *)f.fake);
    assert_null(gantry_taskman_fleet(f.base.manager));
    tear_down_gpu(&f);
    const gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *alone = NULL;
    assert_ok(gantry_taskman_create(&options, &alone));
    assert_null(gantry_taskman_cpu_dispatcher(alone)); /* it has one of its own, which is nobody's business */
    assert_null(gantry_taskman_gpu_dispatcher(alone));
    gantry_taskman_destroy(alone);
    assert_null(gantry_taskman_cpu_dispatcher(NULL));
    assert_null(gantry_taskman_gpu_dispatcher(NULL));
    assert_null(gantry_taskman_fleet(NULL));
}

static void test_cycle_ends_the_step_it_began(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    gantry_task *a = add_gpu(&f, GANTRY_TASK_KERNEL, "a"), *b = add_gpu(&f, GANTRY_TASK_KERNEL, "b");
    assert_ok(gantry_task_start_after(a, b));
    assert_ok(gantry_task_start_after(b, a));
    assert_error(gantry_taskman_start(f.base.manager), GANTRY_ERR_CYCLE);
    assert_int_equal(count_calls(f.fake, STEP_BEGIN), 1);
    assert_int_equal(count_calls(f.fake, STEP_END), 1);
    assert_int_equal(count_calls(f.fake, SUBMIT), 0);
    tear_down_gpu(&f);
}

/* A completion arrives from another thread while the waiting thread of an inline pool sleeps; the task ends
 * well or fails. */
static void complete(void *arg)
{
    gantry_task_remove_reference(arg);
}

static void complete_lost(void *arg)
{
    (void)GY_FAIL(GANTRY_ERR_DEVICE_LOST, "the device went away");
    gy_task_remove_reference_failed(arg, GANTRY_ERR_DEVICE_LOST);
}

static void test_completions_reach_the_waiting_thread(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        for (int lost = 0; lost < 2; lost++) {
            struct gpu_fixture f = set_up_gpu(workers);
            struct trace trace = {0};
            gantry_task *done = add_cpu(f.base.manager, "done", trace_body, &trace);
            gantry_task *after = add_cpu(f.base.manager, "after", trace_body, &trace);
            assert_ok(gantry_task_start_after(after, done));
            assert_ok(gantry_task_add_reference(done));
            assert_ok(gantry_taskman_start(f.base.manager));
            gy_thread thread;
            assert_ok(gy_thread_start(&thread, "completion", lost ? complete_lost : complete, done));
            gantry_status status = gantry_taskman_stop(f.base.manager);
            gy_thread_join(&thread);
            assert_int_equal(status, lost ? GANTRY_ERR_DEVICE_LOST : GANTRY_OK);
            assert_int_equal(trace.length, lost ? 0 : 2);
            if (lost) {
                assert_last_error_has("the device went away");
                assert_last_error_has("'done'");
                assert_int_equal(gantry_task_result(after), GANTRY_ERR_DEVICE_LOST);
            }
            tear_down_gpu(&f);
        }
    }
}

/* Every task that got a wait set gives it back, also a late name that nothing waits for. */
static void test_late_name_behind_a_gpu_task_drops_its_wait_set(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    atomic_store(&f.fake->open, false);
    gantry_task *first = add_gpu(&f, GANTRY_TASK_KERNEL, "first");
    assert_ok(gantry_taskman_start(f.base.manager));
    gantry_task *name = get_named(f.base.manager, "never");
    assert_ok(gantry_task_start_after(name, first));
    fake_open(f.fake);
    assert_error(gantry_taskman_stop(f.base.manager), GANTRY_ERR_UNFILLED_NAME);
    assert_true(find(f.fake, CARRY, first, name) >= 0);
    assert_true(find(f.fake, DROP, name, NULL) > find(f.fake, CARRY, first, name));
    assert_int_equal(gantry_task_get_state(name), GANTRY_TASK_STATE_DONE);
    assert_int_equal(stats_of(f.base.manager).released, 1);
    tear_down_gpu(&f);
}

static void test_successor_count_saturates(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(0);
    gantry_task *a = add_gpu(&f, GANTRY_TASK_KERNEL, "a"), *b = add_sync(f.base.manager, "b");
    for (int i = 0; i < UINT16_MAX + 5; i++) {
        assert_ok(gantry_task_start_after(b, a));
    }
    assert_int_equal(gy_task_count_dependents(gy_task_successors(a)), GY_SUCCESSORS_MOST);
    tear_down_gpu(&f);
}

/* Tasks for many managers go between the fake's thread and the workers. */
static void test_mixed_graphs_finish(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct gpu_fixture f = set_up_gpu(workers);
        atomic_int count = 0;
        gantry_task *tasks[900];
        for (int i = 0; i < 900; i++) {
            if (i % 3 == 0) {
                tasks[i] = add_cpu(f.base.manager, NULL, count_body, &count);
            } else {
                gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
                desc.kind = i % 3 == 1 ? GANTRY_TASK_KERNEL : GANTRY_TASK_SYNC_POINT;
                desc.launch = no_launch;
                assert_ok(gantry_taskman_submit(f.base.manager, &desc, &tasks[i]));
            }
            for (int back = 1; back <= 7 && back <= i; back += 2) {
                assert_ok(gantry_task_start_after(tasks[i], tasks[i - back]));
            }
        }
        assert_ok(gantry_taskman_start(f.base.manager));
        assert_ok(gantry_taskman_stop(f.base.manager));
        assert_int_equal(count, 300);
        assert_int_equal(stats_of(f.base.manager).released, 900);
        tear_down_gpu(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_carry_submit_drop_release_come_in_this_order),
        cmocka_unit_test(test_wait_sets_go_through_cpu_tasks_and_sync_points),
        cmocka_unit_test(test_ready_tasks_of_a_start_are_one_list_in_order),
        cmocka_unit_test(test_failed_launch_fails_dependents_without_beginning_them),
        cmocka_unit_test(test_lost_dispatcher_refuses_the_start),
        cmocka_unit_test(test_a_lost_dispatcher_lets_cpu_steps_run),
        cmocka_unit_test(test_a_manager_tells_its_dispatchers),
        cmocka_unit_test(test_cycle_ends_the_step_it_began),
        cmocka_unit_test(test_completions_reach_the_waiting_thread),
        cmocka_unit_test(test_late_name_behind_a_gpu_task_drops_its_wait_set),
        cmocka_unit_test(test_successor_count_saturates),
        cmocka_unit_test(test_mixed_graphs_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
