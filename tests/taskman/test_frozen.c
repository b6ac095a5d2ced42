/* SPDX-License-Identifier: MIT */
/* Frozen graphs: they run again, in parts, with conditions and loops, and are cancelled. */
#include "tests/taskman/fake_gpu.h"

#include <sched.h>

static void test_a_frozen_graph_runs_again_and_again(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        atomic_int count = 0;
        gantry_task *tasks[40];
        for (int i = 0; i < 40; i++) {
            tasks[i] = i % 4 == 3 ? add_sync(f.manager, NULL) : add_cpu(f.manager, NULL, count_body, &count);
            if (i > 0) {
                assert_ok(gantry_task_start_after(tasks[i], tasks[i / 2]));
            }
            if (i > 4) {
                assert_ok(gantry_task_start_after(tasks[i], tasks[i - 4]));
            }
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        assert_int_equal(stats_of(f.manager).released, 0);
        for (int run = 1; run <= 20; run++) {
            assert_int_equal(gantry_task_get_state(tasks[39]),
                             run == 1 ? GANTRY_TASK_STATE_HELD : GANTRY_TASK_STATE_DONE);
            assert_ok(gantry_taskman_start(f.manager));
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(count, 30 * run);
            assert_int_equal(stats_of(f.manager).released, 40);
        }
        assert_ok(gantry_taskman_run(f.manager, 5));
        assert_int_equal(count, 30 * 25);
        tear_down(&f);
    }
}

/* Ends once as many of these tasks run at the same time as there are workers: then every worker has started,
 * and has freed the memory for its start. */
static gantry_status gather_body(gantry_task *task, void *arg)
{
    (void)task;
    atomic_int *missing = arg;
    atomic_fetch_sub(missing, 1);
    while (atomic_load(missing) > 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

static void test_a_run_allocates_nothing(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int count = 0, missing = 2;
    add_cpu(f.manager, NULL, gather_body, &missing);
    add_cpu(f.manager, NULL, gather_body, &missing);
    gantry_task *first = add_cpu(f.manager, NULL, count_body, &count);
    for (int i = 0; i < 100; i++) {
        assert_ok(gantry_task_start_after(add_cpu(f.manager, NULL, count_body, &count), first));
    }
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_ok(gantry_taskman_run(f.manager, 1));
    long live = gy_alloc_live();
    gy_fault_arm(0);
    assert_ok(gantry_taskman_run(f.manager, 50));
    assert_false(gy_fault_fired());
    gy_fault_arm(-1);
    assert_int_equal(gy_alloc_live(), live);
    assert_int_equal(count, 51 * 101);
    tear_down(&f);
}

static void test_freezing_survives_every_failure(void **state)
{
    (void)state;
    bool failed = true;
    for (long nth = 0; failed; nth++) {
        struct fixture f = set_up(1);
        atomic_int count = 0;
        gantry_task *a = add_cpu(f.manager, NULL, count_body, &count);
        gantry_task *b = add_cpu(f.manager, NULL, count_body, &count);
        assert_ok(gantry_task_start_after(b, a));
        gy_fault_arm(nth);
        gantry_status status = gantry_taskman_freeze(f.manager);
        failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(status, failed ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_OK);
        assert_ok(gantry_taskman_start(f.manager)); /* it is frozen, or as it was before */
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(count, 2);
        tear_down(&f);
        assert_true(failed || nth > 0);
    }
}

static void test_arguments_may_change_between_runs(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int one = 0, other = 0;
    gantry_task *task = add_cpu(f.manager, NULL, count_body, &one);
    gantry_task *gate = add_sync(f.manager, NULL);
    assert_ok(gantry_task_add_reference(gate)); /* in every run */
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int run = 0; run < 3; run++) {
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_task_set_arg(task, &other), GANTRY_ERR_STATE);
        assert_int_equal(gantry_task_get_state(gate), GANTRY_TASK_STATE_HELD);
        assert_ok(gantry_task_remove_reference(gate));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_ok(gantry_task_set_arg(task, &other));
    }
    assert_int_equal(one, 1);
    assert_int_equal(other, 2);
    assert_error(gantry_task_set_arg(NULL, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    tear_down(&f);
}

static void test_what_freezing_refuses(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    assert_error(gantry_taskman_freeze(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_task *named = get_named(f.manager, "missing");
    assert_error(gantry_taskman_freeze(f.manager), GANTRY_ERR_UNFILLED_NAME);
    assert_last_error_has("freeze: no task was submitted for 1 names: '");
    assert_ptr_equal(add_cpu(f.manager, "missing", count_body, &count), named);
    gantry_task *after = add_sync(f.manager, "after");
    assert_error(gantry_taskman_start_from(f.manager, &after, 1), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_error(gantry_taskman_freeze(f.manager), GANTRY_ERR_STATE);
    assert_error(gantry_task_start_after(after, named), GANTRY_ERR_STATE);
    assert_error(gantry_task_add_reference(after), GANTRY_ERR_STATE);
    assert_error(gantry_task_remove_reference(after), GANTRY_ERR_STATE);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = count_body;
    desc.arg = &count;
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_STATE);
    assert_error(gantry_taskman_start_from(f.manager, NULL, 0), GANTRY_ERR_INVALID_ARGUMENT);
    struct fixture other = {f.pool, new_manager(f.pool)};
    gantry_task *foreign = add_sync(other.manager, NULL);
    assert_error(gantry_taskman_start_from(f.manager, &foreign, 1), GANTRY_ERR_FOREIGN_HANDLE);
    gantry_taskman_destroy(other.manager);
    assert_ptr_equal(get_named(f.manager, "after"), after);
    assert_error(gantry_taskman_get_named(f.manager, "unknown", &after), GANTRY_ERR_NOT_FOUND);
    assert_ok(gantry_taskman_reset(f.manager));
    gantry_task *a = add_sync(f.manager, "a"), *b = add_sync(f.manager, "b"), *light = NULL;
    assert_ok(gantry_task_start_after(a, b));
    assert_ok(gantry_task_start_after(b, a));
    assert_error(gantry_taskman_freeze(f.manager), GANTRY_ERR_CYCLE);
    assert_ok(gantry_taskman_reset(f.manager));
    assert_ok(gantry_taskman_create_light(f.manager, count_body, &count, NULL, NULL, &light));
    assert_error(gantry_taskman_freeze(f.manager), GANTRY_ERR_STATE);
    tear_down(&f);
}

struct adding {
    atomic_int count;
    gantry_task *end;
};

static gantry_status add_more_body(gantry_task *task, void *arg)
{
    struct adding *adding = arg;
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_task *light = NULL, *late = NULL;
    gantry_status status =
        gantry_taskman_create_light(manager, count_body, &adding->count, NULL, adding->end, &light);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = count_body;
    desc.arg = &adding->count;
    status = gantry_taskman_submit(manager, &desc, &late);
    if (status == GANTRY_OK) {
        status = gantry_task_finish_before(late, adding->end);
    }
    if (gantry_task_start_after(late, task) != GANTRY_ERR_STATE) {
        status = GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_task_remove_reference(light);
    gantry_task_remove_reference(late);
    return status;
}

static void test_tasks_added_to_a_run_are_forgotten_at_the_next(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct adding adding = {.count = 0};
        gantry_task *begin = add_cpu(f.manager, NULL, add_more_body, &adding);
        adding.end = add_cpu(f.manager, NULL, count_body, &adding.count);
        assert_ok(gantry_task_start_after(adding.end, begin));
        assert_ok(gantry_taskman_freeze(f.manager));
        uint64_t memory = 0;
        for (int run = 1; run <= 300; run++) {
            assert_ok(gantry_taskman_run(f.manager, 1));
            assert_int_equal(adding.count, 3 * run);
            assert_int_equal(stats_of(f.manager).tasks, 4);
            assert_int_equal(stats_of(f.manager).released, 4);
            memory = run == 1 ? stats_of(f.manager).memory_bytes : memory;
        }
        assert_int_equal(stats_of(f.manager).memory_bytes, memory);
        tear_down(&f);
    }
}

static void test_a_part_runs_from_its_roots(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        struct trace trace = {0};
        gantry_task *t[6]; /* 0 -> 1 -> 3 -> 5, 0 -> 2 -> 3, 2 -> 4 */
        static const int edges[6][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {2, 4}, {3, 5}};
        for (int i = 0; i < 6; i++) {
            t[i] = add_cpu(f.manager, NULL, trace_body, &trace);
        }
        for (int i = 0; i < 6; i++) {
            assert_ok(gantry_task_finish_before(t[edges[i][0]], t[edges[i][1]]));
        }
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 0; run < 4; run++) {
            atomic_store(&trace.length, 0);
            assert_ok(gantry_taskman_start_from(f.manager, &t[2], 1));
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(trace.length, 4); /* 2, then 3 and 4, then 5 */
            assert_ptr_equal(trace.tasks[0], t[2]);
            assert_int_equal(stats_of(f.manager).released, 4);
            atomic_store(&trace.length, 0);
            gantry_task *roots[] = {t[3], t[1]}; /* one of them depends on the other */
            assert_ok(gantry_taskman_start_from(f.manager, roots, 2));
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(trace.length, 3);
            assert_ptr_equal(trace.tasks[0], t[1]);
            assert_ptr_equal(trace.tasks[2], t[5]);
            atomic_store(&trace.length, 0);
            assert_ok(gantry_taskman_run(f.manager, 1));
            assert_int_equal(trace.length, 6);
        }
        tear_down(&f);
    }
}

/* ---- conditions ------------------------------------------------------------------------------ */

struct loop {
    atomic_int left, rounds, choice_error;
};

static gantry_status loop_body(gantry_task *task, void *arg)
{
    struct loop *loop = arg;
    atomic_fetch_add(&loop->rounds, 1);
    uint32_t choice = atomic_fetch_sub(&loop->left, 1) > 1 ? 0 : 1;
    if (gantry_task_choose(task, 7) != GANTRY_ERR_INVALID_ARGUMENT) {
        atomic_store(&loop->choice_error, 1);
    }
    return gantry_task_choose(task, choice);
}

static gantry_task *add_condition(gantry_taskman *manager, const char *name, gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.name = name;
    desc.run = run;
    desc.arg = arg;
    desc.is_condition = true;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static void test_a_condition_makes_a_loop(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        atomic_int begins = 0, works = 0, ends = 0;
        struct loop loop = {.left = 0};
        gantry_task *begin = add_cpu(f.manager, NULL, count_body, &begins);
        gantry_task *enter = add_sync(f.manager, NULL);
        gantry_task *work[2] = {add_cpu(f.manager, NULL, count_body, &works),
                                add_cpu(f.manager, NULL, count_body, &works)};
        /* the edges are declared first, and then it becomes a condition */
        gantry_task *again = get_named(f.manager, "again");
        gantry_task *end = add_cpu(f.manager, NULL, count_body, &ends);
        assert_ok(gantry_task_start_after(enter, begin));
        assert_ok(gantry_task_start_after(enter, again));
        assert_ok(gantry_task_start_after(end, again));
        assert_ptr_equal(add_condition(f.manager, "again", loop_body, &loop), again);
        for (int i = 0; i < 2; i++) {
            assert_ok(gantry_task_start_after(work[i], enter));
            assert_ok(gantry_task_start_after(again, work[i]));
        }
        assert_error(gantry_taskman_start(f.manager), GANTRY_ERR_STATE);
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 1; run <= 10; run++) {
            atomic_store(&loop.left, 20);
            assert_ok(gantry_taskman_run(f.manager, 1));
            assert_int_equal(begins, run);
            assert_int_equal(works, 40 * run);
            assert_int_equal(loop.rounds, 20 * run);
            assert_int_equal(ends, run);
        }
        assert_int_equal(loop.choice_error, 0);
        assert_error(gantry_task_choose(again, 0), GANTRY_ERR_STATE);
        tear_down(&f);
    }
}

static gantry_status choose_body(gantry_task *task, void *arg)
{
    int mask = atomic_load((atomic_int *)arg);
    for (uint32_t i = 0; i < 3; i++) {
        if ((mask >> i & 1) != 0 && gantry_task_choose(task, i) != GANTRY_OK) {
            return GANTRY_ERR_STATE;
        }
    }
    return mask == 8 ? GANTRY_ERR_IO : GANTRY_OK;
}

static void test_only_chosen_branches_run(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int mask = 0, counts[3] = {0}, after = 0;
    gantry_task *choice = add_condition(f.manager, NULL, choose_body, &mask), *branches[3];
    gantry_task *join = add_cpu(f.manager, NULL, count_body, &after);
    for (int i = 0; i < 3; i++) {
        branches[i] = add_cpu(f.manager, NULL, count_body, &counts[i]);
        assert_ok(gantry_task_start_after(branches[i], choice));
        assert_ok(gantry_task_start_after(join, branches[i]));
    }
    assert_ok(gantry_taskman_freeze(f.manager));
    int expected[3] = {0}, expected_after = 0;
    for (int m = 0; m < 9; m++) {
        atomic_store(&mask, m);
        gantry_status status = gantry_taskman_run(f.manager, 1);
        assert_int_equal(status, m == 8 ? GANTRY_ERR_IO : GANTRY_OK);
        for (int i = 0; i < 3; i++) {
            expected[i] += m >> i & 1;
            assert_int_equal(counts[i], expected[i]);
            assert_int_equal(gantry_task_get_state(branches[i]),
                             (m >> i & 1) != 0 ? GANTRY_TASK_STATE_DONE : GANTRY_TASK_STATE_HELD);
        }
        expected_after += m == 7;
        assert_int_equal(after, expected_after);
    }
    tear_down(&f);
}

static void test_a_graph_with_conditions_waits_for_references(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int mask = 1, count = 0;
    gantry_task *choice = add_condition(f.manager, NULL, choose_body, &mask);
    gantry_task *chosen = add_cpu(f.manager, NULL, count_body, &count);
    gantry_task *held = add_cpu(f.manager, NULL, count_body, &count);
    gantry_task *gate = add_sync(f.manager, NULL);
    assert_ok(gantry_task_start_after(chosen, choice));
    assert_ok(gantry_task_start_after(held, gate));
    assert_ok(gantry_task_start_after(held, chosen));
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 2);
    tear_down(&f);
}

/* ---- GPU tasks, failures, cancellation -------------------------------------------------------- */

static void test_gpu_tasks_are_launched_in_every_run(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    atomic_int count = 0;
    gantry_task *up = add_gpu(&f, GANTRY_TASK_HTOD, NULL), *kernel = add_gpu(&f, GANTRY_TASK_KERNEL, NULL);
    gantry_task *look = add_cpu(f.base.manager, NULL, count_body, &count);
    assert_ok(gantry_task_start_after(kernel, up));
    assert_ok(gantry_task_start_after(look, kernel));
    assert_ok(gantry_taskman_freeze(f.base.manager));
    for (int run = 1; run <= 5; run++) {
        assert_ok(gantry_taskman_run(f.base.manager, 1));
        assert_int_equal(count, run);
        assert_int_equal(count_calls(f.fake, RELEASED), 2 * run);
        assert_int_equal(count_calls(f.fake, STEP_END), run);
        assert_int_equal(kernel->wait_set, 0); /* nothing is left for the next run */
        assert_int_equal(look->wait_set, 0);
    }
    tear_down_gpu(&f);
}

static gantry_status fail_if_set(gantry_task *task, void *arg)
{
    (void)task;
    return atomic_load((atomic_int *)arg) != 0 ? GANTRY_ERR_IO : GANTRY_OK;
}

static void test_a_failed_run_leaves_nothing_for_the_next(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int fails = 0, count = 0;
    gantry_task *first = add_cpu(f.manager, NULL, fail_if_set, &fails);
    gantry_task *second = add_cpu(f.manager, NULL, count_body, &count);
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int run = 0; run < 6; run++) {
        atomic_store(&fails, run % 2);
        assert_int_equal(gantry_taskman_run(f.manager, 3), run % 2 == 0 ? GANTRY_OK : GANTRY_ERR_IO);
        assert_int_equal(gantry_task_result(second), run % 2 == 0 ? GANTRY_OK : GANTRY_ERR_TASK_FAILED);
    }
    assert_int_equal(count, 9);
    assert_error(gantry_taskman_run(f.manager, 3), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "run 1 of 3: task '"));
    assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_IO);
    assert_true(strncmp(gantry_last_error(), "run ", 4) != 0); /* of one it is clear which */
    tear_down(&f);
}

static gantry_status cancel_body(gantry_task *task, void *arg)
{
    (void)arg;
    return gantry_taskman_cancel(gantry_task_manager(task));
}

static void test_cancelling_releases_what_has_not_begun(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        atomic_int count = 0;
        gantry_task *first = add_cpu(f.manager, NULL, cancel_body, NULL), *last = first;
        for (int i = 0; i < 50; i++) {
            gantry_task *next = add_cpu(f.manager, NULL, count_body, &count);
            assert_ok(gantry_task_start_after(next, last));
            last = next;
        }
        assert_error(gantry_taskman_cancel(f.manager), GANTRY_ERR_STATE);
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int run = 0; run < 3; run++) {
            assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_CANCELLED);
            assert_int_equal(count, 0);
            assert_int_equal(gantry_task_result(first), GANTRY_OK);
            assert_int_equal(gantry_task_result(last), GANTRY_ERR_CANCELLED);
            assert_int_equal(stats_of(f.manager).failed, 50);
        }
        tear_down(&f);
    }
    assert_error(gantry_taskman_cancel(NULL), GANTRY_ERR_INVALID_ARGUMENT);
}

static void test_cancelling_reaches_gpu_tasks(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    atomic_store(&f.fake->open, false);
    gantry_task *gpu = add_gpu(&f, GANTRY_TASK_KERNEL, NULL);
    assert_ok(gantry_taskman_start(f.base.manager));
    assert_ok(gantry_taskman_cancel(f.base.manager));
    fake_open(f.fake);
    assert_error(gantry_taskman_stop(f.base.manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(gantry_task_result(gpu), GANTRY_ERR_CANCELLED);
    assert_int_equal(f.fake->not_begun, 1);
    tear_down_gpu(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frozen_graph_runs_again_and_again),
        cmocka_unit_test(test_a_run_allocates_nothing),
        cmocka_unit_test(test_freezing_survives_every_failure),
        cmocka_unit_test(test_arguments_may_change_between_runs),
        cmocka_unit_test(test_what_freezing_refuses),
        cmocka_unit_test(test_tasks_added_to_a_run_are_forgotten_at_the_next),
        cmocka_unit_test(test_a_part_runs_from_its_roots),
        cmocka_unit_test(test_a_condition_makes_a_loop),
        cmocka_unit_test(test_only_chosen_branches_run),
        cmocka_unit_test(test_a_graph_with_conditions_waits_for_references),
        cmocka_unit_test(test_gpu_tasks_are_launched_in_every_run),
        cmocka_unit_test(test_a_failed_run_leaves_nothing_for_the_next),
        cmocka_unit_test(test_cancelling_releases_what_has_not_begun),
        cmocka_unit_test(test_cancelling_reaches_gpu_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
