/* SPDX-License-Identifier: MIT */
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

enum { CALLS = 100, MANY = 1000, FEW = 8 };

/* calls, works, nodes, strange, ns, graphs, plays */
static const struct gy_choice_outcome like = {CALLS, CALLS, CALLS, 0, 1000 * CALLS, 1, 0},
                                      strange = {CALLS, CALLS, CALLS, CALLS, 1000 * CALLS, 1, 0},
                                      small = {FEW, FEW, FEW, 0, 1000 * FEW, 1, 0},
                                      strange_small = {FEW, FEW, FEW, FEW, 1000 * FEW, 1, 0},
                                      one = {1, 1, 1, 0, 1000, 1, 0}, strange_one = {1, 1, 1, 1, 1000, 1, 0},
                                      no_nodes = {CALLS, CALLS, 3, 0, 1000 * CALLS, 1, 0},
                                      slow = {CALLS, CALLS, CALLS, 0, (uint64_t)50000 * CALLS, 1, 0},
                                      cut_up = {CALLS, CALLS, 3 * CALLS / 4, 0, 1000 * CALLS, CALLS / 4, 0};

static struct gy_choice c;

static void fresh(void)
{
    memset(&c, 0, sizeof(c));
}

/* A batch of the shape, in a step of so many tasks; of a graph comes what `as_graph` says, but what is
 * strange may be played.  Returns what was chosen for it. */
static enum gy_choice_way take(uint64_t shape, uint64_t tasks, const struct gy_choice_outcome *as_graph)
{
    const enum gy_choice_way way = gy_choice_take(&c, shape, tasks);
    struct gy_choice_outcome o = *as_graph;
    if (way == GY_WAY_STREAMS || (way == GY_WAY_IF_KNOWN && 4 * o.strange > 3 * o.nodes)) {
        o.nodes = o.strange = o.graphs = 0;
        o.plays = way != GY_WAY_STREAMS;
    }
    gy_choice_learn(&c, shape, way != GY_WAY_STREAMS, &o);
    return way;
}

/* True: it may have been a graph. */
static bool run(uint64_t shape, uint64_t tasks, const struct gy_choice_outcome *as_graph)
{
    return take(shape, tasks, as_graph) != GY_WAY_STREAMS;
}

/* How many of so many batches were graphs? */
static uint32_t run_many(uint64_t shape, uint64_t tasks, const struct gy_choice_outcome *as_graph,
                         uint32_t count)
{
    uint32_t graphs = 0;
    while (count-- > 0) {
        graphs += run(shape, tasks, as_graph);
    }
    return graphs;
}

/* ---- the rule ---------------------------------------------------------------------------------- */

/* Large shapes that never come again are graphs, though nothing is like a part of each. */
static void test_large_new_steps_are_graphs_if_most_of_them_is_known(void **state)
{
    (void)state;
    static const struct gy_choice_outcome part = {CALLS, CALLS, CALLS, 3 * CALLS / 4, 1000 * CALLS, 1, 0};
    fresh();
    assert_int_equal(run_many(7, CALLS, &like, 200), 200);
    for (uint64_t shape = 100; shape < 1100; shape++) {
        assert_true(run(shape, CALLS, &part));
    }
    for (uint64_t shape = 1100; shape < 2000; shape++) { /* one in nine may be strange */
        assert_true(run(shape, CALLS, shape % (1 + GY_CHOICE_GIVES) == 0 ? &strange : &part));
    }
}

/* How many of so many new shapes are graphs? */
static uint32_t run_new(uint64_t tasks, const struct gy_choice_outcome *as_graph, uint32_t count)
{
    static uint64_t shape = 10000;
    uint32_t graphs = 0;
    while (count-- > 0) {
        graphs += run(shape++, tasks, as_graph);
    }
    return graphs;
}

static void test_large_new_steps_like_which_nothing_is_go_to_streams(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_new(CALLS, &strange, GY_CHOICE_CREDIT), GY_CHOICE_CREDIT);
    assert_int_equal(run_new(CALLS, &strange, GY_CHOICE_CURIOUS), GY_CHOICE_CURIOUS);
    assert_int_equal(run_new(CALLS, &strange, GY_CHOICE_PAUSE - 1), 0);
    assert_int_equal(run_new(CALLS, &strange, 1), 1); /* a try; 128, 256, 512, 512 later there are others */
    assert_int_equal(run_new(CALLS, &strange, 128 + 256 + 512 + 512), 4);
    assert_false(run(7, CALLS, &like));
    assert_int_equal(run_many(7, CALLS, &like, GY_CHOICE_GIVES), GY_CHOICE_GIVES); /* it comes again */
    assert_int_equal(run_new(CALLS, &strange, 1), 1);                              /* the credit it gave */
    assert_int_equal(run_new(CALLS, &strange, GY_CHOICE_CURIOUS + GY_CHOICE_PAUSE - 1), GY_CHOICE_CURIOUS);
    assert_int_equal(run_new(CALLS, &strange, 1), 1); /* the pause is the first one again */
}

/* Batches of a large step may be small, and such without nodes give no credit. */
static void test_credit_is_of_steps_and_of_graphs_that_gain(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_new(CALLS, &strange_small, GY_CHOICE_PAUSE), GY_CHOICE_CREDIT + GY_CHOICE_CURIOUS);
    fresh();
    assert_int_equal(run_new(CALLS, &strange, 10), GY_CHOICE_CREDIT + GY_CHOICE_CURIOUS);
    for (uint32_t i = 0; i < 10; i++) {
        (void)run_many(i, CALLS, &no_nodes, 1 + GY_CHOICE_VAINS);
    }
    assert_int_equal(run_new(CALLS, &strange, 10), 0);
}

static void test_strange_graphs_of_one_shape_go_to_streams(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_many(7, CALLS, &strange, GY_CHOICE_PAUSE), 1 + GY_CHOICE_PLAYS);
    assert_int_equal(run_many(7, CALLS, &like, 200), 200 - GY_CHOICE_PLAYS);
}

static void test_small_steps_are_graphs_when_they_come_again(void **state)
{
    (void)state;
    fresh();
    assert_true(run(6, FEW, &strange_small)); /* one has to be made; that was all the credit */
    assert_false(run(7, FEW, &strange_small));
    assert_true(run(7, FEW, &strange_small));
    for (uint32_t i = 0; i < 50; i++) { /* half of them are new, never three in a row */
        assert_true(run(7, FEW, i % 4 < 2 ? &small : &strange_small));
    }
    assert_int_equal(run_new(FEW, &strange_small, MANY), 0);
    assert_int_equal(run_new(GY_CHOICE_SMALL - 1, &strange_small, 1), 0);
    assert_int_equal(run_new(GY_CHOICE_SMALL, &like, 1), 1);
    assert_int_equal(run_many(6, FEW, &small, 200), 199);  /* its place was taken, so it is new */
    assert_int_equal(run_new(FEW, &strange_small, 20), 1); /* they gave the credit back */
}

/* Shapes come again and again, but with other work each time: one is made a graph, since it is new, and the
 * rest is played. */
static void test_shapes_that_come_again_with_other_work_go_to_streams(void **state)
{
    (void)state;
    uint32_t graphs = 0, looked_at = 0;
    fresh();
    for (uint32_t i = 0; i < 300; i++) {
        const enum gy_choice_way way = take(i % 5, CALLS, &strange);
        graphs += way == GY_WAY_GRAPH;
        looked_at += way == GY_WAY_IF_KNOWN;
    }
    assert_int_equal(graphs, 1);
    assert_int_equal(looked_at, 5 * GY_CHOICE_PLAYS);
}

/* Of a shape whose batches are cut by chance some are strange, and most are not. */
static void test_batches_that_are_cut_by_chance_are_graphs(void **state)
{
    (void)state;
    fresh();
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(take(7, CALLS, &strange), GY_WAY_GRAPH);
        assert_int_equal(run_many(7, CALLS, &like, GY_CHOICE_GIVES), GY_CHOICE_GIVES);
    }
}

/* One that comes again and again is a graph, since its launch takes less time than that of a stream. */
static void test_one_task_is_no_graph_unless_it_enqueues_more(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_many(6, 1, &one, MANY), MANY - GY_CHOICE_LONE);
    assert_int_equal(run_many(6, 1, &strange_one, MANY), 1 + GY_CHOICE_PLAYS + 4); /* never the same */
    fresh();
    static const struct gy_choice_outcome two = {1, 2, 2, 0, 1000, 1, 0};
    assert_false(run(7, 1, &two));
    assert_int_equal(run_many(7, 1, &two, 20), 20);
}

/* Three at first, of what is strange one and eight that are played; one after 64, 128, 256 and 512 batches on
 * streams. */
static void test_graphs_in_vain_go_to_streams(void **state)
{
    (void)state;
    static const struct gy_choice_outcome *const in_vain[] = {&no_nodes, &slow, &strange_small, &cut_up};
    for (uint32_t i = 0; i < sizeof(in_vain) / sizeof(in_vain[0]); i++) {
        const uint32_t most = in_vain[i] == &strange_small ? 1 + GY_CHOICE_PLAYS : GY_CHOICE_VAINS;
        fresh();
        assert_int_equal(run_many(7, CALLS, in_vain[i], GY_CHOICE_PAUSE), most);
        assert_int_equal(run_many(7, CALLS, in_vain[i], MANY), 4);
        fresh();
        assert_int_equal(run_many(7, CALLS, &like, 5), 5);
        for (uint32_t k = 0; k < 20; k++) { /* twice may be chance */
            assert_int_equal(run_many(7, CALLS, in_vain[i], GY_CHOICE_VAINS - 1), GY_CHOICE_VAINS - 1);
            assert_true(run(7, CALLS, &like));
        }
    }
}

/* What a call takes that launches many kernels says nothing of one launch. */
static void test_calls_of_many_kernels_are_not_slow(void **state)
{
    (void)state;
    static const struct gy_choice_outcome many_each = {FEW, CALLS, CALLS, 0, (uint64_t)50000 * FEW, 1, 0};
    fresh();
    assert_int_equal(run_many(7, FEW, &many_each, 20), 20);
}

static void test_a_shape_that_gains_again_becomes_a_graph_again(void **state)
{
    (void)state;
    fresh();
    (void)run_many(7, CALLS, &no_nodes, GY_CHOICE_VAINS + GY_CHOICE_PAUSE - 1);
    assert_int_equal(run_many(7, CALLS, &like, GY_CHOICE_PAUSE), GY_CHOICE_PAUSE);
    /* The next pause is as short as the first. */
    assert_int_equal(run_many(7, CALLS, &no_nodes, GY_CHOICE_VAINS + GY_CHOICE_PAUSE - 1), GY_CHOICE_VAINS);
    assert_true(run(7, CALLS, &like));
}

static void test_shapes_that_share_a_place_are_told_apart(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(run_many(1, CALLS, &like, 5), 5);
    assert_int_equal(run_many(2, CALLS, &no_nodes, 5), GY_CHOICE_VAINS);
    assert_true(gy_choice_take(&c, 1, CALLS) != GY_WAY_STREAMS);
    assert_true(gy_choice_take(&c, 2, CALLS) == GY_WAY_STREAMS);
    assert_true(run(2 + GY_CHOICE_SHAPES, CALLS, &like)); /* it takes the place of the other one */
    assert_true(run(2, CALLS, &like));
}

/* ---- steps ------------------------------------------------------------------------------------- */

enum { STEPS = 30 };
_Static_assert(2 + STEPS - 1 < GY_CHOICE_SMALL, "steps of 2 and more kernels are small");

/* How many of STEPS steps take graphs, which are chains of so many kernels: from..from + more - 1 in turn? */
static uint32_t graphs_of(uint32_t from, uint32_t more)
{
    uint64_t launches = 0;
    uint32_t graphs = 0;
    gantry_context_options options = modes_options();
    struct modes_scene s;
    struct modes_job jobs[64] = {{0}};
    options.submission = GANTRY_SUBMISSION_AUTO;
    modes_open(&s, &options);
    gantry_context_dispatcher(s.gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_ok(modes_run_chain(&s, modes_launch, jobs, from + step % more));
        assert_ok(gantry_context_synchronize(s.gpu.context));
        const uint64_t now = gpu_fixture_stats(&s.gpu).graph_launches;
        graphs += now != launches;
        launches = now;
    }
    assert_int_equal(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.gpu.context), 9),
                     GANTRY_ERR_INVALID_ARGUMENT);
    modes_close(&s);
    return graphs;
}

static void test_steps_are_graphs_when_they_repeat(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    gantry_context *keeper; /* of the CUDA context, where the callback stays met */
    assert_ok(gantry_context_create(&options, &keeper));
    assert_int_equal(graphs_of(10, 1), STEPS - 1); /* in the first step the callback is met */
    assert_int_equal(graphs_of(10, 1), STEPS);
    assert_int_equal(graphs_of(2, 1), STEPS);
    assert_int_equal(graphs_of(1, 1), STEPS - GY_CHOICE_LONE);
    assert_int_equal(graphs_of(2, STEPS), 1);      /* small ones of which none comes again */
    assert_int_equal(graphs_of(10, 5), STEPS - 4); /* five shapes in turn */
    assert_int_equal(graphs_of(GY_CHOICE_SMALL, STEPS), STEPS);
    gantry_context_destroy(keeper);
}

/* Steps with CPU tasks in them: three batches of one kernel each, then one of several, all of one shape. */
static void test_lone_batches_beside_larger_ones_are_graphs(void **state)
{
    (void)state;
    uint32_t graphs = 0;
    fresh();
    for (uint32_t step = 0; step < 100; step++) {
        graphs += run_many(7, FEW, &one, 3) + run(7, FEW, &small);
    }
    assert_int_equal(graphs, 400);
    fresh();
    assert_true(run(6, FEW, &strange_small)); /* there is no credit for others */
    assert_int_equal(run_many(7, FEW, &one, GY_CHOICE_LONE + 1), 1);
    assert_true(run(7, FEW, &small));
}

/* While the credit is spent, no graph is made of what is strange, unless it comes again: see test_frugal.c.
 */
static void test_nothing_strange_is_made_on_spent_credit(void **state)
{
    (void)state;
    fresh();
    assert_int_equal(take(7, CALLS, &like), GY_WAY_GRAPH);
    assert_int_equal(take(7, CALLS, &strange), GY_WAY_GRAPH); /* there is credit */
    assert_int_equal(take(7, CALLS, &strange), GY_WAY_IF_KNOWN);
    for (uint32_t i = 0; i < GY_CHOICE_GIVES; i++) {
        assert_int_equal(take(7, CALLS, &like), GY_WAY_IF_KNOWN);
    }
    assert_int_equal(take(7, CALLS, &like), GY_WAY_GRAPH);
    fresh();
    assert_int_equal(take(7, CALLS, &strange), GY_WAY_GRAPH);
    assert_int_equal(run_new(CALLS, &strange, GY_CHOICE_CURIOUS + GY_CHOICE_PAUSE - 1), GY_CHOICE_CURIOUS);
    assert_int_equal(take(8, CALLS, &strange), GY_WAY_IF_KNOWN); /* the try */
    assert_int_equal(take(8, CALLS, &like), GY_WAY_IF_KNOWN);    /* it has come again */
    assert_int_equal(run_new(CALLS, &strange, GY_CHOICE_CURIOUS), GY_CHOICE_CURIOUS);
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
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(context);
    assert_int_equal(atomic_load(&dispatcher->told.submission), expected);
    const gantry_submission other =
        expected == GANTRY_SUBMISSION_GRAPHS ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS;
    assert_ok(gantry_dispatcher_set_submission(dispatcher, other));
    assert_int_equal(atomic_load(&dispatcher->told.submission), other);
    assert_ok(gantry_dispatcher_set_submission(dispatcher, asked)); /* means the same as at the beginning */
    assert_int_equal(atomic_load(&dispatcher->told.submission), expected);
    gantry_context_destroy(context);
}

static void test_the_environment_says_it_where_the_context_does_not(void **state)
{
    (void)state;
    expect_submission("streams", GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_STREAMS);
    expect_submission("graphs", GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_GRAPHS);
    expect_submission("auto", GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_AUTO);
    expect_submission("graphs", GANTRY_SUBMISSION_AUTO, GANTRY_SUBMISSION_AUTO);
    expect_submission(NULL, GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_AUTO);
    gantry_context_options options = modes_options();
    gantry_context *context;
    expect_submission("graphs", GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_STREAMS);
    assert_int_equal(setenv("GANTRY_SUBMISSION", "fast", 1), 0);
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "\"fast\""));
    expect_submission("", GANTRY_SUBMISSION_GRAPHS, GANTRY_SUBMISSION_GRAPHS);
    expect_submission(NULL, GANTRY_SUBMISSION_GRAPHS, GANTRY_SUBMISSION_GRAPHS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_new_steps_are_graphs_if_most_of_them_is_known),
        cmocka_unit_test(test_large_new_steps_like_which_nothing_is_go_to_streams),
        cmocka_unit_test(test_credit_is_of_steps_and_of_graphs_that_gain),
        cmocka_unit_test(test_strange_graphs_of_one_shape_go_to_streams),
        cmocka_unit_test(test_small_steps_are_graphs_when_they_come_again),
        cmocka_unit_test(test_shapes_that_come_again_with_other_work_go_to_streams),
        cmocka_unit_test(test_batches_that_are_cut_by_chance_are_graphs),
        cmocka_unit_test(test_one_task_is_no_graph_unless_it_enqueues_more),
        cmocka_unit_test(test_graphs_in_vain_go_to_streams),
        cmocka_unit_test(test_calls_of_many_kernels_are_not_slow),
        cmocka_unit_test(test_a_shape_that_gains_again_becomes_a_graph_again),
        cmocka_unit_test(test_shapes_that_share_a_place_are_told_apart),
        cmocka_unit_test(test_steps_are_graphs_when_they_repeat),
        cmocka_unit_test(test_lone_batches_beside_larger_ones_are_graphs),
        cmocka_unit_test(test_nothing_strange_is_made_on_spent_credit),
        cmocka_unit_test(test_callbacks_load_modules),
        cmocka_unit_test(test_the_environment_says_it_where_the_context_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
