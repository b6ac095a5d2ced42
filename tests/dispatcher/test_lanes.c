/* SPDX-License-Identifier: MIT */
/* Graphs whose lanes end one by one: a kernel that spins until the host has seen another task's end does not
 * hold that task up, though the two are in one graph, or in graphs that come one after the other. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include "order_kernels.kernels.h"

#include <stdatomic.h>
#include <string.h>

/* A kernel that is still held up after so long is found by `seen`: nothing hangs. */
enum { FLAG = 1000, SEEN, IN_TIME = 2, STEPS = 12 };
#define PATIENCE_NS UINT64_C(10000000000)

struct scene {
    struct modes_scene on;
    gantry_kernel *await;
    struct modes_job jobs[10];
    _Atomic(uint32_t) runs;
};

static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                          GANTRY_SUBMISSION_AUTO};
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

static void open_scene(struct scene *s, gantry_submission mode)
{
    gantry_module *module;
    gantry_context_options options = modes_options();
    memset(s, 0, sizeof(*s));
    options.submission = mode;
    modes_open(&s->on, &options);
    assert_ok(gantry_module_load(s->on.gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s->await));
}

/* The kernel goes on when the host has set the flag. */
static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return stamps_await(&s->on.stamps, launch, s->await, FLAG, PATIENCE_NS);
}

static gantry_status set_flag(gantry_task *task, void *arg)
{
    (void)task;
    struct scene *s = arg;
    __atomic_store_n(&s->on.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    return GANTRY_OK;
}

/* The batch is cut before this task, whose callback enqueues on its stream. */
static gantry_launch_result launch_cutting(gantry_launch *launch, void *arg)
{
    return gantry_launch_leave_graph(launch) == GANTRY_OK ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

static gantry_task *cpu(struct scene *s, const char *label, gantry_status (*run)(gantry_task *, void *))
{
    void *arg = run == set_flag ? (void *)s : (void *)&s->runs;
    return gpu_fixture_cpu(&s->on.gpu, label, run, arg);
}

static gantry_task *awaiting(struct scene *s, const char *label)
{
    return gpu_fixture_gpu(&s->on.gpu, GANTRY_TASK_KERNEL, label, launch_await, s);
}

/* A task that stamps its cells; `then` (NULL: none) runs when it has ended. */
static gantry_task *stamping(struct scene *s, uint32_t index, const char *label, gantry_task *then)
{
    s->jobs[index] = (struct modes_job){&s->on, index, 20, then, false, 0};
    gantry_task *task = gpu_fixture_gpu(&s->on.gpu, GANTRY_TASK_KERNEL, label, modes_launch, &s->jobs[index]);
    if (then != NULL) {
        gpu_fixture_after(then, task);
    }
    return task;
}

static gantry_task *cutting(struct scene *s, uint32_t index, const char *label, gantry_task *then)
{
    s->jobs[index] = (struct modes_job){&s->on, index, 20, then, false, 0};
    gantry_task *task =
        gpu_fixture_gpu(&s->on.gpu, GANTRY_TASK_KERNEL, label, launch_cutting, &s->jobs[index]);
    if (then != NULL) {
        gpu_fixture_after(then, task);
    }
    return task;
}

/* A step of two chains that meet nowhere.  They are ready at once, behind one task. */
typedef void (*step_fn)(struct scene *s, gantry_task *first);

/* A1 -> CPU -> A2 -> set, and B1, which waits for the flag. */
static void by_the_host(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *a1 = stamping(s, 1, "a1", between);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *a2 = stamping(s, 2, "a2", set);
    gpu_fixture_after(a1, first);
    gpu_fixture_after(b1, first);
    gpu_fixture_after(a2, between);
}

/* The same with B1 called first: then the graph is launched on its stream. */
static void by_the_host_behind(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *a1 = stamping(s, 1, "a1", between);
    gantry_task *a2 = stamping(s, 2, "a2", set);
    gpu_fixture_after(b1, first);
    gpu_fixture_after(a1, first);
    gpu_fixture_after(a2, between);
}

/* `chains` times in a row. */
static void by_the_host_often(struct scene *s, gantry_task *first)
{
    gantry_task *b1 = awaiting(s, "b1"), *before = first;
    gpu_fixture_after(b1, first);
    for (uint32_t i = 1; i < 6; i++) {
        gantry_task *then = i == 5 ? cpu(s, "set", set_flag) : cpu(s, "between", modes_count_run);
        gpu_fixture_after(stamping(s, i, "a", then), before);
        before = then;
    }
}

/* A1, whose end the host is told, and B1 behind it on its stream, which waits for what the host does then. */
static void behind_its_end(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag);
    gantry_task *a1 = stamping(s, 1, "a1", set);
    gantry_task *b1 = awaiting(s, "b1");
    gpu_fixture_after(a1, first);
    gpu_fixture_after(b1, a1);
}

/* A1 -> A2 -> set, where A2 comes in a later batch, for it also comes after a host task behind E. */
static void by_an_edge(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *a1 = stamping(s, 1, "a1", NULL);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *e = stamping(s, 3, "e", between);
    gantry_task *a2 = stamping(s, 2, "a2", set);
    gpu_fixture_after(a1, first);
    gpu_fixture_after(b1, first);
    gpu_fixture_after(e, first);
    gpu_fixture_after(a2, a1);
    gpu_fixture_after(a2, between);
}

static void by_an_edge_behind(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *a1 = stamping(s, 1, "a1", NULL);
    gantry_task *e = stamping(s, 3, "e", between);
    gantry_task *a2 = stamping(s, 2, "a2", set);
    gpu_fixture_after(b1, first);
    gpu_fixture_after(a1, first);
    gpu_fixture_after(e, first);
    gpu_fixture_after(a2, a1);
    gpu_fixture_after(a2, between);
}

/* The same with B1 -> B2, where B2 comes together with A2, before it or behind it. */
static void both_by_edges(struct scene *s, gantry_task *first, bool is_b_first)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *a1 = stamping(s, 1, "a1", NULL);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *e = stamping(s, 3, "e", between);
    gantry_task *b2 = is_b_first ? stamping(s, 4, "b2", NULL) : NULL;
    gantry_task *a2 = stamping(s, 2, "a2", set);
    b2 = is_b_first ? b2 : stamping(s, 4, "b2", NULL);
    gpu_fixture_after(a1, first);
    gpu_fixture_after(b1, first);
    gpu_fixture_after(e, first);
    gantry_task *const second[] = {is_b_first ? b2 : a2, is_b_first ? a2 : b2};
    for (int i = 0; i < 2; i++) {
        gpu_fixture_after(second[i], second[i] == a2 ? a1 : b1);
        gpu_fixture_after(second[i], between);
    }
}

static void both_with_a_first(struct scene *s, gantry_task *first)
{
    both_by_edges(s, first, false);
}

static void both_with_b_first(struct scene *s, gantry_task *first)
{
    both_by_edges(s, first, true);
}

/* A1 -> C1 and A1 -> A2 -> set, where C1 goes on behind A1 on its lane, and A2 comes in a later batch.  C1 is
 * B1 itself, or B1 is beside them. */
static void by_an_edge_left_behind(struct scene *s, gantry_task *first, bool is_before_b1)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *b1 = is_before_b1 ? NULL : awaiting(s, "b1");
    gantry_task *a1 = stamping(s, 1, "a1", NULL);
    gantry_task *e = stamping(s, 3, "e", between);
    gantry_task *c1 = is_before_b1 ? awaiting(s, "b1") : stamping(s, 4, "c1", NULL);
    gantry_task *a2 = stamping(s, 2, "a2", set);
    if (b1 != NULL) {
        gpu_fixture_after(b1, first);
    }
    gpu_fixture_after(a1, first);
    gpu_fixture_after(e, first);
    gpu_fixture_after(c1, a1);
    gpu_fixture_after(a2, a1);
    gpu_fixture_after(a2, between);
}

static void beside_b1(struct scene *s, gantry_task *first)
{
    by_an_edge_left_behind(s, first, false);
}

static void before_b1(struct scene *s, gantry_task *first)
{
    by_an_edge_left_behind(s, first, true);
}

/* A2 comes after A1 and E, and is ready when the batch that these are in is cut. */
static void before_a_cut(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *a1 = stamping(s, 1, "a1", NULL);
    gantry_task *e = stamping(s, 3, "e", NULL);
    gantry_task *x = cutting(s, 4, "x", NULL);
    gantry_task *a2 = stamping(s, 2, "a2", set);
    gantry_task *const second[] = {b1, a1, e, x};
    for (int i = 0; i < 4; i++) {
        gpu_fixture_after(second[i], first);
    }
    gpu_fixture_after(a2, a1);
    gpu_fixture_after(a2, e);
}

/* X -> set, where X leaves the graph that has A1, which it comes after, and is on the stream of A1.  Not so
 * in the first step, where its callback leaves the graph in the call: it has got that stream then. */
static void on_the_home(struct scene *s, gantry_task *first)
{
    const bool is_known = s->jobs[2].scene != NULL;
    gantry_task *set = cpu(s, "set", set_flag);
    gantry_task *a1 = stamping(s, 1, "a1", is_known ? NULL : set);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *x = cutting(s, 2, "x", is_known ? set : NULL);
    gpu_fixture_after(a1, first);
    gpu_fixture_after(b1, first);
    gpu_fixture_after(x, a1);
}

/* Chains of five tasks in five batches beside B1, of which each task comes after the one before, by an edge,
 * and after a host task behind another chain. */
static void by_many_edges(struct scene *s, gantry_task *first)
{
    gantry_task *b1 = awaiting(s, "b1"), *a = first, *between = NULL;
    gpu_fixture_after(b1, first);
    for (uint32_t i = 0; i < 4; i++) {
        gantry_task *then = i == 3 ? cpu(s, "set", set_flag) : NULL;
        gantry_task *next = stamping(s, 1 + 2 * i, "a", then);
        gpu_fixture_after(next, a);
        if (between != NULL) {
            gpu_fixture_after(next, between);
        }
        if (i < 3) {
            gantry_task *before = between;
            between = cpu(s, "between", modes_count_run);
            gantry_task *e = stamping(s, 2 + 2 * i, "e", between);
            gpu_fixture_after(e, before != NULL ? before : first);
        }
        a = next;
    }
}

static void run_step(struct scene *s, step_fn build)
{
    memset(s->on.stamps.cells, 0, (SEEN + 1) * sizeof(uint32_t));
    gantry_task *first = stamping(s, 0, "first", NULL);
    build(s, first);
    assert_ok(gpu_fixture_step(&s->on.gpu));
    assert_ok(gantry_context_synchronize(s->on.gpu.context));
    assert_int_equal(s->on.stamps.cells[SEEN], IN_TIME);
}

static void run_in_all_modes(step_fn build, uint32_t streams)
{
    static struct scene s;
    for (int m = 0; m < MODES; m++) {
        open_scene(&s, modes[m]);
        for (int step = 0; step < STEPS; step++) {
            run_step(&s, build);
        }
        const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.on.gpu);
        assert_true((stats.graph_launches != 0) == (modes[m] != GANTRY_SUBMISSION_STREAMS));
        assert_true(stats.streams_created <= streams);
        modes_close(&s.on);
    }
}

/* Steps that take more streams than those behind them, and then B1 beside tasks that take these streams again
 * in a later batch.  What was recorded behind the first graph is recorded again now and then. */
static void wide_step(struct scene *s, uint32_t width)
{
    gantry_task *first = stamping(s, 0, "first", NULL);
    for (uint32_t i = 1; i <= width; i++) {
        gpu_fixture_after(stamping(s, i, "wide", NULL), first);
    }
    assert_ok(gpu_fixture_step(&s->on.gpu));
}

static void widening(struct scene *s, gantry_task *first)
{
    gantry_task *set = cpu(s, "set", set_flag), *between = cpu(s, "between", modes_count_run);
    gantry_task *b1 = awaiting(s, "b1");
    gantry_task *e = stamping(s, 1, "e", between), *wide[4];
    for (uint32_t i = 0; i < 4; i++) {
        wide[i] = stamping(s, 2 + i, "wide", NULL);
        gpu_fixture_after(wide[i], between);
    }
    gantry_task *end = stamping(s, 6, "end", set);
    for (uint32_t i = 0; i < 4; i++) {
        gpu_fixture_after(end, wide[i]);
    }
    gpu_fixture_after(b1, first);
    gpu_fixture_after(e, first);
}

static void test_streams_of_earlier_steps_hold_nothing_up(void **state)
{
    (void)state;
    static struct scene s;
    for (int m = 0; m < MODES; m++) {
        open_scene(&s, modes[m]);
        for (uint32_t steps = 0; steps < 2 * GY_STREAM_EVENTS; steps++) {
            wide_step(&s, 6);
            for (uint32_t i = 0; i < steps; i++) {
                wide_step(&s, 1);
            }
            run_step(&s, widening);
        }
        modes_close(&s.on);
    }
}

static void test_what_follows_a_host_task_does_not_wait_for_the_rest_of_the_graph(void **state)
{
    (void)state;
    run_in_all_modes(by_the_host, 4);
    run_in_all_modes(by_the_host_behind, 4);
    run_in_all_modes(by_the_host_often, 4);
}

static void test_an_end_is_told_before_the_stream_goes_on(void **state)
{
    (void)state;
    run_in_all_modes(behind_its_end, 3);
}

static void test_what_follows_by_an_edge_waits_for_its_own_lane(void **state)
{
    (void)state;
    run_in_all_modes(by_an_edge, 6);
    run_in_all_modes(by_an_edge_behind, 6);
    run_in_all_modes(by_many_edges, 10);
}

static void test_what_follows_by_an_edge_waits_for_no_more_of_that_lane(void **state)
{
    (void)state;
    run_in_all_modes(beside_b1, 6);
    run_in_all_modes(before_b1, 6);
}

static void test_a_cut_leaves_no_task_behind_the_rest_of_the_graph(void **state)
{
    (void)state;
    run_in_all_modes(before_a_cut, 8);
    run_in_all_modes(on_the_home, 6);
}

static void test_lanes_of_a_later_graph_wait_for_themselves(void **state)
{
    (void)state;
    run_in_all_modes(both_with_a_first, 6);
    run_in_all_modes(both_with_b_first, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_follows_a_host_task_does_not_wait_for_the_rest_of_the_graph),
        cmocka_unit_test(test_an_end_is_told_before_the_stream_goes_on),
        cmocka_unit_test(test_what_follows_by_an_edge_waits_for_its_own_lane),
        cmocka_unit_test(test_what_follows_by_an_edge_waits_for_no_more_of_that_lane),
        cmocka_unit_test(test_a_cut_leaves_no_task_behind_the_rest_of_the_graph),
        cmocka_unit_test(test_streams_of_earlier_steps_hold_nothing_up),
        cmocka_unit_test(test_lanes_of_a_later_graph_wait_for_themselves),
    };
    return cmocka_run_group_tests_name("dispatcher lanes", tests, NULL, NULL);
}
