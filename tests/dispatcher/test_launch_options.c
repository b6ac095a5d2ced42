/* SPDX-License-Identifier: MIT */
/* gantry_launch_kernel_with(): clusters, cooperative grids, early starts and priorities, on streams, in
 * graphs and in replays; requests that cannot fit are refused with numbers; how many blocks a partition runs
 * at once. */
#include "context/context.h"
#include "launch_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdio.h>
#include <string.h>

#define WORDS 4096u

static struct gpu_fixture gpu;
static gantry_module *module;
static uint32_t *device, *host;

static gantry_kernel *kernel_of(const char *name)
{
    gantry_kernel *kernel;
    assert_ok(gantry_module_get_kernel(module, name, &kernel));
    return kernel;
}

static void open_with(gantry_submission submission, const gantry_partition_options *partitions)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    options.partitions = partitions;
    gpu_fixture_open_with(&gpu, 1, &options);
    gantry_heap *heap = gantry_context_heap(gpu.context);
    void *block;
    assert_ok(gantry_module_load(gpu.context, &gantry_image_launch_kernels, &module));
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * 4, 0, GANTRY_ALLOC_SITE("words"), &block));
    device = block;
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, GANTRY_ALLOC_SITE("words"), &block));
    host = block;
    gpu_fixture_clear(&gpu, device, WORDS * 4);
}

static void close_all(void)
{
    gantry_heap *heap = gantry_context_heap(gpu.context);
    assert_ok(gantry_heap_free(heap, device));
    assert_ok(gantry_heap_free(heap, host));
    gantry_module_unload(module);
    gpu_fixture_close(&gpu);
}

static bool has_clusters(void)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_context_device_info(gpu.context, &info));
    return info.compute_major >= 9;
}

/* Submit one task that launches `times` kernels, and one that reads the words back. */
struct job {
    const char *kernel;
    uint32_t grid, threads, shared_bytes, times, restart;
    gantry_launch_options options;
    void *args[3];
    void *values[3];
    gantry_status wanted, got;
    char message[512];
};

static gantry_launch_result launch_job(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    const gantry_dim3 grid = {job->grid, 1, 1}, block = {job->threads, 1, 1};
    gantry_kernel *kernel = kernel_of(job->kernel);
    if (job->restart != 0 && gantry_launch_fill(launch, device, 0, 4, job->restart) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    for (uint32_t i = 0; i < job->times; i++) {
        job->got = gantry_launch_kernel_with(launch, kernel, grid, block, job->shared_bytes, job->args,
                                             &job->options);
        if (job->got != GANTRY_OK) {
            snprintf(job->message, sizeof(job->message), "%s", gantry_last_error());
            return job->wanted != GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
        }
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_read(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_copy_dtoh(launch, host, device, WORDS * 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                 : GANTRY_LAUNCH_FAILED;
}

static void submit_job(struct job *job, bool is_stable)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = job->kernel;
    desc.launch = launch_job;
    desc.arg = job;
    desc.is_stable = is_stable;
    assert_ok(gantry_taskman_submit(gpu.manager, &desc, &task));
    desc.kind = GANTRY_TASK_DTOH;
    desc.label = "read";
    desc.launch = launch_read;
    gantry_task *read;
    assert_ok(gantry_taskman_submit(gpu.manager, &desc, &read));
    gpu_fixture_after(read, task);
}

static struct job job_of(const char *kernel, uint32_t grid)
{
    struct job job = {.kernel = kernel, .grid = grid, .threads = 32, .times = 1, .restart = WORDS};
    const gantry_launch_options none = GANTRY_LAUNCH_OPTIONS_INIT;
    job.options = none;
    return job;
}

static gantry_status run(struct job *job)
{
    submit_job(job, false);
    const gantry_status status = gpu_fixture_step(&gpu);
    assert_ok(gantry_context_synchronize(gpu.context));
    return status;
}

static const gantry_submission WAYS[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};

/* ---- clusters ---------------------------------------------------------------------------------- */

static void run_clusters(uint32_t size)
{
    struct job job = job_of("next_in_cluster", 48);
    job.shared_bytes = 64;
    job.options.cluster = (gantry_dim3){size, 1, 1};
    job.values[0] = device;
    job.args[0] = &job.values[0];
    assert_ok(run(&job));
    for (uint32_t block = 0; block < 48; block++) {
        const uint32_t first = block / size * size;
        assert_int_equal(host[block], first + (block + 1 - first) % size + 1);
    }
}

static void test_clusters_run_on_streams_and_in_graphs(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        open_with(WAYS[way], NULL);
        for (uint32_t size = 1; size <= 8 && has_clusters(); size *= 2) {
            run_clusters(size);
            run_clusters(size); /* the graph is updated */
        }
        close_all();
    }
}

static void test_what_no_cluster_can_be_is_refused(void **state)
{
    (void)state;
    open_with(GANTRY_SUBMISSION_STREAMS, NULL);
    static const struct {
        gantry_dim3 cluster, preferred;
        const char *text;
    } cases[] = {{{32, 1, 1}, {0, 0, 0}, "1 to 16"},  {{0, 2, 1}, {0, 0, 0}, "zero"},
                 {{5, 1, 1}, {0, 0, 0}, "48x1x1"},    {{0, 0, 0}, {4, 1, 1}, "without"},
                 {{4, 1, 1}, {6, 1, 1}, "multiples"}, {{1, 1, 1}, {1, 1, 2}, "the same z"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job job = job_of("next_in_cluster", 48);
        job.wanted = GANTRY_ERR_INVALID_ARGUMENT;
        job.shared_bytes = 64;
        job.options.cluster = cases[i].cluster;
        job.options.preferred_cluster = cases[i].preferred;
        job.values[0] = device;
        job.args[0] = &job.values[0];
        assert_ok(run(&job));
        assert_int_equal(job.got, GANTRY_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(job.message, cases[i].text));
    }
    close_all();
}

/* ---- cooperative grids, partitions --------------------------------------------------------------- */

static gantry_status run_meeting(struct job *job, uint32_t grid, gantry_status wanted)
{
    *job = job_of("meet_in_grid", grid);
    job->wanted = wanted;
    job->options.cooperative = 1;
    for (int i = 0; i < 3; i++) {
        job->values[i] = device + i;
        job->args[i] = &job->values[i];
    }
    return run(job);
}

static void test_cooperative_grids_run_on_streams_and_in_graphs(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        open_with(WAYS[way], NULL);
        for (uint32_t grid = 1; grid <= 9; grid += 4) {
            struct job job;
            assert_ok(run_meeting(&job, grid, GANTRY_OK));
            for (uint32_t block = 0; block < grid; block++) {
                assert_int_equal(host[2 + block], grid);
            }
        }
        close_all();
    }
}

/* There are 16 multiprocessors: clusters of 16 do not fit, and the limit of cooperative grids follows from
 * them. */
static void test_work_must_fit_into_its_partition(void **state)
{
    (void)state;
    gantry_partition_request requests[2];
    memset(requests, 0, sizeof(requests));
    requests[0].struct_size = requests[1].struct_size = sizeof(requests[0]);
    requests[0].name = "small";
    requests[0].sm_count = 16;
    requests[0].size = GANTRY_PARTITION_AT_LEAST;
    requests[0].is_default = 1;
    requests[1].name = "rest";
    requests[1].size = GANTRY_PARTITION_REST;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    for (int way = 0; way < 2; way++) {
        open_with(WAYS[way], &plan);
        gantry_partition *small = gantry_partition_default(gpu.context);
        const gantry_dim3 block = {32, 1, 1};
        gantry_occupancy fits = {.struct_size = sizeof(fits)};
        gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
        assert_ok(gantry_partition_get_occupancy(small, kernel_of("meet_in_grid"), block, 0, NULL, &fits));
        assert_int_equal(fits.granted_sms, 16);
        assert_int_equal(fits.blocks, 16 * fits.blocks_per_sm);
        struct job job;
        assert_ok(run_meeting(&job, fits.blocks + 1, GANTRY_ERR_UNSUPPORTED));
        char text[40];
        snprintf(text, sizeof(text), "grid of %u blocks", fits.blocks + 1);
        assert_int_equal(job.got, GANTRY_ERR_UNSUPPORTED);
        assert_non_null(strstr(job.message, text));
        assert_non_null(strstr(job.message, "16 multiprocessors of partition \"small\""));
        if (has_clusters()) {
            options.cluster = (gantry_dim3){16, 1, 1};
            assert_ok(gantry_partition_get_occupancy(small, kernel_of("next_in_cluster"), block, 64, &options,
                                                     &fits));
            assert_int_equal(fits.clusters, 0);
            assert_int_equal(fits.largest_cluster, 8);
            job = job_of("next_in_cluster", 48);
            job.wanted = GANTRY_ERR_UNSUPPORTED;
            job.shared_bytes = 64;
            job.options = options;
            job.values[0] = device;
            job.args[0] = &job.values[0];
            assert_ok(run(&job));
            assert_int_equal(job.got, GANTRY_ERR_UNSUPPORTED);
            assert_non_null(strstr(job.message, "no cluster of 16 blocks"));
            assert_non_null(strstr(job.message, "has 8 blocks"));
            run_clusters(8);
        }
        close_all();
    }
}

/* ---- early starts ------------------------------------------------------------------------------- */

static uint32_t expected_after(uint32_t times)
{
    uint32_t value = 0;
    while (times-- > 0) {
        value = 3 * value + 1;
    }
    return value;
}

static struct job chain_of(uint32_t times, gantry_kernel_start start, uint64_t *steps)
{
    struct job job = job_of("early_step", 2);
    job.times = times;
    job.restart = 1;
    job.options.start = start;
    job.values[0] = device;
    job.args[1] = steps;
    return job;
}

static void test_a_chain_that_starts_early_is_in_order(void **state)
{
    (void)state;
    uint64_t steps = 100;
    for (int way = 0; way < 2; way++) {
        open_with(WAYS[way], NULL);
        for (int i = 0; i < 5; i++) {
            struct job job =
                chain_of(20, i % 2 == 0 ? GANTRY_KERNEL_START_EARLY : GANTRY_KERNEL_START_BEHIND, &steps);
            job.args[0] = &job.values[0];
            assert_ok(run(&job));
            assert_int_equal(host[0], expected_after(20));
        }
        close_all();
    }
}

static void test_only_kernels_that_promise_to_wait_start_early(void **state)
{
    (void)state;
    open_with(GANTRY_SUBMISSION_STREAMS, NULL);
    struct job job = job_of("next_in_cluster", 4);
    job.wanted = GANTRY_ERR_INVALID_ARGUMENT;
    job.shared_bytes = 64;
    job.values[0] = device;
    job.args[0] = &job.values[0];
    job.options.start = GANTRY_KERNEL_START_EARLY;
    assert_ok(run(&job));
    assert_int_equal(job.got, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(job.message, "GANTRY_KERNEL_EARLY"));
    close_all();
}

/* The emulated device ends a kernel that breaks the rules with a failure. */
static void run_broken(const char *kernel, bool cooperative)
{
    open_with(GANTRY_SUBMISSION_STREAMS, NULL);
    struct gantry_emu_control emu;
    if (gpu_fixture_controls(&emu) && has_clusters()) {
        struct job job = job_of(kernel, 2);
        job.values[0] = device;
        job.args[0] = &job.values[0];
        job.options.cooperative = cooperative;
        job.options.start = cooperative ? GANTRY_KERNEL_START_BEHIND : GANTRY_KERNEL_START_EARLY;
        submit_job(&job, false);
        (void)gpu_fixture_step(&gpu);
        assert_int_not_equal(gantry_context_synchronize(gpu.context), GANTRY_OK);
        module = NULL;
    }
    gantry_module_unload(module);
    gpu_fixture_close(&gpu);
    if (gpu_fixture_controls(&emu)) {
        emu.clear_faults(); /* such a failure ends the GPU work of a process */
    }
}

static void test_the_emulator_tells_what_breaks_the_rules(void **state)
{
    (void)state;
    run_broken("overtaking", false);
    run_broken("missing_meeting", true);
}

/* ---- replays ------------------------------------------------------------------------------------- */

enum { CHAIN = 20, STAMPS = 1024 /* the word where they begin */ };

/* Run a frozen graph of one chain again and again; the stamps of the last run are in `host`. */
static void replay_chain(gantry_kernel_start start, uint64_t steps)
{
    struct job job = chain_of(CHAIN, start, NULL);
    void *stamps = device + STAMPS;
    job.kernel = "early_stamp";
    job.grid = 1;
    job.restart = 2;
    job.args[0] = &job.values[0];
    job.args[1] = &stamps;
    job.args[2] = &steps;
    submit_job(&job, true);
    assert_ok(gantry_taskman_freeze(gpu.manager));
    assert_ok(gantry_taskman_run(gpu.manager, 6));
    assert_ok(gantry_context_synchronize(gpu.context));
    const uint64_t replays = gpu_fixture_stats(&gpu).graph_replays;
    assert_ok(gantry_taskman_run(gpu.manager, 3));
    assert_ok(gantry_context_synchronize(gpu.context));
    assert_true(gpu_fixture_stats(&gpu).graph_replays >= replays + 3);
    assert_int_equal(host[0], expected_after(CHAIN));
    assert_int_equal(host[1], CHAIN);
    assert_ok(gantry_taskman_reset(gpu.manager));
}

/* How many kernels of the chain have begun before the one before them had ended? */
static uint32_t early_starts(void)
{
    uint64_t stamps[2 * CHAIN];
    uint32_t early = 0;
    memcpy(stamps, host + STAMPS, sizeof(stamps));
    for (uint32_t i = 1; i < CHAIN; i++) {
        assert_true(stamps[2 * i + 1] >= stamps[2 * i - 1]); /* they end in order in any case */
        early += stamps[2 * i] < stamps[2 * i - 1];
    }
    return early;
}

/* A kernel goes on for so many steps of a multiprocessor's clock that the next one has time to begin.  The
 * emulated device starts none early. */
static void test_a_replayed_chain_starts_early(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    open_with(GANTRY_SUBMISSION_GRAPHS, NULL);
    const bool is_real = !gpu_fixture_controls(&emu);
    const uint64_t steps = is_real ? 400000 : 10;
    replay_chain(GANTRY_KERNEL_START_BEHIND, steps);
    assert_int_equal(early_starts(), 0);
    replay_chain(GANTRY_KERNEL_START_EARLY, steps);
    if (is_real && has_clusters()) {
        print_message("%u of %d kernels in a graph have begun early\n", early_starts(), CHAIN - 1);
        assert_int_not_equal(early_starts(), 0);
    }
    close_all();
}

/* ---- graphs that are kept ------------------------------------------------------------------------ */

#define MADE UINT32_MAX

/* Run the job, and expect that so many nodes of its graph were set, and none made; or, MADE, that a graph was
 * made for it. */
static void expect_set(struct job *job, uint32_t set)
{
    const gantry_dispatcher_stats before = gpu_fixture_stats(&gpu);
    assert_ok(run(job));
    const gantry_dispatcher_stats after = gpu_fixture_stats(&gpu);
    assert_int_equal(after.graph_launches - before.graph_launches, 1);
    assert_int_equal(after.graph_instantiations - before.graph_instantiations, set == MADE);
    assert_int_equal(after.graph_nodes_kept - before.graph_nodes_kept,
                     set == MADE ? 0 : after.graph_nodes - before.graph_nodes);
    assert_int_equal(after.graph_nodes_set - before.graph_nodes_set, set == MADE ? 0 : set);
}

static void expect_clusters(struct job *job, uint32_t at, uint32_t size)
{
    for (uint32_t block = 0; block < job->grid; block++) {
        const uint32_t first = block / size * size;
        assert_int_equal(host[at + block], first + (block + 1 - first) % size + 1);
    }
}

/* Equal options are one shape: grids and arguments are set.  Others are other shapes, each of which is kept.
 */
static void test_launches_with_equal_options_are_patched(void **state)
{
    (void)state;
    open_with(GANTRY_SUBMISSION_GRAPHS, NULL);
    struct job job = job_of("next_in_cluster", 48);
    job.shared_bytes = 64;
    for (uint32_t round = 0; round < 2 && has_clusters(); round++) {
        for (uint32_t size = 2; size <= 8; size *= 2) {
            job.options.cluster = (gantry_dim3){size, 1, 1};
            job.grid = 48;
            job.values[0] = device;
            job.args[0] = &job.values[0];
            expect_set(&job, round == 0 ? MADE : 1);
            expect_clusters(&job, 0, size);
            expect_set(&job, 0);
            job.grid = 16;
            job.values[0] = device + 100;
            expect_set(&job, 1);
            expect_clusters(&job, 100, size);
        }
        job.options.memory_domain = GANTRY_MEMORY_DOMAIN_REMOTE; /* one more */
        expect_set(&job, round == 0 ? MADE : 0);
        expect_clusters(&job, 100, 8);
        job.options.memory_domain = GANTRY_MEMORY_DOMAIN_DEFAULT;
    }
    close_all();
}

static void test_cooperative_grids_and_early_starts_are_patched(void **state)
{
    (void)state;
    uint64_t steps = 100;
    struct gantry_emu_control emu;
    open_with(GANTRY_SUBMISSION_GRAPHS, NULL);
    struct job meeting = job_of("meet_in_grid", 4), chain = chain_of(20, GANTRY_KERNEL_START_EARLY, &steps);
    meeting.options.cooperative = 1;
    for (int i = 0; i < 3; i++) {
        meeting.values[i] = device + i;
        meeting.args[i] = &meeting.values[i];
    }
    chain.args[0] = &chain.values[0];
    for (uint32_t round = 0; round < 4; round++) {
        meeting.grid = 4 + round;
        expect_set(&meeting, round == 0 ? MADE : 1);
        for (uint32_t block = 0; block < meeting.grid; block++) {
            assert_int_equal(host[2 + block], meeting.grid);
        }
        steps += round;
        expect_set(&chain, round == 0 ? MADE : 20);
        assert_int_equal(host[0], expected_after(20));
    }
    if (gpu_fixture_controls(&emu)) { /* what is refused is updated as a whole */
        assert_int_equal(
            (emu.fail)("cuGraphExecKernelNodeSetParams", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        steps++;
        expect_set(&chain, 22);
        assert_int_equal(host[0], expected_after(20));
        const uint64_t updates = emu.calls("cuGraphExecUpdate"); /* and is set again from then on */
        for (uint32_t round = 0; round < 2; round++) {
            steps++;
            expect_set(&chain, 20);
            assert_int_equal(host[0], expected_after(20));
        }
        assert_true(updates != 0);
        assert_int_equal(emu.calls("cuGraphExecUpdate"), updates);
    }
    close_all();
}

/* ---- graphs of the application --------------------------------------------------------------------- */

struct foreign {
    CUgraphExec exec;
    uint32_t calls;
    bool refused;
};

/* Run three steps of the chain. */
static CUgraphExec make_graph(void)
{
    const struct gy_driver *driver = gpu.context->cuda->driver;
    uint64_t steps = 0;
    void *args[] = {&device, &steps};
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = gantry_kernel_native(kernel_of("early_step")),
                                         .gridDimX = 1,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = 32,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = args};
    CUgraph graph;
    CUgraphNode node = NULL;
    CUgraphExec exec;
    assert_ok(gantry_context_acquire(gpu.context));
    assert_int_equal(driver->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CUgraphNode before = node;
        assert_int_equal(driver->cuGraphAddKernelNode(&node, graph, &before, i != 0, &params), CUDA_SUCCESS);
    }
    assert_int_equal(driver->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(driver->cuGraphDestroy(graph), CUDA_SUCCESS);
    gantry_context_release(gpu.context);
    return exec;
}

/* Run a step, run the graph, run a step. */
static gantry_launch_result launch_foreign(gantry_launch *launch, void *arg)
{
    struct foreign *foreign = arg;
    const gantry_dim3 one = {1, 1, 1};
    uint64_t steps = 0;
    void *args[] = {&device, &steps};
    gantry_kernel *kernel = kernel_of("early_step");
    foreign->calls++;
    foreign->refused = gantry_launch_graph(launch, NULL) == GANTRY_ERR_INVALID_ARGUMENT;
    if (gantry_launch_kernel(launch, kernel, one, one, 0, args) != GANTRY_OK ||
        gantry_launch_graph(launch, foreign->exec) != GANTRY_OK ||
        gantry_launch_kernel(launch, kernel, one, one, 0, args) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

/* Stable tasks come before and behind it, which may be replayed; it may not. */
static void run_foreign(struct foreign *foreign)
{
    uint64_t steps = 0;
    struct job before = chain_of(2, GANTRY_KERNEL_START_BEHIND, &steps);
    before.args[0] = &before.values[0];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *tasks[3];
    desc.kind = GANTRY_TASK_KERNEL;
    desc.is_stable = true;
    desc.launch = launch_job;
    desc.arg = &before;
    assert_ok(gantry_taskman_submit(gpu.manager, &desc, &tasks[0]));
    desc.launch = launch_foreign;
    desc.arg = foreign;
    assert_ok(gantry_taskman_submit(gpu.manager, &desc, &tasks[1]));
    desc.kind = GANTRY_TASK_DTOH;
    desc.launch = launch_read;
    assert_ok(gantry_taskman_submit(gpu.manager, &desc, &tasks[2]));
    gpu_fixture_after(tasks[1], tasks[0]);
    gpu_fixture_after(tasks[2], tasks[1]);
    assert_ok(gantry_taskman_freeze(gpu.manager));
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t calls = foreign->calls;
        memset(host, 0, 4);
        assert_ok(gantry_taskman_run(gpu.manager, 1));
        assert_ok(gantry_context_synchronize(gpu.context));
        assert_int_equal(host[0], expected_after(7));
        assert_true(foreign->calls > calls && foreign->refused);
    }
    assert_ok(gantry_taskman_reset(gpu.manager));
}

static void test_a_graph_of_the_application_is_part_of_a_task(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        open_with(WAYS[way], NULL);
        struct foreign foreign = {.exec = make_graph()};
        run_foreign(&foreign);
        assert_int_equal(gpu.context->cuda->driver->cuGraphExecDestroy(foreign.exec), CUDA_SUCCESS);
        close_all();
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_graph_of_the_application_is_part_of_a_task),
    cmocka_unit_test(test_clusters_run_on_streams_and_in_graphs),
    cmocka_unit_test(test_what_no_cluster_can_be_is_refused),
    cmocka_unit_test(test_cooperative_grids_run_on_streams_and_in_graphs),
    cmocka_unit_test(test_work_must_fit_into_its_partition),
    cmocka_unit_test(test_a_chain_that_starts_early_is_in_order),
    cmocka_unit_test(test_only_kernels_that_promise_to_wait_start_early),
    cmocka_unit_test(test_the_emulator_tells_what_breaks_the_rules),
    cmocka_unit_test(test_a_replayed_chain_starts_early),
    cmocka_unit_test(test_launches_with_equal_options_are_patched),
    cmocka_unit_test(test_cooperative_grids_and_early_starts_are_patched),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
