/* SPDX-License-Identifier: MIT */
/* A gantry_context puts the rooms together for one CUDA context, in the order of their dependencies, and
 * takes them apart in the reverse order:
 *
 *   gy_context (driver, device) → partitions → heap → copier → GPU times → dispatcher (two threads)
 *
 * Modules hang on the context; those still loaded at its end are unloaded after the dispatcher has waited
 * for the GPU. */
#include "context/context.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/environment.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/proof.h"
#include "base/retired.h"
#include "base/span.h"
#include "driver/device.h"
#include "driver/inside.h"
#include "driver/module.h"
#include "driver/whole.h"
#include "profile/environment.h"
#include "profile/nvtx.h"
#include "taskman/cpu/pool.h"
#include "taskman/gpu_ops.h"

#include <stdlib.h>
#include <string.h>

/* Memory is about to be unmapped, which does not wait for the device.  A fault there would cost everybody who
 * shares the CUDA context that context.  Even a synchronous copy from pageable memory may still be under way
 * when it returns.  A context that is lost to the driver returns at once.  One that is lost only to us, after
 * a failure that left it unknown what is in flight, has work to wait for. */
static void settle(struct gy_context *cuda)
{
    if (gy_whole_wait(cuda) != GANTRY_OK) {
        return; /* what has lost the context is told already */
    }
}

/* Create everything between gy_context_open() and the dispatcher; the CUDA context is current. */
static gantry_status create_rooms(gantry_context *c, const gantry_context_options *options)
{
    gantry_status status = gy_heap_create(c->cuda, options->heap, &c->heap);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_copier_create(c->cuda, c->heap, &c->copier);
    if (status != GANTRY_OK) {
        goto destroy_heap;
    }
    if (options->calibrate_copies != 0) {
        status = gy_copier_calibrate(c->copier, options->calibrate_copies);
        if (status != GANTRY_OK) {
            goto destroy_copier;
        }
    }
    status = gy_gpu_time_create(c->cuda, &c->time);
    if (status != GANTRY_OK) {
        goto destroy_copier;
    }
    const char *synchronous = gy_environment("GANTRY_SYNC");
    struct gy_dispatcher_config config = {
        .owner = c,
        .context = c->cuda,
        .heap = c->heap,
        .copier = c->copier,
        .time = c->time,
        .partitions = c->partitions,
        .stream_limit = options->stream_limit != 0 ? options->stream_limit : GY_STREAMS_DEFAULT,
        .wait =
            options->completion_wait != GANTRY_WAIT_DEFAULT ? options->completion_wait : GANTRY_WAIT_HYBRID,
        .submission = options->submission,
        .device_wide = options->wfi == GANTRY_WFI_DEVICE_WIDE,
        .synchronous = options->synchronous != 0 || gy_proof() != NULL ||
                       (synchronous != NULL && strcmp(synchronous, "1") == 0),
        .single_stream = options->single_stream != 0,
    };
    status = gy_dispatcher_create(&config, &c->dispatcher);
    if (status != GANTRY_OK) {
        goto destroy_time;
    }
    return GANTRY_OK;
destroy_time:
    gy_gpu_time_destroy(c->time);
destroy_copier:
    settle(c->cuda);
    gy_copier_destroy(c->copier);
destroy_heap:
    settle(c->cuda);
    gy_heap_destroy(c->heap);
    return status;
}

static gantry_status import_options(const gantry_context_options *options, gantry_context_options *ours)
{
    *ours = (gantry_context_options){.struct_size = sizeof(*ours)};
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), options, sizeof(size_t) * 2, "gantry_context_options");
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours->stream_limit > GY_STREAMS_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_context_options: stream_limit %u is above %d",
                       ours->stream_limit, GY_STREAMS_MAX);
    }
    if (ours->retired_quota_controller != NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_context_options: quota_controller is \"%.20s\", and shares keep "
                       "$CUDA_DEVICE_SM_LIMIT since 0.2.0: leave it at NULL",
                       ours->retired_quota_controller);
    }
    if (ours->retired_launch_threads != 0) {
        return GY_FAIL(
            GANTRY_ERR_UNSUPPORTED,
            "gantry_context_options: launch_threads is %u, and one thread calls all launch callbacks "
            "since 0.2.0: leave it at 0",
            ours->retired_launch_threads);
    }
    if ((unsigned)ours->completion_wait > GANTRY_WAIT_ADAPTIVE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_context_options: unknown completion_wait %d",
                       (int)ours->completion_wait);
    }
    if ((unsigned)ours->submission > GANTRY_SUBMISSION_AUTO || (unsigned)ours->wfi > GANTRY_WFI_DEVICE_WIDE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_context_options: unknown submission %d or wfi %d",
                       (int)ours->submission, (int)ours->wfi);
    }
    return gy_submission_find(ours->submission, &ours->submission);
}

gantry_status gantry_context_create(const gantry_context_options *options, gantry_context **out)
{
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_context_create: out is NULL");
    }
    gantry_context_options ours;
    gantry_status status = import_options(options, &ours);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_retired_tell();
    (void)gy_checks_read();
    gantry_context *c = gy_zalloc(sizeof(*c));
    if (c == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a context");
    }
    gy_mutex_init(&c->lock, GY_RANK_CONTEXT);
    status = gy_context_open(&ours, &c->cuda);
    if (status != GANTRY_OK) {
        goto free_context;
    }
    gy_nvtx_begin();
    const struct gy_span_ranges *ranges = atomic_load_explicit(&gy_span_ranges, memory_order_acquire);
    if (ranges != NULL) {
        ranges->name_device(c->cuda->device, c->cuda->info.name);
    }
    status = gy_context_push(c->cuda);
    if (status != GANTRY_OK) {
        goto close_cuda;
    }
    status = gy_partitions_create(c->cuda, c, ours.partitions, &c->partitions);
    if (status == GANTRY_OK) {
        status = create_rooms(c, &ours);
    }
    if (status != GANTRY_OK) {
        gy_partitions_destroy(c->partitions);
    }
    (void)gy_context_pop(c->cuda);
    if (status != GANTRY_OK) {
        goto close_cuda;
    }
    gy_profile_environment_enter();
    gy_handle_born(GY_HANDLE_CONTEXT, c, sizeof(*c), sizeof(*c));
    *out = c;
    return GANTRY_OK;
close_cuda:
    gy_context_close(c->cuda);
free_context:
    gy_mutex_fini(&c->lock);
    gy_free(c);
    return status;
}

/* Take the context apart, which nobody uses any more. */
static void tear_down(void *user)
{
    gantry_context *context = user;
    gy_dispatcher_destroy(context->dispatcher);
    bool pushed = gy_context_push(context->cuda) == GANTRY_OK;
    while (context->modules != NULL) {
        context->modules->loads = 1; /* modules that the application still holds end here */
        gantry_module_unload(context->modules);
    }
    gy_gpu_time_destroy(context->time);
    settle(context->cuda);
    if (context->above.give_back != NULL) {
        context->above.give_back(context);
    }
    gy_copier_destroy(context->copier);
    gy_heap_destroy(context->heap);
    gy_partitions_destroy(context->partitions); /* no stream of the library is left */
    if (pushed) {
        (void)gy_context_pop(context->cuda);
    }
    gy_context_close(context->cuda);
    gy_mutex_fini(&context->lock);
    gy_handle_free(context, context);
}

/* False in a child that was forked from the process with the context's threads. */
static bool is_here(const gantry_context *context)
{
    const struct gy_gpu_dispatcher *gpu = (const struct gy_gpu_dispatcher *)context->dispatcher;
    return gpu->forks == gy_thread_forks();
}

void gantry_context_destroy(gantry_context *context)
{
    GY_ACCEPT_OR_LEAVE(CONTEXT, context);
    if (context == NULL || gy_pool_check_outside("gantry_context_destroy") != GANTRY_OK ||
        !is_here(context)) {
        return;
    }
    if (context->is_of_fleet) {
        (void)GY_FAIL(GANTRY_ERR_STATE,
                      "gantry_context_destroy: the context is of a fleet, which destroys it");
        return;
    }
    gy_handle_died(context);
    const struct gy_context_above above = gy_context_above(context);
    if (above.abandon != NULL) {
        above.abandon(context);
    }
    gy_profile_environment_leave(); /* while the GPU's records can still be had */
    if (!gy_dispatcher_abandon(context->dispatcher, tear_down, context)) {
        tear_down(context);
    }
}

gantry_dispatcher *gantry_context_dispatcher(gantry_context *context)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    return context->dispatcher;
}

gantry_heap *gantry_context_heap(gantry_context *context)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    return context->heap;
}

void *gantry_context_native(gantry_context *context)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    return context->cuda->native;
}

bool gantry_context_is_valid(const gantry_context *context)
{
    GY_ACCEPT_OR(false, CONTEXT, context);
    return !gy_context_is_lost(context->cuda);
}

gantry_status gantry_context_acquire(gantry_context *context)
{
    GY_NEED(CONTEXT, context);
    return gy_context_acquire(context->cuda);
}

gantry_status gantry_context_release(gantry_context *context)
{
    GY_NEED(CONTEXT, context);
    return gy_context_pop(context->cuda);
}

bool gantry_context_is_aborted(const gantry_context *context)
{
    GY_ACCEPT_OR(false, CONTEXT, context);
    return gy_context_is_aborted(context->cuda);
}

void gantry_context_clear_abort(gantry_context *context)
{
    GY_ACCEPT_OR_LEAVE(CONTEXT, context);
    if (context != NULL) {
        gy_context_clear_abort(context->cuda);
    }
}

gantry_status gantry_context_memory(gantry_context *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    GY_NEED(CONTEXT, context);
    gantry_status status = gy_context_enter(context->cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    size_t free = 0, total = 0;
    status = GY_CALL(context->cuda, cuMemGetInfo(&free, &total));
    (void)gy_context_pop(context->cuda);
    if (status == GANTRY_OK && free_bytes != NULL) {
        *free_bytes = free;
    }
    if (status == GANTRY_OK && total_bytes != NULL) {
        *total_bytes = total;
    }
    return status;
}

gantry_status gantry_suggest_device(gantry_driver_choice choice, int *out_ordinal)
{
    if (out_ordinal == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_suggest_device: out_ordinal is NULL");
    }
    const struct gy_driver *driver;
    gantry_status status = gy_driver_open(choice, &driver);
    if (status == GANTRY_OK) {
        status = gy_device_suggested_ordinal(driver, out_ordinal);
        gy_driver_close(driver);
    }
    return status;
}

gantry_status gantry_context_device_info(const gantry_context *context, gantry_device_info *info)
{
    GY_NEED(CONTEXT, context);
    return gy_stats_export(info, &context->cuda->info, sizeof(context->cuda->info),
                           "gantry_context_device_info");
}
