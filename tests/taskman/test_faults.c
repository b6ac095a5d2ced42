/* SPDX-License-Identifier: MIT */
/* Every allocation, thread and condition variable that can fail does fail, one after the other. */
#include "tests/taskman/fixture.h"

static void test_pool_creation_survives_every_failure(void **state)
{
    (void)state;
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.worker_count = 3;
    for (long nth = 0;; nth++) {
        gantry_cpu_dispatcher *pool = (gantry_cpu_dispatcher *)(void *)&nth; /* it stays untouched */
        gy_fault_arm(nth);
        gantry_status status = gantry_cpu_dispatcher_create(&options, &pool);
        bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        if (!failed) {
            assert_int_equal(status, GANTRY_OK);
            gantry_cpu_dispatcher_destroy(pool);
            assert_int_equal(gy_alloc_live(), 0);
            /* the pool, two conditions, three deques, three threads and what they need */
            assert_true(nth > 9);
            return;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_ptr_equal(pool, &nth);
        assert_int_equal(gy_alloc_live(), 0);
    }
}

static void test_manager_creation_survives_every_failure(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = new_pool(0, GANTRY_WAIT_DEFAULT);
    long before = gy_alloc_live();
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = pool;
    options.expected_tasks = 1000;
    bool failed = true;
    for (long nth = 0; failed; nth++) {
        gantry_taskman *manager = NULL;
        gy_fault_arm(nth);
        gantry_status status = gantry_taskman_create(&options, &manager);
        failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(status, failed ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_OK);
        assert_int_equal(manager == NULL, failed);
        gantry_taskman_destroy(manager);
        assert_int_equal(gy_alloc_live(), before);
    }
    gantry_cpu_dispatcher_destroy(pool);
}

/* Large enough that every kind of storage grows at least once. */
enum { TASKS = 300 };

struct built {
    int tasks; /* tasks that were submitted */
    int edges;
    int names; /* placeholders */
    int lights;
    int refused;
};

static void build(gantry_taskman *manager, atomic_int *count, struct built *built)
{
    gantry_task *tasks[TASKS] = {NULL};
    for (int i = 0; i < TASKS; i++) {
        char name[64];
        snprintf(name, sizeof(name), "a name that is long enough to fill a chunk of text %d", i);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.name = i % 2 == 0 ? name : NULL;
        desc.run = count_body;
        desc.arg = count;
        gantry_task *hole = NULL, *light = NULL;
        gantry_status status = gantry_taskman_submit(manager, &desc, &tasks[i]);
        built->tasks += status == GANTRY_OK;
        built->refused += status == GANTRY_ERR_OUT_OF_HOST_MEMORY;
        for (int back = 1; back <= 3 && back <= i; back++) {
            if (tasks[i] != NULL && tasks[i - back] != NULL) {
                status = gantry_task_start_after(tasks[i], tasks[i - back]);
                built->edges += status == GANTRY_OK;
                built->refused += status == GANTRY_ERR_OUT_OF_HOST_MEMORY;
            }
        }
        if (i % 50 == 0) {
            snprintf(name, sizeof(name), "hole %d", i);
            status = gantry_taskman_get_named(manager, name, &hole);
            built->names += status == GANTRY_OK;
            built->refused += status == GANTRY_ERR_OUT_OF_HOST_MEMORY;
            status = gantry_taskman_create_light(manager, count_body, count, NULL, tasks[i], &light);
            built->lights += status == GANTRY_OK;
            built->edges += status == GANTRY_OK && tasks[i] != NULL;
            built->refused += status == GANTRY_ERR_OUT_OF_HOST_MEMORY;
            if (light != NULL) {
                gantry_task_remove_reference(light);
            }
        }
    }
}

/* A call that fails leaves no trace, and everything else runs. */
static void test_submission_survives_every_failure(void **state)
{
    (void)state;
    bool failed = true;
    for (long nth = 0; failed; nth++) {
        struct fixture f = set_up(1);
        atomic_int count = 0;
        struct built built = {0};
        gy_fault_arm(nth);
        build(f.manager, &count, &built);
        failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(built.refused, failed);
        gantry_taskman_stats stats = stats_of(f.manager);
        assert_int_equal(stats.tasks, built.tasks + built.lights);
        assert_int_equal(stats.edges, built.edges);
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_UNFILLED_NAME);
        assert_int_equal(count, built.tasks + built.lights);
        tear_down(&f);
        assert_true(failed || nth > 5);
    }
}

/* Running a graph allocates memory only to make room in a work queue, and can do without it. */
static gantry_status fan_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* One worker alone gets the successors one by one, one of 130 workers gets bundles of three: both are more
 * than a new work queue has room for. */
static void test_running_survives_every_failure(void **state)
{
    (void)state;
    static const uint32_t workers[] = {1, 130};
    for (size_t w = 0; w < sizeof(workers) / sizeof(workers[0]); w++) {
        bool failed = true;
        for (long nth = 0; failed; nth++) {
            struct fixture f = set_up(workers[w]);
            atomic_int count = 0;
            gantry_task *root = add_cpu(f.manager, NULL, fan_body, NULL);
            for (int i = 0; i < 1000; i++) {
                gantry_task *middle = add_cpu(f.manager, NULL, count_body, &count);
                assert_ok(gantry_task_start_after(middle, root));
            }
            assert_ok(gantry_taskman_freeze(f.manager));
            gy_fault_arm(nth);
            assert_ok(gantry_taskman_start(f.manager));
            gantry_status status = gantry_taskman_stop(f.manager);
            failed = gy_fault_fired();
            gy_fault_arm(-1);
            assert_int_equal(status, GANTRY_OK);
            assert_int_equal(count, 1000);
            tear_down(&f);
            assert_true(failed || nth > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_creation_survives_every_failure),
        cmocka_unit_test(test_manager_creation_survives_every_failure),
        cmocka_unit_test(test_submission_survives_every_failure),
        cmocka_unit_test(test_running_survives_every_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
