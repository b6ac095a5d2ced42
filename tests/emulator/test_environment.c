/* SPDX-License-Identifier: MIT */
/* What the environment chooses: the profile, the number of devices, scripted faults. */
#include "tests/emulator/emu_test.h"

#include <stdlib.h>
#include <string.h>

static void test_profile_is_the_one_asked_for(void **state)
{
    (void)state;
    int value;
    char name[64];
    size_t bytes;
    cu_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(value, 16);
    cu_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(value, 8);
    cu_ok(cuDeviceGetName(name, sizeof(name), 0));
    assert_non_null(strstr(name, "small"));
    cu_ok(cuDeviceTotalMem(&bytes, 0));
    assert_int_equal(bytes, (size_t)2 << 30);
}

static void test_small_profile_splits_by_its_own_rule(void **state)
{
    (void)state;
    CUdevResource all, groups[8], rest;
    unsigned int n = 8;
    cu_ok(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    cu_ok(cuDevSmResourceSplitByCount(groups, &n, &all, &rest, 0, 1));
    assert_int_equal(n, 4);
    assert_int_equal(groups[0].sm.smCount, 4);
    n = 2;
    cu_ok(cuDevSmResourceSplitByCount(groups, &n, &all, &rest, 0, 5));
    assert_int_equal(n, 2);
    assert_int_equal(groups[1].sm.smCount, 6);
    assert_int_equal(rest.sm.smCount, 4);
}

static void test_devices_have_their_own_contexts_and_memory(void **state)
{
    (void)state;
    int count;
    CUuuid uuids[2];
    CUcontext first, second;
    CUdevice device;
    size_t free_bytes, total;
    CUdeviceptr block;
    cu_ok(cuDeviceGetCount(&count));
    assert_int_equal(count, 2);
    cu_ok(cuDeviceGetUuid(&uuids[0], 0));
    cu_ok(cuDeviceGetUuid(&uuids[1], 1));
    assert_int_equal(uuids[0].bytes[15], 3); /* 3,1 of four */
    assert_int_equal(uuids[1].bytes[15], 1);
    assert_true(memcmp(&uuids[0], &uuids[1], sizeof(uuids[0])) != 0);
    cu_ok(cuDevicePrimaryCtxRetain(&first, 0));
    cu_ok(cuDevicePrimaryCtxRetain(&second, 1));
    assert_true(first != second);
    cu_ok(cuCtxPushCurrent(second));
    cu_ok(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    cu_ok(cuMemAlloc(&block, 1));
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    assert_true(free_bytes < total);
    cu_ok(cuCtxSetCurrent(first));
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, total);
    cu_ok(cuCtxPopCurrent(NULL));
    cu_ok(cuDevicePrimaryCtxRelease(0));
    cu_ok(cuDevicePrimaryCtxRelease(1));
    cu_is(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&first, 2));
}

/* The devices of the machine keep their buses and links, however many are visible. */
static void test_visible_devices_keep_their_place_in_the_machine(void **state)
{
    (void)state;
    int value = -1;
    cu_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0));
    assert_int_equal(value, 4);
    cu_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1));
    assert_int_equal(value, 2);
    cu_ok(cuDeviceCanAccessPeer(&value, 0, 1)); /* 3 reaches 2, and 1 reaches 0 */
    assert_int_equal(value, 0);
}

/* This test is the first in the list: gantry_emu_reset() in the set-up of the others forgets the script. */
static void test_script_of_the_environment_is_in_force(void **state)
{
    (void)state;
    CUcontext context;
    CUdeviceptr block = 0;
    assert_int_equal(gy_driver_open(GANTRY_DRIVER_EMULATED, &cu), GANTRY_OK);
    cu_ok(cuCtxCreate(&context, 0, 0));
    cu_ok(cuMemAlloc(&block, 1));
    cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&block, 1));
    cu_ok(cuMemFree(block));
    cu_is(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize());
    cu_is(CUDA_ERROR_NOT_PERMITTED, cuCtxSynchronize());
    cu_ok(cuCtxDestroy(context));
    gy_driver_close(cu);
    cu = NULL;
}

int main(void)
{
    setenv("GANTRY_EMU_PROFILE", "small", 1);
    setenv("GANTRY_EMU_LINKS", "pairs", 1); /* the older form of "links=pairs" */
    setenv("GANTRY_EMU_GRANT_LESS", "0", 1);
    setenv("GANTRY_EMU_DEVICES", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    setenv("GANTRY_EMU_FAIL", "cuMemAlloc:2:2,cuCtxSynchronize:1:800:always,not a fault", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_script_of_the_environment_is_in_force),
        ET_TEST(test_profile_is_the_one_asked_for),
        ET_TEST(test_small_profile_splits_by_its_own_rule),
        ET_TEST(test_devices_have_their_own_contexts_and_memory),
        ET_TEST(test_visible_devices_keep_their_place_in_the_machine),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
