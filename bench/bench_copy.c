/* SPDX-License-Identifier: MIT */
/* `gantry bench copy`: batches of copies in one call, against the other ways to perform them.
 *
 * Values are medians in microseconds, on the host's clock, from the call until the host sees that the stream
 * is done.  Lines ".../device" have the time between two events around the batch.  There a way that makes
 * few driver calls is measured with the stream held until all calls are made, so that only the GPU's part is
 * timed.  A way that makes one call per copy cannot be held (the driver's queue would fill), and its time
 * is mostly the host's.  What these calls cost the host is on lines ".../host".  After its last run each
 * way's result is compared byte for byte, the gaps between the copies too.
 *
 * Except in "contiguous", the copies of a batch lie apart and their sources are shuffled, so that no two of
 * them can be merged.  Lines ".../step-captured" have the time of a task manager's step, on the host's
 * clock, when the dispatcher submits graphs, against a step when it submits to streams.
 * $GANTRY_BENCH_COPY_ONLY chooses rows and $GANTRY_BENCH_COPY_AGAINST yardsticks (parts of names, separated
 * by commas); $GANTRY_BENCH_COPY_BLOCKS and $GANTRY_BENCH_COPY_THREADS set the blocks for host memory. */
#include "bench/copy_sides.h"
#include "bench/harness.h"

#include "base/clock.h"

#include "copy_burn_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONLY "GANTRY_BENCH_COPY_ONLY"
#define AGAINST "GANTRY_BENCH_COPY_AGAINST"
#define MOST_RUNS 100u
#define CAPTURED 2                        /* how many of the recipes are used, from the first on */
#define LARGE "d2d-1x4.5GiB+3-misaligned" /* where there is enough memory */
#define LARGE_BYTES ((uint64_t)9 << 29)
#define SLOW_RUNS 3u /* for ways that make one call per copy */

struct copy_bench {
    const struct bench_options *options;
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    bool emulated;
    bool has_large; /* the arenas hold the large copy */
    struct raw_cuda cuda;
    struct copy_arenas arenas;
    struct copy_sides sides;
    uint32_t *gate; /* pinned; 0 holds the stream */
    CUdeviceptr gate_address;
    CUevent begin, end;
    bool good; /* all results so far were right */
};

/* The medians of some runs. */
struct timing {
    double done_us, gpu_us, host_us;
    bool verified;
};

static const struct copy_recipe recipes[] = {
    {.name = "d2d-16x256B", .type = GANTRY_COPY_DTOD, .count = 16, .bytes = 256},
    {.name = "d2d-1kx4KiB", .type = GANTRY_COPY_DTOD, .count = 1000, .bytes = 4096},
    {.name = "d2d-8k-zipf-512MiB",
     .type = GANTRY_COPY_DTOD,
     .count = 8192,
     .bytes = 512u << 20,
     .zipf = true},
    {.name = "d2d-4kx64KiB+7-misaligned",
     .type = GANTRY_COPY_DTOD,
     .count = 4096,
     .bytes = 65536 + 7,
     .misaligned = true},
    {.name = "d2d-16kx1KiB+3-misaligned",
     .type = GANTRY_COPY_DTOD,
     .count = 16384,
     .bytes = 1024 + 3,
     .misaligned = true},
    {.name = "d2d-100kx256B", .type = GANTRY_COPY_DTOD, .count = 100000, .bytes = 256},
    {.name = "d2d-100kx1-256B", .type = GANTRY_COPY_DTOD, .count = 100000, .bytes = 256, .random = true},
    {.name = "d2d-1Mx64B", .type = GANTRY_COPY_DTOD, .count = 1000000, .bytes = 64},
    {.name = "list-100kx1-256B",
     .type = GANTRY_COPY_DTOD,
     .count = 100000,
     .bytes = 256,
     .random = true,
     .misaligned = true,
     .way = COPY_DEVICE_LISTS},
    {.name = "list-1Mx64B",
     .type = GANTRY_COPY_DTOD,
     .count = 1000000,
     .bytes = 64,
     .way = COPY_DEVICE_LISTS},
    {.name = "list-200kx8B", .type = GANTRY_COPY_DTOD, .count = 200000, .bytes = 8, .way = COPY_DEVICE_LISTS},
    {.name = "list-8k-zipf-512MiB",
     .type = GANTRY_COPY_DTOD,
     .count = 8192,
     .bytes = 512u << 20,
     .zipf = true,
     .way = COPY_DEVICE_LISTS},
    {.name = "pinned-list-100kx1-256B",
     .type = GANTRY_COPY_DTOD,
     .count = 100000,
     .bytes = 256,
     .random = true,
     .misaligned = true,
     .way = COPY_PINNED_LISTS},
    {.name = "pinned-list-1Mx64B",
     .type = GANTRY_COPY_DTOD,
     .count = 1000000,
     .bytes = 64,
     .way = COPY_PINNED_LISTS},
    {.name = "rows-4096x1000B-pitch-4096",
     .type = GANTRY_COPY_DTOD,
     .count = 4096,
     .bytes = 1000,
     .way = COPY_BOX,
     .pitch = 4096},
    {.name = "d2d-1x1GiB+3-misaligned",
     .type = GANTRY_COPY_DTOD,
     .count = 1,
     .bytes = 1u << 30,
     .shifted = true},
    {.name = LARGE, .type = GANTRY_COPY_DTOD, .count = 1, .bytes = LARGE_BYTES, .shifted = true},
    {.name = "d2d-1x1GiB", .type = GANTRY_COPY_DTOD, .count = 1, .bytes = 1u << 30},
    {.name = "d2d-1x1GiB-kernel", .type = GANTRY_COPY_DTOD, .count = 1, .bytes = 1u << 30, .kernel = true},
    {.name = "h2d-1kx64KiB", .type = GANTRY_COPY_HTOD, .count = 1000, .bytes = 65536},
    {.name = "h2d-1kx64KiB-contiguous",
     .type = GANTRY_COPY_HTOD,
     .count = 1000,
     .bytes = 65536,
     .contiguous = true},
    {.name = "h2d-16kx4KiB", .type = GANTRY_COPY_HTOD, .count = 16384, .bytes = 4096},
    {.name = "d2h-1kx64KiB", .type = GANTRY_COPY_DTOH, .count = 1000, .bytes = 65536},
    {.name = "d2h-1kx64KiB-contiguous",
     .type = GANTRY_COPY_DTOH,
     .count = 1000,
     .bytes = 65536,
     .contiguous = true},
    {.name = "fill-10kx1KiB", .type = GANTRY_COPY_FILL, .count = 10000, .bytes = 1024},
};

/* Batches that the emulated driver can do in reasonable time. */
static const struct copy_recipe small_recipes[] = {
    {.name = "d2d-16x256B", .type = GANTRY_COPY_DTOD, .count = 16, .bytes = 256},
    {.name = "d2d-100x4KiB", .type = GANTRY_COPY_DTOD, .count = 100, .bytes = 4096},
    {.name = "d2d-200-zipf-512KiB",
     .type = GANTRY_COPY_DTOD,
     .count = 200,
     .bytes = 512u << 10,
     .zipf = true},
    {.name = "d2d-16x16KiB+7-misaligned",
     .type = GANTRY_COPY_DTOD,
     .count = 16,
     .bytes = 16384 + 7,
     .misaligned = true},
    {.name = "d2d-1kx256B", .type = GANTRY_COPY_DTOD, .count = 1000, .bytes = 256},
    {.name = "list-1kx1-256B",
     .type = GANTRY_COPY_DTOD,
     .count = 1000,
     .bytes = 256,
     .random = true,
     .misaligned = true,
     .way = COPY_DEVICE_LISTS},
    {.name = "pinned-list-1kx64B",
     .type = GANTRY_COPY_DTOD,
     .count = 1000,
     .bytes = 64,
     .way = COPY_PINNED_LISTS},
    {.name = "rows-64x1000B-pitch-4096",
     .type = GANTRY_COPY_DTOD,
     .count = 64,
     .bytes = 1000,
     .way = COPY_BOX,
     .pitch = 4096},
    {.name = "h2d-16x16KiB", .type = GANTRY_COPY_HTOD, .count = 16, .bytes = 16384},
    {.name = "h2d-16x16KiB-contiguous",
     .type = GANTRY_COPY_HTOD,
     .count = 16,
     .bytes = 16384,
     .contiguous = true},
    {.name = "d2h-100x1KiB", .type = GANTRY_COPY_DTOH, .count = 100, .bytes = 1024},
    {.name = "fill-100x1KiB", .type = GANTRY_COPY_FILL, .count = 100, .bytes = 1024},
};

static bool ok(gantry_status status)
{
    return bench_ok("copy", status);
}

/* ---- measuring ----------------------------------------------------------------------------- */

/* Time one run from the call until the host sees that the stream is done. */
static bool run_until_done(struct copy_bench *b, const struct copy_side *side, const struct copy_work *work,
                           double *us)
{
    uint64_t start = gy_clock_ns();
    bool good = side->run(&b->sides, work) && RAW(&b->cuda, cuStreamSynchronize(b->sides.stream));
    *us = (double)(gy_clock_ns() - start) / 1e3;
    return good;
}

/* Time one run: GPU time and host time in us. */
static bool run_once(struct copy_bench *b, const struct copy_side *side, const struct copy_work *work,
                     double *gpu, double *host)
{
    struct raw_cuda *cuda = &b->cuda;
    CUstream stream = b->sides.stream;
    float ms = 0;
    if (side->gated) {
        __atomic_store_n(b->gate, 0, __ATOMIC_RELEASE);
        if (!RAW(cuda, cuStreamWaitValue32(stream, b->gate_address, 1, CU_STREAM_WAIT_VALUE_EQ))) {
            return false;
        }
    }
    bool good = RAW(cuda, cuEventRecord(b->begin, stream));
    uint64_t start = gy_clock_ns();
    good = good && side->run(&b->sides, work);
    *host = (double)(gy_clock_ns() - start) / 1e3;
    good = good && RAW(cuda, cuEventRecord(b->end, stream));
    __atomic_store_n(b->gate, 1, __ATOMIC_RELEASE);
    good = RAW(cuda, cuStreamSynchronize(stream)) && good;
    good = good && RAW(cuda, cuEventElapsedTime(&ms, b->begin, b->end));
    *gpu = (double)ms * 1e3;
    return good;
}

static double median(double *values, uint32_t count)
{
    bench_sort(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static struct timing measure(struct copy_bench *b, const struct copy_side *side, const struct copy_work *work)
{
    double done[MOST_RUNS], gpu[MOST_RUNS], host[MOST_RUNS], ignored;
    uint32_t most = side->gated || work->count < 64 ? MOST_RUNS : SLOW_RUNS;
    uint32_t runs = b->options->runs < most ? b->options->runs : most;
    struct timing timing = {0, 0, 0, false};
    if (!bench_copy_work_clear(&b->arenas, work, b->sides.stream) ||
        !run_once(b, side, work, &ignored, &ignored)) {
        return timing;
    }
    for (uint32_t i = 0; i < runs; i++) {
        if (!run_until_done(b, side, work, &done[i]) || !run_once(b, side, work, &gpu[i], &host[i])) {
            return timing;
        }
    }
    timing.done_us = median(done, runs);
    timing.gpu_us = median(gpu, runs);
    timing.host_us = median(host, runs);
    timing.verified = bench_copy_work_check(&b->arenas, work, side->as_one);
    return timing;
}

/* ---- reporting ----------------------------------------------------------------------------- */

static void print_line(struct copy_bench *b, const char *name, const char *suffix, double ours,
                       const char *unit, const char *yardstick, double theirs, bool verified)
{
    FILE *out = b->options->out;
    /* like all benches: nanoseconds per item */
    const bool is_time = strcmp(unit, "us") == 0;
    const double scale = is_time ? 1e3 : 1;
    const char *json_unit = is_time ? "ns/batch" : unit;
    char row[96];
    snprintf(row, sizeof(row), "%s%s, %s", name, suffix, yardstick);
    if (b->options->json) {
        fprintf(out,
                "{\"name\":\"copy/%s%s\",\"value\":%.6g,\"unit\":\"%s\",\"yardstick\":\"%s\","
                "\"yardstick_value\":%.6g,\"ratio\":%.4g,",
                name, suffix, ours * scale, json_unit, yardstick, theirs * scale, ours / theirs);
        bench_json_end(b->options, verified);
    } else if (bench_has_times(b->options, row, verified)) {
        fprintf(out, "%-28s%-7s %10.2f %-8s %-19s %10.2f   ratio %7.4f%s\n", name, suffix, ours, unit,
                yardstick, theirs, ours / theirs, verified ? "" : "   NOT VERIFIED");
    }
    fflush(out);
    b->good = b->good && verified;
}

/* Is any of the comma-separated parts in $variable a part of the name?  True when it is not set. */
static bool is_wanted(const char *variable, const char *name)
{
    const char *list = getenv(variable);
    char part[64];
    if (list == NULL) {
        return true;
    }
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        snprintf(part, sizeof(part), "%.*s", (int)(length < 63 ? length : 63), list);
        if (strstr(name, part) != NULL) {
            return true;
        }
        list += length + (list[length] == ',' ? 1 : 0);
    }
    return false;
}

static void run_work(struct copy_bench *b, const struct copy_work *work)
{
    struct timing ours = measure(b, &copy_side_ours, work);
    for (const struct copy_side *side = copy_side_list; side->name != NULL; side++) {
        if (!side->can(&b->sides, work) || !is_wanted(AGAINST, side->name)) {
            continue;
        }
        struct timing theirs = measure(b, side, work);
        bool verified = ours.verified && theirs.verified;
        print_line(b, work->name, "", ours.done_us, "us", side->name, theirs.done_us, verified);
        print_line(b, work->name, "/device", ours.gpu_us, "us", side->name, theirs.gpu_us, verified);
        if (!side->gated) {
            print_line(b, work->name, "/host", ours.host_us * 1e3 / work->count, "ns/copy", side->name,
                       theirs.host_us * 1e3 / work->count, verified);
        }
    }
}

/* Measure our side with the kernel alone. */
static bool run_kernel(struct copy_bench *b, const struct copy_work *work)
{
    gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)}, kernel;
    if (!ok(gantry_copy_get_tuning(b->context, &tuning))) {
        return false;
    }
    kernel = tuning;
    memset(kernel.engine_up_to, 0, sizeof(kernel.engine_up_to));
    if (!ok(gantry_copy_set_tuning(b->context, &kernel))) {
        return false;
    }
    run_work(b, work);
    return ok(gantry_copy_set_tuning(b->context, &tuning));
}

static void run_recipe(struct copy_bench *b, const struct copy_recipe *recipe)
{
    struct copy_work work;
    if (!is_wanted(ONLY, recipe->name) || (recipe->bytes == LARGE_BYTES && !b->has_large)) {
        return;
    }
    bool good = bench_copy_work_make(recipe, &b->arenas, &work) && bench_copy_sides_prepare(&b->sides, &work);
    if (good && recipe->kernel) {
        good = run_kernel(b, &work);
    } else if (good) {
        run_work(b, &work);
    }
    b->good = b->good && good;
    bench_copy_work_free(&work);
}

/* ---- captured ------------------------------------------------------------------------------ */

static gantry_launch_result launch_batch(gantry_launch *launch, void *arg)
{
    const struct copy_work *work = arg;
    return ok(gantry_copy_launch(launch, work->descs, work->count)) ? GANTRY_LAUNCH_DONE
                                                                    : GANTRY_LAUNCH_FAILED;
}

/* The median time of a step with one task that copies the batch, from its start until the GPU is done. */
static bool time_steps(struct copy_bench *b, struct copy_work *work, gantry_submission submission, double *us)
{
    double times[MOST_RUNS];
    uint32_t runs = b->options->runs < MOST_RUNS ? b->options->runs : MOST_RUNS;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "copies";
    desc.launch = launch_batch;
    desc.arg = work;
    if (!ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(b->context), submission)) ||
        !bench_copy_work_clear(&b->arenas, work, NULL) || !RAW(&b->cuda, cuCtxSynchronize())) {
        return false;
    }
    for (uint32_t i = 0; i <= runs; i++) {
        if (!ok(gantry_taskman_reset(b->manager)) || !ok(gantry_taskman_submit(b->manager, &desc, NULL))) {
            return false;
        }
        uint64_t begin = gy_clock_ns();
        if (!ok(gantry_taskman_start(b->manager)) || !ok(gantry_taskman_stop(b->manager)) ||
            !RAW(&b->cuda, cuCtxSynchronize())) {
            return false;
        }
        times[i > 0 ? i - 1 : 0] = (double)(gy_clock_ns() - begin) / 1e3; /* the first one warms up */
    }
    *us = median(times, runs);
    return bench_copy_work_check(&b->arenas, work, false);
}

/* Measure the batch as a node of a graph which is captured, updated and launched each time, against a launch
 * on a stream. */
static void run_captured(struct copy_bench *b, const struct copy_recipe *recipe)
{
    struct copy_work work;
    double captured = 0, launched = 0;
    char name[64];
    snprintf(name, sizeof(name), "%s/step-captured", recipe->name);
    if (!is_wanted(ONLY, name)) {
        return;
    }
    bool good = bench_copy_work_make(recipe, &b->arenas, &work) &&
                time_steps(b, &work, GANTRY_SUBMISSION_STREAMS, &launched) &&
                time_steps(b, &work, GANTRY_SUBMISSION_GRAPHS, &captured);
    if (good) {
        print_line(b, work.name, "/step-captured", captured, "us", "step on a stream", launched, true);
    }
    b->good = b->good && good;
    bench_copy_work_free(&work);
}

/* ---- beside other work --------------------------------------------------------------------- */

struct burner {
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr result;
    uint32_t rounds, blocks;
};

static bool open_burner(struct copy_bench *b, struct burner *burner)
{
    struct raw_cuda *cuda = &b->cuda;
    const gantry_module_image *image = &gantry_image_copy_burn_kernels;
    const void *code = b->emulated             ? image->host
                       : image->fatbin != NULL ? image->fatbin
                                               : (const void *)image->ptx;
    return RAW(cuda, cuModuleLoadDataEx(&burner->module, code, 0, NULL, NULL)) &&
           RAW(cuda, cuModuleGetFunction(&burner->function, burner->module, "copy_burn")) &&
           RAW(cuda, cuStreamCreate(&burner->stream, CU_STREAM_NON_BLOCKING)) &&
           RAW(cuda, cuEventCreate(&burner->begin, 0)) && RAW(cuda, cuEventCreate(&burner->end, 0)) &&
           RAW(cuda, cuMemAlloc(&burner->result, 256));
}

static void close_burner(struct copy_bench *b, struct burner *burner)
{
    struct raw_cuda *cuda = &b->cuda;
    if (burner->result != 0) {
        (void)RAW(cuda, cuMemFree(burner->result));
    }
    if (burner->end != NULL) {
        (void)RAW(cuda, cuEventDestroy(burner->end));
    }
    if (burner->begin != NULL) {
        (void)RAW(cuda, cuEventDestroy(burner->begin));
    }
    if (burner->stream != NULL) {
        (void)RAW(cuda, cuStreamDestroy(burner->stream));
    }
    if (burner->module != NULL) {
        (void)RAW(cuda, cuModuleUnload(burner->module));
    }
}

static bool burn(struct copy_bench *b, struct burner *burner, float *ms)
{
    struct raw_cuda *cuda = &b->cuda;
    void *args[] = {&burner->result, &burner->rounds};
    return RAW(cuda, cuEventRecord(burner->begin, burner->stream)) &&
           RAW(cuda, cuLaunchKernel(burner->function, burner->blocks, 1, 1, 256, 1, 1, 0, burner->stream,
                                    args, NULL)) &&
           RAW(cuda, cuEventRecord(burner->end, burner->stream)) &&
           RAW(cuda, cuEventSynchronize(burner->end)) &&
           RAW(cuda, cuEventElapsedTime(ms, burner->begin, burner->end));
}

/* Time the burner alone, and while batches from host memory keep the link busy from before it begins until
 * after it ends. */
static bool run_beside(struct copy_bench *b, struct burner *burner, const struct copy_work *work,
                       uint32_t batches)
{
    double alone[MOST_RUNS], beside[MOST_RUNS];
    uint32_t runs = b->options->runs < 15 ? b->options->runs : 15;
    bool verified = bench_copy_work_clear(&b->arenas, work, b->sides.stream);
    for (uint32_t i = 0; verified && i <= runs; i++) {
        uint32_t at = i > 0 ? i - 1 : 0; /* the first one warms up */
        float ms = 0;
        verified = burn(b, burner, &ms);
        alone[at] = (double)ms * 1e3;
        for (uint32_t k = 0; verified && k < batches; k++) {
            verified = copy_side_ours.run(&b->sides, work);
        }
        verified = verified && burn(b, burner, &ms);
        beside[at] = (double)ms * 1e3;
        verified = verified &&
                   (b->emulated || b->cuda.cuStreamQuery(b->sides.stream) == CUDA_ERROR_NOT_READY) &&
                   RAW(&b->cuda, cuStreamSynchronize(b->sides.stream));
    }
    verified = verified && bench_copy_work_check(&b->arenas, work, false);
    if (verified) {
        print_line(b, "kernel-beside-", work->name, median(beside, runs), "us", "kernel alone",
                   median(alone, runs), true);
    }
    return verified;
}

static void run_interference(struct copy_bench *b)
{
    static const struct copy_recipe large = {
        .name = "h2d", .type = GANTRY_COPY_HTOD, .count = 16384, .bytes = 4096};
    static const struct copy_recipe small = {
        .name = "h2d", .type = GANTRY_COPY_HTOD, .count = 64, .bytes = 1024};
    struct burner burner = {0};
    struct copy_work work;
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (!is_wanted(ONLY, "kernel-beside-h2d")) {
        return;
    }
    bool good = ok(gantry_context_device_info(b->context, &info)) && open_burner(b, &burner);
    burner.blocks = b->emulated ? 8 : info.total_sms * 8 * 40;
    burner.rounds = b->emulated ? 10 : 4000;
    good = good && bench_copy_work_make(b->emulated ? &small : &large, &b->arenas, &work);
    if (good) {
        good = run_beside(b, &burner, &work, b->emulated ? 1 : 8);
        bench_copy_work_free(&work);
    }
    close_burner(b, &burner);
    b->good = b->good && good;
}

/* ---- set-up -------------------------------------------------------------------------------- */

static uint32_t number_of(const char *variable, uint32_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : fallback;
}

static bool tune(struct copy_bench *b, gantry_launch *launch)
{
    gantry_copy_tuning tuning = {.struct_size = sizeof(tuning)};
    /* The emulated driver's speed says nothing; its preset tuning uses both the kernel and the copy engines.
     */
    if ((!b->emulated && !ok(gantry_copy_calibrate(launch, 256u << 20))) ||
        !ok(gantry_copy_get_tuning(b->context, &tuning))) {
        return false;
    }
    tuning.host_blocks = number_of("GANTRY_BENCH_COPY_BLOCKS", tuning.host_blocks);
    tuning.host_threads = number_of("GANTRY_BENCH_COPY_THREADS", tuning.host_threads);
    if (!ok(gantry_copy_set_tuning(b->context, &tuning))) {
        return false;
    }
    if (!b->options->json && !b->options->emulated) {
        char text[2048];
        (void)gantry_copy_tuning_text(&tuning, text, sizeof(text));
        fprintf(b->options->out, "%s", text);
    }
    return true;
}

/* Two blocks of it on the device and two on the host, and as much again for everything else. */
static bool has_room_for_large(uint64_t device_bytes)
{
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return device_bytes / 4 >= LARGE_BYTES && pages > 0 &&
           (uint64_t)pages * (uint64_t)page / 4 >= LARGE_BYTES && is_wanted(ONLY, LARGE);
}

static bool open_memory(struct copy_bench *b)
{
    struct raw_cuda *cuda = &b->cuda;
    uint64_t bytes = b->emulated    ? 2u << 20
                     : b->has_large ? LARGE_BYTES + (1u << 20)
                                    : (1u << 30) + (1u << 20);
    void *gate = NULL;
    if (!bench_copy_arenas_open(&b->arenas, cuda, bytes, b->emulated ? 1u << 20 : 80u << 20) ||
        !RAW(cuda, cuMemHostAlloc(&gate, 4096, CU_MEMHOSTALLOC_DEVICEMAP))) {
        return false;
    }
    b->gate = gate;
    b->sides.arenas = &b->arenas;
    b->sides.cuda = cuda;
    return RAW(cuda, cuMemHostGetDevicePointer(&b->gate_address, gate, 0)) &&
           bench_copy_sides_open(&b->sides, b->emulated ? 1000 : 1000000) &&
           RAW(cuda, cuEventCreate(&b->begin, 0)) && RAW(cuda, cuEventCreate(&b->end, 0));
}

static void close_memory(struct copy_bench *b)
{
    if (b->end != NULL) {
        (void)RAW(&b->cuda, cuEventDestroy(b->end));
    }
    if (b->begin != NULL) {
        (void)RAW(&b->cuda, cuEventDestroy(b->begin));
    }
    bench_copy_sides_close(&b->sides);
    if (b->gate != NULL) {
        (void)RAW(&b->cuda, cuMemFreeHost(b->gate));
    }
    bench_copy_arenas_close(&b->arenas);
}

/* One task contains the timed part, since our calls belong into launch callbacks.  So all ways use the same
 * stream from the same thread. */
static gantry_launch_result run_all(gantry_launch *launch, void *arg)
{
    struct copy_bench *b = arg;
    const struct copy_recipe *list = b->emulated ? small_recipes : recipes;
    b->sides.launch = launch;
    b->sides.stream = gantry_launch_stream(launch);
    b->good = open_memory(b) && tune(b, launch);
    if (b->good) {
        size_t count = b->emulated ? sizeof(small_recipes) / sizeof(small_recipes[0])
                                   : sizeof(recipes) / sizeof(recipes[0]);
        for (size_t i = 0; i < count; i++) {
            run_recipe(b, &list[i]);
        }
        run_interference(b);
    }
    return b->good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool open_gantry(struct copy_bench *b)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = b->options->driver;
    context.submission = GANTRY_SUBMISSION_STREAMS; /* rows of graphs change it for themselves */
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_device_info info = {.struct_size = sizeof(info)};
    if (!ok(gantry_context_create(&context, &b->context)) ||
        !ok(gantry_context_device_info(b->context, &info)) ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &b->cpus))) {
        return false;
    }
    b->emulated = info.emulated;
    b->has_large = !info.emulated && has_room_for_large(info.memory_bytes);
    manager.cpu_dispatcher = b->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(b->context);
    return ok(gantry_taskman_create(&manager, &b->manager)) && raw_cuda_open(b->context, &b->cuda);
}

static bool run_task(struct copy_bench *b)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "bench copy";
    desc.launch = run_all;
    desc.arg = b;
    return ok(gantry_taskman_submit(b->manager, &desc, NULL)) && ok(gantry_taskman_start(b->manager)) &&
           gantry_taskman_stop(b->manager) == GANTRY_OK;
}

/* These rows are steps of their own, after that task. */
static bool run_steps(struct copy_bench *b)
{
    const struct copy_recipe *list = b->emulated ? small_recipes : recipes;
    bool good = run_task(b);
    if (!ok(gantry_context_acquire(b->context))) {
        return false;
    }
    for (int i = 0; good && i < CAPTURED; i++) {
        run_captured(b, &list[i]);
    }
    close_memory(b);
    return ok(gantry_context_release(b->context)) && good;
}

static bool bench_copy(const struct bench_options *options)
{
    struct copy_bench bench = {.options = options};
    bool good = open_gantry(&bench) && run_steps(&bench);
    gantry_taskman_destroy(bench.manager);
    gantry_cpu_dispatcher_destroy(bench.cpus);
    gantry_context_destroy(bench.context);
    return good && bench.good;
}

const struct gantry_bench gantry_bench_copy = {
    .name = "copy",
    .summary = "batched copies, against the driver's calls and cub::DeviceMemcpy::Batched",
    .help =
        "  DIRECTION-COUNTxSIZE       one batch of copies, from the call until it is done; yardsticks: a "
        "call\n"
        "                             per copy, the driver's batched call, CUB, and one copy of all the "
        "bytes\n"
        "  list-..., pinned-list-...  the same from lists that the device reads, there or in page-locked "
        "memory\n"
        "  rows-...                   rows at even distances, also against cuMemcpy2DAsync\n"
        "  DIRECTION-COUNTxSIZE/device  of these, the device's part\n"
        "  DIRECTION-COUNTxSIZE/host  what the launching thread spends on each copy\n"
        "  kernel-beside-...          a kernel that fills the device, while batches run\n"
        "  .../step-captured          the batch as a step of a task manager, captured, against on a stream\n",
    .main = bench_copy,
};
