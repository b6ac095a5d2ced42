/* SPDX-License-Identifier: MIT */
/* Virtual memory management: physical blocks are pieces of one memory file, so that a block can be mapped at
 * several addresses.  Offsets in the file are used once; the pages of a block go back with it.
 *
 * A block that other processes may have is a file of its own, whose name says what it is.  A file descriptor
 * of it is what a driver's file descriptor is; a fabric handle says where the file is found in /proc. */
#include "emulator/memory.h"

#include "base/alloc.h"
#include "emulator/logs.h"
#include "emulator/peer.h"

#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct gy_emu_allocation {
    struct gy_emu_object object; /* cuMemRelease() closes it */
    struct gy_emu_device *device;
    size_t bytes;
    off_t offset;
    int own_file;                    /* -1: it is a piece of the common one */
    bool is_ours;                    /* not imported: it counts for the device's budget */
    CUmemAllocationHandleType types; /* it may be exported as these */
    uint32_t mappings;               /* the block lives on while it is mapped */
    bool released;
};

enum { OF_WINDOWS = 2 }; /* a type of handles */
#define FILE_NAME "gantry-emu-memory-of-device-"

static int file = -1;
static off_t file_end;

static bool is_whole(size_t bytes)
{
    return bytes != 0 && bytes % GY_EMU_GRANULE == 0;
}

static bool is_pinned_on_device(const CUmemAllocationProp *prop)
{
    return prop != NULL && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* What `prop` says is not looked at, as by a driver of CUDA 13.0. */
static CUresult get_granularity(size_t *bytes, const CUmemAllocationProp *prop,
                                CUmemAllocationGranularity_flags option)
{
    if (bytes == NULL || prop == NULL || (unsigned int)option > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = GY_EMU_GRANULE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    return GY_EMU_CALL(cuMemGetAllocationGranularity, get_granularity(bytes, prop, option));
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* `wanted` is a hint, and not taken. */
static CUresult reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                        unsigned long long flags)
{
    if (out == NULL || wanted % GY_EMU_GRANULE != 0 || !is_whole(bytes) ||
        (alignment & (alignment - 1)) != 0 || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_mapping *mappings = gy_zalloc_array(bytes / GY_EMU_GRANULE, sizeof(*mappings));
    if (mappings == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_region *region;
    CUresult result = gy_emu_region_open(GY_EMU_REGION_RESERVED, bytes, alignment, &region);
    if (result != CUDA_SUCCESS) {
        gy_free(mappings);
        return result;
    }
    region->mappings = mappings;
    *out = region->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags)
{
    return GY_EMU_CALL(cuMemAddressReserve, reserve(address, bytes, alignment, wanted, flags));
}

static struct gy_emu_region *find_reserved(CUdeviceptr address, size_t bytes)
{
    struct gy_emu_region *region = gy_emu_memory_find((uintptr_t)address);
    if (region == NULL || region->kind != GY_EMU_REGION_RESERVED || !is_whole(bytes) ||
        (address - region->base) % GY_EMU_GRANULE != 0 || bytes > region->bytes - (address - region->base)) {
        return NULL;
    }
    return region;
}

static CUresult free_address(CUdeviceptr address, size_t bytes)
{
    struct gy_emu_region *region = find_reserved(address, bytes);
    if (region == NULL || region->base != address || region->bytes != bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < region->granules; i++) {
        if (region->mappings[i].allocation != NULL) {
            return CUDA_ERROR_INVALID_VALUE; /* it must be unmapped first */
        }
    }
    gy_emu_region_close(region);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    return GY_EMU_CALL(cuMemAddressFree, free_address(address, bytes));
}

/* ---- physical blocks ------------------------------------------------------------------------- */

static bool grow_file(size_t bytes)
{
    if (file < 0) {
        file = memfd_create("gantry-emu", MFD_CLOEXEC);
    }
    return file >= 0 && ftruncate(file, file_end + (off_t)bytes) == 0;
}

/* Memory is a file: of which the system may give none, for a reason of its own. */
static CUresult no_file(size_t bytes)
{
    if (errno == ENOMEM || errno == ENOSPC) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gy_emu_explain("no file in memory (memfd_create) for %zu bytes: %s", bytes, strerrordesc_np(errno));
    return CUDA_ERROR_OPERATING_SYSTEM;
}

/* Fabric handles need a service of the machine, which few have. */
static CUresult check_types(CUmemAllocationHandleType types)
{
    const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    char unused;
    if (((unsigned)types & ~known) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((types & CU_MEM_HANDLE_TYPE_FABRIC) != 0 && !gy_emu_setting("fabric", &unused, sizeof(unused))) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    return CUDA_SUCCESS;
}

/* The file of a block that is exported; -1: there is none. */
static int open_own(const struct gy_emu_device *device, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof(name), FILE_NAME "%d", device->number);
    const int own = memfd_create(name, MFD_CLOEXEC);
    if (own >= 0 && ftruncate(own, (off_t)bytes) != 0) {
        close(own);
        return -1;
    }
    return own;
}

/* Takes the file over, also when it fails. */
static struct gy_emu_allocation *add_allocation(struct gy_emu_device *device, size_t bytes, int own_file)
{
    struct gy_emu_allocation *allocation = gy_zalloc(sizeof(*allocation));
    if (allocation == NULL || gy_emu_handle_open(GY_EMU_ALLOCATION, &allocation->object) != CUDA_SUCCESS) {
        gy_free(allocation);
        if (own_file >= 0) {
            close(own_file);
        }
        return NULL;
    }
    allocation->device = device;
    allocation->bytes = bytes;
    allocation->own_file = own_file;
    gy_emu_allocations_count(1);
    return allocation;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const bool has_place = prop != NULL && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (has_place && is_whole(bytes) && flags == 0 && gy_emu_device_find(prop->location.id) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE; /* whatever else is wrong */
    }
    if (!is_whole(bytes) || flags != 0 || !is_pinned_on_device(prop)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_device *device = gy_emu_device_find(prop->location.id);
    CUresult result = check_types(prop->requestedHandleTypes);
    if (result == CUDA_ERROR_NOT_PERMITTED && bytes > device->profile->memory_bytes) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!gy_emu_budget_take(device, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const bool is_shared = prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    const int own = is_shared ? open_own(device, bytes) : -1;
    if (is_shared ? own < 0 : !grow_file(bytes)) {
        const CUresult why = no_file(bytes);
        gy_emu_budget_give(device, bytes);
        return why;
    }
    struct gy_emu_allocation *allocation = add_allocation(device, bytes, own);
    if (allocation == NULL) {
        gy_emu_budget_give(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!is_shared) {
        allocation->offset = file_end;
        file_end += (off_t)bytes;
    }
    allocation->types = prop->requestedHandleTypes;
    allocation->is_ours = true;
    *out = allocation->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    return GY_EMU_CALL(cuMemCreate, create(handle, bytes, prop, flags));
}

static void free_if_unused(struct gy_emu_allocation *allocation)
{
    if (!allocation->released || allocation->mappings > 0) {
        return;
    }
    if (allocation->own_file >= 0) {
        close(allocation->own_file);
    } else {
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, allocation->offset,
                  (off_t)allocation->bytes);
    }
    if (allocation->is_ours) {
        gy_emu_budget_give(allocation->device, allocation->bytes);
    }
    gy_emu_allocations_count(-1);
    gy_free(allocation);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    struct gy_emu_allocation *allocation =
        gy_emu_handle_find(GY_EMU_ALLOCATION, (const void *)(uintptr_t)handle);
    if (allocation == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    gy_emu_handle_close(&allocation->object);
    allocation->released = true;
    free_if_unused(allocation);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return GY_EMU_CALL(cuMemRelease, release(handle));
}

/* ---- handles for other processes --------------------------------------------------------------- */

static CUresult export_fd(const struct gy_emu_allocation *allocation, int *out)
{
    const int fd = fcntl(allocation->own_file, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = fd;
    return CUDA_SUCCESS;
}

static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                              unsigned long long flags)
{
    const struct gy_emu_allocation *allocation =
        gy_emu_handle_find(GY_EMU_ALLOCATION, (const void *)(uintptr_t)handle);
    const bool is_one = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || type == CU_MEM_HANDLE_TYPE_FABRIC;
    if (out == NULL || allocation == NULL || flags != 0 || !is_one || (allocation->types & type) == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return export_fd(allocation, out);
    }
    CUmemFabricHandle *fabric = out;
    memset(fabric, 0, sizeof(*fabric));
    snprintf((char *)fabric->data, sizeof(fabric->data), "/proc/%d/fd/%d", (int)getpid(),
             allocation->own_file);
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    return GY_EMU_CALL(cuMemExportToShareableHandle, export_handle(out, handle, type, flags));
}

/* Which device's memory a file is, by its name; NULL: it is none of ours, or of a device that is not visible
 * here. */
static struct gy_emu_device *device_of_file(int fd)
{
    char path[32], name[128];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, name, sizeof(name) - 1);
    name[length > 0 ? length : 0] = '\0';
    int number = -1;
    return sscanf(name, "/memfd:" FILE_NAME "%d", &number) == 1 ? gy_emu_device_numbered(number) : NULL;
}

/* `fd` is taken over. */
static CUresult import_file(CUmemGenericAllocationHandle *out, int fd, CUmemAllocationHandleType type)
{
    struct stat about;
    struct gy_emu_device *device = device_of_file(fd);
    if (device == NULL || fstat(fd, &about) != 0) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_allocation *allocation = add_allocation(device, (size_t)about.st_size, fd);
    if (allocation == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->types = type;
    *out = allocation->object.handle;
    return CUDA_SUCCESS;
}

static CUresult import_handle(CUmemGenericAllocationHandle *out, void *from, CUmemAllocationHandleType type)
{
    int fd = -1;
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        fd = fcntl((int)(intptr_t)from, F_DUPFD_CLOEXEC, 0);
    } else if (type == CU_MEM_HANDLE_TYPE_FABRIC && from != NULL) {
        const CUmemFabricHandle *fabric = from;
        fd = strnlen((const char *)fabric->data, sizeof(fabric->data)) < sizeof(fabric->data)
                 ? open((const char *)fabric->data, O_RDWR | O_CLOEXEC)
                 : -1;
    }
    if ((int)type == (int)OF_WINDOWS) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return fd >= 0 ? import_file(out, fd, type) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *from,
                                        CUmemAllocationHandleType type)
{
    return GY_EMU_CALL(cuMemImportFromShareableHandle, import_handle(out, from, type));
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* A block is mapped as a whole (offset 0, its whole size), as the real driver requires. */
static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    struct gy_emu_allocation *allocation =
        gy_emu_handle_find(GY_EMU_ALLOCATION, (const void *)(uintptr_t)handle);
    struct gy_emu_region *region = find_reserved(address, bytes);
    if (allocation == NULL || flags != 0 || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (offset != 0 || bytes != allocation->bytes) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (region == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t first = (address - region->base) / GY_EMU_GRANULE;
    size_t end = first + bytes / GY_EMU_GRANULE;
    for (size_t i = first; i < end; i++) {
        if (region->mappings[i].allocation != NULL) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             allocation->own_file >= 0 ? allocation->own_file : file, allocation->offset) == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = first; i < end; i++) {
        region->mappings[i] = (struct gy_emu_mapping){allocation, first, 0};
    }
    region->device = allocation->device;
    allocation->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    return GY_EMU_CALL(cuMemMap, map(address, bytes, offset, handle, flags));
}

/* True when [first, end) is made of whole mappings without gaps. */
static bool is_whole_mappings(const struct gy_emu_region *region, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (region->mappings[i].allocation == NULL || region->mappings[i].first < first) {
            return false;
        }
    }
    return end == region->granules || region->mappings[end].allocation == NULL ||
           region->mappings[end].first == end;
}

/* It lies in a range, and nothing is mapped there: as on a device, it may have any size. */
static bool has_no_mapping(CUdeviceptr address, size_t bytes)
{
    const struct gy_emu_region *region = gy_emu_memory_find((uintptr_t)address);
    if (region == NULL || region->kind != GY_EMU_REGION_RESERVED || bytes == 0) {
        return false;
    }
    const size_t first = (address - region->base) / GY_EMU_GRANULE;
    const size_t last = (address - region->base + bytes - 1) / GY_EMU_GRANULE;
    bool any = false;
    for (size_t i = first; i <= last && i < region->granules; i++) {
        any |= region->mappings[i].allocation != NULL;
    }
    return !any;
}

static CUresult unmap(CUdeviceptr address, size_t bytes)
{
    gy_emu_failed_work_end();
    if (has_no_mapping(address, bytes)) {
        return CUDA_SUCCESS;
    }
    struct gy_emu_region *region = find_reserved(address, bytes);
    if (region == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t first = (address - region->base) / GY_EMU_GRANULE;
    size_t end = first + bytes / GY_EMU_GRANULE;
    if (!is_whole_mappings(region, first, end)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (size_t i = first; i < end; i++) {
        struct gy_emu_mapping *mapping = &region->mappings[i];
        struct gy_emu_allocation *allocation = mapping->allocation;
        bool begins = mapping->first == i;
        *mapping = (struct gy_emu_mapping){NULL, 0, 0};
        if (begins) {
            allocation->mappings--;
            free_if_unused(allocation);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    return GY_EMU_CALL(cuMemUnmap, unmap(address, bytes));
}

static bool is_reached_by(const struct gy_emu_device *owner, uint32_t devices)
{
    for (; devices != 0; devices &= devices - 1) {
        if (!gy_emu_link_reaches(__builtin_ctz(devices), owner->ordinal)) {
            return false;
        }
    }
    return true;
}

static CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    struct gy_emu_region *region = find_reserved(address, bytes);
    if (region == NULL || access == NULL || count == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t first = (address - region->base) / GY_EMU_GRANULE;
    size_t end = first + bytes / GY_EMU_GRANULE;
    uint32_t granted = 0, named = 0;
    bool asks_for_host = false;
    for (size_t i = 0; i < count; i++) {
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (access[i].location.type == CU_MEM_LOCATION_TYPE_HOST) {
            asks_for_host |= access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
            continue;
        }
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            gy_emu_device_find(access[i].location.id) == NULL) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        uint32_t device = UINT32_C(1) << access[i].location.id;
        named |= device;
        granted |= access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? device : 0;
    }
    if (!is_whole_mappings(region, first, end) || asks_for_host) {
        return asks_for_host && is_whole_mappings(region, first, end) ? CUDA_ERROR_NOT_SUPPORTED
                                                                      : CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = first; i < end; i++) {
        if (!is_reached_by(region->mappings[i].allocation->device, granted)) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
    }
    for (size_t i = first; i < end; i++) {
        struct gy_emu_mapping *mapping = &region->mappings[i];
        uint32_t devices = (mapping->devices & ~named) | granted; /* other devices stay as they are */
        void *at = (void *)(region->base + i * GY_EMU_GRANULE);
        if (mprotect(at, GY_EMU_GRANULE, devices != 0 ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        mapping->devices = devices;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    return GY_EMU_CALL(cuMemSetAccess, set_access(address, bytes, access, count));
}
