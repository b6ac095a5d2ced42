/* SPDX-License-Identifier: MIT */
/* Steps of a manager: order, sync points, placeholders, states, reset, statistics. */
#include "tests/taskman/fixture.h"

#include "base/thread.h"
#include "taskman/graph/state.h"

static void check_order(uint32_t workers)
{
    struct fixture f = set_up(workers);
    struct trace trace = {0};
    gantry_task *a = add_cpu(f.manager, "a", trace_body, &trace);
    gantry_task *b = add_cpu(f.manager, "b", trace_body, &trace);
    gantry_task *c = add_cpu(f.manager, "c", trace_body, &trace);
    gantry_task *sync = add_sync(f.manager, "sync");
    assert_ok(gantry_task_start_after(a, b));
    assert_ok(gantry_task_finish_before(a, sync));
    assert_ok(gantry_task_start_after(c, sync));
    assert_int_equal(gantry_task_references(a), 2);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(trace.length, 3);
    assert_ptr_equal(trace.tasks[0], b);
    assert_ptr_equal(trace.tasks[1], a);
    assert_ptr_equal(trace.tasks[2], c);
    assert_int_equal(gantry_task_get_state(sync), GANTRY_TASK_STATE_DONE);
    tear_down(&f);
}

static void test_dependencies_are_kept_by_a_pool(void **state)
{
    (void)state;
    check_order(1);
    check_order(3);
}

static void test_dependencies_are_kept_inline(void **state)
{
    (void)state;
    check_order(0);
}

static void test_placeholder_is_filled_in_by_name(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct trace trace = {0};
    gantry_task *late = get_named(f.manager, "late");
    assert_int_equal(gantry_task_get_state(late), GANTRY_TASK_STATE_PLACEHOLDER);
    assert_int_equal(gantry_task_get_kind(late), GANTRY_TASK_SYNC_POINT);
    assert_string_equal(gantry_task_label(late), "late");
    gantry_task *user = add_cpu(f.manager, NULL, trace_body, &trace);
    assert_ok(gantry_task_start_after(user, late));
    gantry_task *filled = add_cpu(f.manager, "late", trace_body, &trace);
    assert_ptr_equal(filled, late);
    assert_ptr_equal(get_named(f.manager, "late"), late);
    assert_int_equal(gantry_task_get_state(late), GANTRY_TASK_STATE_HELD);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(trace.length, 2);
    assert_ptr_equal(trace.tasks[0], late);
    assert_ptr_equal(trace.tasks[1], user);
    tear_down(&f);
}

static void test_unfilled_placeholder_is_a_sync_point_and_reported_by_stop(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct trace trace = {0};
    gantry_task *first = add_cpu(f.manager, "first", trace_body, &trace);
    gantry_task *hole = get_named(f.manager, "hole");
    gantry_task *second = add_cpu(f.manager, "second", trace_body, &trace);
    assert_ok(gantry_task_start_after(hole, first));
    assert_ok(gantry_task_start_after(second, hole));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_wait(f.manager));
    assert_error(gantry_taskman_stop(f.manager), GANTRY_ERR_UNFILLED_NAME);
    assert_last_error_has("'hole'");
    assert_ptr_equal(trace.tasks[0], first);
    assert_ptr_equal(trace.tasks[1], second);
    gantry_taskman_stats stats = stats_of(f.manager);
    assert_int_equal(stats.tasks, 2);
    assert_int_equal(stats.released, 2);
    assert_ok(gantry_taskman_reset(f.manager));
    tear_down(&f);
}

static void test_steps_can_be_repeated_without_growing(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    atomic_int count = 0;
    uint64_t bytes = 0;
    for (int step = 0; step < 20; step++) {
        gantry_task *last = NULL;
        for (int i = 0; i < 500; i++) {
            char name[16];
            snprintf(name, sizeof(name), "t%d", i);
            gantry_task *task = add_cpu(f.manager, name, count_body, &count);
            if (last != NULL) {
                assert_ok(gantry_task_start_after(task, last));
            }
            last = task;
        }
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_wait(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(count, 500 * (step + 1));
        gantry_taskman_stats stats = stats_of(f.manager);
        assert_int_equal(stats.tasks, 500);
        assert_int_equal(stats.tasks_cpu, 500);
        assert_int_equal(stats.edges, 499);
        assert_int_equal(stats.released, 500);
        assert_int_equal(stats.failed, 0);
        assert_true(step == 0 || stats.memory_bytes == bytes);
        bytes = stats.memory_bytes;
        assert_ok(gantry_taskman_reset(f.manager));
        assert_int_equal(stats_of(f.manager).tasks, 0);
    }
    tear_down(&f);
}

static void test_an_empty_step_works(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        struct fixture f = set_up(workers);
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_wait(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        tear_down(&f);
    }
}

struct release_note {
    atomic_int calls;
    _Atomic(int) result;
};

static void note_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    struct release_note *note = arg;
    atomic_fetch_add(&note->calls, 1);
    atomic_store(&note->result, result);
}

static gantry_status ok_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void test_release_callback_comes_once_also_when_never_started(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct release_note note = {0};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = ok_body;
    desc.release = note_release;
    desc.arg = &note;
    assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(note.calls, 1);
    assert_int_equal(note.result, GANTRY_OK);
    assert_ok(gantry_taskman_reset(f.manager));
    assert_int_equal(note.calls, 1);
    assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    assert_ok(gantry_taskman_reset(f.manager));
    assert_int_equal(note.calls, 2);
    assert_int_equal(note.result, GANTRY_ERR_TASK_FAILED);
    assert_ok(gantry_taskman_submit(f.manager, &desc, NULL));
    tear_down(&f); /* it stops nothing, but the owner is informed */
    assert_int_equal(note.calls, 3);
}

static void test_extra_references_hold_a_task_back(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    atomic_int count = 0, other = 0;
    gantry_task *held = add_cpu(f.manager, "held", count_body, &count);
    add_cpu(f.manager, "free", count_body, &other);
    assert_ok(gantry_task_add_reference(held));
    assert_ok(gantry_taskman_start(f.manager));
    assert_int_equal(gantry_task_references(held), 1);
    while (atomic_load(&other) == 0) {
        sched_yield();
    }
    assert_int_equal(gantry_task_get_state(held), GANTRY_TASK_STATE_HELD);
    assert_int_equal(count, 0);
    assert_ok(gantry_task_remove_reference(held));
    assert_ok(gantry_taskman_stop(f.manager));
    assert_int_equal(count, 1);
    tear_down(&f);
}

static void test_getters_say_what_was_submitted(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    int arg = 0;
    char name[] = "name";
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = ok_body;
    desc.name = name;
    desc.arg = &arg;
    desc.context_id = 77;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    name[0] = 'X'; /* it was copied */
    assert_string_equal(gantry_task_name(task), "name");
    assert_string_equal(gantry_task_label(task), "name");
    assert_ptr_equal(gantry_task_arg(task), &arg);
    assert_int_equal(gantry_task_context_id(task), 77);
    assert_int_equal(gantry_task_get_kind(task), GANTRY_TASK_CPU);
    assert_int_equal(gantry_task_result(task), GANTRY_OK);
    assert_ptr_equal(gantry_task_manager(task), f.manager);
    desc.name = NULL;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    assert_string_equal(gantry_task_name(task), "");
    assert_string_equal(gantry_task_label(task), "task");
    desc.label = "label";
    assert_ok(gantry_taskman_submit(f.manager, &desc, &task));
    assert_string_equal(gantry_task_label(task), "label");
    tear_down(&f);
}

static void test_two_managers_share_a_pool(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        gantry_taskman *other = new_manager(f.pool);
        atomic_int count = 0, other_count = 0;
        for (int i = 0; i < 1000; i++) {
            add_cpu(f.manager, NULL, count_body, &count);
            add_cpu(other, NULL, count_body, &other_count);
        }
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_start(other));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(count, 1000);
        assert_ok(gantry_taskman_stop(other));
        assert_int_equal(other_count, 1000);
        gantry_taskman_destroy(other);
        tear_down(&f);
    }
}

static void test_destroy_runs_what_is_queued(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct fixture f = set_up(workers);
        atomic_int count = 0;
        for (int i = 0; i < 5000; i++) {
            add_cpu(f.manager, NULL, count_body, &count);
        }
        assert_ok(gantry_taskman_start(f.manager));
        tear_down(&f);
        assert_int_equal(count, 5000);
    }
}

/* The table is the diagram in taskman/graph/state.h. */
static void test_states_follow_each_other_as_in_the_diagram(void **state)
{
    (void)state;
    const char *allowed[] = {"PLACEHOLDER HELD", "PLACEHOLDER READY", "HELD READY",   "READY RUNNING",
                             "READY DONE",       "READY FAILED",      "RUNNING DONE", "RUNNING FAILED"};
    size_t found = 0;
    for (int from = 0; from <= GANTRY_TASK_STATE_FAILED; from++) {
        for (int to = 0; to <= GANTRY_TASK_STATE_FAILED; to++) {
            char step[32];
            snprintf(step, sizeof(step), "%s %s", gy_task_state_name((gantry_task_state)from),
                     gy_task_state_name((gantry_task_state)to));
            bool is_allowed = false;
            for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
                is_allowed = is_allowed || strcmp(step, allowed[i]) == 0;
            }
            found += is_allowed;
            assert_int_equal(gy_task_state_may_go((gantry_task_state)from, (gantry_task_state)to),
                             is_allowed);
        }
    }
    assert_int_equal(found, sizeof(allowed) / sizeof(*allowed));
}

static void test_a_chain_runs_in_order_without_a_pool(void **state)
{
    (void)state;
    /* there is no pool: stop() runs the tasks */
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager;
    assert_ok(gantry_taskman_create(&options, &manager));
    struct trace trace = {0};
    gantry_task_desc descs[3];
    for (int i = 0; i < 3; i++) {
        descs[i] = (gantry_task_desc){sizeof(descs[i]), .run = trace_body, .arg = &trace};
    }
    gantry_task *tasks[3];
    assert_ok(gantry_taskman_submit_chain(manager, descs, 3, tasks));
    assert_ok(gantry_taskman_submit_chain(manager, NULL, 0, NULL));
    assert_ok(gantry_taskman_start(manager));
    assert_int_equal(trace.length, 0);
    assert_ok(gantry_taskman_stop(manager));
    assert_int_equal(trace.length, 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(trace.tasks[i], tasks[i]);
    }
    gantry_taskman_destroy(manager);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_a_chain_that_breaks_off_says_what_was_submitted(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    struct trace trace = {0};
    gantry_task_desc descs[3];
    for (int i = 0; i < 3; i++) {
        descs[i] = (gantry_task_desc){sizeof(descs[i]), .run = i == 1 ? NULL : trace_body, .arg = &trace};
    }
    gantry_task *tasks[3];
    assert_int_equal(gantry_taskman_submit_chain(f.manager, descs, 3, tasks), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(tasks[0]);
    assert_null(tasks[1]);
    assert_null(tasks[2]);
    assert_int_equal(gantry_taskman_submit_chain(f.manager, NULL, 1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_submit_chain(NULL, NULL, 0, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_taskman_submit_chain(f.manager, NULL, 0, NULL));
    tear_down(&f);
}

static void test_storage_is_a_quarter_more_than_needed_at_most(void **state)
{
    (void)state;
    struct fixture f = set_up(0);
    gantry_task *tasks[3000];
    for (uint64_t n = 0; n < 3000; n++) {
        tasks[n] = add_cpu(f.manager, NULL, ok_body, NULL);
        for (uint64_t i = 1; i <= 3 && i <= n; i++) {
            assert_ok(gantry_task_start_after(tasks[n], tasks[n - i]));
        }
        gantry_taskman_stats stats = stats_of(f.manager);
        uint64_t needed = 128 * stats.tasks + 16 * stats.edges, least = 2 * 64 * (128 + 16);
        assert_in_range(stats.memory_bytes, needed, needed + needed / 4 + least);
    }
    tear_down(&f);
}

static void test_names_count_as_storage(void **state)
{
    (void)state;
    enum { COUNT = 6000 }; /* so that the table is larger than the amount to which texts are rounded up */
    uint64_t bytes[2];
    for (int named = 0; named < 2; named++) {
        struct fixture f = set_up(0);
        for (int i = 0; i < COUNT; i++) {
            char name[16];
            snprintf(name, sizeof(name), "task-%06d", i);
            (void)add_cpu(f.manager, named != 0 ? name : NULL, ok_body, NULL);
        }
        bytes[named] = stats_of(f.manager).memory_bytes;
        tear_down(&f);
    }
    /* Each name has its text, and two words in a table that is three quarters full at most. */
    assert_true(bytes[1] >= bytes[0] + (uint64_t)COUNT * 12 + (uint64_t)COUNT * 16 * 4 / 3);
}

/* Each of several threads builds the same graph: a chain with gaps, names, and a task in which all end. */
struct builder {
    gantry_taskman *manager;
    gantry_task *end;
    atomic_int *count;
    int number, refused;
    gy_thread thread;
};

static void build_part(void *arg)
{
    struct builder *b = arg;
    gantry_task *before = NULL;
    for (int i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d/%d", b->number, i);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.name = i % 50 == 0 ? name : NULL;
        desc.run = count_body;
        desc.arg = b->count;
        gantry_task *task = NULL;
        b->refused += gantry_taskman_submit(b->manager, &desc, &task) != GANTRY_OK;
        b->refused += i % 7 != 0 && gantry_task_start_after(task, before) != GANTRY_OK;
        b->refused += i % 40 == 0 && gantry_task_finish_before(task, b->end) != GANTRY_OK;
        before = task;
    }
}

static void test_threads_build_one_graph(void **state)
{
    (void)state;
    enum { BUILDERS = 3 };
    struct fixture f = set_up(2);
    for (int step = 0; step < 3; step++) {
        atomic_int count = 0;
        gantry_task *end = add_cpu(f.manager, "end", count_body, &count);
        struct builder builders[BUILDERS];
        for (int i = 0; i < BUILDERS; i++) {
            builders[i] = (struct builder){f.manager, end, &count, i, 0, {0}};
            assert_ok(gy_thread_start(&builders[i].thread, "builder", build_part, &builders[i]));
        }
        int refused = 0;
        for (int i = 0; i < BUILDERS; i++) {
            gy_thread_join(&builders[i].thread);
            refused += builders[i].refused;
        }
        assert_int_equal(refused, 0);
        assert_ok(gantry_taskman_start(f.manager));
        assert_ok(gantry_taskman_stop(f.manager));
        assert_int_equal(count, BUILDERS * 2000 + 1);
        assert_int_equal(stats_of(f.manager).edges, BUILDERS * (2000 - 286 + 50));
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_follow_each_other_as_in_the_diagram),
        cmocka_unit_test(test_dependencies_are_kept_by_a_pool),
        cmocka_unit_test(test_dependencies_are_kept_inline),
        cmocka_unit_test(test_placeholder_is_filled_in_by_name),
        cmocka_unit_test(test_unfilled_placeholder_is_a_sync_point_and_reported_by_stop),
        cmocka_unit_test(test_steps_can_be_repeated_without_growing),
        cmocka_unit_test(test_an_empty_step_works),
        cmocka_unit_test(test_a_chain_runs_in_order_without_a_pool),
        cmocka_unit_test(test_a_chain_that_breaks_off_says_what_was_submitted),
        cmocka_unit_test(test_release_callback_comes_once_also_when_never_started),
        cmocka_unit_test(test_extra_references_hold_a_task_back),
        cmocka_unit_test(test_getters_say_what_was_submitted),
        cmocka_unit_test(test_two_managers_share_a_pool),
        cmocka_unit_test(test_destroy_runs_what_is_queued),
        cmocka_unit_test(test_storage_is_a_quarter_more_than_needed_at_most),
        cmocka_unit_test(test_names_count_as_storage),
        cmocka_unit_test(test_threads_build_one_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
