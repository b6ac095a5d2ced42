/* SPDX-License-Identifier: MIT */
/* Launches with options, and what fits a partition. */
#include "dispatcher/call/launch_options.h"

#include "base/handle.h"
#include "base/options.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/call/launch.h"
#include "dispatcher/call/launch_arguments.h"
#include "dispatcher/submit/replay_units.h"

#include <stddef.h>

/* Can the kernel start early?  In older code it starts behind, which is right as well. */
static gantry_status take_start(const char *what, gantry_kernel *kernel, gantry_kernel_start start,
                                struct gy_launch_extra *extra)
{
    if ((unsigned)start > GANTRY_KERNEL_START_EARLY_TRUSTED) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s(%s): start is %d", what, kernel->name, (int)start);
    }
    if (start == GANTRY_KERNEL_START_EARLY && !kernel->may_start_early) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT,
            "%s(%s): it cannot start early: it was not made with GANTRY_KERNEL_EARLY(), so nothing says "
            "that it waits for earlier work",
            what, kernel->name);
    }
    extra->starts_early = start != GANTRY_KERNEL_START_BEHIND && gy_kernel_is_modern(kernel);
    return GANTRY_OK;
}

static gantry_status take_options(const char *what, gantry_kernel *kernel,
                                  const gantry_launch_options *options, struct gy_launch_extra *extra)
{
    gantry_launch_options ours = GANTRY_LAUNCH_OPTIONS_INIT;
    *extra = (struct gy_launch_extra){.priority = 0};
    gantry_status status = gy_options_import(&ours, sizeof(ours), options, sizeof(ours), what);
    if (status != GANTRY_OK) {
        return status;
    }
    if ((unsigned)ours.memory_domain > GANTRY_MEMORY_DOMAIN_REMOTE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s(%s): memory_domain is %d", what, kernel->name,
                       (int)ours.memory_domain);
    }
    if (ours.reserved != 0) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "%s(%s): reserved is %u", what, kernel->name, ours.reserved);
    }
    const bool has_cluster = (ours.cluster.x | ours.cluster.y | ours.cluster.z) != 0;
    const bool has_wide =
        (ours.preferred_cluster.x | ours.preferred_cluster.y | ours.preferred_cluster.z) != 0;
    if ((has_cluster && gy_dim3_count(ours.cluster) == 0) || (has_wide && !has_cluster)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s(%s): %s", what, kernel->name,
                       has_cluster ? "the cluster has a zero" : "preferred_cluster without cluster");
    }
    extra->cluster = ours.cluster;
    extra->preferred_cluster = ours.preferred_cluster;
    extra->is_cooperative = ours.cooperative != 0;
    extra->is_remote = ours.memory_domain == GANTRY_MEMORY_DOMAIN_REMOTE;
    extra->has_priority = ours.has_priority != 0;
    extra->priority = extra->has_priority ? ours.priority : 0;
    return take_start(what, kernel, ours.start, extra);
}

static bool is_plain(const struct gy_launch_extra *extra)
{
    return (extra->cluster.x | extra->is_cooperative | extra->starts_early | extra->is_remote |
            extra->has_priority) == 0;
}

/* ---- launches --------------------------------------------------------------------------------- */

static gantry_status enqueue(gantry_launch *launch, gantry_kernel *kernel, const struct gy_launch_size *size,
                             const struct gy_launch_extra *extra, void **args)
{
    struct gy_context *context = launch->dispatcher->config.context;
    if (launch->lane != NULL) {
        return gy_lane_kernel(launch->lane, kernel, size, args, extra);
    }
    const CUresult result =
        gy_launch_with(context->driver, kernel->function, size, extra, launch->stream, args);
    return result == CUDA_SUCCESS ? GANTRY_OK : gy_kernel_failed(context, kernel, size, result);
}

static gantry_status check(gantry_launch *launch, gantry_kernel *kernel, const struct gy_launch_size *size,
                           const struct gy_launch_extra *extra)
{
    if (launch->dispatcher->config.context->driver->cuLaunchKernelEx == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_launch_kernel_with(%s): the driver is older than CUDA 11.8", kernel->name);
    }
    if (extra->cluster.x == 0 && !extra->is_cooperative) {
        return GANTRY_OK;
    }
    const struct gantry_partition *partition = gy_gd_partition(launch->dispatcher, launch->task);
    const struct gy_launch_place place = {.key = partition,
                                          .name = partition->info.name,
                                          .sms = partition->info.granted_sms,
                                          .stream = launch->stream};
    return gy_kernel_check_fit(kernel, size, extra, &place);
}

gantry_status gantry_launch_kernel_with(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                        gantry_dim3 block, size_t shared_bytes, void **args,
                                        const gantry_launch_options *options)
{
    GY_ACCEPT(LAUNCH, launch);
    GY_ACCEPT(KERNEL, kernel);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_kernel_with");
    if (status == GANTRY_OK) {
        status = gy_launch_check_args("gantry_launch_kernel_with", kernel, args);
    }
    const struct gy_launch_size size = {grid, block, shared_bytes};
    if (status == GANTRY_OK && !gy_launch_size_is_good(kernel, &size)) {
        status = gy_launch_refuse_size("gantry_launch_kernel_with", kernel, &size);
    }
    struct gy_launch_extra extra;
    if (status == GANTRY_OK) {
        status = take_options("gantry_launch_kernel_with", kernel, options, &extra);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    if (is_plain(&extra)) {
        return gantry_launch_kernel(launch, kernel, grid, block, shared_bytes, args);
    }
    status = check(launch, kernel, &size, &extra);
    if (status == GANTRY_OK) {
        status = enqueue(launch, kernel, &size, &extra, args);
    }
    if (status == GANTRY_OK) {
        gy_launch_took_kernel(launch, kernel, &size, &extra, args);
    }
    return status;
}

gantry_status gantry_launch_kernel_sized(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                         gantry_dim3 block, size_t shared_bytes, void **args,
                                         const uint32_t *arg_bytes, uint32_t arg_count,
                                         const gantry_launch_options *options)
{
    if (gy_check_is_on(GY_CHECK_ARGUMENTS)) {
        GY_ACCEPT(LAUNCH, launch);
        GY_ACCEPT(KERNEL, kernel);
        gantry_status status = gy_launch_check_scope(launch, "gantry_launch_kernel_sized");
        const uint32_t none = 0;
        const struct gy_launch_arguments given = {args, arg_bytes != NULL ? arg_bytes : &none, arg_count};
        if (status == GANTRY_OK && arg_bytes == NULL && arg_count != 0) {
            status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_kernel_sized: arg_bytes is NULL");
        }
        if (status == GANTRY_OK) {
            status = gy_launch_check_arguments("gantry_launch_kernel_sized", kernel, &given);
        }
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return options == NULL
               ? gantry_launch_kernel(launch, kernel, grid, block, shared_bytes, args)
               : gantry_launch_kernel_with(launch, kernel, grid, block, shared_bytes, args, options);
}

gantry_status gantry_launch_graph(gantry_launch *launch, void *graph_exec)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_graph");
    if (status == GANTRY_OK && graph_exec == NULL) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_graph: graph_exec is NULL");
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gy_units_forbid(launch, "it launches a graph of the application");
    status = gy_capture_leave_for_good(launch, "it launches a graph of the application");
    return status == GANTRY_OK ? GY_CALL(launch->dispatcher->config.context,
                                         cuGraphLaunch((CUgraphExec)graph_exec, launch->stream))
                               : status;
}

/* ---- occupancy -------------------------------------------------------------------------------- */

/* What is asked. */
struct question {
    const char *what; /* the function that was called */
    struct gy_context *context;
    gantry_kernel *kernel;
    struct gy_launch_size size;
    struct gy_launch_extra extra;
    uint32_t sms; /* of the partition or the stream */
};

static gantry_status refuse(const struct question *q, const char *why)
{
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s", q->what, why);
}

/* Check what is asked; GANTRY_OK: the context is current. */
static gantry_status begin_asking(struct question *q, const gantry_launch_options *options)
{
    if (q->kernel->module->context != q->context || gy_dim3_count(q->size.block) == 0 ||
        q->size.shared_bytes > UINT32_MAX) {
        return refuse(q, q->kernel->module->context != q->context ? "the kernel is of another context"
                         : q->size.shared_bytes > UINT32_MAX      ? "too much shared memory"
                                                                  : "a block of no threads");
    }
    gantry_status status = take_options(q->what, q->kernel, options, &q->extra);
    if (status == GANTRY_OK && gy_dim3_count(q->extra.cluster) > 16) {
        status = refuse(q, "a cluster of more than 16 blocks");
    }
    return status == GANTRY_OK ? gy_context_enter(q->context) : status;
}

static gantry_status ask(const struct question *q, CUstream stream, struct gy_occupancy *found)
{
    return gy_kernel_occupancy(q->kernel, &q->size, &q->extra, q->sms, stream, found);
}

/* Ask for a stream of the partition. */
static gantry_status ask_partition(const struct question *q, const struct gantry_partition *partition,
                                   struct gy_occupancy *found)
{
    CUstream stream = NULL;
    gantry_status status = GANTRY_OK;
    if (q->extra.cluster.x != 0) {
        status = gy_partition_stream(partition, false, &stream);
    }
    if (status == GANTRY_OK) {
        status = ask(q, stream, found);
    }
    if (stream != NULL) {
        const gantry_status destroyed = GY_CALL(q->context, cuStreamDestroy(stream));
        status = status == GANTRY_OK ? destroyed : status;
    }
    return status;
}

static gantry_status end_asking(const struct question *q, gantry_status status,
                                const struct gy_occupancy *found, gantry_occupancy *out)
{
    (void)gy_context_pop(q->context);
    if (status != GANTRY_OK) {
        return status;
    }
    const gantry_occupancy result = {.granted_sms = q->sms,
                                     .blocks_per_sm = found->blocks_per_sm,
                                     .blocks = found->blocks,
                                     .clusters = found->clusters,
                                     .largest_cluster = found->largest_cluster};
    return gy_stats_export(out, &result, sizeof(result), q->what);
}

gantry_status gantry_partition_get_occupancy(gantry_partition *partition, gantry_kernel *kernel,
                                             gantry_dim3 block, size_t shared_bytes,
                                             const gantry_launch_options *options, gantry_occupancy *out)
{
    GY_ACCEPT(PARTITION, partition);
    GY_ACCEPT(KERNEL, kernel);
    struct question q = {
        .what = "gantry_partition_get_occupancy", .kernel = kernel, .size = {{1, 1, 1}, block, shared_bytes}};
    if (partition == NULL || kernel == NULL || out == NULL) {
        return refuse(&q, partition == NULL ? "partition is NULL"
                          : kernel == NULL  ? "kernel is NULL"
                                            : "out is NULL");
    }
    q.context = partition->owner->context;
    q.sms = partition->info.granted_sms;
    struct gy_occupancy found = {.blocks = 0};
    gantry_status status = begin_asking(&q, options);
    return status == GANTRY_OK ? end_asking(&q, ask_partition(&q, partition, &found), &found, out) : status;
}

gantry_status gy_stream_occupancy(struct gy_partitions *partitions, CUstream stream, gantry_kernel *kernel,
                                  const struct gy_launch_size *size, const gantry_launch_options *options,
                                  gantry_occupancy *out)
{
    struct question q = {.what = "gantry_stream_get_occupancy",
                         .context = partitions->context,
                         .kernel = kernel,
                         .size = *size};
    struct gy_occupancy found = {.blocks = 0};
    gantry_stream_info info;
    gantry_status status = begin_asking(&q, options);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_stream_read_info(partitions, stream, &info);
    if (status == GANTRY_OK) {
        q.sms = info.granted_sms;
        status = ask(&q, stream, &found);
    }
    return end_asking(&q, status, &found, out);
}
