/* SPDX-License-Identifier: MIT */
/* Scripted faults, hanging calls, contexts that break. */
#include "tests/emulator/emu_test.h"

#include "base/thread.h"

#include <sched.h>
#include <string.h>

static void test_nth_call_fails_once(void **state)
{
    (void)state;
    CUdeviceptr address = 77;
    assert_int_equal((emu.fail)("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
    cu_ok(cuMemAlloc(&address, 4));
    cu_ok(cuMemFree(address));
    address = 77;
    cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, 4));
    assert_int_equal(address, 77);
    cu_ok(cuMemAlloc(&address, 4));
    cu_ok(cuMemFree(address));
}

static void test_always_fails_from_the_nth_call_until_cleared(void **state)
{
    (void)state;
    CUstream stream;
    assert_int_equal((emu.fail)("cuStreamCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
    for (int i = 0; i < 3; i++) {
        cu_is(CUDA_ERROR_OUT_OF_MEMORY, cuStreamCreate(&stream, 0));
    }
    emu.clear_faults();
    cu_ok(cuStreamCreate(&stream, 0));
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    assert_int_equal((emu.fail)("cuNoSuchThing", 1, 1, GANTRY_EMU_ONCE), -1);
    assert_int_equal((emu.fail)(NULL, 1, 1, GANTRY_EMU_ONCE), -1);
    assert_int_equal((emu.fail)("cuMemAlloc", 0, 1, GANTRY_EMU_ONCE), -1);
    assert_int_equal((emu.fail)("cuMemAlloc", 1, 1, 3), -1);
    assert_int_equal(emu.fail_kernel(1, 700, GANTRY_EMU_HANG), -1);
    for (int i = 0; i < 32; i++) {
        assert_int_equal((emu.fail)("cuMemAlloc", 1000, 1, GANTRY_EMU_ONCE), 0);
    }
    assert_int_equal((emu.fail)("cuMemAlloc", 1000, 1, GANTRY_EMU_ONCE), -1);
}

/* Every call on the context returns the error; calls that destroy something still destroy it. */
static void expect_broken(CUresult error)
{
    CUstream stream;
    CUdeviceptr address;
    size_t free_bytes, total;
    cu_is(error, cuStreamCreate(&stream, 0));
    cu_is(error, cuMemAlloc(&address, 4));
    cu_is(error, cuMemGetInfo(&free_bytes, &total));
    cu_is(error, cuCtxSynchronize());
    cu_is(error, cuStreamSynchronize(NULL));
}

static void test_sticky_result_of_a_call_breaks_the_context(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(1, 0);
    CUevent event;
    cu_ok(cuEventCreate(&event, 0));
    assert_int_equal((emu.fail)("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, GANTRY_EMU_ONCE), 0);
    CUfunction add = et_function("add");
    uint32_t one = 1;
    void *params[] = {&data, &one, &one};
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    expect_broken(CUDA_ERROR_LAUNCH_FAILED);
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuEventQuery(event));
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuEventDestroy(event));
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuStreamDestroy(stream));
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuMemFree(data));
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_EVENTS), 0);
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), 0);
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), 0);
}

static void test_another_context_is_not_touched(void **state)
{
    (void)state;
    CUcontext other;
    cu_ok(cuCtxCreate(&other, 0, 0));
    assert_int_equal(emu.break_context(et_context, CUDA_ERROR_ILLEGAL_ADDRESS), 0);
    cu_ok(cuCtxSynchronize());
    cu_ok(cuCtxPopCurrent(NULL));
    expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
    cu_ok(cuCtxDestroy(other));
    assert_int_equal(emu.break_context(other, CUDA_ERROR_ILLEGAL_ADDRESS), -1);
}

static void test_failing_execution_is_seen_when_it_ends(void **state)
{
    (void)state;
    CUstream stream = et_stream(), other = et_stream();
    CUdeviceptr data = et_words(64, 0);
    CUevent event;
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(emu.fail_kernel(2, CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_EMU_ONCE), 0);
    emu.hold();
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    cu_ok(cuEventRecord(event, stream));
    cu_ok(cuStreamWaitEvent(other, event, 0));
    emu.reset_counters();
    emu.release();
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventSynchronize(event));
    cu_is(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(other));
    assert_int_equal(emu.operations(), 2); /* the third operation was discarded */
    expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_trap_ends_the_launch_with_its_result(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    assert_int_equal(et_trap(stream, CUDA_ERROR_ASSERT), CUDA_SUCCESS);
    cu_is(CUDA_ERROR_ASSERT, cuStreamSynchronize(stream));
    expect_broken(CUDA_ERROR_ASSERT);
    char text[64];
    assert_true(emu.last_failure(text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "trap"));
}

static void count_call(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static void test_breaking_releases_all_waiting_threads(void **state)
{
    (void)state;
    CUstream a = et_stream(), b = et_stream(), c = et_stream();
    CUdeviceptr flag = et_words(1, 0);
    atomic_uint called = 0;
    CUevent event;
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    cu_ok(cuStreamWaitValue32(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ)); /* it hangs for ever */
    cu_ok(cuEventRecord(event, a));
    cu_ok(cuStreamWaitEvent(b, event, 0));
    cu_ok(cuLaunchHostFunc(b, count_call, &called));
    emu.hold();
    cu_ok(cuLaunchHostFunc(c, count_call, &called));
    assert_int_equal(emu.break_context(NULL, CUDA_ERROR_HARDWARE_STACK_ERROR), 0);
    cu_is(CUDA_ERROR_HARDWARE_STACK_ERROR, cuStreamSynchronize(a));
    cu_is(CUDA_ERROR_HARDWARE_STACK_ERROR, cuStreamSynchronize(b));
    cu_is(CUDA_ERROR_HARDWARE_STACK_ERROR, cuCtxSynchronize());
    emu.release();
    assert_int_equal(atomic_load(&called), 0);
}

static void test_breaking_releases_a_graph_in_the_middle(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(64, 0);
    CUgraph graph;
    CUgraphExec exec;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    }
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_int_equal(emu.fail_kernel(2, CUDA_ERROR_LAUNCH_FAILED, GANTRY_EMU_ONCE), 0);
    emu.reset_counters();
    cu_ok(cuGraphLaunch(exec, stream));
    cu_is(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
    assert_int_equal(emu.operations(), 2);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

/* ---- hanging calls --------------------------------------------------------------------------- */

struct caller {
    gy_thread thread;
    CUcontext context;
    CUresult result;
    atomic_bool done;
};

static void call_synchronize(void *arg)
{
    struct caller *caller = arg;
    caller->result = cu->cuCtxPushCurrent(caller->context);
    if (caller->result == CUDA_SUCCESS) {
        caller->result = cu->cuCtxSynchronize();
    }
    atomic_store(&caller->done, true);
}

static void test_hanging_call_goes_on_when_told(void **state)
{
    (void)state;
    struct caller caller = {.context = et_context, .result = CUDA_ERROR_UNKNOWN};
    assert_int_equal((emu.fail)("cuCtxSynchronize", 1, 0, GANTRY_EMU_HANG), 0);
    assert_int_equal(gy_thread_start(&caller.thread, "caller", call_synchronize, &caller), GANTRY_OK);
    while (emu.hanging() == 0) {
        sched_yield();
    }
    assert_false(atomic_load(&caller.done));
    cu_ok(cuCtxSynchronize()); /* only that one call hangs */
    emu.unhang();
    gy_thread_join(&caller.thread);
    assert_int_equal(caller.result, CUDA_SUCCESS);
    assert_int_equal(emu.hanging(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ET_TEST(test_nth_call_fails_once),
        ET_TEST(test_always_fails_from_the_nth_call_until_cleared),
        ET_TEST(test_nonsense_is_refused),
        ET_TEST(test_sticky_result_of_a_call_breaks_the_context),
        ET_TEST(test_another_context_is_not_touched),
        ET_TEST(test_failing_execution_is_seen_when_it_ends),
        ET_TEST(test_trap_ends_the_launch_with_its_result),
        ET_TEST(test_breaking_releases_all_waiting_threads),
        ET_TEST(test_breaking_releases_a_graph_in_the_middle),
        ET_TEST(test_hanging_call_goes_on_when_told),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
