/* SPDX-License-Identifier: MIT */
/* Frozen graphs with joins of very many tasks: they are split into groups, and behave as if there were
 * none. */
#include "tests/taskman/fixture.h"

#include "taskman/joins.h"
#include "taskman/manager.h"

enum { LEAVES = 3 * GY_JOIN_WIDE + 5, RUNS = 20 };

struct fan {
    struct fixture f;
    atomic_int leaves, joins; /* how many have run in this run */
    atomic_int disorder;
    int failing; /* the leaf that fails; -1: none does */
    int expected;
    gantry_task *leaf[LEAVES], *first, *join, *second;
};

static struct fan fan;

static gantry_status leaf_body(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add(&fan.leaves, 1);
    return (int)(intptr_t)arg == fan.failing ? GANTRY_ERR_NOT_FOUND : GANTRY_OK;
}

static gantry_status fan_join_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_fetch_add(&fan.joins, 1);
    if (atomic_load(&fan.leaves) != fan.expected) {
        atomic_store(&fan.disorder, 1);
    }
    return GANTRY_OK;
}

static gantry_status first_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* One task comes before all leaves, two joins come after them, of which one is a sync point, and there is a
 * narrow join. */
static void build(uint32_t workers)
{
    memset(&fan, 0, sizeof(fan));
    fan.f = set_up(workers);
    fan.failing = -1;
    fan.expected = LEAVES;
    gantry_taskman *manager = fan.f.manager;
    fan.first = add_cpu(manager, NULL, first_body, NULL);
    fan.join = add_cpu(manager, "join", fan_join_body, NULL);
    gantry_task *sync = add_sync(manager, "sync");
    fan.second = add_cpu(manager, NULL, fan_join_body, NULL);
    assert_ok(gantry_task_start_after(fan.second, sync));
    for (int i = 0; i < LEAVES; i++) {
        fan.leaf[i] = add_cpu(manager, NULL, leaf_body, (void *)(intptr_t)i);
        assert_ok(gantry_task_start_after(fan.leaf[i], fan.first));
        assert_ok(gantry_task_start_after(fan.join, fan.leaf[i]));
        assert_ok(gantry_task_start_after(sync, fan.leaf[i]));
    }
    assert_ok(gantry_taskman_freeze(manager));
    assert_int_equal(manager->frozen_graph.group_count, 2 * ((LEAVES - 1) / GY_JOIN_GROUP + 1));
}

static void check_run(gantry_status status, int leaves, int joins)
{
    gantry_status got = gantry_taskman_stop(fan.f.manager);
    assert_int_equal(got, status);
    assert_int_equal(fan.leaves, leaves);
    assert_int_equal(fan.joins, joins);
    assert_int_equal(fan.disorder, 0);
    atomic_store(&fan.leaves, 0);
    atomic_store(&fan.joins, 0);
}

static void test_a_join_runs_after_all_its_groups(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 4; workers += 2) {
        build(workers);
        for (int run = 0; run < RUNS; run++) {
            assert_ok(gantry_taskman_start(fan.f.manager));
            check_run(GANTRY_OK, LEAVES, 2);
        }
        tear_down(&fan.f);
    }
}

static void test_one_of_very_many_fails_the_join(void **state)
{
    (void)state;
    build(2);
    const int failing[] = {0, LEAVES / 2, LEAVES - 1, -1};
    for (int i = 0; i < 4; i++) {
        fan.failing = failing[i];
        assert_ok(gantry_taskman_start(fan.f.manager));
        check_run(failing[i] < 0 ? GANTRY_OK : GANTRY_ERR_NOT_FOUND, LEAVES, failing[i] < 0 ? 2 : 0);
        assert_int_equal(gantry_task_get_state(fan.join),
                         failing[i] < 0 ? GANTRY_TASK_STATE_DONE : GANTRY_TASK_STATE_FAILED);
    }
    tear_down(&fan.f);
}

/* A part has some edges of some groups; the next run of all tasks has all of them again. */
static void test_runs_of_a_part(void **state)
{
    (void)state;
    build(3);
    for (int run = 0; run < RUNS; run++) {
        int from = run * LEAVES / RUNS;
        fan.expected = LEAVES - from;
        assert_ok(gantry_taskman_start_from(fan.f.manager, &fan.leaf[from], (size_t)(LEAVES - from)));
        check_run(GANTRY_OK, LEAVES - from, 2);
        if (run % 3 == 0) {
            fan.expected = LEAVES;
            assert_ok(gantry_taskman_start(fan.f.manager));
            check_run(GANTRY_OK, LEAVES, 2);
        }
    }
    tear_down(&fan.f);
}

/* References of the application on a join count beside its groups. */
static void test_a_join_that_others_hold(void **state)
{
    (void)state;
    build(2);
    for (int run = 0; run < RUNS; run++) {
        assert_error(gantry_task_add_reference(fan.join), GANTRY_ERR_STATE);
        assert_ok(gantry_taskman_start(fan.f.manager));
        bool held = gantry_task_add_reference(fan.join) == GANTRY_OK; /* unless it has begun */
        gantry_task *light = NULL;
        bool comes_before =
            gantry_taskman_create_light(fan.f.manager, first_body, NULL, NULL, fan.join, &light) == GANTRY_OK;
        if (comes_before) {
            assert_ok(gantry_task_remove_reference(light));
        }
        if (held) {
            assert_ok(gantry_task_remove_reference(fan.join));
        }
        check_run(GANTRY_OK, LEAVES, 2);
    }
    tear_down(&fan.f);
}

/* The memory that freeze() takes is given back when it fails, and with a reset; then the graph can be frozen
 * again. */
static void test_freezing_without_memory(void **state)
{
    (void)state;
    for (int fault = 0; fault < 3; fault++) {
        struct fixture f = set_up(1);
        atomic_int ran = 0;
        gantry_task *join = add_cpu(f.manager, NULL, count_body, &ran);
        for (int i = 0; i < GY_JOIN_WIDE; i++) {
            assert_ok(gantry_task_start_after(join, add_cpu(f.manager, NULL, count_body, &ran)));
        }
        gy_fault_arm(fault);
        assert_error(gantry_taskman_freeze(f.manager), GANTRY_ERR_OUT_OF_HOST_MEMORY);
        gy_fault_arm(-1);
        assert_ok(gantry_taskman_freeze(f.manager));
        assert_ok(gantry_taskman_run(f.manager, 2));
        assert_int_equal(ran, 2 * (GY_JOIN_WIDE + 1));
        uint64_t bytes = stats_of(f.manager).memory_bytes;
        assert_ok(gantry_taskman_reset(f.manager));
        assert_true(stats_of(f.manager).memory_bytes < bytes);
        tear_down(&f);
    }
}

/* One less than a wide join: there is no group. */
static void test_narrow_joins_have_no_groups(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int ran = 0;
    gantry_task *join = add_cpu(f.manager, NULL, count_body, &ran);
    for (int i = 1; i < GY_JOIN_WIDE; i++) {
        assert_ok(gantry_task_start_after(join, add_cpu(f.manager, NULL, count_body, &ran)));
    }
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_null(f.manager->frozen_graph.groups);
    assert_ok(gantry_taskman_run(f.manager, 3));
    assert_int_equal(ran, 3 * GY_JOIN_WIDE);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_join_runs_after_all_its_groups),
        cmocka_unit_test(test_one_of_very_many_fails_the_join),
        cmocka_unit_test(test_runs_of_a_part),
        cmocka_unit_test(test_a_join_that_others_hold),
        cmocka_unit_test(test_freezing_without_memory),
        cmocka_unit_test(test_narrow_joins_have_no_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
