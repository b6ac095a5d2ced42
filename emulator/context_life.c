/* SPDX-License-Identifier: MIT */
/* The lives of contexts: made with their null stream and the device's threads, ended with all that belongs to
 * them. */
#include "emulator/context.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/event.h"
#include "emulator/graph.h"
#include "emulator/green.h"
#include "emulator/image.h"
#include "emulator/memory.h"
#include "emulator/module.h"
#include "emulator/places.h"
#include "emulator/proof.h"
#include "emulator/semaphore.h"
#include "emulator/worker.h"

CUresult gy_emu_context_open(struct gy_emu_device *device, struct gy_emu_context *root, const uint16_t *sms,
                             uint32_t sm_count, struct gy_emu_context **out)
{
    CUresult result = gy_emu_process_failure() != CUDA_SUCCESS ? gy_emu_process_failure()
                                                               : gy_emu_crews_start(device->ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_context *context = gy_zalloc(sizeof(*context));
    if (context == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->device = device;
    context->root = root != NULL ? root : context;
    context->object.context = context;
    context->sm_count = sms != NULL ? sm_count : device->profile->sm_count;
    for (uint32_t i = 0; i < context->sm_count; i++) {
        context->sms[i] = sms != NULL ? sms[i] : (uint16_t)i;
    }
    context->places_room = GY_EMU_PLACES_FIRST;
    result = gy_emu_handle_open(GY_EMU_CONTEXT, &context->object);
    if (result != CUDA_SUCCESS) {
        goto free_context;
    }
    result = gy_emu_stream_open(context, CU_STREAM_DEFAULT, 0, &context->null_stream);
    if (result != CUDA_SUCCESS) {
        goto close_handle;
    }
    gy_emu_handle_close(&context->null_stream->object); /* it is known as 0, never by a handle */
    context->null_stream->is_null = true;
    *out = context;
    return CUDA_SUCCESS;
close_handle:
    gy_emu_handle_close(&context->object);
free_context:
    gy_free(context);
    return result;
}

static bool is_idle(const struct gy_emu_context *root)
{
    for (const struct gy_emu_stream *s = root->streams; s != NULL; s = s->next_in_root) {
        if (s->head != NULL) {
            return false;
        }
    }
    return true;
}

void gy_emu_green_close_handles(struct gy_emu_green *green)
{
    gy_emu_handle_close(&green->context->object);
    gy_emu_handle_close(&green->object);
}

void gy_emu_green_close(struct gy_emu_green *green)
{
    gy_emu_green_close_handles(green);
    GY_EMU_PROVE(gone, (green->context));
    gy_free(green->context);
    gy_free(green);
}

/* Close everything of `kind` that belongs to `root`. */
static void close_objects(struct gy_emu_context *root, enum gy_emu_kind kind)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(kind, &cursor)) != NULL) {
        if (object->context == NULL || object->context->root != root) {
            continue;
        }
        if (kind == GY_EMU_EVENT) {
            gy_emu_event_close((struct gy_emu_event *)(void *)object);
        } else if (kind == GY_EMU_MODULE) {
            gy_emu_module_close((struct gy_emu_module *)(void *)object);
        } else if (kind == GY_EMU_GREEN) {
            gy_emu_green_close((struct gy_emu_green *)(void *)object);
        }
    }
}

void gy_emu_context_close(struct gy_emu_context *context)
{
    gy_emu_handle_close(&context->object);
    if ((gy_emu_held() >> context->device->ordinal & 1) != 0 || gy_emu_process_failure() != CUDA_SUCCESS ||
        gy_emu_spread_is_held()) {
        gy_emu_root_discard(context);
    }
    while (!is_idle(context)) {
        gy_emu_root_drain(context, NULL);
    }
    gy_emu_graphs_forget(context);
    close_objects(context, GY_EMU_EVENT);
    close_objects(context, GY_EMU_MODULE);
    struct gy_emu_stream *stream;
    while ((stream = context->streams) != NULL) {
        gy_emu_capture_abandon(stream);
        if (stream->object.handle != 0) {
            gy_emu_handle_close(&stream->object);
        }
        gy_emu_stream_free(stream);
    }
    close_objects(context, GY_EMU_GREEN);
    while (context->graveyard != NULL) {
        struct gy_emu_context *dead = context->graveyard;
        context->graveyard = dead->graveyard;
        GY_EMU_PROVE(gone, (dead));
        gy_free(dead);
    }
    gy_emu_images_close_all(context);
    gy_emu_external_close_all(context);
    gy_emu_semaphores_close_all(context);
    gy_emu_memory_free_all(context);
    GY_EMU_PROVE(gone, (context));
    GY_EMU_PROVE(gone, (&context->streams));
    gy_free(context);
}

void gy_emu_failed_work_end(void)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_CONTEXT, &cursor)) != NULL) {
        struct gy_emu_context *root = ((struct gy_emu_context *)(void *)object)->root;
        if (root->sticky != CUDA_SUCCESS && !is_idle(root)) {
            (void)gy_emu_root_drain(root, NULL);
            cursor = 0; /* the lock was given up, so look again */
        }
    }
}

CUresult gy_emu_primary_retain(struct gy_emu_device *device, struct gy_emu_context **out)
{
    if (device->primary == NULL) {
        CUresult result = gy_emu_context_open(device, NULL, NULL, 0, &device->primary);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        device->primary->flags = device->primary_flags;
    }
    device->primary_refs++;
    *out = device->primary;
    return CUDA_SUCCESS;
}

void gy_emu_primary_release(struct gy_emu_device *device)
{
    if (--device->primary_refs == 0) {
        struct gy_emu_context *primary = device->primary;
        device->primary = NULL;
        gy_emu_context_close(primary);
    }
}
