/* SPDX-License-Identifier: MIT */
#include "bench/quota_work.h"

#include "bench/quota_tokens.h"
#include "bench/raw_cuda.h"
#include "cli/messages.h"
#include "quota_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GAP_NS 10000u
#define BIN_NS 10000000u
#define BURST_NS 4e6 /* the library's default, and how many groups it keeps in flight */
#define IN_FLIGHT 4

/* What launches by hand. */
struct hand {
    struct raw_cuda cuda;
    CUmodule module;
    CUfunction kernel;
    CUstream stream; /* NULL: it is not open */
    struct quota_tokens tokens;
};

struct tenant {
    gantry_context *context;
    gantry_taskman *manager; /* NULL: launches are by hand */
    gantry_kernel *kernel;
    struct hand hand;
    uint64_t *records; /* page-locked; begin and end of each kernel */
    void *on_device;   /* their address there */
    uint64_t room, launched;
    uint64_t kernel_ns;
    uint32_t blocks, batch;
};

static bool ok(gantry_status status)
{
    return bench_ok("quota", status);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct tenant *t = arg;
    if (t->launched == t->room) {
        return GANTRY_LAUNCH_DONE;
    }
    void *record = (char *)t->on_device + 16 * t->launched++;
    void *args[] = {&record, &t->kernel_ns};
    return gantry_launch_kernel(launch, t->kernel, (gantry_dim3){t->blocks, 1, 1}, (gantry_dim3){256, 1, 1},
                                0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Kernels run one after another: a device that one kernel fills could do no better. */
static bool run_step(struct tenant *t)
{
    gantry_task *before = NULL, *task;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = t;
    for (uint32_t i = 0; i < t->batch; i++) {
        if (!ok(gantry_taskman_submit(t->manager, &desc, &task)) ||
            (before != NULL && !ok(gantry_task_start_after(task, before)))) {
            return false;
        }
        before = task;
    }
    return ok(gantry_taskman_start(t->manager)) && ok(gantry_taskman_stop(t->manager)) &&
           ok(gantry_taskman_reset(t->manager));
}

static gantry_launch_result nothing(gantry_launch *launch, void *arg)
{
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status done(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* Wait until the device has done everything, which a task behind all others reports. */
static bool drain(struct tenant *t)
{
    gantry_task *end, *last;
    gantry_task_desc cpu = GANTRY_TASK_DESC_INIT, gpu = GANTRY_TASK_DESC_INIT;
    cpu.run = done;
    gpu.kind = GANTRY_TASK_DTOH;
    gpu.launch = nothing;
    if (!ok(gantry_taskman_submit(t->manager, &cpu, &end))) {
        return false;
    }
    gpu.arg = end;
    return ok(gantry_taskman_submit(t->manager, &gpu, &last)) && ok(gantry_task_start_after(end, last)) &&
           ok(gantry_taskman_start(t->manager)) && ok(gantry_taskman_stop(t->manager)) &&
           ok(gantry_taskman_reset(t->manager));
}

/* ---- by hand --------------------------------------------------------------------------------- */

static bool run_step_by_hand(struct tenant *t)
{
    struct hand *h = &t->hand;
    bool good = true;
    for (uint32_t i = 0; i < t->batch && t->launched < t->room && good; i++) {
        void *record = (char *)t->on_device + 16 * t->launched++;
        void *args[] = {&record, &t->kernel_ns};
        bench_quota_tokens_take(&h->tokens, t->blocks);
        good = RAW(&h->cuda, cuLaunchKernel(h->kernel, t->blocks, 1, 1, 256, 1, 1, 0, h->stream, args, NULL));
    }
    return good && RAW(&h->cuda, cuStreamSynchronize(h->stream));
}

static bool open_hand(struct tenant *t, const gantry_device_info *info, uint32_t percent)
{
    struct hand *h = &t->hand;
    return raw_cuda_open(t->context, &h->cuda) &&
           RAW(&h->cuda, cuCtxSetCurrent(gantry_context_native(t->context))) &&
           raw_cuda_load(&h->cuda, &gantry_image_quota_kernels, "quota_busy", &h->module, &h->kernel) &&
           RAW(&h->cuda, cuStreamCreate(&h->stream, CU_STREAM_NON_BLOCKING)) &&
           bench_quota_tokens_open(&h->tokens, info, (int)percent);
}

static void close_hand(struct hand *h)
{
    bench_quota_tokens_close(&h->tokens);
    if (h->stream != NULL) {
        (void)RAW(&h->cuda, cuStreamDestroy(h->stream));
        (void)RAW(&h->cuda, cuModuleUnload(h->module));
        (void)RAW(&h->cuda, cuCtxSetCurrent(NULL));
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool open_tasks(struct tenant *t)
{
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    manager.gpu_dispatcher = gantry_context_dispatcher(t->context);
    return ok(gantry_module_load(t->context, &gantry_image_quota_kernels, &module)) &&
           ok(gantry_module_get_kernel(module, "quota_busy", &t->kernel)) &&
           ok(gantry_taskman_create(&manager, &t->manager));
}

static bool open_tenant(struct tenant *t, const struct quota_setting *setting)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_device_info info = {.struct_size = sizeof(info)};
    char percent[16];
    void *records;
    snprintf(percent, sizeof(percent), "%u", setting->by_hand ? 0 : setting->percent);
    setenv("CUDA_DEVICE_SM_LIMIT", percent, 1);
    options.driver = setting->driver;
    options.single_stream = 1;
    bool good = ok(gantry_context_create(&options, &t->context));
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    if (!good || !ok(gantry_context_device_info(t->context, &info))) {
        return false;
    }
    t->kernel_ns = UINT64_C(1000) * setting->kernel_us;
    t->room = (uint64_t)(setting->seconds * 1.5e6 / setting->kernel_us) + 16;
    t->blocks = info.emulated ? 1 : info.total_sms * 2;
    t->batch = setting->kernel_us < 20000 ? 20000 / setting->kernel_us : 1;
    gantry_heap *heap = gantry_context_heap(t->context);
    if (!ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 16 * t->room, 0, GANTRY_ALLOC_SITE("records"),
                              &records))) {
        return false;
    }
    t->records = memset(records, 0, 16 * t->room);
    return ok(gantry_heap_device_address(heap, records, &t->on_device)) &&
           (setting->by_hand ? open_hand(t, &info, setting->percent) : open_tasks(t));
}

static void close_tenant(struct tenant *t)
{
    gantry_taskman_destroy(t->manager);
    close_hand(&t->hand);
    if (t->records != NULL) {
        (void)gantry_heap_free(gantry_context_heap(t->context), t->records);
    }
    gantry_context_destroy(t->context);
}

/* ---- what was used -------------------------------------------------------------------------- */

/* Add the time from `begin` to `end`, both counted from the first begin, to the bins. */
static void add_busy(double *bins, uint64_t count, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end;) {
        uint64_t bin = at / BIN_NS, until = (bin + 1) * BIN_NS < end ? (bin + 1) * BIN_NS : end;
        if (bin < count) {
            bins[bin] += (double)(until - at);
        }
        at = until;
    }
}

static void find_extremes(const double *bins, uint64_t count, uint64_t from, uint64_t size, double *low,
                          double *high)
{
    double sum = 0;
    *low = 1e9;
    *high = 0;
    for (uint64_t i = from; i < count; i++) {
        sum += bins[i] - (i >= from + size ? bins[i - size] : 0);
        if (i + 1 >= from + size) {
            double percent = 100 * sum / ((double)size * BIN_NS);
            *low = percent < *low ? percent : *low;
            *high = percent > *high ? percent : *high;
        }
    }
    *low = *low > 1e8 ? 0 : *low;
}

/* The kernels are in order, and the window begins with the first one. */
static bool evaluate(const struct tenant *t, double seconds, struct quota_figures *out)
{
    uint64_t window = (uint64_t)(seconds * 1e9), first = t->records[0], count = window / BIN_NS;
    double *bins = calloc(count + 1, sizeof(*bins)), only = 0, all = 0;
    uint64_t last_end = 0;
    bool good = bins != NULL;
    for (uint64_t i = 0; i < t->launched && good; i++) {
        good = t->records[2 * i + 1] != 0;
        uint64_t begin = t->records[2 * i] - first, end = t->records[2 * i + 1] - first;
        end = end < window ? end : window;
        if (!good || begin >= window) {
            continue;
        }
        only += (double)(end - begin);
        begin = i > 0 && begin > last_end && begin - last_end < GAP_NS ? last_end : begin;
        add_busy(bins, count + 1, begin, end);
        last_end = end;
    }
    for (uint64_t i = 0; i < count && good; i++) {
        all += bins[i];
    }
    if (good) {
        out->mean = 100 * all / (double)window;
        out->kernels_only = 100 * only / (double)window;
        find_extremes(bins, count, 0, 100, &out->low_1s, &out->high_1s);
        find_extremes(bins, count, 0, 10, &out->low_100ms, &out->high_100ms);
    }
    free(bins);
    return good;
}

static bool read_usage(const struct tenant *t, struct quota_figures *out)
{
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    if (!ok(gantry_partition_get_usage(gantry_partition_default(t->context), &usage))) {
        return false;
    }
    out->charged = 100 * usage.measured;
    out->throttled = (double)usage.throttled_ns / (double)usage.since_ns;
    out->bound_1s = 100 * (BURST_NS + (IN_FLIGHT + 1) * (double)usage.longest_ns) / 1e9;
    return true;
}

bool bench_quota_run(const struct quota_setting *setting, struct quota_figures *out)
{
    struct tenant tenant = {0};
    memset(out, 0, sizeof(*out));
    bool good = open_tenant(&tenant, setting);
    double until = now_s() + setting->seconds;
    do { /* at least one kernel is launched, however late it is */
        good = good && (setting->by_hand ? run_step_by_hand(&tenant) : run_step(&tenant));
    } while (good && now_s() < until);
    good = good && (setting->by_hand || (read_usage(&tenant, out) && drain(&tenant))) &&
           tenant.launched > 0 && evaluate(&tenant, setting->seconds, out);
    if (!good) {
        cli_error("bench: quota: %u %% by %s, kernels of %u us: not all kernels have run", setting->percent,
                  setting->by_hand ? "nvml" : "bucket", setting->kernel_us);
    }
    out->kernels = tenant.launched;
    close_tenant(&tenant);
    return good;
}
