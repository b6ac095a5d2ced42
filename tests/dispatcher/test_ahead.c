/* SPDX-License-Identifier: MIT */
/* While a batch is open, a few tasks of another partition go ahead of the rest of it, and it stays open. */
#include "base/clock.h"
#include "base/point.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "driver/places.h"
#include "order_kernels.kernels.h"
#include "tests/dispatcher/two_managers.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST_PLACES = 256 /* of the graphs of MANY nodes on the streams of a context */ };
enum { MANY = 1000, FEW = 100, AT = 50, BURST = 8, ROOM = 4096 };

static struct {
    struct two_managers m;
    pthread_t thread;
    gantry_launch_fn launch_critical;
    uint32_t tasks;            /* critical tasks */
    uint32_t calls;            /* calls of the batch; GD only */
    uint32_t called_at[BURST]; /* the number of such calls when a critical task was called; GD only */
    uint32_t critical_calls;   /* GD only */
    uint32_t stamp;            /* cells that were given out; GD only */
    bool waits_for_the_end;    /* immutable in a step */
    bool in_maker;           /* immutable in a step: the other manager's step begins while a graph is made */
    bool waits_for_the_call; /* immutable in a step: the graph is made when that step's task was called */
    _Atomic(uint32_t) held;  /* atomic: graphs that were made so */
    _Atomic(bool) is_called; /* atomic: a critical task was */
    _Atomic(bool) is_due, has_begun, told; /* atomic */
} s;

/* ---- the scene ------------------------------------------------------------------------------ */

static void open_with(bool is_planned, int priority)
{
    memset(&s, 0, sizeof(s));
    two_managers_open(&s.m, is_planned, priority, (1 + ROOM) * sizeof(uint32_t));
    gpu_fixture_use_threads_only(&s.m.gpu); /* a guest has to leave the loop when another step begins */
}

static void open_scene(int priority)
{
    open_with(true, priority);
}

static gantry_launch_result stamp(gantry_launch *launch)
{
    uint32_t at = 1 + s.stamp;
    s.stamp = (s.stamp + 2) % ROOM;
    return two_managers_stamp(&s.m, launch, at, at + 1);
}

/* In the middle of the batch the other manager's step is begun, and the callback returns when that step's
 * tasks have come.  Later it may wait until the end of one of them was told. */
static gantry_launch_result launch_many(gantry_launch *launch, void *arg)
{
    (void)arg;
    s.calls++;
    if (s.calls == AT && !s.in_maker) {
        atomic_store(&s.is_due, true);
        deadline_await(atomic_load(&s.has_begun), "the other manager's step");
    }
    if (s.calls == AT + 10 && s.waits_for_the_end) {
        deadline_await(atomic_load(&s.told), "the end of a task that goes ahead");
    }
    return stamp(launch);
}

static gantry_launch_result launch_critical(gantry_launch *launch, void *arg)
{
    s.called_at[s.critical_calls++ % BURST] = s.calls;
    atomic_store(&s.is_called, true);
    return stamp(launch) == GANTRY_LAUNCH_DONE &&
                   (arg == NULL || gantry_launch_add_completion(launch, arg) == GANTRY_OK)
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_told(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&s.told, true);
    return GANTRY_OK;
}

static void *run_critical(void *arg)
{
    (void)arg;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *then;
    desc.run = note_told;
    assert_ok(gantry_taskman_submit(s.m.other, &desc, &then));
    for (uint32_t i = 0; i < s.tasks; i++) {
        gantry_task *task = submit_kernel(s.m.other, s.m.critical, s.launch_critical, i == 0 ? then : NULL);
        if (i == 0) {
            assert_ok(gantry_task_start_after(then, task));
        }
    }
    deadline_await(atomic_load(&s.is_due), "the batch");
    assert_ok(gantry_taskman_start(s.m.other));
    atomic_store(&s.has_begun, true);
    assert_ok(gantry_taskman_stop(s.m.other));
    assert_ok(gantry_taskman_reset(s.m.other));
    return NULL;
}

/* Run a step of `many` tasks in pipelines, and beside it one of `tasks` critical ones; returns how many
 * graphs the first one took. */
static uint64_t run(uint32_t many, uint32_t tasks, gantry_launch_fn launch)
{
    gantry_task *last[4] = {NULL};
    uint64_t before = gpu_fixture_stats(&s.m.gpu).graph_launches;
    s.calls = s.critical_calls = 0;
    s.tasks = tasks;
    s.launch_critical = launch;
    atomic_store(&s.is_due, false);
    atomic_store(&s.has_begun, tasks == 0);
    atomic_store(&s.told, false);
    atomic_store(&s.is_called, false);
    for (uint32_t i = 0; i < many; i++) {
        gantry_task *task = submit_kernel(s.m.gpu.manager, NULL, launch_many, NULL);
        assert_ok(last[i % 4] != NULL ? gantry_task_start_after(task, last[i % 4]) : GANTRY_OK);
        last[i % 4] = task;
    }
    if (tasks != 0) {
        assert_int_equal(pthread_create(&s.thread, NULL, run_critical, NULL), 0);
    }
    run_step(s.m.gpu.manager);
    if (tasks != 0) {
        assert_int_equal(pthread_join(s.thread, NULL), 0);
    }
    assert_ok(gantry_context_synchronize(s.m.gpu.context));
    assert_int_equal(s.calls, many);
    return gpu_fixture_stats(&s.m.gpu).graph_launches - before;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void check_goes_first(int priority)
{
    open_scene(priority);
    (void)run(FEW, 1, launch_critical); /* functions and shapes become known */
    uint64_t undisturbed = run(MANY, 0, NULL);
    for (int i = 0; i < 3; i++) {
        s.waits_for_the_end = i == 2;
        assert_int_equal(run(MANY, 1, launch_critical), undisturbed);
        assert_int_equal(s.critical_calls, 1);
        assert_int_equal(s.called_at[0], AT);
    }
    two_managers_close(&s.m);
}

static void test_a_task_of_another_partition_goes_before_the_rest_of_a_batch(void **state)
{
    (void)state;
    check_goes_first(0);
}

static void test_a_task_of_a_greater_priority_goes_before_the_rest_of_a_batch(void **state)
{
    (void)state;
    check_goes_first(-1);
}

/* They become a graph of their own; where they have the higher priority the batch is launched for them. */
static void check_burst(int priority, uint32_t least, uint32_t most)
{
    open_scene(priority);
    (void)run(FEW, BURST, launch_critical);
    uint64_t graphs = run(FEW, BURST, launch_critical);
    assert_int_equal(s.critical_calls, BURST);
    for (int i = 0; i < BURST; i++) {
        assert_in_range(s.called_at[i], least, most);
    }
    assert_int_equal(graphs, priority < 0 ? 3 : 2);
    two_managers_close(&s.m);
}

static void test_many_have_a_graph_of_their_own(void **state)
{
    (void)state;
    check_burst(0, FEW, FEW);
}

static void test_many_of_a_greater_priority_end_the_batch(void **state)
{
    (void)state;
    check_burst(-1, AT, AT);
}

/* ---- callbacks that cannot go ahead, or not so ------------------------------------------------- */

static gantry_launch_result launch_raw(gantry_launch *launch, void *arg)
{
    return gantry_launch_stream(launch) != NULL ? launch_critical(launch, arg) : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_synchronously(gantry_launch *launch, void *arg)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    if (launch_critical(launch, arg) != GANTRY_LAUNCH_DONE) {
        return GANTRY_LAUNCH_FAILED;
    }
    return driver->cuCtxSynchronize() == CUDA_SUCCESS ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_sync_point(gantry_launch *launch, void *arg)
{
    atomic_store(&s.is_called, true); /* the batch is launched before the task goes on */
    return gantry_launch_request_sync_point(launch) == GANTRY_OK ? launch_critical(launch, arg)
                                                                 : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_again(gantry_launch *launch, void *arg)
{
    return gantry_launch_index(launch) < 3 ? GANTRY_LAUNCH_AGAIN : launch_critical(launch, arg);
}

static void test_callbacks_of_every_kind_go_ahead(void **state)
{
    (void)state;
    static const gantry_launch_fn functions[] = {launch_raw, launch_sync_point, launch_again,
                                                 launch_synchronously};
    open_scene(0);
    for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++) {
        for (int i = 0; i < 4; i++) {
            (void)run(FEW, 1 + (uint32_t)(i % 2), functions[f]);
            assert_true(s.critical_calls >= 1u + (uint32_t)(i % 2));
            assert_true(atomic_load(&s.told));
        }
    }
    two_managers_close(&s.m);
}

/* ---- while an executable graph is made --------------------------------------------------------- */

/* Thread: the maker.  It goes on when the critical task has ended; or when it was called, or cannot be. */
static void hold_maker(enum gy_point point, const void *at)
{
    (void)at;
    if (point != GY_POINT_MAKING || !s.in_maker || atomic_exchange(&s.is_due, true)) {
        return;
    }
    atomic_fetch_add(&s.held, 1);
    if (!s.waits_for_the_call) {
        deadline_await(atomic_load(&s.told), "a task that goes ahead while a graph is made");
    }
    const uint64_t until = gy_clock_ns() + 20000000;
    while (!atomic_load(&s.is_called) && gy_clock_ns() < until) {
        sched_yield();
    }
}

static void open_held_scene(bool is_planned)
{
    open_with(is_planned, 0);
    (void)run(FEW, 1, launch_critical); /* functions become known */
    s.in_maker = true;
    gy_point_hook(hold_maker);
}

static void close_held_scene(void)
{
    gy_point_hook(NULL);
    two_managers_close(&s.m);
}

/* Of another partition, or where there is no plan, of another manager. */
static void test_a_task_goes_ahead_while_a_graph_is_made(void **state)
{
    (void)state;
    for (int is_planned = 1; is_planned >= 0; is_planned--) {
        open_held_scene(is_planned != 0);
        for (uint32_t i = 0; i < 5; i++) { /* new shapes: one part, and more of them */
            (void)run(i < 3 ? FEW + 1 + i : MANY + i, 1, launch_critical);
            assert_int_equal(atomic_load(&s.held), 1 + i);
            assert_int_equal(s.critical_calls, 1);
        }
        close_held_scene();
    }
}

static const struct gy_maker *maker(void)
{
    return &gantry_context_dispatcher(s.m.gpu.context)->graphs.kept.maker;
}

static uint64_t uploaded(void)
{
    return atomic_load(&maker()->uploaded);
}

/* What the maker makes is on the device before it is launched; an upload that fails costs nothing. */
static void test_what_is_made_is_uploaded(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    open_with(false, 0);
    (void)run(FEW, 0, NULL);
    assert_int_equal(maker()->made, 1);
    const uint64_t each = maker()->context->driver->cuGraphUpload != NULL ? 1 : 0;
    assert_int_equal(uploaded(), each);
    (void)run(FEW, 0, NULL); /* it is there */
    assert_int_equal(maker()->made, 1);
    (void)run(FEW + 1, 0, NULL);
    assert_int_equal(maker()->made, 2);
    assert_int_equal(uploaded(), 2 * each);
    if (gpu_fixture_controls(&emu)) {
        static const char *const functions[] = {"cuGraphUpload", "cuStreamSynchronize"};
        for (uint32_t f = 0; f < 2; f++) {
            assert_int_equal((emu.fail)(functions[f], 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
            (void)run(FEW + 2 + f, 0, NULL);
            emu.clear_faults();
        }
        assert_int_equal(maker()->made, 4);
        assert_int_equal(uploaded(), 2 * each);
    }
    two_managers_close(&s.m);
}

/* A few nodes are made as quickly as a thread is woken. */
static void test_small_graphs_are_made_at_once(void **state)
{
    (void)state;
    open_with(false, 0);
    for (uint32_t i = 0; i < 4; i++) {
        (void)run(4 + i, 0, NULL);
    }
    assert_int_equal(maker()->made, 0);
    two_managers_close(&s.m);
}

/* What is being made is launched for these, or left. */
static void test_callbacks_of_every_kind_go_while_a_graph_is_made(void **state)
{
    (void)state;
    static const gantry_launch_fn functions[] = {launch_raw, launch_sync_point, launch_again,
                                                 launch_synchronously};
    open_held_scene(true);
    s.waits_for_the_call = true;
    for (uint32_t f = 0; f < 4; f++) {
        (void)run(FEW + 10 + f, 1 + f % 2, functions[f]);
        assert_true(atomic_load(&s.told));
    }
    close_held_scene();
}

/* A large graph waits a while for the one before it, which does not end here. */
static void test_large_graphs_are_launched_behind_one_that_does_not_end(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    const bool holds = gpu_fixture_controls(&emu);
    open_scene(0);
    (void)run(MANY, 0, NULL);
    s.in_maker = true; /* no other step begins */
    const uint64_t before = gpu_fixture_stats(&s.m.gpu).graph_nodes;
    gy_places_reserve(maker()->context, (GY_KEPT_COPIES + 2) * MOST_PLACES); /* else the driver waits */
    if (holds) {
        emu.hold();
    }
    for (uint32_t step = 0; step < GY_KEPT_COPIES + 2; step++) {
        for (uint32_t i = 0; i < MANY; i++) {
            (void)submit_kernel(s.m.gpu.manager, NULL, launch_many, NULL);
        }
        run_step(s.m.gpu.manager);
    }
    assert_int_equal(gpu_fixture_stats(&s.m.gpu).graph_nodes - before, (GY_KEPT_COPIES + 2) * MANY);
    if (holds) {
        emu.release();
    }
    two_managers_close(&s.m);
}

static void test_a_graph_that_the_maker_cannot_make_is_played(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        print_message("a real driver makes it\n");
        return;
    }
    open_scene(0);
    (void)run(FEW, 0, NULL);
    for (uint32_t i = 0; i < FEW + 5; i++) {
        (void)submit_kernel(s.m.gpu.manager, NULL, launch_many, NULL);
    }
    s.in_maker = true;
    assert_int_equal((emu.fail)("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE),
                     0);
    assert_ok(gpu_fixture_step(&s.m.gpu));
    assert_ok(gantry_context_synchronize(s.m.gpu.context));
    assert_int_equal(gpu_fixture_stats(&s.m.gpu).graph_plays, 1);
    s.in_maker = false;
    emu.clear_faults();
    (void)run(FEW, 0, NULL);
    assert_int_equal(gpu_fixture_stats(&s.m.gpu).graph_plays, 1);
    two_managers_close(&s.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_task_of_another_partition_goes_before_the_rest_of_a_batch),
        cmocka_unit_test(test_a_task_of_a_greater_priority_goes_before_the_rest_of_a_batch),
        cmocka_unit_test(test_many_have_a_graph_of_their_own),
        cmocka_unit_test(test_many_of_a_greater_priority_end_the_batch),
        cmocka_unit_test(test_callbacks_of_every_kind_go_ahead),
        cmocka_unit_test(test_a_task_goes_ahead_while_a_graph_is_made),
        cmocka_unit_test(test_what_is_made_is_uploaded),
        cmocka_unit_test(test_small_graphs_are_made_at_once),
        cmocka_unit_test(test_callbacks_of_every_kind_go_while_a_graph_is_made),
        cmocka_unit_test(test_large_graphs_are_launched_behind_one_that_does_not_end),
        cmocka_unit_test(test_a_graph_that_the_maker_cannot_make_is_played),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
