/* `gantry run critical_latency`: a short kernel behind one that fills the device.
 *
 * The long kernel has several waves of blocks; once its first block runs, a kernel of some 20 us is submitted
 * and timed until the host knows its end.  Four ways:
 *
 *   plain streams      it waits until the long kernel's last wave leaves SMs over
 *   priority           it waits until blocks of the wave that runs have ended
 *   partition, by hand streams of two partitions, launched and watched by hand: what the hardware can do
 *   partition          tasks of two task managers; the long one names no partition, so it is in the default
 * one
 *
 * The long kernel's time shows the price: it has fewer SMs.  --sweep repeats the last way for splits from 8
 * SMs up,
 * --cost prints what making green contexts and their streams takes. */
#include "bench/raw_cuda.h"
#include "cli/command.h"
#include "cli/samples.h"

#include "critical_kernels.kernels.h"

#include <gantry/gantry.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 1024, CRITICAL_BLOCKS = 16, WAYS = 4 };

static const char *const way_names[WAYS] = {"plain streams", "priority", "partition, by hand", "partition"};

struct settings {
    gantry_driver_choice driver;
    uint32_t samples, critical_sms;
    bool sweep, cost;
};

struct latency {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *background, *urgent;
    gantry_kernel *kernel;
    gantry_partition *critical;
    gantry_device_info info;
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction function;
    CUevent event;
    CUstream plain[2], priority[2], parted[2]; /* of the long kernel, of the short one */
    uint32_t *words;    /* pinned: begun, blocks done by the long one, by the short one */
    void *device_words; /* their address on the device */
    uint64_t long_ns, short_ns;
    uint32_t long_blocks;
    uint32_t long_runs, short_runs;
};

/* Median and 99th percentile of the short kernel, median of the long one; in us. */
struct figures {
    double median, p99, long_us;
};

static bool ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "critical_latency: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void await_begin(const struct latency *l)
{
    while (__atomic_load_n(l->words, __ATOMIC_ACQUIRE) == 0) {
    }
}

/* ---- by hand -------------------------------------------------------------------------------- */

static bool launch_by_hand(struct latency *l, CUstream stream, bool is_long)
{
    char *words = l->device_words;
    void *begun = words + (is_long ? 0 : 12), *done = words + (is_long ? 4 : 8);
    uint64_t ns = is_long ? l->long_ns : l->short_ns;
    void *args[] = {&begun, &done, &ns};
    *(is_long ? &l->long_runs : &l->short_runs) += 1;
    return RAW(&l->cuda, cuLaunchKernel(l->function, is_long ? l->long_blocks : CRITICAL_BLOCKS, 1, 1,
                                        THREADS, 1, 1, 0, stream, args, NULL));
}

static bool sample_by_hand(struct latency *l, const CUstream streams[2], double *short_us, double *long_us)
{
    double begin = now_us();
    __atomic_store_n(l->words, 0u, __ATOMIC_RELAXED);
    if (!launch_by_hand(l, streams[0], true)) {
        return false;
    }
    await_begin(l);
    double submitted = now_us();
    if (!launch_by_hand(l, streams[1], false) || !RAW(&l->cuda, cuEventRecord(l->event, streams[1]))) {
        return false;
    }
    CUresult result;
    while ((result = l->cuda.cuEventQuery(l->event)) == CUDA_ERROR_NOT_READY) {
    }
    *short_us = now_us() - submitted;
    bool good = raw_cuda_ok(result, "cuEventQuery") && RAW(&l->cuda, cuStreamSynchronize(streams[0]));
    *long_us = now_us() - begin;
    return good;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

struct shot {
    struct latency *latency;
    gantry_task *done;
    bool is_long;
    double finished_us;
};

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct shot *shot = arg;
    struct latency *l = shot->latency;
    char *words = l->device_words;
    void *begun = words + (shot->is_long ? 0 : 12), *done = words + (shot->is_long ? 4 : 8);
    uint64_t ns = shot->is_long ? l->long_ns : l->short_ns;
    void *args[] = {&begun, &done, &ns};
    gantry_dim3 grid = {shot->is_long ? l->long_blocks : CRITICAL_BLOCKS, 1, 1}, block = {THREADS, 1, 1};
    return gantry_launch_kernel(launch, l->kernel, grid, block, 0, args) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, shot->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status finish(gantry_task *task, void *arg)
{
    struct shot *shot = arg;
    (void)task;
    shot->finished_us = now_us();
    return GANTRY_OK;
}

static bool build(gantry_taskman *manager, gantry_partition *partition, struct shot *shot)
{
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT, cpu = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch;
    gpu.partition = partition;
    cpu.run = finish;
    gpu.arg = cpu.arg = shot;
    return ok(gantry_taskman_submit(manager, &cpu, &shot->done)) &&
           ok(gantry_taskman_submit(manager, &gpu, &task)) && ok(gantry_task_start_after(shot->done, task));
}

static bool sample_tasks(struct latency *l, double *short_us, double *long_us)
{
    struct shot big = {.latency = l, .is_long = true}, small = {.latency = l};
    if (!build(l->background, NULL, &big) || !build(l->urgent, l->critical, &small)) {
        return false;
    }
    l->long_runs++;
    l->short_runs++;
    __atomic_store_n(l->words, 0u, __ATOMIC_RELAXED);
    double begin = now_us();
    if (!ok(gantry_taskman_start(l->background))) {
        return false;
    }
    await_begin(l);
    double submitted = now_us();
    bool good = ok(gantry_taskman_start(l->urgent)) && ok(gantry_taskman_stop(l->urgent)) &&
                ok(gantry_taskman_stop(l->background)) && ok(gantry_taskman_reset(l->urgent)) &&
                ok(gantry_taskman_reset(l->background));
    *short_us = small.finished_us - submitted;
    *long_us = big.finished_us - begin;
    return good;
}

/* ---- figures -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(struct latency *l, int way, uint32_t samples, struct figures *out)
{
    double *shorts = calloc(2 * (size_t)samples, sizeof(double)), *longs = shorts + samples;
    bool good = shorts != NULL;
    const CUstream *by_hand[WAYS] = {l->plain, l->priority, l->parted, NULL};
    for (uint32_t i = 0; good && i <= samples; i++) { /* the first one does not count */
        uint32_t at = i > 0 ? i - 1 : 0;
        good = by_hand[way] != NULL ? sample_by_hand(l, by_hand[way], &shorts[at], &longs[at])
                                    : sample_tasks(l, &shorts[at], &longs[at]);
    }
    if (good) {
        qsort(shorts, samples, sizeof(double), compare);
        qsort(longs, samples, sizeof(double), compare);
        *out = (struct figures){shorts[samples / 2], shorts[samples * 99 / 100], longs[samples / 2]};
    }
    free(shorts);
    return good;
}

/* Every block of every run has counted itself. */
static bool verify(const struct latency *l)
{
    bool good =
        l->words[1] == l->long_runs * l->long_blocks && l->words[2] == l->short_runs * CRITICAL_BLOCKS;
    if (!good) {
        fprintf(stderr, "critical_latency: %u and %u blocks have run, not %u and %u\n", l->words[1],
                l->words[2], l->long_runs * l->long_blocks, l->short_runs * CRITICAL_BLOCKS);
    }
    return good;
}

/* ---- set-up --------------------------------------------------------------------------------- */

static bool open_context(struct latency *l, const struct settings *settings)
{
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]), .name = "critical", .size = GANTRY_PARTITION_AT_LEAST},
        {.struct_size = sizeof(requests[0]), .name = "background", .size = GANTRY_PARTITION_REST},
    };
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    requests[0].sm_count = settings->critical_sms;
    plan.requests = requests;
    plan.count = 2;
    context.driver = settings->driver;
    context.partitions = &plan;
    context.completion_wait = cpus.wait_mode = GANTRY_WAIT_SPIN;
    cpus.worker_count = 1;
    l->info.struct_size = sizeof(l->info);
    if (!ok(gantry_context_create(&context, &l->context)) ||
        !ok(gantry_context_device_info(l->context, &l->info)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &l->cpus)) ||
        !ok(gantry_partition_find(l->context, "critical", &l->critical))) {
        return false;
    }
    manager.cpu_dispatcher = l->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(l->context);
    return ok(gantry_taskman_create(&manager, &l->background)) &&
           ok(gantry_taskman_create(&manager, &l->urgent));
}

static bool open_by_hand(struct latency *l)
{
    struct raw_cuda *cuda = &l->cuda;
    const gantry_module_image *image = &gantry_image_critical_kernels;
    void *parted[2];
    int least = 0, greatest = 0;
    if (!ok(gantry_context_acquire(l->context)) || !raw_cuda_open(l->context, cuda)) {
        return false;
    }
    const void *code = l->info.emulated        ? image->host
                       : image->fatbin != NULL ? image->fatbin
                                               : (const void *)image->ptx;
    bool good = RAW(cuda, cuModuleLoadDataEx(&l->module, code, 0, NULL, NULL)) &&
                RAW(cuda, cuModuleGetFunction(&l->function, l->module, "occupy")) &&
                RAW(cuda, cuEventCreate(&l->event, CU_EVENT_DISABLE_TIMING)) &&
                RAW(cuda, cuCtxGetStreamPriorityRange(&least, &greatest)) &&
                ok(gantry_partition_create_stream(gantry_partition_default(l->context), &parted[0])) &&
                ok(gantry_partition_create_stream(l->critical, &parted[1]));
    for (int i = 0; i < 2 && good; i++) {
        l->parted[i] = parted[i];
        good = RAW(cuda, cuStreamCreate(&l->plain[i], CU_STREAM_NON_BLOCKING)) &&
               RAW(cuda, cuStreamCreateWithPriority(&l->priority[i], CU_STREAM_NON_BLOCKING,
                                                    i == 0 ? least : greatest));
    }
    return good;
}

static bool open_all(struct latency *l, const struct settings *settings)
{
    void *words;
    gantry_module *module;
    memset(l, 0, sizeof(*l));
    if (!open_context(l, settings) || !open_by_hand(l)) {
        return false;
    }
    gantry_heap *heap = gantry_context_heap(l->context);
    if (!ok(gantry_module_load(l->context, &gantry_image_critical_kernels, &module)) ||
        !ok(gantry_module_get_kernel(module, "occupy", &l->kernel)) ||
        !ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 64, 0, GANTRY_ALLOC_SITE("words"), &words)) ||
        !ok(gantry_heap_device_address(heap, words, &l->device_words))) {
        return false;
    }
    memset(words, 0, 64);
    l->words = words;
    /* Two blocks per SM at a time, four waves of 1 ms; the emulated device only shows that it works. */
    l->long_blocks = l->info.emulated ? 64 : l->info.multiprocessors * 8;
    l->long_ns = l->info.emulated ? 10000 : 1000000;
    l->short_ns = l->info.emulated ? 1000 : 20000;
    return true;
}

static void close_all(struct latency *l)
{
    const CUstream streams[] = {l->plain[0],    l->plain[1],  l->priority[0],
                                l->priority[1], l->parted[0], l->parted[1]};
    gantry_taskman_destroy(l->urgent);
    gantry_taskman_destroy(l->background);
    gantry_cpu_dispatcher_destroy(l->cpus);
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (streams[i] != NULL) {
            (void)RAW(&l->cuda, cuStreamDestroy(streams[i]));
        }
    }
    if (l->event != NULL) {
        (void)RAW(&l->cuda, cuEventDestroy(l->event));
    }
    if (l->module != NULL) {
        (void)RAW(&l->cuda, cuModuleUnload(l->module));
    }
    if (l->words != NULL) {
        (void)gantry_heap_free(gantry_context_heap(l->context), l->words);
    }
    if (l->cuda.cuInit != NULL) {
        (void)gantry_context_release(l->context);
    }
    gantry_context_destroy(l->context);
}

/* ---- tables --------------------------------------------------------------------------------- */

static bool show_ways(const struct settings *settings)
{
    struct latency l;
    bool good = open_all(&l, settings);
    if (good) {
        printf("%s, %u SMs%s\n", l.info.name, l.info.multiprocessors,
               l.info.emulated ? ": emulated, the times mean nothing" : "");
        printf("%-20s %12s %12s %14s\n", "way", "median us", "p99 us", "long kernel us");
    }
    for (int way = 0; way < WAYS && good; way++) {
        struct figures f;
        good = measure(&l, way, settings->samples, &f);
        if (good) {
            printf("%-20s %12.1f %12.1f %14.0f\n", way_names[way], f.median, f.p99, f.long_us);
        }
    }
    good = good && verify(&l);
    close_all(&l);
    return good;
}

static bool show_sweep(const struct settings *settings)
{
    double whole = 0;
    bool good = true;
    printf("\n%-14s %10s %12s %12s %14s %9s\n", "critical SMs", "others", "median us", "p99 us",
           "long kernel us", "slowdown");
    for (uint32_t sms = 8; good; sms += 8) {
        struct settings one = *settings;
        struct latency l;
        struct figures f, plain;
        gantry_partition_info critical = {.struct_size = sizeof(critical)}, rest = critical;
        one.critical_sms = sms;
        good = open_all(&l, &one) && measure(&l, 0, 3, &plain) && measure(&l, 3, settings->samples, &f) &&
               verify(&l) && ok(gantry_partition_get_info(l.critical, &critical)) &&
               ok(gantry_partition_get_info(gantry_partition_default(l.context), &rest));
        uint32_t total = l.info.multiprocessors;
        close_all(&l);
        whole = whole == 0 ? plain.long_us : whole;
        if (good) {
            printf("%-14u %10u %12.1f %12.1f %14.0f %9.2f\n", critical.granted_sms, rest.granted_sms,
                   f.median, f.p99, f.long_us, f.long_us / whole);
        }
        if (sms + 16 > total) {
            break;
        }
    }
    return good;
}

/* One green context and one stream of it after another; medians. */
static bool show_cost(const struct settings *settings)
{
    enum { REPEATS = 30 };
    double t[5], took[4][REPEATS];
    static const char *const what[] = {"green context create", "its stream create", "its stream destroy",
                                       "green context destroy"};
    struct latency l;
    bool good = open_all(&l, settings);
    struct raw_cuda *cuda = &l.cuda;
    for (int i = 0; i < REPEATS && good; i++) {
        CUdevResource all, part;
        CUdevResourceDesc desc = NULL;
        CUgreenCtx green = NULL;
        CUstream stream = NULL;
        unsigned groups = 1;
        memset(&all, 0, sizeof(all));
        good = RAW(cuda, cuDeviceGetDevResource(l.info.ordinal, &all, CU_DEV_RESOURCE_TYPE_SM)) &&
               RAW(cuda, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 16)) &&
               RAW(cuda, cuDevResourceGenerateDesc(&desc, &part, 1));
        t[0] = now_us();
        good = good && RAW(cuda, cuGreenCtxCreate(&green, desc, l.info.ordinal, CU_GREEN_CTX_DEFAULT_STREAM));
        t[1] = now_us();
        good = good && RAW(cuda, cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
        t[2] = now_us();
        good = good && RAW(cuda, cuStreamDestroy(stream));
        t[3] = now_us();
        good = good && RAW(cuda, cuGreenCtxDestroy(green));
        t[4] = now_us();
        for (int k = 0; k < 4; k++) {
            took[k][i] = t[k + 1] - t[k];
        }
    }
    close_all(&l);
    printf("\n%-24s %12s\n", "call", "median us");
    for (int k = 0; k < 4 && good; k++) {
        qsort(took[k], REPEATS, sizeof(double), compare);
        printf("%-24s %12.1f\n", what[k], took[k][REPEATS / 2]);
    }
    return good;
}

static int critical_main(int argc, char **argv)
{
    static const struct option options[] = {{"driver", required_argument, NULL, 'd'},
                                            {"samples", required_argument, NULL, 'n'},
                                            {"critical-sms", required_argument, NULL, 's'},
                                            {"sweep", no_argument, NULL, 'w'},
                                            {"cost", no_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    struct settings settings = {.samples = 100, .critical_sms = 16};
    unsigned long number;
    int result;
    while ((result = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (result == 'd' && cli_parse_driver(optarg, &settings.driver)) {
            continue;
        }
        if ((result == 'n' || result == 's') && cli_parse_number(optarg, 1, 10000, &number)) {
            *(result == 'n' ? &settings.samples : &settings.critical_sms) = (uint32_t)number;
            continue;
        }
        if (result != 'w' && result != 'c') {
            fprintf(stderr,
                    "usage: critical_latency [--driver DRIVER] [--samples N] [--critical-sms N] [--sweep] "
                    "[--cost]\n");
            return 2;
        }
        *(result == 'w' ? &settings.sweep : &settings.cost) = true;
    }
    if (optind != argc) {
        fprintf(stderr, "critical_latency: unexpected argument '%s'\n", argv[optind]);
        return 2;
    }
    bool good = show_ways(&settings) && (!settings.sweep || show_sweep(&settings)) &&
                (!settings.cost || show_cost(&settings));
    return good ? 0 : 1;
}

const struct gantry_sample gantry_sample_critical_latency = {
    .name = "critical_latency",
    .summary = "a short kernel behind one that fills the device, with and without partitions",
    .main = critical_main,
};
