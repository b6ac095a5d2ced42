/* SPDX-License-Identifier: MIT */
/* The calls about contexts: made and destroyed, current ones, what they are asked. */
#include "emulator/context.h"

#include "emulator/capture.h"

#define GREATEST_PRIORITY (-5)
#define ALL_CTX_FLAGS 0xffu

static CUresult create(CUcontext *out, unsigned int flags, CUdevice device)
{
    struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    const unsigned int schedule =
        flags & (CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD | CU_CTX_SCHED_BLOCKING_SYNC);
    if (out == NULL || (flags & ~ALL_CTX_FLAGS) != 0 || (schedule & (schedule - 1)) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gy_emu_current_is_full()) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_open(d, NULL, NULL, 0, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    context->flags = flags;
    *out = (CUcontext)context->object.handle;
    return gy_emu_current_push(*out);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    return GY_EMU_CALL(cuCtxCreate, create(context, flags, device));
}

/* This works on a failed context, too, since it is the way out. */
static CUresult destroy(CUcontext handle)
{
    struct gy_emu_context *context;
    if (handle == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_context_look(handle, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (context->root != context || context->device->primary == context) {
        return CUDA_ERROR_INVALID_CONTEXT; /* cuCtxCreate() has not made it */
    }
    if (gy_emu_current_top() == handle) {
        (void)gy_emu_current_pop(NULL);
    }
    gy_emu_context_close(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    return GY_EMU_CALL(cuCtxDestroy, destroy(context));
}

static CUresult retain(CUcontext *out, CUdevice device)
{
    struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_primary_retain(d, &context);
    if (result == CUDA_SUCCESS) {
        *out = (CUcontext)context->object.handle;
    }
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    return GY_EMU_CALL(cuDevicePrimaryCtxRetain, retain(context, device));
}

static CUresult release(CUdevice device)
{
    struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (d->primary == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    gy_emu_primary_release(d);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return GY_EMU_CALL(cuDevicePrimaryCtxRelease, release(device));
}

static CUresult get_state(CUdevice device, unsigned int *flags, int *active)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (flags == NULL || active == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = d->primary_flags;
    *active = d->primary != NULL;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    return GY_EMU_CALL(cuDevicePrimaryCtxGetState, get_state(device, flags, active));
}

static CUresult push_checked(CUcontext handle)
{
    struct gy_emu_context *context;
    if (handle == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_context_look(handle, &context);
    return result == CUDA_SUCCESS ? gy_emu_current_push(handle) : result;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    return GY_EMU_CALL(cuCtxPushCurrent, push_checked(context));
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    return GY_EMU_CALL(cuCtxPopCurrent, gy_emu_current_pop(context));
}

static CUresult get_current(CUcontext *out)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = gy_emu_current_top();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    return GY_EMU_CALL(cuCtxGetCurrent, get_current(context));
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    return GY_EMU_CALL(cuCtxSetCurrent, gy_emu_current_set(context));
}

static CUresult get_context_device(CUdevice *device)
{
    struct gy_emu_context *context;
    CUresult result = device != NULL ? gy_emu_context_look_current(&context) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *device = context->device->ordinal;
    }
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return GY_EMU_CALL(cuCtxGetDevice, get_context_device(device));
}

/* No two contexts of a process have the same id: handles are not used again. */
static CUresult get_id(CUcontext handle, unsigned long long *id)
{
    struct gy_emu_context *context;
    CUresult result = id == NULL ? CUDA_ERROR_INVALID_VALUE : gy_emu_context_find(handle, &context);
    if (result == CUDA_SUCCESS) {
        *id = (unsigned long long)(uintptr_t)handle;
    }
    return result;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    return GY_EMU_CALL(cuCtxGetId, get_id(context, id));
}

/* Synchronize a context.  For a root this covers its green contexts as well, except for some kernels of
 * graphs. */
static CUresult synchronize(void)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result == CUDA_SUCCESS) {
        result = gy_emu_capture_forbids_context(context);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUcontext handle = (CUcontext)context->object.handle;
    result = gy_emu_context_drain(context);
    return result == CUDA_SUCCESS ? gy_emu_context_find(handle, &context) : result;
}

CUresult cuCtxSynchronize(void)
{
    return GY_EMU_CALL(cuCtxSynchronize, synchronize());
}

static CUresult get_priorities(int *least, int *greatest)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (least != NULL) {
        *least = 0;
    }
    if (greatest != NULL) {
        *greatest = GREATEST_PRIORITY;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    return GY_EMU_CALL(cuCtxGetStreamPriorityRange, get_priorities(least, greatest));
}
