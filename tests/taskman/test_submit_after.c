/* SPDX-License-Identifier: MIT */
/* Tasks that are submitted together with the edges to their predecessors. */
#include "tests/taskman/fixture.h"

#include "base/thread.h"

static gantry_task_desc tracing(struct trace *trace)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = trace_body;
    desc.arg = trace;
    return desc;
}

static void run(gantry_taskman *manager)
{
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
}

static int place_of(struct trace *trace, const gantry_task *task)
{
    for (int i = 0; i < trace->length; i++) {
        if (trace->tasks[i] == task) {
            return i;
        }
    }
    fail_msg("%s", "the task did not run");
    return -1;
}

static void test_a_task_starts_after_all_of_its_predecessors(void **state)
{
    (void)state;
    struct fixture f = set_up(3);
    struct trace trace = {0};
    gantry_task *before[3], *last, *twice, *none;
    gantry_task_desc desc = tracing(&trace);
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, NULL, 0, &none));
    for (int i = 0; i < 3; i++) {
        before[i] = add_cpu(f.manager, NULL, trace_body, &trace);
    }
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, before, 3, &last));
    assert_int_equal(gantry_task_references(last), 1 + 3);
    gantry_task *same[2] = {last, last};
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, same, 2, &twice));
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, &twice, 1, NULL));
    run(f.manager);
    assert_int_equal(trace.length, 7);
    for (int i = 0; i < 3; i++) {
        assert_true(place_of(&trace, before[i]) < place_of(&trace, last));
    }
    assert_true(place_of(&trace, last) < place_of(&trace, twice));
    assert_true(place_of(&trace, twice) < 6); /* the one without a handle is behind it */
    tear_down(&f);
}

static void test_what_cannot_be_submits_nothing(void **state)
{
    (void)state;
    struct fixture f = set_up(1);
    gantry_taskman *other = new_manager(f.pool);
    struct trace trace = {0};
    gantry_task_desc desc = tracing(&trace), empty = GANTRY_TASK_DESC_INIT;
    gantry_task *out = NULL, *light;
    gantry_task *first = add_cpu(f.manager, NULL, trace_body, &trace);
    assert_ok(gantry_taskman_create_light(f.manager, trace_body, &trace, "light", NULL, &light));
    gantry_task *const missing[2] = {first, NULL}, *const foreign[2] = {first, add_sync(other, "other")},
                       *const lights[1] = {light};
    assert_int_equal(gantry_taskman_submit_after(f.manager, &desc, missing, 2, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "predecessor 1 of 2 is NULL"));
    assert_int_equal(gantry_taskman_submit_after(f.manager, &desc, foreign, 2, &out),
                     GANTRY_ERR_FOREIGN_HANDLE);
    assert_non_null(strstr(gantry_last_error(), "predecessor 1 of 2, 'other'"));
    assert_int_equal(gantry_taskman_submit_after(f.manager, &desc, lights, 1, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_submit_after(f.manager, &desc, NULL, 1, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_taskman_submit_after(f.manager, &empty, &first, 1, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(out);
    assert_int_equal(gantry_task_references(first), 1);
    assert_ok(gantry_task_remove_reference(light));
    run(f.manager);
    assert_int_equal(trace.length, 2);
    gantry_taskman_destroy(other);
    tear_down(&f);
}

static void test_a_name_is_filled_and_cycles_are_found(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct trace trace = {0};
    gantry_task_desc desc = tracing(&trace);
    gantry_task *first = add_cpu(f.manager, NULL, trace_body, &trace), *filled, *out;
    gantry_task *late = get_named(f.manager, "late");
    desc.name = "late";
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, &first, 1, &filled));
    assert_ptr_equal(filled, late);
    run(f.manager);
    assert_ptr_equal(trace.tasks[0], first);
    assert_ptr_equal(trace.tasks[1], late);

    assert_ok(gantry_taskman_reset(f.manager));
    late = get_named(f.manager, "late");
    desc.name = NULL;
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, &late, 1, &out));
    desc.name = "late";
    assert_ok(gantry_taskman_submit_after(f.manager, &desc, &out, 1, NULL));
    assert_int_equal(gantry_taskman_start(f.manager), GANTRY_ERR_CYCLE);

    assert_ok(gantry_taskman_reset(f.manager));
    late = get_named(f.manager, "late");
    assert_int_equal(gantry_taskman_submit_after(f.manager, &desc, &late, 1, &out),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(out, late); /* which stays submitted */
    tear_down(&f);
}

/* ---- while a step runs ----------------------------------------------------------------------- */

struct late_scene {
    gantry_taskman *manager;
    struct trace *trace;
    gantry_task *over, *held, *made, *refused;
    gantry_status status[3];
};

static gantry_status submit_more(gantry_task *task, void *arg)
{
    (void)task;
    struct late_scene *s = arg;
    gantry_task_desc desc = tracing(s->trace);
    gantry_task *const both[2] = {s->held, s->over};
    s->status[0] = gantry_taskman_submit_after(s->manager, &desc, &s->held, 1, &s->made);
    s->status[1] = gantry_taskman_submit_after(s->manager, &desc, both, 2, &s->refused);
    s->status[2] = gantry_task_remove_reference(s->held);
    return gantry_task_remove_reference(s->made) != GANTRY_OK ? GANTRY_ERR_STATE
                                                              : gantry_task_remove_reference(s->refused);
}

static void test_while_a_step_runs_predecessors_may_be_over(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct trace trace = {0};
    struct late_scene s = {.manager = f.manager, .trace = &trace};
    s.over = add_cpu(f.manager, "over", trace_body, &trace);
    s.held = add_cpu(f.manager, "held", trace_body, &trace);
    gantry_task *body = add_cpu(f.manager, "body", submit_more, &s);
    assert_ok(gantry_task_add_reference(s.held));
    assert_ok(gantry_task_start_after(body, s.over));
    run(f.manager);
    assert_int_equal(s.status[0], GANTRY_OK);
    assert_int_equal(s.status[1], GANTRY_ERR_LATE_DEPENDENCY);
    assert_int_equal(s.status[2], GANTRY_OK);
    assert_int_equal(trace.length, 4);
    assert_ptr_equal(trace.tasks[0], s.over);
    assert_ptr_equal(trace.tasks[1], s.held);
    assert_true(place_of(&trace, s.made) > 1 && place_of(&trace, s.refused) > 1);
    tear_down(&f);
}

/* A description that a later version has made longer, whose new fields are 0: the name has a placeholder, so
 * the edges are declared one by one. */
static void test_a_longer_description_is_taken_once(void **state)
{
    (void)state;
    struct {
        gantry_task_desc desc;
        unsigned char later[4096]; /* more than what lies behind a copy of the struct on the stack */
    } newer;
    struct fixture f = set_up(1);
    struct trace trace = {0};
    gantry_task *first = add_cpu(f.manager, NULL, trace_body, &trace), *filled;
    gantry_task *late = get_named(f.manager, "late");
    memset(&newer, 0, sizeof(newer));
    newer.desc = tracing(&trace);
    newer.desc.struct_size = sizeof(newer);
    newer.desc.name = "late";
    assert_ok(gantry_taskman_submit_after(f.manager, &newer.desc, &first, 1, &filled));
    assert_ptr_equal(filled, late);
    run(f.manager);
    assert_ptr_equal(trace.tasks[1], late);
    tear_down(&f);
}

/* ---- memory, large graphs -------------------------------------------------------------------- */

static void test_a_submission_without_memory_is_told(void **state)
{
    (void)state;
    enum { TASKS = 3000, FAULTS = 200 };
    static gantry_task *tasks[TASKS];
    bool fired = true;
    for (int fault = 0; fault < FAULTS && fired; fault++) {
        struct fixture f = set_up(1);
        atomic_int ran = 0;
        int submitted = 0, failed = 0;
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = count_body;
        desc.arg = &ran;
        gy_fault_arm(fault);
        for (int i = 0; i < TASKS; i++) {
            gantry_task *before[3], *out = NULL;
            size_t count = submitted > 0 ? 3 : 0;
            for (size_t k = 0; k < count; k++) {
                before[k] = tasks[k == 0 ? submitted - 1 : k == 1 ? submitted / 2 : 0];
            }
            gantry_status status = gantry_taskman_submit_after(f.manager, &desc, before, count, &out);
            if (status != GANTRY_OK) {
                assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
                failed++;
            }
            if (out != NULL) {
                tasks[submitted++] = out;
            }
        }
        fired = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(failed, fired);
        run(f.manager);
        assert_int_equal(ran, submitted);
        tear_down(&f);
    }
    assert_false(fired); /* every allocation has failed once */
}

#define ROWS 60
#define WIDTH 32

struct cell {
    struct cell *before[3];
    atomic_int ran;
    atomic_int *wrong;
};

static gantry_status run_cell(gantry_task *task, void *arg)
{
    (void)task;
    struct cell *cell = arg;
    for (int i = 0; i < 3; i++) {
        if (cell->before[i] != NULL && cell->before[i]->ran != 1) {
            atomic_fetch_add(cell->wrong, 1);
        }
    }
    atomic_fetch_add(&cell->ran, 1);
    return GANTRY_OK;
}

static void test_a_stencil_runs_in_order_again_and_again(void **state)
{
    (void)state;
    static struct cell cells[ROWS][WIDTH];
    static gantry_task *tasks[ROWS][WIDTH];
    struct fixture f = set_up(3);
    atomic_int wrong = 0;
    for (int step = 0; step < 20; step++) {
        memset(cells, 0, sizeof(cells));
        for (int row = 0; row < ROWS; row++) {
            for (int i = 0; i < WIDTH; i++) {
                struct cell *cell = &cells[row][i];
                gantry_task *before[3];
                size_t count = 0;
                for (int j = i > 0 ? i - 1 : 0; row > 0 && j <= i + 1 && j < WIDTH; j++, count++) {
                    cell->before[count] = &cells[row - 1][j];
                    before[count] = tasks[row - 1][j];
                }
                cell->wrong = &wrong;
                gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
                desc.run = run_cell;
                desc.arg = cell;
                assert_ok(gantry_taskman_submit_after(f.manager, &desc, before, count, &tasks[row][i]));
            }
        }
        run(f.manager);
        for (int row = 0; row < ROWS; row++) {
            for (int i = 0; i < WIDTH; i++) {
                assert_int_equal(cells[row][i].ran, 1);
            }
        }
        assert_int_equal(wrong, 0);
        assert_ok(gantry_taskman_reset(f.manager));
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_task_starts_after_all_of_its_predecessors),
        cmocka_unit_test(test_what_cannot_be_submits_nothing),
        cmocka_unit_test(test_a_name_is_filled_and_cycles_are_found),
        cmocka_unit_test(test_while_a_step_runs_predecessors_may_be_over),
        cmocka_unit_test(test_a_longer_description_is_taken_once),
        cmocka_unit_test(test_a_submission_without_memory_is_told),
        cmocka_unit_test(test_a_stencil_runs_in_order_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
