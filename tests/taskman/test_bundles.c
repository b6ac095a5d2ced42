/* SPDX-License-Identifier: MIT */
/* A body makes many tasks: other workers get them several at a time, each task runs once, and none is
 * kept. */
#include "tests/support/stops.h"
#include "tests/taskman/fixture.h"

#include "taskman/cpu/pool.h"

#include <pthread.h>

enum { MOST = 20000 };

/* The tasks that a body makes, in this order, and the order in which they run. */
struct fan {
    int count;
    int cancels_at;       /* after so many have run, one cancels, which later ones wait for; 0: none does */
    atomic_int cancelled; /* it has */
    atomic_int ran, gate; /* the first leaf waits for `gate` to be 0 */
    atomic_int ends;      /* tasks before and behind the leaves that have run */
    atomic_int awaited;   /* the task before waits for this to be 0 */
    struct leaf {
        struct fan *fan;
        atomic_int runs;
        int turn; /* the number of the task */
    } leaves[MOST];
};

static gantry_status leaf_body(gantry_task *task, void *arg)
{
    struct leaf *leaf = arg;
    struct fan *of = leaf->fan;
    atomic_fetch_add(&leaf->runs, 1);
    while (leaf == &of->leaves[0] && atomic_load(&of->gate) != 0) {
        sched_yield();
    }
    leaf->turn = atomic_fetch_add(&of->ran, 1);
    gantry_status status = GANTRY_OK;
    if (leaf->turn + 1 == of->cancels_at) {
        status = gantry_taskman_cancel(gantry_task_manager(task));
        atomic_store(&of->cancelled, 1);
    }
    while (of->cancels_at != 0 && leaf->turn + 1 > of->cancels_at && atomic_load(&of->cancelled) == 0) {
        sched_yield();
    }
    return status;
}

static gantry_status fan_out(gantry_task *task, struct fan *out)
{
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < out->count && status == GANTRY_OK; i++) {
        out->leaves[i].fan = out;
        status = gantry_taskman_spawn(manager, leaf_body, &out->leaves[i], "leaf", NULL);
    }
    return status;
}

static gantry_status fan_body(gantry_task *task, void *arg)
{
    return fan_out(task, arg);
}

/* A body that computes until all the tasks it has made have run. */
static gantry_status fan_and_stay(gantry_task *task, void *arg)
{
    struct fan *out = arg;
    gantry_status status = fan_out(task, out);
    while (atomic_load(&out->ran) < out->count) {
        sched_yield();
    }
    return status;
}

static gantry_status fan_and_exit(gantry_task *task, void *arg)
{
    if (fan_out(task, arg) == GANTRY_OK) {
        pthread_exit(NULL);
    }
    return GANTRY_OK;
}

static struct fan fan;

static void add_fan(struct fixture *f, gantry_task_fn run, int count)
{
    memset(&fan, 0, sizeof(fan));
    fan.count = count;
    add_cpu(f->manager, NULL, run, &fan);
}

static void check_all_ran_once(void)
{
    for (int i = 0; i < fan.count; i++) {
        assert_int_equal(fan.leaves[i].runs, 1);
    }
}

static const int counts[] = {1, 31, 32, 33, 34, 39, 40, 41, 55, 56, 57, 87, 88, 89, 500, MOST};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

static void test_each_runs_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        struct fixture f = workers % 2 != 0 ? set_up(workers) : set_up_workers_only(workers);
        for (int i = 0; i < COUNTS; i++) {
            add_fan(&f, fan_body, counts[i]);
            assert_ok(gantry_taskman_start(f.manager));
            assert_ok(gantry_taskman_stop(f.manager));
            check_all_ran_once();
            assert_ok(gantry_taskman_reset(f.manager));
        }
        tear_down(&f);
    }
}

/* Without bundles, the task that was made last runs first; it is the same here. */
static void test_one_worker_runs_them_from_the_last(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    add_fan(&f, fan_body, 1000);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    for (int i = 0; i < fan.count; i++) {
        assert_int_equal(fan.leaves[i].turn, fan.count - 1 - i);
    }
    tear_down(&f);
}

/* The other worker gets all tasks, though the body neither makes more nor ends. */
static void test_a_body_that_computes_on_keeps_none(void **state)
{
    (void)state;
    static const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE,
                                             GANTRY_WAIT_SPIN, GANTRY_WAIT_YIELD};
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        gantry_cpu_dispatcher *pool = new_pool(2, modes[m]);
        struct fixture f = {pool, new_manager_with(pool, true)};
        for (int i = 0; i < COUNTS - 1; i++) {
            add_fan(&f, fan_and_stay, counts[i]);
            assert_ok(gantry_taskman_start(f.manager));
            deadline_begin("tasks of a body that computes on");
            assert_ok(gantry_taskman_stop(f.manager));
            deadline_end();
            check_all_ran_once();
            assert_ok(gantry_taskman_reset(f.manager));
        }
        tear_down(&f);
    }
}

static void test_they_go_on_when_the_body_exits(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(2);
    for (int i = 0; i < COUNTS; i++) {
        add_fan(&f, fan_and_exit, counts[i]);
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_STATE);
        check_all_ran_once();
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

/* Tasks that are reported as failed have not run, and all others have. */
static void test_a_cancelled_one_has_not_run(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        struct fixture f = set_up_workers_only(workers);
        add_fan(&f, fan_body, MOST);
        fan.cancels_at = 100;
        assert_ok(gantry_taskman_start(f.manager));
        assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_CANCELLED);
        uint64_t have_run = 0;
        for (int i = 0; i < MOST; i++) {
            assert_in_range(fan.leaves[i].runs, 0, 1);
            have_run += (uint64_t)fan.leaves[i].runs;
        }
        gantry_taskman_stats stats = stats_of(f.manager);
        assert_int_equal(stats.tasks, MOST + 1);
        assert_int_equal(stats.released, MOST + 1);
        assert_int_equal(stats.failed, MOST - have_run);
        assert_in_range(have_run, 100, MOST);
        tear_down(&f);
    }
}

/* A worker has closed a bundle, which is in no queue yet.  Meanwhile the other worker looks, finds nothing,
 * and sleeps. */
static void test_a_closed_bundle_wakes_workers_that_have_not_seen_it(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = new_pool(2, GANTRY_WAIT_BLOCK);
    struct fixture f = {pool, new_manager_with(pool, true)};
    add_fan(&f, fan_and_stay, 40);
    atomic_store(&fan.gate, 1);
    deadline_await(atomic_load(&pool->events.work.sleepers) == 2, "both workers to sleep");
    for (int w = 0; w < 2; w++) {
        stops_arm(w, GY_POINT_WORKER_BUNDLED, &pool->workers[w]); /* one of them comes to this point */
    }
    assert_ok(gantry_taskman_start(f.manager));
    deadline_await(atomic_load(&stops[0].inside) + atomic_load(&stops[1].inside) == 1, "a closed bundle");
    atomic_store(&fan.gate, 0);
    deadline_await(atomic_load(&fan.ran) == 32 && atomic_load(&pool->events.work.sleepers) == 1,
                   "the other worker to sleep");
    stops_go(0);
    stops_go(1);
    deadline_begin("the tasks of a bundle");
    assert_ok(gantry_taskman_stop(f.manager));
    deadline_end();
    gy_point_hook(NULL);
    check_all_ran_once();
    tear_down(&f);
}

/* ---- successors ------------------------------------------------------------------------------ */

static gantry_status end_body(gantry_task *task, void *arg)
{
    struct fan *of = arg;
    (void)task;
    while (atomic_load(&of->awaited) != 0) {
        sched_yield();
    }
    atomic_fetch_add(&of->ends, 1);
    return GANTRY_OK;
}

/* One task of a frozen graph comes before many others, and one behind them. */
static void freeze_fan(struct fixture *f, int count, gantry_task **leaves)
{
    memset(&fan, 0, sizeof(fan));
    fan.count = count;
    gantry_task *first = add_cpu(f->manager, NULL, end_body, &fan);
    gantry_task *last = add_cpu(f->manager, NULL, end_body, &fan);
    for (int i = 0; i < count; i++) {
        fan.leaves[i].fan = &fan;
        leaves[i] = add_cpu(f->manager, NULL, leaf_body, &fan.leaves[i]);
        assert_ok(gantry_task_start_after(leaves[i], first));
        assert_ok(gantry_task_start_after(last, leaves[i]));
    }
    assert_ok(gantry_taskman_freeze(f->manager));
}

static void test_successors_run_once(void **state)
{
    (void)state;
    static gantry_task *leaves[MOST];
    static const int widths[] = {2, 7, 8, 9, 63, 64, 65, 255, 1000, 1024, 1025, 1026, 3000};
    for (uint32_t workers = 1; workers <= 4; workers++) {
        for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
            struct fixture f = workers % 2 != 0 ? set_up(workers) : set_up_workers_only(workers);
            freeze_fan(&f, widths[w], leaves);
            assert_ok(gantry_taskman_run(f.manager, 5));
            for (int i = 0; i < fan.count; i++) {
                assert_int_equal(fan.leaves[i].runs, 5);
            }
            assert_int_equal(fan.ends, 10);
            atomic_store(&fan.ran, 0);
            fan.cancels_at = widths[w] / 2;
            assert_error(gantry_taskman_run(f.manager, 1), GANTRY_ERR_CANCELLED);
            assert_int_equal(fan.ends, 11);
            for (int i = 0; i < fan.count; i++) {
                bool has_run = gantry_task_get_state(leaves[i]) == GANTRY_TASK_STATE_DONE;
                assert_int_equal(fan.leaves[i].runs, has_run ? 6 : 5);
                assert_true(has_run || gantry_task_result(leaves[i]) == GANTRY_ERR_CANCELLED);
            }
            tear_down(&f);
        }
    }
}

static gantry_status stay_body(gantry_task *task, void *arg)
{
    (void)task;
    struct fan *of = arg;
    atomic_store(&of->awaited, 0);
    while (atomic_load(&of->ran) < of->count) {
        sched_yield();
    }
    return GANTRY_OK;
}

/* One of two workers is busy: the other runs the successors in the order in which they were declared. */
static void test_a_worker_keeps_the_order_of_successors(void **state)
{
    (void)state;
    static gantry_task *leaves[MOST];
    struct fixture f = set_up_workers_only(2);
    add_cpu(f.manager, NULL, stay_body, &fan);
    freeze_fan(&f, 60, leaves);
    atomic_store(&fan.awaited, 1);
    assert_ok(gantry_taskman_run(f.manager, 1));
    for (int i = 0; i < fan.count; i++) {
        assert_int_equal(fan.leaves[i].turn, i);
    }
    tear_down(&f);
}

/* Makes as many tasks as go to the deque one by one, and one more when all others sleep. */
static gantry_status fan_when_all_sleep(gantry_task *task, void *arg)
{
    struct fan *out = arg;
    gantry_cpu_dispatcher *pool = gy_worker_current->pool;
    out->count = GY_BUNDLE_BEHIND;
    gantry_status status = fan_out(task, out);
    while (atomic_load(&out->ran) < out->count || atomic_load(&pool->events.work.sleepers) == 0) {
        sched_yield();
    }
    struct leaf *last = &out->leaves[out->count++];
    last->fan = out;
    status = status == GANTRY_OK
                 ? gantry_taskman_spawn(gantry_task_manager(task), leaf_body, last, "last", NULL)
                 : status;
    while (atomic_load(&out->ran) < out->count) {
        sched_yield();
    }
    return status;
}

static void test_the_first_of_a_bundle_wakes_a_worker(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(2);
    for (int i = 0; i < 20; i++) {
        add_fan(&f, fan_when_all_sleep, 0);
        assert_ok(gantry_taskman_start(f.manager));
        deadline_begin("a task that nobody looks for");
        assert_ok(gantry_taskman_stop(f.manager));
        deadline_end();
        assert_int_equal(fan.count, GY_BUNDLE_BEHIND + 1);
        check_all_ran_once();
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_runs_once),
        cmocka_unit_test(test_one_worker_runs_them_from_the_last),
        cmocka_unit_test(test_a_body_that_computes_on_keeps_none),
        cmocka_unit_test(test_they_go_on_when_the_body_exits),
        cmocka_unit_test(test_a_cancelled_one_has_not_run),
        cmocka_unit_test(test_a_closed_bundle_wakes_workers_that_have_not_seen_it),
        cmocka_unit_test(test_the_first_of_a_bundle_wakes_a_worker),
        cmocka_unit_test(test_successors_run_once),
        cmocka_unit_test(test_a_worker_keeps_the_order_of_successors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
