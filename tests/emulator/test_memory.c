/* SPDX-License-Identifier: MIT */
/* Addresses are checked, memory is counted, and freed memory is gone. */
#include "tests/emulator/emu_test.h"

#include <sys/resource.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

static void test_copies_stay_inside_their_block(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr a, b;
    char host[64];
    cu_ok(cuMemAlloc(&a, 1000));
    cu_ok(cuMemAlloc(&b, 1000));
    cu_ok(cuMemcpyDtoDAsync(a, b, 1000, stream));
    cu_ok(cuMemcpyDtoDAsync(a + 999, b + 500, 1, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(a + 1, b, 1000, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(a, b + 1, 1000, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(a + 1000, b, 1, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(a - 1, b, 1, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(a + 937, host, 64, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(host, b + 937, 64, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(a, 0, 1001, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(a, 0, SIZE_MAX / 2, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(a + 2, 0, 1, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, a + 1000, 0, 0));
    cu_ok(cuMemcpyDtoDAsync(a, b, 0, stream));
    cu_ok(cuMemFree(b));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(a, b, 1, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemFree(b));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemFree(a + 1));
    cu_ok(cuMemFree(0));
}

static void test_host_and_device_addresses_are_told_apart(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr device, from_pinned;
    void *pinned;
    static uint32_t pageable[4];
    cu_ok(cuMemAlloc(&device, 64));
    cu_ok(cuMemHostAlloc(&pinned, 64, 0));
    cu_ok(cuMemHostGetDevicePointer(&from_pinned, pinned, 0));
    assert_int_equal(from_pinned, (uintptr_t)pinned);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&from_pinned, pageable, 0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(device, (uintptr_t)pageable, 16, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(device, (void *)(uintptr_t)device, 16, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async((uintptr_t)pageable, 0, 16, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(device, (char *)pinned + 60, 8, stream));
    cu_ok(cuMemcpyDtoDAsync(device, from_pinned, 64, stream));
    cu_ok(cuMemHostRegister(pageable, sizeof(pageable), 0));
    cu_is(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(pageable + 1, 4, 0));
    cu_ok(cuMemcpyDtoDAsync(device, (uintptr_t)pageable, 16, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(device, (uintptr_t)(pageable + 2), 16, stream));
    cu_ok(cuMemHostUnregister(pageable));
    cu_is(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pageable));
}

static void test_memory_runs_out_and_comes_back(void **state)
{
    (void)state;
    size_t free_bytes, total;
    CUdeviceptr most, more;
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, total);
    cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, total + 1));
    cu_ok(cuMemAlloc(&most, total - GRANULE));
    cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, GRANULE + 1));
    cu_ok(cuMemAlloc(&more, 1)); /* it takes a whole granule */
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, 0);
    cu_ok(cuMemFree(most));
    cu_ok(cuMemFree(more));
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, total);
}

/* A sandbox may refuse the file that a block is: that is not the device's memory. */
static void test_a_system_that_gives_no_file_is_told(void **state)
{
    (void)state;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle block;
    size_t before, after, total;
    struct rlimit limit, none;
    cu_ok(cuMemGetInfo(&before, &total));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int lowest = dup(0);
    assert_true(lowest >= 0 && close(lowest) == 0);
    none = (struct rlimit){(rlim_t)lowest, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const CUresult result = cu->cuMemCreate(&block, GRANULE, &prop, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(result, CUDA_ERROR_OPERATING_SYSTEM);
    cu_ok(cuMemGetInfo(&after, &total));
    assert_int_equal(after, before);
    cu_ok(cuMemCreate(&block, GRANULE, &prop, 0));
    cu_ok(cuMemRelease(block));
}

/* One block is about to be freed: the next allocation waits for it instead of failing. */
static void test_stream_ordered_allocation_waits_for_queued_frees(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr first, second;
    size_t free_bytes, total;
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    cu_ok(cuMemAllocAsync(&first, total, stream));
    atomic_uint gate = 0;
    assert_int_equal(et_gate(stream, &gate), CUDA_SUCCESS);
    cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&second, 1, stream));
    cu_ok(cuMemFreeAsync(first, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(first, stream));
    atomic_store(&gate, 1);
    cu_ok(cuMemAllocAsync(&second, total, stream));
    cu_ok(cuMemFreeAsync(second, stream));
    cu_ok(cuStreamSynchronize(stream));
}

static void test_small_pageable_sources_are_read_at_the_call(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(1, 0);
    uint32_t word = 5;
    emu.hold();
    cu_ok(cuMemcpyHtoDAsync(data, &word, sizeof(word), stream));
    word = 6;
    emu.release();
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(et_word(data), 5);
}

/* As on a device, where a kernel on a stream of its own may be before it. */
static void test_a_small_upload_returns_before_it_is_done(void **state)
{
    (void)state;
    CUdeviceptr data = et_words(1, 3);
    uint32_t word = 5;
    emu.hold();
    cu_ok(cuMemcpyHtoD(data, &word, sizeof(word))); /* it would wait here for ever */
    word = 6;
    emu.release();
    cu_ok(cuStreamSynchronize(NULL));
    assert_int_equal(et_word(data), 5);
}

static void test_one_block_at_two_addresses(void **state)
{
    (void)state;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle block;
    CUdeviceptr place;
    cu_ok(cuMemAddressReserve(&place, 4 * GRANULE, 0, 0, 0));
    cu_ok(cuMemCreate(&block, GRANULE, &prop, 0));
    cu_ok(cuMemMap(place, GRANULE, 0, block, 0));
    cu_ok(cuMemMap(place + 2 * GRANULE, GRANULE, 0, block, 0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemMap(place, GRANULE, 0, block, 0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(place, 1, 1, NULL)); /* no access is allowed yet */
    cu_ok(cuMemSetAccess(place, GRANULE, &access, 1));
    cu_ok(cuMemSetAccess(place + 2 * GRANULE, GRANULE, &access, 1));
    cu_ok(cuMemRelease(block));
    cu_ok(cuMemsetD32Async(place + 64, 42, 1, NULL));
    assert_int_equal(et_word(place + 2 * GRANULE + 64), 42);
    /* the copy ends in the hole */
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(place + GRANULE - 1, 0, 2, NULL));
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), GRANULE);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(place, 4 * GRANULE));
    cu_ok(cuMemUnmap(place, GRANULE));
    cu_ok(cuMemUnmap(place + 2 * GRANULE, GRANULE));
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
    cu_ok(cuMemAddressFree(place, 4 * GRANULE));
}

static void test_unmapping_under_queued_work_breaks_the_context(void **state)
{
    (void)state;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUstream stream = et_stream();
    CUmemGenericAllocationHandle block;
    CUdeviceptr place;
    cu_ok(cuMemAddressReserve(&place, GRANULE, 0, 0, 0));
    cu_ok(cuMemCreate(&block, GRANULE, &prop, 0));
    cu_ok(cuMemMap(place, GRANULE, 0, block, 0));
    cu_ok(cuMemSetAccess(place, GRANULE, &access, 1));
    emu.hold();
    cu_ok(cuMemsetD8Async(place, 1, GRANULE, stream));
    cu_ok(cuMemUnmap(place, GRANULE));
    emu.release();
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    cu_ok(cuMemRelease(block));
    cu_ok(cuMemAddressFree(place, GRANULE));
}

/* Whatever is passed as a handle, the call returns an error. */
static void test_invented_handles_are_refused(void **state)
{
    (void)state;
    CUstream real = et_stream();
    const uintptr_t invented[] = {3,
                                  16,
                                  4096,
                                  UINTPTR_MAX,
                                  (uintptr_t)&real,
                                  (uintptr_t)real + 16,
                                  (uintptr_t)real ^ ((uintptr_t)1 << 32),
                                  (uintptr_t)et_module};
    for (size_t i = 0; i < sizeof(invented) / sizeof(invented[0]); i++) {
        void *handle = (void *)invented[i];
        CUfunction function;
        cu_is(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(handle));
        cu_is(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(handle));
        cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(handle));
        cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(handle));
        cu_is(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(handle));
        cu_is(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(handle));
        cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(handle));
        cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(handle));
        cu_is(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxDestroy(handle));
        if (handle != (void *)et_module) {
            cu_is(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, handle, "add"));
        }
    }
    cu_ok(cuStreamDestroy(real));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(real));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ET_TEST(test_copies_stay_inside_their_block),
        ET_TEST(test_host_and_device_addresses_are_told_apart),
        ET_TEST(test_memory_runs_out_and_comes_back),
        ET_TEST(test_a_system_that_gives_no_file_is_told),
        ET_TEST(test_stream_ordered_allocation_waits_for_queued_frees),
        ET_TEST(test_small_pageable_sources_are_read_at_the_call),
        ET_TEST(test_a_small_upload_returns_before_it_is_done),
        ET_TEST(test_one_block_at_two_addresses),
        ET_TEST(test_unmapping_under_queued_work_breaks_the_context),
        ET_TEST(test_invented_handles_are_refused),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
