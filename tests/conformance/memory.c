/* SPDX-License-Identifier: MIT */
/* Device and page-locked memory, copies, fills. */
#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

static void test_blocks_are_aligned_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 255, 4096, 100000, 3 << 20};
    enum { COUNT = 5 };
    CUdeviceptr blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = cf_device(sizes[i]);
        assert_true(blocks[i] != 0 && blocks[i] % 256 == 0);
        for (size_t j = 0; j < i; j++) {
            assert_true(blocks[i] + sizes[i] <= blocks[j] || blocks[j] + sizes[j] <= blocks[i]);
        }
    }
}

static void test_impossible_sizes_are_refused(void **state)
{
    (void)state;
    CUdeviceptr address = 0;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&address, 0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 64));
    cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, (size_t)1 << 50));
    cu_ok(cuMemAlloc(&address, 64)); /* the failure left nothing behind */
    cu_ok(cuMemFree(address));
}

static void test_only_what_was_allocated_can_be_freed(void **state)
{
    (void)state;
    CUdeviceptr block = cf_device(8192);
    int on_stack = 0;
    cu_ok(cuMemFree(0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemFree(block + 4096));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(&on_stack));
}

static void test_memory_is_counted(void **state)
{
    (void)state;
    size_t free_bytes = 0, total = 0, all = 0;
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    cu_ok(cuDeviceTotalMem(&all, cf_context->device));
    assert_true(total > 0 && free_bytes <= total && total <= all);
}

static void test_blocking_copies_go_there_and_back(void **state)
{
    (void)state;
    enum { BYTES = 70001 };
    unsigned char *from = malloc(BYTES), *back = calloc(1, BYTES);
    assert_non_null(from);
    assert_non_null(back);
    for (size_t i = 0; i < BYTES; i++) {
        from[i] = (unsigned char)(i * 7 + i / 256);
    }
    CUdeviceptr block = cf_device(BYTES + 16);
    cu_ok(cuMemcpyHtoD(block + 5, from, BYTES)); /* any alignment */
    cu_ok(cuMemcpyDtoH(back, block + 5, BYTES));
    assert_memory_equal(from, back, BYTES);
    cu_ok(cuMemcpyDtoH(back, block + 5 + 1000, 3));
    assert_memory_equal(from + 1000, back, 3);
    cu_ok(cuMemcpyHtoD(block, from, 0));
    free(from);
    free(back);
}

static void test_copies_in_all_directions_follow_the_stream(void **state)
{
    (void)state;
    enum { COUNT = 5000, BYTES = COUNT * 4 };
    CUstream stream = cf_stream();
    CUdeviceptr a = cf_device(BYTES), b = cf_device(BYTES), c = cf_device(BYTES);
    uint32_t *from = cf_pinned(COUNT), *back = cf_pinned(COUNT), *twin = cf_pinned(COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        from[i] = i;
    }
    cf_close_gate(stream);
    cu_ok(cuMemcpyHtoDAsync(a, from, BYTES, stream));
    cu_ok(cuMemcpyDtoDAsync(b, a, BYTES, stream));
    cf_launch_add(stream, b, COUNT, 1);
    cu_ok(cuMemcpyAsync(c, b, BYTES, stream)); /* the direction follows from the addresses */
    cf_launch_add(stream, c, COUNT, 1);
    cu_ok(cuMemcpyDtoHAsync(back, c, BYTES, stream));
    cu_ok(cuMemcpyAsync((CUdeviceptr)(uintptr_t)twin, b, BYTES, stream));
    assert_int_equal(back[17], 0); /* nothing has run */
    cf_open_gate();
    cu_ok(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(back[i], i + 2);
        assert_int_equal(twin[i], i + 1);
    }
}

static void test_pageable_memory_is_copied_too(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    CUstream stream = cf_stream();
    CUdeviceptr block = cf_device(COUNT * 4);
    uint32_t *from = malloc(COUNT * 4), *back = calloc(COUNT, 4);
    assert_non_null(from);
    assert_non_null(back);
    for (uint32_t i = 0; i < COUNT; i++) {
        from[i] = i ^ 0x55;
    }
    cu_ok(cuMemcpyHtoDAsync(block, from, COUNT * 4, stream));
    cu_ok(cuMemcpyDtoHAsync(back, block, COUNT * 4, stream));
    cu_ok(cuStreamSynchronize(stream));
    assert_memory_equal(from, back, COUNT * 4);
    free(from);
    free(back);
}

static void test_batched_copies_all_happen(void **state)
{
    (void)state;
    enum { BATCH = 6, COUNT = 100 };
    if (cu->cuMemcpyBatchAsync == NULL) {
        cf_skip("cuMemcpyBatchAsync is absent");
    }
    CUstream stream = cf_stream();
    CUdeviceptr to[BATCH], from[BATCH];
    size_t bytes[BATCH], first = 0, failed = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr source = cf_device(BATCH * COUNT * 4), target = cf_device(BATCH * COUNT * 4);
    cu_ok(cuMemsetD32Async(source, 41, BATCH * COUNT, stream));
    cu_ok(cuMemsetD32Async(target, 0, BATCH * COUNT, stream));
    cf_launch_add(stream, source, BATCH * COUNT, 1);
    for (size_t i = 0; i < BATCH; i++) {
        from[i] = source + i * COUNT * 4;
        to[i] = target + (BATCH - 1 - i) * COUNT * 4;
        bytes[i] = COUNT * 4;
    }
    cu_ok(cuMemcpyBatchAsync(to, from, bytes, BATCH, &attributes, &first, 1, &failed, stream));
    cf_expect_words(stream, target, BATCH * COUNT, 42);
}

static void test_fills_of_three_widths(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr block = cf_device(64);
    unsigned char got[64];
    cu_ok(cuMemsetD32Async(block, 0x11223344, 16, stream));
    cu_ok(cuMemsetD8Async(block + 1, 0xaa, 3, stream));
    cu_ok(cuMemsetD16Async(block + 6, 0xbbcc, 2, stream));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuMemcpyDtoH(got, block, sizeof(got)));
    const unsigned char expected[16] = {0x44, 0xaa, 0xaa, 0xaa, 0x44, 0x33, 0xcc, 0xbb,
                                        0xcc, 0xbb, 0x22, 0x11, 0x44, 0x33, 0x22, 0x11};
    assert_memory_equal(got, expected, sizeof(expected));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD16Async(block + 1, 0, 1, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(block + 2, 0, 1, stream));
}

static void test_page_locked_memory_is_seen_by_both_sides(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    CUstream stream = cf_stream();
    uint32_t *host = cf_pinned(COUNT);
    CUdeviceptr address = cf_address(host);
    assert_true(address == (CUdeviceptr)(uintptr_t)host); /* one address space */
    assert_true(cf_address(host + 100) == address + 400);
    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = 30;
    }
    cf_launch_add(stream, address, COUNT, 12);
    cu_ok(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(host[i], 42);
    }
    CUdeviceptr other;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&other, host, 1));
}

static void test_page_locked_memory_comes_in_kinds(void **state)
{
    (void)state;
    static const unsigned int kinds[] = {0, CU_MEMHOSTALLOC_PORTABLE,
                                         CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
                                         CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP};
    CUstream stream = cf_stream();
    CUdeviceptr block = cf_device(400);
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        void *pointer = NULL;
        cu_ok(cuMemHostAlloc(&pointer, 400, kinds[kind]));
        uint32_t *words = pointer;
        for (uint32_t i = 0; i < 100; i++) {
            words[i] = 9 + (uint32_t)kind;
        }
        cu_ok(cuMemcpyHtoDAsync(block, words, 400, stream));
        cf_expect_words(stream, block, 100, 9 + (uint32_t)kind);
        cu_ok(cuMemFreeHost(pointer));
    }
    void *pointer = NULL;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&pointer, 64, 0x100));
}

static void test_memory_of_the_application_is_registered_once(void **state)
{
    (void)state;
    enum { BYTES = 16384 };
    CUstream stream = cf_stream();
    CUdeviceptr address = 0;
    uint32_t *host = aligned_alloc(4096, BYTES);
    assert_non_null(host);
    for (uint32_t i = 0; i < BYTES / 4; i++) {
        host[i] = 5;
    }
    cu_ok(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    cu_is(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(host, BYTES, 0));
    cu_ok(cuMemHostGetDevicePointer(&address, host, 0));
    cf_launch_add(stream, address, BYTES / 4, 6);
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(host[0], 11);
    assert_int_equal(host[BYTES / 4 - 1], 11);
    cu_ok(cuMemHostUnregister(host));
    cu_is(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
    free(host);
}

static void test_pointers_tell_what_they_are(void **state)
{
    (void)state;
    CUdeviceptr block = cf_device(1000), address = 0, start = 0;
    uint32_t *host = cf_pinned(100);
    CUcontext context = NULL;
    unsigned int type = 0;
    int ordinal = -1;
    size_t bytes = 0;
    void *pointer = NULL;
    cu_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 10));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    cu_ok(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    assert_ptr_equal(context, cf_context->native);
    cu_ok(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, block + 10));
    assert_true(address == block + 10);
    cu_ok(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
    assert_int_equal(ordinal, cf_context->info.ordinal);
    cu_ok(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 999));
    assert_true(start == block);
    cu_ok(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
    assert_true(bytes >= 1000);

    CUdeviceptr mapped = cf_address(host);
    cu_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    cu_ok(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, mapped + 4));
    assert_ptr_equal(pointer, host + 1);
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&type));
}

static void test_stream_ordered_memory_lives_in_the_stream(void **state)
{
    (void)state;
    int pools = 0;
    cu_ok(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, cf_context->device));
    if (cu->cuMemAllocAsync == NULL || cu->cuMemFreeAsync == NULL || pools == 0) {
        cf_skip("no stream-ordered memory");
    }
    CUstream stream = cf_stream();
    CUdeviceptr kept = cf_device(4000), block = 0;
    cu_ok(cuMemAllocAsync(&block, 4000, stream));
    assert_true(block != 0);
    cu_ok(cuMemsetD32Async(block, 3, 1000, stream));
    cf_launch_add(stream, block, 1000, 4);
    cu_ok(cuMemcpyDtoDAsync(kept, block, 4000, stream));
    cu_ok(cuMemFreeAsync(block, stream));
    cf_expect_words(stream, kept, 1000, 7);
}

static const struct CMUnitTest memory[] = {
    CF_TEST(test_blocks_are_aligned_and_apart),
    CF_TEST(test_impossible_sizes_are_refused),
    CF_TEST(test_only_what_was_allocated_can_be_freed),
    CF_TEST(test_memory_is_counted),
    CF_TEST(test_blocking_copies_go_there_and_back),
    CF_TEST(test_copies_in_all_directions_follow_the_stream),
    CF_TEST(test_pageable_memory_is_copied_too),
    CF_TEST(test_batched_copies_all_happen),
    CF_TEST(test_fills_of_three_widths),
    CF_TEST(test_page_locked_memory_is_seen_by_both_sides),
    CF_TEST(test_page_locked_memory_comes_in_kinds),
    CF_TEST(test_memory_of_the_application_is_registered_once),
    CF_TEST(test_pointers_tell_what_they_are),
    CF_TEST(test_stream_ordered_memory_lives_in_the_stream),
};
CF_GROUP(memory)
