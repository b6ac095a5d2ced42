/* SPDX-License-Identifier: MIT */
/* What a guest steals although it belongs to another manager goes to the workers, bundles too. */
#include "tests/support/stops.h"
#include "tests/taskman/fixture.h"
#include "tests/taskman/guests.h"

#include "base/thread.h"

/* Tasks are in the deque of a worker that runs a body, which does not return before it may. */
struct late {
    gantry_cpu_dispatcher *pool;
    gantry_taskman *other;
    gantry_task *held;
    struct where where;
    atomic_int made, may_end, good, firsts;
};

static gantry_status late_child_body(gantry_task *task, void *arg)
{
    return where_body(task, &((struct late *)arg)->where);
}

static gantry_status late_body(gantry_task *task, void *arg)
{
    struct late *late = arg;
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < 3 && status == GANTRY_OK; i++) {
        status = gantry_taskman_spawn(gantry_task_manager(task), late_child_body, arg, NULL, NULL);
    }
    atomic_store(&late->made, 1);
    while (atomic_load(&late->may_end) == 0) {
        sched_yield();
    }
    return status;
}

/* A leaf of a fan: what comes behind it in its worker's deque is in bundles. */
static gantry_status late_leaf_body(gantry_task *task, void *arg)
{
    struct late *late = arg;
    atomic_store(&late->made, 1);
    while (atomic_load(&late->may_end) == 0) {
        sched_yield();
    }
    return where_body(task, &late->where);
}

static void add_late_fan(struct late *late, int leaves)
{
    gantry_task *first = add_cpu(late->other, NULL, count_body, &late->firsts);
    for (int i = 0; i < leaves; i++) {
        gantry_task *leaf = add_cpu(late->other, NULL, late_leaf_body, late);
        assert_ok(gantry_task_start_after(leaf, first));
    }
    assert_ok(gantry_taskman_freeze(late->other));
}

/* Starts the other manager when the guest has seen that it does not run. */
static void start_late(void *arg)
{
    struct late *late = arg;
    stops_await(0);
    late->good += gantry_taskman_start(late->other) == GANTRY_OK;
    deadline_await(atomic_load(&late->made) != 0, "the other manager's tasks to be in a deque");
    stops_go(0);
    deadline_await(atomic_load(&late->pool->shown.inject_count) != 0 ||
                       atomic_load(&late->where.elsewhere) != 0,
                   "the guest to give away what it has stolen");
    atomic_store(&late->may_end, 1);
    late->good += gantry_task_remove_reference(late->held) == GANTRY_OK;
}

/* A guest steals while no other manager runs, and one starts meanwhile: what it steals goes to the workers.
 * `leaves`: so many tasks, in bundles; 0: three of them, which are in none. */
static void check_given_away(int leaves)
{
    struct fixture f = set_up(2);
    struct late late = {.pool = f.pool, .where = {.caller = pthread_self()}};
    atomic_int count = 0;
    late.other = new_manager(f.pool);
    if (leaves != 0) {
        add_late_fan(&late, leaves);
    } else {
        add_cpu(late.other, NULL, late_body, &late);
    }
    add_cpu(f.manager, NULL, count_body, &count); /* so that there is a guest at all */
    late.held = add_cpu(f.manager, NULL, count_body, &count);
    assert_ok(gantry_task_add_reference(late.held));
    assert_ok(gantry_taskman_freeze(f.manager));
    await_sleep(f.pool);
    stops_arm(0, GY_POINT_WORKER_STEAL, f.pool);
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "late", start_late, &late));
    assert_ok(gantry_taskman_run(f.manager, 1));
    gy_thread_join(&thread);
    gy_point_hook(NULL);
    assert_int_equal(late.good, 2);
    deadline_await(atomic_load(&late.where.elsewhere) == (leaves != 0 ? leaves : 3),
                   "the other manager's tasks to run");
    assert_int_equal(late.where.here, 0);
    assert_int_equal(count, 2);
    assert_ok(gantry_taskman_stop(late.other));
    gantry_taskman_destroy(late.other);
    tear_down(&f);
}

static void test_what_is_stolen_of_other_managers_is_given_away(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        check_given_away(0);
    }
}

static void test_bundles_of_other_managers_are_given_away(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        check_given_away(200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_stolen_of_other_managers_is_given_away),
        cmocka_unit_test(test_bundles_of_other_managers_are_given_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
