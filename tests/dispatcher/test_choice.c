/* The auto mode's rule: which batches are graphs, and what the graphs before have to do with it. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 100, LATE = 1000 };

static const struct gy_choice_outcome like = {CALLS, CALLS, 0, 1000 * CALLS},
                                      strange = {CALLS, CALLS, CALLS, 1000 * CALLS}, few = {2, 2, 0, 2000},
                                      no_nodes = {CALLS, 3, 0, 1000 * CALLS},
                                      slow = {CALLS, CALLS, 0, (uint64_t)50000 * CALLS};

static struct gy_choice c;

static void fresh(void)
{
    memset(&c, 0, sizeof(c));
}

/* A batch of the shape; true: it was a graph, of which came what `as_graph` says. */
static bool run(uint64_t shape, const struct gy_choice_outcome *as_graph)
{
    const bool is = gy_choice_take(&c, shape);
    const struct gy_choice_outcome on_streams = {as_graph->calls, 0, 0, as_graph->ns};
    gy_choice_learn(&c, shape, is, is ? as_graph : &on_streams);
    return is;
}

/* How many of so many batches were graphs? */
static uint32_t run_many(uint64_t shape, const struct gy_choice_outcome *as_graph, uint32_t count)
{
    uint32_t graphs = 0;
    while (count-- > 0) {
        graphs += run(shape, as_graph);
    }
    return graphs;
}

/* ---- the rule ---------------------------------------------------------------------------------- */

static void test_a_shape_that_repeats_is_a_graph_at_once(void **state)
{
    (void)state;
    fresh();
    assert_true(run(7, &strange)); /* the first one has to be made */
    assert_int_equal(run_many(7, &like, 200), 200);
    for (uint32_t i = 0; i < 50; i++) { /* half of them are new, never three in a row */
        assert_true(run(7, i % 4 < 2 ? &strange : &like));
    }
}

static void test_what_is_never_like_anything_goes_to_streams(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_many(7, &strange, 20), GY_CHOICE_NONES);
    /* They are tried 32, 64, 128, 256 and 512 batches later. */
    assert_int_equal(run_many(7, &strange, LATE + 10), 5 * GY_CHOICE_NONES);
    fresh();
    for (uint64_t shape = 1; shape < 1000; shape++) { /* each has a beginning of its own */
        assert_int_equal(run(shape, &strange), shape <= GY_CHOICE_CREDIT);
    }
}

static void test_without_credit_a_shape_is_tried_when_it_comes_again(void **state)
{
    (void)state;
    fresh();
    uint64_t shape = 1;
    while (shape <= GY_CHOICE_CREDIT) {
        assert_true(run(shape++, &strange));
    }
    assert_false(run(shape, &strange));
    assert_true(run(shape, &strange));              /* it was seen: now one is made */
    assert_int_equal(run_many(shape, &like, 2), 2); /* which gives credit back */
    assert_true(run(shape + 1, &strange));
    assert_true(run(shape + 2, &strange));
    assert_false(run(shape + 3, &strange));
}

static void test_graphs_that_gain_nothing_go_to_streams(void **state)
{
    (void)state;
    static const struct gy_choice_outcome *const in_vain[] = {&no_nodes, &slow};
    for (uint32_t i = 0; i < 2; i++) {
        fresh();
        assert_true(run(7, &strange));
        assert_int_equal(run_many(7, in_vain[i], 20), GY_CHOICE_NONES - 1);
        fresh();
        assert_int_equal(run_many(7, &like, 5), 5);
        assert_true(run(7, in_vain[i])); /* once may be chance */
        assert_int_equal(run_many(7, &like, 5), 5);
        assert_int_equal(run_many(7, in_vain[i], 20), GY_CHOICE_NONES);
    }
    fresh();
    assert_int_equal(run_many(7, &few, 20), 1);
    assert_int_equal(run_many(7, &few, LATE), 5);
}

static void test_a_shape_that_begins_to_repeat_becomes_a_graph_again(void **state)
{
    (void)state;
    fresh();
    (void)run_many(7, &strange, GY_CHOICE_NONES + GY_CHOICE_PAUSE - 1);
    assert_int_equal(run_many(7, &like, GY_CHOICE_PAUSE), GY_CHOICE_PAUSE);
    /* The next pause is as short as the first. */
    assert_int_equal(run_many(7, &strange, GY_CHOICE_NONES + GY_CHOICE_PAUSE - 1), GY_CHOICE_NONES);
    assert_true(run(7, &like));
}

static void test_shapes_that_share_a_place_are_told_apart(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_many(1, &like, 5), 5);
    assert_int_equal(run_many(2, &few, 5), 1);
    assert_true(gy_choice_take(&c, 1));
    assert_false(gy_choice_take(&c, 2));
    assert_true(run(2 + GY_CHOICE_SHAPES, &like)); /* it takes the place of the other one */
    assert_true(run(2, &few));
}

/* ---- steps ------------------------------------------------------------------------------------- */

enum { STEPS = 30 };

/* How many graphs do STEPS steps take, which are chains of so many kernels: from..from + more - 1 in turn? */
static uint64_t graphs_of(uint32_t from, uint32_t more)
{
    gantry_context_options options = modes_options();
    struct modes_scene s;
    struct modes_job jobs[64] = {{0}};
    options.submission = GANTRY_SUBMISSION_AUTO;
    modes_open(&s, &options);
    gantry_context_dispatcher(s.gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_ok(modes_run_chain(&s, modes_launch, jobs, from + step % more));
        assert_ok(gantry_context_synchronize(s.gpu.context));
    }
    const uint64_t graphs = gpu_fixture_stats(&s.gpu).graph_launches;
    assert_int_equal(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.gpu.context), 9),
                     GANTRY_ERR_INVALID_ARGUMENT);
    modes_close(&s);
    return graphs;
}

static void test_steps_are_graphs_when_they_repeat(void **state)
{
    (void)state;
    assert_int_equal(graphs_of(10, 1), STEPS);
    assert_int_equal(graphs_of(1, 1), 1);                     /* of one kernel */
    assert_int_equal(graphs_of(10, STEPS), GY_CHOICE_CREDIT); /* none is like another one */
    assert_int_equal(graphs_of(10, 5), STEPS);                /* five shapes in turn */
}

/* ---- what is right on streams --------------------------------------------------------------------- */

static gantry_launch_result launch_of_new_module(gantry_launch *launch, void *arg)
{
    gantry_module **module = arg;
    gantry_kernel *kernel;
    const bool good =
        gantry_module_load(gantry_launch_context(launch), &gantry_image_order_kernels, module) == GANTRY_OK &&
        gantry_module_get_kernel(*module, "count_up", &kernel) == GANTRY_OK;
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* A callback that loads a module is called once, and stays in the graph. */
static void test_callbacks_load_modules(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        gantry_context_options options = modes_options();
        struct modes_scene s;
        gantry_module *module = NULL;
        options.submission = (gantry_submission)mode;
        modes_open(&s, &options);
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "loads", launch_of_new_module, &module);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_int_equal(gpu_fixture_stats(&s.gpu).launch_calls, 1);
        gantry_module_unload(module);
        modes_close(&s);
    }
}

/* ---- contexts that do not say how they submit ----------------------------------------------------- */

static void expect_submission(const char *text, gantry_submission asked, gantry_submission expected)
{
    gantry_context_options options = modes_options();
    gantry_context *context;
    options.submission = asked;
    assert_int_equal(text != NULL ? setenv("GANTRY_SUBMISSION", text, 1) : unsetenv("GANTRY_SUBMISSION"), 0);
    assert_ok(gantry_context_create(&options, &context));
    const gantry_submission is = atomic_load(&gantry_context_dispatcher(context)->submission);
    assert_int_equal(is, expected);
    gantry_context_destroy(context);
}

static void test_the_environment_says_it_where_the_context_does_not(void **state)
{
    (void)state;
    expect_submission("streams", GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_STREAMS);
    expect_submission("graphs", GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_GRAPHS);
    expect_submission("auto", GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_AUTO);
    expect_submission("graphs", GANTRY_SUBMISSION_AUTO, GANTRY_SUBMISSION_AUTO);
    gantry_context_options options = modes_options();
    gantry_context *context;
    assert_int_equal(setenv("GANTRY_SUBMISSION", "fast", 1), 0);
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "\"fast\""));
    expect_submission("", GANTRY_SUBMISSION_GRAPHS, GANTRY_SUBMISSION_GRAPHS);
    expect_submission(NULL, GANTRY_SUBMISSION_GRAPHS, GANTRY_SUBMISSION_GRAPHS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shape_that_repeats_is_a_graph_at_once),
        cmocka_unit_test(test_what_is_never_like_anything_goes_to_streams),
        cmocka_unit_test(test_without_credit_a_shape_is_tried_when_it_comes_again),
        cmocka_unit_test(test_graphs_that_gain_nothing_go_to_streams),
        cmocka_unit_test(test_a_shape_that_begins_to_repeat_becomes_a_graph_again),
        cmocka_unit_test(test_shapes_that_share_a_place_are_told_apart),
        cmocka_unit_test(test_steps_are_graphs_when_they_repeat),
        cmocka_unit_test(test_callbacks_load_modules),
        cmocka_unit_test(test_the_environment_says_it_where_the_context_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
