/* SPDX-License-Identifier: MIT */
/* Whose records they are: each kernel of a recorded graph writes those of its own task, whatever becomes of
 * the graph meanwhile.  All tasks of a step have names, kernels' numbers and numbers of blocks of their own.
 */
#include "tests/support/cmocka_c11.h"

#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/profile/cta_fixture.h"

#include "cta_kernels.kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CHAINS = 4, SHORTEST = 2, TASKS = 1 + 2 + 3 + 4 + 5, WARM = 3, STEPS = 12 };
enum { KERNELS = 2, BITS = 7, MOST_TASKS = 600, MOST_BLOCKS = 40 };

struct named {
    char label[16];
    uint32_t number, blocks;
    uint32_t times; /* that it was recorded */
    gantry_kernel *run;
    bool has_fill;
};

static struct named tasks[MOST_TASKS];
static gantry_kernel *kernels[KERNELS]; /* the same, of two modules */
static struct gantry_emu_control emu;   /* its functions are NULL on a device */
static bool has_emu;
static gantry_partition *part; /* of all tasks; NULL: the default one */
static uint64_t seed;

static pthread_t runner;                 /* of the steps; it has chosen a capture mode */
static _Atomic(uint32_t) modes_of_calls; /* the capture modes that callbacks have met elsewhere, a bit each */

static CUstreamCaptureMode capture_mode(void)
{
    const struct gy_driver *driver = fixture.context->cuda->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL, same;
    assert_int_equal(driver->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    same = mode;
    assert_int_equal(driver->cuThreadExchangeStreamCaptureMode(&same), CUDA_SUCCESS);
    return mode;
}

static void set_capture_mode(CUstreamCaptureMode mode)
{
    assert_int_equal(fixture.context->cuda->driver->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
}

static uint32_t draw(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

static int make_tasks(void)
{
    static gantry_module_image image; /* the same at another address is another module */
    gantry_module *again;
    has_emu = gpu_fixture_controls(&emu);
    runner = pthread_self();
    atomic_store(&modes_of_calls, 0);
    set_capture_mode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    seed = 1;
    kernels[0] = count_up;
    image = gantry_image_cta_kernels;
    assert_ok(gantry_module_load(fixture.context, &image, &again));
    assert_ok(gantry_module_get_kernel(again, "count_up", &kernels[1]));
    for (uint32_t i = 0; i < MOST_TASKS; i++) {
        struct named *task = &tasks[i];
        *task = (struct named){.number = i, .blocks = 1 + i % MOST_BLOCKS, .run = count_up};
        snprintf(task->label, sizeof(task->label), "task %u", i);
    }
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context),
                                               GANTRY_SUBMISSION_GRAPHS));
    return 0;
}

static int set_up_tasks(void **state)
{
    part = NULL;
    (void)set_up(state);
    return make_tasks();
}

/* All tasks are of a partition. */
static int set_up_part(void **state)
{
    (void)state;
    const gantry_partition_request requests[] = {
        {sizeof(requests[0]), .name = "part", .sm_count = 16},
        {sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    options.partitions = &plan;
    options.driver = gpu_fixture_driver();
    (void)set_up_with(&options);
    assert_ok(gantry_partition_find(fixture.context, "part", &part));
    return make_tasks();
}

static gantry_launch_result launch_named(gantry_launch *launch, void *arg)
{
    const struct named *task = arg;
    const gantry_dim3 grid = {task->blocks, 1, 1}, block = {32, 1, 1};
    uint32_t id = first_kernel, spins = 1;
    if (!pthread_equal(pthread_self(), runner)) { /* else the thread is a guest, which has another mode */
        atomic_fetch_or(&modes_of_calls, 1u << capture_mode());
    }
    void *profile = gantry_launch_profile(launch, id, grid);
    void *args[] = {&cells, &spins, &profile, &id};
    if (task->has_fill &&
        gantry_launch_fill(launch, (uint32_t *)cells + MOST_BLOCKS + task->number, 0, 4, 1) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_kernel(launch, task->run, grid, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

static gantry_task *submit(struct named *task)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *made;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = task->label;
    desc.launch = launch_named;
    desc.arg = task;
    desc.partition = part;
    assert_ok(gantry_taskman_submit(fixture.manager, &desc, &made));
    task->times++;
    return made;
}

/* ---- what the trace says ------------------------------------------------------------------------- */

/* The kernel that a call has launched; NULL: it is not in the trace. */
static const struct read_slice *kernel_of(const struct read_slice *launch)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        if (strcmp(trace.slices[i].category, "kernel") == 0 && reader_joined(&trace.slices[i], launch)) {
            return &trace.slices[i];
        }
    }
    return NULL;
}

static const struct named *task_called(const char *label)
{
    for (uint32_t i = 0; i < MOST_TASKS; i++) {
        if (strcmp(tasks[i].label, label) == 0) {
            return &tasks[i];
        }
    }
    return NULL;
}

/* Each task has the records of its own blocks, each time. */
static void expect_records_of_each(gantry_profile *profile)
{
    uint32_t times[MOST_TASKS] = {0};
    stop_and_load(profile);
    assert_int_equal(capture_mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    assert_int_equal(atomic_load(&modes_of_calls) & ~(1u << CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.ctas_lost, 0);
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *launch = &trace.slices[i];
        const struct named *task = strcmp(launch->category, "launch") == 0 ? task_called(launch->name) : NULL;
        const struct read_slice *kernel = task != NULL ? kernel_of(launch) : NULL;
        if (task == NULL) {
            continue;
        }
        assert_non_null(kernel);
        assert_int_equal(reader_argument(kernel, "ctas"), task->blocks);
        assert_int_equal(reader_argument(kernel, "lost"), 0);
        times[task->number]++;
    }
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < MOST_TASKS; i++) {
        assert_int_equal(times[i], tasks[i].times);
        blocks += (uint64_t)tasks[i].times * tasks[i].blocks;
    }
    assert_int_equal(blocks_called("count_up"), blocks);
    reader_free(&trace);
}

static void end_step(void)
{
    assert_ok(gpu_fixture_step(&fixture));
    assert_ok(gantry_context_synchronize(fixture.context)); /* the next step meets graphs that are idle */
}

static uint64_t kernels_set(void)
{
    return has_emu ? emu.calls("cuGraphExecKernelNodeSetParams") : 0;
}

/* ---- other orders -------------------------------------------------------------------------------- */

/* A first task, and behind it chains of different lengths, which begin in this order. */
static void submit_tree(const uint32_t *order)
{
    gantry_task *all[TASKS], *roots[CHAINS];
    for (uint32_t i = 0; i < TASKS; i++) {
        all[i] = submit(&tasks[i]);
    }
    for (uint32_t c = 0, next = 1; c < CHAINS; c++) {
        roots[c] = all[next++];
        for (uint32_t k = 1; k < SHORTEST + c; k++, next++) {
            gpu_fixture_after(all[next], all[next - 1]);
        }
    }
    for (uint32_t n = 0; n < CHAINS; n++) {
        gpu_fixture_after(roots[order[n]], all[0]);
    }
}

static void run_tree(const uint32_t *order)
{
    submit_tree(order);
    end_step();
}

static void shuffle(uint32_t *order)
{
    for (uint32_t n = 0; n + 1 < CHAINS; n++) {
        const uint32_t other = n + draw(CHAINS - n), c = order[other];
        order[other] = order[n];
        order[n] = c;
    }
}

/* The graph that is kept has its nodes in another order: each kernel's slot is that of its node there. */
static void test_steps_in_other_orders_have_their_own_records(void **state)
{
    (void)state;
    uint32_t order[CHAINS] = {0, 1, 2, 3}, paired = 0;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    for (uint32_t step = 0; step < WARM; step++) {
        run_tree(order);
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t before[CHAINS];
        memcpy(before, order, sizeof(before));
        shuffle(order);
        const gantry_dispatcher_stats first = gpu_fixture_stats(&fixture);
        const uint64_t set = kernels_set();
        run_tree(order);
        const gantry_dispatcher_stats last = gpu_fixture_stats(&fixture);
        paired += memcmp(order, before, sizeof(before)) != 0 &&
                  last.graph_instantiations == first.graph_instantiations &&
                  last.graph_nodes_kept != first.graph_nodes_kept && kernels_set() == set;
    }
    print_message("%u of %u steps in another order have set no kernel\n", paired, STEPS);
    assert_true(paired >= STEPS / 3);
    if (has_emu) {
        emu.hold();
    }
    submit_tree(order);
    assert_ok(gpu_fixture_step(&fixture));
    if (has_emu) {
        emu.release(); /* who stops the recording waits for these records */
    }
    expect_records_of_each(profile);
}

/* ---- updates ------------------------------------------------------------------------------------- */

/* The driver refuses to set a kernel of a partition: the graph is updated as a whole, and keeps its slots. */
static void test_updated_graphs_keep_their_slots(void **state)
{
    (void)state;
    static const uint32_t order[CHAINS] = {0, 1, 2, 3};
    if (!has_emu) {
        skip();
    }
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    for (uint32_t step = 0; step < WARM; step++) {
        run_tree(order);
    }
    for (uint32_t step = 0; step < 3 * KERNELS; step++) { /* each time there is something to set */
        const uint64_t updates = emu.calls("cuGraphExecUpdate");
        const bool is_refused = step % 3 != 2; /* else it is set, behind an update */
        tasks[1].run = kernels[(step + 1) % KERNELS];
        if (is_refused) {
            assert_int_equal(
                (emu.fail)("cuGraphExecKernelNodeSetParams", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE),
                0);
        }
        run_tree(order);
        emu.clear_faults();
        assert_int_equal(emu.calls("cuGraphExecUpdate") - updates, is_refused);
    }
    expect_records_of_each(profile);
}

/* With the nodes in another order the driver may pair them in its own way, so the graph is made anew. */
static void test_a_graph_in_another_order_is_not_updated(void **state)
{
    (void)state;
    uint32_t order[CHAINS] = {0, 1, 2, 3}, refused = 0;
    if (!has_emu) {
        skip();
    }
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    for (uint32_t step = 0; step < WARM; step++) {
        run_tree(order);
    }
    const uint64_t updates = emu.calls("cuGraphExecUpdate");
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t swapped = order[step % (CHAINS - 1)];
        order[step % (CHAINS - 1)] = order[CHAINS - 1];
        order[CHAINS - 1] = swapped;
        tasks[1].run = kernels[(step + 1) % KERNELS];
        assert_int_equal(
            (emu.fail)("cuGraphExecKernelNodeSetParams", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        const uint64_t set = kernels_set();
        run_tree(order);
        refused += kernels_set() != set;
        emu.clear_faults();
    }
    assert_true(refused != 0);
    assert_int_equal(emu.calls("cuGraphExecUpdate"), updates);
    expect_records_of_each(profile);
}

/* ---- slots that were not there ------------------------------------------------------------------- */

/* A graph is made while all slots are taken.  Later there are some, and it gets them. */
static void test_a_graph_without_slots_gets_some_later(void **state)
{
    (void)state;
    static const uint32_t order[CHAINS] = {0, 1, 2, 3};
    struct gy_kept_set *set = &gantry_context_dispatcher(fixture.context)->graphs.kept;
    uint8_t taken[GY_SLOTS_UNITS];
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    struct named *other = &tasks[TASKS];
    (void)submit(other);
    end_step(); /* which makes the slots */
    memcpy(taken, set->slots.is_taken, sizeof(taken));
    memset(set->slots.is_taken, 1, sizeof(taken));
    run_tree(order);
    memcpy(set->slots.is_taken, taken, sizeof(taken));
    run_tree(order);
    const gantry_dispatcher_stats first = gpu_fixture_stats(&fixture);
    const uint64_t made = first.graph_instantiations, set_before = kernels_set();
    for (uint32_t step = 0; step < WARM; step++) {
        run_tree(order);
    }
    assert_int_equal(gpu_fixture_stats(&fixture).graph_instantiations, made);
    assert_int_equal(kernels_set(), set_before);
    expect_records_of_each(profile);
}

/* Memory for slots that is refused half way is given back, and the records are right without it. */
static void test_slots_that_are_refused_leave_nothing(void **state)
{
    static const char *const calls[] = {"cuMemAlloc", "cuMemHostAlloc", "cuMemsetD8Async"};
    static const int kinds[] = {GANTRY_EMU_LIVE_DEVICE_BLOCKS, GANTRY_EMU_LIVE_PINNED_BLOCKS,
                                GANTRY_EMU_LIVE_DEVICE_BYTES};
    static const uint32_t order[CHAINS] = {0, 1, 2, 3};
    if (!has_emu) {
        skip();
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        int64_t before[3];
        gantry_dispatcher *dispatcher = gantry_context_dispatcher(fixture.context);
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        assert_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_STREAMS));
        run_tree(order); /* the recording has its buffers now */
        assert_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_GRAPHS));
        for (int k = 0; k < 3; k++) {
            before[k] = emu.live(kinds[k]);
        }
        assert_int_equal((emu.fail)(calls[i], 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
        run_tree(order);
        emu.clear_faults();
        assert_true(dispatcher->graphs.kept.slots.was_refused);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(emu.live(kinds[k]), before[k]);
        }
        run_tree(order);
        expect_records_of_each(profile);
        (void)tear_down(state);
        (void)set_up_tasks(state); /* it is not tried again */
    }
}

/* ---- in flight ------------------------------------------------------------------------------------ */

/* A chain of BITS tasks, some of which fill a cell of their own as well: a shape for each number. */
static void submit_shape(uint32_t shape, struct named *of)
{
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < BITS; i++) {
        of[i].has_fill = (shape >> i & 1u) != 0;
        gantry_task *task = submit(&of[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
}

/* More graphs are on the device than are kept, some of them pieces of one step, since a recording has no
 * buffers for so many steps.  Those that are dropped in flight keep their slots. */
static void test_graphs_dropped_in_flight_keep_their_slots(void **state)
{
    (void)state;
    enum { CUT = 3, PIECES = 10, WHOLE = 46, SHAPES = CUT * PIECES + WHOLE };
    _Static_assert(SHAPES > GY_KEPT_MOST && SHAPES * BITS <= MOST_TASKS && SHAPES <= 1 << BITS, "enough");
    struct gy_kept_set *set = &gantry_context_dispatcher(fixture.context)->graphs.kept;
    if (!has_emu) {
        skip();
    }
    set->piece_nodes = BITS;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    (void)submit(&tasks[MOST_TASKS - 1]);
    end_step(); /* which makes the buffers and the slots */
    emu.hold();
    for (uint32_t i = 0; i < SHAPES;) {
        for (const uint32_t end = i + (i < CUT * PIECES ? PIECES : 1); i < end; i++) {
            submit_shape(i, &tasks[i * BITS]);
        }
        assert_ok(gpu_fixture_step(&fixture));
    }
    const uint32_t retired = set->slots.retired_count;
    emu.release();
    print_message("%u graphs were dropped in flight\n", retired);
    assert_in_range(retired, 4, GY_SLOTS_RETIRED);
    assert_ok(gantry_context_synchronize(fixture.context));
    expect_records_of_each(profile);
}

int main(void)
{
    const int status = cta_begin();
    if (status != 0) {
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps_in_other_orders_have_their_own_records, set_up_tasks,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_updated_graphs_keep_their_slots, set_up_part, tear_down),
        cmocka_unit_test_setup_teardown(test_a_graph_in_another_order_is_not_updated, set_up_part, tear_down),
        cmocka_unit_test_setup_teardown(test_a_graph_without_slots_gets_some_later, set_up_tasks, tear_down),
        cmocka_unit_test_setup_teardown(test_slots_that_are_refused_leave_nothing, set_up_tasks, tear_down),
        cmocka_unit_test_setup_teardown(test_graphs_dropped_in_flight_keep_their_slots, set_up_tasks,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
