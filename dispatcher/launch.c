/* What a launch callback may do. */
#include "dispatcher/ways/aside.h"
#include "dispatcher/ways/launchers.h"

#include "base/handle.h"
#include "copykernel/address.h"
#include "driver/module.h"
#include "profile/cta.h"
#include "profile/kernel_names.h"

#include <limits.h>

static GY_COLD CUstream ask_captured(gantry_launch *launch);

void *gantry_launch_stream(const gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return NULL;
    }
    if (__builtin_expect(launch->dispatcher->graphs.capturing, 0)) {
        return ask_captured((gantry_launch *)(uintptr_t)launch);
    }
    return launch->stream;
}

uint32_t gantry_launch_index(const gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return 0;
    }
    return launch->index;
}

gantry_task *gantry_launch_task(const gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return NULL;
    }
    return launch->task;
}

gantry_context *gantry_launch_context(const gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return NULL;
    }
    return launch->dispatcher->config.owner;
}

gantry_partition *gantry_launch_partition(const gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return NULL;
    }
    return gy_gd_partition(launch->dispatcher, launch->task);
}

static GY_COLD gantry_status refuse_scope(const gantry_launch *launch, const char *what)
{
    if (launch == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: launch is NULL", what);
    }
    if (gy_gd_current != launch->dispatcher && !gy_gd_may_launch(launch->dispatcher)) {
        return GY_FAIL(GANTRY_ERR_STATE, "%s: called outside the launch callback", what);
    }
    struct gy_context *context = launch->dispatcher->config.context;
    return gy_context_is_stopped(context) ? gy_context_adopt_stop(context) : GANTRY_OK;
}

/* Launch-scope calls belong to the callback's own thread, and do nothing on a lost context. */
static inline gantry_status check_scope(const gantry_launch *launch, const char *what)
{
    bool is_usual = launch != NULL && gy_gd_current == launch->dispatcher &&
                    !gy_context_is_stopped(launch->dispatcher->config.context);
    return __builtin_expect(is_usual, 1) ? GANTRY_OK : refuse_scope(launch, what);
}

gantry_launch_result gantry_launch_fail(gantry_launch *launch, gantry_status why)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch) || check_scope(launch, "gantry_launch_fail") != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (why >= GANTRY_OK || why < GANTRY_ERR_CANCELLED) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_fail: %d is not the status of a failure",
                      (int)why);
    } else if (gy_error_last()->status != why) { /* else what is known of it stays */
        (void)GY_FAIL(why, "launch callback of '%s' failed: %s", gantry_task_label(launch->task),
                      gantry_status_text(why));
    }
    return GANTRY_LAUNCH_FAILED;
}

gantry_status gy_gd_leave_capture(gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    gantry_status status = gy_aside_settle(launch);
    if (status == GANTRY_OK) {
        status = gy_gd_cut(d);
    }
    launch->stream = d->streams.streams[launch->stream_index].native;
    if (status == GANTRY_OK) {
        status = gy_streams_meet(&d->streams, launch->stream_index);
    }
    return status == GANTRY_OK ? gy_gd_enter_share(d, launch->stream_index) : status;
}

/* What follows cannot be captured, now and whenever this callback is called. */
static gantry_status leave_graph(gantry_launch *launch, const char *why)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    if (!d->graphs.capturing) {
        return GANTRY_OK;
    }
    gy_log(GANTRY_LOG_INFO, "task '%s' leaves the graph: %s; its callback runs on streams from now on",
           gantry_task_label(launch->task), why);
    gy_graphs_set_trust(&d->graphs, gy_task_launch_fn(launch->task), GY_TRUST_NO);
    gy_replay_forbid(d, launch->task, why);
    return gy_gd_leave_capture(launch);
}

/* A call on it may be refused without a trace: not every driver tells. */
static CUstream ask_captured(gantry_launch *launch)
{
    if (launch->dispatcher->graphs.may_lend) {
        return gy_aside_ask(launch);
    }
    return leave_graph(launch, "it asks for its stream") == GANTRY_OK ? launch->stream : NULL;
}

gantry_status gantry_launch_leave_graph(gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_leave_graph");
    return status == GANTRY_OK ? leave_graph(launch, "gantry_launch_leave_graph() was called") : status;
}

gantry_status gantry_launch_request_sync_point(gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_request_sync_point");
    if (status != GANTRY_OK) {
        return status;
    }
    gy_replay_forbid(launch->dispatcher, launch->task, "it asks for a sync point");
    const bool aside = launch->aside;
    status = gy_aside_settle(launch);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_launch_begin_alone(launch);
    status = gy_streams_sync_point(&launch->dispatcher->streams, launch->stream_index);
    if (status == GANTRY_OK) {
        status = gy_launch_meet_all(launch);
    }
    gy_launch_end_alone(launch);
    return status == GANTRY_OK && aside ? gy_aside_open(launch) : status;
}

static GY_COLD gantry_status refuse_kernel(const gantry_kernel *kernel, gantry_dim3 grid, gantry_dim3 block,
                                           size_t shared_bytes)
{
    if (kernel == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_kernel: kernel is NULL");
    }
    if (shared_bytes > UINT32_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_kernel(%s): %zu bytes of shared memory",
                       kernel->name, shared_bytes);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                   "gantry_launch_kernel(%s): grid %ux%ux%u of %ux%ux%u threads has a zero", kernel->name,
                   grid.x, grid.y, grid.z, block.x, block.y, block.z);
}

static inline bool has_zero(gantry_dim3 size)
{
    return size.x == 0 || size.y == 0 || size.z == 0;
}

static GY_COLD gantry_status kernel_failed(struct gy_context *context, const gantry_kernel *kernel,
                                           const struct gy_launch_size *size, CUresult result, int line)
{
    char what[150], call[230];
    gy_kernel_describe_launch(kernel, size, what, sizeof(what));
    snprintf(call, sizeof(call), "cuLaunchKernel(%.60s), %s,", kernel->name, what);
    return gy_context_failed(context, result, call, __FILE__, line);
}

gantry_status gantry_launch_kernel(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                   gantry_dim3 block, size_t shared_bytes, void **args)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch) || GY_HANDLE_IS_BAD(KERNEL, kernel)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_kernel");
    if (status != GANTRY_OK) {
        return status;
    }
    if (kernel == NULL || has_zero(grid) || has_zero(block) || shared_bytes > UINT32_MAX) {
        return refuse_kernel(kernel, grid, block, shared_bytes);
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    CUresult result = d->config.context->driver->cuLaunchKernel(
        kernel->function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared_bytes,
        launch->stream, args, NULL);
    if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
        const struct gy_launch_size size = {grid, block, shared_bytes};
        return kernel_failed(d->config.context, kernel, &size, result, __LINE__);
    }
    gy_launch_count(launch, &d->counters.kernels, 1);
    if (__builtin_expect(d->shares.watcher != NULL, 0)) {
        gy_utilisation_take(d->shares.watcher->use, (uint64_t)grid.x * grid.y * grid.z);
    }
    return GANTRY_OK;
}

gantry_status gantry_launch_max_blocks(gantry_launch *launch, const gantry_kernel *kernel, uint32_t threads,
                                       size_t shared_bytes, uint32_t *out)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch) || GY_HANDLE_IS_BAD(KERNEL, kernel)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_max_blocks");
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

/* Whose blocks a recording shows; which kernel and how many of them comes later. */
static struct gy_cta_request cta_request(const gantry_launch *launch)
{
    return (struct gy_cta_request){.native = launch->stream,
                                   .stream = launch->stream_index,
                                   .id = gantry_task_context_id(launch->task),
                                   .flow = launch->flow};
}

void *gantry_launch_profile(gantry_launch *launch, uint32_t kernel, gantry_dim3 grid)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return NULL;
    }
    if (__builtin_expect(gy_profile_generation() == 0, 1) || launch == NULL ||
        gy_gd_current != launch->dispatcher || gy_context_is_lost(launch->dispatcher->config.context) ||
        gy_kernel_is_silent(kernel)) {
        return NULL;
    }
    struct gy_cta_request request = cta_request(launch);
    request.kernel = kernel;
    request.ctas = (uint64_t)grid.x * grid.y * grid.z;
    return gy_cta_reserve(gy_gpu_time_ctas(launch->dispatcher->config.time), &request);
}

/* A graph reads pageable memory when it runs, not when it is captured: too late. */
static gantry_status leave_if_pageable(gantry_launch *launch, const void *host)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    unsigned type = 0;
    if (!d->graphs.capturing ||
        (d->config.context->driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                          (CUdeviceptr)(uintptr_t)host) == CUDA_SUCCESS &&
         type != 0)) {
        return GANTRY_OK;
    }
    return leave_graph(launch, "its copy is from or to pageable memory");
}

static gantry_status check_side(const gantry_launch *launch, const char *call, const char *name,
                                const void *address, size_t bytes)
{
    if (address == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s is NULL", call, name);
    }
    const struct gy_copy_side side = {call, name, address, bytes};
    const struct gy_dispatcher_config *config = &launch->dispatcher->config;
    return gy_copy_check_side(config->context, config->heap, &side);
}

/* Between host and device, whichever way. */
static gantry_status copy_host(gantry_launch *launch, void *to, const void *from, size_t bytes,
                               bool to_device)
{
    const char *call = to_device ? "gantry_launch_copy_htod" : "gantry_launch_copy_dtoh";
    gantry_status status = check_scope(launch, call);
    if (status != GANTRY_OK || bytes == 0) {
        return status;
    }
    status = check_side(launch, call, to_device ? "device" : "host", to, bytes);
    if (status == GANTRY_OK) {
        status = check_side(launch, call, to_device ? "host" : "device", from, bytes);
    }
    if (status == GANTRY_OK) {
        status = leave_if_pageable(launch, to_device ? from : to);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_context *context = d->config.context;
    if (to_device) {
        status = GY_CALL(context, cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, from, bytes, launch->stream));
    } else {
        status = GY_CALL(context, cuMemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, launch->stream));
    }
    gy_launch_count(launch, &d->counters.copies, status == GANTRY_OK);
    return status;
}

gantry_status gantry_launch_copy_htod(gantry_launch *launch, void *device, const void *host, size_t bytes)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    return copy_host(launch, device, host, bytes, true);
}

gantry_status gantry_launch_copy_dtoh(gantry_launch *launch, void *host, const void *device, size_t bytes)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    return copy_host(launch, host, device, bytes, false);
}

gantry_status gantry_launch_copy_dtod(gantry_launch *launch, void *to, const void *from, size_t bytes)
{
    static const char call[] = "gantry_launch_copy_dtod";
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, call);
    if (status != GANTRY_OK || bytes == 0) {
        return status;
    }
    status = check_side(launch, call, "to", to, bytes);
    if (status == GANTRY_OK) {
        status = check_side(launch, call, "from", from, bytes);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    status =
        GY_CALL(d->config.context, cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                                     bytes, launch->stream));
    gy_launch_count(launch, &d->counters.copies, status == GANTRY_OK);
    return status;
}

static gantry_status check_fill(const gantry_launch *launch, const void *device, uint32_t pattern_bytes,
                                size_t count)
{
    bool known = pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4;
    if (!known || (uintptr_t)device % pattern_bytes != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_launch_fill: a pattern of %u bytes at %p",
                       pattern_bytes, device);
    }
    if (count > SIZE_MAX / pattern_bytes) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_launch_fill: %zu patterns of %u bytes are more than any memory", count,
                       pattern_bytes);
    }
    return count == 0 ? GANTRY_OK
                      : check_side(launch, "gantry_launch_fill", "device", device, count * pattern_bytes);
}

gantry_status gantry_launch_fill(gantry_launch *launch, void *device, uint32_t pattern,
                                 uint32_t pattern_bytes, size_t count)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_fill");
    if (status == GANTRY_OK) {
        status = check_fill(launch, device, pattern_bytes, count);
    }
    if (status != GANTRY_OK || count == 0) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_context *context = d->config.context;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)device;
    if (pattern_bytes == 4) {
        status = GY_CALL(context, cuMemsetD32Async(at, pattern, count, launch->stream));
    } else if (pattern_bytes == 2) {
        status = GY_CALL(context, cuMemsetD16Async(at, (unsigned short)pattern, count, launch->stream));
    } else {
        status = GY_CALL(context, cuMemsetD8Async(at, (unsigned char)pattern, count, launch->stream));
    }
    gy_launch_count(launch, &d->counters.copies, status == GANTRY_OK);
    return status;
}

/* `request` is used while something is recorded; launchers, which are not GD, record nothing. */
static struct gy_copy_target copy_target(const gantry_launch *launch, struct gy_cta_request *request)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_copy_target target = {.stream = launch->stream,
                                    .multiprocessors = gantry_launch_partition(launch)->info.granted_sms};
    if (__builtin_expect(gy_profile_generation() != 0, 0) && gy_gd_current == d) {
        *request = cta_request(launch);
        target.ctas = gy_gpu_time_ctas(d->config.time);
        target.request = request;
    }
    return target;
}

gantry_status gantry_copy_launch_with(gantry_launch *launch, const gantry_copy_desc *descs, size_t count,
                                      const gantry_copy_options *options)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_copy_launch");
    if (status != GANTRY_OK) {
        return status;
    }
    if (descs == NULL && count > 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_launch: descs is NULL");
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_cta_request request;
    const struct gy_copy_target target = copy_target(launch, &request);
    gy_launch_begin_alone(launch);
    status = gy_copier_launch(d->config.copier, &target, descs, count, options);
    gy_launch_end_alone(launch);
    if (status == GANTRY_OK && count > 0) {
        gy_launch_count(launch, &d->counters.kernels, 1);
        gy_launch_count(launch, &d->counters.batched_copies, count);
    }
    return status;
}

gantry_status gantry_copy_launch(gantry_launch *launch, const gantry_copy_desc *descs, size_t count)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    return gantry_copy_launch_with(launch, descs, count, NULL);
}

gantry_status gantry_copy_queue_flush_with(gantry_copy_queue *queue, gantry_launch *launch,
                                           const gantry_copy_options *options)
{
    if (GY_HANDLE_IS_BAD(COPY_QUEUE, queue) || GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_copy_queue_flush");
    if (status != GANTRY_OK) {
        return status;
    }
    if (queue == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_queue_flush: queue is NULL");
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_cta_request request;
    const struct gy_copy_target target = copy_target(launch, &request);
    size_t before = gantry_copy_queue_count(queue);
    gy_launch_begin_alone(launch);
    status = gy_copier_flush(d->config.copier, &target, queue, options);
    gy_launch_end_alone(launch);
    gy_launch_count(launch, &d->counters.batched_copies, before - gantry_copy_queue_count(queue));
    return status;
}

gantry_status gantry_copy_queue_flush(gantry_copy_queue *queue, gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(COPY_QUEUE, queue) || GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    return gantry_copy_queue_flush_with(queue, launch, NULL);
}

gantry_status gantry_copy_calibrate(gantry_launch *launch, uint64_t most_bytes)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_copy_calibrate");
    if (status == GANTRY_OK) {
        status = leave_graph(launch, "a calibration waits for the GPU");
    }
    if (status == GANTRY_OK) {
        gy_launch_begin_alone(launch);
        status = gy_copier_calibrate(launch->dispatcher->config.copier, most_bytes);
        gy_launch_end_alone(launch);
    }
    return status;
}

/* `task` keeps one reference more until the GPU has passed what is on `stream`. */
static gantry_status add_completion(gantry_launch *launch, uint32_t stream, gantry_task *task)
{
    gantry_status status = gantry_task_add_reference(task);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    if (d->graphs.capturing && gy_rings_is_full(&d->completion, stream)) {
        /* It will be flushed, which needs events outside of the capture. */
        status = gy_gd_leave_capture(launch);
        if (status != GANTRY_OK) {
            (void)gantry_task_remove_reference(task);
            return status;
        }
    }
    gy_launch_lock(launch);
    status = gy_rings_add(&d->completion, stream, task, launch->flow);
    if (status == GANTRY_OK) {
        gy_gd_count(&d->counters.completions, 1);
        gy_replay_note_completion(d, launch->task, task);
    }
    gy_launch_unlock(launch);
    if (status != GANTRY_OK) {
        (void)gantry_task_remove_reference(task);
    }
    return status;
}

gantry_status gantry_launch_add_completion(gantry_launch *launch, gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch) || GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_add_completion");
    return status == GANTRY_OK ? add_completion(launch, launch->stream_index, task) : status;
}

/* Somewhere on it there is work that the host has not seen passed. */
static bool is_busy(const struct gy_stream *stream)
{
    return stream->running != 0 ||
           atomic_load_explicit(&stream->completed, memory_order_relaxed) < stream->tail;
}

gantry_status gantry_launch_add_completion_of_all(gantry_launch *launch, gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch) || GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_add_completion_of_all");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_replay_forbid(d, launch->task, "it completes a task behind all work of the dispatcher");
    /* Its own stream first: with that reference no later one fails. */
    status = add_completion(launch, launch->stream_index, task);
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        if (i != launch->stream_index && is_busy(&d->streams.streams[i])) {
            status = add_completion(launch, i, task);
        }
    }
    return status;
}

gantry_status gantry_free_after(void *pointer, gantry_launch *launch)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_free_after");
    if (status != GANTRY_OK || pointer == NULL) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_replay_forbid(d, launch->task, "it frees memory");
    /* What is enqueued so far comes before the next position, whichever task closes it. */
    uint64_t position = d->streams.streams[launch->stream_index].tail + 1;
    gy_launch_lock(launch);
    status = gy_deferred_add(&d->deferred, launch->stream_index, position, pointer);
    gy_launch_unlock(launch);
    launch->freed++;
    return status;
}

gantry_status gantry_launch_alloc(gantry_launch *launch, gantry_memory_kind kind, size_t bytes,
                                  size_t alignment, gantry_alloc_site site, void **out)
{
    if (GY_HANDLE_IS_BAD(LAUNCH, launch)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    gantry_status status = check_scope(launch, "gantry_launch_alloc");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    gy_replay_forbid(d, launch->task, "it allocates memory");
    launch->allocated++;
    bool plain = out != NULL && bytes != 0 && (alignment & (alignment - 1)) == 0;
    gy_launch_lock(launch);
    bool taken =
        plain && gy_deferred_take(&d->deferred, launch->stream_index, kind, bytes, alignment, &site, out);
    gy_launch_unlock(launch);
    if (taken) {
        return GANTRY_OK;
    }
    return gantry_heap_alloc(d->config.heap, kind, bytes, alignment, site, out);
}
