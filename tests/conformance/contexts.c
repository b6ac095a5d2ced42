/* SPDX-License-Identifier: MIT */
/* Devices, contexts, results. */
#include "tests/conformance/conformance.h"

#include <string.h>

static void test_init_takes_no_flags(void **state)
{
    (void)state;
    cu_ok(cuInit(0));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

static void test_version_is_reported(void **state)
{
    (void)state;
    int version = 0;
    cu_ok(cuDriverGetVersion(&version));
    assert_int_equal(version, cu->version);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
}

static void test_results_have_the_names_we_know(void **state)
{
    (void)state;
    static const struct {
        CUresult result;
        const char *name;
    } known[] = {
#define RESULT(id, value, text) {CUDA_##id, "CUDA_" #id},
        GY_CUDA_RESULTS(RESULT)
#undef RESULT
    };
    unsigned told = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const char *name = NULL, *text = NULL;
        if (cu->cuGetErrorName(known[i].result, &name) == CUDA_SUCCESS) { /* older drivers know fewer */
            assert_string_equal(name, known[i].name);
            cu_ok(cuGetErrorString(known[i].result, &text));
            assert_true(text != NULL && text[0] != '\0');
            told++;
        }
    }
    assert_true(told > 50);
    const char *name = "";
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &name));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGetErrorString((CUresult)12345, &name));
}

static void test_devices_are_counted_from_zero(void **state)
{
    (void)state;
    int count = 0;
    CUdevice device = -1;
    cu_ok(cuDeviceGetCount(&count));
    assert_true(count > 0);
    cu_ok(cuDeviceGet(&device, count - 1));
    cu_is(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, count));
    cu_is(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
}

static int attribute(CUdevice_attribute which)
{
    int value = -1;
    cu_ok(cuDeviceGetAttribute(&value, which, cf_context->device));
    return value;
}

static void test_device_attributes_are_sensible(void **state)
{
    (void)state;
    char name[128] = "";
    size_t bytes = 0;
    CUuuid uuid = {{0}}, zero = {{0}};
    cu_ok(cuDeviceGetName(name, sizeof(name), cf_context->device));
    assert_true(name[0] != '\0');
    cu_ok(cuDeviceTotalMem(&bytes, cf_context->device));
    assert_true(bytes > 1 << 20);
    if (cu->cuDeviceGetUuid != NULL) {
        cu_ok(cuDeviceGetUuid(&uuid, cf_context->device));
        assert_memory_not_equal(&uuid, &zero, sizeof(uuid));
    }
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), 1);
    assert_true(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) > 0);
    assert_true(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) >= 65535);
    assert_true(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) >= 48 * 1024);
    assert_true(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 5);
    int value;
    cu_is(CUDA_ERROR_INVALID_VALUE,
          cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, cf_context->device));
}

static void test_primary_context_is_counted(void **state)
{
    (void)state;
    CUcontext first = NULL, second = NULL;
    cu_ok(cuDevicePrimaryCtxRetain(&first, cf_context->device));
    cu_ok(cuDevicePrimaryCtxRetain(&second, cf_context->device));
    assert_ptr_equal(first, second);
    assert_ptr_equal(first, cf_context->native);
    cu_ok(cuDevicePrimaryCtxRelease(cf_context->device));
    cu_ok(cuDevicePrimaryCtxRelease(cf_context->device));
    if (cu->cuDevicePrimaryCtxGetState != NULL) {
        unsigned int flags = 0;
        int active = 0;
        cu_ok(cuDevicePrimaryCtxGetState(cf_context->device, &flags, &active));
        assert_int_equal(active, 1); /* the suite holds it */
    }
}

static CUcontext current(void)
{
    CUcontext context = NULL;
    cu_ok(cuCtxGetCurrent(&context));
    return context;
}

static void test_contexts_form_a_stack_per_thread(void **state)
{
    (void)state;
    CUcontext other = NULL, popped = NULL;
    CUdevice device = -1;
    unsigned long long ids[3];
    assert_ptr_equal(current(), cf_context->native);
    cu_ok(cuCtxCreate(&other, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, cf_context->device));
    assert_ptr_equal(current(), other); /* a new context is pushed */
    cu_ok(cuCtxGetId(cf_context->native, &ids[0]));
    cu_ok(cuCtxGetId(other, &ids[1]));
    cu_ok(cuCtxGetId(cf_context->native, &ids[2]));
    assert_true(ids[0] == ids[2] && ids[0] != ids[1]);
    cu_ok(cuCtxGetDevice(&device));
    assert_int_equal(device, cf_context->device);
    cu_ok(cuCtxPushCurrent(cf_context->native));
    assert_ptr_equal(current(), cf_context->native);
    cu_ok(cuCtxPopCurrent(&popped));
    assert_ptr_equal(popped, cf_context->native);
    assert_ptr_equal(current(), other);
    cu_ok(cuCtxSetCurrent(cf_context->native)); /* this replaces the top */
    assert_ptr_equal(current(), cf_context->native);
    cu_ok(cuCtxSetCurrent(other));
    cu_ok(cuCtxDestroy(other)); /* and pops it from this thread */
    assert_ptr_equal(current(), cf_context->native);
}

static void test_calls_need_a_current_context(void **state)
{
    (void)state;
    CUcontext popped = NULL;
    CUdeviceptr address;
    CUstream stream;
    CUevent event;
    CUdevice device;
    cu_ok(cuCtxPopCurrent(&popped));
    assert_null(current());
    CUresult results[] = {
        cu->cuCtxPopCurrent(&popped), cu->cuMemAlloc(&address, 64), cu->cuStreamCreate(&stream, 0),
        cu->cuEventCreate(&event, 0), cu->cuCtxSynchronize(),       cu->cuCtxGetDevice(&device),
    };
    cu_ok(cuCtxPushCurrent(cf_context->native));
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i] != CUDA_ERROR_INVALID_CONTEXT) {
            fail_msg("call %zu without a context: %s", i, gy_driver_result_name(cu, results[i]));
        }
    }
}

static void test_an_event_belongs_to_its_context(void **state)
{
    (void)state;
    CUcontext other = NULL;
    CUevent event = cf_event();
    CUstream stream = NULL;
    cu_ok(cuCtxCreate(&other, CU_CTX_SCHED_AUTO, cf_context->device));
    cu_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUresult record = cu->cuEventRecord(event, stream);
    /* It is allowed to wait across contexts. */
    CUresult wait = cu->cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
    cu_ok(cuStreamDestroy(stream));
    cu_ok(cuCtxDestroy(other));
    assert_int_equal(record, CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(wait, CUDA_SUCCESS);
}

static void test_priorities_run_from_least_to_greatest(void **state)
{
    (void)state;
    int least = -100, greatest = 100;
    cu_ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest <= least); /* lower numbers are more urgent */
    assert_true(least <= 0);
}

static const struct CMUnitTest contexts[] = {
    CF_TEST(test_init_takes_no_flags),
    CF_TEST(test_version_is_reported),
    CF_TEST(test_results_have_the_names_we_know),
    CF_TEST(test_devices_are_counted_from_zero),
    CF_TEST(test_device_attributes_are_sensible),
    CF_TEST(test_primary_context_is_counted),
    CF_TEST(test_contexts_form_a_stack_per_thread),
    CF_TEST(test_calls_need_a_current_context),
    CF_TEST(test_an_event_belongs_to_its_context),
    CF_TEST(test_priorities_run_from_least_to_greatest),
};
CF_GROUP(contexts)
