/* SPDX-License-Identifier: MIT */
/* Limited classes: loops, changes of a limit while tasks run, CPUs. */
#include "tests/support/deadline.h"
#include "tests/taskman/fixture.h"

#include "taskman/cpu/pool.h"
#include "taskman/cpu/worker.h"

#include <pthread.h>
#include <sched.h>

static struct fixture set_up_class(uint32_t workers, uint32_t limit)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.worker_count = workers;
    options.class_count = 1;
    options.class_limits = &limit;
    struct fixture f = {NULL, NULL};
    assert_ok(gantry_cpu_dispatcher_create(&options, &f.pool));
    f.manager = new_manager(f.pool);
    return f;
}

static gantry_task *add(gantry_taskman *manager, gantry_task_fn run, void *arg, uint32_t cpu_class)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run;
    desc.arg = arg;
    desc.cpu_class = cpu_class;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static void run_step(gantry_taskman *manager)
{
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
}

static void set_limit(gantry_cpu_dispatcher *pool, uint32_t limit)
{
    gantry_cpu_class_options options = GANTRY_CPU_CLASS_OPTIONS_INIT;
    options.limit = limit;
    assert_ok(gantry_cpu_dispatcher_set_class(pool, 1, &options));
}

static gantry_status inner_part(size_t begin, size_t end, void *arg)
{
    (void)begin, (void)end;
    pass_through(arg);
    return GANTRY_OK;
}

static gantry_status outer_part(size_t begin, size_t end, void *arg)
{
    (void)begin, (void)end;
    struct crowd *crowd = arg;
    return gantry_parallel_for(crowd->pool, 0, 4, 1, inner_part, crowd);
}

static gantry_status run_loops(gantry_task *task, void *arg)
{
    (void)task;
    struct crowd *crowd = arg;
    return gantry_parallel_for(crowd->pool, 0, 8, 1, outer_part, crowd);
}

static void test_a_limit_holds_for_loops_of_its_tasks(void **state)
{
    (void)state;
    for (uint32_t limit = 1; limit <= 3; limit++) {
        struct fixture f = set_up_class(4, limit);
        struct crowd crowd = {.pool = f.pool};
        for (int i = 0; i < 3; i++) {
            add(f.manager, run_loops, &crowd, 1);
        }
        run_step(f.manager);
        assert_int_equal(crowd.ran, 3 * 8 * 4);
        assert_in_range(crowd.most, 1, limit);
        tear_down(&f);
    }
}

struct gathering {
    gantry_cpu_dispatcher *pool;
    atomic_int inside;
};

/* The first task raises the limit, and waits for a second one that can begin only then. */
static gantry_status meet(gantry_task *task, void *arg)
{
    (void)task;
    struct gathering *gathering = arg;
    if (atomic_fetch_add(&gathering->inside, 1) == 0) {
        gantry_cpu_class_options options = GANTRY_CPU_CLASS_OPTIONS_INIT;
        options.limit = 2;
        if (gantry_cpu_dispatcher_set_class(gathering->pool, 1, &options) != GANTRY_OK) {
            return GANTRY_ERR_STATE;
        }
    }
    while (atomic_load(&gathering->inside) < 2) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status meet_in_part(size_t begin, size_t end, void *arg)
{
    (void)begin, (void)end;
    return meet(NULL, arg);
}

static gantry_status run_meeting(gantry_task *task, void *arg)
{
    (void)task;
    struct gathering *gathering = arg;
    return gantry_parallel_for(gathering->pool, 0, 2, 1, meet_in_part, gathering);
}

static void test_a_raised_limit_lets_more_begin(void **state)
{
    (void)state;
    struct fixture f = set_up_class(2, 1);
    struct gathering tasks = {.pool = f.pool}, parts = {.pool = f.pool};
    add(f.manager, meet, &tasks, 1);
    add(f.manager, meet, &tasks, 1);
    run_step(f.manager);
    set_limit(f.pool, 1);
    add(f.manager, run_meeting, &parts, 1); /* the same with a helper for the second */
    run_step(f.manager);
    assert_int_equal(tasks.inside, 2);
    assert_int_equal(parts.inside, 2);
    tear_down(&f);
}

struct succession {
    gantry_cpu_dispatcher *pool;
    struct meeting meeting;
};

static gantry_status wait_for_sleeper(gantry_task *task, void *arg)
{
    (void)task;
    struct succession *succession = arg;
    while (atomic_load(&succession->pool->events.work.sleepers) == 0) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status meet_in_succession(gantry_task *task, void *arg)
{
    struct succession *succession = arg;
    return meet_body(task, &succession->meeting);
}

/* The class's only place is free again: its worker goes on with other work, and another worker is woken for
 * the class's next task, for which that work waits. */
static void test_who_leaves_a_class_wakes_another_for_the_next(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct fixture f = set_up_class(2, 1);
        gantry_taskman_destroy(f.manager);
        f.manager = new_manager_with(f.pool, true);
        struct succession succession = {.pool = f.pool, .meeting = {.size = 2}};
        gantry_task *first = add(f.manager, wait_for_sleeper, &succession, 1);
        gantry_task *other = add(f.manager, meet_in_succession, &succession, 0);
        assert_ok(gantry_task_start_after(other, first));
        (void)add(f.manager, meet_in_succession, &succession, 1);
        deadline_begin("the next task of a class, while who had its place does something else");
        run_step(f.manager);
        deadline_end();
        tear_down(&f);
    }
}

static void test_a_lowered_limit_holds_too(void **state)
{
    (void)state;
    struct fixture f = set_up_class(4, 4);
    set_limit(f.pool, 1);
    struct crowd crowd = {.pool = f.pool};
    for (int i = 0; i < 20; i++) {
        add(f.manager, crowd_body, &crowd, 1);
    }
    run_step(f.manager);
    assert_int_equal(crowd.most, 1);
    assert_int_equal(crowd.ran, 20);
    tear_down(&f);
}

static gantry_status count_cpus(gantry_task *task, void *arg)
{
    (void)task;
    cpu_set_t set;
    bool is_known = pthread_getaffinity_np(pthread_self(), sizeof(set), &set) == 0;
    *(int *)arg = is_known ? CPU_COUNT(&set) : -1;
    return GANTRY_OK;
}

static void test_a_class_runs_on_its_cpus(void **state)
{
    (void)state;
    cpu_set_t mine;
    uint32_t cpu = usable_cpus(&mine);
    struct fixture f = set_up_class(1, 1);
    gantry_cpu_class_options options = GANTRY_CPU_CLASS_OPTIONS_INIT;
    options.cpus = &cpu;
    options.cpu_count = 1;
    assert_ok(gantry_cpu_dispatcher_set_class(f.pool, 1, &options));
    int counts[3] = {0};
    gantry_task *classed = add(f.manager, count_cpus, &counts[0], 1);
    gantry_task *plain = add(f.manager, count_cpus, &counts[1], 0);
    assert_ok(gantry_task_start_after(plain, classed));
    run_step(f.manager);
    options.cpus = NULL;
    options.cpu_count = 0;
    assert_ok(gantry_cpu_dispatcher_set_class(f.pool, 1, &options));
    add(f.manager, count_cpus, &counts[2], 1);
    run_step(f.manager);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], CPU_COUNT(&mine));
    assert_int_equal(counts[2], CPU_COUNT(&mine));
    tear_down(&f);
}

static void test_cache_domains_are_the_usable_cpus(void **state)
{
    (void)state;
    cpu_set_t mine, seen;
    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    CPU_ZERO(&seen);
    uint32_t index = 0, cpus[CPU_SETSIZE], count = 0;
    for (; gantry_cpu_cache_domain(index, cpus, CPU_SETSIZE, &count) == GANTRY_OK && count != 0; index++) {
        assert_in_range(count, 1, CPU_SETSIZE);
        for (uint32_t i = 0; i < count; i++) {
            assert_false(CPU_ISSET(cpus[i], &seen));
            CPU_SET(cpus[i], &seen);
        }
    }
    assert_true(index > 0);
    assert_true(CPU_EQUAL(&mine, &seen));
    assert_ok(gantry_cpu_cache_domain(index, cpus, CPU_SETSIZE, &count));
    assert_int_equal(count, 0);
    assert_ok(gantry_cpu_cache_domain(0, NULL, 0, &count));
    assert_error(gantry_cpu_cache_domain(0, NULL, 1, &count), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_cpu_cache_domain(0, cpus, 1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
}

static void test_changes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const uint32_t nowhere = CPU_SETSIZE;
    gantry_cpu_class_options options = GANTRY_CPU_CLASS_OPTIONS_INIT;
    struct fixture f = set_up_class(1, 1);
    assert_error(gantry_cpu_dispatcher_set_class(f.pool, 0, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_cpu_dispatcher_set_class(f.pool, 2, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_error(gantry_cpu_dispatcher_set_class(f.pool, 1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    options.cpus = &nowhere;
    options.cpu_count = 1;
    assert_error(gantry_cpu_dispatcher_set_class(f.pool, 1, &options), GANTRY_ERR_INVALID_ARGUMENT);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_limit_holds_for_loops_of_its_tasks),
        cmocka_unit_test(test_a_raised_limit_lets_more_begin),
        cmocka_unit_test(test_who_leaves_a_class_wakes_another_for_the_next),
        cmocka_unit_test(test_a_lowered_limit_holds_too),
        cmocka_unit_test(test_a_class_runs_on_its_cpus),
        cmocka_unit_test(test_cache_domains_are_the_usable_cpus),
        cmocka_unit_test(test_changes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
