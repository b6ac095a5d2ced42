/* SPDX-License-Identifier: MIT */
/* Memory of the device and of the host, and what is told about it. */
#include "tests/conformance/differential/ops.h"

static const unsigned long long sizes[] = {1, 3,          100,     256,     1000,     4096, 5000,
                                           0, 1ull << 50, 2 << 20, 3 << 20, 64 << 10, ~0ull};

static void op_info(void)
{
    size_t free_bytes = 0, total = 0;
    ask(cuMemGetInfo, df_or_null(&free_bytes), df_or_null(&total));
}

static void put_block(int slot, CUdeviceptr address, size_t bytes, bool is_of_pool)
{
    struct df_block block = {
        .address = address, .bytes = bytes, .is_of_pool = is_of_pool, .is_of_second = df_home() == 'b'};
    df_put_block(slot, block);
    df_fill(address, bytes, block.is_of_second);
}

static void op_alloc(void)
{
    CUdeviceptr address = 0;
    int slot = df_slot("slot", DF_BLOCKS);
    size_t bytes = sizes[df_choice("bytes", 13)];
    w.picked = NULL; /* it is of the current context */
    if (w.blocks[slot].address != 0) {
        df_skip(DF_cuMemAlloc);
        return;
    }
    if (ask(cuMemAlloc, df_or_null(&address), bytes) == CUDA_SUCCESS && address != 0) {
        put_block(slot, address, bytes, false);
    }
}

static void op_alloc_async(void)
{
    CUdeviceptr address = 0;
    int slot = df_slot("slot", DF_BLOCKS);
    size_t bytes = sizes[df_choice("bytes", 13)];
    CUstream stream = df_stream();
    bool is_capturing = df_stream_is_there() && df_is_capturing(stream);
    df_shape("c%d", is_capturing);
    if (!df_stream_is_there() || w.blocks[slot].address != 0 || (is_capturing && !df_one_in(8))) {
        df_skip(DF_cuMemAllocAsync);
        return;
    }
    if (ask(cuMemAllocAsync, df_or_null(&address), bytes, stream) == CUDA_SUCCESS && address != 0 &&
        !is_capturing) {
        put_block(slot, address, bytes, true);
    }
}

/* Addresses that are no beginning of a block. */
static CUdeviceptr wrong_address(void)
{
    return (CUdeviceptr)DF_PICK("wrong", 0, 1, 0x1000, 0x7000000000000000, w.arena[0] - DF_ARENA / 2 + 1,
                                w.arena[0], w.arena[2], (uintptr_t)w.pages, ~0ull);
}

static void op_free(void)
{
    int slot = df_slot("slot", DF_BLOCKS);
    struct df_block block = w.blocks[slot];
    bool is_wrong = df_one_in(3), is_twice = df_one_in(4), is_other = df_one_in(16);
    CUdeviceptr wrong = wrong_address();
    df_shape("w%d,o%d,p%d", is_wrong, is_other, block.is_of_pool);
    if (is_wrong) {
        ask(cuMemFree, wrong);
        return;
    }
    if (block.address == 0 || (block.is_of_pool && !is_other)) {
        df_skip(DF_cuMemFree);
        return;
    }
    df_settle();
    if (ask(cuMemFree, block.address) != CUDA_SUCCESS) {
        return;
    }
    w.blocks[slot].address = 0;
    if (is_twice) {
        df_shape("again");
        ask(cuMemFree, block.address);
    }
}

static void op_free_async(void)
{
    int slot = df_slot("slot", DF_BLOCKS);
    struct df_block block = w.blocks[slot];
    bool is_wrong = df_one_in(3), is_other = df_one_in(8);
    CUdeviceptr wrong = wrong_address();
    CUstream stream = df_stream();
    df_shape("w%d,o%d,p%d", is_wrong, is_other, block.is_of_pool);
    if (!df_stream_is_there() || df_is_capturing(stream) ||
        (!is_wrong && (block.address == 0 || (!block.is_of_pool && !is_other)))) {
        df_skip(DF_cuMemFreeAsync);
        return;
    }
    df_settle();
    if (is_wrong) {
        ask(cuMemFreeAsync, wrong, stream);
    } else if (ask(cuMemFreeAsync, block.address, stream) == CUDA_SUCCESS) {
        w.blocks[slot].address = 0;
    }
}

static void op_host_alloc(void)
{
    void *pointer = NULL;
    CUdeviceptr address = 0;
    int slot = df_slot("slot", DF_REGIONS);
    size_t bytes = (size_t)DF_PICK("bytes", 1, 100, 4096, 5000, 0, 1ull << 50);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 2, 3, 4, 7, 8, 16, 0xffffffff);
    if (w.regions[slot] != NULL) {
        df_skip(DF_cuMemHostAlloc);
        return;
    }
    if (ask(cuMemHostAlloc, df_or_null(&pointer), bytes, flags) != CUDA_SUCCESS || pointer == NULL) {
        return;
    }
    w.regions[slot] = pointer;
    ask(cuMemHostGetDevicePointer, &address, pointer, 0);
    df_note("%d", address == (CUdeviceptr)(uintptr_t)pointer);
}

static void op_host_free(void)
{
    int slot = df_slot("slot", DF_REGIONS);
    void *wrong = (void *)(uintptr_t)DF_PICK("wrong", 0, (uintptr_t)w.pageable, (uintptr_t)w.pinned,
                                             (uintptr_t)w.pages, 1);
    bool is_wrong = df_one_in(3), is_twice = df_one_in(4);
    df_shape("w%d", is_wrong);
    void *pointer = is_wrong ? wrong : w.regions[slot];
    if (!is_wrong && pointer == NULL) {
        df_skip(DF_cuMemFreeHost);
        return;
    }
    df_settle();
    if (ask(cuMemFreeHost, pointer) != CUDA_SUCCESS || is_wrong) {
        return;
    }
    w.regions[slot] = NULL;
    if (is_twice) {
        df_shape("again");
        ask(cuMemFreeHost, pointer);
    }
}

static void op_device_pointer(void)
{
    CUdeviceptr address = 0;
    void *pointer =
        (void *)(uintptr_t)DF_PICK("at", 0, (uintptr_t)w.pageable, (uintptr_t)w.pinned, (uintptr_t)w.pages,
                                   (uintptr_t)w.pages + DF_PAGE, (uintptr_t)w.pinned + 17, 1);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 0, 1);
    if (ask(cuMemHostGetDevicePointer, df_or_null(&address), pointer, flags) == CUDA_SUCCESS) {
        df_note("%d", address == (CUdeviceptr)(uintptr_t)pointer);
    }
}

static bool any_registered(uint32_t first, uint32_t count)
{
    bool any = false;
    for (uint32_t i = first; i < first + count && i < DF_PAGES; i++) {
        any |= w.is_registered[i];
    }
    return any;
}

/* One slot per page: what covers several is unregistered at once. */
static void op_register(void)
{
    uint32_t page = df_choice("page", DF_PAGES), pages = 1 + df_choice("more", 2),
             into = df_one_in(8) ? 1 : 0;
    size_t less = (size_t)DF_PICK("less", 0, 0, 0, 1, 4095, 4096);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 2, 3, 4, 8, 16, 0xffffffff);
    unsigned char *pointer = w.pages + (size_t)page * DF_PAGE + into;
    size_t bytes = (size_t)pages * DF_PAGE - less - into;
    bool is_single = pages == 1 && into == 0;
    df_shape("into%u,r%d", into, any_registered(page, pages));
    if (page + pages > DF_PAGES) {
        df_skip(DF_cuMemHostRegister);
        return;
    }
    if (ask(cuMemHostRegister, pointer, bytes, flags) != CUDA_SUCCESS) {
        return;
    }
    if (is_single) {
        w.is_registered[page] = true;
    } else {
        df_shape("at_once");
        ask(cuMemHostUnregister, pointer);
    }
}

static void op_unregister(void)
{
    uint32_t page = df_choice("page", DF_PAGES), into = df_one_in(6) ? 1 : 0;
    bool is_wrong = df_one_in(6), is_there = w.is_registered[page];
    void *wrong = (void *)(uintptr_t)DF_PICK("wrong", 0, (uintptr_t)w.pinned, (uintptr_t)w.pageable);
    df_shape("w%d,into%u,r%d", is_wrong, into, is_there);
    df_settle();
    void *pointer = is_wrong ? wrong : w.pages + (size_t)page * DF_PAGE + into;
    if (ask(cuMemHostUnregister, pointer) == CUDA_SUCCESS && !is_wrong) {
        w.is_registered[page] = false;
    }
}

static void op_attribute(void)
{
    union {
        CUcontext context;
        void *pointer;
        CUdeviceptr address;
        size_t bytes;
        unsigned word;
        int number;
        char room[64];
    } value = {.room = ""};
    static const int attributes[] = {1, 2, 3, 4, 9, 11, 12, 0, 99, -1};
    size_t room;
    int attribute = attributes[df_below(10)];
    w.picks_stream = false;
    df_shape("a%d", attribute);
    CUdeviceptr address = df_place_or_wild(&room);
    CUresult result = ask(cuPointerGetAttribute, df_or_null(&value), (CUpointer_attribute)attribute, address);
    if (result != CUDA_SUCCESS) {
        return;
    }
    if (attribute == 1) {
        df_note("%c", df_context_letter(value.context));
    } else if (attribute == 2 || attribute == 9) {
        df_note("%d", value.number);
    } else if (attribute == 3) {
        df_note("%d", value.address == address);
    } else if (attribute == 11) {
        df_note("%lld", (long long)(address - value.address));
    } else if (attribute == 12) {
        df_note("%zu", value.bytes);
    }
}

const struct df_op df_ops_memory[] = {{1, op_info},       {8, op_alloc},          {4, op_alloc_async},
                                      {6, op_free},       {4, op_free_async},     {2, op_host_alloc},
                                      {3, op_host_free},  {3, op_device_pointer}, {4, op_register},
                                      {5, op_unregister}, {10, op_attribute},     {0, NULL}};
