/* SPDX-License-Identifier: MIT */
/* The work of `gantry bench heap`: allocations and frees of the heap and of its yardsticks. */
#include "bench/bench_heap.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* ---- trace --------------------------------------------------------------------------------- */

/* The size of the trace with FULL_RUNS runs or more; with fewer it shrinks, so that a short run is small,
 * too. */
#define TRACE_FULL_RUNS 15u
#define TRACE_OPERATIONS 1000000u
#define TRACE_LIVE_BYTES ((uint64_t)8 << 30)
#define TRACE_SLOTS 4096u

struct trace {
    struct bench_heap_context *context;
    uint64_t random;
    void *blocks[TRACE_SLOTS];
    size_t bytes[TRACE_SLOTS];
    uint32_t count;
    uint32_t operations;
    uint64_t live_bytes; /* so many blocks may be live at most */
    uint64_t live, peak_live, peak_slabs;
    uint64_t ns;
};

static uint64_t next_random(struct trace *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random >> 11;
}

/* The sizes that a training step asks for: many activations of a few sizes, some square weights, scratch of
 * any size. */
static size_t tensor_bytes(struct trace *t)
{
    static const size_t activation[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    static const size_t width[] = {512, 768, 1024, 1536, 2048, 3072, 4096};
    uint64_t dice = next_random(t) % 100;
    if (dice < 55) {
        return activation[next_random(t) % 10] * (MIB / 2);
    }
    if (dice < 75) {
        size_t edge = width[next_random(t) % 7];
        return edge * edge * 2;
    }
    unsigned octave = (unsigned)(next_random(t) % 10);
    size_t least = (size_t)65536 << octave; /* log-uniform: 64 KiB to 64 MiB */
    return least + (size_t)(next_random(t) % least);
}

static bool trace_take(struct trace *t, size_t bytes)
{
    void *block;
    uint64_t begin = gy_clock_ns();
    gantry_status status = gantry_heap_alloc(t->context->heap, GANTRY_MEMORY_DEVICE, bytes, 0,
                                             GANTRY_ALLOC_SITE("bench trace"), &block);
    t->ns += gy_clock_ns() - begin;
    if (!bench_heap_ok(status)) {
        return false;
    }
    t->blocks[t->count] = block;
    t->bytes[t->count++] = bytes;
    t->live += bytes;
    t->peak_live = t->live > t->peak_live ? t->live : t->peak_live;
    return true;
}

static bool trace_give(struct trace *t)
{
    uint32_t i = (uint32_t)(next_random(t) % t->count);
    uint64_t begin = gy_clock_ns();
    gantry_status status = gantry_heap_free(t->context->heap, t->blocks[i]);
    t->ns += gy_clock_ns() - begin;
    t->live -= t->bytes[i];
    t->blocks[i] = t->blocks[--t->count];
    t->bytes[i] = t->bytes[t->count];
    return bench_heap_ok(status);
}

static bool note_slabs(struct trace *t)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    if (!bench_heap_ok(gantry_heap_get_stats(t->context->heap, GANTRY_MEMORY_DEVICE, &stats))) {
        return false;
    }
    t->peak_slabs = stats.slab_bytes > t->peak_slabs ? stats.slab_bytes : t->peak_slabs;
    return true;
}

static bool run_trace(struct trace *t)
{
    for (uint32_t i = 0; i < t->operations; i++) {
        size_t bytes = tensor_bytes(t);
        bool fits = t->count < TRACE_SLOTS && t->live + bytes <= t->live_bytes;
        bool take = t->count == 0 || (fits && next_random(t) % 100 < 60);
        if (!(take ? trace_take(t, bytes) : trace_give(t)) || (i % 1000 == 0 && !note_slabs(t))) {
            return false;
        }
    }
    return note_slabs(t);
}

void bench_heap_report_slabs(const struct bench_options *options, const char *name, double ratio,
                             uint64_t peak, bool good)
{
    if (options->json) {
        fprintf(options->out,
                "{\"name\":\"%s\",\"value\":%.4f,\"unit\":\"bytes/byte\","
                "\"yardstick\":null,\"yardstick_value\":null,\"ratio\":null,",
                name, ratio);
        bench_json_end(options, good);
    } else if (bench_has_times(options, name, good)) {
        fprintf(options->out, "%-28s %12.3f slab bytes per byte of the peak in use (%.2f GiB)\n", name, ratio,
                (double)peak / (double)((uint64_t)1 << 30));
    }
}

bool bench_heap_trace(struct bench_heap_context *context, const struct bench_options *options)
{
    struct trace *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return false;
    }
    t->context = context;
    t->random = 88172645463325252u;
    uint32_t runs = options->runs < TRACE_FULL_RUNS ? options->runs : TRACE_FULL_RUNS;
    t->operations = TRACE_OPERATIONS / TRACE_FULL_RUNS * runs;
    t->live_bytes = TRACE_LIVE_BYTES / TRACE_FULL_RUNS * runs;
    bool good = bench_heap_ok(gantry_heap_trim(context->heap, GANTRY_MEMORY_DEVICE, 0, NULL)) && run_trace(t);
    while (t->count > 0) {
        good = trace_give(t) && good;
    }
    good = bench_heap_ok(gantry_heap_trim(context->heap, GANTRY_MEMORY_DEVICE, 0, NULL)) && good;
    struct bench_case time = {.name = "heap/trace", .item = "operation"};
    struct bench_result result = {.min_ns = (double)t->ns / t->operations, .verified = good};
    result.median_ns = result.min_ns;
    bench_report(options, &time, &result);
    double ratio = t->peak_live != 0 ? (double)t->peak_slabs / (double)t->peak_live : 0.0;
    bench_heap_report_slabs(options, "heap/trace-slabs", ratio, t->peak_live, good);
    free(t);
    return good;
}

/* ---- free after a stream ------------------------------------------------------------------- */

#define FREES 512u

struct frees {
    struct bench_heap_context *context;
    size_t bytes;
    void *blocks[FREES];
    uint64_t ns; /* for all of them */
    bool good;
};

static gantry_launch_result launch_frees(gantry_launch *launch, void *arg)
{
    struct frees *frees = arg;
    frees->good = true;
    uint64_t begin = gy_clock_ns();
    for (uint32_t i = 0; i < FREES; i++) {
        frees->good = gantry_free_after(frees->blocks[i], launch) == GANTRY_OK && frees->good;
    }
    frees->ns = gy_clock_ns() - begin;
    return GANTRY_LAUNCH_DONE;
}

static bool run_frees(struct frees *frees, gantry_taskman *manager)
{
    for (uint32_t i = 0; i < FREES; i++) {
        if (!bench_heap_ok(gantry_heap_alloc(frees->context->heap, GANTRY_MEMORY_DEVICE, frees->bytes, 0,
                                             GANTRY_ALLOC_SITE("bench free"), &frees->blocks[i]))) {
            return false;
        }
    }
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "free";
    desc.launch = launch_frees;
    desc.arg = frees;
    gantry_task *task;
    bool good = bench_heap_ok(gantry_taskman_submit(manager, &desc, &task)) &&
                bench_heap_ok(gantry_taskman_start(manager)) && bench_heap_ok(gantry_taskman_stop(manager)) &&
                bench_heap_ok(gantry_taskman_reset(manager)) && frees->good;
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    do { /* they all come back */
        good = good && bench_heap_ok(gantry_dispatcher_get_stats(
                           gantry_context_dispatcher(frees->context->context), &stats));
    } while (good && stats.frees_pending != 0);
    return good;
}

static bool bench_frees_of(struct bench_heap_context *context, const struct bench_options *options,
                           gantry_taskman *manager, const char *name, size_t bytes)
{
    static struct frees frees;
    frees.context = context;
    frees.bytes = bytes;
    struct bench_case one = {.name = name, .item = "free"};
    struct bench_result result = {.verified = true};
    uint64_t total = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i <= options->runs && result.verified; i++) { /* the first warms up */
        result.verified = run_frees(&frees, manager);
        if (i != 0) {
            total += frees.ns;
            least = frees.ns < least ? frees.ns : least;
        }
    }
    result.min_ns = (double)least / FREES;
    result.median_ns = (double)total / options->runs / FREES;
    bench_report(options, &one, &result);
    return result.verified;
}

bool bench_heap_free_after(struct bench_heap_context *context, const struct bench_options *options)
{
    gantry_cpu_dispatcher_options pool = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    pool.worker_count = 1;
    gantry_cpu_dispatcher *cpus = NULL;
    gantry_taskman *manager = NULL;
    gantry_taskman_options ours = GANTRY_TASKMAN_OPTIONS_INIT;
    bool good = bench_heap_ok(gantry_cpu_dispatcher_create(&pool, &cpus));
    ours.cpu_dispatcher = cpus;
    ours.gpu_dispatcher = gantry_context_dispatcher(context->context);
    good = good && bench_heap_ok(gantry_taskman_create(&ours, &manager));
    good = good && bench_frees_of(context, options, manager, "heap/free-after-4k", 4096);
    good = good && bench_frees_of(context, options, manager, "heap/free-after-64k", 65536);
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(cpus);
    return good;
}

/* ---- a large free while the device is busy ------------------------------------------------- */

#define STALL_BYTES (64 * MIB)
#define STALL_PAIRS 2000u

struct stall {
    struct bench_heap_context *context;
    CUstream stream;
    CUdeviceptr work; /* filled again and again to keep the device busy */
    size_t work_bytes;
    uint32_t fills;
};

static bool make_busy(struct stall *stall)
{
    for (uint32_t i = 0; i < stall->fills; i++) {
        if (!RAW(&stall->context->cuda, cuMemsetD8Async(stall->work, 1, stall->work_bytes, stall->stream))) {
            return false;
        }
    }
    return true;
}

/* True while the device has work: a measurement is worth something only then. */
static bool is_busy(struct stall *stall)
{
    return stall->context->cuda.cuStreamQuery(stall->stream) == CUDA_ERROR_NOT_READY;
}

/* Our side: the free itself, and then the time for which another allocation may have to wait. */
static bool stall_of_ours(struct stall *stall, uint64_t *out)
{
    gantry_heap *heap = stall->context->heap;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench stall");
    void *large;
    uint64_t worst = 0;
    if (!bench_heap_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, STALL_BYTES + MIB, 0, site, &large)) ||
        !make_busy(stall)) {
        return false;
    }
    uint64_t begin = gy_clock_ns();
    bool good = bench_heap_ok(gantry_heap_free(heap, large));
    worst = gy_clock_ns() - begin;
    for (uint32_t i = 0; i < STALL_PAIRS && good; i++) {
        void *block;
        begin = gy_clock_ns();
        good = bench_heap_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, i % 2 == 0 ? 4096 : 65536, 0, site,
                                               &block)) &&
               bench_heap_ok(gantry_heap_free(heap, block));
        uint64_t took = gy_clock_ns() - begin;
        worst = took > worst ? took : worst;
    }
    good = good && is_busy(stall) && RAW(&stall->context->cuda, cuStreamSynchronize(stall->stream));
    *out = worst;
    return good && bench_heap_ok(gantry_heap_reclaim_wait(heap));
}

static bool stall_of_theirs(struct stall *stall, uint64_t *out)
{
    CUdeviceptr large;
    if (!RAW(&stall->context->cuda, cuMemAlloc(&large, STALL_BYTES)) || !make_busy(stall)) {
        return false;
    }
    uint64_t begin = gy_clock_ns();
    bool good = RAW(&stall->context->cuda, cuMemFree(large));
    *out = gy_clock_ns() - begin;
    return good && RAW(&stall->context->cuda, cuStreamSynchronize(stall->stream));
}

static bool measure_stalls(struct stall *stall, const struct bench_options *options)
{
    enum { RUNS = 5 };
    uint64_t ours[RUNS], theirs[RUNS];
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench stall");
    void *small = NULL;
    void *page = NULL; /* these two keep their slabs, so that no growth is measured */
    bool good =
        bench_heap_ok(gantry_heap_alloc(stall->context->heap, GANTRY_MEMORY_DEVICE, 4096, 0, site, &small)) &&
        bench_heap_ok(gantry_heap_alloc(stall->context->heap, GANTRY_MEMORY_DEVICE, 65536, 0, site, &page));
    for (int i = 0; i < RUNS && good; i++) {
        good = stall_of_ours(stall, &ours[i]) && stall_of_theirs(stall, &theirs[i]);
    }
    good = bench_heap_ok(gantry_heap_free(stall->context->heap, small)) && good;
    good = bench_heap_ok(gantry_heap_free(stall->context->heap, page)) && good;
    struct bench_case one = {.name = "heap/stall-64m", .item = "free", .yardstick = {.name = "cuMemFree"}};
    struct bench_result result = {.verified = good};
    if (good) {
        bench_sort_times(ours, RUNS);
        bench_sort_times(theirs, RUNS);
        result = (struct bench_result){.min_ns = (double)ours[0],
                                       .median_ns = (double)ours[RUNS / 2],
                                       .yardstick_min_ns = (double)theirs[0],
                                       .yardstick_median_ns = (double)theirs[RUNS / 2],
                                       .verified = true};
    }
    bench_report(options, &one, &result);
    return good;
}

bool bench_heap_stall(struct bench_heap_context *context, const struct bench_options *options)
{
    /* A device works for some 20 ms: 64 times 1 GiB.  The emulated device takes longer for less. */
    struct stall stall = {.context = context,
                          .work_bytes = context->emulated ? 64 * MIB : 1024 * MIB,
                          .fills = context->emulated ? 16 : 64};
    gantry_heap_settings before = {.struct_size = sizeof(before)};
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .keep_bytes = 1};
    bool good = bench_heap_ok(gantry_heap_get_settings(context->heap, GANTRY_MEMORY_DEVICE, &before)) &&
                bench_heap_ok(gantry_heap_configure(context->heap, GANTRY_MEMORY_DEVICE, &settings)) &&
                RAW(&context->cuda, cuMemAlloc(&stall.work, stall.work_bytes));
    if (good && RAW(&context->cuda, cuStreamCreate(&stall.stream, CU_STREAM_NON_BLOCKING))) {
        good = measure_stalls(&stall, options);
        (void)RAW(&context->cuda, cuStreamDestroy(stall.stream));
    }
    if (stall.work != 0) {
        (void)RAW(&context->cuda, cuMemFree(stall.work));
    }
    return bench_heap_ok(gantry_heap_configure(context->heap, GANTRY_MEMORY_DEVICE, &before)) && good;
}
