/* SPDX-License-Identifier: MIT */
/* What a client of MPS sees of the GPU, beside an NVML whose answers the test sets. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "partition/nvml.h"

#include <gantry/gantry.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int (*started)(void);
static void (*have_cores)(unsigned count);

static gantry_sm_topology topology_now(void)
{
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_partition_read_topology(context, &topology));
    gantry_context_destroy(context);
    return topology;
}

/* A client of MPS sees a part of the GPU; NVML counts the cores of all of it. */
static void test_parts_of_mps_are_told_apart(void **state)
{
    (void)state;
    gantry_sm_topology t = topology_now();
    assert_int_equal(t.mps_percentage, 0);
    assert_int_equal(t.mps_is_static, 0);
    assert_int_equal(t.device_sms, 0);               /* nobody asked NVML */
    setenv("CUDA_MPS_SM_PARTITION", "GPU-1/Dx4", 1); /* without MPS it says nothing */
    assert_int_equal(topology_now().mps_is_static, 0);
    unsetenv("CUDA_MPS_SM_PARTITION");
    setenv("GANTRY_EMU_PROFILE", "mps", 1);
    have_cores(264 * 128);
    t = topology_now();
    assert_int_equal(t.mps_percentage, 100);
    assert_int_equal(t.mps_is_static, 0);
    assert_int_equal(t.total_sms, 132);
    assert_int_equal(t.device_sms, 264);
    setenv("CUDA_MPS_SM_PARTITION", "GPU-1/Dx4", 1);
    t = topology_now();
    assert_int_equal(t.mps_is_static, 1);
    assert_int_equal(t.device_sms, 264);
    have_cores(0);
    assert_int_equal(topology_now().device_sms, 0);
    have_cores(132 * 128);
    assert_int_equal(started(), 0);
    unsetenv("CUDA_MPS_SM_PARTITION");
    unsetenv("GANTRY_EMU_PROFILE");
}

/* NVML counts cores; how many an SM has depends on the compute capability. */
static void test_cores_make_sms(void **state)
{
    (void)state;
    static const struct {
        int major, minor;
        uint32_t per_sm; /* 0: not known */
    } rows[] = {{3, 5, 0},   {4, 9, 0},   {5, 0, 128},  {5, 3, 128},  {6, 0, 64},
                {6, 1, 128}, {7, 0, 64},  {7, 5, 64},   {8, 0, 64},   {8, 6, 128},
                {8, 9, 128}, {9, 0, 128}, {10, 0, 128}, {12, 0, 128}, {13, 0, 0}};
    static const uint8_t uuid[16] = {1, 2, 3};
    have_cores(128 * 100);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t wanted = rows[i].per_sm != 0 ? 128 * 100 / rows[i].per_sm : 0;
        assert_int_equal(gy_nvml_count_sms(uuid, rows[i].major, rows[i].minor), wanted);
    }
    have_cores(132 * 128);
    assert_int_equal(started(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_mps_are_told_apart),
        cmocka_unit_test(test_cores_make_sms),
    };
    void *library = dlopen(FAKE_NVML, RTLD_NOW); /* by whose name the library finds it then */
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&started = dlsym(library, "fake_nvml_started");
    *(void **)&have_cores = dlsym(library, "fake_nvml_have_cores");
    return started != NULL && have_cores != NULL ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
