/* SPDX-License-Identifier: MIT */
/* The auto mode makes no graphs of work that nothing is like, but for the first one: such work is noted and
 * played on streams, in its order, until it comes again.  A few nodes whose like are all in flight are
 * played, too. */
#include "context/context.h"
#include "dispatcher/call/met.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

enum { JOBS = 40, SHAPES = 6, ROUNDS = 4 };
_Static_assert(JOBS >= GY_CHOICE_SMALL && SHAPES <= GY_CHOICE_CURIOUS, "large steps, all of them looked at");

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

static void open_scene(struct modes_scene *s, gantry_submission submission)
{
    gantry_context_options options = modes_options();
    options.submission = submission;
    modes_open(s, &options);
    gy_met_add(modes_launch, gy_met_context(s->gpu.context->cuda));
    gantry_context_dispatcher(s->gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
}

/* A step of so many tasks, each behind one or two that the seed draws, and behind no more than eight others;
 * their order on the device is checked. */
static void run(struct modes_scene *s, uint32_t count, uint64_t seed)
{
    struct modes_job jobs[JOBS] = {{0}};
    gantry_task *tasks[JOBS];
    uint32_t before[JOBS][2];
    memset(s->stamps.cells, 0, 512);
    for (uint32_t i = 0; i < count; i++) {
        jobs[i].scene = s;
        jobs[i].index = i;
        tasks[i] = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "job", modes_launch, &jobs[i]);
        for (uint32_t e = 0; e < 2 && i != 0; e++) {
            const uint32_t low = i > 8 ? i - 8 : 0;
            before[i][e] = low + draw(&seed, i - low);
            gpu_fixture_after(tasks[i], tasks[before[i][e]]);
        }
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    for (uint32_t i = 0; i < count; i++) {
        assert_true(modes_end_of(s, i) != 0);
        for (uint32_t e = 0; e < 2 && i != 0; e++) {
            assert_true(modes_end_of(s, before[i][e]) < modes_begin_of(s, i));
        }
    }
}

/* The first shape is made on credit; the others are played once, made once, and patched from then on. */
static void test_what_is_strange_is_played_until_it_comes_again(void **state)
{
    (void)state;
    struct modes_scene s;
    open_scene(&s, GANTRY_SUBMISSION_AUTO);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t shape = 0; shape < SHAPES; shape++) {
            const gantry_dispatcher_stats was = gpu_fixture_stats(&s.gpu);
            run(&s, JOBS, 1 + shape);
            const gantry_dispatcher_stats is = gpu_fixture_stats(&s.gpu);
            const bool is_made = round == (shape == 0 ? 0 : 1), is_played = round == 0 && shape != 0;
            assert_int_equal(is.graph_plays - was.graph_plays, is_played);
            assert_int_equal(is.graph_instantiations - was.graph_instantiations, is_made);
            assert_int_equal(is.graph_patches - was.graph_patches, !is_made && !is_played);
        }
    }
    modes_close(&s);
}

/* In graphs mode all of them are graphs at once. */
static void test_graphs_mode_plays_nothing(void **state)
{
    (void)state;
    struct modes_scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    for (uint32_t shape = 0; shape < SHAPES; shape++) {
        run(&s, JOBS, 1 + shape);
    }
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_plays, 0);
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_launches, SHAPES);
    modes_close(&s);
}

/* Of shapes that never come again none is made but the first, and only some are noted at all. */
static void test_what_never_comes_again_goes_to_streams(void **state)
{
    (void)state;
    struct modes_scene s;
    enum { STEPS = 60 };
    open_scene(&s, GANTRY_SUBMISSION_AUTO);
    for (uint32_t step = 0; step < STEPS; step++) {
        run(&s, JOBS, 100 + step);
    }
    const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_int_equal(stats.graph_instantiations, 1);
    assert_in_range(stats.graph_plays, 1, GY_CHOICE_CURIOUS);
    modes_close(&s);
}

/* ---- single kernels ---------------------------------------------------------------------------- */

enum { LONE = GY_CHOICE_LONE + 40 };

/* Steps of one kernel become graphs, and where the device lags behind those that find none free are played.
 */
static void test_single_kernels_are_graphs_or_played(void **state)
{
    (void)state;
    struct modes_scene s;
    struct modes_job jobs[LONE] = {{0}};
    open_scene(&s, GANTRY_SUBMISSION_AUTO);
    for (uint32_t i = 0; i < LONE; i++) {
        jobs[i].scene = &s;
        jobs[i].index = i;
        jobs[i].spins = i < GY_CHOICE_LONE ? 0 : 20000;
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "job", modes_launch, &jobs[i]);
        assert_ok(gpu_fixture_step(&s.gpu));
    }
    assert_ok(gantry_context_synchronize(s.gpu.context));
    for (uint32_t i = 1; i < LONE; i++) {
        assert_true(modes_end_of(&s, i - 1) != 0 && modes_end_of(&s, i - 1) < modes_begin_of(&s, i));
    }
    const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_true(stats.graph_launches != 0 &&
                stats.graph_launches + stats.graph_plays <= LONE - GY_CHOICE_LONE);
    assert_true(stats.graph_instantiations <= GY_KEPT_ALIKE);
    modes_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_strange_is_played_until_it_comes_again),
        cmocka_unit_test(test_graphs_mode_plays_nothing),
        cmocka_unit_test(test_what_never_comes_again_goes_to_streams),
        cmocka_unit_test(test_single_kernels_are_graphs_or_played),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
