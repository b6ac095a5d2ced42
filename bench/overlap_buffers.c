/* SPDX-License-Identifier: MIT */
/* Steps that each upload a piece into one of two buffers and work on it.  Ours take their order from data: the
 * upload overlaps with the work of the step before, since their accesses do not meet.  The same by two streams
 * and events by hand, and on one stream, where nothing overlaps. */
#include "bench/overlap_buffers.h"

#include "bench/raw_cuda.h"

#include <gantry/gantry.h>

#include "critical_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 40, BUFFERS = 2 };

struct buffers;

/* A step's tasks: their calls have this. */
struct piece {
    struct buffers *all;
    uint32_t number;
};

struct buffers {
    gantry_context *context;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    CUfunction function; /* the same kernel */
    struct raw_cuda cuda;
    uint32_t *from;             /* page-locked: a word for each step is where its upload begins */
    unsigned char *to[BUFFERS]; /* of the device */
    uint32_t *sum;              /* of the device */
    CUstream copies, work;
    CUevent copied[BUFFERS], worked[BUFFERS];
    struct piece pieces[MOST_STEPS];
    uint32_t steps;
    size_t bytes;
    uint64_t ns; /* of a kernel */
};

static bool ok(gantry_status status)
{
    return bench_ok("overlap", status);
}

/* ---- from data --------------------------------------------------------------------------------------- */

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    const struct piece *piece = arg;
    const struct buffers *b = piece->all;
    return gantry_launch_copy_htod(launch, b->to[piece->number % BUFFERS], &b->from[piece->number],
                                   b->bytes) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result work(gantry_launch *launch, void *arg)
{
    const struct piece *piece = arg;
    struct buffers *b = piece->all;
    void *in = b->to[piece->number % BUFFERS], *args[] = {&in, &b->sum, &b->ns};
    return gantry_launch_kernel(launch, b->kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){32, 1, 1}, 0,
                                args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static bool submit(struct buffers *b, struct piece *piece)
{
    const gantry_access accesses[] = {GANTRY_READS(b->to[piece->number % BUFFERS], b->bytes),
                                      GANTRY_WRITES(b->sum, sizeof(*b->sum))};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_HTOD;
    desc.launch = upload;
    desc.arg = piece;
    desc.calls_say_accesses = true;
    if (!ok(gantry_taskman_submit(b->manager, &desc, NULL))) {
        return false;
    }
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = work;
    desc.calls_say_accesses = false;
    desc.accesses = accesses;
    desc.access_count = 2;
    return ok(gantry_taskman_submit(b->manager, &desc, NULL));
}

static bool run_from_data(void *arg)
{
    struct buffers *b = arg;
    bool good = true;
    for (uint32_t i = 0; i < b->steps && good; i++) {
        good = submit(b, &b->pieces[i]) && ok(gantry_taskman_start(b->manager)) &&
               ok(gantry_taskman_stop(b->manager));
        good = ok(gantry_taskman_reset(b->manager)) && good;
    }
    return ok(gantry_context_synchronize(b->context)) && good;
}

/* ---- by hand ----------------------------------------------------------------------------------------- */

/* Two streams with an event for each order, or one. */
static bool run_by_hand(struct buffers *b, CUstream copies, CUstream kernels)
{
    const bool is_double = copies != kernels;
    bool good = true;
    for (uint32_t i = 0; i < b->steps && good; i++) {
        const uint32_t at = i % BUFFERS;
        CUdeviceptr to = (CUdeviceptr)(uintptr_t)b->to[at];
        void *args[] = {&to, &b->sum, &b->ns};
        good = (!is_double || i < BUFFERS || RAW(&b->cuda, cuStreamWaitEvent(copies, b->worked[at], 0))) &&
               RAW(&b->cuda, cuMemcpyHtoDAsync(to, &b->from[i], b->bytes, copies)) &&
               (!is_double || (RAW(&b->cuda, cuEventRecord(b->copied[at], copies)) &&
                               RAW(&b->cuda, cuStreamWaitEvent(kernels, b->copied[at], 0)))) &&
               RAW(&b->cuda, cuLaunchKernel(b->function, 1, 1, 1, 32, 1, 1, 0, kernels, args, NULL)) &&
               (!is_double || RAW(&b->cuda, cuEventRecord(b->worked[at], kernels)));
    }
    return RAW(&b->cuda, cuCtxSynchronize()) && good;
}

static bool run_on_streams(void *arg)
{
    struct buffers *b = arg;
    return run_by_hand(b, b->copies, b->work);
}

static bool run_on_a_stream(void *arg)
{
    struct buffers *b = arg;
    return run_by_hand(b, b->work, b->work);
}

/* ---- life -------------------------------------------------------------------------------------------- */

static bool prepare(void *arg)
{
    struct buffers *b = arg;
    const uint32_t zero = 0;
    return raw_cuda_upload(&b->cuda, b->sum, &zero, sizeof(zero));
}

/* Each piece was there when it was worked on, once. */
static bool verify(void *arg)
{
    struct buffers *b = arg;
    uint32_t sum = 0;
    return RAW(&b->cuda, cuMemcpyDtoH(&sum, (CUdeviceptr)(uintptr_t)b->sum, sizeof(sum))) &&
           sum == b->steps * (b->steps + 1) / 2;
}

static bool allocate(struct buffers *b, gantry_memory_kind kind, size_t bytes, void *out)
{
    return ok(
        gantry_heap_alloc(gantry_context_heap(b->context), kind, bytes, 0, GANTRY_ALLOC_SITE("buffer"), out));
}

static bool open_streams(struct buffers *b)
{
    CUmodule module;
    bool good = raw_cuda_load(&b->cuda, &gantry_image_critical_kernels, "take", &module, &b->function) &&
                RAW(&b->cuda, cuStreamCreate(&b->copies, CU_STREAM_NON_BLOCKING)) &&
                RAW(&b->cuda, cuStreamCreate(&b->work, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < BUFFERS && good; i++) {
        good = RAW(&b->cuda, cuEventCreate(&b->copied[i], CU_EVENT_DISABLE_TIMING)) &&
               RAW(&b->cuda, cuEventCreate(&b->worked[i], CU_EVENT_DISABLE_TIMING));
    }
    return good;
}

static bool open_buffers(struct buffers *b, const struct bench_options *options)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    context.driver = options->driver;
    b->steps = options->emulated ? 6 : MOST_STEPS;
    b->bytes = options->emulated ? 4096 : (size_t)8 << 20;
    b->ns = options->emulated ? 1000 : 150000; /* about as long as the upload takes over PCIe 5 */
    bool good = ok(gantry_context_create(&context, &b->context)) && raw_cuda_open(b->context, &b->cuda) &&
                ok(gantry_context_acquire(b->context)) &&
                ok(gantry_module_load(b->context, &gantry_image_critical_kernels, &module)) &&
                ok(gantry_module_get_kernel(module, "take", &b->kernel)) && open_streams(b) &&
                allocate(b, GANTRY_MEMORY_PINNED, b->bytes + sizeof(b->pieces), &b->from) &&
                allocate(b, GANTRY_MEMORY_DEVICE, b->bytes, &b->to[0]) &&
                allocate(b, GANTRY_MEMORY_DEVICE, b->bytes, &b->to[1]) &&
                allocate(b, GANTRY_MEMORY_DEVICE, sizeof(*b->sum), &b->sum);
    manager.gpu_dispatcher = good ? gantry_context_dispatcher(b->context) : NULL;
    good = good && ok(gantry_taskman_create(&manager, &b->manager));
    for (uint32_t i = 0; i < b->steps && good; i++) {
        b->pieces[i] = (struct piece){b, i};
        b->from[i] = i + 1;
    }
    return good;
}

static void close_buffers(struct buffers *b)
{
    gantry_taskman_destroy(b->manager);
    void *blocks[] = {b->from, b->to[0], b->to[1], b->sum};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]) && b->context != NULL; i++) {
        (void)gantry_heap_free(gantry_context_heap(b->context), blocks[i]);
    }
    for (int i = 0; i < BUFFERS; i++) {
        if (b->worked[i] != NULL) {
            (void)RAW(&b->cuda, cuEventDestroy(b->copied[i]));
            (void)RAW(&b->cuda, cuEventDestroy(b->worked[i]));
        }
    }
    if (b->work != NULL) {
        (void)RAW(&b->cuda, cuStreamDestroy(b->copies));
        (void)RAW(&b->cuda, cuStreamDestroy(b->work));
        (void)gantry_context_release(b->context);
    }
    gantry_context_destroy(b->context);
}

bool bench_double_buffer(const struct bench_options *options)
{
    struct buffers b = {.steps = 0};
    bool good = open_buffers(&b, options);
    const struct bench_case serial = {.name = "overlap/one-stream",
                                      .item = "step",
                                      .items = b.steps,
                                      .ours = {.prepare = prepare, .run = run_on_a_stream, .verify = verify},
                                      .arg = &b};
    const struct bench_case both = {.name = "overlap/double-buffer",
                                    .item = "step",
                                    .items = b.steps,
                                    .ours = {.prepare = prepare, .run = run_from_data, .verify = verify},
                                    .yardstick = {"two streams", prepare, run_on_streams, verify},
                                    .arg = &b};
    const struct bench_case hidden = {.name = "overlap/double-buffer-hidden",
                                      .item = "step",
                                      .items = b.steps,
                                      .yardstick = {.name = "two streams"}};
    struct bench_result alone, result;
    good = good && bench_run(options, &serial, &alone) && bench_run(options, &both, &result);
    close_buffers(&b);
    if (good) { /* what overlaps is what both need less than one stream */
        result.min_ns = alone.min_ns - result.min_ns;
        result.median_ns = alone.median_ns - result.median_ns;
        result.yardstick_min_ns = alone.min_ns - result.yardstick_min_ns;
        result.yardstick_median_ns = alone.median_ns - result.yardstick_median_ns;
        bench_report(options, &hidden, &result);
    }
    return good;
}
