/* SPDX-License-Identifier: MIT */
/* Stalls: several threads that wait, the cost of looking for a stall, and references that come back too
 * often. */
#include "tests/taskman/fake_gpu.h"

#include "taskman/manager.h"

enum { WAITERS = 4 };

static void wait_for_manager(void *manager)
{
    (void)!gantry_taskman_wait(manager);
}

static void count_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static gantry_status no_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_task *add_released(gantry_taskman *manager, atomic_int *count)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = no_body;
    desc.release = count_release;
    desc.arg = count;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* ---- several waiters --------------------------------------------------------------------------- */

/* Three tasks on a cycle among many others, and several threads that all see that nothing goes on. */
static void wait_for_cycle(struct fixture *f, gy_thread *threads)
{
    atomic_int released = 0;
    gantry_task *cycle[3], *last = add_sync(f->manager, NULL);
    for (int i = 0; i < 3000; i++) {
        add_cpu(f->manager, NULL, no_body, NULL);
    }
    assert_ok(gantry_task_add_reference(last));
    assert_ok(gantry_taskman_start(f->manager));
    for (int i = 0; i < 3; i++) {
        cycle[i] = add_released(f->manager, &released);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(gantry_task_start_after(cycle[i], cycle[(i + 1) % 3]));
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(gantry_task_remove_reference(cycle[i]));
    }
    for (int i = 0; i < WAITERS; i++) {
        assert_ok(gy_thread_start(&threads[i], "waiter", wait_for_manager, f->manager));
    }
    assert_ok(gantry_task_remove_reference(last));
    for (int i = 0; i < WAITERS; i++) {
        gy_thread_join(&threads[i]);
    }
    assert_error(gantry_taskman_stop(f->manager), GANTRY_ERR_CYCLE);
    assert_int_equal(released, 3);
    assert_int_equal(stats_of(f->manager).failed, 3);
    assert_ok(gantry_taskman_reset(f->manager));
}

static void test_several_threads_see_a_cycle(void **state)
{
    (void)state;
    gy_thread threads[WAITERS];
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        for (int round = 0; round < 60; round++) {
            wait_for_cycle(&f, threads);
        }
        tear_down(&f);
    }
}

/* The thread that stops the manager gives up names that nobody fills, while others wait. */
static void test_several_threads_see_names_given_up(void **state)
{
    (void)state;
    gy_thread threads[WAITERS];
    struct fixture f = set_up(2);
    for (int round = 0; round < 60; round++) {
        atomic_int released = 0;
        assert_ok(gantry_taskman_start(f.manager));
        for (int i = 0; i < 20; i++) {
            char name[16];
            snprintf(name, sizeof(name), "name %d", i);
            gantry_task *user = add_released(f.manager, &released);
            assert_ok(gantry_task_start_after(user, get_named(f.manager, name)));
            assert_ok(gantry_task_remove_reference(user));
        }
        for (int i = 0; i < WAITERS; i++) {
            assert_ok(gy_thread_start(&threads[i], "waiter", wait_for_manager, f.manager));
        }
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_UNFILLED_NAME);
        assert_int_equal(released, 20);
        for (int i = 0; i < WAITERS; i++) {
            gy_thread_join(&threads[i]);
        }
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

/* ---- what a look costs ------------------------------------------------------------------------- */

enum { HELD = 100 };

/* A thread that walks the graph in search of a stall leaves a number in every task that waits. */
static int count_visited(gantry_task *const *tasks)
{
    int visited = 0;
    for (int i = 0; i < HELD; i++) {
        visited += tasks[i]->scratch != 0;
    }
    return visited;
}

static void run_one_more(gantry_taskman *manager, atomic_int *count)
{
    int before = atomic_load(count);
    assert_ok(gantry_task_remove_reference(add_cpu(manager, NULL, count_body, count)));
    while (atomic_load(count) == before) {
        sched_yield();
    }
}

/* No walk is made after a name was filled late, while one is not filled yet, or after an edge that might
 * have closed a cycle, as long as somebody holds a reference. */
static void test_nobody_walks_the_graph_while_references_are_held(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(2);
    atomic_int count = 0;
    gantry_task *hold = add_sync(f.manager, NULL), *held[HELD];
    assert_ok(gantry_task_add_reference(hold));
    for (int i = 0; i < HELD; i++) {
        held[i] = add_cpu(f.manager, NULL, count_body, &count);
        assert_ok(gantry_task_start_after(held[i], hold));
    }
    assert_ok(gantry_taskman_start(f.manager));
    gantry_task *edges[3];
    for (int i = 0; i < 3; i++) {
        edges[i] = add_cpu(f.manager, NULL, no_body, NULL);
    }
    assert_ok(gantry_task_start_after(edges[1], edges[0]));
    assert_ok(gantry_task_start_after(held[0], edges[2]));
    assert_ok(gantry_task_start_after(edges[2], edges[1]));
    assert_true(f.manager->stall.may_have_cycle); /* as far as a quick look can see */
    for (int i = 0; i < 3; i++) {
        assert_ok(gantry_task_remove_reference(edges[i]));
    }
    get_named(f.manager, "late");
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "waiter", wait_for_manager, f.manager));
    for (int i = 0; i < 300; i++) {
        run_one_more(f.manager, &count);
    }
    assert_ok(gantry_task_remove_reference(add_cpu(f.manager, "late", no_body, NULL)));
    for (int i = 0; i < 300; i++) {
        run_one_more(f.manager, &count);
    }
    assert_int_equal(count_visited(held), 0);
    assert_ok(gantry_task_remove_reference(hold));
    gy_thread_join(&thread);
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 600 + HELD);
    tear_down(&f);
}

static atomic_int quiet_calls;

static uint64_t count_quiet(gantry_dispatcher *self, enum gy_gpu_news news)
{
    (void)self;
    atomic_fetch_add(&quiet_calls, news == GY_GPU_QUIET);
    return 0;
}

static void no_submit(gantry_dispatcher *self, gantry_task *first, gantry_task *last)
{
    (void)self;
    (void)first;
    (void)last;
}

/* Tasks wait for memory: the dispatcher is informed when nothing else goes on, and may ask; that is done
 * without a walk, too. */
static void test_memory_is_waited_for_without_a_walk(void **state)
{
    (void)state;
    struct gpu_fixture f = set_up_gpu(1);
    struct gy_gpu_ops ops = fake_ops;
    ops.tell = count_quiet;
    ops.submit = no_submit; /* they are released here */
    f.fake->base.ops = &ops;
    gantry_taskman *manager = NULL;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = f.base.pool;
    options.gpu_dispatcher = (gantry_dispatcher *)(void *)f.fake;
    assert_ok(gantry_taskman_create(&options, &manager));
    struct gpu_fixture g = {.base = {f.base.pool, manager}, .fake = f.fake};
    gantry_task *gpu[HELD], *after[HELD], *outside = add_sync(manager, NULL);
    atomic_int count = 0;
    assert_ok(gantry_task_add_reference(outside));
    for (int i = 0; i < HELD; i++) {
        gpu[i] = add_gpu(&g, GANTRY_TASK_KERNEL, NULL);
        after[i] = add_cpu(manager, NULL, count_body, &count);
        assert_ok(gantry_task_start_after(after[i], gpu[i]));
    }
    assert_ok(gantry_taskman_start(manager));
    assert_false(gy_taskman_waits_for_memory(manager));
    for (int i = 0; i < HELD; i++) {
        gy_task_hold_back(gpu[i]);
    }
    assert_false(gy_taskman_waits_for_memory(manager)); /* somebody holds a reference */
    assert_ok(gantry_task_remove_reference(outside));
    assert_true(gy_taskman_waits_for_memory(manager));
    gy_thread thread;
    assert_ok(gy_thread_start(&thread, "waiter", wait_for_manager, manager));
    for (int i = 0; i < HELD; i++) {
        while (atomic_load(&quiet_calls) == 0) {
            sched_yield();
        }
        assert_int_equal(count_visited(after), 0);
        atomic_store(&quiet_calls, 0);
        gy_task_let_go(gpu[i]);
        assert_false(gy_taskman_waits_for_memory(manager));
        assert_true(gy_task_begin(gpu[i]));
        release_task(gpu[i], GANTRY_OK);
    }
    gy_thread_join(&thread);
    assert_ok(gantry_taskman_stop(manager));
    assert_int_equal(count, HELD);
    gantry_taskman_destroy(manager);
    f.fake->base.ops = &fake_ops;
    tear_down_gpu(&f);
}

/* ---- too many references given back ------------------------------------------------------------ */

/* A task was let go before a task it depends on: the step ends, and its status says so. */
static void test_a_reference_that_was_not_held_fails_the_step(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        atomic_int count = 0;
        assert_ok(gantry_taskman_start(f.manager));
        gantry_task *first = add_cpu(f.manager, "first", count_body, &count);
        gantry_task *second = add_cpu(f.manager, "second", count_body, &count);
        assert_ok(gantry_task_start_after(second, first));
        assert_ok(gantry_task_remove_reference(second));
        assert_ok(gantry_task_remove_reference(second)); /* this one was the dependency's */
        assert_ok(gantry_task_remove_reference(first));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE);
        assert_last_error_has("'second' failed: it started before what it comes after had ended");
        assert_int_equal(count, 2);
        tear_down(&f);
    }
}

static void test_a_frozen_graph_refuses_references_that_nobody_holds(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0;
    gantry_task *first = add_cpu(f.manager, NULL, count_body, &count);
    gantry_task *second = add_cpu(f.manager, NULL, count_body, &count);
    gantry_task *gate = add_sync(f.manager, NULL);
    assert_ok(gantry_task_start_after(first, gate));
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_task_add_reference(gate));
    assert_ok(gantry_taskman_freeze(f.manager));
    for (int run = 1; run <= 3; run++) {
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_task_add_reference(second));
        assert_ok(gantry_task_remove_reference(second));
        assert_ok(gantry_task_remove_reference(gate));
        assert_error(gantry_task_remove_reference(second), GANTRY_ERR_STATE);
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(count, 2 * run);
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_threads_see_a_cycle),
        cmocka_unit_test(test_several_threads_see_names_given_up),
        cmocka_unit_test(test_nobody_walks_the_graph_while_references_are_held),
        cmocka_unit_test(test_memory_is_waited_for_without_a_walk),
        cmocka_unit_test(test_a_reference_that_was_not_held_fails_the_step),
        cmocka_unit_test(test_a_frozen_graph_refuses_references_that_nobody_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
