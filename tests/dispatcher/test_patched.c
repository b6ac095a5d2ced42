/* SPDX-License-Identifier: MIT */
/* Steps that are like earlier ones: their graphs are kept, and only the nodes that differ are set. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/patched_scene.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what differs ------------------------------------------------------------------------------ */

static void test_what_differs_is_set_and_nothing_else(void **state)
{
    (void)state;
    patched_open_with_rows();
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    for (uint32_t i = 0; i < PATCHED_ROWS; i += 10) {
        patched.jobs[i].by += 3;
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS / 10);
    for (uint32_t i = 0; i < PATCHED_ROWS; i++) {
        patched.jobs[i].by += 5;
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS);
    for (uint32_t i = 0; i < PATCHED_ROWS; i += 4) {
        patched.jobs[i].blocks = 3;
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS / 4);
    for (uint32_t i = 0; i < PATCHED_ROWS; i += 2) {
        patched.jobs[i].function = COUNT_DOWN;
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS / 2);
    for (uint32_t i = 0; i < PATCHED_ROWS; i += 5) { /* it has more parameters */
        patched.jobs[i].function = STAMP;
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS / 5);
    for (uint32_t i = 0; i < PATCHED_ROWS; i += 5) {
        patched.jobs[i].function = COUNT_UP;
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS / 5);
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    patched_close();
}

static void test_other_edges_are_another_shape(void **state)
{
    (void)state;
    patched_open_with_rows();
    assert_int_equal(patched_run_rows(PATCHED_ROWS, false).kept, 0);
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    patched_expect(patched_run_rows(PATCHED_ROWS, false), 0);
    patched_close();
}

/* Copies and fills, of other sizes and at other places in each step. */
struct mover {
    uint32_t *to, *from, *device;
    uint32_t count, value;
};

static gantry_launch_result launch_moves(gantry_launch *launch, void *arg)
{
    const struct mover *m = arg;
    const size_t bytes = m->count * sizeof(uint32_t);
    const bool done =
        gantry_launch_copy_htod(launch, m->device, m->from, bytes) == GANTRY_OK &&
        gantry_launch_fill(launch, m->device, m->value, 4, m->count / 2) == GANTRY_OK &&
        gantry_launch_copy_dtod(launch, m->device + PATCHED_MOST, m->device, bytes) == GANTRY_OK &&
        gantry_launch_copy_dtoh(launch, m->to, m->device + PATCHED_MOST, bytes) == GANTRY_OK;
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_copies_and_fills_are_set(void **state)
{
    (void)state;
    void *device;
    struct mover m = {.count = 0};
    patched_open();
    gantry_heap *heap = gantry_context_heap(patched.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * PATCHED_MOST * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("moves"), &device));
    for (uint32_t step = 0; step < 6; step++) {
        const struct patched_change before = patched_now();
        m = (struct mover){patched.cells + PATCHED_MOST, patched.cells + step, (uint32_t *)device + 3 * step,
                           100 + 10 * step, step};
        for (uint32_t i = 0; i < PATCHED_MOST; i++) {
            patched.cells[i] = 1000 * step + i;
        }
        (void)gpu_fixture_gpu(&patched.gpu, GANTRY_TASK_KERNEL, "moves", launch_moves, &m);
        assert_ok(gpu_fixture_step(&patched.gpu));
        assert_ok(gantry_context_synchronize(patched.gpu.context));
        for (uint32_t i = 0; i < m.count; i++) {
            assert_int_equal(m.to[i], i < m.count / 2 ? step : m.from[i]);
        }
        const struct patched_change after = patched_since(before);
        assert_int_equal(after.made, step == 0);
        assert_int_equal(after.set, step == 0 ? 0 : 4);
    }
    assert_ok(gantry_heap_free(heap, device));
    patched_close();
}

/* ---- orders ------------------------------------------------------------------------------------ */

static gantry_status release_late(gantry_task *task, void *arg)
{
    (void)task;
    const struct patched_job *job = arg;
    for (volatile uint32_t i = 0; i < job->wait_spins; i++) {
    }
    return GANTRY_OK;
}

/* A number from a generator with a seed. */
static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % below);
}

static int compare(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* An order of the numbers below `count`, in which no number is `apart` places or more from its own. */
static void draw_order(uint64_t *seed, uint32_t count, uint32_t apart, uint32_t *order)
{
    uint64_t places[PATCHED_MOST];
    for (uint32_t i = 0; i < count; i++) {
        places[i] = (uint64_t)(i + draw(seed, apart)) << 32 | i;
    }
    qsort(places, count, sizeof(places[0]), compare);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = (uint32_t)places[i];
    }
}

/* These jobs start when a reference of ours is given back. */
static void submit_held(gantry_task **tasks, uint32_t count, bool has_edges)
{
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] =
            gpu_fixture_gpu(&patched.gpu, GANTRY_TASK_KERNEL, "job", patched_launch_job, &patched.jobs[i]);
        assert_ok(gantry_task_add_reference(tasks[i]));
        if (has_edges && i >= PATCHED_LANES) {
            gpu_fixture_after(tasks[i], tasks[i - PATCHED_LANES]);
        }
    }
}

/* The dispatcher reads all of them at once, and the GPU has done them when this returns. */
static void release_part(gantry_task *const *tasks, const uint32_t *order, uint32_t count)
{
    gantry_dispatcher *d = gantry_context_dispatcher(patched.gpu.context);
    const uint64_t before = patched_now().nodes;
    gantry_dispatcher_start_group(d);
    /* it takes everything that comes */
    deadline_await(gy_inbox_is_free(&d->inbox), "the end of the batch before");
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(gantry_task_remove_reference(tasks[order[i]]));
    }
    gantry_dispatcher_finish_group(d);
    deadline_await(patched_now().nodes == before + count * patched.nodes_each, "the launch of a part");
    assert_ok(gantry_context_synchronize(patched.gpu.context));
}

static void test_any_order_of_release_is_the_same_step(void **state)
{
    (void)state;
    enum { STEPS = 20, TASKS = 200 };
    gantry_task *tasks[TASKS];
    uint32_t order[TASKS];
    uint64_t seed = 1;
    patched_open();
    for (uint32_t step = 0; step < STEPS; step++) {
        const struct patched_change before = patched_now();
        submit_held(tasks, TASKS, true);
        draw_order(&seed, TASKS, TASKS, order);
        assert_ok(gantry_taskman_start(patched.gpu.manager));
        release_part(tasks, order, TASKS);
        assert_ok(gpu_fixture_stop(&patched.gpu));
        patched_check();
        const struct patched_change after = patched_since(before);
        assert_int_equal(after.kept, step == 0 ? 0 : TASKS);
        assert_int_equal(after.made, step == 0);
    }
    patched_close();
}

/* What differs at random from step to step: into how many parts a step is cut, and how far from its place a
 * task may be. */
struct chance {
    const char *name;
    uint32_t fewest, most, apart;
    uint64_t seed;
};

static void run_step_of_parts(struct chance *chance)
{
    enum { PARTS = 8 };
    gantry_task *tasks[PATCHED_MOST];
    uint32_t order[PATCHED_MOST];
    uint64_t ends[PARTS];
    const uint32_t parts = chance->fewest + draw(&chance->seed, chance->most - chance->fewest + 1);
    submit_held(tasks, PATCHED_MOST, false);
    draw_order(&chance->seed, PATCHED_MOST, chance->apart, order);
    for (uint32_t i = 0; i < parts; i++) {
        ends[i] = i == 0 ? PATCHED_MOST : 1 + draw(&chance->seed, PATCHED_MOST - 1);
    }
    qsort(ends, parts, sizeof(ends[0]), compare);
    assert_ok(gantry_taskman_start(patched.gpu.manager));
    for (uint32_t i = 0, from = 0; i < parts; from = (uint32_t)ends[i++]) {
        release_part(tasks, order + from, (uint32_t)ends[i] - from);
    }
    assert_ok(gpu_fixture_stop(&patched.gpu));
    patched_check();
}

/* The dispatcher ends a part's first graphs after 256 tasks and 512 more, so whole steps are cut, too. */
static void test_steps_cut_by_chance_are_patched(void **state)
{
    (void)state;
    enum { STEPS = 140, LEARNT = 100 };
    struct chance chances[] = {
        {"whole, in any order", 1, 1, PATCHED_MOST, 1},
        {"whole, almost in order", 1, 1, 6, 1},
        {"in two to five parts, in any order", 2, 5, PATCHED_MOST, 1},
        {"in two to five parts, almost in order", 2, 5, 6, 1},
    };
    for (size_t i = 0; i < 4; i += getenv("GANTRY_TEST_LIGHT") != NULL ? 3 : 1) { /* the extremes */
        struct patched_change before = {0};
        patched_open();
        for (uint32_t step = 0; step < STEPS; step++) {
            before = step == LEARNT ? patched_now() : before;
            run_step_of_parts(&chances[i]);
        }
        const struct patched_change after = patched_since(before);
        print_message("steps %s: %.1f %% of the nodes were kept, in %.1f graphs a step, %u made\n",
                      chances[i].name, 100.0 * (double)after.kept / (double)after.nodes,
                      (double)after.launches / (STEPS - LEARNT), (unsigned)after.made);
        assert_int_equal(after.nodes, (uint64_t)PATCHED_MOST * (STEPS - LEARNT));
        assert_true(after.kept * 10 >= after.nodes * 9);
        patched_close();
    }
}

/* 16 workers release these jobs, each after a while of its own. */
static void submit_released(bool has_edges)
{
    gantry_task *tasks[PATCHED_MOST];
    for (uint32_t i = 0; i < PATCHED_MOST; i++) {
        patched.jobs[i].wait_spins = (uint32_t)rand() % 2000;
        gantry_task *release = gpu_fixture_cpu(&patched.gpu, "release", release_late, &patched.jobs[i]);
        tasks[i] =
            gpu_fixture_gpu(&patched.gpu, GANTRY_TASK_KERNEL, "job", patched_launch_job, &patched.jobs[i]);
        gpu_fixture_after(tasks[i], release);
        if (has_edges && i >= PATCHED_LANES) {
            gpu_fixture_after(tasks[i], tasks[i - PATCHED_LANES]);
        }
    }
}

/* How many of them are kept depends on the machine's load. */
static void test_steps_that_workers_release_are_right(void **state)
{
    (void)state;
    enum { STEPS = 40 };
    patched_open_with(16, NULL);
    const struct patched_change before = patched_now();
    for (uint32_t step = 0; step < STEPS; step++) {
        submit_released(step % 4 == 3);
        assert_ok(gpu_fixture_step(&patched.gpu));
        patched_check();
    }
    const struct patched_change after = patched_since(before);
    print_message("%.1f %% of %u nodes were kept\n", 100.0 * (double)after.kept / (double)after.nodes,
                  (unsigned)after.nodes);
    assert_int_equal(after.nodes, PATCHED_MOST * STEPS);
    assert_true(after.kept != 0);
    patched_close();
}

/* ---- in flight --------------------------------------------------------------------------------- */

static void test_steps_in_flight_have_graphs_of_their_own(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    const bool holds = gpu_fixture_controls(&emu);
    patched_open_with_rows();
    const struct patched_change before = patched_now();
    if (holds) {
        emu.hold();
    }
    for (uint32_t step = 0; step < GY_KEPT_COPIES + 2; step++) {
        for (uint32_t i = 0; i < PATCHED_ROWS; i++) {
            patched.jobs[i].by = 1 + step + i;
        }
        patched_submit_rows(PATCHED_ROWS, true);
        assert_ok(gpu_fixture_step(&patched.gpu));
    }
    if (holds) { /* the first step does nothing; when there are too many, graphs are updated as a whole */
        assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, GY_KEPT_COPIES);
        assert_int_equal(patched_since(before).kept, PATCHED_ROWS);
        emu.release();
    }
    patched_check();
    for (uint32_t i = 0; i < PATCHED_ROWS; i++) {
        patched.jobs[i].by += 1000; /* since none of them has one */
    }
    patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS);
    patched_close();
}

/* ---- recordings -------------------------------------------------------------------------------- */

static gantry_profile *begin_recording(char *path)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    return profile;
}

/* A recording has two events more for each task; those are set whose events were not read yet. */
static void expect_recorded(struct patched_change step, uint64_t set)
{
    assert_int_equal(step.nodes, 3 * PATCHED_ROWS);
    assert_int_equal(step.kept, 3 * PATCHED_ROWS);
    assert_int_equal(step.made, 0);
    assert_in_range(step.set, set, 2 * PATCHED_ROWS + set);
}

static void test_a_recorded_step_is_patched(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    gantry_task *tasks[PATCHED_ROWS];
    uint32_t order[PATCHED_ROWS];
    uint64_t seed = 7;
    char path[] = "/tmp/gantry-patched-XXXXXX";
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    patched_open_with_rows();
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    gantry_profile *profile = begin_recording(path);
    patched.nodes_each = 3;
    const struct patched_change first = patched_run_rows(PATCHED_ROWS, true);
    assert_int_equal(first.nodes, 3 * PATCHED_ROWS);
    assert_int_equal(first.made, 1);
    for (uint32_t step = 1; step < STEPS; step++) {
        patched.jobs[step].by += 10;
        expect_recorded(patched_run_rows(PATCHED_ROWS, true), 1);
    }
    for (uint32_t step = 0; step < STEPS; step++) { /* other edges, in any order */
        const struct patched_change before = patched_now();
        submit_held(tasks, PATCHED_ROWS, true);
        draw_order(&seed, PATCHED_ROWS, PATCHED_ROWS, order);
        assert_ok(gantry_taskman_start(patched.gpu.manager));
        release_part(tasks, order, PATCHED_ROWS);
        assert_ok(gpu_fixture_stop(&patched.gpu));
        patched_check();
        assert_int_equal(patched_since(before).made, step == 0);
    }
    assert_ok(gantry_profile_stop(profile, &stats));
    assert_int_equal(stats.lost, 0);
    patched_expect(patched_run_rows(PATCHED_ROWS, true),
                   STEPS - 1); /* of the other executable graph nothing was set */
    patched_close();
    (void)remove(path);
}

/* ---- what ends a step early -------------------------------------------------------------------- */

static void test_a_step_that_fails_or_is_cancelled_leaves_the_next_right(void **state)
{
    (void)state;
    patched_open_with_rows();
    atomic_store(&patched.jobs[100].fails, true);
    patched_submit_rows(PATCHED_ROWS, true);
    assert_int_equal(gpu_fixture_step(&patched.gpu), GANTRY_ERR_TASK_FAILED);
    atomic_store(&patched.jobs[100].fails, false);
    patched_check();
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    patched.jobs[60].cancels = true;
    patched_submit_rows(PATCHED_ROWS, true);
    assert_int_equal(gpu_fixture_step(&patched.gpu), GANTRY_ERR_CANCELLED);
    patched.jobs[60].cancels = false;
    patched_check();
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    patched_close();
}

static void test_work_in_partitions_is_kept(void **state)
{
    (void)state;
    gantry_partition_request requests[] = {request("first", GANTRY_PARTITION_AT_LEAST, 8),
                                           request("rest", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    struct gantry_emu_control emu;
    requests[1].priority = -1;
    plan.requests = requests;
    plan.count = 2;
    for (uint32_t round = 0; round < 2; round++) { /* the second context has other partitions */
        patched_open_with(1, &plan);
        assert_int_equal(patched_run_rows(PATCHED_ROWS, true).nodes, PATCHED_ROWS);
        patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
        for (uint32_t i = 0; i < PATCHED_ROWS; i += 5) {
            patched.jobs[i].by += 2;
            patched.jobs[i].function = i % 2 == 0 ? COUNT_DOWN : COUNT_UP;
        }
        patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS / 5);
        patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
        if (gpu_fixture_controls(&emu)) { /* what is refused is updated as a whole */
            patched.jobs[7].by += 2;
            patched.jobs[9].by += 2;
            assert_int_equal(
                (emu.fail)("cuGraphExecKernelNodeSetParams", 2, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE),
                0);
            patched_expect(patched_run_rows(PATCHED_ROWS, true), PATCHED_ROWS);
            patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
        }
        patched_close();
    }
}

/* ---- bounds ------------------------------------------------------------------------------------ */

/* Eight nodes are in a row: bit i of the shape says whether the i-th is a fill. */
static gantry_launch_result launch_shape(gantry_launch *launch, void *arg)
{
    const uint32_t shape = (uint32_t)(uintptr_t)arg;
    bool done = true;
    for (uint32_t i = 0; i < 8 && done; i++) {
        done = (shape >> i & 1u) != 0
                   ? gantry_launch_fill(launch, &patched.on_device[i], 0, 4, 1) == GANTRY_OK
                   : patched_enqueue(launch, &patched.jobs[i]);
    }
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static uint64_t run_shape(uint32_t shape)
{
    const struct patched_change before = patched_now();
    (void)gpu_fixture_gpu(&patched.gpu, GANTRY_TASK_KERNEL, "shape", launch_shape, (void *)(uintptr_t)shape);
    assert_ok(gpu_fixture_step(&patched.gpu));
    assert_ok(gantry_context_synchronize(patched.gpu.context));
    return patched_since(before).made;
}

static void test_the_one_not_used_for_longest_is_given_up(void **state)
{
    (void)state;
    patched_open();
    for (uint32_t shape = 0; shape < GY_KEPT_MOST; shape++) {
        assert_int_equal(run_shape(shape), 1);
    }
    assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, GY_KEPT_MOST);
    assert_int_equal(run_shape(0), 0);
    assert_int_equal(run_shape(GY_KEPT_MOST), 1); /* in the place of 1 */
    assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, GY_KEPT_MOST);
    assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept_nodes, GY_KEPT_MOST * 8);
    assert_int_equal(run_shape(0), 0);
    assert_int_equal(run_shape(2), 0);
    assert_int_equal(run_shape(1), 1);
    patched_close();
}

static void test_a_patch_that_is_refused_makes_a_new_graph(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        print_message("a real driver refuses none of these\n");
        return;
    }
    patched_open_with_rows();
    for (uint32_t i = 0; i < PATCHED_ROWS; i++) {
        patched.jobs[i].by++;
    }
    assert_int_equal(
        (emu.fail)("cuGraphExecKernelNodeSetParams", 50, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
    const struct patched_change step = patched_run_rows(PATCHED_ROWS, true);
    assert_int_equal(step.made, 1);
    assert_int_equal(step.kept, 0);
    assert_int_equal(gpu_fixture_stats(&patched.gpu).graphs_kept, 1);
    patched_expect(patched_run_rows(PATCHED_ROWS, true), 0);
    patched_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_differs_is_set_and_nothing_else),
        cmocka_unit_test(test_other_edges_are_another_shape),
        cmocka_unit_test(test_copies_and_fills_are_set),
        cmocka_unit_test(test_any_order_of_release_is_the_same_step),
        cmocka_unit_test(test_steps_cut_by_chance_are_patched),
        cmocka_unit_test(test_steps_that_workers_release_are_right),
        cmocka_unit_test(test_steps_in_flight_have_graphs_of_their_own),
        cmocka_unit_test(test_a_recorded_step_is_patched),
        cmocka_unit_test(test_a_step_that_fails_or_is_cancelled_leaves_the_next_right),
        cmocka_unit_test(test_work_in_partitions_is_kept),
        cmocka_unit_test(test_the_one_not_used_for_longest_is_given_up),
        cmocka_unit_test(test_a_patch_that_is_refused_makes_a_new_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
