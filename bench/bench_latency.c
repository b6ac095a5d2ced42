/* `gantry bench latency`: how soon a CPU task runs after the GPU work it waits for, by wait mode.
 *
 * From before the kernel is launched, on the dispatcher's thread, until the first instruction of the CPU task
 * that its completion starts.  Yardstick: a kernel and an event by hand, until cuEventSynchronize() returns;
 * for the mode that blocks with an event that blocks, else with one that spins.  So both contain the kernel.
 */
#include "base/clock.h"
#include "bench/harness.h"
#include "bench/raw_cuda.h"

#include "submit_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

#define PER_RUN 50u /* samples for each run that was asked for */

struct latency_bench {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    void *cell;
    gantry_task *done;
    uint64_t launched_ns, started_ns; /* of the latest sample */
    uint32_t ran;
};

static bool ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "bench latency: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct latency_bench *bench = arg;
    void *args[] = {&bench->cell};
    gantry_dim3 one = {1, 1, 1};
    gantry_dim3 warp = {32, 1, 1};
    bench->launched_ns = gy_clock_ns();
    return gantry_launch_kernel(launch, bench->kernel, one, warp, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, bench->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status start(gantry_task *task, void *arg)
{
    struct latency_bench *bench = arg;
    (void)task;
    bench->started_ns = gy_clock_ns();
    bench->ran++;
    return GANTRY_OK;
}

static bool sample_ours(struct latency_bench *bench, double *ns)
{
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT;
    gantry_task_desc cpu = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch;
    cpu.run = start;
    gpu.arg = cpu.arg = bench;
    if (!ok(gantry_taskman_submit(bench->manager, &cpu, &bench->done)) ||
        !ok(gantry_taskman_submit(bench->manager, &gpu, &task)) ||
        !ok(gantry_task_start_after(bench->done, task)) || !ok(gantry_taskman_start(bench->manager)) ||
        !ok(gantry_taskman_stop(bench->manager)) || !ok(gantry_taskman_reset(bench->manager))) {
        return false;
    }
    *ns = (double)(bench->started_ns - bench->launched_ns);
    return true;
}

static bool sample_hand(struct latency_bench *bench, CUevent event, double *ns)
{
    struct raw_cuda *cuda = &bench->cuda;
    void *args[] = {&bench->cell};
    uint64_t begin = gy_clock_ns();
    if (!RAW(cuda, cuLaunchKernel(bench->function, 1, 1, 1, 32, 1, 1, 0, bench->stream, args, NULL)) ||
        !RAW(cuda, cuEventRecord(event, bench->stream)) || !RAW(cuda, cuEventSynchronize(event))) {
        return false;
    }
    *ns = (double)(gy_clock_ns() - begin);
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `count` samples of each in turn; every kernel has incremented the cell. */
static bool take_samples(struct latency_bench *bench, bool blocks, uint32_t count,
                         struct bench_result *result)
{
    struct raw_cuda *cuda = &bench->cuda;
    CUevent event;
    unsigned flags = CU_EVENT_DISABLE_TIMING | (blocks ? CU_EVENT_BLOCKING_SYNC : 0u);
    double *ours = calloc(2 * (size_t)count, sizeof(double));
    if (ours == NULL || !RAW(cuda, cuEventCreate(&event, flags))) {
        free(ours);
        return false;
    }
    double *hand = ours + count;
    bool good = sample_ours(bench, &ours[0]) && sample_hand(bench, event, &hand[0]);
    for (uint32_t i = 0; i < count && good; i++) {
        good = sample_ours(bench, &ours[i]) && sample_hand(bench, event, &hand[i]);
    }
    uint32_t cell = 0;
    good = good && RAW(cuda, cuMemcpyDtoH(&cell, (CUdeviceptr)(uintptr_t)bench->cell, sizeof(cell))) &&
           cell == 2 * (count + 1) && bench->ran == count + 1;
    if (good) {
        qsort(ours, count, sizeof(*ours), compare);
        qsort(hand, count, sizeof(*hand), compare);
        *result = (struct bench_result){ours[0], ours[count / 2], hand[0], hand[count / 2], true};
    }
    (void)RAW(cuda, cuEventDestroy(event));
    free(ours);
    return good;
}

static bool open_bench(struct latency_bench *bench, const struct bench_options *options,
                       gantry_wait_mode mode)
{
    const gantry_module_image *image = &gantry_image_submit_kernels;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    uint32_t zero = 0;
    context.driver = options->driver;
    context.completion_wait = cpus.wait_mode = mode;
    cpus.worker_count = 1;
    if (!ok(gantry_context_create(&context, &bench->context)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &bench->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = bench->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(bench->context);
    struct raw_cuda *cuda = &bench->cuda;
    if (!ok(gantry_taskman_create(&manager, &bench->manager)) ||
        !ok(gantry_module_load(bench->context, image, &module)) ||
        !ok(gantry_module_get_kernel(module, "increment", &bench->kernel)) ||
        !ok(gantry_context_acquire(bench->context)) || !raw_cuda_open(bench->context, cuda)) {
        return false;
    }
    const void *code = cuda->emulator_set_noop != NULL ? image->host
                       : image->fatbin != NULL         ? image->fatbin
                                                       : (const void *)image->ptx;
    return RAW(cuda, cuModuleLoadDataEx(&bench->module, code, 0, NULL, NULL)) &&
           RAW(cuda, cuModuleGetFunction(&bench->function, bench->module, "increment")) &&
           RAW(cuda, cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING)) &&
           ok(gantry_heap_alloc(gantry_context_heap(bench->context), GANTRY_MEMORY_DEVICE, 256, 0,
                                GANTRY_ALLOC_SITE("bench latency"), &bench->cell)) &&
           RAW(cuda, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)bench->cell, &zero, sizeof(zero))) &&
           RAW(cuda, cuStreamSynchronize(NULL));
}

static void close_bench(struct latency_bench *bench)
{
    gantry_taskman_destroy(bench->manager);
    gantry_cpu_dispatcher_destroy(bench->cpus);
    if (bench->stream != NULL) {
        (void)bench->cuda.cuStreamDestroy(bench->stream);
    }
    if (bench->cell != NULL) {
        (void)gantry_heap_free(gantry_context_heap(bench->context), bench->cell);
    }
    if (bench->context != NULL) {
        (void)gantry_context_release(bench->context);
    }
    gantry_context_destroy(bench->context);
}

/* The harness prints a yardstick that has something to run. */
static bool measured_above(void *arg)
{
    (void)arg;
    return true;
}

static bool bench_latency(const struct bench_options *options)
{
    static const struct {
        const char *name, *yardstick;
        gantry_wait_mode mode;
    } cases[] = {
        {"latency/done-to-task-spin", "event-spin", GANTRY_WAIT_SPIN},
        {"latency/done-to-task-hybrid", "event-spin", GANTRY_WAIT_HYBRID},
        {"latency/done-to-task-block", "event-block", GANTRY_WAIT_BLOCK},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct latency_bench bench;
        struct bench_result result = {0};
        memset(&bench, 0, sizeof(bench));
        bool blocks = cases[i].mode == GANTRY_WAIT_BLOCK;
        struct bench_case one = {.name = cases[i].name, .item = "completion", .items = 1};
        one.yardstick = (struct bench_side){.name = cases[i].yardstick, .run = measured_above};
        good = open_bench(&bench, options, cases[i].mode) &&
               take_samples(&bench, blocks, options->runs * PER_RUN, &result) && good;
        close_bench(&bench);
        bench_report(options, &one, &result);
    }
    return good;
}

const struct gantry_bench gantry_bench_latency = {
    .name = "latency",
    .summary = "from a launch to the CPU task that waits for it, against events written by hand",
    .main = bench_latency,
};
