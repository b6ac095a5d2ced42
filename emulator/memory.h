/* SPDX-License-Identifier: MIT */
/* Memory of the emulated devices.
 *
 * Device and pinned memory lives in one reserved range of addresses, the arena, cut into granules of 2 MiB
 * with a guard granule behind every region; a table tells the region of any address in it.  Memory that is
 * not mapped cannot be touched, so freed memory faults.  Registered host memory is on a list of its own. */
#ifndef EMULATOR_MEMORY_H
#define EMULATOR_MEMORY_H

#include "emulator/context.h"

#define GY_EMU_GRANULE ((size_t)2 << 20)

enum gy_emu_region_kind {
    GY_EMU_REGION_DEVICE,     /* cuMemAlloc */
    GY_EMU_REGION_ASYNC,      /* cuMemAllocAsync */
    GY_EMU_REGION_PINNED,     /* cuMemHostAlloc */
    GY_EMU_REGION_REGISTERED, /* cuMemHostRegister; not in the arena */
    GY_EMU_REGION_RESERVED,   /* cuMemAddressReserve */
};

struct gy_emu_allocation; /* made by cuMemCreate */

/* The mapping of a granule of a reserved region. */
struct gy_emu_mapping {
    struct gy_emu_allocation *allocation; /* NULL: the granule maps nothing */
    size_t first;                         /* the granule of the region where the mapping begins */
    uint32_t devices;                     /* bit d: cuMemSetAccess lets device d read and write */
};

struct gy_emu_region {
    enum gy_emu_region_kind kind;
    uintptr_t base;
    size_t bytes;    /* the bytes that were asked for, which may be accessed */
    size_t granules; /* granules in the arena, without the guard; 0: the region is not in the arena */
    size_t charged;  /* bytes taken from the device's budget */
    struct gy_emu_context *context; /* the root; NULL: a reservation belongs to none */
    struct gy_emu_device *device;
    unsigned int flags;
    bool freeing;                      /* a stream-ordered free is queued */
    bool is_file;                      /* it has pages of a file that others may have mapped, too */
    struct gy_emu_mapping *mappings;   /* one per granule of a reservation */
    struct gy_emu_region *prev, *next; /* links of the list of all regions */
};

/* The side of a copy that an address is for. */
enum gy_emu_side {
    GY_EMU_SIDE_DEVICE, /* must be device or pinned memory */
    GY_EMU_SIDE_HOST,   /* must not be device memory; pageable memory cannot be checked */
    GY_EMU_SIDE_ANY,
};

/* Find the region that an address lies in; NULL: none.  An address just behind the accessible bytes is in
 * none. */
struct gy_emu_region *gy_emu_memory_find(uintptr_t address);
/* A driver locks whole pages: is another byte of these registered to be read only, and these are not to be,
 * or the other way round? */
bool gy_emu_memory_is_locked_otherwise(uintptr_t address, size_t bytes, unsigned int flags);
/* INVALID_VALUE unless all of [address, address + bytes) may be accessed. */
CUresult gy_emu_memory_check(enum gy_emu_side side, CUdeviceptr address, size_t bytes);
#define GY_EMU_REGISTERED_READ_ONLY 8u /* a flag of cuMemHostRegister() */
/* As gy_emu_memory_check(), for what the device writes. */
CUresult gy_emu_memory_check_written(enum gy_emu_side side, CUdeviceptr address, size_t bytes);
/* May copies and fills of `context` access the memory?  This matters for memory whose access cuMemSetAccess()
 * grants: other memory of other devices is reached through the host, if need be. */
bool gy_emu_memory_is_granted(const struct gy_emu_context *context, CUdeviceptr address, size_t bytes);
/* The device that owns the memory at an address, when it is device memory that kernels of `context` have no
 * access to; else -1. */
int gy_emu_memory_is_foreign(const struct gy_emu_context *context, uintptr_t address);
bool gy_emu_memory_check_any(const void *address, size_t bytes);
/* The memory is neither pinned nor registered nor device memory. */
bool gy_emu_memory_is_pageable(CUdeviceptr address);

/* Reserve the arena unless it is: where it is, and how large; false: there is no room. */
bool gy_emu_arena_reserve(uintptr_t *from, size_t *bytes);
/* Take address space from the arena, with nothing mapped; OUT_OF_MEMORY. */
CUresult gy_emu_region_open(enum gy_emu_region_kind kind, size_t bytes, size_t alignment,
                            struct gy_emu_region **out);
/* Map `bytes` of a file from `offset` on as device memory, shared with everybody else who has it mapped.
 * `offset` need not be a multiple of a page. */
CUresult gy_emu_region_open_file(int fd, uint64_t offset, size_t bytes, struct gy_emu_region **out);
/* Unmap and give the address space back. */
void gy_emu_region_close(struct gy_emu_region *region);
/* Put a region outside of the arena on the list. */
void gy_emu_region_register(struct gy_emu_region *region);
/* Free the region as the application does, which also gives the budget back. */
void gy_emu_memory_free(struct gy_emu_region *region);
void gy_emu_memory_free_all(struct gy_emu_context *root);

/* Take bytes from a device's memory, and give them back. */
bool gy_emu_budget_take(struct gy_emu_device *device, size_t bytes);
void gy_emu_budget_give(struct gy_emu_device *device, size_t bytes);

/* The block is about to be freed, when work that is queued is done; or not, after all. */
void gy_emu_memory_set_freeing(struct gy_emu_region *region, bool is_freeing);
bool gy_emu_memory_awaits_frees(void);

/* external.c: close everything that a context which ends has imported. */
void gy_emu_external_close_all(struct gy_emu_context *root);
/* external.c: map a range of imported memory into the current context. */
CUresult gy_emu_external_map(CUexternalMemory memory, uint64_t offset, uint64_t bytes,
                             struct gy_emu_region **out);

/* work.c: the bytes from the first row's begin to the last row's end. */
size_t gy_emu_rows_bytes(size_t pitch, size_t width, size_t height);

/* Memory that is mapped. */
#define GY_EMU_ANY_DEVICE UINT32_MAX
/* All of the range is mapped, and one of the devices (bits) may access it. */
bool gy_emu_mappings_cover(const struct gy_emu_region *region, uintptr_t address, size_t bytes,
                           uint32_t devices);
void gy_emu_allocations_count(int change);
int64_t gy_emu_allocations_live(void);

#endif
