/* SPDX-License-Identifier: MIT */
/* Four devices in two linked pairs: what one device cannot reach, faults and holds of one device, and the
 * order log. */
#include "tests/emulator/emu_test.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 64u

/* A context on a device, and the objects in it. */
struct side {
    CUcontext context;
    CUstream stream;
    CUfunction add;
    CUdeviceptr words;
};

static void open_side(struct side *side, CUdevice device)
{
    CUmodule module;
    cu_ok(cuCtxCreate(&side->context, 0, device));
    assert_int_equal(et_load(&module), CUDA_SUCCESS);
    cu_ok(cuModuleGetFunction(&side->add, module, "add"));
    cu_ok(cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING));
    cu_ok(cuMemAlloc(&side->words, WORDS * sizeof(uint32_t)));
    cu_ok(cuMemsetD32Async(side->words, 0, WORDS, side->stream));
    cu_ok(cuStreamSynchronize(side->stream));
    cu_ok(cuCtxPopCurrent(NULL));
}

static void close_side(struct side *side)
{
    cu_ok(cuCtxDestroy(side->context));
}

static void add(const struct side *side, CUdeviceptr words, uint32_t value)
{
    uint32_t count = WORDS;
    void *params[] = {&words, &count, &value};
    cu_ok(cuLaunchKernel(side->add, 1, 1, 1, WORDS, 1, 1, 0, side->stream, params, NULL));
}

static CUresult drain(const struct side *side)
{
    return cu->cuStreamSynchronize(side->stream);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void test_pairs_reach_each_other_and_nobody_else(void **state)
{
    (void)state;
    int can = 0, devices = 0;
    cu_ok(cuDeviceGetCount(&devices));
    assert_int_equal(devices, 4);
    for (int i = 0; i < devices; i++) {
        for (int j = 0; j < devices; j++) {
            cu_ok(cuDeviceCanAccessPeer(&can, i, j));
            assert_int_equal(can, i != j && i / 2 == j / 2);
        }
    }
    struct side far;
    open_side(&far, 3);
    cu_is(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(far.context, 0));
    close_side(&far);
}

static void test_memory_cannot_be_granted_without_a_link(void **state)
{
    (void)state;
    const size_t bytes = (size_t)2 << 20;
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 2}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    cu_ok(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemMap(range, bytes, 0, handle, 0));
    cu_ok(cuMemRelease(handle));
    cu_is(CUDA_ERROR_INVALID_DEVICE, cuMemSetAccess(range, bytes, &access, 1));
    access.location.id = 1;
    cu_ok(cuMemSetAccess(range, bytes, &access, 1));
    cu_ok(cuMemUnmap(range, bytes));
    cu_ok(cuMemAddressFree(range, bytes));
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void test_kernel_that_touches_foreign_memory_ends_everything(void **state)
{
    (void)state;
    struct side here, there;
    CUcontext fresh;
    char text[256];
    open_side(&here, 0);
    open_side(&there, 1);
    add(&here, there.words, 1);
    assert_int_equal(drain(&here), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(drain(&there), CUDA_ERROR_ILLEGAL_ADDRESS);
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxCreate(&fresh, 0, 2));
    emu.last_failure(text, sizeof(text));
    assert_non_null(strstr(text, "parameter 0 is an address of device 1's memory"));
    close_side(&here);
    close_side(&there);
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxCreate(&fresh, 0, 2));
    emu.clear_faults();
    cu_ok(cuCtxCreate(&fresh, 0, 2));
    cu_ok(cuCtxDestroy(fresh));
}

/* While the other device has not noticed the loss, nothing that waits for the lost one goes on, and nothing
 * hangs for ever. */
static void test_what_waits_for_a_lost_device_never_succeeds(void **state)
{
    (void)state;
    struct side here, there;
    CUevent event;
    open_side(&here, 0);
    open_side(&there, 1);
    cu_ok(cuCtxPushCurrent(here.context));
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    cu_ok(cuCtxPopCurrent(NULL));
    emu.hold_spread(1);
    assert_int_equal(emu.fail_kernel_on(0, 1, CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_EMU_ONCE), 0);
    emu.hold_device(0);
    add(&here, here.words, 1);
    cu_ok(cuEventRecord(event, here.stream));
    cu_ok(cuStreamWaitEvent(there.stream, event, 0));
    add(&there, there.words, 1);
    emu.release_device(0);
    assert_int_equal(drain(&here), CUDA_ERROR_ILLEGAL_ADDRESS);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(there.stream));
    CUevent late;
    cu_ok(cuCtxPushCurrent(there.context));
    cu_ok(cuEventCreate(&late, CU_EVENT_DISABLE_TIMING));
    cu_ok(cuEventRecord(late, there.stream));
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(late));
    cu_ok(cuCtxPopCurrent(NULL));
    emu.hold_spread(0);
    assert_int_equal(drain(&there), CUDA_ERROR_ILLEGAL_ADDRESS);
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(late));
    close_side(&here);
    close_side(&there);
}

/* To destroy a context that waits for a lost device takes no time. */
static void test_waiting_context_can_be_destroyed(void **state)
{
    (void)state;
    struct side here, there;
    CUevent event;
    open_side(&here, 0);
    open_side(&there, 1);
    cu_ok(cuCtxPushCurrent(here.context));
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    cu_ok(cuCtxPopCurrent(NULL));
    emu.hold_spread(1);
    assert_int_equal(emu.fail_kernel_on(0, 1, CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_EMU_ONCE), 0);
    emu.hold_device(0);
    add(&here, here.words, 1);
    cu_ok(cuEventRecord(event, here.stream));
    emu.release_device(0);
    assert_int_equal(drain(&here), CUDA_ERROR_ILLEGAL_ADDRESS);
    cu_ok(cuCtxPushCurrent(there.context));
    cu_ok(cuStreamWaitEvent(there.stream, event, 0));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(there.stream));
    cu_ok(cuCtxPopCurrent(NULL));
    close_side(&there);
    close_side(&here);
}

/* A context broke alone, by a call that failed.  Work of another context that waits for its events never
 * runs, and fails with the same result; the results of work that ended before are there. */
static void test_what_waits_for_a_broken_context_fails(void **state)
{
    (void)state;
    struct side here, there;
    CUevent event, done;
    uint32_t word = 0;
    open_side(&here, 0);
    open_side(&there, 1);
    cu_ok(cuCtxPushCurrent(here.context));
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    cu_ok(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    add(&here, here.words, 1);
    cu_ok(cuEventRecord(done, here.stream));
    assert_int_equal(drain(&here), CUDA_SUCCESS);
    emu.hold_device(0);
    add(&here, here.words, 1);
    cu_ok(cuEventRecord(event, here.stream));
    cu_ok(cuStreamWaitEvent(there.stream, done, 0));
    add(&there, there.words, 1);
    assert_int_equal(drain(&there), CUDA_SUCCESS);
    cu_ok(cuCtxPushCurrent(there.context));
    cu_ok(cuMemcpyDtoH(&word, there.words, sizeof(word)));
    cu_ok(cuCtxPopCurrent(NULL));
    assert_int_equal(word, 1);
    cu_ok(cuStreamWaitEvent(there.stream, event, 0));
    add(&there, there.words, 1);
    assert_int_equal((emu.fail)("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_EMU_ONCE), 0);
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(event));
    emu.release_device(0);
    assert_int_equal(drain(&there), CUDA_ERROR_ILLEGAL_ADDRESS);
    cu_ok(cuCtxPopCurrent(NULL));
    close_side(&here);
    close_side(&there);
}

static void test_memory_error_stays_on_its_device(void **state)
{
    (void)state;
    struct side here, there;
    open_side(&here, 0);
    open_side(&there, 1);
    assert_int_equal(emu.fail_kernel_on(1, 1, CUDA_ERROR_ECC_UNCORRECTABLE, GANTRY_EMU_ONCE), 0);
    add(&here, here.words, 1);
    assert_int_equal(drain(&here), CUDA_SUCCESS);
    add(&there, there.words, 1);
    assert_int_equal(drain(&there), CUDA_ERROR_ECC_UNCORRECTABLE);
    add(&here, here.words, 1);
    assert_int_equal(drain(&here), CUDA_SUCCESS);
    assert_int_equal(emu.fail_kernel_on(16, 1, 700, GANTRY_EMU_ONCE), -1);
    assert_int_equal(emu.fail_kernel_on(0, 1, 700, GANTRY_EMU_HANG), -1);
    close_side(&here);
    close_side(&there);
}

/* ---- holds and order ------------------------------------------------------------------------- */

static void test_one_device_is_held_while_the_other_goes_on(void **state)
{
    (void)state;
    struct side here, there;
    struct gantry_emu_operation log[4];
    open_side(&here, 0);
    open_side(&there, 1);
    assert_int_equal(emu.log_start(4), 0);
    assert_int_equal(emu.hold_device(16), -1);
    assert_int_equal(emu.hold_device(0), 0);
    add(&here, here.words, 1);
    add(&there, there.words, 1);
    assert_int_equal(drain(&there), CUDA_SUCCESS);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(here.stream));
    assert_int_equal(emu.release_device(0), 0);
    assert_int_equal(drain(&here), CUDA_SUCCESS);
    assert_int_equal(emu.log_stop(), 2);
    assert_int_equal(emu.log_read(log, 4), 2);
    assert_int_equal(log[0].device, 1);
    assert_int_equal(log[1].device, 0);
    assert_true(log[0].end < log[1].begin);
    close_side(&here);
    close_side(&there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ET_TEST(test_pairs_reach_each_other_and_nobody_else),
        ET_TEST(test_memory_cannot_be_granted_without_a_link),
        ET_TEST(test_kernel_that_touches_foreign_memory_ends_everything),
        ET_TEST(test_what_waits_for_a_lost_device_never_succeeds),
        ET_TEST(test_waiting_context_can_be_destroyed),
        ET_TEST(test_what_waits_for_a_broken_context_fails),
        ET_TEST(test_memory_error_stays_on_its_device),
        ET_TEST(test_one_device_is_held_while_the_other_goes_on),
    };
    setenv("GANTRY_EMU_DEVICES", "4", 1);
    setenv("GANTRY_EMU_PROFILE", "links=pairs", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
