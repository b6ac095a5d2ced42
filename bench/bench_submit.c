/* `gantry bench submit`: what it costs the host to get kernels to the device.
 *
 * streams-N: from start to the last task released; dispatcher-N: of that, the least time the dispatcher's
 * thread spent in its phases; step-N: with the building of the graph.  done-streams-N, done-graphs-N: until
 * the device has finished, submitted as streams and as graphs.
 *
 * One step is `kernels` launches in 8 pipelines; every tenth launch of a pipeline also waits for its
 * neighbour's launch before.  Ours: a task per launch, timed from start to the last task released.
 * Yardstick: the loop an engineer writes by hand, 8 streams with events for the cross edges.  The kernel
 * increments its pipeline's cell, so a lost, doubled or unordered launch shows.
 *
 * On the emulated driver launches are accepted and not executed, which leaves the dispatcher's own time. */
#include "bench/harness.h"
#include "bench/raw_cuda.h"

#include "submit_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

#define PIPELINES 8u
#define CELL_BYTES 256u
#define CROSS_EVERY 10u

struct submit_bench {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction function;
    CUstream streams[PIPELINES];
    CUevent events[PIPELINES];
    void *cells;                    /* PIPELINES cells on the device, CELL_BYTES apart */
    void *cell[PIPELINES];          /* address of each: the kernel's argument */
    uint32_t kernels;               /* per step */
    bool executes;                  /* false: the driver accepts launches without doing them */
    gantry_dispatcher_stats before; /* at the start of a run of ours */
    uint64_t gd_least_ns;           /* least time of the dispatcher's thread in its phases, over the runs */
    gantry_task **tasks;            /* kernels of them */
};

static bool ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "bench submit: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

/* True when launch `step` of a pipeline waits for its neighbour. */
static bool has_cross_edge(uint32_t step)
{
    return step % CROSS_EVERY == CROSS_EVERY - 1;
}

/* ---- ours ---------------------------------------------------------------------------------- */

static gantry_launch_result launch_increment(gantry_launch *launch, void *arg)
{
    struct submit_bench *bench = arg;
    uint64_t pipeline = gantry_task_context_id(gantry_launch_task(launch));
    void *args[] = {&bench->cell[pipeline]};
    gantry_dim3 one = {1, 1, 1};
    gantry_dim3 warp = {32, 1, 1};
    return gantry_launch_kernel(launch, bench->kernel, one, warp, 0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static bool submit_one(struct submit_bench *bench, uint32_t index)
{
    uint32_t step = index / PIPELINES;
    uint32_t pipeline = index % PIPELINES;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "increment";
    desc.launch = launch_increment;
    desc.arg = bench;
    desc.context_id = pipeline;
    if (!ok(gantry_taskman_submit(bench->manager, &desc, &bench->tasks[index]))) {
        return false;
    }
    if (step == 0) {
        return true;
    }
    uint32_t before = (step - 1) * PIPELINES;
    uint32_t neighbour = before + (pipeline + 1) % PIPELINES;
    return ok(gantry_task_start_after(bench->tasks[index], bench->tasks[before + pipeline])) &&
           (!has_cross_edge(step) ||
            ok(gantry_task_start_after(bench->tasks[index], bench->tasks[neighbour])));
}

static bool build_graph(void *arg)
{
    struct submit_bench *bench = arg;
    for (uint32_t i = 0; i < bench->kernels; i++) {
        if (!submit_one(bench, i)) {
            return false;
        }
    }
    return true;
}

/* The former run's time on the dispatcher's thread; by now that thread has left its phases. */
static void note_gd_time(struct submit_bench *bench, const gantry_dispatcher_stats *now)
{
    uint64_t ns = 0;
    for (int phase = 0; phase < 3; phase++) {
        ns += now->phase_ns[phase] - bench->before.phase_ns[phase];
    }
    if (now->kernels - bench->before.kernels == bench->kernels && ns < bench->gd_least_ns) {
        bench->gd_least_ns = ns;
    }
}

static bool reset(void *arg)
{
    struct submit_bench *bench = arg;
    gantry_dispatcher_stats now = {.struct_size = sizeof(now)};
    if (!ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->context), &now)) ||
        !ok(gantry_taskman_reset(bench->manager))) {
        return false;
    }
    note_gd_time(bench, &now);
    bench->before = now;
    return true;
}

static bool prepare_run(void *arg)
{
    return reset(arg) && build_graph(arg);
}

static bool run_graph(void *arg)
{
    struct submit_bench *bench = arg;
    return ok(gantry_taskman_start(bench->manager)) && ok(gantry_taskman_stop(bench->manager));
}

static bool build_and_run(void *arg)
{
    return build_graph(arg) && run_graph(arg);
}

/* ---- by hand ------------------------------------------------------------------------------- */

static bool hand_launch(struct submit_bench *bench, uint32_t step, uint32_t pipeline)
{
    struct raw_cuda *cuda = &bench->cuda;
    void *args[] = {&bench->cell[pipeline]};
    if (has_cross_edge(step) && !RAW(cuda, cuStreamWaitEvent(bench->streams[pipeline],
                                                             bench->events[(pipeline + 1) % PIPELINES], 0))) {
        return false;
    }
    return RAW(cuda,
               cuLaunchKernel(bench->function, 1, 1, 1, 32, 1, 1, 0, bench->streams[pipeline], args, NULL));
}

static bool run_hand(void *arg)
{
    struct submit_bench *bench = arg;
    for (uint32_t step = 0; step < bench->kernels / PIPELINES; step++) {
        for (uint32_t p = 0; p < PIPELINES; p++) {
            if (!hand_launch(bench, step, p)) {
                return false;
            }
        }
        for (uint32_t p = 0; p < PIPELINES && has_cross_edge(step + 1); p++) {
            if (!RAW(&bench->cuda, cuEventRecord(bench->events[p], bench->streams[p]))) {
                return false;
            }
        }
    }
    return true;
}

/* ---- until the device is done -------------------------------------------------------------- */

static bool run_graph_to_end(void *arg)
{
    return run_graph(arg) && RAW(&((struct submit_bench *)arg)->cuda, cuCtxSynchronize());
}

static bool run_hand_to_end(void *arg)
{
    return run_hand(arg) && RAW(&((struct submit_bench *)arg)->cuda, cuCtxSynchronize());
}

/* ---- checks -------------------------------------------------------------------------------- */

/* Right counts, and zero again.  Where nothing is executed, neither are the copies of a check. */
static bool check_cells(struct submit_bench *bench)
{
    if (!bench->executes) {
        return true;
    }
    struct raw_cuda *cuda = &bench->cuda;
    CUdeviceptr cells = (CUdeviceptr)(uintptr_t)bench->cells;
    uint32_t host[PIPELINES * CELL_BYTES / sizeof(uint32_t)];
    if (!bench->executes) {
        return RAW(cuda, cuCtxSynchronize()); /* copies are not done either: there is nothing to look at */
    }
    if (!RAW(cuda, cuCtxSynchronize()) || !RAW(cuda, cuMemcpyDtoH(host, cells, sizeof(host)))) {
        return false;
    }
    bool right = true;
    for (uint32_t p = 0; p < PIPELINES; p++) {
        right = right && host[p * CELL_BYTES / sizeof(uint32_t)] == bench->kernels / PIPELINES;
    }
    memset(host, 0, sizeof(host));
    return RAW(cuda, cuMemcpyHtoD(cells, host, sizeof(host))) && RAW(cuda, cuStreamSynchronize(NULL)) &&
           right;
}

static bool verify_hand(void *arg)
{
    return check_cells(arg);
}

static bool verify_ours(void *arg)
{
    struct submit_bench *bench = arg;
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    return ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->context), &stats)) &&
           stats.kernels - bench->before.kernels == bench->kernels && check_cells(bench);
}

/* ---- set-up -------------------------------------------------------------------------------- */

static bool open_gantry(struct submit_bench *bench, const struct bench_options *options)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->driver;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    if (!ok(gantry_context_create(&context, &bench->context)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &bench->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = bench->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(bench->context);
    return ok(gantry_taskman_create(&manager, &bench->manager)) &&
           ok(gantry_module_load(bench->context, &gantry_image_submit_kernels, &module)) &&
           ok(gantry_module_get_kernel(module, "increment", &bench->kernel)) &&
           ok(gantry_context_acquire(bench->context));
}

static bool open_hand(struct submit_bench *bench)
{
    struct raw_cuda *cuda = &bench->cuda;
    const gantry_module_image *image = &gantry_image_submit_kernels;
    if (!raw_cuda_open(bench->context, cuda)) {
        return false;
    }
    const void *code = cuda->emulator_set_noop != NULL ? image->host
                       : image->fatbin != NULL         ? image->fatbin
                                                       : (const void *)image->ptx;
    if (!RAW(cuda, cuModuleLoadDataEx(&bench->module, code, 0, NULL, NULL)) ||
        !RAW(cuda, cuModuleGetFunction(&bench->function, bench->module, "increment"))) {
        return false;
    }
    for (uint32_t p = 0; p < PIPELINES; p++) {
        if (!RAW(cuda, cuStreamCreate(&bench->streams[p], CU_STREAM_NON_BLOCKING)) ||
            !RAW(cuda, cuEventCreate(&bench->events[p], CU_EVENT_DISABLE_TIMING))) {
            return false;
        }
    }
    return true;
}

static bool open_cells(struct submit_bench *bench)
{
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench submit");
    if (!ok(gantry_heap_alloc(gantry_context_heap(bench->context), GANTRY_MEMORY_DEVICE,
                              PIPELINES * CELL_BYTES, 0, site, &bench->cells))) {
        return false;
    }
    for (uint32_t p = 0; p < PIPELINES; p++) {
        bench->cell[p] = (char *)bench->cells + p * CELL_BYTES;
    }
    uint32_t zeros[PIPELINES * CELL_BYTES / sizeof(uint32_t)] = {0};
    return RAW(&bench->cuda, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)bench->cells, zeros, sizeof(zeros))) &&
           RAW(&bench->cuda, cuStreamSynchronize(NULL));
}

static void close_all(struct submit_bench *bench)
{
    gantry_taskman_destroy(bench->manager);
    gantry_cpu_dispatcher_destroy(bench->cpus);
    for (uint32_t p = 0; p < PIPELINES; p++) {
        if (bench->streams[p] != NULL) {
            (void)bench->cuda.cuStreamDestroy(bench->streams[p]);
        }
        if (bench->events[p] != NULL) {
            (void)bench->cuda.cuEventDestroy(bench->events[p]);
        }
    }
    if (bench->cells != NULL) {
        (void)gantry_heap_free(gantry_context_heap(bench->context), bench->cells);
    }
    if (bench->context != NULL) {
        (void)gantry_context_release(bench->context);
    }
    gantry_context_destroy(bench->context);
    free(bench->tasks);
}

static bool run_case(struct submit_bench *bench, const struct bench_options *options, const char *name,
                     const char *gd_name, uint32_t kernels)
{
    bool with_build = gd_name == NULL;
    bench->kernels = kernels;
    bench->gd_least_ns = UINT64_MAX;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = with_build ? reset : prepare_run,
                 .run = with_build ? build_and_run : run_graph,
                 .verify = verify_ours},
        .yardstick = {.name = "hand-loop", .run = run_hand, .verify = verify_hand},
        .arg = bench,
    };
    struct bench_result result;
    bool good = bench_run(options, &one, &result);
    if (!with_build) {
        one.name = gd_name;
        result.min_ns = result.median_ns = (double)bench->gd_least_ns / kernels;
        result.verified = result.verified && bench->gd_least_ns != UINT64_MAX;
        bench_report(options, &one, &result);
    }
    return good;
}

static bool run_to_end(struct submit_bench *bench, const struct bench_options *options, const char *name,
                       gantry_submission submission, uint32_t kernels)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(bench->context);
    bench->kernels = kernels;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = prepare_run, .run = run_graph_to_end, .verify = verify_ours},
        .yardstick = {.name = "hand-loop", .run = run_hand_to_end, .verify = verify_hand},
        .arg = bench,
    };
    bool good =
        ok(gantry_dispatcher_set_submission(dispatcher, submission)) && bench_run(options, &one, NULL);
    return ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_STREAMS)) && good;
}

static bool run_cases(struct submit_bench *bench, const struct bench_options *options)
{
    bool good = true;
    bench->executes = true;
    good &= run_case(bench, options, "submit/streams-200", "submit/dispatcher-200", 200);
    good &= run_case(bench, options, "submit/streams-1000", "submit/dispatcher-1000", 1000);
    good &= run_case(bench, options, "submit/step-200", NULL, 200);
    good &= run_case(bench, options, "submit/step-1000", NULL, 1000);
    good &= run_to_end(bench, options, "submit/done-streams-200", GANTRY_SUBMISSION_STREAMS, 200);
    good &= run_to_end(bench, options, "submit/done-graphs-200", GANTRY_SUBMISSION_GRAPHS, 200);
    good &= run_to_end(bench, options, "submit/done-streams-1000", GANTRY_SUBMISSION_STREAMS, 1000);
    good &= run_to_end(bench, options, "submit/done-graphs-1000", GANTRY_SUBMISSION_GRAPHS, 1000);
    if (bench->cuda.emulator_set_noop != NULL) {
        bench->cuda.emulator_set_noop(true);
        bench->executes = false;
        good &= run_case(bench, options, "submit/own-cost-1000", "submit/own-dispatcher-1000", 1000);
        good &= run_case(bench, options, "submit/own-cost-10000", "submit/own-dispatcher-10000", 10000);
        bench->cuda.emulator_set_noop(false);
    }
    return good;
}

static bool bench_submit(const struct bench_options *options)
{
    struct submit_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        return false;
    }
    bench->tasks = calloc(10000, sizeof(gantry_task *));
    bool good = bench->tasks != NULL && open_gantry(bench, options) && open_hand(bench) &&
                open_cells(bench) && run_cases(bench, options);
    close_all(bench);
    free(bench);
    return good;
}

const struct gantry_bench gantry_bench_submit = {
    .name = "submit",
    .summary = "host time to get kernels to the device, against streams written by hand",
    .main = bench_submit,
};
