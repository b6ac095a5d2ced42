/* SPDX-License-Identifier: MIT */
#include "tests/heap/fake_driver.h"

#include "tests/heap/untouchable.h"

#include <string.h>
#include <sys/mman.h>

struct fake_driver fake_driver;
_Thread_local long fake_driver_pushes;

static struct gy_driver table;
static struct gy_context context;
static _Thread_local CUstreamCaptureMode capture_mode;

/* Note one call of any kind. */
static CUresult enter(void)
{
    fake_driver.calls++;
    if (fake_driver.fail_at >= 0 && fake_driver.fail_at-- == 0) {
        fake_driver.failed = true;
        return fake_driver.fail_with;
    }
    return CUDA_SUCCESS;
}

/* Note a call about memory.  After a planned failure of a push or a mode change it may be made without
 * them. */
static CUresult enter_memory(void)
{
    if (!fake_driver.failed) {
        if (fake_driver_pushes == 0) {
            fake_driver.called_outside = true;
        }
        if (capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
            fake_driver.wrong_capture = true;
        }
    }
    return enter();
}

static CUresult error_name(CUresult result, const char **name)
{
    (void)result;
    *name = "FAKE_ERROR";
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext native)
{
    CUresult result = enter();
    fake_driver_pushes += result == CUDA_SUCCESS && native == context.native ? 1 : 0;
    return result;
}

static CUresult pop(CUcontext *native)
{
    fake_driver.calls++; /* this never fails: a pushed context must be popped */
    fake_driver_pushes--;
    *native = context.native;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *native)
{
    *native = fake_driver_pushes != 0 ? context.native : NULL;
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    CUresult result = enter();
    if (result == CUDA_SUCCESS) {
        CUstreamCaptureMode before = capture_mode;
        capture_mode = *mode;
        *mode = before;
    }
    return result;
}

static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    (void)device;
    *value = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1 : 0;
    return enter();
}

static CUresult granularity(size_t *bytes, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option)
{
    (void)prop;
    (void)option;
    *bytes = (size_t)2 << 20;
    return enter();
}

/* ---- device memory ---- */

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    CUresult result = enter_memory();
    if (result == CUDA_SUCCESS && (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || flags != 0 ||
                                   prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || bytes == 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && bytes > fake_driver.room - fake_driver.device_bytes) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        *handle = bytes;
        fake_driver.device_bytes += bytes;
        fake_driver.held++;
    }
    return result;
}

/* Calls that give memory back never fail by plan: the heap could do nothing about it. */
static CUresult release(CUmemGenericAllocationHandle handle)
{
    fake_driver.device_bytes -= (size_t)handle;
    fake_driver.held--;
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                        unsigned long long flags)
{
    (void)wanted;
    CUresult result = enter_memory();
    if (result == CUDA_SUCCESS && (alignment > GY_GRANULE_BYTES || flags != 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *address = untouchable_map(bytes);
        fake_driver.held++;
    }
    return result;
}

static CUresult free_address(CUdeviceptr address, size_t bytes)
{
    untouchable_unmap((uintptr_t)address, bytes);
    fake_driver.held--;
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    (void)address;
    CUresult result = enter_memory();
    if (result == CUDA_SUCCESS && (handle != bytes || offset != 0 || flags != 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_driver.held += result == CUDA_SUCCESS ? 1 : 0;
    return result;
}

static CUresult unmap(CUdeviceptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    fake_driver.held--;
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    (void)address;
    (void)bytes;
    CUresult result = enter_memory();
    if (result == CUDA_SUCCESS && (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

/* ---- plain memory: the size lies in front ---- */

static CUresult allocate(uintptr_t *address, size_t bytes, _Atomic(size_t) *sum, int protection)
{
    CUresult result = enter_memory();
    if (result == CUDA_SUCCESS && bytes > fake_driver.room - *sum) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uintptr_t base = untouchable_map(bytes + 2 * GY_GRANULE_BYTES);
    mprotect((void *)base, GY_GRANULE_BYTES, PROT_READ | PROT_WRITE);
    memcpy((void *)base, &bytes, sizeof(bytes));
    *address = base + GY_GRANULE_BYTES + (fake_driver.misaligned ? 4096 : 0);
    mprotect((void *)(base + GY_GRANULE_BYTES), bytes + 4096, protection);
    *sum += bytes;
    fake_driver.held++;
    return CUDA_SUCCESS;
}

static CUresult release_plain(uintptr_t address, _Atomic(size_t) *sum)
{
    size_t bytes;
    uintptr_t base = (address & ~(uintptr_t)(GY_GRANULE_BYTES - 1)) - GY_GRANULE_BYTES;
    memcpy(&bytes, (void *)base, sizeof(bytes));
    untouchable_unmap(base, bytes + 2 * GY_GRANULE_BYTES);
    *sum -= bytes;
    fake_driver.held--;
    return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes)
{
    uintptr_t got;
    CUresult result = allocate(&got, bytes, &fake_driver.device_bytes, PROT_NONE);
    if (result == CUDA_SUCCESS) {
        *address = got;
    }
    return result;
}

static CUresult mem_free(CUdeviceptr address)
{
    return release_plain((uintptr_t)address, &fake_driver.device_bytes);
}

static CUresult host_alloc(void **pointer, size_t bytes, unsigned int flags)
{
    uintptr_t got;
    fake_driver.flags = flags;
    CUresult result = allocate(&got, bytes, &fake_driver.pinned_bytes, PROT_READ | PROT_WRITE);
    if (result == CUDA_SUCCESS) {
        *pointer = (void *)got;
    }
    return result;
}

static CUresult host_free(void *pointer)
{
    return release_plain((uintptr_t)pointer, &fake_driver.pinned_bytes);
}

static CUresult device_pointer(CUdeviceptr *address, void *pointer, unsigned int flags)
{
    CUresult result = flags == 0 ? enter_memory() : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *address = (uintptr_t)pointer + FAKE_DEVICE_DISTANCE;
    }
    return result;
}

struct gy_context *fake_driver_open(uint64_t memory_bytes)
{
    fake_driver = (struct fake_driver){.room = (size_t)1 << 30, .fail_at = -1};
    capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    fake_driver_pushes = 0;
    table = (struct gy_driver){.name = "fake",
                               .cuGetErrorName = error_name,
                               .cuGetErrorString = error_name,
                               .cuCtxPushCurrent = push,
                               .cuCtxPopCurrent = pop,
                               .cuCtxGetCurrent = get_current,
                               .cuThreadExchangeStreamCaptureMode = exchange_mode,
                               .cuDeviceGetAttribute = attribute,
                               .cuMemGetAllocationGranularity = granularity,
                               .cuMemCreate = create,
                               .cuMemRelease = release,
                               .cuMemAddressReserve = reserve,
                               .cuMemAddressFree = free_address,
                               .cuMemMap = map,
                               .cuMemUnmap = unmap,
                               .cuMemSetAccess = set_access,
                               .cuMemAlloc = mem_alloc,
                               .cuMemFree = mem_free,
                               .cuMemHostAlloc = host_alloc,
                               .cuMemFreeHost = host_free,
                               .cuMemHostGetDevicePointer = device_pointer};
    memset(&context, 0, sizeof(context));
    context.driver = &table;
    context.native = (CUcontext)&context;
    context.info.memory_bytes = memory_bytes;
    context.self = &context;
    gy_mutex_init(&context.cause_lock, GY_RANK_LEAF);
    return &context;
}
