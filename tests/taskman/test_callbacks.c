/* SPDX-License-Identifier: MIT */
/* Release callbacks that give references back: a chain of any length needs the same stack. */
#include "tests/taskman/fixture.h"

#include "taskman/gpu_ops.h"

#include <pthread.h>

enum { LENGTH = 20000, STACK_BYTES = 128 * 1024 };

enum how { REMOVE, FAIL };

/* The callback of each task lets the next one go. */
struct chain {
    gantry_task *tasks[LENGTH];
    gantry_taskman *managers[2];
    enum how how;
    int workers;
    atomic_int released, failed;
    gantry_status status; /* of the step */
};

static struct chain chain;

static void release_next(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    ptrdiff_t next = (gantry_task **)arg - chain.tasks + 1;
    atomic_fetch_add(&chain.released, 1);
    atomic_fetch_add(&chain.failed, result != GANTRY_OK);
    if (next == LENGTH) {
        return;
    }
    if (chain.how == FAIL) {
        gy_task_remove_reference_failed(chain.tasks[next], GANTRY_ERR_IO);
    } else {
        gantry_task_remove_reference(chain.tasks[next]);
    }
}

/* `kind` CPU: they never run, since they fail. */
static void build_chain(gantry_task_kind kind, gantry_task_fn run)
{
    for (int i = 0; i < LENGTH; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = kind;
        desc.run = run;
        desc.release = release_next;
        desc.arg = &chain.tasks[i];
        gantry_taskman *manager = chain.managers[1] != NULL ? chain.managers[i % 2] : chain.managers[0];
        assert_ok(gantry_taskman_submit(manager, &desc, &chain.tasks[i]));
        assert_ok(gantry_task_add_reference(chain.tasks[i]));
    }
}

/* Run it on a thread with little stack. */
static void *let_go_of_the_first(void *unused)
{
    if (chain.how == FAIL) {
        gy_task_remove_reference_failed(chain.tasks[0], GANTRY_ERR_IO);
    } else {
        gantry_task_remove_reference(chain.tasks[0]);
    }
    return unused;
}

static void run_chain(struct fixture *f, gantry_task_kind kind, bool is_frozen)
{
    pthread_attr_t attributes;
    pthread_t thread;
    atomic_store(&chain.released, 0);
    atomic_store(&chain.failed, 0);
    chain.managers[0] = f->manager;
    build_chain(kind, kind == GANTRY_TASK_CPU ? count_body : NULL);
    if (is_frozen) {
        assert_ok(gantry_taskman_freeze(f->manager));
    }
    for (int i = 0; i < 2 && chain.managers[i] != NULL; i++) {
        assert_ok(gantry_taskman_start(chain.managers[i]));
    }
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, let_go_of_the_first, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    gantry_status expected = chain.how == FAIL ? GANTRY_ERR_IO : GANTRY_OK;
    for (int i = 0; i < 2 && chain.managers[i] != NULL; i++) {
        assert_int_equal(gantry_taskman_stop(chain.managers[i]), expected);
        assert_ok(gantry_taskman_reset(chain.managers[i]));
    }
    assert_int_equal(chain.released, LENGTH);
    assert_int_equal(chain.failed, chain.how == FAIL ? LENGTH : 0);
}

static void test_callbacks_let_go_of_sync_points_without_end(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        chain.how = REMOVE;
        chain.managers[1] = NULL;
        run_chain(&f, GANTRY_TASK_SYNC_POINT, false);
        run_chain(&f, GANTRY_TASK_SYNC_POINT, true);
        tear_down(&f);
    }
}

static void test_callbacks_fail_tasks_without_end(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        chain.how = FAIL;
        chain.managers[1] = NULL;
        run_chain(&f, GANTRY_TASK_CPU, false);
        run_chain(&f, GANTRY_TASK_SYNC_POINT, true);
        tear_down(&f);
    }
}

/* The same holds when the chain goes to and fro between two managers with pools of their own. */
static void test_callbacks_let_go_of_tasks_of_other_managers(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        gantry_cpu_dispatcher *pool = new_pool(workers, GANTRY_WAIT_DEFAULT);
        chain.how = REMOVE;
        chain.managers[1] = new_manager(pool);
        run_chain(&f, GANTRY_TASK_SYNC_POINT, false);
        gantry_taskman_destroy(chain.managers[1]);
        gantry_cpu_dispatcher_destroy(pool);
        tear_down(&f);
    }
}

/* Everything else that a callback makes ready is queued before it returns. */
struct order {
    gantry_task *sync, *cpu;
    gantry_task_state sync_inside, cpu_inside;
    atomic_int ran;
};

static void release_both(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    struct order *order = arg;
    gantry_task_remove_reference(order->sync);
    gantry_task_remove_reference(order->cpu);
    order->sync_inside = gantry_task_get_state(order->sync);
    order->cpu_inside = gantry_task_get_state(order->cpu);
}

static void test_a_callback_dispatches_tasks_of_others_at_once(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    struct order order = {.ran = 0};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.release = release_both;
    desc.arg = &order;
    order.sync = add_sync(f.manager, NULL);
    order.cpu = add_cpu(f.manager, NULL, count_body, &order.ran);
    assert_ok(gantry_task_add_reference(order.sync));
    assert_ok(gantry_task_add_reference(order.cpu));
    assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(order.sync_inside, GANTRY_TASK_STATE_READY);
    assert_int_equal(order.cpu_inside, GANTRY_TASK_STATE_READY);
    assert_int_equal(gantry_task_get_state(order.sync), GANTRY_TASK_STATE_DONE);
    assert_int_equal(order.ran, 1);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callbacks_let_go_of_sync_points_without_end),
        cmocka_unit_test(test_callbacks_fail_tasks_without_end),
        cmocka_unit_test(test_callbacks_let_go_of_tasks_of_other_managers),
        cmocka_unit_test(test_a_callback_dispatches_tasks_of_others_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
