/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/launch.h"

#include "base/handle.h"
#include "dispatcher/call/aside.h"
#include "dispatcher/call/asked.h"
#include "dispatcher/call/calls.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/call/launch_arguments.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/submit/replay_units.h"
#include "driver/module.h"
#include "profile/cta.h"
#include "profile/gpu_time.h"
#include "profile/kernel_names.h"
#include "work/note_kernel.h"

#include <limits.h>

static GY_COLD CUstream ask_noted(gantry_launch *launch, bool plainly);

struct gy_cta_request gy_launch_cta_request(const gantry_launch *launch)
{
    return (struct gy_cta_request){.native = launch->stream,
                                   .in_graph = gy_mode_is_of_graph(launch),
                                   .stream = launch->stream_index,
                                   .id = gy_task_context_id(launch->task),
                                   .flow = launch->flow,
                                   .lane = gy_launch_slot_lane(launch)};
}

/* The callback asks for its stream. */
static GY_INLINE CUstream ask(gantry_launch *launch, bool plainly)
{
    if (__builtin_expect(launch->mode >= GY_MODE_FIRST, 0)) {
        if (gy_mode_is_noted(launch)) {
            return gy_launch_is_asked(launch) ? gy_asked_stream(launch, plainly) : ask_noted(launch, plainly);
        }
        gy_launch_note_ask(launch, plainly);
    }
    return launch->stream;
}

void *gantry_launch_stream(const gantry_launch *launch)
{
    GY_ACCEPT_OR(NULL, LAUNCH, launch);
    return ask((gantry_launch *)(uintptr_t)launch, true);
}

void *gantry_launch_capture_stream(const gantry_launch *launch)
{
    GY_ACCEPT_OR(NULL, LAUNCH, launch);
    return ask((gantry_launch *)(uintptr_t)launch, false);
}

uint64_t gantry_launch_index(const gantry_launch *launch)
{
    GY_ACCEPT_OR(0, LAUNCH, launch);
    return launch->index;
}

gantry_task *gantry_launch_task(const gantry_launch *launch)
{
    GY_ACCEPT_OR(NULL, LAUNCH, launch);
    return launch->task;
}

gantry_context *gantry_launch_context(const gantry_launch *launch)
{
    GY_ACCEPT_OR(NULL, LAUNCH, launch);
    return launch->dispatcher->config.owner;
}

gantry_partition *gantry_launch_partition(const gantry_launch *launch)
{
    GY_ACCEPT_OR(NULL, LAUNCH, launch);
    return gy_launch_is_asked(launch) ? NULL : gy_gd_partition(launch->dispatcher, launch->task);
}

static gantry_status check_caller(const gantry_launch *launch, const char *what)
{
    if (launch == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: launch is NULL", what);
    }
    if (gy_launch_is_asked(launch)) {
        return gy_asked_refuse(launch, what);
    }
    if (gy_gd_current != launch->dispatcher) {
        return GY_FAIL(GANTRY_ERR_STATE, "%s: called outside the launch callback", what);
    }
    return GANTRY_OK;
}

gantry_status gy_launch_refuse_scope(const gantry_launch *launch, const char *what)
{
    gantry_status status = check_caller(launch, what);
    struct gy_context *context = status == GANTRY_OK ? launch->dispatcher->config.context : NULL;
    return context != NULL && gy_context_is_stopped(context) ? gy_context_adopt_stop(context) : status;
}

gantry_status gy_launch_check_giving(const gantry_launch *launch, const char *what)
{
    gantry_status status = check_caller(launch, what);
    struct gy_context *context = status == GANTRY_OK ? launch->dispatcher->config.context : NULL;
    return context != NULL && gy_context_is_lost(context) ? gy_context_adopt_loss(context) : status;
}

gantry_launch_result gantry_launch_fail(gantry_launch *launch, gantry_status why)
{
    const bool is_there = !GY_HANDLE_IS_BAD(LAUNCH, launch),
               is_asked = is_there && gy_launch_is_asked(launch);
    if (!is_there || (!is_asked && gy_launch_check_scope(launch, "gantry_launch_fail") != GANTRY_OK)) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (!gy_status_is_failure(why)) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_fail: %d is not the status of a failure",
                      (int)why);
    } else if (gy_error_last()->status != why) { /* otherwise the result of earlier calls stays */
        (void)GY_FAIL(why, "launch callback of '%s' failed: %s",
                      is_asked ? "a task that is submitted" : gantry_task_label(launch->task),
                      gantry_status_text(why));
    }
    return GANTRY_LAUNCH_FAILED;
}

/* The callback asks while its work is noted.  A call on a stream that is captured may be refused without a
 * trace: not every driver tells. */
static CUstream ask_noted(gantry_launch *launch, bool plainly)
{
    struct gy_graphs *g = &launch->dispatcher->graphs;
    if (gy_aside_may(launch, plainly) || gy_gd_current != launch->dispatcher) {
        return gy_aside_ask(launch, plainly);
    }
    if (!g->may_lend) {
        return gy_capture_leave_for_good(launch, "it asks for its stream") == GANTRY_OK ? launch->stream
                                                                                        : NULL;
    }
    gy_capture_tell_asks(launch);
    gy_trusts_set(&g->trusts, gy_task_launch_fn(launch->task), GY_TRUST_RAW);
    return gy_capture_leave(launch) == GANTRY_OK ? launch->stream : NULL;
}

gantry_status gantry_launch_leave_graph(gantry_launch *launch)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_leave_graph");
    return status == GANTRY_OK ? gy_capture_leave_for_good(launch, "gantry_launch_leave_graph() was called")
                               : status;
}

gantry_status gantry_launch_request_sync_point(gantry_launch *launch)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_request_sync_point");
    if (status != GANTRY_OK) {
        return status;
    }
    gy_units_forbid(launch, "it asks for a sync point");
    status = gy_capture_leave_ahead(launch);
    const bool aside = gy_launch_is_aside(launch);
    status = status == GANTRY_OK ? gy_aside_settle(launch) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_streams_sync_point(&launch->dispatcher->streams, launch->stream_index);
    return status == GANTRY_OK && aside ? gy_aside_open(launch) : status;
}

gantry_status gy_launch_refuse_size(const char *what, const gantry_kernel *kernel,
                                    const struct gy_launch_size *size)
{
    const gantry_dim3 grid = size->grid, block = size->block;
    if (kernel == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: kernel is NULL", what);
    }
    if (size->shared_bytes > UINT32_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s(%s): %zu bytes of shared memory", what, kernel->name,
                       size->shared_bytes);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s(%s): grid %ux%ux%u of %ux%ux%u threads has a zero", what,
                   kernel->name, grid.x, grid.y, grid.z, block.x, block.y, block.z);
}

static GY_COLD gantry_status refuse_kernel(const gantry_kernel *kernel, gantry_dim3 grid, gantry_dim3 block,
                                           size_t shared_bytes)
{
    const struct gy_launch_size size = {grid, block, shared_bytes};
    return gy_launch_refuse_size("gantry_launch_kernel", kernel, &size);
}

void gy_launch_took_kernel(gantry_launch *launch, const gantry_kernel *kernel,
                           const struct gy_launch_size *size, const struct gy_launch_extra *extra,
                           void *const *args)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_gd_count(&d->counters.works[GD_KERNELS], 1);
    if (launch->calls != NULL) {
        gy_calls_note_kernel(launch->calls, launch->task, kernel, size, extra, args);
    }
}

static GY_COLD gantry_status kernel_failed(struct gy_context *context, const gantry_kernel *kernel,
                                           gantry_dim3 grid, gantry_dim3 block, size_t shared_bytes,
                                           CUresult result)
{
    const struct gy_launch_size size = {grid, block, shared_bytes};
    return gy_kernel_failed(context, kernel, &size, result);
}

static GY_RARE void compare_kernel(const gantry_launch *launch, const gantry_kernel *kernel, gantry_dim3 grid,
                                   gantry_dim3 block, size_t shared_bytes, void **args)
{
    const struct gy_launch_size size = {grid, block, shared_bytes};
    gy_calls_note_kernel(launch->calls, launch->task, kernel, &size, NULL, args);
}

/* Note a kernel that is not known to be like one before it. */
static GY_RARE gantry_status note_other(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                        gantry_dim3 block, size_t shared_bytes, void **args)
{
    const struct gy_launch_size size = {grid, block, shared_bytes};
    return gy_launch_size_is_good(kernel, &size)
               ? gy_lane_kernel(launch->lane, kernel, &size, args, NULL)
               : gy_launch_refuse_size("gantry_launch_kernel", kernel, &size);
}

gantry_status gantry_launch_kernel(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                   gantry_dim3 block, size_t shared_bytes, void **args)
{
    if (gy_handles_are_checked()) { /* one question for both */
        GY_ACCEPT(LAUNCH, launch);
        GY_ACCEPT(KERNEL, kernel);
    }
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_kernel");
    if (status == GANTRY_OK) {
        status = gy_launch_check_args("gantry_launch_kernel", kernel, args);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    if (launch->lane != NULL) {
        const struct gy_launch_size size = {grid, block, shared_bytes};
        if (kernel == NULL || !gy_lane_note_known(launch->lane, kernel, &size, args)) {
            status = note_other(launch, kernel, grid, block, shared_bytes, args);
        }
    } else if (!gy_launch_size_is_good(kernel, &(struct gy_launch_size){grid, block, shared_bytes})) {
        status = refuse_kernel(kernel, grid, block, shared_bytes);
    } else {
        CUresult result = d->config.context->driver->cuLaunchKernel(
            kernel->function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared_bytes,
            launch->stream, args, NULL);
        if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
            status = kernel_failed(d->config.context, kernel, grid, block, shared_bytes, result);
        }
    }
    if (__builtin_expect(status != GANTRY_OK, 0)) {
        return status;
    }
    gy_gd_count(&d->counters.works[GD_KERNELS], 1);
    if (__builtin_expect(launch->calls != NULL, 0)) {
        compare_kernel(launch, kernel, grid, block, shared_bytes, args);
    }
    return GANTRY_OK;
}

gantry_status gantry_launch_max_blocks(gantry_launch *launch, const gantry_kernel *kernel, uint32_t threads,
                                       size_t shared_bytes, uint32_t *out)
{
    GY_ACCEPT(LAUNCH, launch);
    GY_ACCEPT(KERNEL, kernel);
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_max_blocks");
    if (status != GANTRY_OK) {
        return status;
    }
    if (kernel == NULL || out == NULL || threads == 0 || threads > INT_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_max_blocks: %s",
                       kernel == NULL ? "kernel is NULL"
                       : out == NULL  ? "out is NULL"
                                      : "a bad block size");
    }
    int blocks = 0;
    struct gy_context *context = launch->dispatcher->config.context;
    status = GY_CALL(context, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel->function,
                                                                          (int)threads, shared_bytes));
    if (status == GANTRY_OK) {
        *out = (uint32_t)blocks * gantry_launch_partition(launch)->info.granted_sms;
    }
    return status;
}

void *gantry_launch_profile(gantry_launch *launch, uint32_t kernel, gantry_dim3 grid)
{
    return gantry_launch_profile_ranges(launch, kernel, grid, 0);
}

void *gantry_launch_profile_ranges(gantry_launch *launch, uint32_t kernel, gantry_dim3 grid, uint32_t ranges)
{
    GY_ACCEPT_OR(NULL, LAUNCH, launch);
    if (__builtin_expect(gy_profile_generation() == 0, 1) || launch == NULL ||
        gy_gd_current != launch->dispatcher || gy_context_is_lost(launch->dispatcher->config.context)) {
        return NULL;
    }
    const enum gy_kernel_macros macros = gy_kernel_macros_of(kernel);
    if (macros == GY_KERNEL_SILENT) {
        return NULL;
    }
    struct gy_cta_request request = gy_launch_cta_request(launch);
    request.lane = macros == GY_KERNEL_SLOTS ? request.lane : NULL;
    request.kernel = kernel;
    request.ctas = (uint64_t)grid.x * grid.y * grid.z;
    request.ranges = ranges;
    return gy_cta_reserve(gy_gpu_time_ctas(launch->dispatcher->config.time), &request);
}
