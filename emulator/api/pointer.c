/* SPDX-License-Identifier: MIT */
/* Questions about addresses. */
#include "emulator/memory.h"

/* What an address of a region is; false: such an address has no such attribute. */
static bool store(void *out, CUpointer_attribute attribute, const struct gy_emu_region *region,
                  CUdeviceptr address)
{
    bool on_host = region->kind == GY_EMU_REGION_PINNED || region->kind == GY_EMU_REGION_REGISTERED;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* Memory of a pool is no context's. */
        *(CUcontext *)out = region->context != NULL && region->kind != GY_EMU_REGION_ASYNC
                                ? (CUcontext)region->context->object.handle
                                : NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)out = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = address;
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (on_host) {
            *(void **)out = (void *)(uintptr_t)address;
        }
        return on_host;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = region->device != NULL ? region->device->ordinal : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = region->base;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = region->bytes;
        return true;
    default:
        return false;
    }
}

static CUresult get_attribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    const struct gy_emu_region *region = gy_emu_memory_find((uintptr_t)address);
    if (region != NULL && region->kind == GY_EMU_REGION_RESERVED &&
        !gy_emu_mappings_cover(region, (uintptr_t)address, 1, GY_EMU_ANY_DEVICE)) {
        region = NULL;
    }
    struct gy_emu_context *context;
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER &&
        region != NULL) { /* it is the current context's */
        const CUresult result = gy_emu_context_current(&context);
        if (result != CUDA_SUCCESS || gy_emu_memory_is_foreign(context, (uintptr_t)address) >= 0) {
            return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
        }
    }
    bool known = value != NULL && region != NULL && store(value, attribute, region, address);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    return GY_EMU_CALL(cuPointerGetAttribute, get_attribute(value, attribute, address));
}
