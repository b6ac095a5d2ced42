/* SPDX-License-Identifier: MIT */
/* Tasks that raise the bandwidth gate. */
#include "tests/taskman/fixture.h"

#include <gantry/bandwidth.h>

static uint32_t gate(void)
{
    return __atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_SEQ_CST);
}

static uint64_t holds(void)
{
    gantry_bandwidth_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_bandwidth_get_stats(&stats));
    return stats.holds;
}

struct seen {
    uint32_t gate; /* in the body */
    gantry_status result;
};

static gantry_status look(gantry_task *task, void *arg)
{
    (void)task;
    struct seen *seen = arg;
    seen->gate = gate();
    gantry_bandwidth_yield(); /* its own gate does not hold it back */
    return seen->result;
}

static gantry_task *add(gantry_taskman *manager, gantry_task_fn run, void *arg, bool is_critical)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run;
    desc.arg = arg;
    desc.bandwidth_critical = is_critical;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static void test_a_critical_task_raises_the_gate_while_it_runs(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 2; workers += 2) {
        struct fixture f = set_up(workers);
        struct seen before = {.gate = 9}, critical = {.gate = 9}, after = {.gate = 9};
        uint64_t held = holds();
        gantry_task *first = add(f.manager, look, &before, false);
        gantry_task *middle = add(f.manager, look, &critical, true);
        gantry_task *last = add(f.manager, look, &after, false);
        assert_ok(gantry_task_start_after(middle, first));
        assert_ok(gantry_task_start_after(last, middle));
        assert_ok(gantry_taskman_freeze(f.manager));
        for (int i = 0; i < 3; i++) {
            assert_ok(gantry_taskman_start(f.manager));
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(before.gate, 0);
            assert_int_equal(critical.gate, 1);
            assert_int_equal(after.gate, 0);
        }
        assert_true(holds() == held);
        tear_down(&f);
    }
}

static void test_a_task_that_fails_lowers_it_too(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct seen seen = {.result = GANTRY_ERR_IO};
    add(f.manager, look, &seen, true);
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_IO);
    assert_int_equal(seen.gate, 1);
    assert_int_equal(gate(), 0);
    tear_down(&f);
}

struct loop {
    gantry_cpu_dispatcher *pool;
    atomic_int inside; /* parts that have begun */
    atomic_int gates;  /* parts that have seen the gate up */
};

/* Two parts meet, so that a worker besides the caller has one; neither may be held back. */
static gantry_status part(size_t begin, size_t end, void *arg)
{
    (void)begin, (void)end;
    struct loop *loop = arg;
    atomic_fetch_add(&loop->inside, 1);
    while (atomic_load(&loop->inside) < 2) {
        sched_yield();
    }
    if (gate() == 1) {
        atomic_fetch_add(&loop->gates, 1);
    }
    gantry_bandwidth_wait();
    return GANTRY_OK;
}

static gantry_status run_loop(gantry_task *task, void *arg)
{
    (void)task;
    struct loop *loop = arg;
    return gantry_parallel_for(loop->pool, 0, 2, 1, part, loop);
}

static void test_helpers_of_a_critical_task_are_not_held(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct loop loop = {.pool = f.pool};
    uint64_t held = holds();
    add(f.manager, run_loop, &loop, true);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(loop.gates, 2);
    assert_true(holds() == held);
    tear_down(&f);
}

static void test_only_cpu_tasks_can_be_critical(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.bandwidth_critical = true;
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_critical_task_raises_the_gate_while_it_runs),
        cmocka_unit_test(test_a_task_that_fails_lowers_it_too),
        cmocka_unit_test(test_helpers_of_a_critical_task_are_not_held),
        cmocka_unit_test(test_only_cpu_tasks_can_be_critical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
