/* SPDX-License-Identifier: MIT */
/* The copies and fills that a launch callback may enqueue. */
#include "base/checking.h"
#include "base/handle.h"
#include "base/proof.h"
#include "base/span.h"
#include "copykernel/address.h"
#include "copykernel/box.h"
#include "copykernel/list.h"
#include "copykernel/queue.h"
#include "dispatcher/call/again.h"
#include "dispatcher/call/asked.h"
#include "dispatcher/call/calls.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/call/launch.h"
#include "profile/cta.h"
#include "profile/gpu_time.h"

static bool is_pageable(const gantry_launch *launch, const void *host)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    unsigned type = 0;
    return driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         (CUdeviceptr)(uintptr_t)host) != CUDA_SUCCESS ||
           type == 0;
}

static GY_COLD void tell_pageable(const gantry_launch *launch, const char *call, const void *host,
                                  size_t bytes)
{
    const char *label = gantry_task_label(launch->task);
    if (gy_check_is_first((uintptr_t)call, (uintptr_t)label)) {
        gy_log(GANTRY_LOG_WARNING,
               "task '%s': %s of %zu bytes at %p, which is pageable memory: the callback waits for the "
               "copy%s; take GANTRY_MEMORY_PINNED",
               label, call, bytes, host,
               gy_check_is_on(GY_CHECK_EDGES) ? ", and no edge is looked for there" : "");
    }
}

/* A graph reads pageable memory when it runs, not when it is captured: too late. */
static gantry_status leave_if_pageable(gantry_launch *launch, const char *call, const void *host,
                                       size_t bytes)
{
    const bool is_noted = gy_mode_is_noted(launch),
               is_told = gy_check_is_on(GY_CHECK_BOUNDS | GY_CHECK_EDGES);
    if ((!is_noted && !is_told) || !is_pageable(launch, host)) {
        return GANTRY_OK;
    }
    if (is_told) {
        tell_pageable(launch, call, host, bytes);
    }
    return is_noted ? gy_capture_leave_for_good(launch, "its copy is from or to pageable memory") : GANTRY_OK;
}

static gantry_status check_end(const gantry_launch *launch, const char *call, const char *name,
                               const void *address, size_t bytes, struct gy_copy_end *end)
{
    if (address == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s is NULL", call, name);
    }
    const struct gy_copy_side side = {call, name, address, bytes};
    const struct gy_dispatcher_config *config = &launch->dispatcher->config;
    return gy_copy_check_side(config->context, config->heap, &side, end);
}

/* Check memory that only copies between devices may reach in another way. */
static gantry_status check_side(const gantry_launch *launch, const char *call, const char *name,
                                const void *address, size_t bytes)
{
    struct gy_copy_end end;
    gantry_status status = check_end(launch, call, name, address, bytes, &end);
    if (status == GANTRY_OK && end.unreached != NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: %s %p is memory of a device that this one does not reach", call, name, address);
    }
    return status;
}

static inline void note_copy(const gantry_launch *launch, const void *to, const void *from, size_t bytes)
{
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_note_copy(launch->calls, launch->task, to, from, bytes);
    }
    const struct gy_span_ranges *ranges = atomic_load_explicit(&gy_span_ranges, memory_order_acquire);
    if (__builtin_expect(ranges != NULL, 0)) {
        ranges->mark(GY_RANGE_COPY, gy_task_label(launch->task), bytes);
    }
}

/* The driver has refused the copy for its addresses or its size, and its error does not have them. */
static GY_COLD void name_refused_copy(const char *call, const void *to, const void *from, size_t bytes)
{
    if (gantry_last_native_error() == CUDA_ERROR_INVALID_VALUE) {
        gy_error_put_before("%s of %zu bytes from %p to %p", call, bytes, from, to);
    }
}

/* Copy between host and device, in either direction. */
static gantry_status copy_host(gantry_launch *launch, void *to, const void *from, size_t bytes,
                               bool to_device)
{
    const char *call = to_device ? "gantry_launch_copy_htod" : "gantry_launch_copy_dtoh";
    if (gy_launch_is_asked(launch)) {
        return gy_asked_copy(launch, to, from, bytes);
    }
    gantry_status status = gy_launch_check_scope(launch, call);
    if (status != GANTRY_OK || bytes == 0) {
        return status;
    }
    status = check_side(launch, call, to_device ? "device" : "host", to, bytes);
    if (status == GANTRY_OK) {
        status = check_side(launch, call, to_device ? "host" : "device", from, bytes);
    }
    if (status == GANTRY_OK) {
        status = leave_if_pageable(launch, call, to_device ? from : to, bytes);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gy_context *context = d->config.context;
    if (launch->lane != NULL) {
        status = gy_lane_copy(launch->lane, (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                              to_device ? GY_SIDES_TO_DEVICE : GY_SIDES_TO_HOST);
    } else if (to_device) {
        status = GY_CALL(context, cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, from, bytes, launch->stream));
    } else {
        status = GY_CALL(context, cuMemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, launch->stream));
    }
    if (__builtin_expect(status == GANTRY_ERR_DRIVER, 0)) {
        name_refused_copy(call, to, from, bytes);
    }
    note_copy(launch, to, from, bytes);
    gy_gd_count(&d->counters.works[GD_COPIES], status == GANTRY_OK);
    return status;
}

gantry_status gantry_launch_copy_htod(gantry_launch *launch, void *device, const void *host, size_t bytes)
{
    GY_ACCEPT(LAUNCH, launch);
    return copy_host(launch, device, host, bytes, true);
}

gantry_status gantry_launch_copy_dtoh(gantry_launch *launch, void *host, const void *device, size_t bytes)
{
    GY_ACCEPT(LAUNCH, launch);
    return copy_host(launch, host, device, bytes, false);
}

/* Copy through the host, since one end is on a device that this one does not reach.  No graph takes such a
 * copy. */
static GY_COLD gantry_status copy_through_host(gantry_launch *launch, CUdeviceptr to, CUdeviceptr from,
                                               size_t bytes, const struct gy_copy_end *ends)
{
    static atomic_bool has_warned;
    struct gy_context *context = launch->dispatcher->config.context;
    if (context->driver->cuMemcpyPeerAsync == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_launch_copy_dtod: the driver has no copies between contexts");
    }
    if (gy_mode_is_noted(launch)) {
        gantry_status status =
            gy_capture_leave_for_good(launch, "its copy goes through the host to another device");
        if (status != GANTRY_OK) {
            return status;
        }
    }
    if (!atomic_exchange_explicit(&has_warned, true, memory_order_relaxed)) {
        gy_log(
            GANTRY_LOG_WARNING,
            "task '%s' copies between devices of which one does not reach the other's memory: such copies go "
            "through the host and into no graph; this is said once (gantry_heap_options.peers)",
            gantry_task_label(launch->task));
    }
    const CUcontext to_context = ends[0].unreached != NULL ? ends[0].unreached : context->native;
    const CUcontext from_context = ends[1].unreached != NULL ? ends[1].unreached : context->native;
    return GY_CALL(context, cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, launch->stream));
}

static void count_between(gantry_launch *launch, const struct gy_copy_went *went)
{
    struct gd_counters *counters = &launch->dispatcher->counters;
    for (int by = 0; by < GY_COPY_WAYS; by++) {
        if (__builtin_expect(went->copies[by] != 0, 0)) {
            gy_gd_count(&counters->works[GD_BETWEEN + by], went->copies[by]);
            gy_gd_count(&counters->works[GD_BETWEEN_BYTES + by], went->bytes[by]);
        }
    }
}

/* ---- launches of the copier: batches, lists and boxes ------------------------------------------ */

/* One such launch.  Its steps are copier_prepare(), a note of the call where calls are compared,
 * copier_begin(), the copier's function, and count_between(). */
struct copier_launch {
    struct gy_copy_target target;  /* refers to the two below */
    struct gy_copy_went went;      /* no copies of a list are in it: only the device reads where they go */
    struct gy_cta_request request; /* set while blocks are recorded */
};

/* The memory that such copies use lives as long as the open batch: a call ahead of that batch leaves it. */
static gantry_status copier_prepare(gantry_launch *launch, struct copier_launch *out)
{
    gantry_status status = gy_capture_leave_ahead(launch);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    out->went = (struct gy_copy_went){{0}, {0}, 0};
    out->target =
        (struct gy_copy_target){.stream = launch->stream,
                                .went = &out->went,
                                .lane = launch->lane,
                                .multiprocessors = gantry_launch_partition(launch)->info.granted_sms};
    if (__builtin_expect(gy_profile_generation() != 0, 0)) {
        out->request = gy_launch_cta_request(launch);
        out->target.ctas = gy_gpu_time_ctas(d->config.time);
        out->target.request = &out->request;
    }
    return GANTRY_OK;
}

static struct gy_copier *copier_begin(gantry_launch *launch)
{
    gy_again_before_count(launch);
    return launch->dispatcher->config.copier;
}

/* The proof sees no kernel of ours: it is told what each copy touches. */
static void prove_batch(const gantry_copy_desc *descs, size_t count)
{
    const struct gy_proof_ops *proof = gy_proof();
    for (size_t i = 0; __builtin_expect(proof != NULL, 0) && i < count; i++) {
        if (descs[i].type != GANTRY_COPY_FILL) {
            proof->launch_touch(descs[i].source, descs[i].bytes, GY_PROOF_READ);
        }
        proof->launch_touch(descs[i].dest, descs[i].bytes, GY_PROOF_WRITE);
    }
}

/* Rows one by one, since what lies between them is not touched. */
static void prove_box(const gantry_copy_box *box)
{
    const struct gy_proof_ops *proof = gy_proof();
    for (uint64_t i = 0; __builtin_expect(proof != NULL, 0) && i < box->rows * box->layers; i++) {
        const uint64_t row = i % box->rows, layer = i / box->rows;
        proof->launch_touch((const char *)box->source + row * box->source_pitch +
                                layer * box->source_layer_pitch,
                            box->width, GY_PROOF_READ);
        proof->launch_touch((const char *)box->dest + row * box->dest_pitch + layer * box->dest_layer_pitch,
                            box->width, GY_PROOF_WRITE);
    }
}

static gantry_status launch_batch(gantry_launch *launch, const gantry_copy_desc *descs, size_t count,
                                  const gantry_copy_options *options)
{
    struct copier_launch one;
    gantry_status status = copier_prepare(launch, &one);
    if (status != GANTRY_OK) {
        return status;
    }
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_note_batch(launch->calls, launch->task, descs, count);
    }
    status = gy_copier_launch(copier_begin(launch), &one.target, descs, count, options);
    prove_batch(descs, status == GANTRY_OK ? count : 0);
    count_between(launch, &one.went);
    if (status == GANTRY_OK && count > 0) {
        gy_gd_count(&launch->dispatcher->counters.works[GD_KERNELS], 1);
        gy_gd_count(&launch->dispatcher->counters.works[GD_BATCHED_COPIES], count);
    }
    return status;
}

gantry_status gantry_launch_copy_dtod(gantry_launch *launch, void *to, const void *from, size_t bytes)
{
    static const char call[] = "gantry_launch_copy_dtod";
    GY_ACCEPT(LAUNCH, launch);
    if (gy_launch_is_asked(launch)) {
        return gy_asked_copy(launch, to, from, bytes);
    }
    gantry_status status = gy_launch_check_scope(launch, call);
    if (status != GANTRY_OK || bytes == 0) {
        return status;
    }
    struct gy_copy_end ends[2];
    status = check_end(launch, call, "to", to, bytes, &ends[0]);
    if (status == GANTRY_OK) {
        status = check_end(launch, call, "from", from, bytes, &ends[1]);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    const CUdeviceptr target = (CUdeviceptr)(uintptr_t)to, source = (CUdeviceptr)(uintptr_t)from;
    const bool is_peer = ends[0].is_peer || ends[1].is_peer;
    const bool is_staged = ends[0].unreached != NULL || ends[1].unreached != NULL;
    if (is_peer && !is_staged &&
        gy_copier_takes_one(d->config.copier, ends[0].is_peer ? ends[0].peer : ends[1].peer, !ends[0].is_peer,
                            bytes)) {
        const gantry_copy_desc desc = {.dest = to, .source = from, .bytes = bytes, .type = GANTRY_COPY_DTOD};
        return launch_batch(launch, &desc, 1, NULL);
    }
    if (is_staged) {
        status = copy_through_host(launch, target, source, bytes, ends);
    } else if (launch->lane != NULL) {
        status = gy_lane_copy(launch->lane, target, source, bytes,
                              is_peer ? GY_SIDES_UNKNOWN : GY_SIDES_ON_DEVICE);
    } else {
        status = GY_CALL(d->config.context, cuMemcpyDtoDAsync(target, source, bytes, launch->stream));
    }
    note_copy(launch, to, from, bytes);
    gy_gd_count(&d->counters.works[GD_COPIES], status == GANTRY_OK);
    if (status == GANTRY_OK && is_peer) {
        gy_again_before_count(launch);
        gy_gd_count(&d->counters.works[GD_PEER_COPIES], 1);
        gy_gd_count(&d->counters.staged_copies, is_staged);
        struct gy_copy_went went = {{0}, {0}, 0};
        const enum gy_copy_by by = is_staged ? GY_COPY_BY_HOST : GY_COPY_BY_ENGINE;
        went.copies[by] = 1;
        went.bytes[by] = bytes;
        count_between(launch, &went);
    }
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
    GY_ACCEPT(LAUNCH, launch);
    if (gy_launch_is_asked(launch)) {
        return gy_asked_fill(launch, device, pattern_bytes, count);
    }
    gantry_status status = gy_launch_check_scope(launch, "gantry_launch_fill");
    if (status == GANTRY_OK) {
        status = check_fill(launch, device, pattern_bytes, count);
    }
    if (status != GANTRY_OK || count == 0) {
        return status;
    }
    struct gantry_dispatcher *d = launch->dispatcher;
    const struct gy_fill fill = gy_fill_of((CUdeviceptr)(uintptr_t)device, pattern, pattern_bytes, count);
    status = launch->lane != NULL ? gy_lane_fill(launch->lane, fill)
                                  : gy_fill_enqueue(d->config.context, &fill, launch->stream);
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_note_fill(launch->calls, launch->task, &fill);
    }
    gy_gd_count(&d->counters.works[GD_COPIES], status == GANTRY_OK);
    return status;
}

gantry_status gantry_copy_launch_with(gantry_launch *launch, const gantry_copy_desc *descs, size_t count,
                                      const gantry_copy_options *options)
{
    GY_ACCEPT(LAUNCH, launch);
    const bool is_asked = gy_launch_is_asked(launch);
    gantry_status status = is_asked ? GANTRY_OK : gy_launch_check_scope(launch, "gantry_copy_launch");
    if (status == GANTRY_OK && descs == NULL && count > 0) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_launch: descs is NULL");
    }
    return status != GANTRY_OK ? status
           : is_asked          ? gy_asked_batch(launch, descs, count)
                               : launch_batch(launch, descs, count, options);
}

gantry_status gantry_copy_launch(gantry_launch *launch, const gantry_copy_desc *descs, size_t count)
{
    GY_ACCEPT(LAUNCH, launch);
    return gantry_copy_launch_with(launch, descs, count, NULL);
}

/* Check everything that the host can: the contents of the list are known only once the GPU gets there. */
static GY_COLD gantry_status check_list(gantry_launch *launch, const gantry_copy_list *list)
{
    gantry_status status = gy_capture_leave_for_good(launch, "a list of copies is checked");
    if (status != GANTRY_OK) {
        return status;
    }
    gy_units_forbid(launch, "a list of copies is checked");
    const struct gy_relaxed relaxed = gy_relaxed_begin(launch->dispatcher->config.context);
    status = gy_copier_check_list(copier_begin(launch), launch->stream, list);
    (void)gy_relaxed_end(launch->dispatcher->config.context, &relaxed); /* a failure is in the context */
    return status;
}

gantry_status gantry_copy_launch_list(gantry_launch *launch, const gantry_copy_list *list,
                                      const gantry_copy_options *options)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_copy_list ours;
    gantry_status status = gy_launch_check_scope(launch, "gantry_copy_launch_list");
    status = status == GANTRY_OK ? gy_copy_list_import(list, &ours) : status;
    if (status == GANTRY_OK && gy_check_is_on(GY_CHECK_BOUNDS)) {
        status = check_list(launch, &ours);
    }
    struct copier_launch one;
    status = status == GANTRY_OK ? copier_prepare(launch, &one) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_note_list(launch->calls, launch->task, &ours);
    }
    uint32_t kernels;
    status = gy_copier_launch_list(copier_begin(launch), &one.target, &ours, options, &kernels);
    count_between(launch, &one.went);
    gy_gd_count(&launch->dispatcher->counters.works[GD_KERNELS], kernels);
    return status;
}

gantry_status gantry_copy_launch_box(gantry_launch *launch, const gantry_copy_box *box,
                                     const gantry_copy_options *options)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_copy_box ours;
    if (gy_launch_is_asked(launch)) {
        return gy_asked_box(launch, box);
    }
    gantry_status status = gy_launch_check_scope(launch, "gantry_copy_launch_box");
    status = status == GANTRY_OK ? gy_copy_box_import(box, &ours) : status;
    struct copier_launch one;
    status = status == GANTRY_OK ? copier_prepare(launch, &one) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_note_box(launch->calls, launch->task, &ours);
    }
    bool launched;
    prove_box(&ours);
    status = gy_copier_launch_box(copier_begin(launch), &one.target, &ours, options, &launched);
    count_between(launch, &one.went);
    gy_gd_count(&launch->dispatcher->counters.works[GD_KERNELS], launched);
    return status;
}

gantry_status gantry_copy_queue_flush_with(gantry_copy_queue *queue, gantry_launch *launch,
                                           const gantry_copy_options *options)
{
    GY_ACCEPT(COPY_QUEUE, queue);
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_scope(launch, "gantry_copy_queue_flush");
    if (status != GANTRY_OK) {
        return status;
    }
    if (queue == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_queue_flush: queue is NULL");
    }
    struct copier_launch one;
    status = copier_prepare(launch, &one);
    if (status != GANTRY_OK) {
        return status;
    }
    const size_t before = gantry_copy_queue_count(queue);
    if (__builtin_expect(launch->calls != NULL, 0)) {
        gy_calls_note_batch(launch->calls, launch->task, gy_copy_queue_descs(queue), before);
    }
    prove_batch(gy_copy_queue_descs(queue), before);
    status = gy_copier_flush(copier_begin(launch), &one.target, queue, options);
    count_between(launch, &one.went);
    const size_t flushed = before - gantry_copy_queue_count(queue);
    gy_gd_count(&launch->dispatcher->counters.works[GD_BATCHED_COPIES], flushed);
    gy_gd_count(&launch->dispatcher->counters.works[GD_KERNELS], one.went.kernels);
    launch->dispatcher->graphs.flushed += flushed;
    return status;
}

gantry_status gantry_copy_queue_flush(gantry_copy_queue *queue, gantry_launch *launch)
{
    GY_ACCEPT(COPY_QUEUE, queue);
    GY_ACCEPT(LAUNCH, launch);
    return gantry_copy_queue_flush_with(queue, launch, NULL);
}

gantry_status gantry_copy_calibrate(gantry_launch *launch, uint64_t most_bytes)
{
    GY_ACCEPT(LAUNCH, launch);
    gantry_status status = gy_launch_check_scope(launch, "gantry_copy_calibrate");
    if (status == GANTRY_OK) {
        status = gy_capture_leave_for_good(launch, "a calibration waits for the GPU");
    }
    if (status == GANTRY_OK) {
        status = gy_copier_calibrate(copier_begin(launch), most_bytes);
    }
    return status;
}
