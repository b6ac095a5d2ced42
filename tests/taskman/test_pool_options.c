/* SPDX-License-Identifier: MIT */
/* The options of the CPU dispatcher: priorities, class limits, CPUs, a host's pool, loops. */
#include "tests/taskman/fixture.h"

#include "base/thread.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/worker.h"

#include <pthread.h>

static gantry_task *add_with(gantry_taskman *manager, gantry_task_priority priority, uint32_t cpu_class,
                             gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run;
    desc.arg = arg;
    desc.priority = priority;
    desc.cpu_class = cpu_class;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static void test_higher_priorities_are_begun_first(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        struct trace trace = {0};
        static const gantry_task_priority order[] = {GANTRY_TASK_PRIORITY_LOW, GANTRY_TASK_PRIORITY_NORMAL,
                                                     GANTRY_TASK_PRIORITY_HIGH};
        gantry_task *first = add_cpu(f.manager, NULL, trace_body, &trace);
        for (int i = 0; i < 30; i++) {
            gantry_task *task = add_with(f.manager, order[i % 3], 0, trace_body, &trace);
            assert_int_equal(gantry_task_get_priority(task), order[i % 3]);
            assert_ok(gantry_task_start_after(task, first));
        }
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(trace.length, 31);
        for (int i = 1; i < 31; i++) {
            assert_int_equal(gantry_task_get_priority(trace.tasks[i]), order[2 - (i - 1) / 10]);
        }
        assert_int_equal(atomic_load(&f.pool->shown.urgent_count),
                         0); /* otherwise workers never look at their own queue first */
        assert_int_equal(atomic_load(&f.pool->shown.low_count), 0);
        tear_down(&f);
    }
}

static gantry_cpu_dispatcher *pool_with(gantry_cpu_dispatcher_options options)
{
    gantry_cpu_dispatcher *pool = NULL;
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    return pool;
}

static void test_class_limits_hold(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1, 2};
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.worker_count = 4;
    options.class_count = 2;
    options.class_limits = limits;
    struct fixture f = {.pool = pool_with(options)};
    f.manager = new_manager(f.pool);
    struct crowd crowds[3] = {{0}};
    for (int run = 0; run < 3; run++) {
        for (uint32_t i = 0; i < 90; i++) {
            add_with(f.manager, (gantry_task_priority)((int)(i / 3 % 3) - 1), i % 3, crowd_body,
                     &crowds[i % 3]);
        }
        assert_ok(gantry_taskman_start(f.manager));
        if (run == 2) {
            assert_ok(gantry_taskman_cancel(f.manager));
        }
        gantry_status status = gantry_taskman_stop(f.manager);
        assert_true(status == GANTRY_OK || run == 2);
        assert_ok(gantry_taskman_reset(f.manager));
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(crowds[i].ran, 60, 90);
        assert_in_range(crowds[i].most, 1, i == 0 ? 4 : (int)limits[i - 1]);
    }
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = crowd_body;
    desc.cpu_class = 3;
    assert_error(gantry_taskman_submit(f.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    tear_down(&f);
}

static gantry_status where_body(gantry_task *task, void *arg)
{
    (void)task;
    cpu_set_t set;
    bool is_known = pthread_getaffinity_np(pthread_self(), sizeof(set), &set) == 0;
    atomic_store((atomic_int *)arg, is_known ? CPU_COUNT(&set) : -1);
    return GANTRY_OK;
}

static void test_workers_are_bound_to_their_cpus(void **state)
{
    (void)state;
    cpu_set_t mine;
    uint32_t cpu = usable_cpus(&mine);
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.cpus = &cpu;
    options.cpu_count = 1;
    for (int pinned = 0; pinned < 2; pinned++) {
        options.pin_workers = pinned != 0;
        struct fixture f = {.pool = pool_with(options)};
        f.manager = new_manager(f.pool);
        assert_int_equal(gantry_cpu_dispatcher_worker_count(f.pool), 1);
        atomic_int cpus = 0;
        add_cpu(f.manager, NULL, where_body, &cpus);
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(cpus, 1);
        tear_down(&f);
    }
    options.cpus = NULL;
    options.cpu_count = 0;
    options.worker_count = 3; /* pinned, to all CPUs that there are */
    gantry_cpu_dispatcher_destroy(pool_with(options));
}

static void no_submit(void *user, gantry_cpu_dispatcher *dispatcher, gantry_task *task)
{
    (void)user;
    (void)dispatcher;
    (void)task;
}

static void test_options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = NULL;
    const uint32_t beyond = 1u << 20, none = 0;
    gantry_cpu_pool_ops host = {.struct_size = sizeof(host), .submit = no_submit};
    gantry_cpu_pool_ops empty = {.struct_size = sizeof(empty)};
    const gantry_cpu_dispatcher_options bad[] = {
        {.struct_size = sizeof(bad[0]), .cpus = &beyond, .cpu_count = 1},
        {.struct_size = sizeof(bad[0]), .cpu_count = 1},
        {.struct_size = sizeof(bad[0]), .cpus = &none},
        {.struct_size = sizeof(bad[0]), .class_count = 1},
        {.struct_size = sizeof(bad[0]), .class_count = 17, .class_limits = &none},
        {.struct_size = sizeof(bad[0]), .class_count = 1, .class_limits = &none},
        {.struct_size = sizeof(bad[0]), .host_pool = &empty},
        {.struct_size = sizeof(bad[0]), .host_pool = &host, .worker_count = 1},
        {.struct_size = sizeof(bad[0]), .host_pool = &host, .inline_only = true},
        {.struct_size = sizeof(bad[0]), .inline_only = true, .pin_workers = true},
        {.struct_size = sizeof(bad[0]), .wait_mode = (gantry_wait_mode)6},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_error(gantry_cpu_dispatcher_create(&bad[i], &pool), GANTRY_ERR_INVALID_ARGUMENT);
    }
    assert_null(pool);
    assert_int_equal(gy_alloc_live(), 0);
}

/* ---- a host's pool ---------------------------------------------------------------------------- */

/* The smallest pool possible: one thread, one ring. */
struct host {
    gy_mutex lock;
    gy_cond changed;
    gantry_task *ring[1024];           /* guarded by lock */
    size_t first, last;                /* guarded by lock */
    bool closed;                       /* guarded by lock */
    gantry_cpu_dispatcher *dispatcher; /* set before anything is submitted */
    gy_thread thread;
};

static void host_submit(void *user, gantry_cpu_dispatcher *dispatcher, gantry_task *task)
{
    struct host *host = user;
    gy_mutex_lock(&host->lock);
    host->dispatcher = dispatcher;
    host->ring[host->last++ % 1024] = task;
    gy_mutex_unlock(&host->lock);
    gy_cond_signal(&host->changed);
}

static void host_main(void *arg)
{
    struct host *host = arg;
    gy_mutex_lock(&host->lock);
    while (!host->closed || host->first != host->last) {
        if (host->first == host->last) {
            gy_cond_wait(&host->changed, &host->lock);
            continue;
        }
        gantry_task *task = host->ring[host->first++ % 1024];
        gantry_cpu_dispatcher *dispatcher = host->dispatcher;
        gy_mutex_unlock(&host->lock);
        gantry_cpu_dispatcher_execute(dispatcher, task);
        gy_mutex_lock(&host->lock);
    }
    gy_mutex_unlock(&host->lock);
}

static void test_a_hosts_pool_runs_everything(void **state)
{
    (void)state;
    static struct host host;
    memset(&host, 0, sizeof(host));
    gy_mutex_init(&host.lock, GY_RANK_LEAF);
    assert_ok(gy_cond_init(&host.changed));
    assert_ok(gy_thread_start(&host.thread, "host", host_main, &host));
    static const uint32_t limits[] = {1};
    gantry_cpu_pool_ops ops = {
        .struct_size = sizeof(ops), .submit = host_submit, .user = &host, .worker_count = 1};
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.host_pool = &ops;
    options.class_count = 1;
    options.class_limits = limits;
    struct fixture f = {.pool = pool_with(options)};
    f.manager = new_manager(f.pool);
    assert_int_equal(gantry_cpu_dispatcher_worker_count(f.pool), 1);
    atomic_int count = 0;
    gantry_task *tasks[200];
    for (int i = 0; i < 200; i++) {
        tasks[i] = add_with(f.manager, i % 5 == 0 ? GANTRY_TASK_PRIORITY_HIGH : GANTRY_TASK_PRIORITY_NORMAL,
                            i % 7 == 0, count_body, &count);
        if (i > 10) {
            assert_ok(gantry_task_start_after(tasks[i], tasks[i / 2]));
        }
    }
    assert_ok(gantry_taskman_freeze(f.manager));
    assert_ok(gantry_taskman_run(f.manager, 10));
    assert_int_equal(count, 2000);
    assert_error(gantry_cpu_dispatcher_execute(f.pool, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    struct fixture other = set_up(1);
    assert_error(gantry_cpu_dispatcher_execute(other.pool, tasks[0]), GANTRY_ERR_STATE);
    gantry_taskman_destroy(other.manager);
    gantry_cpu_dispatcher_destroy(other.pool);
    gy_mutex_lock(&host.lock);
    host.closed = true;
    gy_mutex_unlock(&host.lock);
    gy_cond_broadcast(&host.changed);
    gy_thread_join(&host.thread);
    tear_down(&f);
    gy_cond_fini(&host.changed);
    gy_mutex_fini(&host.lock);
}

/* ---- loops ------------------------------------------------------------------------------------ */

enum { CELLS = 5000 };

struct grid {
    gantry_cpu_dispatcher *pool;
    atomic_int cells[CELLS];
    size_t bad; /* parts that begin here fail; CELLS: none does */
};

static gantry_status touch_part(size_t begin, size_t end, void *arg)
{
    struct grid *grid = arg;
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(&grid->cells[i], 1);
    }
    return begin == grid->bad ? GANTRY_ERR_IO : GANTRY_OK;
}

static gantry_status nested_part(size_t begin, size_t end, void *arg)
{
    struct grid *grid = arg;
    for (size_t row = begin; row < end; row++) {
        gantry_status status =
            gantry_parallel_for(grid->pool, row * 100, row * 100 + 100, 7, touch_part, grid);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

static gantry_status loop_task(gantry_task *task, void *arg)
{
    (void)task;
    struct grid *grid = arg;
    return gantry_parallel_for(grid->pool, 0, CELLS / 100, 3, nested_part, grid);
}

static void assert_all(struct grid *grid, int times)
{
    for (int i = 0; i < CELLS; i++) {
        assert_int_equal(grid->cells[i], times);
    }
}

static void test_loops_cover_every_index_once(void **state)
{
    (void)state;
    static struct grid grid;
    for (uint32_t workers = 0; workers < 4; workers++) {
        memset(&grid, 0, sizeof(grid));
        grid.bad = CELLS;
        struct fixture f = set_up(workers);
        grid.pool = f.pool;
        static const size_t grains[] = {0, 1, 7, 4999, 5000, SIZE_MAX};
        for (int i = 0; i < 6; i++) {
            assert_ok(gantry_parallel_for(f.pool, 0, CELLS, grains[i], touch_part, &grid));
            assert_all(&grid, i + 1);
        }
        assert_ok(gantry_parallel_for(f.pool, 3, 3, 1, touch_part, &grid));
        assert_ok(gantry_parallel_for(f.pool, 0, CELLS / 100, 1, nested_part, &grid));
        assert_all(&grid, 7);
        for (int i = 0; i < 3; i++) {
            add_cpu(f.manager, NULL, loop_task, &grid);
        }
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_all(&grid, 10);
        grid.bad = 70;
        assert_error(gantry_parallel_for(f.pool, 0, CELLS, 7, touch_part, &grid), GANTRY_ERR_IO);
        assert_error(gantry_parallel_for(f.pool, 1, 0, 7, touch_part, &grid), GANTRY_ERR_INVALID_ARGUMENT);
        assert_error(gantry_parallel_for(NULL, 0, 1, 7, touch_part, &grid), GANTRY_ERR_INVALID_ARGUMENT);
        assert_error(gantry_parallel_for(f.pool, 0, 1, 7, NULL, &grid), GANTRY_ERR_INVALID_ARGUMENT);
        tear_down(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_higher_priorities_are_begun_first),
        cmocka_unit_test(test_class_limits_hold),
        cmocka_unit_test(test_workers_are_bound_to_their_cpus),
        cmocka_unit_test(test_options_that_do_not_fit_are_refused),
        cmocka_unit_test(test_a_hosts_pool_runs_everything),
        cmocka_unit_test(test_loops_cover_every_index_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
