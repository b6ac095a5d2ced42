/* SPDX-License-Identifier: MIT */
/* Streams: opened, found and closed. */
#include "emulator/queue.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/context.h"
#include "emulator/places.h"
#include "emulator/proof.h"

#include <pthread.h>

#define LEGACY ((uintptr_t)1)
#define PER_THREAD ((uintptr_t)2)
#define GREATEST_PRIORITY (-5)

static uint64_t streams_ever;

CUresult gy_emu_stream_open(struct gy_emu_context *context, unsigned int flags, int priority,
                            struct gy_emu_stream **out)
{
    struct gy_emu_stream *stream = gy_zalloc(sizeof(*stream));
    if (stream == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = gy_emu_handle_open(GY_EMU_STREAM, &stream->object);
    if (result != CUDA_SUCCESS) {
        gy_free(stream);
        return result;
    }
    stream->object.context = context;
    stream->root = context->root;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
    stream->id = ++streams_ever;
    stream->next_in_root = stream->root->streams;
    if (stream->next_in_root != NULL) {
        stream->next_in_root->prev_in_root = stream;
    }
    stream->root->streams = stream;
    GY_EMU_PROVE(follow, (stream, context));
    GY_EMU_PROVE(follow, (stream, stream->root));
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult gy_emu_stream_make(struct gy_emu_context *context, unsigned int flags, int priority,
                            struct gy_emu_stream **out)
{
    void *const handle = (void *)context->object.handle;
    CUresult result = gy_emu_places_take(context->root, 1);
    context = gy_emu_handle_find(GY_EMU_CONTEXT, handle);
    if (result == CUDA_SUCCESS && context == NULL) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    result = result == CUDA_SUCCESS ? gy_emu_stream_open(context, flags, priority, out) : result;
    if (result == CUDA_SUCCESS) {
        (*out)->has_place = true;
    }
    return result;
}

void gy_emu_stream_close(struct gy_emu_stream *stream)
{
    if (stream->has_place) {
        gy_emu_places_give(stream->root->object.handle, 1);
    }
    gy_emu_capture_abandon(stream);
    gy_emu_handle_close(&stream->object);
    if (stream->head == NULL) {
        gy_emu_stream_free(stream);
    } else {
        stream->zombie = true;
    }
}

/* Find the per-thread stream of the calling thread.  It is made at its first use, and lives as long as the
 * context. */
static CUresult find_per_thread(struct gy_emu_context *context, struct gy_emu_stream **out)
{
    unsigned long self = (unsigned long)pthread_self();
    for (struct gy_emu_stream *s = context->root->streams; s != NULL; s = s->next_in_root) {
        if (s->thread == self && s->object.context == context) {
            *out = s;
            return CUDA_SUCCESS;
        }
    }
    if (context->green != NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = gy_emu_stream_open(context, CU_STREAM_DEFAULT, 0, out);
    if (result == CUDA_SUCCESS) {
        (*out)->thread = self;
        gy_emu_handle_close(&(*out)->object);
    }
    return result;
}

CUresult gy_emu_stream_find(CUstream handle, struct gy_emu_stream **out)
{
    if ((uintptr_t)handle <= PER_THREAD) {
        struct gy_emu_context *context;
        CUresult result = gy_emu_context_current(&context);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        if ((uintptr_t)handle == PER_THREAD) {
            return find_per_thread(context, out);
        }
        *out = context->null_stream;
        return CUDA_SUCCESS;
    }
    struct gy_emu_stream *stream = gy_emu_handle_find(GY_EMU_STREAM, handle);
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = stream;
    return gy_emu_context_health(stream->object.context);
}

CUresult gy_emu_stream_find_for_work(CUstream handle, struct gy_emu_stream **out)
{
    CUresult result =
        gy_emu_stream_find(handle, out); /* no context need be current, unless it tells which stream */
    if (result == CUDA_SUCCESS && (*out)->is_null) {
        result = gy_emu_capture_forbids_null(*out);
    }
    /* Whatever else may be wrong with the call. */
    return result == CUDA_SUCCESS && gy_emu_capture_is_invalid(*out) ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                                     : result;
}

CUresult gy_emu_stream_find_uncaptured(CUstream handle, struct gy_emu_stream **out)
{
    const CUresult result = gy_emu_stream_find_for_work(handle, out);
    return result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : result;
}

CUresult gy_emu_stream_submit(struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    return stream->capture != NULL ? gy_emu_capture_add(stream, work) : gy_emu_stream_push(stream, work);
}
