/* SPDX-License-Identifier: MIT */
/* One task that comes after very many light ones: workers keep references on it for a while, and nobody can
 * tell but by the time that it takes. */
#include "tests/support/deadline.h"
#include "tests/taskman/fixture.h"

enum { MOST = 1 << 13, MEETINGS = 3, ROUNDS = 60 };

static struct {
    struct fixture f;
    gantry_task *meetings[MEETINGS];
    atomic_int met[MEETINGS], made[MEETINGS], ended[MEETINGS]; /* by meeting */
    atomic_int disorder;
    int count;            /* tasks to be made */
    int failing, waiting; /* number of a task that fails, and of one that waits for the meeting; -1: none */
    unsigned seed;
} s;

static void open_scene(uint32_t workers)
{
    memset(&s, 0, sizeof(s));
    s.f = set_up(workers);
    s.failing = s.waiting = -1;
}

static gantry_status meet(gantry_task *task, void *arg)
{
    (void)task;
    const intptr_t nth = (intptr_t)arg;
    atomic_fetch_or(&s.disorder, atomic_load(&s.ended[nth]) != atomic_load(&s.made[nth]));
    atomic_fetch_add(&s.met[nth], 1);
    return GANTRY_OK;
}

/* With one reference, the caller's. */
static void make_meetings(int count)
{
    for (intptr_t i = 0; i < count; i++) {
        assert_ok(gantry_taskman_create_light(s.f.manager, meet, (void *)i, "meeting", NULL, &s.meetings[i]));
    }
}

/* The number of the task is also how far it is down the tree; it counts as ended when it returns. */
static gantry_status node(gantry_task *task, void *arg)
{
    const int i = (int)(intptr_t)arg;
    gantry_status status = GANTRY_OK;
    for (int child = 2 * i + 1; child <= 2 * i + 2 && child < s.count && status == GANTRY_OK; child++) {
        atomic_fetch_add(&s.made[0], 1);
        status = gantry_taskman_spawn(gantry_task_manager(task), node, (void *)(intptr_t)child, "node",
                                      s.meetings[0]);
    }
    atomic_fetch_add(&s.ended[0], 1);
    return i == s.failing ? GANTRY_ERR_NOT_FOUND : status;
}

static void start_tree(int count)
{
    gantry_task *root = NULL;
    s.count = count;
    make_meetings(1);
    atomic_store(&s.made[0], 1);
    assert_ok(gantry_taskman_create_light(s.f.manager, node, NULL, "root", s.meetings[0], &root));
    assert_ok(gantry_task_remove_reference(s.meetings[0]));
    assert_ok(gantry_task_remove_reference(root));
    assert_ok(gantry_taskman_start(s.f.manager));
}

static void test_it_comes_after_a_tree(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 4; workers++) {
        open_scene(workers);
        for (int run = 0; run < 5; run++) {
            start_tree(MOST - 1 - 100 * run);
            assert_ok(gantry_taskman_stop(s.f.manager));
            assert_int_equal(s.met[0], run + 1);
            assert_int_equal(s.disorder, 0);
            atomic_store(&s.ended[0], 0);
            assert_ok(gantry_taskman_reset(s.f.manager));
        }
        tear_down(&s.f);
    }
}

static void test_one_of_them_fails_it(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 3; workers++) {
        open_scene(workers);
        s.failing = MOST / 2 + 77;
        start_tree(MOST - 1);
        assert_int_equal(gantry_taskman_stop(s.f.manager), GANTRY_ERR_NOT_FOUND);
        assert_int_equal(s.met[0], 0);
        assert_int_equal(s.ended[0], MOST - 1);
        tear_down(&s.f);
    }
}

static gantry_status leaf(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add(&s.ended[(intptr_t)arg], 1);
    return GANTRY_OK;
}

static gantry_status waiter(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    deadline_await(atomic_load(&s.met[0]) != 0, "the meeting");
    return GANTRY_OK;
}

/* It makes all of them, is none itself, and does not return before the meeting was held. */
static gantry_status make_and_go_on(gantry_task *task, void *arg)
{
    (void)arg;
    atomic_store(&s.made[0], s.count);
    for (int i = 0; i < s.count; i++) {
        gantry_status status = GANTRY_OK;
        if (i == s.waiting) { /* beside them, in the same queue */
            status = gantry_taskman_spawn(gantry_task_manager(task), waiter, NULL, "waiter", NULL);
        }
        status = status == GANTRY_OK
                     ? gantry_taskman_spawn(gantry_task_manager(task), leaf, NULL, "leaf", s.meetings[0])
                     : status;
        if (status != GANTRY_OK) {
            return status;
        }
    }
    gantry_status status = gantry_task_remove_reference(s.meetings[0]);
    return status == GANTRY_OK && s.waiting < 0 ? waiter(task, NULL) : status;
}

static void test_who_goes_on_delays_nothing(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    s.f = set_up_workers_only(2);
    s.failing = -1;
    for (int round = 0; round < ROUNDS; round++) {
        make_meetings(1);
        s.count = 300 + round;
        s.waiting = round % 3 == 0 ? -1 : (round * 37) % s.count;
        atomic_store(&s.met[0], 0);
        atomic_store(&s.ended[0], 0);
        assert_non_null(add_cpu(s.f.manager, "maker", make_and_go_on, NULL));
        assert_ok(gantry_taskman_start(s.f.manager));
        assert_ok(gantry_taskman_stop(s.f.manager));
        assert_int_equal(s.met[0], 1);
        assert_int_equal(s.disorder, 0);
        assert_ok(gantry_taskman_reset(s.f.manager));
    }
    tear_down(&s.f);
}

/* Tasks of several meetings are made in turn, or some at a time. */
static gantry_status make_for_several(gantry_task *task, void *arg)
{
    (void)arg;
    gantry_status status = GANTRY_OK;
    intptr_t nth = 0;
    for (int i = 0; i < s.count && status == GANTRY_OK; i++) {
        s.seed = s.seed * 1103515245u + 12345u;
        nth = (s.seed >> 16) % 4 == 0 ? (nth + 1) % MEETINGS : nth;
        atomic_fetch_add(&s.made[nth], 1);
        status = gantry_taskman_spawn(gantry_task_manager(task), leaf, (void *)nth, "leaf", s.meetings[nth]);
    }
    for (int i = 0; i < MEETINGS && status == GANTRY_OK; i++) {
        status = gantry_task_remove_reference(s.meetings[i]);
    }
    return status;
}

static void test_several_of_them(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 3; workers++) {
        open_scene(workers);
        make_meetings(MEETINGS);
        s.count = 3000;
        s.seed = workers;
        assert_non_null(add_cpu(s.f.manager, "maker", make_for_several, NULL));
        assert_ok(gantry_taskman_start(s.f.manager));
        assert_ok(gantry_taskman_stop(s.f.manager));
        for (int i = 0; i < MEETINGS; i++) {
            assert_int_equal(s.met[i], 1);
            assert_int_equal(s.ended[i], s.made[i]);
        }
        assert_int_equal(s.disorder, 0);
        tear_down(&s.f);
    }
}

static gantry_status cancel_and_end(gantry_task *task, void *arg)
{
    atomic_fetch_add(&s.ended[0], 1);
    return arg != NULL ? gantry_taskman_cancel(gantry_task_manager(task)) : GANTRY_OK;
}

static gantry_status make_and_cancel(gantry_task *task, void *arg)
{
    (void)arg;
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < s.count && status == GANTRY_OK; i++) {
        status = gantry_taskman_spawn(gantry_task_manager(task), cancel_and_end, i == s.count / 2 ? &s : NULL,
                                      "leaf", s.meetings[0]);
    }
    const gantry_status left = gantry_task_remove_reference(s.meetings[0]);
    return status == GANTRY_OK ? left : status;
}

static void test_it_ends_in_a_cancelled_run(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers <= 3; workers++) {
        open_scene(workers);
        make_meetings(1);
        s.count = 2000;
        assert_non_null(add_cpu(s.f.manager, "maker", make_and_cancel, NULL));
        assert_ok(gantry_taskman_start(s.f.manager));
        assert_int_equal(gantry_taskman_stop(s.f.manager), GANTRY_ERR_CANCELLED);
        assert_int_equal(s.met[0], 0);
        assert_int_equal(gantry_task_get_state(s.meetings[0]), GANTRY_TASK_STATE_FAILED);
        tear_down(&s.f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_comes_after_a_tree),      cmocka_unit_test(test_one_of_them_fails_it),
        cmocka_unit_test(test_who_goes_on_delays_nothing), cmocka_unit_test(test_several_of_them),
        cmocka_unit_test(test_it_ends_in_a_cancelled_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
