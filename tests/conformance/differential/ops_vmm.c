/* SPDX-License-Identifier: MIT */
/* Address ranges and the memory behind them. */
#include "tests/conformance/differential/ops.h"

#include <unistd.h>

static CUmemAllocationProp draw_prop(void)
{
    bool is_right = df_below(3) != 0;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    if (!is_right) {
        prop.type = (CUmemAllocationType)DF_PICK("type", 1, 1, 1, 0, 2, 99);
        prop.requestedHandleTypes = (CUmemAllocationHandleType)DF_PICK("h", 0, 1, 1, 2, 3, 8, 4, 0x100);
        prop.location.type = (CUmemLocationType)DF_PICK("loc", 1, 1, 1, 0, 2, 99);
        prop.location.id =
            (int)DF_PICK("id", 0, 0, 0, (unsigned long long)df_second_device(), 99, (unsigned long long)-1);
    }
    return prop;
}

static void op_granularity(void)
{
    size_t bytes = 0;
    CUmemAllocationProp prop = draw_prop();
    unsigned option = (unsigned)DF_PICK("option", 0, 1, 2, 0xffff);
    if (ask(cuMemGetAllocationGranularity, df_or_null(&bytes), df_or_null(&prop),
            (CUmemAllocationGranularity_flags)option) == CUDA_SUCCESS) {
        df_note("%zu", bytes);
    }
}

static void op_create(void)
{
    CUmemGenericAllocationHandle handle = 0;
    int slot = df_slot("slot", DF_HANDLES);
    size_t bytes = (size_t)DF_PICK("bytes", DF_GRANULE, DF_GRANULE, DF_GRANULE, DF_GRANULE, 0, 1,
                                   DF_GRANULE - 1, DF_GRANULE + 4096, DF_GRANULE / 2, 1ull << 50);
    unsigned long long flags = DF_PICK("flags", 0, 0, 0, 1);
    CUmemAllocationProp prop = draw_prop();
    if (w.handles[slot] != 0) {
        df_skip(DF_cuMemCreate);
        return;
    }
    if (ask(cuMemCreate, df_or_null(&handle), bytes, df_or_null(&prop), flags) == CUDA_SUCCESS) {
        const bool is_ours = prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0;
        if (bytes == DF_GRANULE && is_ours) {
            w.handles[slot] = handle;
        } else {
            (void)cu->cuMemRelease(handle);
        }
    }
}

static void op_release(void)
{
    int slot = df_slot("slot", DF_HANDLES);
    CUmemGenericAllocationHandle handle = w.handles[slot];
    if (df_one_in(6)) { /* other wrong ones are pointers to a device's driver */
        df_shape("wrong");
        ask(cuMemRelease, 0);
        return;
    }
    if (handle == 0) {
        df_skip(DF_cuMemRelease);
        return;
    }
    df_settle();
    if (ask(cuMemRelease, handle) == CUDA_SUCCESS) {
        w.handles[slot] = 0;
    }
}

static void op_reserve(void)
{
    CUdeviceptr address = 0;
    int slot = df_slot("slot", DF_RANGES);
    size_t all = (size_t)DF_RANGE_GRANULES * DF_GRANULE;
    size_t bytes = (size_t)DF_PICK("bytes", all, all, all, 0, 1, DF_GRANULE - 1, DF_GRANULE + 4096, ~0ull);
    size_t alignment = (size_t)DF_PICK("align", 0, 0, DF_GRANULE, 2 * DF_GRANULE, 1, 3, 4096);
    unsigned long long flags = DF_PICK("flags", 0, 0, 0, 1);
    CUdeviceptr wanted = DF_PICK("at", 0, 0, 0, 1, 0x1000);
    if (w.ranges[slot].address != 0) {
        df_skip(DF_cuMemAddressReserve);
        return;
    }
    if (ask(cuMemAddressReserve, df_or_null(&address), bytes, alignment, wanted, flags) == CUDA_SUCCESS) {
        df_note("%d", alignment < DF_GRANULE || address % alignment == 0);
        if (bytes == all) {
            w.ranges[slot] = (struct df_range){.address = address};
        } else {
            (void)cu->cuMemAddressFree(address, bytes);
        }
    }
}

static void op_free(void)
{
    int slot = df_slot("slot", DF_RANGES);
    struct df_range *range = &w.ranges[slot];
    size_t all = (size_t)DF_RANGE_GRANULES * DF_GRANULE;
    size_t bytes = (size_t)DF_PICK("bytes", all, all, DF_GRANULE, 0, all + DF_GRANULE, 1);
    CUdeviceptr shift = DF_PICK("shift", 0, 0, 0, DF_GRANULE, 1);
    bool is_mapped = range->is_mapped[0] || range->is_mapped[1] || range->is_mapped[2];
    df_shape("m%d", is_mapped);
    if (range->address == 0) {
        df_skip(DF_cuMemAddressFree);
        return;
    }
    df_settle();
    if (ask(cuMemAddressFree, range->address + shift, bytes) == CUDA_SUCCESS) {
        *range = (struct df_range){.address = 0};
    }
}

static void op_map(void)
{
    int slot = df_slot("range", DF_RANGES), at = df_slot("at", DF_RANGE_GRANULES),
        memory = df_slot("h", DF_HANDLES);
    size_t bytes = (size_t)DF_PICK("bytes", DF_GRANULE, DF_GRANULE, DF_GRANULE, DF_GRANULE, 0, 1, 4096,
                                   2 * DF_GRANULE, 4 * DF_GRANULE);
    size_t offset = (size_t)DF_PICK("off", 0, 0, 0, 0, 0, 1, DF_GRANULE);
    unsigned long long flags = DF_PICK("flags", 0, 0, 0, 0, 1);
    CUdeviceptr shift = DF_PICK("shift", 0, 0, 0, 0, 4096, 1);
    struct df_range *range = &w.ranges[slot];
    CUmemGenericAllocationHandle handle = w.handles[memory];
    if (df_one_in(16)) {
        df_shape("wrong");
        handle = 0;
    }
    df_shape("m%d", range->is_mapped[at]);
    if (range->address == 0 || w.handles[memory] == 0) {
        df_skip(DF_cuMemMap);
        return;
    }
    CUdeviceptr address = range->address + (CUdeviceptr)at * DF_GRANULE + shift;
    if (ask(cuMemMap, address, bytes, offset, handle, flags) == CUDA_SUCCESS) {
        if (bytes == DF_GRANULE && shift == 0) {
            range->is_mapped[at] = true;
        } else {
            (void)cu->cuMemUnmap(address, bytes);
        }
    }
}

static void op_unmap(void)
{
    int slot = df_slot("range", DF_RANGES), at = df_slot("at", DF_RANGE_GRANULES);
    struct df_range *range = &w.ranges[slot];
    size_t bytes = (size_t)DF_PICK("bytes", DF_GRANULE, DF_GRANULE, DF_GRANULE, 0, 1, 4096);
    CUdeviceptr shift = DF_PICK("shift", 0, 0, 0, 0, 4096, 1);
    df_shape("m%d", range->is_mapped[at]);
    if (range->address == 0) {
        df_skip(DF_cuMemUnmap);
        return;
    }
    df_settle();
    if (ask(cuMemUnmap, range->address + (CUdeviceptr)at * DF_GRANULE + shift, bytes) == CUDA_SUCCESS) {
        range->is_mapped[at] = range->is_usable[at] = false;
    }
}

static void op_access(void)
{
    int slot = df_slot("range", DF_RANGES), at = df_slot("at", DF_RANGE_GRANULES);
    struct df_range *range = &w.ranges[slot];
    size_t bytes = (size_t)DF_PICK("bytes", DF_GRANULE, DF_GRANULE, DF_GRANULE, 0, 1, 4096, 2 * DF_GRANULE);
    size_t count = (size_t)DF_PICK("count", 1, 1, 1, 1, 0);
    bool is_right = df_below(3) != 0;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!is_right) {
        access.location.type = (CUmemLocationType)DF_PICK("loc", 1, 1, 0, 2, 99);
        access.location.id =
            (int)DF_PICK("id", 0, 0, (unsigned long long)df_second_device(), 99, (unsigned long long)-1);
        access.flags = (CUmemAccess_flags)DF_PICK("prot", 3, 3, 1, 0, 2, 4);
    }
    df_shape("m%d%d", range->is_mapped[at], at + 1 < DF_RANGE_GRANULES && range->is_mapped[at + 1]);
    if (range->address == 0) {
        df_skip(DF_cuMemSetAccess);
        return;
    }
    df_settle();
    CUresult result =
        ask(cuMemSetAccess, range->address + (CUdeviceptr)at * DF_GRANULE, bytes, &access, count);
    if (result == CUDA_SUCCESS && count == 1) {
        bool is_usable = access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
                         access.location.type == CU_MEM_LOCATION_TYPE_DEVICE && access.location.id == 0;
        for (int i = at; i < DF_RANGE_GRANULES && (i == at || bytes > DF_GRANULE); i++) {
            range->is_usable[i] = range->is_mapped[i] && is_usable && bytes >= DF_GRANULE && i < at + 2;
            if (range->is_usable[i]) {
                df_fill(range->address + (CUdeviceptr)i * DF_GRANULE, DF_GRANULE, false);
            }
        }
    }
}

static void op_share(void)
{
    int slot = df_slot("h", DF_HANDLES), fd = -1;
    union {
        int fd;
        char room[64];
    } out = {.fd = -1};
    CUmemGenericAllocationHandle imported = 0;
    CUmemAllocationHandleType type = (CUmemAllocationHandleType)DF_PICK("type", 1, 1, 1, 0, 2, 8, 99);
    unsigned long long flags = DF_PICK("flags", 0, 0, 0, 1);
    if (w.handles[slot] == 0) {
        df_skip(DF_cuMemExportToShareableHandle);
        return;
    }
    if (ask(cuMemExportToShareableHandle, df_or_null(&out), w.handles[slot], type, flags) == CUDA_SUCCESS) {
        fd = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? out.fd : -1;
    }
    if (fd >= 0) {
        df_shape("right");
        if (ask(cuMemImportFromShareableHandle, &imported, (void *)(uintptr_t)fd,
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS) {
            (void)cu->cuMemRelease(imported);
        }
        close(fd);
    }
}

static void op_import(void)
{
    CUmemGenericAllocationHandle imported = 0;
    CUmemAllocationHandleType type = (CUmemAllocationHandleType)DF_PICK("type", 1, 1, 0, 2, 99);
    void *from = (void *)(uintptr_t)DF_PICK("fd", 9999, 0xffffffff);
    ask(cuMemImportFromShareableHandle, df_or_null(&imported), from, type);
}

const struct df_op df_ops_vmm[] = {{2, op_granularity}, {6, op_create}, {4, op_release}, {5, op_reserve},
                                   {3, op_free},        {8, op_map},    {5, op_unmap},   {8, op_access},
                                   {2, op_share},       {1, op_import}, {0, NULL}};
