/* SPDX-License-Identifier: MIT */
#include "bench/critical_scene.h"

#include "base/clock.h"
#include "cli/messages.h"

#include "critical_kernels.kernels.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 1024,
    BLOCKS_PER_SM = 2, /* so many of these threads run at once */
    SHORT_BLOCKS = 16,
    SHORT_NS = 20000,
    /* each has a cache line of its own: a thread that reads one does not disturb a thread that writes
     * another */
    FLAG_BYTES = 64,
    SPINS = 1024 /* so many looks lie between two questions whether a stream has failed */
};

enum flag { LONG_BEGUN, SHORT_BEGUN, SHORT_ENDED, FLAGS };

const char *(*bench_scene_cause)(gantry_status status);

static bool ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        cli_error("critical kernel: %s",
                  bench_scene_cause != NULL ? bench_scene_cause(status) : gantry_last_error());
    }
    return status == GANTRY_OK;
}

/* ---- what kernels tell ---------------------------------------------------------------------- */

static uint32_t *flag(const struct bench_scene *s, enum flag which)
{
    return s->flags + which * (FLAG_BYTES / sizeof(uint32_t));
}

static void *device_flag(const struct bench_scene *s, enum flag which)
{
    return (char *)s->device_flags + which * FLAG_BYTES;
}

/* The emulated device needs a core. */
static void let_device_run(const struct bench_scene *s)
{
    if (s->info.emulated) {
        (void)sched_yield();
    }
}

/* True when no flag will be set any more: a task has failed, the context is lost, or the work that was put
 * on a stream by hand is over, with or without an error. */
static bool is_over(struct bench_scene *s)
{
    CUresult result = s->watched != NULL ? s->cuda.cuStreamQuery(s->watched) : CUDA_ERROR_NOT_READY;
    if (result != CUDA_ERROR_NOT_READY && result != CUDA_SUCCESS) {
        cli_error("critical kernel: cuStreamQuery: CUresult %d", (int)result);
    }
    return atomic_load(&s->task_failed) || !gantry_context_is_valid(s->context) ||
           result != CUDA_ERROR_NOT_READY;
}

/* Print why the context is lost: work that was launched by hand has no task that would say it. */
static void tell_loss(struct bench_scene *s)
{
    if (!gantry_context_is_valid(s->context) && ok(gantry_context_acquire(s->context))) {
        (void)gantry_context_release(s->context);
    }
}

/* Wait for a flag; a failed launch must not make this wait endless. */
static bool await_flag(struct bench_scene *s, enum flag which)
{
    for (uint32_t spins = 1; __atomic_load_n(flag(s, which), __ATOMIC_ACQUIRE) == 0; spins++) {
        if (spins % SPINS == 0 && is_over(s) && __atomic_load_n(flag(s, which), __ATOMIC_ACQUIRE) == 0) {
            cli_error("critical kernel: a kernel does not run");
            tell_loss(s);
            return false;
        }
        let_device_run(s);
    }
    return true;
}

void bench_scene_arm(struct bench_scene *s)
{
    s->watched = NULL;
    for (enum flag f = LONG_BEGUN; f < FLAGS; f++) {
        __atomic_store_n(flag(s, f), 0u, __ATOMIC_RELAXED);
    }
}

bool bench_scene_await_begin(struct bench_scene *s)
{
    return await_flag(s, LONG_BEGUN);
}

/* The kernel's arguments, and how many blocks it is. */
struct arguments {
    void *begun, *ended, *done;
    uint64_t ns;
    uint32_t blocks;
};

static struct arguments arguments_of(struct bench_scene *s, bool is_long, bool observe, uint32_t blocks)
{
    struct arguments a = {.done = s->counters + (is_long ? 0 : 1), .ns = is_long ? s->long_ns : s->short_ns};
    if (is_long || observe) {
        a.begun = device_flag(s, is_long ? LONG_BEGUN : SHORT_BEGUN);
        a.ended = is_long ? NULL : device_flag(s, SHORT_ENDED);
    }
    a.blocks = blocks != 0 ? blocks : is_long ? s->long_blocks : s->short_blocks;
    *(is_long ? &s->long_total : &s->short_total) += a.blocks;
    return a;
}

static void note_failure(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    if (result != GANTRY_OK) {
        atomic_store(&((struct bench_shot *)arg)->scene->task_failed, true);
    }
}

/* ---- by hand -------------------------------------------------------------------------------- */

static bool launch_by_hand(struct bench_scene *s, CUstream stream, bool is_long, bool observe)
{
    struct arguments a = arguments_of(s, is_long, observe, 0);
    void *args[] = {&a.begun, &a.ended, &a.done, &a.ns};
    s->watched = stream;
    return RAW(&s->cuda,
               cuLaunchKernel(s->function, a.blocks, 1, 1, s->threads, 1, 1, 0, stream, args, NULL));
}

static bool sample_by_hand(struct bench_scene *s, const CUstream streams[2], bool observe,
                           struct bench_sample *out)
{
    uint64_t begin = gy_clock_ns();
    bench_scene_arm(s);
    if (!launch_by_hand(s, streams[0], true, false) || !bench_scene_await_begin(s)) {
        return false;
    }
    uint64_t submitted = gy_clock_ns();
    if (!launch_by_hand(s, streams[1], false, observe)) {
        return false;
    }
    out->moments[BENCH_MOMENT_LAUNCHED] = gy_clock_ns() - submitted;
    bool good = RAW(&s->cuda, cuEventRecord(s->event, streams[1]));
    if (good && observe) {
        good = await_flag(s, SHORT_BEGUN);
        out->moments[BENCH_MOMENT_BEGUN] = gy_clock_ns() - submitted;
        good = good && await_flag(s, SHORT_ENDED);
        out->moments[BENCH_MOMENT_ENDED] = gy_clock_ns() - submitted;
    }
    CUresult result = CUDA_SUCCESS;
    while (good && (result = s->cuda.cuEventQuery(s->event)) == CUDA_ERROR_NOT_READY) {
        let_device_run(s);
    }
    out->short_ns = out->moments[BENCH_MOMENT_KNOWN] = gy_clock_ns() - submitted;
    good = good && raw_cuda_ok(result, "cuEventQuery") && RAW(&s->cuda, cuStreamSynchronize(streams[0]));
    out->long_ns = gy_clock_ns() - begin;
    return good;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct bench_shot *shot = arg;
    struct bench_scene *s = shot->scene;
    shot->called_ns = gy_clock_ns();
    struct arguments a = arguments_of(s, shot->is_long, shot->observe, shot->blocks);
    void *args[] = {&a.begun, &a.ended, &a.done, &a.ns};
    gantry_dim3 grid = {a.blocks, 1, 1}, block = {s->threads, 1, 1};
    gantry_status status = gantry_launch_kernel(launch, s->kernel, grid, block, 0, args);
    shot->launched_ns = gy_clock_ns();
    return status == GANTRY_OK && gantry_launch_add_completion(launch, shot->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status finish(gantry_task *task, void *arg)
{
    (void)task;
    ((struct bench_shot *)arg)->finished_ns = gy_clock_ns();
    return GANTRY_OK;
}

bool bench_scene_add(struct bench_scene *s, gantry_taskman *manager, gantry_partition *partition,
                     struct bench_shot *shot, gantry_task **gpu)
{
    gantry_task_desc kernel = GANTRY_TASK_DESC_INIT, then = GANTRY_TASK_DESC_INIT;
    shot->scene = s;
    kernel.kind = GANTRY_TASK_KERNEL;
    kernel.launch = launch;
    kernel.partition = partition;
    kernel.release = note_failure;
    then.run = finish;
    kernel.arg = then.arg = shot;
    return ok(gantry_taskman_submit(manager, &then, &shot->done)) &&
           ok(gantry_taskman_submit(manager, &kernel, gpu)) && ok(gantry_task_start_after(shot->done, *gpu));
}

/* The long kernel as a task, or on a stream of no partition. */
static bool start_long(struct bench_scene *s, bool leaks)
{
    return leaks ? launch_by_hand(s, s->plain[0], true, false) : ok(gantry_taskman_start(s->background));
}

static bool stop_long(struct bench_scene *s, bool leaks)
{
    return leaks ? RAW(&s->cuda, cuStreamSynchronize(s->plain[0])) : ok(gantry_taskman_stop(s->background));
}

static bool shoot(struct bench_scene *s, bool leaks, struct bench_shot *big, struct bench_shot *small,
                  struct bench_sample *out)
{
    gantry_task *gpu;
    if ((!leaks && !bench_scene_add(s, s->background, NULL, big, &gpu)) ||
        !bench_scene_add(s, s->urgent, s->critical, small, &gpu)) {
        return false;
    }
    bench_scene_arm(s);
    uint64_t begin = gy_clock_ns();
    if (!start_long(s, leaks)) {
        return false;
    }
    bool begun = bench_scene_await_begin(s);
    s->watched = NULL;
    uint64_t submitted = gy_clock_ns();
    bool started = begun && ok(gantry_taskman_start(s->urgent)), good = started;
    if (good && small->observe) {
        good = await_flag(s, SHORT_BEGUN);
        out->moments[BENCH_MOMENT_BEGUN] = gy_clock_ns() - submitted;
        good = good && await_flag(s, SHORT_ENDED);
        out->moments[BENCH_MOMENT_ENDED] = gy_clock_ns() - submitted;
    }
    good = (!started || ok(gantry_taskman_stop(s->urgent))) && good; /* also when something has failed */
    good = stop_long(s, leaks) && good;
    out->short_ns = small->finished_ns - submitted;
    out->long_ns = (leaks ? gy_clock_ns() : big->finished_ns) - begin;
    out->moments[BENCH_MOMENT_CALLED] = small->called_ns - submitted;
    out->moments[BENCH_MOMENT_LAUNCHED] = small->launched_ns - submitted;
    out->moments[BENCH_MOMENT_KNOWN] = out->short_ns;
    return good;
}

static bool sample_tasks(struct bench_scene *s, bool leaks, bool observe, struct bench_sample *out)
{
    struct bench_shot big = {.is_long = true}, small = {.observe = observe};
    bool good = shoot(s, leaks, &big, &small, out);
    /* Whether it was started or not, no task is left that has pointers to our stack. */
    good = ok(gantry_taskman_reset(s->urgent)) && good;
    return ok(gantry_taskman_reset(s->background)) && good;
}

bool bench_scene_sample(struct bench_scene *s, enum bench_way way, bool observe, struct bench_sample *out)
{
    memset(out, 0, sizeof(*out));
    switch (way) {
    case BENCH_WAY_PLAIN:
        return sample_by_hand(s, s->plain, observe, out);
    case BENCH_WAY_PRIORITY:
        return sample_by_hand(s, s->priority, observe, out);
    case BENCH_WAY_BY_HAND:
        return sample_by_hand(s, s->parted, observe, out);
    case BENCH_WAY_TASKS:
    case BENCH_WAY_LEAK:
        return sample_tasks(s, way == BENCH_WAY_LEAK, observe, out);
    case BENCH_WAYS:
        break;
    }
    return false;
}

/* ---- figures -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bool bench_scene_measure(struct bench_scene *s, bench_sample_fn sample, void *arg, uint32_t count,
                         struct bench_figures *out)
{
    enum { COLUMNS = BENCH_MOMENTS + 2 };
    double *all = calloc((size_t)count * COLUMNS, sizeof(double));
    bool good = all != NULL;
    for (uint32_t i = 0; good && i <= count; i++) { /* the first sample warms up and does not count */
        uint32_t at = i > 0 ? i - 1 : 0;
        struct bench_sample one;
        good = sample(s, arg, &one);
        all[at] = (double)one.short_ns;
        all[count + at] = (double)one.long_ns;
        for (uint32_t m = 0; m < BENCH_MOMENTS; m++) {
            all[(2 + m) * count + at] = (double)one.moments[m];
        }
    }
    if (good) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            qsort(all + c * count, count, sizeof(double), compare);
        }
        *out = (struct bench_figures){.least = all[0],
                                      .median = all[count / 2],
                                      .p99 = all[(count - 1) * 99 / 100],
                                      .long_median = all[count + count / 2]};
        for (uint32_t m = 0; m < BENCH_MOMENTS; m++) {
            out->moments[m] = all[(2 + m) * count + count / 2];
        }
    }
    free(all);
    return good;
}

struct way_argument {
    enum bench_way way;
    bool observe;
};

static bool sample_way(struct bench_scene *s, void *arg, struct bench_sample *out)
{
    const struct way_argument *a = arg;
    return bench_scene_sample(s, a->way, a->observe, out);
}

bool bench_scene_measure_way(struct bench_scene *s, enum bench_way way, bool observe, uint32_t count,
                             struct bench_figures *out)
{
    struct way_argument argument = {way, observe};
    return bench_scene_measure(s, sample_way, &argument, count, out);
}

bool bench_scene_verify(struct bench_scene *s)
{
    uint32_t done[2] = {0, 0};
    bool good = RAW(&s->cuda, cuMemcpyDtoH(done, (CUdeviceptr)(uintptr_t)s->counters, sizeof(done)));
    if (good && (done[0] != s->long_total || done[1] != s->short_total)) {
        cli_error("critical kernel: %u and %u blocks have run, not %u and %u", done[0], done[1],
                  s->long_total, s->short_total);
        good = false;
    }
    return good;
}

/* ---- set-up --------------------------------------------------------------------------------- */

/* The options that an application would use: a partition for urgent work, and threads that do not sleep. */
static bool open_context(struct bench_scene *s, const struct bench_scene_options *options)
{
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]), .name = "critical", .size = GANTRY_PARTITION_AT_LEAST},
        {.struct_size = sizeof(requests[0]), .name = "background", .size = GANTRY_PARTITION_REST},
        {.struct_size = sizeof(requests[0]), .name = "bulk", .size = GANTRY_PARTITION_AT_LEAST},
    };
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    requests[0].sm_count = options->critical_sms;
    requests[0].ignore_coscheduling = options->fine;
    requests[2].sm_count = options->bulk_sms;
    plan.requests = requests;
    plan.count = options->bulk_sms != 0 ? 3 : 2;
    context.driver = options->driver;
    context.partitions = &plan;
    context.completion_wait = cpus.wait_mode = options->wait;
    cpus.worker_count = 1;
    s->info.struct_size = sizeof(s->info);
    s->refused = gantry_context_create(&context, &s->context);
    if (!ok(s->refused) || !ok(gantry_context_device_info(s->context, &s->info)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &s->cpus)) ||
        !ok(gantry_partition_find(s->context, "critical", &s->critical))) {
        return false;
    }
    manager.cpu_dispatcher = s->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(s->context);
    return ok(gantry_taskman_create(&manager, &s->background)) &&
           ok(gantry_taskman_create(&manager, &s->urgent));
}

static bool open_by_hand(struct bench_scene *s)
{
    struct raw_cuda *cuda = &s->cuda;
    const gantry_module_image *image = &gantry_image_critical_kernels;
    void *parted[2];
    int least = 0, greatest = 0;
    if (!ok(gantry_context_acquire(s->context)) || !raw_cuda_open(s->context, cuda)) {
        return false;
    }
    const void *code = s->info.emulated        ? image->host
                       : image->fatbin != NULL ? image->fatbin
                                               : (const void *)image->ptx;
    bool good = RAW(cuda, cuModuleLoadDataEx(&s->module, code, 0, NULL, NULL)) &&
                RAW(cuda, cuModuleGetFunction(&s->function, s->module, "occupy")) &&
                RAW(cuda, cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING)) &&
                RAW(cuda, cuCtxGetStreamPriorityRange(&least, &greatest)) &&
                ok(gantry_partition_create_stream(gantry_partition_default(s->context), &parted[0])) &&
                ok(gantry_partition_create_stream(s->critical, &parted[1]));
    for (int i = 0; i < 2 && good; i++) {
        s->parted[i] = parted[i];
        good = RAW(cuda, cuStreamCreate(&s->plain[i], CU_STREAM_NON_BLOCKING)) &&
               RAW(cuda, cuStreamCreateWithPriority(&s->priority[i], CU_STREAM_NON_BLOCKING,
                                                    i == 0 ? least : greatest));
    }
    return good;
}

static bool open_memory(struct bench_scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->context);
    void *flags, *counters;
    if (!ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, FLAGS * FLAG_BYTES, 0, GANTRY_ALLOC_SITE("flags"),
                              &flags))) {
        return false;
    }
    s->flags = flags;
    if (!ok(gantry_heap_device_address(heap, flags, &s->device_flags)) ||
        !ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * sizeof(uint32_t), 0,
                              GANTRY_ALLOC_SITE("counters"), &counters))) {
        return false;
    }
    s->counters = counters;
    bench_scene_arm(s);
    const uint32_t none[2] = {0, 0};
    return raw_cuda_upload(&s->cuda, counters, none, sizeof(none));
}

bool bench_scene_open(struct bench_scene *s, const struct bench_scene_options *options)
{
    gantry_module *module;
    memset(s, 0, sizeof(*s));
    if (!open_context(s, options) || !open_by_hand(s) || !open_memory(s) ||
        !ok(gantry_module_load(s->context, &gantry_image_critical_kernels, &module)) ||
        !ok(gantry_module_get_kernel(module, "occupy", &s->kernel))) {
        return false;
    }
    /* The emulated device only shows that it works. */
    bool emulated = s->info.emulated;
    s->threads = emulated ? 32 : THREADS;
    s->short_blocks = SHORT_BLOCKS;
    s->short_ns = emulated ? 1000 : SHORT_NS;
    s->long_blocks = emulated ? 64 : s->info.total_sms * BLOCKS_PER_SM * options->waves;
    s->long_ns = emulated ? 10000 : options->wave_us * UINT64_C(1000);
    return true;
}

void bench_scene_close(struct bench_scene *s)
{
    const CUstream streams[] = {s->plain[0],    s->plain[1],  s->priority[0],
                                s->priority[1], s->parted[0], s->parted[1]};
    gantry_taskman_destroy(s->urgent);
    gantry_taskman_destroy(s->background);
    gantry_cpu_dispatcher_destroy(s->cpus);
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (streams[i] != NULL) {
            (void)RAW(&s->cuda, cuStreamDestroy(streams[i]));
        }
    }
    if (s->event != NULL) {
        (void)RAW(&s->cuda, cuEventDestroy(s->event));
    }
    if (s->module != NULL) {
        (void)RAW(&s->cuda, cuModuleUnload(s->module));
    }
    if (s->flags != NULL) {
        (void)gantry_heap_free(gantry_context_heap(s->context), s->flags);
    }
    if (s->counters != NULL) {
        (void)gantry_heap_free(gantry_context_heap(s->context), s->counters);
    }
    if (s->cuda.cuInit != NULL) {
        (void)gantry_context_release(s->context);
    }
    gantry_context_destroy(s->context);
}
