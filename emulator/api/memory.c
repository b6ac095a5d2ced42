/* SPDX-License-Identifier: MIT */
/* The calls that allocate and free memory. */
#include "emulator/memory.h"

#include "base/alloc.h"
#include "emulator/capture.h"

#define PAGE ((uintptr_t)4096)
#define ASYNC_ALIGNMENT ((size_t)512)
#define ALL_HOST_ALLOC_FLAGS \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define ALL_REGISTER_FLAGS 0xbu /* no memory of other devices */

static size_t round_up(size_t bytes, size_t step)
{
    return bytes > SIZE_MAX - step ? SIZE_MAX : (bytes + step - 1) / step * step;
}

/* Find the current context for a call that is not allowed while this thread captures. */
static CUresult find_context(struct gy_emu_context **out)
{
    CUresult result = gy_emu_context_current(out);
    return result == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : result;
}

static CUresult get_info(size_t *free_bytes, size_t *total_bytes)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (total_bytes != NULL) {
        *total_bytes = context->device->profile->memory_bytes;
    }
    if (free_bytes != NULL) {
        *free_bytes = context->device->profile->memory_bytes - context->device->used_bytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    return GY_EMU_CALL(cuMemGetInfo, get_info(free_bytes, total_bytes));
}

static CUresult allocate_in(struct gy_emu_context *context, enum gy_emu_region_kind kind, size_t bytes,
                            size_t charge, struct gy_emu_region **out)
{
    if (!gy_emu_budget_take(context->device, charge)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = gy_emu_region_open(kind, bytes, 0, out);
    if (result != CUDA_SUCCESS) {
        gy_emu_budget_give(context->device, charge);
        return result;
    }
    (*out)->context = context->root;
    (*out)->device = context->device;
    (*out)->charged = charge;
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes)
{
    struct gy_emu_context *context;
    CUresult result = find_context(&context);
    if (result == CUDA_SUCCESS && (out == NULL || bytes == 0)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_region *region;
    if (result == CUDA_SUCCESS) {
        result = allocate_in(context, GY_EMU_REGION_DEVICE, bytes, round_up(bytes, GY_EMU_GRANULE), &region);
    }
    if (result == CUDA_SUCCESS) {
        *out = region->base;
    }
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    return GY_EMU_CALL(cuMemAlloc, allocate(address, bytes));
}

/* Find the block that begins at `address` and is of one of the two kinds. */
static struct gy_emu_region *find_block(uintptr_t address, enum gy_emu_region_kind kind,
                                        enum gy_emu_region_kind other)
{
    struct gy_emu_region *region = gy_emu_memory_find(address);
    bool is_block = region != NULL && region->base == address && !region->freeing &&
                    (region->kind == kind || region->kind == other);
    return is_block ? region : NULL;
}

/* As on a device, freeing waits for all work of the context.  A failed context has none left; its memory is
 * freed, and the error is returned. */
static CUresult free_block(CUdeviceptr address, enum gy_emu_region_kind kind, enum gy_emu_region_kind other)
{
    struct gy_emu_region *region = find_block((uintptr_t)address, kind, other);
    if (region == NULL) {
        const CUresult refused = gy_emu_capture_forbids_unsafe();
        if (refused != CUDA_SUCCESS) {
            return refused;
        }
    }
    if (region == NULL) {
        return address == 0 && kind != GY_EMU_REGION_REGISTERED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_context *root = region->context;
    CUresult result = gy_emu_capture_forbids_unsafe();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    gy_emu_memory_set_freeing(region, true); /* nobody else can free it while the lock is given up */
    CUcontext handle = (CUcontext)root->object.handle;
    gy_emu_root_drain(root, NULL);
    if (gy_emu_handle_find(GY_EMU_CONTEXT, handle) != root) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED; /* destroying the context has freed it */
    }
    result = gy_emu_context_health(root);
    gy_emu_memory_free(region);
    return result;
}

static CUresult free_device(CUdeviceptr address)
{
    return free_block(address, GY_EMU_REGION_DEVICE, GY_EMU_REGION_ASYNC);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    return GY_EMU_CALL(cuMemFree, free_device(address));
}

/* ---- stream order ---------------------------------------------------------------------------- */

/* When memory is short, this waits for frees that are queued. */
static CUresult allocate_async(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        result = gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_context *context = stream->object.context;
    CUcontext context_handle = (CUcontext)context->object.handle;
    struct gy_emu_region *region;
    size_t charge = round_up(bytes, ASYNC_ALIGNMENT);
    while ((result = allocate_in(context, GY_EMU_REGION_ASYNC, bytes, charge, &region)) ==
               CUDA_ERROR_OUT_OF_MEMORY &&
           gy_emu_memory_awaits_frees() && gy_emu_held() == 0) {
        gy_emu_wait_progress();
        CUresult health = gy_emu_context_find(context_handle, &context);
        if (health != CUDA_SUCCESS) {
            return health;
        }
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY && gy_emu_capture_forbids_unsafe() != CUDA_SUCCESS) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the pool does not grow then */
    }
    if (result == CUDA_SUCCESS) {
        *out = region->base;
    }
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    return GY_EMU_CALL(cuMemAllocAsync, allocate_async(address, bytes, stream));
}

static CUresult free_async(CUdeviceptr address, CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = stream->capture == NULL ? gy_emu_capture_forbids_unsafe() : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS || address == 0) {
        return result;
    }
    struct gy_emu_region *region = find_block((uintptr_t)address, GY_EMU_REGION_ASYNC, GY_EMU_REGION_DEVICE);
    if (region == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->capture != NULL) {
        return gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    gy_emu_memory_set_freeing(region, true);
    struct gy_emu_work work = {.kind = GY_EMU_WORK_FREE, .context = stream->object.context, .region = region};
    result = gy_emu_stream_push(stream, &work);
    if (result != CUDA_SUCCESS) {
        gy_emu_memory_set_freeing(region, false);
    }
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    return GY_EMU_CALL(cuMemFreeAsync, free_async(address, stream));
}

/* ---- host memory ----------------------------------------------------------------------------- */

static CUresult allocate_host(void **out, size_t bytes, unsigned int flags)
{
    struct gy_emu_context *context;
    CUresult result = find_context(&context);
    if (result == CUDA_SUCCESS && (out == NULL || (flags & ~(unsigned int)ALL_HOST_ALLOC_FLAGS) != 0)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && bytes == 0) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    struct gy_emu_region *region;
    if (result == CUDA_SUCCESS) {
        result = allocate_in(context, GY_EMU_REGION_PINNED, bytes, 0, &region);
    }
    if (result == CUDA_SUCCESS) {
        region->flags = flags;
        *out = (void *)region->base;
    }
    return result;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    return GY_EMU_CALL(cuMemHostAlloc, allocate_host(pointer, bytes, flags));
}

static CUresult free_host(void *pointer)
{
    return free_block((uintptr_t)pointer, GY_EMU_REGION_PINNED, GY_EMU_REGION_PINNED);
}

CUresult cuMemFreeHost(void *pointer)
{
    return GY_EMU_CALL(cuMemFreeHost, free_host(pointer));
}

static bool is_host_region(const struct gy_emu_region *region)
{
    return region != NULL &&
           (region->kind == GY_EMU_REGION_PINNED || region->kind == GY_EMU_REGION_REGISTERED);
}

/* Host and device see pinned memory at the same address. */
static CUresult get_device_pointer(CUdeviceptr *out, const void *pointer, unsigned int flags)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || flags != 0 || !is_host_region(gy_emu_memory_find((uintptr_t)pointer))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = (uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned int flags)
{
    return GY_EMU_CALL(cuMemHostGetDevicePointer, get_device_pointer(address, pointer, flags));
}

/* Some of the range is memory that the driver knows. */
static bool is_known(uintptr_t first, size_t bytes)
{
    bool any = gy_emu_memory_find(first) != NULL || gy_emu_memory_find(first + bytes - 1) != NULL;
    for (uintptr_t at = first / PAGE * PAGE + PAGE; at < first + bytes && !any; at += PAGE) {
        any = gy_emu_memory_find(at) != NULL;
    }
    return any;
}

static CUresult register_host(void *pointer, size_t bytes, unsigned int flags)
{
    struct gy_emu_context *context;
    CUresult result = find_context(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (pointer == NULL || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)pointer ||
        (flags & ~ALL_REGISTER_FLAGS) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (is_known((uintptr_t)pointer, bytes)) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (gy_emu_memory_is_locked_otherwise((uintptr_t)pointer, bytes, flags)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_region *region = gy_zalloc(sizeof(*region));
    if (region == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->kind = GY_EMU_REGION_REGISTERED;
    region->base = (uintptr_t)pointer;
    region->bytes = bytes;
    region->context = context->root;
    region->device = context->device;
    region->flags = flags;
    gy_emu_region_register(region);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    return GY_EMU_CALL(cuMemHostRegister, register_host(pointer, bytes, flags));
}

static CUresult unregister_host(void *pointer)
{
    CUresult result = gy_emu_capture_forbids_unsafe();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (find_block((uintptr_t)pointer, GY_EMU_REGION_REGISTERED, GY_EMU_REGION_REGISTERED) == NULL) {
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    return free_block((uintptr_t)pointer, GY_EMU_REGION_REGISTERED, GY_EMU_REGION_REGISTERED);
}

CUresult cuMemHostUnregister(void *pointer)
{
    return GY_EMU_CALL(cuMemHostUnregister, unregister_host(pointer));
}
