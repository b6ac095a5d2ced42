/* SPDX-License-Identifier: MIT */
/* Several managers: started as a group, and failures that pass from one to another. */
#include "tests/taskman/fake_gpu.h"

#include "base/clock.h"

enum { MANAGERS = 3 };

#define LONG_NS (20 * UINT64_C(1000000000))

struct group {
    gantry_cpu_dispatcher *pools[MANAGERS];
    gantry_taskman *managers[MANAGERS];
};

/* Each manager has a pool of its own. */
static struct group new_group(uint32_t workers)
{
    struct group group;
    for (int i = 0; i < MANAGERS; i++) {
        group.pools[i] = new_pool(workers, GANTRY_WAIT_DEFAULT);
        group.managers[i] = new_manager(group.pools[i]);
    }
    return group;
}

static void destroy_group(struct group *group)
{
    for (int i = 0; i < MANAGERS; i++) {
        gantry_taskman_destroy(group->managers[i]);
        gantry_cpu_dispatcher_destroy(group->pools[i]);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

/* ---- started as one ---------------------------------------------------------------------------- */

struct crossing {
    gantry_task *next; /* it belongs to another manager */
    atomic_int *count, *refused;
};

static gantry_status cross_body(gantry_task *task, void *arg)
{
    (void)task;
    struct crossing *crossing = arg;
    atomic_fetch_add(crossing->count, 1);
    if (crossing->next != NULL && gantry_task_remove_reference(crossing->next) != GANTRY_OK) {
        atomic_fetch_add(crossing->refused, 1);
    }
    return GANTRY_OK;
}

enum { ROUNDS = 100 };

static void test_a_task_lets_go_of_one_in_a_manager_that_starts_with_it(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers < 3; workers++) {
        struct group group = new_group(workers);
        for (int round = 0; round < ROUNDS; round++) {
            atomic_int counts[2] = {0};
            struct crossing crossings[2 * MANAGERS];
            /* each has a task that the manager before lets go, at once */
            for (int i = 0; i < MANAGERS; i++) {
                gantry_task *held = add_cpu(group.managers[i], NULL, cross_body, &crossings[MANAGERS + i]);
                assert_ok(gantry_task_add_reference(held));
                crossings[MANAGERS + i] = (struct crossing){NULL, &counts[0], &counts[1]};
                crossings[(i + MANAGERS - 1) % MANAGERS] = (struct crossing){held, &counts[0], &counts[1]};
            }
            for (int i = 0; i < MANAGERS; i++) {
                add_cpu(group.managers[i], NULL, cross_body, &crossings[i]);
            }
            if (round % 2 == 1) {
                assert_ok(gantry_taskman_freeze(group.managers[round % MANAGERS]));
            }
            assert_ok(gantry_taskman_start_all(group.managers, MANAGERS));
            for (int i = 0; i < MANAGERS; i++) {
                assert_ok(gantry_taskman_stop(group.managers[i]));
                assert_ok(gantry_taskman_reset(group.managers[i]));
            }
            assert_int_equal(counts[0], 2 * MANAGERS);
            assert_int_equal(counts[1], 0);
        }
        destroy_group(&group);
    }
}

static void check_nothing_runs(struct group *group, gantry_task *const *tasks)
{
    for (int i = 0; i < MANAGERS; i++) {
        assert_int_equal(gantry_task_get_state(tasks[i]), GANTRY_TASK_STATE_HELD);
        assert_error(gantry_taskman_wait(group->managers[i]), GANTRY_ERR_STATE);
    }
}

static void test_when_one_cannot_start_none_does(void **state)
{
    (void)state;
    struct group group = new_group(1);
    atomic_int count = 0;
    gantry_task *tasks[MANAGERS], *other;
    for (int i = 0; i < MANAGERS; i++) {
        tasks[i] = add_cpu(group.managers[i], NULL, count_body, &count);
    }
    assert_error(gantry_taskman_start_all(NULL, 1), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_taskman_start_all(NULL, 0));
    gantry_taskman *bad[MANAGERS] = {group.managers[0], group.managers[1], NULL};
    assert_error(gantry_taskman_start_all(bad, MANAGERS), GANTRY_ERR_INVALID_ARGUMENT);
    assert_last_error_has("task manager 2 of 3 is NULL");
    bad[2] = group.managers[0];
    assert_error(gantry_taskman_start_all(bad, MANAGERS), GANTRY_ERR_INVALID_ARGUMENT);
    assert_last_error_has("task managers 0 and 2 are the same");
    check_nothing_runs(&group, tasks);
    other = add_cpu(group.managers[2], NULL, count_body, &count);
    assert_ok(gantry_task_start_after(other, tasks[2]));
    assert_ok(gantry_task_start_after(tasks[2], other));
    assert_error(gantry_taskman_start_all(group.managers, MANAGERS), GANTRY_ERR_CYCLE);
    check_nothing_runs(&group, tasks);
    assert_ok(gantry_taskman_reset(group.managers[2]));
    tasks[2] = add_cpu(group.managers[2], NULL, count_body, &count);
    assert_ok(gantry_taskman_start(group.managers[2]));
    assert_error(gantry_taskman_start_all(group.managers, MANAGERS), GANTRY_ERR_STATE);
    assert_int_equal(gantry_task_get_state(tasks[0]), GANTRY_TASK_STATE_HELD);
    assert_ok(gantry_taskman_stop(group.managers[2]));
    gy_fault_arm(0);
    assert_error(gantry_taskman_start_all(group.managers, 2), GANTRY_ERR_OUT_OF_HOST_MEMORY);
    gy_fault_arm(-1);
    assert_ok(gantry_taskman_start_all(group.managers, 2));
    assert_ok(gantry_taskman_stop(group.managers[0]));
    assert_ok(gantry_taskman_stop(group.managers[1]));
    assert_int_equal(count, 3);
    destroy_group(&group);
}

/* The dispatchers of the managers before are told that their step is over. */
static void test_a_lost_dispatcher_keeps_all_from_starting(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    struct fixture g = {f.base.pool, new_manager(f.base.pool)};
    gantry_taskman *cpu_first[] = {g.manager, f.base.manager};
    gantry_task *task = add_sync(g.manager, NULL);
    f.fake->begin_status = GANTRY_ERR_DEVICE_LOST;
    assert_error(gantry_taskman_start_all(cpu_first, 2), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(count_calls(f.fake, STEP_BEGIN), 1);
    assert_int_equal(count_calls(f.fake, STEP_END), 0);
    assert_int_equal(gantry_task_get_state(task), GANTRY_TASK_STATE_HELD);
    f.fake->begin_status = GANTRY_OK;
    gantry_task *other = add_sync(g.manager, NULL);
    assert_ok(gantry_task_start_after(other, task));
    assert_ok(gantry_task_start_after(task, other));
    gantry_taskman *gpu_first[] = {f.base.manager, g.manager};
    assert_error(gantry_taskman_start_all(gpu_first, 2), GANTRY_ERR_CYCLE);
    assert_int_equal(count_calls(f.fake, STEP_BEGIN), 2);
    assert_int_equal(count_calls(f.fake, STEP_END), 1);
    gantry_taskman_destroy(g.manager);
    tear_down_gpu(&f);
}

/* ---- failures that cross ----------------------------------------------------------------------- */

static gantry_status io_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_ERR_IO;
}

static void pass_on(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)(result == GANTRY_OK ? gantry_task_remove_reference(arg) : gantry_task_fail_reference(arg, result));
}

static void test_a_failure_crosses_managers(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct group group = new_group(1);
        atomic_int count = 0;
        gantry_task *here = add_cpu(group.managers[1], "here", count_body, &count);
        gantry_task *after = add_cpu(group.managers[1], "after", count_body, &count);
        gantry_task *apart = add_cpu(group.managers[1], "apart", count_body, &count);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = fails != 0 ? io_body : count_body;
        desc.release = pass_on;
        desc.arg = here;
        if (fails == 0) {
            desc.kind = GANTRY_TASK_SYNC_POINT;
            desc.run = NULL;
        }
        assert_ok(gantry_task_start_after(after, here));
        assert_ok(gantry_task_add_reference(here));
        assert_ok(gantry_taskman_submit(group.managers[0], &desc, NULL));
        assert_ok(gantry_taskman_start_all(group.managers, 2));
        gantry_status expected = fails != 0 ? GANTRY_ERR_IO : GANTRY_OK;
        assert_int_equal(gantry_taskman_stop(group.managers[0]), expected);
        assert_int_equal(gantry_taskman_stop(group.managers[1]), expected);
        if (fails != 0) {
            assert_last_error_has("task 'here' failed: task 'task' returned GANTRY_ERR_IO");
        }
        assert_int_equal(gantry_task_result(here), fails != 0 ? GANTRY_ERR_IO : GANTRY_OK);
        assert_int_equal(gantry_task_result(after), fails != 0 ? GANTRY_ERR_TASK_FAILED : GANTRY_OK);
        assert_int_equal(gantry_task_result(apart), GANTRY_OK);
        assert_int_equal(count, fails != 0 ? 1 : 3);
        destroy_group(&group);
    }
}

/* The cause is the calling thread's last error, which stays as it was. */
static void test_the_cause_is_the_callers_error(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    gantry_task *task = add_sync(f.manager, "task");
    assert_ok(gantry_task_add_reference(task));
    assert_ok(gantry_task_add_reference(task));
    assert_error(gantry_task_fail_reference(task, GANTRY_OK), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_fail_reference(task, (gantry_status)-1000), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_task_fail_reference(NULL, GANTRY_ERR_IO), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_STATE);
    assert_ok(gantry_task_fail_reference(task, GANTRY_ERR_STATE)); /* before the start */
    assert_last_error_has("wait: the task manager is building");
    assert_ok(gantry_task_fail_reference(task, GANTRY_ERR_IO)); /* this is too late to be the cause */
    assert_error(gantry_task_fail_reference(task, GANTRY_ERR_IO), GANTRY_ERR_STATE);
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE);
    assert_last_error_has("task 'task' failed: wait: the task manager is building");
    assert_int_equal(gantry_task_result(task), GANTRY_ERR_STATE);
    tear_down(&f);
}

/* The reason in words, given before the start or while the step runs; the thread keeps its own last error. */
static void test_a_failed_reference_brings_its_text(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct fixture f = set_up(0);
        gantry_task *task = add_sync(f.manager, "receive");
        assert_ok(gantry_task_add_reference(task));
        assert_error(gantry_taskman_wait(f.manager), GANTRY_ERR_STATE);
        assert_ok(way == 0 ? GANTRY_OK : gantry_taskman_start(f.manager));
        assert_ok(gantry_task_fail_reference_with(task, GANTRY_ERR_IO, "rank 3 sent 8 bytes of 16"));
        assert_last_error_has("wait: the task manager is building");
        assert_ok(way == 0 ? gantry_taskman_start(f.manager) : GANTRY_OK);
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
        assert_last_error_has("task 'receive' failed: rank 3 sent 8 bytes of 16");
        assert_error(gantry_task_fail_reference_with(task, GANTRY_ERR_IO, "too late"), GANTRY_ERR_STATE);
        tear_down(&f);
    }
}

/* `task` comes after one that fails, and a reference makes it fail: before or after that. */
struct race {
    bool predecessor_first;
    gantry_status cause, expected;
};

static void check_race(struct fixture *f, const struct race *race, gantry_task *gate, gantry_task *task)
{
    assert_ok(gantry_taskman_start(f->manager));
    if (!race->predecessor_first) {
        assert_ok(gantry_task_fail_reference(task, race->cause));
    }
    assert_ok(gantry_task_remove_reference(gate));
    if (race->predecessor_first) {
        while (gantry_task_references(task) != 1) {
            sched_yield();
        }
        assert_ok(gantry_task_fail_reference(task, race->cause));
    }
    assert_int_not_equal(gantry_taskman_stop(f->manager), GANTRY_OK);
    assert_int_equal(gantry_task_result(task), race->expected);
}

static void test_the_first_failure_of_a_task_counts(void **state)
{
    (void)state;
    static const struct race races[] = {
        {true, GANTRY_ERR_IO, GANTRY_ERR_TASK_FAILED},
        {false, GANTRY_ERR_IO, GANTRY_ERR_IO},
        {true, GANTRY_ERR_DEVICE_LOST, GANTRY_ERR_DEVICE_LOST},
        {false, GANTRY_ERR_CANCELLED, GANTRY_ERR_TASK_FAILED},
    };
    for (size_t i = 0; i < sizeof(races) / sizeof(races[0]); i++) {
        for (int frozen = 0; frozen < 2; frozen++) {
            struct fixture f = set_up(1);
            atomic_int count = 0;
            gantry_task *gate = add_sync(f.manager, NULL);
            gantry_task *before = add_cpu(f.manager, NULL, io_body, NULL);
            gantry_task *task = add_cpu(f.manager, NULL, count_body, &count);
            assert_ok(gantry_task_start_after(before, gate));
            assert_ok(gantry_task_start_after(task, before));
            assert_ok(gantry_task_add_reference(gate));
            assert_ok(gantry_task_add_reference(task));
            if (frozen != 0) {
                assert_ok(gantry_taskman_freeze(f.manager));
            }
            for (int run = 0; run <= frozen; run++) {
                check_race(&f, &races[i], gate, task);
            }
            assert_int_equal(count, 0);
            tear_down(&f);
        }
    }
}

/* ---- debts ------------------------------------------------------------------------------------- */

/* A worker ends a task of another manager on its pool, and goes on with a body that takes long. */
struct visit {
    gantry_cpu_dispatcher *pool;
    gantry_task *other; /* of the other manager */
    atomic_int inside, let_go;
    atomic_bool is_over; /* the other manager's step */
    bool was_late;
};

static void stay(struct visit *visit)
{
    uint64_t end = gy_clock_ns() + LONG_NS;
    while (!atomic_load(&visit->is_over) && gy_clock_ns() < end) {
        sched_yield();
    }
    visit->was_late = !atomic_load(&visit->is_over);
}

static void let_go_and_stay(struct visit *visit)
{
    (void)!gantry_task_remove_reference(visit->other);
    atomic_store(&visit->let_go, 1);
    stay(visit);
}

static gantry_status visit_body(gantry_task *task, void *arg)
{
    (void)task;
    let_go_and_stay(arg);
    return GANTRY_OK;
}

/* Both parts run at once, and the later one visits the other manager: in some rounds that is the helper's. */
static gantry_status visit_part(size_t begin, size_t end, void *arg)
{
    (void)end;
    struct visit *visit = arg;
    atomic_fetch_add(&visit->inside, 1);
    while (atomic_load(&visit->inside) < 2) {
        sched_yield();
    }
    if (begin == 1) {
        let_go_and_stay(visit);
    }
    return GANTRY_OK;
}

static gantry_status loop_body(gantry_task *task, void *arg)
{
    (void)task;
    struct visit *visit = arg;
    return gantry_parallel_for(visit->pool, 0, 2, 1, visit_part, visit);
}

static gantry_status nothing_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* The other manager's step is over at once, though the worker is still inside the body. */
static void test_a_worker_that_visits_another_manager_owes_it_nothing(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct fixture f = set_up_workers_only(3);
        gantry_taskman *other = new_manager_with(f.pool, true);
        struct visit visit = {.pool = f.pool, .other = add_sync(other, NULL)};
        assert_ok(gantry_task_add_reference(visit.other));
        for (int i = 0; i < 3 && kind % 2 != 0; i++) {
            gantry_task *after = add_cpu(other, NULL, nothing_body, NULL);
            assert_ok(gantry_task_start_after(after, visit.other));
        }
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = kind / 2 == 0 ? visit_body : loop_body;
        desc.arg = &visit;
        assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
        assert_ok(gantry_taskman_start(other));
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(other));
        atomic_store(&visit.is_over, true);
        assert_ok(gantry_taskman_stop(f.manager));
        assert_false(visit.was_late);
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

static gantry_status let_go_body(gantry_task *task, void *arg)
{
    (void)task;
    struct visit *visit = arg;
    return gantry_task_remove_reference(visit->other);
}

static gantry_status stay_body(gantry_task *task, void *arg)
{
    (void)task;
    stay(arg);
    return GANTRY_OK;
}

/* The one worker goes from the last task of one manager to a long one of another: the first one's step is
 * over. */
static void test_a_worker_that_goes_on_for_another_manager_owes_the_first_nothing(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    gantry_taskman *other = new_manager_with(f.pool, true);
    struct visit visit = {.pool = f.pool, .other = add_cpu(f.manager, NULL, stay_body, &visit)};
    assert_ok(gantry_task_add_reference(visit.other));
    add_cpu(other, NULL, let_go_body, &visit);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_start(other));
    assert_ok(gantry_taskman_stop(other));
    atomic_store(&visit.is_over, true);
    assert_ok(gantry_taskman_stop(f.manager));
    assert_false(visit.was_late);
    gantry_taskman_destroy(other);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_task_lets_go_of_one_in_a_manager_that_starts_with_it),
        cmocka_unit_test(test_when_one_cannot_start_none_does),
        cmocka_unit_test(test_a_lost_dispatcher_keeps_all_from_starting),
        cmocka_unit_test(test_a_failure_crosses_managers),
        cmocka_unit_test(test_the_cause_is_the_callers_error),
        cmocka_unit_test(test_a_failed_reference_brings_its_text),
        cmocka_unit_test(test_the_first_failure_of_a_task_counts),
        cmocka_unit_test(test_a_worker_that_visits_another_manager_owes_it_nothing),
        cmocka_unit_test(test_a_worker_that_goes_on_for_another_manager_owes_the_first_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
