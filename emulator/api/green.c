/* SPDX-License-Identifier: MIT */
/* Descriptors and green contexts. */
#include "emulator/green.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "emulator/capture.h"
#include "emulator/event.h"
#include "emulator/proof.h"
#include "emulator/resource.h"

#include <stdlib.h>
#include <string.h>

struct descriptor {
    struct gy_emu_object object;
    int device;
    struct gy_emu_sm_set sms;
    struct gy_emu_queues workqueues; /* limit 0: none were given */
};

/* Several SM resources fit together only when they are disjoint parts of one split and promise clusters of
 * one size; the remainder, which promises none, fits with any. */
static CUresult collect(const CUdevResource *resources, unsigned int n, struct gy_emu_resource *out)
{
    CUresult result = gy_emu_resource_read(&resources[0], out);
    for (unsigned int i = 1; i < n && result == CUDA_SUCCESS; i++) {
        struct gy_emu_resource part;
        result = gy_emu_resource_read(&resources[i], &part);
        if (result != CUDA_SUCCESS) {
            break;
        }
        bool same_cluster = part.cluster == out->cluster || part.cluster == 0 || out->cluster == 0;
        if (part.device != out->device || part.split != out->split || part.split == 0 || !same_cluster) {
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        }
        out->cluster = part.cluster != 0 ? part.cluster : out->cluster;
        for (size_t w = 0; w < GY_EMU_MAX_SMS / 32; w++) {
            if ((out->sms.words[w] & part.sms.words[w]) != 0) {
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
            }
            out->sms.words[w] |= part.sms.words[w];
        }
    }
    return result;
}

/* There is no call that frees a descriptor; it stays until the process ends, as with the real driver. */
static CUresult generate(CUdevResourceDesc *out, const CUdevResource *resources, unsigned int n)
{
    if (out == NULL || resources == NULL || n == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_resource content;
    struct gy_emu_queues workqueues = {.limit = 0};
    CUresult result = CUDA_SUCCESS;
    if (n > 1 && resources[n - 1].type != CU_DEV_RESOURCE_TYPE_SM) { /* they come last */
        result = resources[n - 1].type == CU_DEV_RESOURCE_TYPE_INVALID
                     ? CUDA_ERROR_INVALID_RESOURCE_TYPE
                     : gy_emu_queues_read(&resources[n - 1], &workqueues);
        n--;
    }
    if (result == CUDA_SUCCESS) {
        result = collect(resources, n, &content);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct descriptor *descriptor = gy_zalloc(sizeof(*descriptor));
    if (descriptor == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    descriptor->device = content.device;
    descriptor->sms = content.sms;
    descriptor->workqueues = workqueues;
    result = gy_emu_handle_open(GY_EMU_DESC, &descriptor->object);
    if (result != CUDA_SUCCESS) {
        gy_free(descriptor);
        return result;
    }
    *out = (CUdevResourceDesc)descriptor->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int n)
{
    return GY_EMU_CALL(cuDevResourceGenerateDesc, generate(desc, resources, n));
}

/* ---- green contexts -------------------------------------------------------------------------- */

/* The number of SMs that are granted fewer than asked for (grant-less=N in $GANTRY_EMU_PROFILE), as some
 * drivers have done. */
static uint32_t withheld(void)
{
    char text[16];
    return gy_emu_setting("grant-less", text, sizeof(text)) ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static CUresult open_green(struct gy_emu_device *device, struct gy_emu_context *primary,
                           const struct descriptor *descriptor, CUgreenCtx *out)
{
    uint16_t sms[GY_EMU_MAX_SMS];
    uint32_t n = 0;
    for (uint32_t sm = 0; sm < device->profile->sm_count; sm++) {
        if (gy_emu_sm_in(&descriptor->sms, sm)) {
            sms[n++] = (uint16_t)sm;
        }
    }
    n -= withheld() < n ? withheld() : 0;
    struct gy_emu_green *green = gy_zalloc(sizeof(*green));
    if (green == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    green->object.context = primary;
    green->workqueues = descriptor->workqueues;
    CUresult result = gy_emu_handle_open(GY_EMU_GREEN, &green->object);
    if (result != CUDA_SUCCESS) {
        goto free_green;
    }
    result = gy_emu_context_open(device, primary, sms, n, &green->context);
    if (result != CUDA_SUCCESS) {
        goto close_handle;
    }
    green->context->green = green;
    *out = (CUgreenCtx)green->object.handle;
    return CUDA_SUCCESS;
close_handle:
    gy_emu_handle_close(&green->object);
free_green:
    gy_free(green);
    return result;
}

static CUresult create(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice ordinal, unsigned int flags)
{
    struct gy_emu_device *device = gy_emu_device_find(ordinal);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (out == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct descriptor *descriptor = gy_emu_handle_find(GY_EMU_DESC, desc);
    if (descriptor == NULL || descriptor->device != ordinal) {
        return descriptor == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_DEVICE;
    }
    struct gy_emu_context *primary;
    CUresult result = gy_emu_primary_retain(device, &primary);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = gy_emu_context_health(primary);
    if (result == CUDA_SUCCESS) {
        result = open_green(device, primary, descriptor, out);
    }
    if (result != CUDA_SUCCESS) {
        gy_emu_primary_release(device);
    }
    return result;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    return GY_EMU_CALL(cuGreenCtxCreate, create(green, desc, device, flags));
}

/* Its work ends first.  Streams of it that still exist can do nothing any more; they cannot even be
 * destroyed. */
static CUresult destroy(CUgreenCtx handle)
{
    struct gy_emu_green *green = gy_emu_handle_find(GY_EMU_GREEN, handle);
    if (green == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct gy_emu_context *context = green->context;
    struct gy_emu_context *root = context->root;
    gy_emu_green_close_handles(green);
    context->green = NULL;
    context->destroyed = true;
    context->graveyard = root->graveyard;
    root->graveyard = context;
    gy_free(green);
    gy_emu_root_drain(root, context);
    gy_emu_primary_release(root->device);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    return GY_EMU_CALL(cuGreenCtxDestroy, destroy(green));
}

static CUresult find(CUgreenCtx handle, struct gy_emu_green **out)
{
    struct gy_emu_green *green = gy_emu_handle_find(GY_EMU_GREEN, handle);
    if (green == NULL) {
        return gy_emu_handle_is_stale(GY_EMU_GREEN, handle) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                            : CUDA_ERROR_INVALID_HANDLE;
    }
    *out = green;
    return gy_emu_context_health(green->context);
}

static CUresult create_stream(CUstream *out, CUgreenCtx handle, unsigned int flags, int priority)
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    if (result == CUDA_SUCCESS && (out == NULL || flags != CU_STREAM_NON_BLOCKING)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_stream *stream;
    if (result == CUDA_SUCCESS) {
        result = gy_emu_stream_make(green->context, flags, priority, &stream);
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUstream)stream->object.handle;
    }
    return result;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    return GY_EMU_CALL(cuGreenCtxStreamCreate, create_stream(stream, green, flags, priority));
}

static CUresult get_context(CUcontext *out, CUgreenCtx handle)
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUcontext)green->context->object.handle;
    }
    return result;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    return GY_EMU_CALL(cuCtxFromGreenCtx, get_context(context, green));
}

/* Write the SMs that kernels of the context run on. */
static void write_sms(const struct gy_emu_context *context, CUdevResource *out)
{
    struct gy_emu_sm_set set = {{0}};
    for (uint32_t i = 0; i < context->sm_count; i++) {
        gy_emu_sm_add(&set, context->sms[i]);
    }
    gy_emu_resource_write(out, context->device->ordinal, 0, 0, &set);
}

/* Write what a context has of a type: its SMs, its work queues, or their configuration. */
static CUresult write_resource(const struct gy_emu_context *context, CUdevResourceType type,
                               CUdevResource *out)
{
    struct gy_emu_queues queues = gy_emu_shared_queues(context->device->ordinal);
    if (context->green != NULL && context->green->workqueues.limit != 0) {
        queues = context->green->workqueues;
    }
    if (type == CU_DEV_RESOURCE_TYPE_SM) {
        write_sms(context, out);
        return CUDA_SUCCESS;
    }
    return gy_emu_queues_write(&queues, type, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

static CUresult get_resource(CUgreenCtx handle, CUdevResource *out, CUdevResourceType type)
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result == CUDA_SUCCESS ? write_resource(green->context, type, out) : result;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
    return GY_EMU_CALL(cuGreenCtxGetDevResource, get_resource(green, resource, type));
}

static CUresult get_context_resource(CUcontext handle, CUdevResource *out, CUdevResourceType type)
{
    struct gy_emu_context *context;
    const bool is_type = type == CU_DEV_RESOURCE_TYPE_SM || gy_emu_has_workqueues();
    if (!is_type || out == NULL) {
        return is_type ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    const CUresult result = gy_emu_context_look(handle, &context);
    return result == CUDA_SUCCESS ? write_resource(context, type, out) : result;
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type)
{
    return GY_EMU_CALL(cuCtxGetDevResource, get_context_resource(context, resource, type));
}

/* ---- events of whole contexts ---------------------------------------------------------------- */

/* Streams of green contexts are part of their root, too. */
static bool is_part_of(const struct gy_emu_stream *stream, const struct gy_emu_context *context)
{
    return context == context->root || stream->object.context == context;
}

static CUresult find_event(CUevent handle, struct gy_emu_event **out)
{
    *out = gy_emu_handle_find(GY_EMU_EVENT, handle);
    return *out == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

/* Record an event of a whole context.  It is gathered on the context's null stream, which waits for every
 * stream and then completes the marker. */
static CUresult record(struct gy_emu_context *context, CUevent event_handle)
{
    struct gy_emu_event *event;
    CUresult result = find_event(event_handle, &event);
    if (result == CUDA_SUCCESS && event->object.context != context->root) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    result = result == CUDA_SUCCESS ? gy_emu_capture_forbids_context(context) : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (struct gy_emu_stream *s = context->root->streams; s != NULL && result == CUDA_SUCCESS;
         s = s->next_in_root) {
        if (is_part_of(s, context) && s != context->null_stream) {
            GY_EMU_PROVE(follow, (context->null_stream, s));
            result = gy_emu_stream_join_own(context->null_stream, s);
        }
    }
    struct gy_emu_marker *marker =
        result == CUDA_SUCCESS ? gy_emu_marker_create(gy_emu_event_keeps_time(event)) : NULL;
    if (marker == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_MARK, .context = context, .marker = marker};
    marker->refs++;
    result = gy_emu_stream_push(context->null_stream, &work);
    if (result == CUDA_SUCCESS) {
        gy_emu_event_attach(event, marker);
        gy_emu_proof_record(event, context->null_stream);
    }
    gy_emu_marker_unref(marker);
    return result;
}

static CUresult wait(struct gy_emu_context *context, CUevent event_handle)
{
    struct gy_emu_event *event;
    CUresult result = find_event(event_handle, &event);
    result = result == CUDA_SUCCESS ? gy_emu_capture_forbids_context(context) : result;
    if (result == CUDA_SUCCESS && gy_emu_capture_has_lost(event)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    result = result == CUDA_SUCCESS && event->capture_id != 0 ? gy_emu_capture_forbids_event(event) : result;
    if (result == CUDA_SUCCESS) {
        GY_EMU_PROVE(follow, (context, event)); /* for streams that are made later */
    }
    for (struct gy_emu_stream *s = context->root->streams; s != NULL && result == CUDA_SUCCESS;
         s = s->next_in_root) {
        if (is_part_of(s, context)) {
            GY_EMU_PROVE(follow, (s, event));
        }
        if (is_part_of(s, context) && event->marker != NULL) {
            struct gy_emu_work work = {
                .kind = GY_EMU_WORK_WAIT, .context = s->object.context, .marker = event->marker};
            event->marker->refs++;
            result = gy_emu_stream_push(s, &work);
        }
    }
    return result;
}

static CUresult on_green(CUgreenCtx handle, CUevent event, CUresult (*call)(struct gy_emu_context *, CUevent))
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    return result == CUDA_SUCCESS ? call(green->context, event) : result;
}

static CUresult on_context(CUcontext handle, CUevent event,
                           CUresult (*call)(struct gy_emu_context *, CUevent))
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_look(handle, &context); /* NULL is no context here */
    result = result == CUDA_SUCCESS ? gy_emu_context_health(context) : result;
    return result == CUDA_SUCCESS ? call(context, event) : result;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    return GY_EMU_CALL(cuGreenCtxRecordEvent, on_green(green, event, record));
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    return GY_EMU_CALL(cuGreenCtxWaitEvent, on_green(green, event, wait));
}

CUresult cuCtxRecordEvent(CUcontext context, CUevent event)
{
    return GY_EMU_CALL(cuCtxRecordEvent, on_context(context, event, record));
}

CUresult cuCtxWaitEvent(CUcontext context, CUevent event)
{
    return GY_EMU_CALL(cuCtxWaitEvent, on_context(context, event, wait));
}

static CUresult get_green(CUstream handle, CUgreenCtx *out)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && stream->is_null) {
        result = gy_emu_capture_forbids_null(stream);
    }
    if (result == CUDA_SUCCESS && gy_emu_capture_is_invalid(stream)) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        const struct gy_emu_green *green = stream->object.context->green;
        *out = green != NULL ? (CUgreenCtx)green->object.handle : NULL;
    }
    return result;
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    return GY_EMU_CALL(cuStreamGetGreenCtx, get_green(stream, green));
}

/* Only SMs can be asked for. */
static CUresult get_stream_resource(CUstream handle, CUdevResource *out, CUdevResourceType type)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && type != CU_DEV_RESOURCE_TYPE_SM) {
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    if (result == CUDA_SUCCESS) {
        write_sms(stream->object.context, out);
    }
    return result;
}

CUresult cuStreamGetDevResource(CUstream stream, CUdevResource *resource, CUdevResourceType type)
{
    return GY_EMU_CALL(cuStreamGetDevResource, get_stream_resource(stream, resource, type));
}
