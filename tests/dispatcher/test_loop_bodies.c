/* SPDX-License-Identifier: MIT */
/* Loops whose bodies the device cannot run by itself: the log names the task and says why, when the graph is
 * frozen, and the loop runs as it should. */
#include "tests/dispatcher/loop_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include <stdio.h>
#include <string.h>

struct body {
    const char *task, *why;
    void (*make)(struct loop_scene *s); /* submits the steps and their edges, but for those of close() */
    bool is_run;                        /* else its edges let no second turn begin */
};

/* The loop's own edges, around the line of steps that make() has made. */
static void close_body(struct loop_scene *s, gantry_task *first, gantry_task *last)
{
    gpu_fixture_after(first, s->before);
    gpu_fixture_after(s->loop.test, last);
    gpu_fixture_after(first, s->loop.decide);
    gpu_fixture_after(s->after, s->loop.decide);
}

/* Two steps, one after the other; returns the first.  The second one follows it in `steps`. */
static struct loop_step *add_two(struct loop_scene *s)
{
    struct loop_step *first = loops_add_step(s, ACT_MIX, 3, 2, 3);
    gpu_fixture_after(loops_add_step(s, ACT_COUNT, 0, 0, 0)->task, first->task);
    return first;
}

static void make_unstable(struct loop_scene *s)
{
    struct loop_step *first = loops_add_step(s, ACT_MIX, 3, 2, 3);
    struct loop_step *last = loops_add_step_with(s, ACT_COUNT, 0, 0, 0, false);
    gpu_fixture_after(last->task, first->task);
    close_body(s, first->task, last->task);
}

static gantry_status count_call(gantry_task *task, void *arg)
{
    struct loop_step *step = arg;
    (void)task;
    atomic_fetch_add(&step->calls, 1);
    return GANTRY_OK;
}

static void make_with_cpu_task(struct loop_scene *s)
{
    struct loop_step *first = loops_add_step(s, ACT_MIX, 3, 2, 3);
    struct loop_step *last = loops_add_step(s, ACT_COUNT, 0, 0, 0);
    gantry_task *cpu = gpu_fixture_cpu(&s->gpu, "on the CPU", count_call, first);
    gpu_fixture_after(cpu, first->task);
    gpu_fixture_after(last->task, cpu);
    close_body(s, first->task, last->task);
}

/* A task of the body that the test does not come after. */
static void make_with_end(struct loop_scene *s)
{
    struct loop_step *first = add_two(s);
    gpu_fixture_after(loops_add_step(s, ACT_FILL, 7, 0, 70)->task, first->task);
    close_body(s, first->task, first[1].task);
}

/* A task of the body, not the first one, that comes after one outside. */
static void make_with_entry(struct loop_scene *s)
{
    struct loop_step *first = add_two(s);
    gpu_fixture_after(first[1].task, s->before);
    close_body(s, first->task, first[1].task);
}

static void make_with_three_ways(struct loop_scene *s)
{
    struct loop_step *first = add_two(s);
    close_body(s, first->task, first[1].task);
    gpu_fixture_after(gpu_fixture_cpu(&s->gpu, "third", loops_see, s), s->loop.decide);
}

static void make_without_body(struct loop_scene *s)
{
    close_body(s, s->loop.test, s->before);
}

static void make_of_sync_points(struct loop_scene *s)
{
    struct loop_step *only = loops_add_step(s, ACT_SYNC, 0, 0, 0);
    close_body(s, only->task, only->task);
}

static const struct body bodies[] = {
    {"step", "is not stable", make_unstable, true},
    {"on the CPU", "is a CPU task", make_with_cpu_task, true},
    {"step", "comes after the body's first task, and the test does not come after it", make_with_end, false},
    {"step", "comes after a task outside of the loop", make_with_entry, false},
    {"rounds", "has more than two dependents", make_with_three_ways, true},
    {"rounds", "has no body", make_without_body, false},
    {"step", "is all of its body", make_of_sync_points, false},
};

static void freeze_and_expect(struct loop_scene *s, const char *task, const char *why)
{
    char expected[160];
    struct log_lines lines;
    snprintf(expected, sizeof(expected), "loop 'rounds' is decided by the CPU: task '%s' %s", task, why);
    log_lines_begin(&lines, expected);
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
    if (log_lines_end(&lines) != 1) {
        fail_msg("nothing says \"%s\"", expected);
    }
}

static void test_why_the_cpu_decides_is_told(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_scene(&s, NULL);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        loops_add_loop(&s, 100);
        bodies[i].make(&s);
        freeze_and_expect(&s, bodies[i].task, bodies[i].why);
        for (uint32_t turns = 3; turns < 6 && bodies[i].is_run; turns++) {
            loops_run(&s, turns);
            loops_expect(&s, 0, turns - 2, GANTRY_LOOP_WORD, turns);
        }
        assert_ok(gantry_taskman_reset(s.gpu.manager));
    }
    loops_make_usual(&s, 100);
    loops_run(&s, 4);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 4);
    loops_close_scene(&s);
}

/* A task is in the bodies of two loops: the first one has it. */
static void test_a_task_of_two_loops_is_told(void **state)
{
    (void)state;
    struct loop_scene s;
    gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
    gantry_loop other = {.struct_size = sizeof(other)};
    loops_open_scene(&s, NULL);
    loops_add_loop(&s, 100);
    struct loop_step *first = loops_add_step(&s, ACT_MIX, 3, 2, 3);
    struct loop_step *both = loops_add_step(&s, ACT_COUNT, 0, 0, 0);
    struct loop_step *theirs = loops_add_step(&s, ACT_FILL, 7, 0, 70);
    gpu_fixture_after(both->task, first->task);
    close_body(&s, first->task, both->task);
    options.word = s.cells;
    options.most = 100;
    options.label = "rounds";
    assert_ok(gantry_taskman_submit_loop(s.gpu.manager, &options, &other));
    gpu_fixture_after(theirs->task, s.before);
    gpu_fixture_after(both->task, theirs->task);
    gpu_fixture_after(other.test, both->task);
    gpu_fixture_after(theirs->task, other.decide);
    freeze_and_expect(&s, "step", "is of another loop, too");
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    loops_close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_why_the_cpu_decides_is_told),
        cmocka_unit_test(test_a_task_of_two_loops_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
