/* SPDX-License-Identifier: MIT */
/* Kernel images and launches. */
#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

#include "conformance_kernels.kernels.h"

/* The image in the form that this driver takes. */
static const void *form(void)
{
    const gantry_module_image *image = &gantry_image_conformance_kernels;
    if (cu->emulated) {
        return image->host;
    }
    return image->fatbin != NULL ? image->fatbin : image->ptx;
}

static void test_module_is_loaded_looked_up_and_unloaded(void **state)
{
    (void)state;
    CUmodule module = NULL, twin = NULL;
    CUfunction function = NULL, none = NULL;
    cu_ok(cuModuleLoadDataEx(&module, form(), 0, NULL, NULL));
    cu_ok(cuModuleLoadDataEx(&twin, form(), 0, NULL, NULL));
    assert_ptr_not_equal(module, twin);
    cu_ok(cuModuleGetFunction(&function, module, "cf_add"));
    assert_non_null(function);
    cu_is(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&none, module, "cf_ad"));
    cu_ok(cuModuleUnload(twin));
    CUdeviceptr data = cf_device(256);
    CUstream stream = cf_stream();
    uint32_t count = 64, value = 7;
    void *params[] = {&data, &count, &value};
    cu_ok(cuMemsetD32Async(data, 5, 64, stream));
    cu_ok(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    cf_expect_words(stream, data, 64, 12);
    cu_ok(cuModuleUnload(module));
}

static void expect_no_image(const char *text, bool log_expected)
{
    char log[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    CUmodule module = NULL;
    CUresult result = cu->cuModuleLoadDataEx(&module, text, 2, options, values);
    if (result != CUDA_ERROR_INVALID_PTX && result != CUDA_ERROR_INVALID_IMAGE) {
        fail_msg("a broken image: %s", gy_driver_result_name(cu, result));
    }
    if (log_expected && !cu->emulated) { /* the emulated driver compiles nothing */
        assert_int_equal(result, CUDA_ERROR_INVALID_PTX);
        assert_true(log[0] != '\0');
    }
}

static void test_broken_image_is_refused(void **state)
{
    (void)state;
    expect_no_image("this is neither code nor PTX, but long enough to look at", false);
    expect_no_image(".version 7.0\n.target sm_80\n.address_size 64\n"
                    ".visible .entry broken() { no_such_instruction %r1; ret; }\n",
                    true);
}

static void test_function_attributes_and_occupancy_are_sensible(void **state)
{
    (void)state;
    int value = -1, blocks = 0, tight = 0, room = 0;
    cu_ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, cf_add));
    assert_true(value > 0 && value <= 1024);
    cu_ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, cf_add));
    assert_int_equal(value, 0);
    cu_ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, cf_add));
    assert_true(value > 0);
    cu_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cf_add, 256, 0));
    assert_true(blocks > 0);
    cu_ok(cuDeviceGetAttribute(&room, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, cf_context->device));
    cu_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&tight, cf_shared, 32, (size_t)room));
    assert_true(tight > 0 && tight <= blocks * 8);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cf_add, 0, 0));
}

static void test_parameters_have_sizes(void **state)
{
    (void)state;
    size_t offset = 99, bytes = 99, before = 0;
    if (cu->cuFuncGetParamInfo == NULL) {
        cf_skip("the driver has no cuFuncGetParamInfo");
    }
    cu_ok(cuFuncGetParamInfo(cf_add, 0, &offset, &bytes));
    assert_int_equal(offset, 0);
    for (size_t i = 0; cu->cuFuncGetParamInfo(cf_add, i, &offset, &bytes) == CUDA_SUCCESS; i++) {
        assert_true(bytes > 0 && offset >= before);
        before = offset + bytes;
    }
    assert_int_equal(before, 16);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(cf_add, 1000, &offset, &bytes));
}

static void test_every_thread_of_a_3d_grid_runs_once(void **state)
{
    (void)state;
    enum { GX = 3, GY = 2, GZ = 2, BX = 4, BY = 3, BZ = 2, COUNT = GX * GY * GZ * BX * BY * BZ };
    CUstream stream = cf_stream();
    CUdeviceptr out = cf_device(COUNT * 4);
    uint32_t *host = cf_pinned(COUNT);
    void *params[] = {&out};
    cu_ok(cuMemsetD32Async(out, 0xffffffffu, COUNT, stream));
    cu_ok(cuLaunchKernel(cf_geometry, GX, GY, GZ, BX, BY, BZ, 0, stream, params, NULL));
    cu_ok(cuMemcpyDtoHAsync(host, out, COUNT * 4, stream));
    cu_ok(cuStreamSynchronize(stream));
    uint32_t place = 0;
    for (uint32_t block = 0; block < GX * GY * GZ; block++) {
        uint32_t who = block % GX + 10 * (block / GX % GY) + 100 * (block / GX / GY);
        for (uint32_t thread = 0; thread < BX * BY * BZ; thread++) {
            assert_int_equal(host[place++], who + 1000 * (thread % BX) + 10000 * (thread / BX % BY) +
                                                100000 * (thread / BX / BY));
        }
    }
}

static void test_block_shares_memory_and_meets_at_barriers(void **state)
{
    (void)state;
    enum { BLOCKS = 5, THREADS = 96 };
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(BLOCKS * THREADS * 4);
    uint32_t *host = cf_pinned(BLOCKS * THREADS);
    void *params[] = {&data};
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        host[i] = i;
    }
    cu_ok(cuMemcpyHtoDAsync(data, host, BLOCKS * THREADS * 4, stream));
    cu_ok(cuLaunchKernel(cf_reverse, BLOCKS, 1, 1, THREADS, 1, 1, THREADS * 4, stream, params, NULL));
    cu_ok(cuMemcpyDtoHAsync(host, data, BLOCKS * THREADS * 4, stream));
    cu_ok(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        assert_int_equal(host[i], i / THREADS * THREADS + (THREADS - 1 - i % THREADS));
    }
}

static void test_parameters_are_copied_at_launch(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr out = cf_device(64);
    uint64_t got[8] = {0};
    uint8_t byte = 200;
    uint16_t half = 60000;
    uint32_t word = 4000000000u;
    uint64_t big = 0x123456789abcdef0u;
    float real = 2.25f;
    struct {
        uint32_t a;
        uint8_t b;
        uint64_t c;
    } triple = {11, 22, 1ull << 40};
    CUdeviceptr to = out;
    void *params[] = {&to, &byte, &half, &word, &big, &real, &triple};
    cf_close_gate(stream);
    cu_ok(cuLaunchKernel(cf_parameters, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    to = 0; /* the launch has its own copies */
    byte = 0;
    half = 0;
    word = 0;
    big = 0;
    real = 0;
    memset(&triple, 0, sizeof(triple));
    cf_open_gate();
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuMemcpyDtoH(got, out, sizeof(got)));
    const uint64_t expected[8] = {200, 60000, 4000000000u, 0x123456789abcdef0u, 9, 11, 22, 1ull << 40};
    assert_memory_equal(got, expected, sizeof(expected));
}

static void test_impossible_launches_are_refused(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(256);
    uint32_t count = 1, value = 1;
    void *params[] = {&data, &count, &value};
    cu_ok(cuMemsetD32Async(data, 0, 64, stream));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(cf_add, 0, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(cf_add, 1, 1, 1, 0, 1, 1, 0, stream, params, NULL));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(cf_add, 1, 1, 1, 1025, 1, 1, 0, stream, params, NULL));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(cf_add, 1, 1, 1, 32, 32, 2, 0, stream, params, NULL));
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(cf_add, 1, 1, 1, 1, 1, 1, 16u << 20, stream, params, NULL));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    cf_expect_words(stream, data, 1, 0); /* nothing ran, and the context is not broken */
    cf_launch_add(stream, data, 1, 3);
    cf_expect_words(stream, data, 1, 3);
}

static void test_launches_take_a_priority(void **state)
{
    (void)state;
    if (cu->cuLaunchKernelEx == NULL) {
        cf_skip("the driver has no cuLaunchKernelEx");
    }
    int least = 0, greatest = 0;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(256);
    uint32_t count = 40, value = 5;
    void *params[] = {&data, &count, &value};
    cu_ok(cuMemsetD32Async(data, 0, 64, stream));
    cu_ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    const int priorities[] = {least, greatest};
    for (int i = 0; i < 2; i++) {
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = priorities[i]};
        const CUlaunchConfig config = {.gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 64,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .hStream = stream,
                                       .attrs = &attribute,
                                       .numAttrs = 1};
        cu_ok(cuLaunchKernelEx(&config, cf_add, params, NULL));
        cf_expect_words(stream, data, 40, 5 * ((uint32_t)i + 1));
    }
}

static void test_large_shared_memory_is_opted_into(void **state)
{
    (void)state;
    int most = 0, got = 0;
    uint32_t words = 60 * 1024 / 4;
    CUstream stream = cf_stream();
    CUdeviceptr out = cf_device(4);
    void *params[] = {&out, &words};
    cu_ok(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                               cf_context->device));
    if (most < 60 * 1024) {
        cf_skip("the device has less than 60 KiB of shared memory per block");
    }
    cu_ok(cuFuncSetAttribute(cf_shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
    cu_ok(cuFuncGetAttribute(&got, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, cf_shared));
    assert_int_equal(got, most);
    cu_ok(cuLaunchKernel(cf_shared, 1, 1, 1, 32, 1, 1, words * 4, stream, params, NULL));
    cf_expect_words(stream, out, 1, words);
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuFuncSetAttribute(cf_shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 28));
}

static const struct CMUnitTest modules[] = {
    CF_TEST(test_module_is_loaded_looked_up_and_unloaded),
    CF_TEST(test_broken_image_is_refused),
    CF_TEST(test_function_attributes_and_occupancy_are_sensible),
    CF_TEST(test_parameters_have_sizes),
    CF_TEST(test_every_thread_of_a_3d_grid_runs_once),
    CF_TEST(test_block_shares_memory_and_meets_at_barriers),
    CF_TEST(test_parameters_are_copied_at_launch),
    CF_TEST(test_impossible_launches_are_refused),
    CF_TEST(test_launches_take_a_priority),
    CF_TEST(test_large_shared_memory_is_opted_into),
};
CF_GROUP(modules)
