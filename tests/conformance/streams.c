/* SPDX-License-Identifier: MIT */
/* Order on and between streams: events, host functions, values in memory. */
#include "tests/conformance/conformance.h"

#include <string.h>

#define COUNT 4096

static void test_work_of_a_stream_runs_in_order(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(COUNT * 4);
    cu_ok(cuMemsetD32Async(data, 1, COUNT, stream));
    for (uint32_t i = 0; i < 50; i++) {
        cf_launch_add(stream, data, COUNT, i);
    }
    cu_ok(cuMemsetD32Async(data, 7, COUNT / 2, stream));
    cf_launch_add(stream, data, COUNT, 1);
    cf_expect_words(stream, data, COUNT / 2, 8);
    cf_expect_words(stream, data + COUNT * 2, COUNT / 2, 1 + 49 * 50 / 2 + 1);
}

static void test_query_tells_whether_work_is_left(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(256);
    cu_ok(cuStreamQuery(stream));
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(data, 1, 64, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    cf_open_gate();
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuStreamQuery(stream));
}

static void test_event_is_done_when_the_work_before_it_is(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(data, 3, COUNT, stream));
    cu_ok(cuEventRecord(event, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    cf_open_gate();
    cu_ok(cuEventSynchronize(event));
    cu_ok(cuEventQuery(event));
    cf_expect_words(stream, data, COUNT, 3);
}

static void test_event_never_recorded_counts_as_done(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUevent event = cf_event();
    cu_ok(cuEventQuery(event));
    cu_ok(cuEventSynchronize(event));
    cu_ok(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT));
    cu_ok(cuStreamSynchronize(stream));
}

static void test_event_orders_two_streams(void **state)
{
    (void)state;
    CUstream first = cf_stream(), second = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr a = cf_device(COUNT * 4), b = cf_device(COUNT * 4);
    cf_close_gate(first);
    cu_ok(cuMemsetD32Async(a, 5, COUNT, first));
    cf_launch_add(first, a, COUNT, 6);
    cu_ok(cuEventRecord(event, first));
    cu_ok(cuStreamWaitEvent(second, event, CU_EVENT_WAIT_DEFAULT));
    cu_ok(cuMemcpyDtoDAsync(b, a, COUNT * 4, second));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    cf_open_gate();
    cf_expect_words(second, b, COUNT, 11);
}

static void test_wait_means_the_record_before_it(void **state)
{
    (void)state;
    CUstream first = cf_stream(), second = cf_stream();
    CUevent event = cf_event();
    cu_ok(cuEventRecord(event, first));
    cu_ok(cuStreamWaitEvent(second, event, CU_EVENT_WAIT_DEFAULT));
    cf_close_gate(first);
    cu_ok(cuEventRecord(event, first)); /* again, behind the gate */
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    cu_ok(cuStreamSynchronize(second)); /* it returns while the gate is closed */
    cf_open_gate();
    cu_ok(cuEventSynchronize(event));
}

static void test_one_event_serves_again_and_again(void **state)
{
    (void)state;
    CUstream first = cf_stream(), second = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    cu_ok(cuMemsetD32Async(data, 0, COUNT, first));
    for (uint32_t i = 0; i < 20; i++) {
        CUstream from = i % 2 == 0 ? first : second, to = i % 2 == 0 ? second : first;
        cf_launch_add(from, data, COUNT, 1);
        cu_ok(cuEventRecord(event, from));
        cu_ok(cuStreamWaitEvent(to, event, CU_EVENT_WAIT_DEFAULT));
    }
    cf_expect_words(first, data, COUNT, 20);
    cu_ok(cuStreamSynchronize(second));
}

static void test_event_may_be_destroyed_while_waited_for(void **state)
{
    (void)state;
    CUstream first = cf_stream(), second = cf_stream();
    CUevent event = NULL;
    CUdeviceptr a = cf_device(256), b = cf_device(256);
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    cf_close_gate(first);
    cu_ok(cuMemsetD32Async(a, 9, 64, first));
    cu_ok(cuEventRecord(event, first));
    cu_ok(cuStreamWaitEvent(second, event, CU_EVENT_WAIT_DEFAULT));
    cu_ok(cuEventDestroy(event));
    cu_ok(cuMemcpyDtoDAsync(b, a, 256, second));
    cf_open_gate();
    cf_expect_words(second, b, 64, 9);
}

static void test_stream_may_be_destroyed_with_work_left(void **state)
{
    (void)state;
    CUstream stream = NULL, other = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(256);
    cu_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(data, 21, 64, stream));
    cu_ok(cuEventRecord(event, stream));
    cu_ok(cuStreamDestroy(stream)); /* it does not wait */
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    cf_open_gate();
    cu_ok(cuEventSynchronize(event));
    cf_expect_words(other, data, 64, 21);
}

static void test_times_between_events(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUevent begin = cf_timed_event(), end = cf_timed_event(), untimed = cf_event();
    CUdeviceptr data = cf_device(COUNT * 4);
    float ms = -1;
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, begin, end)); /* it was not recorded */
    cf_close_gate(stream);
    cu_ok(cuEventRecord(begin, stream));
    cu_ok(cuMemsetD32Async(data, 0, COUNT, stream));
    cf_launch_add(stream, data, COUNT, 1);
    cu_ok(cuEventRecord(end, stream));
    cu_ok(cuEventRecord(untimed, stream));
    cu_is(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, begin, end));
    cf_open_gate();
    cu_ok(cuEventSynchronize(untimed));
    cu_ok(cuEventElapsedTime(&ms, begin, end));
    assert_true(ms >= 0);
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, begin, untimed));
}

struct seen {
    volatile const uint32_t *word;
    uint32_t values[3];
    unsigned count;
};

static void note(void *user)
{
    struct seen *seen = user;
    seen->values[seen->count++] = *seen->word;
}

static void test_host_function_runs_at_its_place(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    uint32_t *host = cf_pinned(1);
    CUdeviceptr word = cf_address(host);
    struct seen seen = {.word = host};
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(word, 100, 1, stream));
    cu_ok(cuLaunchHostFunc(stream, note, &seen));
    cf_launch_add(stream, word, 1, 11);
    cu_ok(cuLaunchHostFunc(stream, note, &seen));
    cf_launch_add(stream, word, 1, 11);
    cu_ok(cuLaunchHostFunc(stream, note, &seen));
    assert_int_equal(seen.count, 0);
    cf_open_gate();
    cu_ok(cuStreamSynchronize(stream)); /* this covers host functions */
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.values[0], 100);
    assert_int_equal(seen.values[1], 111);
    assert_int_equal(seen.values[2], 122);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, NULL, &seen));
}

static void test_value_is_written_at_its_place(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(256);
    uint32_t *host = cf_pinned(2);
    cu_ok(cuMemsetD32Async(data, 1, 64, stream));
    cu_ok(cuStreamWriteValue32(stream, data + 8, 77, CU_STREAM_WRITE_VALUE_DEFAULT));
    cf_launch_add(stream, data, 3, 1);
    cu_ok(cuStreamWriteValue32(stream, cf_address(host + 1), 78, CU_STREAM_WRITE_VALUE_DEFAULT));
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(((volatile uint32_t *)host)[1], 78);
    cf_expect_words(stream, data, 2, 2);
    cf_expect_words(stream, data + 8, 1, 78);
    cf_expect_words(stream, data + 12, 61, 1);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, data + 1, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

/* Wait for `flags` with `value`, check that the wait holds at `held`, and end it by storing `freed` from the
 * host. */
static void check_wait(CUstream stream, unsigned int flags, uint32_t value, uint32_t held, uint32_t freed)
{
    uint32_t *word = cf_pinned(1);
    _Atomic(uint32_t) *shared = (_Atomic(uint32_t) *)(void *)word;
    atomic_store(shared, held);
    cu_ok(cuStreamWaitValue32(stream, cf_address(word), value, flags));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    atomic_store(shared, freed);
    cu_ok(cuStreamSynchronize(stream));
}

static void test_stream_waits_for_a_value_from_the_host(void **state)
{
    (void)state;
    CUstream stream = cf_stream();
    check_wait(stream, CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6);
    check_wait(stream, CU_STREAM_WAIT_VALUE_GEQ, 0x10, 0xfffffff0u, 0x10); /* the comparison wraps */
    check_wait(stream, CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5);
    check_wait(stream, CU_STREAM_WAIT_VALUE_AND, 4, 3, 6);
}

static void test_stream_waits_for_a_value_of_another(void **state)
{
    (void)state;
    CUstream waiter = cf_stream(), writer = cf_stream();
    CUdeviceptr flag = cf_device(4), a = cf_device(256), b = cf_device(256);
    cu_ok(cuMemsetD32Async(flag, 0, 1, writer));
    cu_ok(cuMemsetD32Async(a, 0, 64, writer));
    cu_ok(cuStreamSynchronize(writer));
    cu_ok(cuStreamWaitValue32(waiter, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    cu_ok(cuMemcpyDtoDAsync(b, a, 256, waiter));
    cf_launch_add(writer, a, 64, 13);
    cu_ok(cuStreamWriteValue32(writer, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    cf_expect_words(waiter, b, 64, 13);
    cu_ok(cuStreamSynchronize(writer));
}

static void test_stream_has_the_priority_asked_for(void **state)
{
    (void)state;
    int least, greatest, got = 77;
    CUstream stream = NULL;
    cu_ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    cu_ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    cu_ok(cuStreamGetPriority(stream, &got));
    assert_int_equal(got, greatest);
    cu_ok(cuStreamDestroy(stream));
    /* it is clamped */
    cu_ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
    cu_ok(cuStreamGetPriority(stream, &got));
    assert_int_equal(got, greatest);
    cu_ok(cuStreamDestroy(stream));
    cu_ok(cuStreamGetPriority(cf_stream(), &got));
    assert_int_equal(got, 0);
}

static void test_streams_know_their_context(void **state)
{
    (void)state;
    CUcontext of = NULL, current = NULL;
    CUstream plain = NULL;
    cu_ok(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
    cu_ok(cuStreamGetCtx(plain, &of));
    assert_ptr_equal(of, cf_context->native);
    cu_ok(cuCtxGetCurrent(&current));
    cu_ok(cuStreamGetCtx(NULL, &of)); /* the default stream of the context that is current */
    assert_ptr_equal(of, current);
    /* These questions do not break the capture of a stream. */
    CUgraph graph = NULL;
    CUgreenCtx green = NULL;
    int priority = 1;
    of = NULL;
    cu_ok(cuStreamBeginCapture(plain, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cu_ok(cuStreamGetCtx(plain, &of));
    assert_ptr_equal(of, cf_context->native);
    cu_ok(cuStreamGetPriority(plain, &priority));
    if (cu->cuStreamGetGreenCtx != NULL) {
        CUresult result = cu->cuStreamGetGreenCtx(plain, &green); /* see green.c */
        assert_true(result == CUDA_ERROR_INVALID_HANDLE || (result == CUDA_SUCCESS && green == NULL));
    }
    cu_ok(cuStreamEndCapture(plain, &graph));
    assert_non_null(graph);
    cu_ok(cuGraphDestroy(graph));
    cu_ok(cuStreamDestroy(plain));
}

static void test_streams_have_numbers(void **state)
{
    (void)state;
    if (cu->cuStreamGetId == NULL) {
        return; /* since CUDA 12.0 */
    }
    unsigned long long first, second, again, legacy, null;
    CUstream stream = cf_stream(), other;
    cu_ok(cuStreamGetId(stream, &first));
    cu_ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    cu_ok(cuStreamGetId(other, &second));
    assert_true(first != second);
    cu_ok(cuStreamDestroy(other));
    cu_ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING)); /* maybe it has the same handle */
    cu_ok(cuStreamGetId(other, &again));
    assert_true(again != second && again != first);
    cu_ok(cuStreamGetId(NULL, &null));
    cu_ok(cuStreamGetId((CUstream)(uintptr_t)1, &legacy));
    assert_true(null == legacy && null != first);
    cu_is(CUDA_ERROR_INVALID_VALUE, cuStreamGetId(stream, NULL));
    CUgraph graph;
    cu_ok(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamGetId(other, &again));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(other, &graph));
    cu_ok(cuStreamDestroy(other));
}

static void test_context_synchronise_waits_for_all_streams(void **state)
{
    (void)state;
    CUstream streams_of_mine[4];
    uint32_t *host = cf_pinned(4);
    CUdeviceptr data = cf_device(4 * COUNT * 4);
    for (uint32_t i = 0; i < 4; i++) {
        CUdeviceptr part = data + i * COUNT * 4;
        streams_of_mine[i] = cf_stream();
        cu_ok(cuMemsetD32Async(part, i, COUNT, streams_of_mine[i]));
        cf_launch_add(streams_of_mine[i], part, COUNT, 10);
        cu_ok(cuMemcpyDtoHAsync(host + i, part, 4, streams_of_mine[i]));
    }
    cu_ok(cuCtxSynchronize());
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(host[i], 10 + i);
        cu_ok(cuStreamQuery(streams_of_mine[i]));
    }
}

static void test_null_stream_takes_work(void **state)
{
    (void)state;
    CUdeviceptr data = cf_device(COUNT * 4);
    cu_ok(cuMemsetD32Async(data, 4, COUNT, NULL));
    cf_launch_add(NULL, data, COUNT, 5);
    cf_expect_words(NULL, data, COUNT, 9);
    cu_ok(cuStreamQuery(NULL));
}

static void test_null_stream_and_blocking_streams_wait_for_each_other(void **state)
{
    (void)state;
    CUstream blocking = NULL, free_running = cf_stream();
    CUdeviceptr a = cf_device(256), b = cf_device(256), c = cf_device(256);
    cu_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    cf_close_gate(blocking);
    cu_ok(cuMemsetD32Async(a, 50, 64, blocking));
    cu_ok(cuMemcpyDtoDAsync(b, a, 256, NULL));
    cf_launch_add(blocking, b, 64, 1);
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    cu_ok(cuMemsetD32Async(c, 60, 64, free_running));
    cu_ok(cuStreamSynchronize(free_running)); /* it takes no part in it */
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    cf_open_gate();
    cu_ok(cuStreamSynchronize(blocking));
    cu_ok(cuStreamQuery(NULL));
    cf_expect_words(blocking, b, 64, 51);
    cf_expect_words(free_running, c, 64, 60);
    cu_ok(cuStreamDestroy(blocking));
}

static void test_unknown_flags_and_missing_outputs_are_refused(void **state)
{
    (void)state;
    CUstream stream = cf_stream(), other = NULL;
    CUevent event = cf_event(), created = NULL;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&other, 0x80));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, CU_STREAM_NON_BLOCKING));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&created, 0x80));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, CU_EVENT_DEFAULT));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(event, stream, 0x80));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(stream, event, 0x80));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(NULL, stream));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(stream, NULL, CU_EVENT_WAIT_DEFAULT));
    cu_ok(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT));
    cu_ok(cuStreamSynchronize(stream));
}

static const struct CMUnitTest streams[] = {
    CF_TEST(test_work_of_a_stream_runs_in_order),
    CF_TEST(test_query_tells_whether_work_is_left),
    CF_TEST(test_event_is_done_when_the_work_before_it_is),
    CF_TEST(test_event_never_recorded_counts_as_done),
    CF_TEST(test_event_orders_two_streams),
    CF_TEST(test_wait_means_the_record_before_it),
    CF_TEST(test_one_event_serves_again_and_again),
    CF_TEST(test_event_may_be_destroyed_while_waited_for),
    CF_TEST(test_stream_may_be_destroyed_with_work_left),
    CF_TEST(test_times_between_events),
    CF_TEST(test_host_function_runs_at_its_place),
    CF_TEST(test_value_is_written_at_its_place),
    CF_TEST(test_stream_waits_for_a_value_from_the_host),
    CF_TEST(test_stream_waits_for_a_value_of_another),
    CF_TEST(test_stream_has_the_priority_asked_for),
    CF_TEST(test_streams_know_their_context),
    CF_TEST(test_streams_have_numbers),
    CF_TEST(test_context_synchronise_waits_for_all_streams),
    CF_TEST(test_null_stream_takes_work),
    CF_TEST(test_null_stream_and_blocking_streams_wait_for_each_other),
    CF_TEST(test_unknown_flags_and_missing_outputs_are_refused),
};
CF_GROUP(streams)
