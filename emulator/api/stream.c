/* SPDX-License-Identifier: MIT */
/* The calls about streams. */
#include "emulator/queue.h"

#include "emulator/capture.h"
#include "emulator/context.h"
#include "emulator/memory.h"
#include "emulator/proof.h"
#include "emulator/watch.h"

/* ---- making, destroying, asking -------------------------------------------------------------- */

static CUresult create(CUstream *out, unsigned int flags, int priority)
{
    struct gy_emu_context *context;
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_stream *stream;
    result = gy_emu_stream_make(context, flags, priority, &stream);
    if (result == CUDA_SUCCESS) {
        *out = (CUstream)stream->object.handle;
    }
    return result;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return GY_EMU_CALL(cuStreamCreate, create(stream, flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    return GY_EMU_CALL(cuStreamCreateWithPriority, create(stream, flags, priority));
}

/* In a failed context the stream is destroyed as well, and the error is returned.  A stream of a destroyed
 * green context cannot be destroyed any more: drivers up to 13.0 behave like that. */
static CUresult destroy(CUstream handle)
{
    struct gy_emu_stream *stream = gy_emu_handle_find(GY_EMU_STREAM, handle);
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = gy_emu_context_health(stream->object.context);
    if (!stream->object.context->destroyed) {
        gy_emu_stream_close(stream);
    }
    return result;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    return GY_EMU_CALL(cuStreamDestroy, destroy(stream));
}

static CUresult get_priority(CUstream handle, int *priority)
{
    struct gy_emu_stream *stream;
    if (priority == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result == CUDA_SUCCESS) {
        *priority = stream->priority;
    }
    return result;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    return GY_EMU_CALL(cuStreamGetPriority, get_priority(stream, priority));
}

static CUresult find_to_ask(CUstream handle, struct gy_emu_stream **out)
{
    CUresult result = gy_emu_stream_find(handle, out);
    return result == CUDA_SUCCESS ? gy_emu_capture_forbids_asking(*out) : result;
}

static CUresult get_context(CUstream handle, CUcontext *out)
{
    struct gy_emu_stream *stream;
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result == CUDA_SUCCESS) {
        *out = (CUcontext)stream->object.context->object.handle;
    }
    return result;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    return GY_EMU_CALL(cuStreamGetCtx, get_context(stream, context));
}

/* No two streams of a process have the same id, even if one was destroyed before the other was made.  A
 * question for the id of a stream under capture breaks the capture. */
static CUresult get_id(CUstream handle, unsigned long long *id)
{
    struct gy_emu_stream *stream;
    if (id == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find_uncaptured(handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        result = gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (result == CUDA_SUCCESS) {
        *id = stream->id;
    }
    return result;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    return GY_EMU_CALL(cuStreamGetId, get_id(stream, id));
}

/* The null stream stands for all streams that order with it. */
static bool is_done(const struct gy_emu_stream *stream)
{
    if (!stream->is_null) {
        return stream->head == NULL;
    }
    for (const struct gy_emu_stream *s = stream->root->streams; s != NULL; s = s->next_in_root) {
        if (gy_emu_stream_stands_for(stream, s) && s->head != NULL) {
            return false;
        }
    }
    return true;
}

static CUresult synchronize(CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = find_to_ask(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    gy_emu_proof_stream_done(stream);
    if (stream->is_null && !is_done(stream)) {
        struct gy_emu_work nothing = {.kind = GY_EMU_WORK_EMPTY, .context = stream->object.context};
        result = gy_emu_stream_push(stream, &nothing);
    }
    return result == CUDA_SUCCESS ? gy_emu_stream_drain(stream) : result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return GY_EMU_CALL(cuStreamSynchronize, synchronize(stream));
}

static CUresult query(CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = find_to_ask(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!is_done(stream)) {
        return CUDA_ERROR_NOT_READY;
    }
    GY_EMU_WATCH(see_done, (stream));
    gy_emu_proof_stream_done(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    return GY_EMU_CALL(cuStreamQuery, query(stream));
}

/* ---- work that is no kernel and no copy ------------------------------------------------------ */

static CUresult launch_host(CUstream handle, CUhostFn function, void *user)
{
    struct gy_emu_stream *stream;
    if (function == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_HOST, .context = stream->object.context};
    work.host.function = function;
    work.host.user = user;
    return gy_emu_stream_submit(stream, &work);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
    return GY_EMU_CALL(cuLaunchHostFunc, launch_host(stream, function, user));
}

static CUresult submit_value(enum gy_emu_work_kind kind, CUstream handle, CUdeviceptr address, uint32_t value,
                             unsigned int flags, unsigned int max_flags)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result == CUDA_SUCCESS && (address % sizeof(uint32_t) != 0 || flags > max_flags)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        result = kind == GY_EMU_WORK_WRITE_VALUE
                     ? gy_emu_memory_check_written(GY_EMU_SIDE_DEVICE, address, sizeof(uint32_t))
                     : gy_emu_memory_check(GY_EMU_SIDE_DEVICE, address, sizeof(uint32_t));
    }
    if (result == CUDA_SUCCESS && stream->capture == NULL &&
        gy_emu_memory_is_foreign(stream->object.context, (uintptr_t)address) >= 0) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_work work = {.kind = kind, .context = stream->object.context};
    work.value.address = (uint32_t *)(uintptr_t)address;
    work.value.value = value;
    work.value.flags = flags;
    return gy_emu_stream_submit(stream, &work);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return GY_EMU_CALL(cuStreamWriteValue32, submit_value(GY_EMU_WORK_WRITE_VALUE, stream, address, value,
                                                          flags, CU_STREAM_WRITE_VALUE_DEFAULT));
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return GY_EMU_CALL(cuStreamWaitValue32, submit_value(GY_EMU_WORK_WAIT_VALUE, stream, address, value,
                                                         flags, CU_STREAM_WAIT_VALUE_NOR));
}
