/* Steps that are like earlier ones: their graphs are kept, and only the nodes that differ are set. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1000u
#define LANES 8u

enum function { COUNT_UP, COUNT_DOWN, STAMP, FUNCTIONS };

/* The work of one task: it adds the number of its threads to its cell, or subtracts it. */
struct job {
    uint32_t index, by, blocks;
    enum function function;
    _Atomic(bool) fails;
    bool cancels;
    uint32_t wait_spins; /* of its CPU task */
};

static struct {
    struct gpu_fixture gpu;
    gantry_module *module;
    gantry_kernel *kernels[FUNCTIONS];
    uint32_t *cells; /* 3 * MOST, pinned: a cell for each, and two into which stamps are copied */
    uint32_t *on_device;
    uint32_t expected[MOST];
    struct job jobs[MOST];
    uint32_t nodes_each; /* of a job: 1, and its events while it is recorded */
} s;

/* ---- the scene --------------------------------------------------------------------------------- */

static void load(void)
{
    static const char *const names[FUNCTIONS] = {"count_up", "count_down", "stamp"};
    assert_ok(gantry_module_load(s.gpu.context, &gantry_image_order_kernels, &s.module));
    for (int i = 0; i < FUNCTIONS; i++) {
        assert_ok(gantry_module_get_kernel(s.module, names[i], &s.kernels[i]));
    }
}

static void open_with(uint32_t workers, const gantry_partition_options *plan)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    void *cells, *on_device;
    memset(&s, 0, sizeof(s));
    s.nodes_each = 1;
    options.driver = gpu_fixture_driver();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.partitions = plan;
    gpu_fixture_open_with(&s.gpu, workers, &options);
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 3 * sizeof(s.expected), 0,
                                GANTRY_ALLOC_SITE("cells"), &cells));
    assert_ok(gantry_heap_device_address(heap, cells, &on_device));
    memset(cells, 0, 3 * sizeof(s.expected));
    s.cells = cells;
    s.on_device = on_device;
    for (uint32_t i = 0; i < MOST; i++) {
        s.jobs[i] = (struct job){.index = i, .by = 1 + i % 7, .blocks = 1};
    }
    load();
}

static void open_scene(void)
{
    open_with(1, NULL);
}

static void close_scene(void)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_ok(gantry_heap_free(gantry_context_heap(s.gpu.context), s.cells));
    gpu_fixture_close(&s.gpu);
}

static bool enqueue(gantry_launch *launch, const struct job *job)
{
    void *cell = &s.on_device[job->index];
    void *begin = &s.on_device[MOST + 2 * job->index], *end = &s.on_device[MOST + 2 * job->index + 1];
    uint32_t by = job->by, none = 0;
    void *count[] = {&cell, &by}, *stamp[] = {&cell, &begin, &end, &none};
    const gantry_dim3 grid = {job->blocks, 1, 1}, block = {2, 1, 1};
    return gantry_launch_kernel(launch, s.kernels[job->function], grid, block, 0,
                                job->function == STAMP ? stamp : count) == GANTRY_OK;
}

static gantry_launch_result launch_job(gantry_launch *launch, void *arg)
{
    const struct job *job = arg;
    if (atomic_load(&job->fails) || !enqueue(launch, job)) {
        return GANTRY_LAUNCH_FAILED;
    }
    const uint32_t all = job->by * job->blocks * 2;
    s.expected[job->index] += job->function == COUNT_UP     ? all
                              : job->function == COUNT_DOWN ? 0 - all
                                                            : 2 * job->blocks;
    if (job->cancels) {
        (void)gantry_taskman_cancel(s.gpu.manager);
    }
    return GANTRY_LAUNCH_DONE;
}

static void check_cells(void)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    for (uint32_t i = 0; i < MOST; i++) {
        if (s.cells[i] != s.expected[i]) {
            fail_msg("cell %u has %u, not %u", i, s.cells[i], s.expected[i]);
        }
    }
}

/* Submit `count` jobs behind the first one, in LANES rows, with edges between the rows where `crosses`. */
static void submit_rows(uint32_t count, bool crosses)
{
    gantry_task *tasks[MOST];
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "job", launch_job, &s.jobs[i]);
        if (i > 0) {
            gpu_fixture_after(tasks[i], tasks[i > LANES ? i - LANES : 0]);
        }
        if (crosses && i > 2 * LANES && i % 20 == 0) {
            gpu_fixture_after(tasks[i], tasks[i - LANES - 1]);
        }
    }
}

struct change {
    uint64_t launches, nodes, kept, set, made;
};

static struct change now(void)
{
    const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    return (struct change){stats.graph_launches, stats.graph_nodes, stats.graph_nodes_kept,
                           stats.graph_nodes_set, stats.graph_instantiations};
}

static struct change since(struct change before)
{
    const struct change after = now();
    return (struct change){after.launches - before.launches, after.nodes - before.nodes,
                           after.kept - before.kept, after.set - before.set, after.made - before.made};
}

/* Run a step of rows; returns what it has cost. */
static struct change run_rows(uint32_t count, bool crosses)
{
    const struct change before = now();
    submit_rows(count, crosses);
    assert_ok(gpu_fixture_step(&s.gpu));
    check_cells();
    return since(before);
}

enum { ROWS = 200 };

static void open_with_rows(void)
{
    open_scene();
    const struct change first = run_rows(ROWS, true);
    assert_int_equal(first.nodes, ROWS);
    assert_int_equal(first.kept, 0);
}

static void expect_patched(struct change step, uint64_t set)
{
    assert_int_equal(step.nodes, ROWS);
    assert_int_equal(step.kept, ROWS);
    assert_int_equal(step.made, 0);
    assert_int_equal(step.set, set);
}

/* ---- what differs ------------------------------------------------------------------------------ */

static void test_what_differs_is_set_and_nothing_else(void **state)
{
    (void)state;
    open_with_rows();
    expect_patched(run_rows(ROWS, true), 0);
    for (uint32_t i = 0; i < ROWS; i += 10) {
        s.jobs[i].by += 3;
    }
    expect_patched(run_rows(ROWS, true), ROWS / 10);
    for (uint32_t i = 0; i < ROWS; i++) {
        s.jobs[i].by += 5;
    }
    expect_patched(run_rows(ROWS, true), ROWS);
    for (uint32_t i = 0; i < ROWS; i += 4) {
        s.jobs[i].blocks = 3;
    }
    expect_patched(run_rows(ROWS, true), ROWS / 4);
    for (uint32_t i = 0; i < ROWS; i += 2) {
        s.jobs[i].function = COUNT_DOWN;
    }
    expect_patched(run_rows(ROWS, true), ROWS / 2);
    for (uint32_t i = 0; i < ROWS; i += 5) { /* it has more parameters */
        s.jobs[i].function = STAMP;
    }
    expect_patched(run_rows(ROWS, true), ROWS / 5);
    for (uint32_t i = 0; i < ROWS; i += 5) {
        s.jobs[i].function = COUNT_UP;
    }
    expect_patched(run_rows(ROWS, true), ROWS / 5);
    expect_patched(run_rows(ROWS, true), 0);
    close_scene();
}

static void test_other_edges_are_another_shape(void **state)
{
    (void)state;
    open_with_rows();
    assert_int_equal(run_rows(ROWS, false).kept, 0);
    expect_patched(run_rows(ROWS, true), 0);
    expect_patched(run_rows(ROWS, false), 0);
    close_scene();
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
    const bool done = gantry_launch_copy_htod(launch, m->device, m->from, bytes) == GANTRY_OK &&
                      gantry_launch_fill(launch, m->device, m->value, 4, m->count / 2) == GANTRY_OK &&
                      gantry_launch_copy_dtod(launch, m->device + MOST, m->device, bytes) == GANTRY_OK &&
                      gantry_launch_copy_dtoh(launch, m->to, m->device + MOST, bytes) == GANTRY_OK;
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_copies_and_fills_are_set(void **state)
{
    (void)state;
    void *device;
    struct mover m = {.count = 0};
    open_scene();
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * MOST * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("moves"), &device));
    for (uint32_t step = 0; step < 6; step++) {
        const struct change before = now();
        m = (struct mover){s.cells + MOST, s.cells + step, (uint32_t *)device + 3 * step, 100 + 10 * step,
                           step};
        for (uint32_t i = 0; i < MOST; i++) {
            s.cells[i] = 1000 * step + i;
        }
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "moves", launch_moves, &m);
        assert_ok(gpu_fixture_step(&s.gpu));
        assert_ok(gantry_context_synchronize(s.gpu.context));
        for (uint32_t i = 0; i < m.count; i++) {
            assert_int_equal(m.to[i], i < m.count / 2 ? step : m.from[i]);
        }
        const struct change after = since(before);
        assert_int_equal(after.made, step == 0);
        assert_int_equal(after.set, step == 0 ? 0 : 4);
    }
    assert_ok(gantry_heap_free(heap, device));
    close_scene();
}

/* ---- orders ------------------------------------------------------------------------------------ */

static gantry_status release_late(gantry_task *task, void *arg)
{
    (void)task;
    const struct job *job = arg;
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
    uint64_t places[MOST];
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
        tasks[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "job", launch_job, &s.jobs[i]);
        assert_ok(gantry_task_add_reference(tasks[i]));
        if (has_edges && i >= LANES) {
            gpu_fixture_after(tasks[i], tasks[i - LANES]);
        }
    }
}

/* The dispatcher reads all of them at once, and the GPU has done them when this returns. */
static void release_part(gantry_task *const *tasks, const uint32_t *order, uint32_t count)
{
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    const uint64_t before = now().nodes;
    gantry_dispatcher_start_group(d);
    /* it takes everything that comes */
    deadline_await(gy_inbox_is_free(&d->inbox), "the end of the batch before");
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(gantry_task_remove_reference(tasks[order[i]]));
    }
    gantry_dispatcher_finish_group(d);
    deadline_await(now().nodes == before + count * s.nodes_each, "the launch of a part");
    assert_ok(gantry_context_synchronize(s.gpu.context));
}

static void test_any_order_of_release_is_the_same_step(void **state)
{
    (void)state;
    enum { STEPS = 20, TASKS = 200 };
    gantry_task *tasks[TASKS];
    uint32_t order[TASKS];
    uint64_t seed = 1;
    open_scene();
    for (uint32_t step = 0; step < STEPS; step++) {
        const struct change before = now();
        submit_held(tasks, TASKS, true);
        draw_order(&seed, TASKS, TASKS, order);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        release_part(tasks, order, TASKS);
        assert_ok(gpu_fixture_stop(&s.gpu));
        check_cells();
        const struct change after = since(before);
        assert_int_equal(after.kept, step == 0 ? 0 : TASKS);
        assert_int_equal(after.made, step == 0);
    }
    close_scene();
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
    gantry_task *tasks[MOST];
    uint32_t order[MOST];
    uint64_t ends[PARTS];
    const uint32_t parts = chance->fewest + draw(&chance->seed, chance->most - chance->fewest + 1);
    submit_held(tasks, MOST, false);
    draw_order(&chance->seed, MOST, chance->apart, order);
    for (uint32_t i = 0; i < parts; i++) {
        ends[i] = i == 0 ? MOST : 1 + draw(&chance->seed, MOST - 1);
    }
    qsort(ends, parts, sizeof(ends[0]), compare);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    for (uint32_t i = 0, from = 0; i < parts; from = (uint32_t)ends[i++]) {
        release_part(tasks, order + from, (uint32_t)ends[i] - from);
    }
    assert_ok(gpu_fixture_stop(&s.gpu));
    check_cells();
}

/* The dispatcher ends a part's first graphs after 256 tasks and 512 more, so whole steps are cut, too. */
static void test_steps_cut_by_chance_are_patched(void **state)
{
    (void)state;
    enum { STEPS = 140, LEARNT = 100 };
    struct chance chances[] = {
        {"whole, in any order", 1, 1, MOST, 1},
        {"whole, almost in order", 1, 1, 6, 1},
        {"in two to five parts, in any order", 2, 5, MOST, 1},
        {"in two to five parts, almost in order", 2, 5, 6, 1},
    };
    for (size_t i = 0; i < 4; i += getenv("GANTRY_TEST_LIGHT") != NULL ? 3 : 1) { /* the extremes */
        struct change before = {0};
        open_scene();
        for (uint32_t step = 0; step < STEPS; step++) {
            before = step == LEARNT ? now() : before;
            run_step_of_parts(&chances[i]);
        }
        const struct change after = since(before);
        print_message("steps %s: %.1f %% of the nodes were kept, in %.1f graphs a step, %u made\n",
                      chances[i].name, 100.0 * (double)after.kept / (double)after.nodes,
                      (double)after.launches / (STEPS - LEARNT), (unsigned)after.made);
        assert_int_equal(after.nodes, (uint64_t)MOST * (STEPS - LEARNT));
        assert_true(after.kept * 10 >= after.nodes * 9);
        close_scene();
    }
}

/* 16 workers release these jobs, each after a while of its own. */
static void submit_released(bool has_edges)
{
    gantry_task *tasks[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        s.jobs[i].wait_spins = (uint32_t)rand() % 2000;
        gantry_task *release = gpu_fixture_cpu(&s.gpu, "release", release_late, &s.jobs[i]);
        tasks[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "job", launch_job, &s.jobs[i]);
        gpu_fixture_after(tasks[i], release);
        if (has_edges && i >= LANES) {
            gpu_fixture_after(tasks[i], tasks[i - LANES]);
        }
    }
}

/* How many of them are kept depends on the machine's load. */
static void test_steps_that_workers_release_are_right(void **state)
{
    (void)state;
    enum { STEPS = 40 };
    open_with(16, NULL);
    const struct change before = now();
    for (uint32_t step = 0; step < STEPS; step++) {
        submit_released(step % 4 == 3);
        assert_ok(gpu_fixture_step(&s.gpu));
        check_cells();
    }
    const struct change after = since(before);
    print_message("%.1f %% of %u nodes were kept\n", 100.0 * (double)after.kept / (double)after.nodes,
                  (unsigned)after.nodes);
    assert_int_equal(after.nodes, MOST * STEPS);
    assert_true(after.kept != 0);
    close_scene();
}

/* ---- in flight --------------------------------------------------------------------------------- */

static void test_steps_in_flight_have_graphs_of_their_own(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    const bool holds = gpu_fixture_controls(&emu);
    open_with_rows();
    const struct change before = now();
    if (holds) {
        emu.hold();
    }
    for (uint32_t step = 0; step < GY_KEPT_COPIES + 2; step++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            s.jobs[i].by = 1 + step + i;
        }
        submit_rows(ROWS, true);
        assert_ok(gpu_fixture_step(&s.gpu));
    }
    if (holds) { /* the first step does nothing; when there are too many, graphs are updated as a whole */
        assert_int_equal(gpu_fixture_stats(&s.gpu).graphs_kept, GY_KEPT_COPIES);
        assert_int_equal(since(before).kept, ROWS);
        emu.release();
    }
    check_cells();
    for (uint32_t i = 0; i < ROWS; i++) {
        s.jobs[i].by += 1000; /* since none of them has one */
    }
    expect_patched(run_rows(ROWS, true), ROWS);
    close_scene();
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
static void expect_recorded(struct change step, uint64_t set)
{
    assert_int_equal(step.nodes, 3 * ROWS);
    assert_int_equal(step.kept, 3 * ROWS);
    assert_int_equal(step.made, 0);
    assert_in_range(step.set, set, 2 * ROWS + set);
}

static void test_a_recorded_step_is_patched(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    gantry_task *tasks[ROWS];
    uint32_t order[ROWS];
    uint64_t seed = 7;
    char path[] = "/tmp/gantry-patched-XXXXXX";
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    open_with_rows();
    expect_patched(run_rows(ROWS, true), 0);
    gantry_profile *profile = begin_recording(path);
    s.nodes_each = 3;
    const struct change first = run_rows(ROWS, true);
    assert_int_equal(first.nodes, 3 * ROWS);
    assert_int_equal(first.made, 1);
    for (uint32_t step = 1; step < STEPS; step++) {
        s.jobs[step].by += 10;
        expect_recorded(run_rows(ROWS, true), 1);
    }
    for (uint32_t step = 0; step < STEPS; step++) { /* other edges, in any order */
        const struct change before = now();
        submit_held(tasks, ROWS, true);
        draw_order(&seed, ROWS, ROWS, order);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        release_part(tasks, order, ROWS);
        assert_ok(gpu_fixture_stop(&s.gpu));
        check_cells();
        assert_int_equal(since(before).made, step == 0);
    }
    assert_ok(gantry_profile_stop(profile, &stats));
    assert_int_equal(stats.lost, 0);
    expect_patched(run_rows(ROWS, true), STEPS - 1); /* of the other executable graph nothing was set */
    close_scene();
    (void)remove(path);
}

/* ---- what ends a step early -------------------------------------------------------------------- */

static void test_a_step_that_fails_or_is_cancelled_leaves_the_next_right(void **state)
{
    (void)state;
    open_with_rows();
    atomic_store(&s.jobs[100].fails, true);
    submit_rows(ROWS, true);
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_TASK_FAILED);
    atomic_store(&s.jobs[100].fails, false);
    check_cells();
    expect_patched(run_rows(ROWS, true), 0);
    s.jobs[60].cancels = true;
    submit_rows(ROWS, true);
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_CANCELLED);
    s.jobs[60].cancels = false;
    check_cells();
    expect_patched(run_rows(ROWS, true), 0);
    close_scene();
}

static void test_an_unloaded_module_drops_what_was_kept(void **state)
{
    (void)state;
    open_with_rows();
    for (uint32_t i = 0; i < 3; i++) {
        gantry_module_unload(s.module);
        load();
        const struct change step = run_rows(ROWS, true);
        assert_int_equal(step.made, 1);
        assert_int_equal(step.kept, 0);
        assert_int_equal(gpu_fixture_stats(&s.gpu).graphs_kept, 1);
        expect_patched(run_rows(ROWS, true), 0);
    }
    close_scene();
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
        open_with(1, &plan);
        assert_int_equal(run_rows(ROWS, true).nodes, ROWS);
        expect_patched(run_rows(ROWS, true), 0);
        for (uint32_t i = 0; i < ROWS; i += 5) {
            s.jobs[i].by += 2;
            s.jobs[i].function = i % 2 == 0 ? COUNT_DOWN : COUNT_UP;
        }
        expect_patched(run_rows(ROWS, true), ROWS / 5);
        expect_patched(run_rows(ROWS, true), 0);
        if (gpu_fixture_controls(&emu)) { /* what is refused is updated as a whole */
            s.jobs[7].by += 2;
            s.jobs[9].by += 2;
            assert_int_equal(
                (emu.fail)("cuGraphExecKernelNodeSetParams", 2, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE),
                0);
            expect_patched(run_rows(ROWS, true), ROWS);
            expect_patched(run_rows(ROWS, true), 0);
        }
        close_scene();
    }
}

/* ---- bounds ------------------------------------------------------------------------------------ */

/* Eight nodes are in a row: bit i of the shape says whether the i-th is a fill. */
static gantry_launch_result launch_shape(gantry_launch *launch, void *arg)
{
    const uint32_t shape = (uint32_t)(uintptr_t)arg;
    bool done = true;
    for (uint32_t i = 0; i < 8 && done; i++) {
        done = (shape >> i & 1u) != 0 ? gantry_launch_fill(launch, &s.on_device[i], 0, 4, 1) == GANTRY_OK
                                      : enqueue(launch, &s.jobs[i]);
    }
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static uint64_t run_shape(uint32_t shape)
{
    const struct change before = now();
    (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "shape", launch_shape, (void *)(uintptr_t)shape);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_ok(gantry_context_synchronize(s.gpu.context));
    return since(before).made;
}

static void test_the_one_not_used_for_longest_is_given_up(void **state)
{
    (void)state;
    open_scene();
    for (uint32_t shape = 0; shape < GY_KEPT_MOST; shape++) {
        assert_int_equal(run_shape(shape), 1);
    }
    assert_int_equal(gpu_fixture_stats(&s.gpu).graphs_kept, GY_KEPT_MOST);
    assert_int_equal(run_shape(0), 0);
    assert_int_equal(run_shape(GY_KEPT_MOST), 1); /* in the place of 1 */
    assert_int_equal(gpu_fixture_stats(&s.gpu).graphs_kept, GY_KEPT_MOST);
    assert_int_equal(gpu_fixture_stats(&s.gpu).graphs_kept_nodes, GY_KEPT_MOST * 8);
    assert_int_equal(run_shape(0), 0);
    assert_int_equal(run_shape(2), 0);
    assert_int_equal(run_shape(1), 1);
    close_scene();
}

static void test_a_patch_that_is_refused_makes_a_new_graph(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        print_message("a real driver refuses none of these\n");
        return;
    }
    open_with_rows();
    for (uint32_t i = 0; i < ROWS; i++) {
        s.jobs[i].by++;
    }
    assert_int_equal(
        (emu.fail)("cuGraphExecKernelNodeSetParams", 50, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
    const struct change step = run_rows(ROWS, true);
    assert_int_equal(step.made, 1);
    assert_int_equal(step.kept, 0);
    assert_int_equal(gpu_fixture_stats(&s.gpu).graphs_kept, 1);
    expect_patched(run_rows(ROWS, true), 0);
    close_scene();
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
        cmocka_unit_test(test_an_unloaded_module_drops_what_was_kept),
        cmocka_unit_test(test_work_in_partitions_is_kept),
        cmocka_unit_test(test_the_one_not_used_for_longest_is_given_up),
        cmocka_unit_test(test_a_patch_that_is_refused_makes_a_new_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
