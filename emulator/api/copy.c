/* SPDX-License-Identifier: MIT */
/* Copies and fills.  Both ends are checked at the call; a copy of memory that is not pinned waits for its
 * end, except that a small copy is staged, as in the real driver. */
#include "emulator/memory.h"

#include "base/alloc.h"
#include "emulator/capture.h"

#include <string.h>

#define STAGED_BYTES ((size_t)64 << 10)
#define ALL_BATCH_FLAGS 1u /* beside computing; it changes nothing here */

struct copy {
    CUdeviceptr to, from;
    size_t bytes;
    enum gy_emu_side to_side, from_side;
};

/* What is not granted fails at the call, and no context breaks, as on a device. */
static bool is_granted(const struct gy_emu_context *context, const struct copy *copy)
{
    return gy_emu_memory_is_granted(context, copy->to, copy->bytes) &&
           gy_emu_memory_is_granted(context, copy->from, copy->bytes);
}

static CUresult check(const struct copy *copy)
{
    CUresult result = gy_emu_memory_check_written(copy->to_side, copy->to, copy->bytes);
    return result == CUDA_SUCCESS ? gy_emu_memory_check(copy->from_side, copy->from, copy->bytes) : result;
}

/* The driver keeps the bytes of a small copy from pageable memory and returns: also that of cuMemcpyHtoD(),
 * which the device may not have done by then. */
static bool gets_staged(const struct copy *copy, bool synchronous)
{
    return gy_emu_memory_is_pageable(copy->from) && copy->bytes <= STAGED_BYTES &&
           (!synchronous || copy->to_side == GY_EMU_SIDE_DEVICE);
}

/* A synchronous copy waits for what is before it, though. */
static CUresult stage(struct gy_emu_stream *stream, struct gy_emu_work *work, bool synchronous)
{
    const CUresult result = synchronous ? gy_emu_stream_drain(stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    work->copy.staged = gy_alloc_aligned(work->copy.bytes, 16);
    if (work->copy.staged == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(work->copy.staged, work->copy.from, work->copy.bytes);
    work->copy.from = work->copy.staged;
    return CUDA_SUCCESS;
}

static CUresult submit(struct gy_emu_stream *stream, const struct copy *copy, bool synchronous)
{
    CUresult result = is_granted(stream->object.context, copy) ? check(copy) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS || copy->bytes == 0) {
        return result;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_COPY, .context = stream->object.context};
    work.copy.to = (char *)(uintptr_t)copy->to;
    work.copy.from = (const char *)(uintptr_t)copy->from;
    work.copy.bytes = copy->bytes;
    bool waits = synchronous;
    if (stream->capture == NULL && !gy_emu_stream_is_noop(stream)) {
        const bool is_staged = gets_staged(copy, synchronous);
        if (is_staged && (result = stage(stream, &work, synchronous)) != CUDA_SUCCESS) {
            return result;
        }
        waits = (waits && !is_staged) || gy_emu_memory_is_pageable(copy->to) ||
                (gy_emu_memory_is_pageable(copy->from) && !is_staged);
    }
    result = gy_emu_stream_submit(stream, &work);
    return result == CUDA_SUCCESS && waits ? gy_emu_stream_drain(stream) : result;
}

static CUresult copy_async(CUstream handle, const struct copy *copy)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    return result == CUDA_SUCCESS ? submit(stream, copy, false) : result;
}

static CUresult copy_now(const struct copy *copy)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(NULL, &stream); /* no capture of its thread forbids it */
    return result == CUDA_SUCCESS ? submit(stream, copy, true) : result;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    const struct copy copy = {to, (uintptr_t)from, bytes, GY_EMU_SIDE_DEVICE, GY_EMU_SIDE_HOST};
    return GY_EMU_CALL(cuMemcpyHtoD, copy_now(&copy));
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    const struct copy copy = {(uintptr_t)to, from, bytes, GY_EMU_SIDE_HOST, GY_EMU_SIDE_DEVICE};
    return GY_EMU_CALL(cuMemcpyDtoH, copy_now(&copy));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const struct copy copy = {to, from, bytes, GY_EMU_SIDE_ANY, GY_EMU_SIDE_ANY};
    return GY_EMU_CALL(cuMemcpyAsync, copy_async(stream, &copy));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    const struct copy copy = {to, (uintptr_t)from, bytes, GY_EMU_SIDE_DEVICE, GY_EMU_SIDE_HOST};
    return GY_EMU_CALL(cuMemcpyHtoDAsync, copy_async(stream, &copy));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const struct copy copy = {(uintptr_t)to, from, bytes, GY_EMU_SIDE_HOST, GY_EMU_SIDE_DEVICE};
    return GY_EMU_CALL(cuMemcpyDtoHAsync, copy_async(stream, &copy));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const struct copy copy = {to, from, bytes, GY_EMU_SIDE_DEVICE, GY_EMU_SIDE_DEVICE};
    return GY_EMU_CALL(cuMemcpyDtoDAsync, copy_async(stream, &copy));
}

/* ---- between contexts ------------------------------------------------------------------------ */

/* A copy that names the contexts of both ends, which need no access to each other. */
struct peer_copy {
    struct copy copy;
    CUcontext to_context, from_context;
};

/* NULL: the stream's context. */
static CUresult find_end(CUcontext handle, const struct gy_emu_stream *stream, struct gy_emu_context **out)
{
    *out = stream->object.context;
    return handle != NULL ? gy_emu_context_find(handle, out) : CUDA_SUCCESS;
}

static CUresult copy_peer(CUstream handle, const struct peer_copy *peer)
{
    struct gy_emu_stream *stream;
    struct gy_emu_context *to, *from;
    CUresult result = gy_emu_stream_find_uncaptured(handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        return gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (result == CUDA_SUCCESS && peer->copy.bytes == 0) {
        return CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        result = find_end(peer->to_context, stream, &to);
    }
    if (result == CUDA_SUCCESS) {
        result = find_end(peer->from_context, stream, &from);
    }
    if (result == CUDA_SUCCESS && !is_granted(stream->object.context, &peer->copy) &&
        !(gy_emu_memory_is_granted(to, peer->copy.to, peer->copy.bytes) &&
          gy_emu_memory_is_granted(from, peer->copy.from, peer->copy.bytes))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        result = check(&peer->copy);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_COPY, .context = stream->object.context};
    work.copy.to = (char *)(uintptr_t)peer->copy.to;
    work.copy.from = (const char *)(uintptr_t)peer->copy.from;
    work.copy.bytes = peer->copy.bytes;
    return gy_emu_stream_submit(stream, &work);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream)
{
    const struct peer_copy peer = {
        {to, from, bytes, GY_EMU_SIDE_DEVICE, GY_EMU_SIDE_DEVICE}, to_context, from_context};
    return GY_EMU_CALL(cuMemcpyPeerAsync, copy_peer(stream, &peer));
}

/* ---- batches --------------------------------------------------------------------------------- */

struct batch {
    const CUdeviceptr *to, *from;
    const size_t *bytes;
    size_t count;
    const CUmemcpyAttributes *attributes;
    const size_t *starts;
    size_t attribute_count;
};

static bool has_valid_attributes(const struct batch *batch)
{
    if (batch->attribute_count == 0 || batch->attributes == NULL || batch->starts == NULL ||
        batch->attribute_count > batch->count || batch->starts[0] != 0) {
        return false;
    }
    for (size_t i = 0; i < batch->attribute_count; i++) {
        CUmemcpySrcAccessOrder order = batch->attributes[i].srcAccessOrder;
        if (batch->attributes[i].flags > ALL_BATCH_FLAGS || order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
            order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY || (i > 0 && batch->starts[i] <= batch->starts[i - 1]) ||
            batch->starts[i] >= batch->count) {
            return false;
        }
    }
    return true;
}

static struct copy batch_entry(const struct batch *batch, size_t i)
{
    return (struct copy){batch->to[i], batch->from[i], batch->bytes[i], GY_EMU_SIDE_ANY, GY_EMU_SIDE_ANY};
}

/* Enqueue a batch up to the first copy that is refused, as on an H200.  The null stream is not allowed. */
static CUresult copy_batch(const struct batch *batch, size_t *failed_index, CUstream handle)
{
    struct gy_emu_context *current;
    struct gy_emu_stream *stream;
    if ((uintptr_t)handle <= 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result == CUDA_SUCCESS && gy_emu_context_look_current(&current) != CUDA_SUCCESS) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    size_t ignored;
    size_t *failed = failed_index != NULL ? failed_index : &ignored;
    *failed = SIZE_MAX;
    if (batch->to == NULL || batch->from == NULL || batch->bytes == NULL || batch->count == 0 ||
        !has_valid_attributes(batch)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->capture != NULL) { /* it goes on, as was seen on a device: only these copies are missing */
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++) {
        struct copy copy = batch_entry(batch, i);
        result = copy.bytes != 0 ? submit(stream, &copy, false) : CUDA_ERROR_INVALID_VALUE;
        *failed = result == CUDA_SUCCESS ? SIZE_MAX : i;
    }
    return result;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *attribute_starts, size_t attribute_count,
                            size_t *failed_index, CUstream stream)
{
    const struct batch batch = {to, from, bytes, count, attributes, attribute_starts, attribute_count};
    return GY_EMU_CALL(cuMemcpyBatchAsync, copy_batch(&batch, failed_index, stream));
}

/* ---- fills ----------------------------------------------------------------------------------- */

static CUresult fill(CUdeviceptr address, uint32_t value, uint32_t width, size_t count, CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    size_t bytes;
    if (count == 0) {
        return CUDA_SUCCESS;
    }
    if (address % width != 0 || __builtin_mul_overflow(count, (size_t)width, &bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    result = gy_emu_memory_check_written(GY_EMU_SIDE_DEVICE, address, bytes);
    if (result != CUDA_SUCCESS || bytes == 0) {
        return result;
    }
    if (!gy_emu_memory_is_granted(stream->object.context, address, bytes) ||
        (stream->capture == NULL &&
         gy_emu_memory_is_foreign(stream->object.context, (uintptr_t)address) >= 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_FILL, .context = stream->object.context};
    work.fill.to = (char *)(uintptr_t)address;
    work.fill.count = count;
    work.fill.value = value;
    work.fill.width = width;
    return gy_emu_stream_submit(stream, &work);
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream)
{
    return GY_EMU_CALL(cuMemsetD8Async, fill(address, value, 1, count, stream));
}

CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count, CUstream stream)
{
    return GY_EMU_CALL(cuMemsetD16Async, fill(address, value, 2, count, stream));
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count, CUstream stream)
{
    return GY_EMU_CALL(cuMemsetD32Async, fill(address, value, 4, count, stream));
}
