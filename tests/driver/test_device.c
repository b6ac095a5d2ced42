/* SPDX-License-Identifier: MIT */
/* Which device is the best one, and which is named: among devices that the test makes up. */
#include "tests/support/cmocka_c11.h"

#include "driver/device.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

struct made_up {
    int mode, timeout, integrated, processors, clock;
    size_t memory;
};

static const struct made_up *devices;
static int device_count;

static CUresult count_devices(int *count)
{
    *count = device_count;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    *device = ordinal + 40; /* a handle is no ordinal */
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const struct made_up *asked = &devices[device - 40];
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = asked->mode;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
        *value = asked->timeout;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = asked->integrated;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = asked->processors;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = asked->clock;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult total_memory(size_t *bytes, CUdevice device)
{
    *bytes = devices[device - 40].memory;
    return CUDA_SUCCESS;
}

static const struct gy_driver driver = {.name = "made up",
                                        .cuDeviceGetCount = count_devices,
                                        .cuDeviceGet = get_device,
                                        .cuDeviceGetAttribute = get_attribute,
                                        .cuDeviceTotalMem = total_memory};

static void assert_best(const struct made_up *of, int count, int expected)
{
    CUdevice device = 0;
    int ordinal = -1;
    devices = of;
    device_count = count;
    assert_int_equal(gy_device_find(&driver, "best", &device), GANTRY_OK);
    assert_int_equal(device, expected + 40);
    assert_int_equal(setenv("GANTRY_DEVICE", "", 1), 0);
    assert_int_equal(gy_device_suggested_ordinal(&driver, &ordinal), GANTRY_OK);
    assert_int_equal(ordinal, expected);
}

/* Each row is worth more than the one before it, whichever comes first. */
static void test_what_is_worth_more(void **state)
{
    (void)state;
    static const struct made_up rows[] = {
        {0, 0, 1, 200, 2000, 9000}, /* no memory of its own */
        {0, 0, 0, 10, 1000, 100},     {0, 0, 0, 10, 1000, 101},     {0, 0, 0, 11, 1000, 50},
        {0, 0, 0, 11, 1001, 40},      {0, 0, 0, 2000000, 3000, 40}, /* beyond 32 bits */
        {0, 0, 0, 2000000, 3000, 41},
    };
    const int count = (int)(sizeof(rows) / sizeof(rows[0]));
    for (int i = 1; i < count; i++) {
        const struct made_up rising[] = {rows[i - 1], rows[i]}, falling[] = {rows[i], rows[i - 1]};
        assert_best(rising, 2, 1);
        assert_best(falling, 2, 0);
        const struct made_up same[] = {rows[i], rows[i]};
        assert_best(same, 2, 0); /* the first of equals */
    }
    assert_best(rows, count, count - 1);
    assert_best(rows, 1, 0);
    const struct made_up display[] = {{0, 1, 0, 200, 2000, 9000}, {0, 0, 0, 10, 1000, 100}};
    assert_best(display, 2, 1);
}

static void test_those_that_nobody_may_use(void **state)
{
    (void)state;
    static const struct made_up rows[] = {
        {2, 0, 0, 200, 2000, 9000}, {3, 0, 0, 10, 1000, 100}, {2, 0, 0, 300, 2000, 9000}};
    assert_best(rows, 3, 1);
    CUdevice device = 7;
    device_count = 1;
    assert_int_equal(gy_device_find(&driver, "best", &device), GANTRY_ERR_NO_DEVICE);
    assert_int_equal(device, 7);
}

static void test_an_ordinal(void **state)
{
    (void)state;
    CUdevice device = 7;
    device_count = 2;
    assert_int_equal(gy_device_find(&driver, "1", &device), GANTRY_OK);
    assert_int_equal(device, 41);
    assert_int_equal(gy_device_find(&driver, "2", &device), GANTRY_ERR_NO_DEVICE);
    assert_int_equal(gy_device_find(&driver, "1x", &device), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_device_find(&driver, "-1", &device), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_device_find(&driver, "GPU-00000000-0000-0000-0000-000000000000", &device),
                     GANTRY_ERR_UNSUPPORTED);
    assert_int_equal(device, 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_worth_more),
        cmocka_unit_test(test_those_that_nobody_may_use),
        cmocka_unit_test(test_an_ordinal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
