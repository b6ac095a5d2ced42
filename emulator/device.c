/* Devices: their properties, and the calls about them. */
#include "base/environment.h"
#include "emulator/peer.h"
#include "emulator/resource.h"
#include "emulator/visible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION 13000 /* unless $GANTRY_EMU_CUDA says otherwise */
#define GIB ((size_t)1 << 30)

static const struct gy_emu_profile profiles[] = {
    {.key = "h200",
     .name = "Gantry emulated H200",
     .sm_count = 132,
     .major = 9,
     .minor = 0,
     .memory_bytes = 16 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 232448,
     .shared_bytes_per_sm = 233472,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1980000,
     .memory_clock_khz = 3201000,
     .bus_bits = 6144,
     .l2_bytes = 62914560,
     .split_min = 8,
     .split_step = 8,
     .gpc_sms = {18, 18, 18, 16, 16, 16, 16, 14}},
    {.key = "b200",
     .name = "Gantry emulated B200",
     .sm_count = 148,
     .major = 10,
     .minor = 0,
     .memory_bytes = 16 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 232448,
     .shared_bytes_per_sm = 233472,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1965000,
     .memory_clock_khz = 3996000,
     .bus_bits = 8192,
     .l2_bytes = 132644864,
     .split_min = 8,
     .split_step = 8,
     .gpc_sms = {20, 20, 18, 18, 18, 18, 18, 18}},
    {.key = "mig", /* a part of an H200 */
     .name = "Gantry emulated H200 MIG 1g.18gb",
     .sm_count = 16,
     .major = 9,
     .minor = 0,
     .memory_bytes = 2 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 232448,
     .shared_bytes_per_sm = 233472,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1980000,
     .memory_clock_khz = 3201000,
     .bus_bits = 768,
     .l2_bytes = 7864320,
     .split_min = 8,
     .split_step = 8,
     .gpc_sms = {16}},
    {.key = "small",
     .name = "Gantry emulated small device",
     .sm_count = 16,
     .major = 8,
     .minor = 0,
     .memory_bytes = 2 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 166912,
     .shared_bytes_per_sm = 167936,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1410000,
     .memory_clock_khz = 1215000,
     .bus_bits = 5120,
     .l2_bytes = 4194304,
     .split_min = 4,
     .split_step = 2,
     .gpc_sms = {16}},
};

static struct gy_emu_device devices[GY_EMU_MAX_DEVICES];
static int device_count; /* 0 before cuInit() */

int gy_emu_device_count(void)
{
    return device_count;
}

struct gy_emu_device *gy_emu_device_find(CUdevice device)
{
    return device >= 0 && device < device_count ? &devices[device] : NULL;
}

struct gy_emu_device *gy_emu_device_numbered(int number)
{
    for (int i = 0; i < device_count; i++) {
        if (devices[i].number == number) {
            return &devices[i];
        }
    }
    return NULL;
}

/* Write one line to stderr, since a driver has no log. */
static void complain(const char *variable, const char *text, const char *takes, const char *so)
{
    fprintf(stderr, "gantry-emu: $%s is \"%s\", not %s: %s\n", variable, text, takes, so);
}

bool gy_emu_read_number(const char *variable, uint32_t most, const char *so, uint32_t *number)
{
    const char *text = gy_environment(variable);
    if (text == NULL) {
        return true;
    }
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= 1 && value <= most) {
        *number = (uint32_t)value;
        return true;
    }
    char takes[64];
    snprintf(takes, sizeof(takes), "a number from 1 to %u", most);
    complain(variable, text, takes, so);
    return false;
}

static const struct gy_emu_profile *choose_profile(void)
{
    const char *key = gy_environment("GANTRY_EMU_PROFILE");
    for (size_t i = 0; key != NULL && i < sizeof(profiles) / sizeof(profiles[0]); i++) {
        if (strcmp(profiles[i].key, key) == 0) {
            return &profiles[i];
        }
    }
    if (key == NULL || *key == '\0') {
        return &profiles[0];
    }
    complain("GANTRY_EMU_PROFILE", key, "h200, b200, mig or small", "there is no device");
    return NULL;
}

/* An unknown profile means no device at all: a test that asked for it must not run on another one. */
static CUresult initialise(unsigned int flags)
{
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct gy_emu_profile *profile = choose_profile();
    uint32_t count = 1;
    if (profile == NULL ||
        !gy_emu_read_number("GANTRY_EMU_DEVICES", GY_EMU_MAX_DEVICES, "there is no device", &count)) {
        return CUDA_ERROR_NO_DEVICE;
    }
    if (device_count > 0) {
        return CUDA_SUCCESS;
    }
    int numbers[GY_EMU_MAX_DEVICES];
    uint32_t visible = gy_emu_visible_read(count, numbers);
    if (visible == 0 || !gy_emu_links_read(count)) {
        return CUDA_ERROR_NO_DEVICE;
    }
    for (uint32_t i = 0; i < visible; i++) {
        devices[i] = (struct gy_emu_device){.profile = profile, .ordinal = (int)i, .number = numbers[i]};
    }
    device_count = (int)visible;
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

static int driver_version(void)
{
    const char *text = gy_environment("GANTRY_EMU_CUDA");
    return text != NULL && *text != '\0' ? (int)strtol(text, NULL, 10) : DRIVER_VERSION;
}

/* The versions since which drivers have the functions that CUDA 12.0 lacks. */
static const struct {
    const char *begins; /* all functions with these first letters are meant */
    int version;
} since[] = {
    {"cuStreamBeginCaptureToGraph", 12030},
    {"cuGraphConditionalHandleCreate", 12030},
    {"cuGraphAddNode_v2", 12030},
    {"cuFuncGetParamInfo", 12040},
    {"cuDeviceGetDevResource", 12040},
    {"cuDevSmResourceSplitByCount", 12040},
    {"cuDevResourceGenerateDesc", 12040},
    {"cuGreenCtxStreamCreate", 12050},
    {"cuGreenCtx", 12040},
    {"cuCtxFromGreenCtx", 12040},
    {"cuStreamGetGreenCtx", 12040},
    {"cuCtxGetDevResource", 12040},
    {"cuCtxRecordEvent", 12050},
    {"cuCtxWaitEvent", 12050},
    {"cuMemcpyBatchAsync", 12080},
    {"cuLogs", 12090},
    {"cuDevSmResourceSplit", 13010},
    {"cuStreamGetDevResource", 13010},
};

bool gy_emu_lacks(const char *symbol)
{
    for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
        if (strncmp(symbol, since[i].begins, strlen(since[i].begins)) == 0) {
            return driver_version() < since[i].version;
        }
    }
    return false;
}

bool gy_emu_has_workqueues(void)
{
    return driver_version() >= 13010;
}

CUresult cuDriverGetVersion(int *version)
{
    return GY_EMU_CALL(cuDriverGetVersion, store_int(version, driver_version()));
}

static const struct {
    CUresult result;
    const char *name, *text;
} results[] = {
#define X(name, value, text) {CUDA_##name, "CUDA_" #name, text},
    GY_CUDA_RESULTS(X)
#undef X
};

static CUresult describe(CUresult result, const char **name, const char **text)
{
    if (name == NULL && text == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].result == result) {
            if (name != NULL) {
                *name = results[i].name;
            }
            if (text != NULL) {
                *text = results[i].text;
            }
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

const char *gy_emu_result_name(CUresult result)
{
    const char *name = "CUDA_ERROR_?";
    (void)describe(result, &name, NULL);
    return name;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    return GY_EMU_CALL(cuGetErrorName, describe(result, name, NULL));
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    return GY_EMU_CALL(cuGetErrorString, describe(result, NULL, text));
}

CUresult cuDeviceGetCount(int *count)
{
    return GY_EMU_CALL(cuDeviceGetCount, store_int(count, device_count));
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
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (name == NULL || room <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(name, (size_t)room, "%s", d->profile->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    return GY_EMU_CALL(cuDeviceGetName, get_name(name, room, device));
}

static CUresult get_total(size_t *bytes, CUdevice device)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (bytes == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
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
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (uuid == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
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
        return gy_environment("GANTRY_EMU_MPS") != NULL;
    default:
        return -1;
    }
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
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
