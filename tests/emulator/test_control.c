/* SPDX-License-Identifier: MIT */
/* The control interface: hold, step, no-op mode, counters, clock, order log, live counts. */
#include "tests/emulator/emu_test.h"
#include "tests/support/deadline.h"

#include <string.h>

static void test_hold_keeps_everything_until_released(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(64, 1);
    CUevent event;
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    emu.hold();
    cu_ok(cuEventRecord(event, stream)); /* nothing comes before it, and still it is held */
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    assert_int_equal(et_add(stream, data, 64, 2), CUDA_SUCCESS);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    emu.release();
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuEventQuery(event));
    assert_int_equal(et_word(data), 3);
}

static void test_step_lets_that_many_operations_start(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(64, 0);
    CUevent events[3];
    emu.reset_counters();
    emu.hold();
    for (int i = 0; i < 3; i++) {
        cu_ok(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
        cu_ok(cuEventRecord(events[i], stream));
    }
    for (int i = 0; i < 3; i++) {
        emu.step(1);
        cu_ok(cuEventSynchronize(events[i]));
        assert_int_equal(emu.operations(), i + 1);
        if (i < 2) {
            cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(events[i + 1]));
        }
    }
    emu.release();
    assert_int_equal(et_word(data + 63 * 4), 3);
}

static void test_hold_reaches_into_graphs(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(64, 0);
    CUgraph graph;
    CUgraphExec exec;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuGraphDestroy(graph));
    emu.reset_counters();
    emu.hold();
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuGraphLaunch(exec, stream));
    emu.step(3);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    emu.release();
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(emu.operations(), 4);
    assert_int_equal(et_word(data), 4);
    cu_ok(cuGraphExecDestroy(exec));
}

static void test_noop_accepts_and_does_nothing(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(64, 5);
    uint32_t word = 9;
    emu.set_noop(1);
    emu.reset_counters();
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    cu_ok(cuMemcpyHtoDAsync(data, &word, sizeof(word), stream));
    cu_ok(cuMemsetD8Async(data, 0, 4, stream));
    cu_ok(cuStreamQuery(stream));
    assert_int_equal(emu.operations(), 0);
    assert_int_equal(emu.calls("cuLaunchKernel"), 1);
    /* Arguments are still checked. */
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(data, 0, 64 * 4 + 1, stream));
    emu.set_noop(0);
    assert_int_equal(et_word(data), 5);
}

static void count_call(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static void test_noop_still_calls_host_functions_and_keeps_their_order(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(1, 5);
    atomic_uint called = 0;
    CUevent event;
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    emu.set_noop(1);
    emu.hold();
    cu_ok(cuLaunchHostFunc(stream, count_call, &called));
    assert_int_equal(et_add(stream, data, 1, 1), CUDA_SUCCESS);
    cu_ok(cuEventRecord(event, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    emu.release();
    cu_ok(cuEventSynchronize(event));
    assert_int_equal(atomic_load(&called), 1);
    emu.set_noop(0);
    assert_int_equal(et_word(data), 5);
}

static void test_calls_are_counted_by_name_and_symbol(void **state)
{
    (void)state;
    size_t free_bytes, total;
    emu.reset_counters();
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    cu_ok(cuMemGetInfo(&free_bytes, &total));
    cu_ok(cuMemGetInfo(NULL, NULL));
    assert_int_equal(emu.calls("cuMemGetInfo"), 3);
    assert_int_equal(emu.calls("cuMemGetInfo_v2"), 3);
    assert_int_equal(emu.calls("cuMemAlloc"), 0);
    assert_int_equal(emu.calls(NULL), 3);
    assert_int_equal(emu.calls("cuNoSuchThing"), 0);
    emu.reset_counters();
    assert_int_equal(emu.calls(NULL), 0);
}

static void test_manual_clock_times_events(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(1, 0);
    CUevent begin, end;
    float ms = -1;
    cu_ok(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    cu_ok(cuEventCreate(&end, CU_EVENT_DEFAULT));
    emu.clock_manual(1);
    emu.clock_kernel_cost(250000);
    uint64_t before = emu.clock_ns();
    cu_ok(cuEventRecord(begin, stream));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(et_add(stream, data, 1, 1), CUDA_SUCCESS);
    }
    cu_ok(cuEventRecord(end, stream));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuEventElapsedTime(&ms, begin, end));
    assert_true(ms == 1.0F);
    assert_int_equal(emu.clock_ns() - before, 1000000);
    emu.clock_advance(2000000);
    cu_ok(cuEventRecord(end, stream));
    cu_ok(cuEventSynchronize(end));
    cu_ok(cuEventElapsedTime(&ms, begin, end));
    assert_true(ms == 3.0F);
}

static void test_order_log_shows_what_ran_when(void **state)
{
    (void)state;
    CUstream a = et_stream(), b = et_stream();
    CUdeviceptr data = et_words(64, 0);
    CUevent event;
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(emu.log_start(8), 0);
    emu.hold();
    assert_int_equal(et_add(a, data, 64, 1), CUDA_SUCCESS);
    cu_ok(cuEventRecord(event, a));
    cu_ok(cuStreamWaitEvent(b, event, 0));
    cu_ok(cuMemsetD32Async(data + 4, 7, 1, b));
    emu.release();
    cu_ok(cuStreamSynchronize(b));
    assert_int_equal(emu.log_stop(), 2);
    struct gantry_emu_operation log[8];
    assert_int_equal(emu.log_read(log, 8), 2);
    assert_int_equal(log[0].kind, GANTRY_EMU_KERNEL);
    assert_string_equal(log[0].name, "add");
    assert_int_equal(log[0].first_word, data);
    assert_int_equal(log[1].kind, GANTRY_EMU_FILL);
    assert_int_equal(log[1].first_word, data + 4);
    assert_true(log[0].stream != log[1].stream);
    assert_true(log[0].begin < log[0].end);
    assert_true(log[0].end < log[1].begin);
    assert_true(log[1].begin < log[1].end);
}

static void test_order_log_keeps_the_first_and_counts_the_rest(void **state)
{
    (void)state;
    CUstream stream = et_stream();
    CUdeviceptr data = et_words(1, 0);
    assert_int_equal(emu.log_start(2), 0);
    for (uint32_t i = 0; i < 5; i++) {
        cu_ok(cuMemsetD32Async(data, i, 1, stream));
    }
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(emu.log_stop(), 5);
    struct gantry_emu_operation log[5];
    assert_int_equal(emu.log_read(log, 5), 2);
    assert_true(log[1].end > log[1].begin);
}

static void test_live_counts_follow_objects(void **state)
{
    (void)state;
    int64_t before[GANTRY_EMU_LIVE_KINDS];
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        before[kind] = emu.live(kind);
        assert_true(before[kind] >= 0);
    }
    static uint32_t host[1024];
    CUstream stream = et_stream();
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr device, reserved;
    void *pinned;
    cu_ok(cuEventCreate(&event, 0));
    cu_ok(cuGraphCreate(&graph, 0));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuMemAlloc(&device, 1));
    cu_ok(cuMemHostAlloc(&pinned, 1, 0));
    cu_ok(cuMemHostRegister(host, sizeof(host), 0));
    cu_ok(cuMemAddressReserve(&reserved, 2 << 20, 0, 0, 0));
    static const int one_more[] = {GANTRY_EMU_LIVE_STREAMS,       GANTRY_EMU_LIVE_EVENTS,
                                   GANTRY_EMU_LIVE_GRAPHS,        GANTRY_EMU_LIVE_GRAPH_EXECS,
                                   GANTRY_EMU_LIVE_DEVICE_BLOCKS, GANTRY_EMU_LIVE_PINNED_BLOCKS,
                                   GANTRY_EMU_LIVE_REGISTRATIONS, GANTRY_EMU_LIVE_RESERVATIONS};
    for (size_t i = 0; i < sizeof(one_more) / sizeof(one_more[0]); i++) {
        assert_int_equal(emu.live(one_more[i]), before[one_more[i]] + 1);
    }
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES),
                     before[GANTRY_EMU_LIVE_DEVICE_BYTES] + (2 << 20));
    cu_ok(cuMemAddressFree(reserved, 2 << 20));
    cu_ok(cuMemHostUnregister(host));
    cu_ok(cuMemFreeHost(pinned));
    cu_ok(cuMemFree(device));
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
    cu_ok(cuEventDestroy(event));
    cu_ok(cuStreamDestroy(stream));
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        assert_int_equal(emu.live(kind), before[kind]);
    }
    assert_int_equal(emu.live(-1), -1);
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_KINDS), -1);
}

static void test_destroying_a_held_context_discards_its_work(void **state)
{
    (void)state;
    CUdeviceptr data = et_words(64, 1);
    CUstream stream = et_stream();
    atomic_uint called = 0;
    emu.hold();
    assert_int_equal(et_add(stream, data, 64, 1), CUDA_SUCCESS);
    cu_ok(cuLaunchHostFunc(stream, count_call, &called));
    cu_ok(cuCtxDestroy(et_context));
    et_context = NULL;
    assert_int_equal(atomic_load(&called), 0);
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), 0);
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_MODULES), 0);
}

/* On a device the blocks of all of them are there at once. */
static void test_kernels_that_wait_for_the_host_hold_up_no_other(void **state)
{
    (void)state;
    enum { WAITING = 6 }; /* more than there are threads at first */
    CUstream streams[WAITING], other = et_stream();
    CUdeviceptr data = et_words(64, 1);
    atomic_uint gate = 0;
    for (int i = 0; i < WAITING; i++) {
        streams[i] = et_stream();
        assert_int_equal(et_gate(streams[i], &gate), CUDA_SUCCESS);
    }
    assert_int_equal(et_add(other, data, 64, 2), CUDA_SUCCESS);
    deadline_begin("a kernel beside others that wait");
    cu_ok(cuStreamSynchronize(other));
    deadline_end();
    for (int i = 0; i < WAITING; i++) {
        cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[i]));
    }
    atomic_store(&gate, 1);
    cu_ok(cuCtxSynchronize());
    assert_int_equal(et_word(data), 3);
}

static void test_version_is_that_of_the_header(void **state)
{
    (void)state;
    assert_int_equal(emu.version(), GANTRY_EMU_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ET_TEST(test_version_is_that_of_the_header),
        ET_TEST(test_hold_keeps_everything_until_released),
        ET_TEST(test_step_lets_that_many_operations_start),
        ET_TEST(test_hold_reaches_into_graphs),
        ET_TEST(test_noop_accepts_and_does_nothing),
        ET_TEST(test_noop_still_calls_host_functions_and_keeps_their_order),
        ET_TEST(test_calls_are_counted_by_name_and_symbol),
        ET_TEST(test_manual_clock_times_events),
        ET_TEST(test_order_log_shows_what_ran_when),
        ET_TEST(test_order_log_keeps_the_first_and_counts_the_rest),
        ET_TEST(test_live_counts_follow_objects),
        ET_TEST(test_destroying_a_held_context_discards_its_work),
        ET_TEST(test_kernels_that_wait_for_the_host_hold_up_no_other),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
