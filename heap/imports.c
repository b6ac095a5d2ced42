/* SPDX-License-Identifier: MIT */
/* Device memory of other processes, or of other heaps of this one.  An import is a mapping of its own, beside
 * the heap: it lives until it is released, or the heap ends. */
#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "heap/internal.h"
#include "heap/visit.h"

#include <string.h>

/* Memory of somebody else that is mapped. */
struct gy_import {
    struct gy_import *next;
    uintptr_t given; /* what gantry_heap_import() gave out */
    CUdeviceptr base;
    size_t bytes;
};

static gy_mutex imports_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};

static gantry_status check_import(const struct gy_context *context, const gantry_exported_memory *memory)
{
    const struct gy_driver *driver = context->driver;
    if (memory->handles != GANTRY_HEAP_HANDLES_FD && memory->handles != GANTRY_HEAP_HANDLES_FABRIC) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_import: handles is %d, neither FD nor FABRIC", (int)memory->handles);
    }
    if (memory->slab_bytes == 0 || memory->slab_bytes % GY_GRANULE_BYTES != 0 ||
        memory->bytes > memory->slab_bytes || memory->offset > memory->slab_bytes - memory->bytes) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_import: %llu bytes at %llu of %llu: they are not all in a piece of whole "
                       "2 MiB",
                       (unsigned long long)memory->bytes, (unsigned long long)memory->offset,
                       (unsigned long long)memory->slab_bytes);
    }
    if (driver->cuMemImportFromShareableHandle == NULL || driver->cuMemMap == NULL ||
        driver->cuMemAddressReserve == NULL || driver->cuMemSetAccess == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "gantry_heap_import: the driver cannot import memory");
    }
    return GANTRY_OK;
}

static gantry_status take_handle(struct gy_context *context, const gantry_exported_memory *memory,
                                 CUmemGenericAllocationHandle *out)
{
    CUmemFabricHandle fabric;
    const bool is_fd = memory->handles == GANTRY_HEAP_HANDLES_FD;
    memcpy(fabric.data, memory->fabric, sizeof(fabric.data));
    const CUresult result = context->driver->cuMemImportFromShareableHandle(
        out, is_fd ? (void *)(intptr_t)memory->fd : &fabric,
        is_fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_FABRIC);
    if (gy_visit_is_refusal(context, result)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_import: the driver takes %s %d for no exported memory: it says %d (%s)",
                       is_fd ? "file descriptor" : "the fabric handle of which the first byte is",
                       is_fd ? memory->fd : memory->fabric[0], (int)result,
                       gy_driver_result_name(context->driver, result));
    }
    return gy_context_check(context, result, "cuMemImportFromShareableHandle()", __FILE__, __LINE__);
}

static gantry_status map_handle(struct gy_context *context, CUmemGenericAllocationHandle handle,
                                const struct gy_import *import)
{
    const CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, (int)context->device},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUresult mapped = context->driver->cuMemMap(import->base, import->bytes, 0, handle, 0);
    if (gy_visit_is_refusal(context, mapped)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_import: the exported piece does not have slab_bytes, which is %zu",
                       import->bytes);
    }
    gantry_status status = gy_context_check(context, mapped, "cuMemMap()", __FILE__, __LINE__);
    if (status != GANTRY_OK) {
        return status;
    }
    const CUresult granted = context->driver->cuMemSetAccess(import->base, import->bytes, &own, 1);
    if (granted == CUDA_ERROR_INVALID_DEVICE && !gy_context_is_lost(context)) {
        status = GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                         "gantry_heap_import: device %d does not reach the device that the memory is on",
                         context->info.ordinal);
    } else {
        status = gy_context_check(context, granted, "cuMemSetAccess()", __FILE__, __LINE__);
    }
    if (status != GANTRY_OK) {
        (void)GY_CALL(context, cuMemUnmap(import->base, import->bytes));
    }
    return status;
}

static gantry_status import_current(struct gy_context *context, const gantry_exported_memory *memory,
                                    struct gy_import *import)
{
    CUmemGenericAllocationHandle handle;
    gantry_status status = take_handle(context, memory, &handle);
    if (status != GANTRY_OK) {
        return status;
    }
    import->bytes = (size_t)memory->slab_bytes;
    status = GY_CALL(context, cuMemAddressReserve(&import->base, import->bytes, GY_GRANULE_BYTES, 0, 0));
    if (status == GANTRY_OK) {
        status = map_handle(context, handle, import);
        if (status != GANTRY_OK) {
            (void)GY_CALL(context, cuMemAddressFree(import->base, import->bytes));
        }
    }
    (void)GY_CALL(context, cuMemRelease(handle)); /* the mapping keeps the memory */
    import->given = (uintptr_t)import->base + (uintptr_t)memory->offset;
    return status;
}

gantry_status gantry_heap_import(gantry_heap *heap, const gantry_exported_memory *memory, void **out)
{
    GY_NEED(HEAP, heap);
    if (memory == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_import: %s is NULL",
                       memory == NULL ? "memory" : "out");
    }
    gantry_exported_memory ours = {0};
    gantry_status status =
        gy_options_import(&ours, sizeof(ours), memory, sizeof(ours), "gantry_heap_import: memory");
    if (status == GANTRY_OK) {
        status = check_import(heap->context, &ours);
    }
    struct gy_import *import = status == GANTRY_OK ? gy_zalloc(sizeof(*import)) : NULL;
    if (status == GANTRY_OK && import == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_heap_import: out of memory");
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_visit visit;
    status = gy_visit_begin(heap->context, &visit);
    if (status == GANTRY_OK && gy_context_is_lost(heap->context)) {
        status = gy_context_adopt_loss(heap->context);
    }
    status = status == GANTRY_OK ? import_current(heap->context, &ours, import) : status;
    gy_visit_end(heap->context, &visit);
    if (status != GANTRY_OK) {
        gy_free(import);
        return status;
    }
    gy_mutex_lock(&imports_lock);
    import->next = heap->imports;
    heap->imports = import;
    gy_mutex_unlock(&imports_lock);
    *out = (void *)import->given;
    return GANTRY_OK;
}

static void unmap(struct gy_context *context, struct gy_import *import)
{
    struct gy_visit visit;
    (void)gy_visit_begin(context, &visit);
    (void)GY_CALL(context, cuMemUnmap(import->base, import->bytes));
    (void)GY_CALL(context, cuMemAddressFree(import->base, import->bytes));
    gy_visit_end(context, &visit);
    gy_free(import);
}

gantry_status gantry_heap_release_import(gantry_heap *heap, void *address)
{
    GY_NEED(HEAP, heap);
    if (address == NULL) {
        return GANTRY_OK;
    }
    gy_mutex_lock(&imports_lock);
    struct gy_import **link = &heap->imports;
    while (*link != NULL && (*link)->given != (uintptr_t)address) {
        link = &(*link)->next;
    }
    struct gy_import *import = *link;
    if (import != NULL) {
        *link = import->next;
    }
    gy_mutex_unlock(&imports_lock);
    if (import == NULL) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "gantry_heap_release_import: no import of this heap is at %p",
                       address);
    }
    unmap(heap->context, import);
    return GANTRY_OK;
}

void gy_imports_fini(gantry_heap *heap)
{
    while (heap->imports != NULL) {
        struct gy_import *import = heap->imports;
        heap->imports = import->next;
        unmap(heap->context, import);
    }
}
