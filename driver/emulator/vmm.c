/* Virtual memory management: physical blocks are pieces of one memory file, so that a block can be mapped at
 * several addresses.  Offsets in the file are used once; the pages of a block go back with it. */
#include "driver/emulator/memory.h"

#include "base/alloc.h"
#include "driver/emulator/peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct gy_emu_allocation {
    struct gy_emu_object object; /* cuMemRelease() closes it */
    struct gy_emu_device *device;
    size_t bytes;
    off_t offset;
    uint32_t mappings; /* the block lives on while it is mapped */
    bool released;
};

static int file = -1;
static off_t file_end;
static int64_t allocations;

int64_t gy_emu_allocations_live(void)
{
    return allocations;
}

static bool is_whole(size_t bytes)
{
    return bytes != 0 && bytes % GY_EMU_GRANULE == 0;
}

static bool is_pinned_on_device(const CUmemAllocationProp *prop)
{
    return prop != NULL && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult get_granularity(size_t *bytes, const CUmemAllocationProp *prop,
                                CUmemAllocationGranularity_flags option)
{
    if (bytes == NULL || !is_pinned_on_device(prop) || (unsigned int)option > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gy_emu_device_find(prop->location.id) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
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
static CUresult reserve(CUdeviceptr *out, size_t bytes, size_t alignment, unsigned long long flags)
{
    if (out == NULL || !is_whole(bytes) || (alignment & (alignment - 1)) != 0 || flags != 0) {
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
    (void)wanted;
    return GY_EMU_CALL(cuMemAddressReserve, reserve(address, bytes, alignment, flags));
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

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    if (out == NULL || !is_whole(bytes) || flags != 0 || !is_pinned_on_device(prop)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct gy_emu_device *device = gy_emu_device_find(prop->location.id);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!gy_emu_budget_take(device, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_allocation *allocation = gy_zalloc(sizeof(*allocation));
    if (allocation == NULL || !grow_file(bytes) ||
        gy_emu_handle_open(GY_EMU_ALLOCATION, &allocation->object) != CUDA_SUCCESS) {
        gy_free(allocation);
        gy_emu_budget_give(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->device = device;
    allocation->bytes = bytes;
    allocation->offset = file_end;
    file_end += (off_t)bytes;
    allocations++;
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
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, allocation->offset, (off_t)allocation->bytes);
    gy_emu_budget_give(allocation->device, allocation->bytes);
    allocations--;
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

/* ---- mappings -------------------------------------------------------------------------------- */

/* A block is mapped as a whole (offset 0, its whole size), as the real driver requires. */
static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    struct gy_emu_allocation *allocation =
        gy_emu_handle_find(GY_EMU_ALLOCATION, (const void *)(uintptr_t)handle);
    struct gy_emu_region *region = find_reserved(address, bytes);
    if (allocation == NULL || region == NULL || offset != 0 || flags != 0 || bytes != allocation->bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t first = (address - region->base) / GY_EMU_GRANULE;
    size_t end = first + bytes / GY_EMU_GRANULE;
    for (size_t i = first; i < end; i++) {
        if (region->mappings[i].allocation != NULL) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
             allocation->offset) == MAP_FAILED) {
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

static CUresult unmap(CUdeviceptr address, size_t bytes)
{
    gy_emu_failed_work_end();
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
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            gy_emu_device_find(access[i].location.id) == NULL) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        uint32_t device = UINT32_C(1) << access[i].location.id;
        named |= device;
        granted |= access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? device : 0;
    }
    if (!is_whole_mappings(region, first, end)) {
        return CUDA_ERROR_INVALID_VALUE;
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

bool gy_emu_mappings_cover(const struct gy_emu_region *region, uintptr_t address, size_t bytes,
                           uint32_t devices)
{
    size_t first = (address - region->base) / GY_EMU_GRANULE;
    size_t last = (address - region->base + bytes - 1) / GY_EMU_GRANULE;
    for (size_t i = first; i <= last; i++) {
        if ((region->mappings[i].devices & devices) == 0) {
            return false;
        }
    }
    return true;
}
