/* SPDX-License-Identifier: MIT */
/* Completions of graphs: they are told when their tasks end, while the graph goes on, and never before. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include "order_kernels.kernels.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { FLAG = 1000, SEEN, IN_TIME = 2, STEPS = 20 };
#define PATIENCE_NS UINT64_C(10000000000)

struct scene {
    struct modes_scene on;
    gantry_kernel *await;
    struct modes_job job;
    _Atomic(bool) go;
    _Atomic(uint32_t) early;
};

static void open_scene(struct scene *s, gantry_wait_mode wait)
{
    gantry_module *module;
    gantry_context_options options = modes_options();
    memset(s, 0, sizeof(*s));
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.completion_wait = wait;
    modes_open(&s->on, &options);
    assert_ok(gantry_module_load(s->on.gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s->await));
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

/* ---- GPU work that waits for the host -------------------------------------------------------- */

/* The kernel goes on when the host has set the flag. */
static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return stamps_await(&s->on.stamps, launch, s->await, FLAG, PATIENCE_NS);
}

static void wait_for_go(void *user)
{
    while (!atomic_load((_Atomic(bool) *)user)) {
        sched_yield();
    }
}

/* The same by a host function on its own stream. */
static gantry_launch_result launch_host_gate(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    return driver->cuLaunchHostFunc(gantry_launch_stream(launch), wait_for_go, &s->go) == CUDA_SUCCESS
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status set_flag(gantry_task *task, void *arg)
{
    (void)task;
    struct scene *s = arg;
    atomic_fetch_add(&s->early, s->on.stamps.cells[2] == 0);
    __atomic_store_n(&s->on.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    atomic_store(&s->go, true);
    return GANTRY_OK;
}

/* Three tasks that are ready at once: the first waits for what the host does when the second has ended. */
static void run_step(struct scene *s, gantry_launch_fn gate)
{
    struct gpu_fixture *gpu = &s->on.gpu;
    memset(s->on.stamps.cells, 0, (SEEN + 1) * sizeof(uint32_t));
    atomic_store(&s->go, false);
    gantry_task *first = gpu_fixture_gpu(gpu, GANTRY_TASK_KERNEL, "first", launch_nothing, NULL);
    gantry_task *waits = gpu_fixture_gpu(gpu, GANTRY_TASK_KERNEL, "waits", gate, s);
    gantry_task *set = gpu_fixture_cpu(gpu, "set", set_flag, s);
    s->job = (struct modes_job){&s->on, 0, 100, set, false, 0};
    gantry_task *told = gpu_fixture_gpu(gpu, GANTRY_TASK_KERNEL, "told", modes_launch, &s->job);
    gantry_task *other = gpu_fixture_gpu(gpu, GANTRY_TASK_KERNEL, "other", launch_nothing, NULL);
    gpu_fixture_after(waits, first);
    gpu_fixture_after(told, first);
    gpu_fixture_after(other, first);
    gpu_fixture_after(set, told);
    assert_ok(gpu_fixture_step(gpu));
    assert_ok(gantry_context_synchronize(s->on.gpu.context));
}

/* This would last until the kernel's patience has ended if the completion came with the end of the graph. */
static void test_a_completion_is_told_while_its_graph_runs(void **state)
{
    (void)state;
    static const gantry_wait_mode modes[] = {GANTRY_WAIT_DEFAULT, GANTRY_WAIT_BLOCK, GANTRY_WAIT_YIELD,
                                             GANTRY_WAIT_SPIN, GANTRY_WAIT_ADAPTIVE};
    static struct scene s;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        open_scene(&s, modes[m]);
        assert_true(gy_ends_are_told(&gantry_context_dispatcher(s.on.gpu.context)->graphs.ends));
        for (int step = 0; step < STEPS; step++) {
            run_step(&s, launch_await);
            assert_int_equal(s.on.stamps.cells[SEEN], IN_TIME);
        }
        const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.on.gpu);
        assert_int_equal(s.early, 0);
        assert_int_equal(stats.graph_launches, STEPS); /* one graph each, without a cut */
        assert_int_equal(stats.graph_nodes, 2 * STEPS);
        assert_true(stats.graphs_kept <= 2);
        assert_int_equal(stats.graph_nodes_set, 0);
        modes_close(&s.on);
    }
}

static void test_what_waits_by_its_own_calls_is_no_part_of_a_graph(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_WAIT_DEFAULT);
    for (int step = 0; step < STEPS; step++) {
        run_step(&s, launch_host_gate);
    }
    assert_int_equal(s.early, 0);
    assert_true(gpu_fixture_stats(&s.on.gpu).graph_launches != 0);
    modes_close(&s.on);
}

/* ---- several completions --------------------------------------------------------------------- */

enum { ROW = 6 };

struct link {
    struct modes_job job;
    _Atomic(uint32_t) ran, early;
    struct scene *scene;
};

static gantry_status check_link(gantry_task *task, void *arg)
{
    (void)task;
    struct link *l = arg;
    atomic_fetch_add(
        &l->early, __atomic_load_n(&l->scene->on.stamps.cells[2 + 2 * l->job.index], __ATOMIC_ACQUIRE) == 0);
    atomic_fetch_add(&l->ran, 1);
    return GANTRY_OK;
}

/* A step of tasks in a row, each with a completion: none of these is told before its task has ended. */
static void run_row(struct scene *s, struct link *links, uint32_t spins)
{
    gantry_task *before = NULL;
    memset(s->on.stamps.cells, 0, 256);
    for (uint32_t i = 0; i < ROW; i++) {
        struct link *l = &links[i];
        l->scene = s;
        gantry_task *done = gpu_fixture_cpu(&s->on.gpu, "done", check_link, l);
        l->job = (struct modes_job){&s->on, i, spins, done, false, 0};
        gantry_task *task = gpu_fixture_gpu(&s->on.gpu, GANTRY_TASK_KERNEL, "link", modes_launch, &l->job);
        gpu_fixture_after(done, task);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_ok(gpu_fixture_step(&s->on.gpu));
}

static void check_rows(struct scene *s)
{
    static struct link links[ROW];
    memset(links, 0, sizeof(links));
    for (uint32_t step = 0; step < STEPS; step++) {
        run_row(s, links, step * 20);
    }
    for (uint32_t i = 0; i < ROW; i++) {
        assert_int_equal(links[i].ran, STEPS);
        assert_int_equal(links[i].early, 0);
    }
}

static void test_each_task_of_a_row_is_told_when_it_ends(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_WAIT_DEFAULT);
    check_rows(&s);
    assert_int_equal(gpu_fixture_stats(&s.on.gpu).graph_nodes, STEPS * ROW);
    modes_close(&s.on);
}

/* ---- drivers that do not tell ---------------------------------------------------------------- */

/* An event says that it has passed until the device comes to its node. */
static void test_no_task_is_told_early_where_events_are_late(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    static struct scene s;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    emu.late_events(1);
    open_scene(&s, GANTRY_WAIT_SPIN);
    assert_false(gy_ends_are_told(&gantry_context_dispatcher(s.on.gpu.context)->graphs.ends));
    check_rows(&s);
    assert_true(gpu_fixture_stats(&s.on.gpu).graph_launches >= STEPS);
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(s.on.gpu.context),
                                               GANTRY_SUBMISSION_AUTO));
    const uint64_t before = gpu_fixture_stats(&s.on.gpu).graph_launches;
    check_rows(&s);
    assert_int_equal(gpu_fixture_stats(&s.on.gpu).graph_launches, before); /* auto does without graphs */
    modes_close(&s.on);
    emu.late_events(0);
}

/* The question of ends.h fails in each of its calls: graphs are made all the same. */
static void test_a_question_that_fails_is_no_failure(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuGraphAddEventRecordNode", "cuGraphInstantiateWithFlags",
                                        "cuGraphExecEventRecordNodeSetEvent", "cuLaunchHostFunc",
                                        "cuGraphLaunch"};
    struct gantry_emu_control emu;
    static struct scene s;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_int_equal((emu.fail)(calls[i], 1, CUDA_ERROR_NOT_SUPPORTED, GANTRY_EMU_ONCE), 0);
        open_scene(&s, GANTRY_WAIT_DEFAULT);
        emu.clear_faults();
        assert_false(gy_ends_are_told(&gantry_context_dispatcher(s.on.gpu.context)->graphs.ends));
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_GRAPH_EXECS), 0);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_GRAPHS), 0);
        check_rows(&s);
        modes_close(&s.on);
    }
}

/* Its stream cannot be waited for: the host function has ended all the same when the question is over, as the
 * gate goes with the context. */
static void test_a_question_leaves_no_host_function_behind(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    static struct scene s;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    open_scene(&s, GANTRY_WAIT_DEFAULT);
    assert_ok(gantry_context_acquire(s.on.gpu.context));
    for (uint32_t i = 0; i < 50; i++) {
        struct gy_ends ends = {.is_asked = false};
        assert_int_equal((emu.fail)("cuStreamSynchronize", 1, CUDA_ERROR_NOT_SUPPORTED, GANTRY_EMU_ONCE), 0);
        gy_ends_ask(&ends, s.on.gpu.context->cuda);
        emu.clear_faults();
        assert_int_equal(atomic_load(&ends.gate), GY_ENDS_LEFT);
        assert_false(gy_ends_are_told(&ends));
    }
    assert_ok(gantry_context_release(s.on.gpu.context));
    modes_close(&s.on);
}

/* As on an H200 that other programs use, too: a stream was waited for, and an event that was recorded on it
 * says once more that it has not passed. */
static void test_an_event_that_is_behind_its_stream_is_no_answer(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    static struct scene s;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    for (uint32_t nth = 1; nth <= 3; nth++) {
        assert_int_equal((emu.fail)("cuEventQuery", nth, CUDA_ERROR_NOT_READY, GANTRY_EMU_ONCE), 0);
        open_scene(&s, GANTRY_WAIT_DEFAULT);
        emu.clear_faults();
        assert_true(gy_ends_are_told(&gantry_context_dispatcher(s.on.gpu.context)->graphs.ends));
        modes_close(&s.on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_completion_is_told_while_its_graph_runs),
        cmocka_unit_test(test_what_waits_by_its_own_calls_is_no_part_of_a_graph),
        cmocka_unit_test(test_each_task_of_a_row_is_told_when_it_ends),
        cmocka_unit_test(test_no_task_is_told_early_where_events_are_late),
        cmocka_unit_test(test_a_question_that_fails_is_no_failure),
        cmocka_unit_test(test_a_question_leaves_no_host_function_behind),
        cmocka_unit_test(test_an_event_that_is_behind_its_stream_is_no_answer),
    };
    return cmocka_run_group_tests_name("dispatcher ends", tests, NULL, NULL);
}
