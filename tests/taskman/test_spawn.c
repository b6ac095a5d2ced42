/* SPDX-License-Identifier: MIT */
/* Light tasks that bodies make: they take no lock of the manager, and their handle stays good. */
#include "tests/support/deadline.h"
#include "tests/taskman/fixture.h"

#include "taskman/manager.h"

enum { DEPTH = 8, NODES = (2 << DEPTH) - 1 };

/* A tree whose nodes make their children, and a join for each. */
struct tree {
    atomic_int forked, joined, failed_joins;
    int failing; /* the node whose body fails; -1: none does */
    gantry_task *joins[NODES];
    struct node {
        struct tree *tree;
        int index;
    } nodes[NODES];
};

static gantry_status join_body(gantry_task *task, void *arg)
{
    (void)task;
    const struct node *node = arg;
    atomic_fetch_add(&node->tree->joined, 1);
    return GANTRY_OK;
}

static gantry_status fork_body(gantry_task *task, void *arg)
{
    struct node *node = arg;
    struct tree *tree = node->tree;
    int i = node->index;
    atomic_fetch_add(&tree->forked, 1);
    if (i == tree->failing) {
        return GANTRY_ERR_NOT_FOUND;
    }
    if (2 * i + 2 >= NODES) {
        return GANTRY_OK;
    }
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_status status = gantry_taskman_create_light(
        manager, join_body, node, "join", i == 0 ? NULL : tree->joins[(i - 1) / 2], &tree->joins[i]);
    for (int child = 2 * i + 1; child <= 2 * i + 2 && status == GANTRY_OK; child++) {
        status = gantry_taskman_spawn(manager, fork_body, &tree->nodes[child], "fork", tree->joins[i]);
    }
    return status == GANTRY_OK ? gantry_task_remove_reference(tree->joins[i]) : status;
}

static void grow(struct fixture *f, struct tree *tree, int failing)
{
    memset(tree, 0, sizeof(*tree));
    tree->failing = failing;
    for (int i = 0; i < NODES; i++) {
        tree->nodes[i] = (struct node){tree, i};
    }
    gantry_task *root = NULL;
    assert_ok(gantry_taskman_create_light(f->manager, fork_body, &tree->nodes[0], "root", NULL, &root));
    assert_ok(gantry_task_remove_reference(root));
}

static void test_a_tree_with_joins(void **state)
{
    (void)state;
    static struct tree tree;
    for (uint32_t workers = 0; workers <= 4; workers += 2) {
        struct fixture f = set_up(workers);
        for (int step = 0; step < 3; step++) {
            grow(&f, &tree, -1);
            assert_ok(gantry_taskman_start(f.manager));
            if (step == 1) {
                assert_ok(gantry_taskman_wait(f.manager)); /* perhaps it is in the other epoch */
            }
            assert_ok(gantry_taskman_stop(f.manager));
            assert_int_equal(tree.forked, NODES);
            assert_int_equal(tree.joined, NODES / 2);
            assert_int_equal(stats_of(f.manager).tasks, NODES + NODES / 2);
            for (int i = 0; 2 * i + 2 < NODES; i++) {
                assert_int_equal(gantry_task_get_state(tree.joins[i]), GANTRY_TASK_STATE_DONE);
                assert_string_equal(gantry_task_label(tree.joins[i]), "join");
            }
            assert_ok(gantry_taskman_reset(f.manager));
        }
        tear_down(&f);
    }
}

/* The joins up to the root fail with a leaf, all others are DONE. */
static void test_a_failed_leaf_fails_its_joins(void **state)
{
    (void)state;
    static struct tree tree;
    struct fixture f = set_up(3);
    grow(&f, &tree, NODES - 1);
    assert_ok(gantry_taskman_start(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_NOT_FOUND);
    assert_int_equal(tree.forked, NODES);
    assert_int_equal(tree.joined, NODES / 2 - DEPTH);
    for (int i = (NODES - 2) / 2;; i = (i - 1) / 2) {
        assert_int_equal(gantry_task_get_state(tree.joins[i]), GANTRY_TASK_STATE_FAILED);
        assert_int_equal(gantry_task_result(tree.joins[i]), GANTRY_ERR_TASK_FAILED);
        if (i == 0) {
            break;
        }
    }
    tear_down(&f);
}

/* ---- without a lock ------------------------------------------------------------------------------ */

struct scene {
    atomic_int phase;
    atomic_int ran;
};

static gantry_status make_two(gantry_task *task, void *arg)
{
    struct scene *scene = arg;
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_task *made[2] = {NULL};
    /* its place */
    gantry_status status = gantry_taskman_spawn(manager, count_body, &scene->ran, NULL, NULL);
    atomic_store(&scene->phase, 1);
    while (atomic_load(&scene->phase) == 1) {
        sched_yield();
    }
    for (int i = 0; i < 2 && status == GANTRY_OK; i++) {
        status = gantry_taskman_create_light(manager, count_body, &scene->ran, NULL, made[0], &made[i]);
    }
    for (int i = 0; i < 2 && status == GANTRY_OK; i++) {
        status = gantry_task_remove_reference(made[i]);
    }
    atomic_store(&scene->phase, 3);
    return status;
}

static void test_bodies_make_light_tasks_without_the_lock(void **state)
{
    (void)state;
    struct scene scene = {.phase = 0};
    struct fixture f = set_up_workers_only(2);
    add_cpu(f.manager, NULL, make_two, &scene);
    assert_ok(gantry_taskman_start(f.manager));
    deadline_await(atomic_load(&scene.phase) == 1, "a body");
    gy_fast_lock_take(&f.manager->lock);
    atomic_store(&scene.phase, 2);
    deadline_await(atomic_load(&scene.phase) == 3, "a body that makes light tasks");
    gy_fast_lock_give(&f.manager->lock);
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(scene.ran, 3);
    tear_down(&f);
}

/* ---- errors ---------------------------------------------------------------------------------------- */

static gantry_status come_too_late(gantry_task *task, void *arg)
{
    gantry_task *light = NULL;
    gantry_status status =
        gantry_taskman_create_light(gantry_task_manager(task), count_body, arg, "late", task, &light);
    return status == GANTRY_ERR_LATE_DEPENDENCY && light == NULL ? GANTRY_OK : GANTRY_ERR_NOT_FOUND;
}

static gantry_status run_out_of_memory(gantry_task *task, void *arg)
{
    gantry_task *light = NULL;
    gy_fault_arm(0);
    gantry_status status =
        gantry_taskman_create_light(gantry_task_manager(task), count_body, arg, "none", NULL, &light);
    gy_fault_arm(-1);
    return status == GANTRY_ERR_OUT_OF_HOST_MEMORY && light == NULL ? GANTRY_OK : GANTRY_ERR_NOT_FOUND;
}

static void test_what_cannot_be_made_is_told(void **state)
{
    (void)state;
    atomic_int ran = 0;
    struct fixture f = set_up_workers_only(1);
    add_cpu(f.manager, NULL, run_out_of_memory, &ran);
    add_cpu(f.manager, NULL, come_too_late, &ran);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(ran, 0);
    tear_down(&f);
}

/* One body gives back many references, which are counted off and not mentioned in between. */
static gantry_status give_back_many(gantry_task *task, void *arg)
{
    enum { MANY = 70000 };
    gantry_task *light = NULL;
    gantry_status status =
        gantry_taskman_create_light(gantry_task_manager(task), count_body, arg, NULL, NULL, &light);
    for (int i = 0; i < MANY && status == GANTRY_OK; i++) {
        status = gantry_task_add_reference(light);
    }
    for (int i = 0; i <= MANY && status == GANTRY_OK; i++) {
        status = gantry_task_remove_reference(light);
    }
    return status;
}

static void test_many_references_are_given_back(void **state)
{
    (void)state;
    atomic_int ran = 0;
    struct fixture f = set_up_workers_only(2);
    add_cpu(f.manager, NULL, give_back_many, &ran);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(ran, 1);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tree_with_joins),
        cmocka_unit_test(test_a_failed_leaf_fails_its_joins),
        cmocka_unit_test(test_bodies_make_light_tasks_without_the_lock),
        cmocka_unit_test(test_what_cannot_be_made_is_told),
        cmocka_unit_test(test_many_references_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
