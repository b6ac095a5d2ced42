/* SPDX-License-Identifier: MIT */
/* The pool of workers: large graphs on a small stack, sleeping and waking, names, spans, limits. */
#include "tests/taskman/fixture.h"

#include "base/sanitizers.h"
#include "base/span.h"
#include "base/thread.h"

#if GY_WITH_TSAN
enum { MANY = 60000 }; /* the depth of the stack matters here, and that build shows it as well */
#else
enum { MANY = 1000000 };
#endif

static atomic_int runs;

static gantry_status run_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed);
    return GANTRY_OK;
}

enum shape { INDEPENDENT, CHAIN, FAN_OUT, FAN_IN };

static void check_many(uint32_t workers, enum shape shape, bool sync_points)
{
    struct fixture f = set_up(workers);
    atomic_store(&runs, 0);
    gantry_task *first = NULL, *last = NULL;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run_body;
    int count = MANY / (shape == CHAIN ? 1 : 2);
    for (int i = 0; i < count; i++) {
        desc.kind = sync_points && i % 2 == 1 ? GANTRY_TASK_SYNC_POINT : GANTRY_TASK_CPU;
        gantry_task *task = NULL;
        if (gantry_taskman_submit(f.manager, &desc, &task) != GANTRY_OK) {
            fail_msg("submit: %s", gantry_last_error());
        }
        gantry_task *before = shape == CHAIN ? last : shape == FAN_OUT ? first : NULL;
        if (before != NULL && gantry_task_start_after(task, before) != GANTRY_OK) {
            fail_msg("edge: %s", gantry_last_error());
        }
        if (shape == FAN_IN && first != NULL && gantry_task_start_after(first, task) != GANTRY_OK) {
            fail_msg("edge: %s", gantry_last_error());
        }
        last = task;
        first = first == NULL ? task : first;
    }
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(runs, sync_points ? count / 2 : count);
    tear_down(&f);
}

static void test_a_million_tasks_in_a_chain(void **state)
{
    (void)state;
    check_many(1, CHAIN, false);
    check_many(0, CHAIN, true);
}

static void test_half_a_million_dependents_of_one_task(void **state)
{
    (void)state;
    check_many(2, FAN_OUT, false);
    check_many(1, FAN_OUT, true);
}

static void test_half_a_million_predecessors_of_one_task(void **state)
{
    (void)state;
    check_many(2, FAN_IN, false);
}

static void test_half_a_million_independent_tasks(void **state)
{
    (void)state;
    check_many(2, INDEPENDENT, false);
    check_many(0, INDEPENDENT, true);
}

/* Tasks come one by one, so that workers fall asleep in between: none may be missed. */
static void test_no_wake_up_is_lost(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_YIELD};
    for (int m = 0; m < 3; m++) {
        gantry_cpu_dispatcher *pool = new_pool(3, modes[m]);
        struct fixture f = {pool, new_manager(pool)};
        atomic_store(&runs, 0);
        assert_ok(gantry_taskman_start(f.manager));
        for (int i = 0; i < 3000; i++) {
            gantry_task *task = add_cpu(f.manager, NULL, run_body, NULL);
            assert_ok(gantry_task_remove_reference(task));
            if (i % 3 == 0) {
                assert_ok(gantry_taskman_wait(f.manager));
                assert_int_equal(runs, i + 1);
            }
        }
        assert_ok(gantry_taskman_stop(f.manager));
        tear_down(&f);
    }
}

/* Two tasks need each other to be running: a task that is put aside for later would hang here. */
static gantry_status spawn_body(gantry_task *task, void *arg)
{
    gantry_task *child = NULL;
    gantry_status status =
        gantry_taskman_create_light(gantry_task_manager(task), meet_body, arg, "child", NULL, &child);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_task_remove_reference(child);
    return meet_body(task, arg);
}

/* The same through a sync point, which is released inside of the body. */
static gantry_status spawn_by_sync_point_body(gantry_task *task, void *arg)
{
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_task_desc child = GANTRY_TASK_DESC_INIT, gate = GANTRY_TASK_DESC_INIT;
    child.run = meet_body;
    child.arg = arg;
    gate.kind = GANTRY_TASK_SYNC_POINT;
    gantry_task *made[2] = {NULL};
    gantry_status status = gantry_taskman_submit(manager, &child, &made[0]);
    status = status == GANTRY_OK ? gantry_taskman_submit(manager, &gate, &made[1]) : status;
    status = status == GANTRY_OK ? gantry_task_start_after(made[0], made[1]) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_task_remove_reference(made[0]);
    gantry_task_remove_reference(made[1]);
    return meet_body(task, arg);
}

static void test_a_task_made_by_a_running_one_is_taken_by_others(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct fixture f = set_up(2);
        struct meeting meeting = {.size = 2};
        add_cpu(f.manager, "parent", i % 2 == 0 ? spawn_body : spawn_by_sync_point_body, &meeting);
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(meeting.arrived, 2);
        tear_down(&f);
    }
}

static gantry_status name_body(gantry_task *task, void *arg)
{
    (void)task;
    const char *name = gy_thread_name();
    snprintf(arg, 32, "%s", name != NULL ? name : "none");
    return GANTRY_OK;
}

static void test_workers_have_names_and_a_number(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    char name[32] = "";
    add_cpu(f.manager, NULL, name_body, name);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_string_equal(name, "gantry worker 0");
    assert_int_equal(gantry_cpu_dispatcher_worker_count(f.pool), 1);
    tear_down(&f);
    gantry_cpu_dispatcher *pool = NULL;
    assert_ok(gantry_cpu_dispatcher_create(NULL, &pool));
    assert_true(gantry_cpu_dispatcher_worker_count(pool) >= 1);
    gantry_cpu_dispatcher_destroy(pool);
    f = set_up(0);
    assert_int_equal(gantry_cpu_dispatcher_worker_count(f.pool), 0);
    tear_down(&f);
}

struct spans {
    struct gy_span_sink sink;
    atomic_int count;
    char name[32]; /* the only worker writes it, and it is read after stop */
    uint64_t id;
    bool in_order;
};

static void emit(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                 uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    struct spans *spans = (struct spans *)self;
    if (category == GY_SPAN_TASK) {
        atomic_fetch_add(&spans->count, 1);
        snprintf(spans->name, sizeof(spans->name), "%s", name);
        spans->id = id;
        spans->in_order = begin_ns <= end_ns;
    }
}

static void test_bodies_are_spans_with_label_and_context_id(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct spans spans = {.sink = {.emit = emit}};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run_body;
    desc.label = "shown";
    desc.context_id = 42;
    assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    add_sync(f.manager, "no body, no span");
    gy_span_set_sink(&spans.sink);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    gy_span_set_sink(NULL);
    assert_int_equal(spans.count, 1);
    assert_string_equal(spans.name, "shown");
    assert_int_equal(spans.id, 42);
    assert_true(spans.in_order);
    tear_down(&f);
}

enum { OTHERS = 100 };

/* Makes itself ready again until all others have run. */
static gantry_status endless_body(gantry_task *task, void *arg)
{
    return atomic_load((atomic_int *)arg) == OTHERS
               ? GANTRY_OK
               : gantry_taskman_spawn(gantry_task_manager(task), endless_body, arg, NULL, NULL);
}

static gantry_status pass_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_status again_body(gantry_task *task, void *arg)
{
    return atomic_load((atomic_int *)arg) == OTHERS ? GANTRY_OK : gantry_task_choose(task, 0);
}

/* Submit the tasks; returns the first of them. */
static gantry_task *add_endless(gantry_taskman *manager, bool is_loop, atomic_int *count)
{
    if (!is_loop) {
        return add_cpu(manager, NULL, endless_body, count);
    }
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = again_body;
    desc.arg = count;
    desc.is_condition = true;
    gantry_task *begin = add_cpu(manager, NULL, pass_body, NULL);
    gantry_task *middle = add_cpu(manager, NULL, pass_body, NULL), *end = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &end));
    assert_ok(gantry_task_start_after(middle, begin));
    assert_ok(gantry_task_start_after(end, middle));
    assert_ok(gantry_task_start_after(middle, end));
    return begin;
}

enum late { OF_THE_STEP, AFTER_THE_FIRST, OF_ANOTHER_STEP, SUBMITTED, LATE_WAYS };

/* The only worker always has a task of its own; others have their turn all the same. */
static void check_busy(uint32_t workers, enum late late, int way)
{
    bool is_loop = (way & 4) != 0, is_frozen = (way & 2) != 0, workers_only = (way & 1) != 0;
    gantry_cpu_dispatcher *pool = new_pool(workers, GANTRY_WAIT_DEFAULT);
    struct fixture f = {pool, new_manager_with(pool, workers_only)};
    gantry_taskman *other = new_manager_with(pool, workers_only);
    atomic_int count = 0;
    gantry_task *first = add_endless(f.manager, is_loop, &count);
    for (int i = 0; i < OTHERS && late != SUBMITTED; i++) {
        gantry_task *task = add_cpu(late < OF_ANOTHER_STEP ? f.manager : other, NULL, count_body, &count);
        assert_ok(late == AFTER_THE_FIRST ? gantry_task_start_after(task, first) : GANTRY_OK);
    }
    assert_ok(is_loop || is_frozen ? gantry_taskman_freeze(f.manager) : GANTRY_OK);
    assert_ok(is_frozen ? gantry_taskman_freeze(other) : GANTRY_OK);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_start(other));
    for (int i = 0; i < OTHERS && late == SUBMITTED; i++) {
        assert_ok(gantry_task_remove_reference(add_cpu(other, NULL, count_body, &count)));
    }
    assert_ok(gantry_taskman_stop(f.manager));
    assert_ok(gantry_taskman_stop(other));
    assert_int_equal(count, OTHERS);
    gantry_taskman_destroy(other);
    tear_down(&f);
}

static void test_who_feeds_itself_does_not_starve_others(void **state)
{
    (void)state;
    for (int way = 0; way < LATE_WAYS * 8; way++) {
        check_busy(1, (enum late)(way / 8), way);
        check_busy(0, (enum late)(way / 8), way);
    }
}

/* Two threads are in wait() and stop() of managers on one inline pool, and each runs the tasks that it
 * finds. */
struct inline_waiter {
    gantry_taskman *manager;
    gantry_status status; /* only this thread uses it; it is read after the join */
};

static void stop_inline(void *arg)
{
    struct inline_waiter *self = arg;
    self->status = gantry_taskman_stop(self->manager);
}

static void test_two_threads_wait_inline(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct fixture f = set_up(0);
        gantry_taskman *other = new_manager(f.pool);
        atomic_store(&runs, 0);
        gantry_taskman *managers[] = {f.manager, other};
        for (int m = 0; m < 2; m++) {
            gantry_task *last = NULL;
            for (int i = 0; i < 60; i++) {
                gantry_task *task = add_cpu(managers[m], NULL, run_body, NULL);
                if (last != NULL && i % 4 != 0) {
                    assert_ok(gantry_task_start_after(task, last));
                }
                last = task;
            }
            assert_ok(gantry_taskman_start(managers[m]));
        }
        struct inline_waiter waiter = {.manager = other};
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "waiter", stop_inline, &waiter));
        assert_ok(gantry_taskman_stop(f.manager));
        gy_thread_join(&thread);
        assert_int_equal(waiter.status, GANTRY_OK);
        assert_int_equal(runs, 120);
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

static void test_expected_tasks_are_taken_at_once(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pool = new_pool(0, GANTRY_WAIT_DEFAULT);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = pool;
    options.expected_tasks = 10000;
    struct fixture f = {pool, NULL};
    assert_ok(gantry_taskman_create(&options, &f.manager));
    uint64_t bytes = stats_of(f.manager).memory_bytes;
    assert_in_range(bytes, 10000 * 128, 10000 * 128 + 4096);
    long live = gy_alloc_live();
    for (int i = 0; i < 10000; i++) {
        add_sync(f.manager, NULL);
    }
    assert_int_equal(gy_alloc_live(), live);
    assert_int_equal(stats_of(f.manager).memory_bytes, bytes);
    add_sync(f.manager, NULL); /* one more than expected */
    assert_true(stats_of(f.manager).memory_bytes > bytes);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_tasks_in_a_chain),
        cmocka_unit_test(test_half_a_million_dependents_of_one_task),
        cmocka_unit_test(test_half_a_million_predecessors_of_one_task),
        cmocka_unit_test(test_half_a_million_independent_tasks),
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_a_task_made_by_a_running_one_is_taken_by_others),
        cmocka_unit_test(test_workers_have_names_and_a_number),
        cmocka_unit_test(test_bodies_are_spans_with_label_and_context_id),
        cmocka_unit_test(test_who_feeds_itself_does_not_starve_others),
        cmocka_unit_test(test_two_threads_wait_inline),
        cmocka_unit_test(test_expected_tasks_are_taken_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
