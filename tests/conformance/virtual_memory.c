/* SPDX-License-Identifier: MIT */
/* Address ranges and the memory behind them. */
#include "tests/conformance/conformance.h"

#include <unistd.h>

static bool available(void)
{
    int supported = 0;
    cu_ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               cf_context->device));
    return supported == 1 && cu->cuMemAddressReserve != NULL && cu->cuMemAddressFree != NULL &&
           cu->cuMemCreate != NULL && cu->cuMemRelease != NULL && cu->cuMemMap != NULL &&
           cu->cuMemUnmap != NULL && cu->cuMemSetAccess != NULL && cu->cuMemGetAllocationGranularity != NULL;
}

static CUmemAllocationProp prop(void)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cf_context->info.ordinal},
    };
}

static CUmemAccessDesc read_write(void)
{
    return (CUmemAccessDesc){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cf_context->info.ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
}

static size_t granule(void)
{
    CUmemAllocationProp what = prop();
    size_t least = 0, recommended = 0;
    cu_ok(cuMemGetAllocationGranularity(&least, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    cu_ok(cuMemGetAllocationGranularity(&recommended, &what, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    assert_true(least > 0 && (least & (least - 1)) == 0);
    assert_true(recommended >= least && recommended % least == 0);
    return recommended;
}

static void test_range_is_reserved_backed_and_used(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no virtual memory management");
    }
    CUmemAllocationProp what = prop();
    CUmemAccessDesc access = read_write();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0;
    CUstream stream = cf_stream();
    size_t bytes = granule();
    uint32_t words = (uint32_t)(bytes / 4);
    cu_ok(cuMemAddressReserve(&range, 4 * bytes, 0, 0, 0));
    assert_true(range != 0 && range % bytes == 0);
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemMap(range + bytes, bytes, 0, handle, 0));
    cu_ok(cuMemRelease(handle)); /* the mapping keeps the memory */
    cu_ok(cuMemSetAccess(range + bytes, bytes, &access, 1));
    cu_ok(cuMemsetD32Async(range + bytes, 40, words, stream));
    cf_launch_add(stream, range + bytes, words, 2);
    cf_expect_words(stream, range + bytes, words, 42);
    cu_ok(cuMemUnmap(range + bytes, bytes));
    cu_ok(cuMemAddressFree(range, 4 * bytes));
}

/* A piece of memory goes through a file descriptor, and is mapped twice. */
static void test_memory_is_exported_and_imported(void **state)
{
    (void)state;
    if (!available() || cu->cuMemExportToShareableHandle == NULL ||
        cu->cuMemImportFromShareableHandle == NULL) {
        cf_skip("no virtual memory management");
    }
    CUmemAllocationProp what = prop();
    CUmemAccessDesc access = read_write();
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    CUdeviceptr range = 0;
    CUstream stream = cf_stream();
    const size_t bytes = granule();
    const uint32_t words = (uint32_t)(bytes / 4);
    int fd = -1;
    what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_true(fd >= 0);
    cu_ok(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    assert_int_equal(close(fd), 0);
    cu_ok(cuMemAddressReserve(&range, 2 * bytes, 0, 0, 0));
    cu_ok(cuMemMap(range, bytes, 0, handle, 0));
    cu_ok(cuMemMap(range + bytes, bytes, 0, imported, 0));
    cu_ok(cuMemRelease(handle));
    cu_ok(cuMemRelease(imported));
    cu_ok(cuMemSetAccess(range, 2 * bytes, &access, 1));
    cu_ok(cuMemsetD32Async(range, 40, words, stream));
    cf_launch_add(stream, range + bytes, words, 2);
    cf_expect_words(stream, range, words, 42);
    cu_ok(cuMemUnmap(range, 2 * bytes));
    cu_ok(cuMemAddressFree(range, 2 * bytes));
}

static void test_neighbouring_pieces_make_one_range(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no virtual memory management");
    }
    CUmemAllocationProp what = prop();
    CUmemAccessDesc access = read_write();
    CUmemGenericAllocationHandle handles[2] = {0, 0};
    CUdeviceptr range = 0;
    CUstream stream = cf_stream();
    size_t bytes = granule();
    cu_ok(cuMemAddressReserve(&range, 2 * bytes, 0, 0, 0));
    for (size_t i = 0; i < 2; i++) {
        cu_ok(cuMemCreate(&handles[i], bytes, &what, 0));
        cu_ok(cuMemMap(range + i * bytes, bytes, 0, handles[i], 0));
    }
    cu_ok(cuMemSetAccess(range, 2 * bytes, &access, 1));
    CUdeviceptr middle = range + bytes - 2048;
    cu_ok(cuMemsetD32Async(middle, 5, 1024, stream)); /* across the border of the two */
    cf_launch_add(stream, middle, 1024, 6);
    cf_expect_words(stream, middle, 1024, 11);
    for (size_t i = 0; i < 2; i++) {
        cu_ok(cuMemUnmap(range + i * bytes, bytes));
        cu_ok(cuMemRelease(handles[i]));
    }
    cu_ok(cuMemAddressFree(range, 2 * bytes));
}

static void test_memory_keeps_its_contents_between_mappings(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no virtual memory management");
    }
    CUmemAllocationProp what = prop();
    CUmemAccessDesc access = read_write();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0;
    CUstream stream = cf_stream();
    size_t bytes = granule();
    cu_ok(cuMemAddressReserve(&range, 2 * bytes, 0, 0, 0));
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemMap(range, bytes, 0, handle, 0));
    cu_ok(cuMemSetAccess(range, bytes, &access, 1));
    cu_ok(cuMemsetD32Async(range, 17, 1000, stream));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuMemUnmap(range, bytes));
    cu_ok(cuMemMap(range + bytes, bytes, 0, handle, 0));
    cu_ok(cuMemSetAccess(range + bytes, bytes, &access, 1));
    cf_expect_words(stream, range + bytes, 1000, 17);
    cu_ok(cuMemUnmap(range + bytes, bytes));
    cu_ok(cuMemRelease(handle));
    cu_ok(cuMemAddressFree(range, 2 * bytes));
}

static void test_odd_sizes_and_double_mappings_are_refused(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no virtual memory management");
    }
    CUmemAllocationProp what = prop();
    CUmemGenericAllocationHandle handle = 0, other = 0;
    CUdeviceptr range = 0;
    size_t bytes = granule();
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, bytes + 1, &what, 0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&range, bytes + 1, 0, 0, 0));
    cu_ok(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemMap(range, bytes, 0, handle, 0));
    cu_ok(cuMemCreate(&other, bytes, &what, 0));
    CUresult again = cu->cuMemMap(range, bytes, 0, other, 0);
    assert_int_not_equal(again, CUDA_SUCCESS);
    cu_ok(cuMemUnmap(range, bytes));
    cu_ok(cuMemRelease(handle));
    cu_ok(cuMemRelease(other));
    cu_ok(cuMemAddressFree(range, bytes));
}

/* Memory of one device can be used by another one only after cuMemSetAccess(): copies are refused at the
 * call, and the context is not broken.  The same holds for fills, as for memory of the own device without
 * access. */
static void test_memory_is_refused_without_access(void **state)
{
    (void)state;
    int devices = 0;
    cu_ok(cuDeviceGetCount(&devices));
    if (!available()) {
        cf_skip("no virtual memory management");
    }
    if (devices < 2) {
        print_message("one device: none to be refused\n");
        return;
    }
    CUmemAllocationProp what = prop();
    CUmemAccessDesc access[2] = {read_write(), read_write()};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0, own = cf_device(64);
    CUstream stream = cf_stream();
    size_t bytes = granule();
    what.location.id = access[1].location.id = (cf_context->info.ordinal + 1) % devices;
    cu_ok(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemMap(range, bytes, 0, handle, 0));
    cu_ok(cuMemRelease(handle));
    cu_ok(cuMemSetAccess(range, bytes, &access[1], 1));
    cu_ok(cuMemsetD32Async(own, 3, 16, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(range, own, 64, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(own, range, 64, stream));
    cf_expect_words(stream, own, 16, 3);
    if (cu->cuMemSetAccess(range, bytes, &access[0], 1) == CUDA_SUCCESS) { /* they are peers */
        cu_ok(cuMemcpyAsync(range, own, 64, stream));
        cu_ok(cuMemsetD32Async(own, 0, 16, stream));
        cu_ok(cuMemcpyAsync(own, range, 64, stream));
        cf_expect_words(stream, own, 16, 3);
    }
    cu_ok(cuMemUnmap(range, bytes));
    cu_ok(cuMemAddressFree(range, bytes));
}

static const struct CMUnitTest virtual_memory[] = {
    CF_TEST(test_range_is_reserved_backed_and_used),
    CF_TEST(test_memory_is_exported_and_imported),
    CF_TEST(test_neighbouring_pieces_make_one_range),
    CF_TEST(test_memory_keeps_its_contents_between_mappings),
    CF_TEST(test_odd_sizes_and_double_mappings_are_refused),
    CF_TEST(test_memory_is_refused_without_access),
};
CF_GROUP(virtual_memory)
