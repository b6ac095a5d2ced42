/* SPDX-License-Identifier: MIT */
/* A driver library with next to nothing in it, for what no good driver shows: one that is old, has no
 * device, fails to start, lacks a function, or has no code for the device.  What it does is told by
 * environment variables, read at every call:
 *
 *   FAKE_DRIVER_VERSION  what cuDriverGetVersion() says; default 13000
 *   FAKE_DRIVER_INIT     result of cuInit()
 *   FAKE_DRIVER_DEVICES  number of devices; default 1
 *
 * (with FAKE_PREFIX for "FAKE_DRIVER_" when that is defined).
 *
 * Kernel images are texts: "good" loads; "other" has no code for the device; "broken" makes the compiler
 * complain; "new" is PTX of a newer version.  Built with FAKE_LACKS_FUNCTION, cuMemAlloc_v2 is missing. */
#define cuInit generic_cuInit
#define cuDriverGetVersion generic_cuDriverGetVersion
#define cuGetErrorName generic_cuGetErrorName
#define cuGetErrorString generic_cuGetErrorString
#define cuDeviceGetCount generic_cuDeviceGetCount
#define cuDeviceGet generic_cuDeviceGet
#define cuDeviceGetName generic_cuDeviceGetName
#define cuDeviceGetAttribute generic_cuDeviceGetAttribute
#define cuDeviceTotalMem_v2 generic_cuDeviceTotalMem
#define cuDeviceGetUuid_v2 generic_cuDeviceGetUuid
#define cuDevicePrimaryCtxRetain generic_cuDevicePrimaryCtxRetain
#define cuDevicePrimaryCtxRelease_v2 generic_cuDevicePrimaryCtxRelease
#define cuCtxPushCurrent_v2 generic_cuCtxPushCurrent
#define cuCtxPopCurrent_v2 generic_cuCtxPopCurrent
#define cuModuleLoadDataEx generic_cuModuleLoadDataEx
#define cuModuleUnload generic_cuModuleUnload
#define cuModuleGetFunction generic_cuModuleGetFunction
#define cuThreadExchangeStreamCaptureMode generic_cuThreadExchangeStreamCaptureMode
#ifdef FAKE_LACKS_FUNCTION
#define cuMemAlloc_v2 generic_cuMemAlloc
#endif

#include "driver/funcs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_PREFIX
#define FAKE_PREFIX "FAKE_DRIVER_"
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define F(need, member, symbol, prototype) \
    CUresult symbol prototype;             \
    CUresult symbol prototype              \
    {                                      \
        return CUDA_ERROR_NOT_SUPPORTED;   \
    }
GY_DRIVER_FUNCS(F)
#undef F
#pragma GCC diagnostic pop

#undef cuInit
#undef cuDriverGetVersion
#undef cuGetErrorName
#undef cuGetErrorString
#undef cuDeviceGetCount
#undef cuDeviceGet
#undef cuDeviceGetName
#undef cuDeviceGetAttribute
#undef cuDeviceTotalMem_v2
#undef cuDeviceGetUuid_v2
#undef cuDevicePrimaryCtxRetain
#undef cuDevicePrimaryCtxRelease_v2
#undef cuCtxPushCurrent_v2
#undef cuCtxPopCurrent_v2
#undef cuModuleLoadDataEx
#undef cuModuleUnload
#undef cuModuleGetFunction
#undef cuThreadExchangeStreamCaptureMode

#define F(need, member, symbol, prototype) CUresult symbol prototype;
GY_DRIVER_FUNCS_DEVICE(F)
GY_DRIVER_FUNCS_MODULE(F)
#undef F

static int told(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? (int)strtol(value, NULL, 10) : otherwise;
}

CUresult cuInit(unsigned int flags)
{
    return flags == 0 ? (CUresult)told(FAKE_PREFIX "INIT", CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = told(FAKE_PREFIX "VERSION", 13000);
    return CUDA_SUCCESS;
}

/* It knows one name only, so that the loader asks for the others by its own list. */
CUresult cuGetErrorName(CUresult result, const char **name)
{
    if (result != CUDA_ERROR_INVALID_VALUE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *name = "FAKE_INVALID_VALUE";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    if (result != CUDA_ERROR_INVALID_VALUE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *text = "fake text";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = told(FAKE_PREFIX "DEVICES", 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (ordinal < 0 || ordinal >= told(FAKE_PREFIX "DEVICES", 1)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    snprintf(name, (size_t)room, "Fake %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = (int)attribute; /* each one is different, so that a mix-up shows */
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    *bytes = ((size_t)device + 1) << 30;
    return CUDA_SUCCESS;
}

/* The UUID of device d: byte i is 16 * d + i. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    for (int i = 0; i < 16; i++) {
        uuid->bytes[i] = (char)(16 * device + i);
    }
    return CUDA_SUCCESS;
}

static char object; /* all handles point to this */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)&object;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    return context == (CUcontext)(void *)&object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    *context = (CUcontext)(void *)&object;
    return CUDA_SUCCESS;
}

static void complain(unsigned int count, CUjit_option *options, void **values)
{
    char *log = NULL;
    size_t room = 0;
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
            log = values[i];
        } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            room = (size_t)(uintptr_t)values[i];
        }
    }
    if (log != NULL && room > 0) {
        snprintf(log, room, "line 7; fatal:\nUnknown symbol 'x'\n\n");
    }
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    if (strcmp(image, "other") == 0) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (strcmp(image, "new") == 0) {
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (strcmp(image, "broken") == 0) {
        complain(count, options, values);
        return CUDA_ERROR_INVALID_PTX;
    }
    *module = (CUmodule)(void *)&object;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    return module == (CUmodule)(void *)&object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    const CUstreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    if (strncmp(name, "missing", 7) == 0) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *function = (CUfunction)(void *)&object;
    return CUDA_SUCCESS;
}
