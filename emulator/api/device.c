/* SPDX-License-Identifier: MIT */
/* The calls about the driver and its devices. */
#include "base/environment.h"
#include "emulator/peer.h"
#include "emulator/visible.h"

#include <stdio.h>
#include <string.h>

/* An unknown profile means no device at all: a test that asked for it must not run on another one. */
static CUresult initialise(unsigned int flags)
{
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct gy_emu_profile *profile = gy_emu_profile_choose();
    uint32_t count = 1;
    if (profile == NULL ||
        !gy_emu_read_number("GANTRY_EMU_DEVICES", GY_EMU_MAX_DEVICES, "there is no device", &count)) {
        return CUDA_ERROR_NO_DEVICE;
    }
    if (gy_emu_device_count() > 0) {
        return CUDA_SUCCESS;
    }
    int numbers[GY_EMU_MAX_DEVICES];
    const uint32_t visible = gy_emu_visible_read(count, numbers);
    if (visible == 0 || !gy_emu_links_read(count)) {
        return CUDA_ERROR_NO_DEVICE;
    }
    gy_emu_devices_begin(profile, numbers, (int)visible);
    gy_emu_set_initialised();
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    return GY_EMU_CALL(cuInit, initialise(flags));
}

static CUresult store_int(int *out, int value)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = value;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    return GY_EMU_CALL(cuDriverGetVersion, store_int(version, gy_emu_driver_version()));
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    return GY_EMU_CALL(cuGetErrorName, gy_emu_result_describe(result, name, NULL));
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    return GY_EMU_CALL(cuGetErrorString, gy_emu_result_describe(result, NULL, text));
}

CUresult cuDeviceGetCount(int *count)
{
    return GY_EMU_CALL(cuDeviceGetCount, store_int(count, gy_emu_device_count()));
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    if (device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gy_emu_device_find(ordinal) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    return GY_EMU_CALL(cuDeviceGet, get_device(device, ordinal));
}

static CUresult get_name(char *name, int room, CUdevice device)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL && name != NULL && room != 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (name == NULL || room == 0) { /* a negative one is a large one */
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(name, room > 0 ? (size_t)room : SIZE_MAX / 2, "%s", d->profile->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    return GY_EMU_CALL(cuDeviceGetName, get_name(name, room, device));
}

static CUresult get_total(size_t *bytes, CUdevice device)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL || bytes == NULL) {
        return bytes == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = d->profile->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    return GY_EMU_CALL(cuDeviceTotalMem, get_total(bytes, device));
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL || uuid == NULL) {
        return uuid == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    gy_emu_uuid(d->number, uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return GY_EMU_CALL(cuDeviceGetUuid, get_uuid(uuid, device));
}

/* Limits that are the same on every device. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} limits[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
};

/* The value in the profile or the environment; -1: there is none. */
static int profile_value(const struct gy_emu_profile *p, CUdevice_attribute attribute)
{
    char unused;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return (int)p->sm_count;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return p->major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return p->minor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return (int)p->shared_bytes_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return (int)p->shared_bytes_optin;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return (int)p->shared_bytes_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return (int)p->threads_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return (int)p->blocks_per_sm;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return (int)p->clock_khz;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return (int)p->memory_clock_khz;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return (int)p->bus_bits;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return (int)p->l2_bytes;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        return p->major >= 9;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
        return gy_emu_setting("mps", &unused, sizeof(unused));
    default:
        return -1;
    }
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL || value == NULL) {
        return value == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    int found =
        attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? d->number + 1 : profile_value(d->profile, attribute);
    for (size_t i = 0; found < 0 && i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].attribute == attribute) {
            found = limits[i].value;
        }
    }
    return found < 0 ? CUDA_ERROR_INVALID_VALUE : store_int(value, found);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    return GY_EMU_CALL(cuDeviceGetAttribute, get_attribute(value, attribute, device));
}
