/* SPDX-License-Identifier: MIT */
/* The arena: reserved addresses, and the region that each granule belongs to. */
#include "emulator/memory.h"

#include "base/alloc.h"
#include "base/sanitizers.h"
#include "emulator/control.h"
#include "emulator/peer.h"
#include "emulator/proof.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define MOST_GRANULES ((size_t)1 << 19) /* 1 TiB */
#define FEWEST_GRANULES ((size_t)1 << 6)
#define PAGE_BYTES ((size_t)4096)

static int64_t allocations;
static uint32_t queued_frees; /* stream-ordered frees that did not happen yet */
static uintptr_t arena;       /* 0: it is not reserved yet */
static size_t granule_count;
static struct gy_emu_region *table[MOST_GRANULES]; /* a guard belongs to the region in front of it */
/* The granule where the search for room begins: addresses are used again late.  When there is no region left
 * it begins anew, so that a program that makes contexts again and again does not meet all of 1 TiB. */
static size_t cursor;
static struct gy_emu_region *regions; /* the list of all regions, also those outside of the arena */

/* The number of granules to reserve.  Address space alone costs nothing, unless it is limited (`ulimit -v`):
 * then half of it is left for the program and the stacks of its threads. */
static size_t most_granules(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur / 2 / GY_EMU_GRANULE >= MOST_GRANULES) {
        return MOST_GRANULES;
    }
    return limit.rlim_cur / 2 / GY_EMU_GRANULE;
}

/* Reserve as much as the system lets us. */
static bool reserve_arena(void)
{
    for (size_t n = most_granules(); arena == 0 && n >= FEWEST_GRANULES; n /= 2) {
        size_t bytes = (n + 1) * GY_EMU_GRANULE;
        void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            arena = ((uintptr_t)p + GY_EMU_GRANULE - 1) & ~(uintptr_t)(GY_EMU_GRANULE - 1);
            granule_count = n;
        }
    }
    return arena != 0;
}

static bool is_free(size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (table[first + i] != NULL) {
            return false;
        }
    }
    return true;
}

/* Find the first of `count` free granules at a multiple of `step`; SIZE_MAX: there is no room. */
static size_t find_room(size_t count, size_t step)
{
    size_t base = arena / GY_EMU_GRANULE;
    if (count > granule_count) {
        return SIZE_MAX;
    }
    for (size_t tried = 0; tried <= granule_count; tried++) {
        size_t first = cursor + tried;
        if (first >= granule_count) {
            first -= granule_count;
        }
        if ((base + first) % step == 0 && first + count <= granule_count && is_free(first, count)) {
            return first;
        }
    }
    return SIZE_MAX;
}

static void link_region(struct gy_emu_region *region)
{
    region->next = regions;
    if (regions != NULL) {
        regions->prev = region;
    }
    regions = region;
}

/* The end of the last page that `bytes` of a region reach into. */
static size_t page_end(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

/* Let the region's pages be touched, but not the rest of its granules.  Only the rest of the last page is
 * poisoned: for poisoned memory, and for memory that is unpoisoned, the address sanitizer needs an eighth of
 * its size. */
static bool open_pages(struct gy_emu_region *region)
{
    char *start = (char *)region->base;
    size_t span = page_end(region->bytes);
    if (mprotect(start, span, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    if (region->bytes < GY_EMU_GRANULE) {
        madvise(start, span, MADV_NOHUGEPAGE); /* without this, the first touch clears 2 MiB */
    }
    GY_POISON(start + region->bytes, span - region->bytes);
    return true;
}

static void close_pages(const struct gy_emu_region *region)
{
    char *start = (char *)(region->base &
                           ~(uintptr_t)(PAGE_BYTES - 1)); /* a region of a file may begin within a page */
    if (region->kind != GY_EMU_REGION_RESERVED && !region->is_file) {
        GY_UNPOISON(start + region->bytes, page_end(region->bytes) - region->bytes);
    }
    /* A fresh reservation over it drops the pages and everything the kernel kept about them. */
    mmap(start, region->granules * GY_EMU_GRANULE, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool gy_emu_arena_reserve(uintptr_t *from, size_t *bytes)
{
    if (arena == 0 && !reserve_arena()) {
        return false;
    }
    *from = arena;
    *bytes = granule_count * GY_EMU_GRANULE;
    return true;
}

CUresult gy_emu_region_open(enum gy_emu_region_kind kind, size_t bytes, size_t alignment,
                            struct gy_emu_region **out)
{
    if (arena == 0 && !reserve_arena()) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t granules = bytes / GY_EMU_GRANULE + (bytes % GY_EMU_GRANULE != 0);
    size_t step = alignment > GY_EMU_GRANULE ? alignment / GY_EMU_GRANULE : 1;
    size_t first = find_room(granules + 1, step);
    struct gy_emu_region *region = first != SIZE_MAX ? gy_zalloc(sizeof(*region)) : NULL;
    if (region == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->kind = kind;
    region->base = arena + first * GY_EMU_GRANULE;
    region->bytes = bytes;
    region->granules = granules;
    if (kind != GY_EMU_REGION_RESERVED && !open_pages(region)) {
        gy_free(region);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i <= granules; i++) {
        table[first + i] = region;
    }
    cursor = first + granules + 1 < granule_count ? first + granules + 1 : 0;
    link_region(region);
    *out = region;
    return CUDA_SUCCESS;
}

CUresult gy_emu_region_open_file(int fd, uint64_t offset, size_t bytes, struct gy_emu_region **out)
{
    size_t before = offset % PAGE_BYTES;
    struct gy_emu_region *region;
    CUresult result = gy_emu_region_open(GY_EMU_REGION_RESERVED, before + bytes, 0, &region);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (mmap((void *)region->base, page_end(region->bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             fd, (off_t)(offset - before)) == MAP_FAILED) {
        gy_emu_region_close(region);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->kind = GY_EMU_REGION_DEVICE;
    region->is_file = true;
    region->base += before;
    region->bytes = bytes;
    *out = region;
    return CUDA_SUCCESS;
}

static void unlink_region(struct gy_emu_region *region)
{
    if (region->prev != NULL) {
        region->prev->next = region->next;
    } else {
        regions = region->next;
    }
    if (region->next != NULL) {
        region->next->prev = region->prev;
    }
    cursor = regions == NULL ? 0 : cursor;
}

void gy_emu_region_close(struct gy_emu_region *region)
{
    if (region->kind != GY_EMU_REGION_REGISTERED) {
        close_pages(region);
        gy_emu_proof_forget(region->base, region->bytes);
        size_t first = (region->base - arena) / GY_EMU_GRANULE;
        for (size_t i = 0; i <= region->granules; i++) {
            table[first + i] = NULL;
        }
    }
    unlink_region(region);
    gy_free(region->mappings);
    gy_free(region);
}

/* Find the region of a granule, even when the address is behind its accessible bytes. */
static struct gy_emu_region *find_in_arena(uintptr_t address)
{
    if (arena == 0 || address < arena || address - arena >= granule_count * GY_EMU_GRANULE) {
        return NULL;
    }
    return table[(address - arena) / GY_EMU_GRANULE];
}

static bool is_in_arena(uintptr_t address)
{
    return arena != 0 && address >= arena && address - arena < granule_count * GY_EMU_GRANULE;
}

struct gy_emu_region *gy_emu_memory_find(uintptr_t address)
{
    struct gy_emu_region *region = find_in_arena(address);
    if (region == NULL && !is_in_arena(address)) {
        region = regions;
        while (region != NULL &&
               (region->kind != GY_EMU_REGION_REGISTERED || address - region->base >= region->bytes)) {
            region = region->next;
        }
    }
    return region != NULL && address - region->base < region->bytes ? region : NULL;
}

bool gy_emu_memory_is_locked_otherwise(uintptr_t address, size_t bytes, unsigned int flags)
{
    const uintptr_t first = address / PAGE_BYTES, last = (address + bytes - 1) / PAGE_BYTES;
    bool any = false;
    for (const struct gy_emu_region *region = regions; region != NULL && !any; region = region->next) {
        any = region->kind == GY_EMU_REGION_REGISTERED && region->base / PAGE_BYTES <= last &&
              (region->base + region->bytes - 1) / PAGE_BYTES >= first &&
              ((region->flags ^ flags) & GY_EMU_REGISTERED_READ_ONLY) != 0;
    }
    return any;
}

static bool is_within(const struct gy_emu_region *region, uintptr_t address, size_t bytes)
{
    return bytes <= region->bytes - (address - region->base) &&
           (region->kind != GY_EMU_REGION_RESERVED ||
            gy_emu_mappings_cover(region, address, bytes, GY_EMU_ANY_DEVICE));
}

static bool is_device_memory(const struct gy_emu_region *region)
{
    return region->kind != GY_EMU_REGION_PINNED && region->kind != GY_EMU_REGION_REGISTERED;
}

CUresult gy_emu_memory_check(enum gy_emu_side side, CUdeviceptr address, size_t bytes)
{
    if (bytes == 0) {
        return CUDA_SUCCESS;
    }
    const struct gy_emu_region *region = gy_emu_memory_find((uintptr_t)address);
    if (region == NULL) {
        bool pageable = address != 0 && !is_in_arena((uintptr_t)address);
        return side != GY_EMU_SIDE_DEVICE && pageable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (side == GY_EMU_SIDE_HOST && is_device_memory(region)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return is_within(region, (uintptr_t)address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult gy_emu_memory_check_written(enum gy_emu_side side, CUdeviceptr address, size_t bytes)
{
    const struct gy_emu_region *region = bytes > 0 ? gy_emu_memory_find((uintptr_t)address) : NULL;
    const bool is_read_only = region != NULL && region->kind == GY_EMU_REGION_REGISTERED &&
                              (region->flags & GY_EMU_REGISTERED_READ_ONLY) != 0;
    return is_read_only ? CUDA_ERROR_INVALID_VALUE : gy_emu_memory_check(side, address, bytes);
}

bool gy_emu_memory_is_granted(const struct gy_emu_context *context, CUdeviceptr address, size_t bytes)
{
    const struct gy_emu_region *region = gy_emu_memory_find((uintptr_t)address);
    return bytes == 0 || region == NULL || region->kind != GY_EMU_REGION_RESERVED ||
           gy_emu_mappings_cover(region, (uintptr_t)address, bytes, UINT32_C(1) << context->device->ordinal);
}

int gy_emu_memory_is_foreign(const struct gy_emu_context *context, uintptr_t address)
{
    const struct gy_emu_region *region = is_in_arena(address) ? gy_emu_memory_find(address) : NULL;
    if (region == NULL || !is_device_memory(region) || region->device == NULL) {
        return -1;
    }
    bool is_own = region->device == context->device;
    if (region->kind == GY_EMU_REGION_RESERVED) {
        is_own = !gy_emu_mappings_cover(region, address, 1, GY_EMU_ANY_DEVICE) ||
                 gy_emu_mappings_cover(region, address, 1, UINT32_C(1) << context->device->ordinal);
    } else if (!is_own && region->kind == GY_EMU_REGION_DEVICE && region->context != NULL) {
        is_own = gy_emu_peer_is_enabled(context, region->context);
    }
    return is_own ? -1 : region->device->ordinal;
}

bool gy_emu_memory_check_any(const void *address, size_t bytes)
{
    return gy_emu_memory_check(GY_EMU_SIDE_ANY, (uintptr_t)address, bytes) == CUDA_SUCCESS;
}

bool gy_emu_memory_is_pageable(CUdeviceptr address)
{
    return gy_emu_memory_find((uintptr_t)address) == NULL;
}

/* ---- the list of all ------------------------------------------------------------------------- */

void gy_emu_region_register(struct gy_emu_region *region)
{
    link_region(region);
}

void gy_emu_allocations_count(int change)
{
    allocations += change;
}

int64_t gy_emu_allocations_live(void)
{
    return allocations;
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

bool gy_emu_budget_take(struct gy_emu_device *device, size_t bytes)
{
    if (bytes > device->profile->memory_bytes - device->used_bytes) {
        return false;
    }
    device->used_bytes += bytes;
    return true;
}

void gy_emu_budget_give(struct gy_emu_device *device, size_t bytes)
{
    device->used_bytes -= bytes;
}

void gy_emu_memory_set_freeing(struct gy_emu_region *region, bool is_freeing)
{
    queued_frees += (uint32_t)is_freeing - (uint32_t)region->freeing;
    region->freeing = is_freeing;
}

bool gy_emu_memory_awaits_frees(void)
{
    return queued_frees > 0;
}

void gy_emu_memory_free(struct gy_emu_region *region)
{
    if (region->charged != 0) {
        gy_emu_budget_give(region->device, region->charged);
    }
    queued_frees -= region->freeing;
    gy_emu_region_close(region);
}

void gy_emu_memory_free_all(struct gy_emu_context *root)
{
    struct gy_emu_region *region = regions;
    while (region != NULL) {
        struct gy_emu_region *next = region->next;
        if (region->context == root) {
            gy_emu_memory_free(region);
        }
        region = next;
    }
}

static int64_t count_kind(enum gy_emu_region_kind kind)
{
    int64_t n = 0;
    for (const struct gy_emu_region *r = regions; r != NULL; r = r->next) {
        n += r->kind == kind;
    }
    return n;
}

int64_t gy_emu_memory_live(enum gantry_emu_live_kind kind)
{
    int64_t bytes = 0;
    switch (kind) {
    case GANTRY_EMU_LIVE_DEVICE_BLOCKS:
        return count_kind(GY_EMU_REGION_DEVICE) + count_kind(GY_EMU_REGION_ASYNC) + gy_emu_allocations_live();
    case GANTRY_EMU_LIVE_PINNED_BLOCKS:
        return count_kind(GY_EMU_REGION_PINNED);
    case GANTRY_EMU_LIVE_REGISTRATIONS:
        return count_kind(GY_EMU_REGION_REGISTERED);
    case GANTRY_EMU_LIVE_RESERVATIONS:
        return count_kind(GY_EMU_REGION_RESERVED);
    default:
        for (int i = 0; i < gy_emu_device_count(); i++) {
            bytes += (int64_t)gy_emu_device_find(i)->used_bytes;
        }
        return bytes;
    }
}
