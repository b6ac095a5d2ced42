/* SPDX-License-Identifier: MIT */
/* The audit: a kernel fills a partition with blocks that note where they run. */
#include "partition/partitions.h"

#include "audit_kernels.kernels.h"
#include "base/alloc.h"
#include "driver/module.h"
#include "work/exec.h"

#define WORDS (2u * GANTRY_SM_SET_WORDS)
#define THREADS 1024u
#define WAVES 4u       /* blocks per SM of the device: more than run at the same time */
#define HOLD_NS 20000u /* longer than it takes to start a wave */
#define QUIET 3        /* the number of launches without news that ends the audit */
#define MOST_LAUNCHES 100

struct audit {
    struct gy_context *context;
    gantry_audit_way way;
    struct gantry_module *module;
    struct gantry_kernel *kernel;
    CUstream inside, outside; /* a stream of the partition, and a stream of none */
    CUdeviceptr seen;
    uint32_t blocks;
};

static gantry_status launch(struct audit *a)
{
    uint32_t words = WORDS;
    uint64_t ns = a->context->driver->emulated ? 0 : HOLD_NS; /* virtual SMs need not be filled */
    void *args[] = {&a->seen, &words, &ns};
    return GY_CALL(a->context, cuLaunchKernel(a->kernel->function, a->blocks, 1, 1, THREADS, 1, 1, 0,
                                              a->inside, args, NULL));
}

static gantry_status launch_graph(struct audit *a)
{
    struct gy_context *context = a->context;
    struct gy_exec exec = {.shape.places = 1};
    gantry_status status =
        GY_CALL(context, cuStreamBeginCapture(a->inside, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (status != GANTRY_OK) {
        return status;
    }
    status = launch(a);
    gantry_status end = GY_CALL(context, cuStreamEndCapture(a->inside, &exec.graph));
    status = status != GANTRY_OK ? status : end;
    if (status == GANTRY_OK) {
        status = gy_exec_make(context, &exec, GY_EXEC_OF_STREAM);
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuGraphLaunch(exec.native, a->outside));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuStreamSynchronize(a->outside));
    }
    gy_exec_drop(context, &exec);
    return status;
}

static gantry_status look_once(struct audit *a, gantry_sm_set *out)
{
    uint32_t words[WORDS] = {0};
    gantry_status status = a->way == GANTRY_AUDIT_GRAPH ? launch_graph(a) : launch(a);
    if (status == GANTRY_OK) {
        status = GY_CALL(a->context, cuStreamSynchronize(a->inside));
    }
    if (status == GANTRY_OK) {
        status = gy_context_copy_out(a->context, words, a->seen, sizeof(words));
    }
    out->seen_sms = 0;
    for (uint32_t w = 0; w < GANTRY_SM_SET_WORDS && status == GANTRY_OK; w++) {
        out->words[w] = words[2 * w] | (uint64_t)words[2 * w + 1] << 32;
        out->seen_sms += (uint32_t)__builtin_popcountll(out->words[w]);
    }
    return status;
}

static gantry_status look(struct audit *a, gantry_sm_set *out)
{
    gantry_sm_set found = {.struct_size = sizeof(found)};
    gantry_status status =
        GY_CALL(a->context, cuMemsetD8Async(a->seen, 0, WORDS * sizeof(uint32_t), a->inside));
    if (status == GANTRY_OK) { /* graphs are launched on another stream */
        status = GY_CALL(a->context, cuStreamSynchronize(a->inside));
    }
    int quiet = 0;
    for (int i = 0; i < MOST_LAUNCHES && quiet < QUIET && status == GANTRY_OK; i++) {
        uint32_t before = found.seen_sms;
        status = look_once(a, &found);
        quiet = found.seen_sms == before ? quiet + 1 : 0;
    }
    if (status == GANTRY_OK) {
        *out = found;
    }
    return status;
}

static gantry_status audit(struct gantry_partition *partition, struct audit *a, gantry_sm_set *out)
{
    gantry_status status = gy_module_load(a->context, &gantry_image_audit_kernels, &a->module);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_module_kernel(a->module, "gantry_audit", &a->kernel);
    if (status == GANTRY_OK) {
        status = GY_CALL(a->context, cuMemAlloc(&a->seen, WORDS * sizeof(uint32_t)));
    }
    if (status != GANTRY_OK) {
        goto unload;
    }
    status = gy_partition_stream(partition, false, &a->inside);
    if (status != GANTRY_OK) {
        goto free_seen;
    }
    /* This stream belongs to no partition on purpose: it must not matter where a graph is launched. */
    status = GY_CALL(a->context, cuStreamCreate(&a->outside, CU_STREAM_NON_BLOCKING));
    if (status == GANTRY_OK) {
        status = look(a, out);
        (void)GY_CALL(a->context, cuStreamDestroy(a->outside));
    }
    (void)GY_CALL(a->context, cuStreamDestroy(a->inside));
free_seen:
    (void)GY_CALL(a->context, cuMemFree(a->seen));
unload:
    gy_module_unload(a->module);
    return status;
}

gantry_status gy_partition_audit(struct gantry_partition *partition, gantry_audit_way way, gantry_sm_set *out)
{
    struct gy_context *context = partition->owner->context;
    struct audit a = {.context = context, .way = way, .blocks = WAVES * context->info.total_sms};
    return audit(partition, &a, out);
}
