/* SPDX-License-Identifier: MIT */
/* Copies of rows: between arrays and linear memory on either side of the bus, or within either. */
#include "emulator/image.h"
#include "emulator/memory.h"

struct found_rows {
    char *first;
    size_t pitch;
    CUarray array;
    enum gy_emu_side side;
};

struct place {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch, x, y;
};

static CUresult find_in_array(const struct place *place, size_t width, size_t height, struct found_rows *out)
{
    const struct gy_emu_array *array = gy_emu_array_find(place->array);
    if (array == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (place->x > array->row_bytes || width > array->row_bytes - place->x || place->y > array->rows ||
        height > array->rows - place->y) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = (struct found_rows){array->bytes + place->y * array->pitch + place->x, array->pitch, place->array,
                               GY_EMU_SIDE_DEVICE};
    return CUDA_SUCCESS;
}

static CUresult find_rows(const struct place *place, size_t width, size_t height, struct found_rows *out)
{
    if (place->type == CU_MEMORYTYPE_ARRAY) {
        return find_in_array(place, width, height, out);
    }
    const bool is_host = place->type == CU_MEMORYTYPE_HOST;
    const size_t pitch = place->pitch != 0 ? place->pitch : place->x + width; /* 0: rows without a gap */
    if ((!is_host && place->type != CU_MEMORYTYPE_DEVICE && place->type != CU_MEMORYTYPE_UNIFIED) ||
        place->x > pitch || width > pitch - place->x || pitch > SIZE_MAX / (place->y + height + 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const uintptr_t base = is_host ? (uintptr_t)place->host : (uintptr_t)place->device;
    *out = (struct found_rows){.first = (char *)(base + place->y * pitch + place->x),
                               .pitch = pitch,
                               .side = is_host                               ? GY_EMU_SIDE_HOST
                                       : place->type == CU_MEMORYTYPE_DEVICE ? GY_EMU_SIDE_DEVICE
                                                                             : GY_EMU_SIDE_ANY};
    return CUDA_SUCCESS;
}

static CUresult check(const struct gy_emu_context *context, const struct found_rows *rows, size_t width,
                      size_t height)
{
    const size_t bytes = gy_emu_rows_bytes(rows->pitch, width, height);
    const CUdeviceptr first = (uintptr_t)rows->first;
    CUresult result = gy_emu_memory_check(rows->side, first, bytes);
    return result == CUDA_SUCCESS && !gy_emu_memory_is_granted(context, first, bytes)
               ? CUDA_ERROR_INVALID_VALUE
               : result;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *copy, CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (copy == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (copy->WidthInBytes == 0 || copy->Height == 0) {
        return CUDA_SUCCESS;
    }
    const struct place from = {copy->srcMemoryType, copy->srcHost,     copy->srcDevice, copy->srcArray,
                               copy->srcPitch,      copy->srcXInBytes, copy->srcY};
    const struct place to = {copy->dstMemoryType, copy->dstHost,     copy->dstDevice, copy->dstArray,
                             copy->dstPitch,      copy->dstXInBytes, copy->dstY};
    const size_t width = copy->WidthInBytes, height = copy->Height;
    const struct gy_emu_context *context = stream->object.context;
    struct found_rows source, target;
    result = find_rows(&from, width, height, &source);
    result = result == CUDA_SUCCESS ? find_rows(&to, width, height, &target) : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = check(context, &source, width, height);
    result = result == CUDA_SUCCESS ? check(context, &target, width, height) : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_COPY_ROWS, .context = stream->object.context};
    work.copy_rows.to = target.first;
    work.copy_rows.from = source.first;
    work.copy_rows.to_pitch = target.pitch;
    work.copy_rows.from_pitch = source.pitch;
    work.copy_rows.to_array = target.array;
    work.copy_rows.from_array = source.array;
    work.copy_rows.width = width;
    work.copy_rows.height = height;
    const bool waits = stream->capture == NULL && !gy_emu_stream_is_noop(stream) &&
                       (gy_emu_memory_is_pageable((uintptr_t)source.first) ||
                        gy_emu_memory_is_pageable((uintptr_t)target.first));
    result = gy_emu_stream_submit(stream, &work);
    return result == CUDA_SUCCESS && waits ? gy_emu_stream_drain(stream) : result;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return GY_EMU_CALL(cuMemcpy2DAsync, copy_rows(copy, stream));
}
