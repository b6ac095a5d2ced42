/* SPDX-License-Identifier: MIT */
/* Memory that another API has exported.  These are the tests that need no such API: on a device only the
 * errors of wrong calls, on the emulated driver also a memory file, which a software Vulkan driver
 * exports. */
#include "tests/conformance/conformance.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536

static bool available(void)
{
    return cu->cuImportExternalMemory != NULL && cu->cuExternalMemoryGetMappedBuffer != NULL &&
           cu->cuDestroyExternalMemory != NULL;
}

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory_of(int fd, uint64_t bytes)
{
    return (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = bytes};
}

static void test_wrong_descriptions_are_refused(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no external memory");
    }
    CUexternalMemory memory = NULL;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = memory_of(-1, BYTES);
    cu_is(CUDA_ERROR_UNKNOWN, cuImportExternalMemory(&memory, &desc));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    desc = memory_of(null, BYTES);
    cu_is(CUDA_ERROR_UNKNOWN, cuImportExternalMemory(&memory, &desc));
    /* a failed import leaves it open, or has closed it (driver 580): Gantry can handle both */
    (void)close(null);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    desc = memory_of(null, 0);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuImportExternalMemory(&memory, &desc));
    (void)close(null);
}

static int memory_file(uint64_t bytes)
{
    int fd = memfd_create("exported", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

/* A device has no use for a memory file. */
static void expect_no_import(int fd)
{
    CUexternalMemory memory = NULL;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = memory_of(fd, BYTES);
    assert_int_not_equal(cu->cuImportExternalMemory(&memory, &desc), CUDA_SUCCESS);
    (void)close(fd);
}

static CUdeviceptr map(CUexternalMemory memory, uint64_t offset, uint64_t bytes)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.offset = offset, .size = bytes};
    CUdeviceptr address = 0;
    cu_ok(cuExternalMemoryGetMappedBuffer(&address, memory, &desc));
    return address;
}

static void test_an_imported_file_is_device_memory(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no external memory");
    }
    int fd = memory_file(BYTES);
    if (!cu->emulated) {
        expect_no_import(fd);
        return;
    }
    uint32_t *seen = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(seen != MAP_FAILED);
    CUexternalMemory memory = NULL;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = memory_of(fd, BYTES);
    cu_ok(cuImportExternalMemory(&memory, &desc));
    CUdeviceptr all = map(memory, 0, BYTES), part = map(memory, 256, 1024);
    CUstream stream = cf_stream();
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC beyond = {.offset = BYTES - 256, .size = 512};
    cu_is(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedBuffer(&part, memory, &beyond));
    unsigned int kind = 0;
    cu_ok(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, part));
    assert_int_equal(kind, CU_MEMORYTYPE_DEVICE);
    seen[64] = 5;
    cf_launch_add(stream, part, 256, 2);
    cu_ok(cuMemsetD32Async(all, 9, 64, stream));
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(seen[0], 9);
    assert_int_equal(seen[63], 9);
    assert_int_equal(seen[64], 7);
    assert_int_equal(seen[319], 2);
    assert_int_equal(seen[320], 0);
    cu_ok(cuMemFree(part));
    cu_ok(cuMemFree(all));
    all = map(memory, 0, BYTES); /* freeing a mapping gives nothing back */
    cf_expect_words(stream, all, 64, 9);
    cu_ok(cuMemFree(all));
    cu_ok(cuDestroyExternalMemory(memory));
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was the driver's */
    munmap(seen, BYTES);
}

static void test_a_size_above_the_true_one_is_taken(void **state)
{
    (void)state;
    if (!available()) {
        cf_skip("no external memory");
    }
    if (!cu->emulated) { /* the memory comes from Vulkan: samples/shared_frame */
        return;
    }
    CUexternalMemory memory = NULL;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = memory_of(memory_file(BYTES), 2 * BYTES);
    cu_ok(cuImportExternalMemory(&memory, &desc)); /* as on a device */
    cu_ok(cuMemFree(map(memory, 0, BYTES)));
    cu_ok(cuDestroyExternalMemory(memory));
}

static const struct CMUnitTest external[] = {
    CF_TEST(test_wrong_descriptions_are_refused),
    CF_TEST(test_an_imported_file_is_device_memory),
    CF_TEST(test_a_size_above_the_true_one_is_taken),
};
CF_GROUP(external)
