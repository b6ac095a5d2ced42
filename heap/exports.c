/* SPDX-License-Identifier: MIT */
/* Device memory that other processes get: a whole slab, which is one allocation of the driver when the heap
 * was made for it. */
#include "base/handle.h"
#include "base/options.h"
#include "heap/internal.h"
#include "heap/visit.h"

#include <string.h>

static gantry_status check_export(const gantry_heap *heap, gantry_heap_handles handles,
                                  const gantry_exported_memory *out)
{
    const bool is_fd = handles == GANTRY_HEAP_HANDLES_FD;
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_export: out is NULL");
    }
    if (!is_fd && handles != GANTRY_HEAP_HANDLES_FABRIC) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_export: handles is %d, neither FD nor FABRIC", (int)handles);
    }
    if ((heap->handles & (is_fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_FABRIC)) ==
        0) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_heap_export: the heap's memory is not made for %s handles "
                       "(gantry_heap_options.handles)",
                       is_fd ? "file descriptor" : "fabric");
    }
    return GANTRY_OK;
}

static gantry_status export_backing(struct gy_context *context, const struct gy_backing *backing,
                                    gantry_exported_memory *out)
{
    const bool is_fd = out->handles == GANTRY_HEAP_HANDLES_FD;
    CUmemFabricHandle fabric;
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(context, &visit);
    if (status == GANTRY_OK && gy_context_is_lost(context)) {
        status = gy_context_adopt_loss(context);
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(
            context, cuMemExportToShareableHandle(
                         is_fd ? (void *)&out->fd : &fabric, backing->handles[0],
                         is_fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_FABRIC, 0));
    }
    gy_visit_end(context, &visit);
    if (status == GANTRY_OK && !is_fd) {
        memcpy(out->fabric, fabric.data, sizeof(out->fabric));
    }
    return status;
}

gantry_status gantry_heap_export(gantry_heap *heap, const void *address, gantry_heap_handles handles,
                                 gantry_exported_memory *out)
{
    GY_NEED(HEAP, heap);
    struct gy_heap_look look;
    gantry_status status = check_export(heap, handles, out);
    if (status != GANTRY_OK) {
        return status;
    }
    if (gy_heap_look(heap, address, &look) != GY_HEAP_LIVE) {
        return gy_heap_fail_not_found(heap, "gantry_heap_export", address);
    }
    if (look.kind != GANTRY_MEMORY_DEVICE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_export: %p is %s memory, not the device's",
                       address, gy_kind_name(look.kind));
    }
    const struct gy_backing *backing = &gy_granules_find(&heap->map, (uintptr_t)address)->slab->backing;
    gantry_exported_memory ours = {.struct_size = sizeof(ours),
                                   .handles = handles,
                                   .fd = -1,
                                   .slab_bytes = backing->bytes,
                                   .offset = (uintptr_t)address - backing->base,
                                   .bytes = look.base + look.bytes - (uintptr_t)address};
    if (out->struct_size < sizeof(ours)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_export: struct_size %zu is too small",
                       out->struct_size);
    }
    status = export_backing(heap->context, backing, &ours);
    return status == GANTRY_OK ? gy_stats_export(out, &ours, sizeof(ours), "gantry_heap_export") : status;
}
