/* SPDX-License-Identifier: MIT */
/* Several devices: links, access to memory of another device, copies, events and graphs across. */
#include "tests/conformance/conformance.h"

#include "conformance_kernels.kernels.h"

#include <stdio.h>

#define WORDS 256u
#define BYTES (WORDS * sizeof(uint32_t))

/* The other device, and the objects on it. */
static struct {
    struct gy_context *context;
    struct gantry_module *module;
    CUfunction add;
    CUstream stream;
    CUdeviceptr words; /* by cuMemAlloc */
} other;

/* Is there no other device?  A real machine may have only one, and then there is nothing to test.  The
 * emulated driver has as many as the environment says: the test conformance.two_devices asks for two. */
static bool is_alone(void)
{
    int devices = 0;
    cu_ok(cuDeviceGetCount(&devices));
    if (devices < 2 && cu->emulated) {
        cf_skip("one emulated device: there is no other one to reach");
    }
    if (devices < 2) {
        print_message("one device: there is no other one to reach\n");
    }
    return devices < 2;
}

static CUdevice own_device(void)
{
    return cf_context->device;
}

static CUdevice other_device(void)
{
    int devices = 0;
    CUdevice device;
    cu_ok(cuDeviceGetCount(&devices));
    cu_ok(cuDeviceGet(&device, (cf_context->info.ordinal + 1) % devices));
    return device;
}

static bool reaches(CUdevice from, CUdevice to)
{
    int can = 0;
    cu_ok(cuDeviceCanAccessPeer(&can, from, to));
    return can != 0;
}

static bool are_peers(void)
{
    return reaches(own_device(), other_device()) && reaches(other_device(), own_device());
}

/* Make its stream and words, and load its kernel; the suite's own context is current again afterwards. */
static void open_other(void)
{
    char device[16];
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    struct gantry_kernel *add;
    uint32_t none = 0;
    snprintf(device, sizeof(device), "%d", (int)other_device());
    options.driver = cu->emulated ? GANTRY_DRIVER_EMULATED : GANTRY_DRIVER_CUDA;
    options.device = device;
    assert_ok(gy_context_open(&options, &other.context));
    assert_ok(gy_context_push(other.context));
    assert_ok(gy_module_load(other.context, &gantry_image_conformance_kernels, &other.module));
    assert_ok(gy_module_kernel(other.module, "cf_add", &add));
    other.add = add->function;
    cu_ok(cuStreamCreate(&other.stream, CU_STREAM_NON_BLOCKING));
    cu_ok(cuMemAlloc(&other.words, BYTES));
    cu_ok(cuMemsetD32Async(other.words, 7, WORDS, other.stream));
    void *params[] = {&other.words, &none, &none};
    cu_ok(cuLaunchKernel(other.add, 1, 1, 1, 64, 1, 1, 0, other.stream, params, NULL));
    cu_ok(cuStreamSynchronize(other.stream));
    assert_ok(gy_context_pop(other.context));
}

static int close_other(void **state)
{
    if (other.context != NULL) {
        assert_ok(gy_context_push(other.context));
        (void)cu->cuStreamDestroy(other.stream);
        (void)cu->cuMemFree(other.words);
        gy_module_unload(other.module);
        assert_ok(gy_context_pop(other.context));
        gy_context_close(other.context);
        other.context = NULL;
    }
    return cf_teardown(state);
}

static void launch_add(CUfunction add, CUstream stream, CUdeviceptr words, uint32_t value)
{
    uint32_t count = WORDS;
    void *params[] = {&words, &count, &value};
    cu_ok(cuLaunchKernel(add, WORDS / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL));
}

static void expect_words(CUdeviceptr words, uint32_t value)
{
    uint32_t *host = cf_pinned(WORDS);
    CUstream stream = cf_stream();
    cu_ok(cuMemcpyAsync(cf_address(host), words, BYTES, stream));
    cu_ok(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(host[i], value);
    }
}

/* ---- links ----------------------------------------------------------------------------------- */

static void test_links_of_a_pair_are_told(void **state)
{
    (void)state;
    int value = 77;
    if (is_alone()) {
        return;
    }
    CUdevice here = own_device(), there = other_device();
    cu_ok(cuDeviceCanAccessPeer(&value, here, here));
    assert_int_equal(value, 0);
    cu_is(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&value, here, 99));
    cu_is(CUDA_ERROR_INVALID_DEVICE,
          cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, here, here));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)999, here, there));
    cu_ok(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, here, there));
    assert_int_equal(value != 0, reaches(here, there));
    cu_ok(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, here, there));
    assert_true(value >= 0);
    cu_ok(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, here, there));
    assert_in_range(value, 0, 1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void test_contexts_reach_each_other_when_asked(void **state)
{
    (void)state;
    if (is_alone()) {
        return;
    }
    if (!are_peers()) {
        cf_skip("the devices are no peers");
    }
    open_other();
    CUcontext peer = other.context->native;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(peer, 1));
    cu_is(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(cf_context->native, 0));
    cu_is(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(peer));
    cu_ok(cuCtxEnablePeerAccess(peer, 0));
    cu_is(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(peer, 0));
    CUstream stream = cf_stream();
    launch_add(cf_add, stream, other.words, 5);
    cu_ok(cuStreamSynchronize(stream));
    expect_words(other.words, 12);
    cu_ok(cuCtxDisablePeerAccess(peer));
}

/* Memory of cuMemAlloc() is copied between devices without any permission, through the host if necessary. */
static void test_copies_of_plain_memory_need_no_access(void **state)
{
    (void)state;
    if (is_alone()) {
        return;
    }
    open_other();
    CUstream stream = cf_stream();
    CUdeviceptr words = cf_device(BYTES);
    cu_ok(cuMemcpyAsync(words, other.words, BYTES, stream));
    cf_expect_words(stream, words, WORDS, 7);
    cu_ok(cuMemsetD32Async(words, 9, WORDS, stream));
    cu_ok(cuMemcpyDtoDAsync(other.words, words, BYTES, stream));
    cu_ok(cuStreamSynchronize(stream));
    expect_words(other.words, 9);
}

static CUdeviceptr map_on(CUdevice device, size_t bytes, CUdeviceptr *range)
{
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)device}};
    CUmemGenericAllocationHandle handle;
    cu_ok(cuMemAddressReserve(range, bytes, 0, 0, 0));
    cu_ok(cuMemCreate(&handle, bytes, &what, 0));
    cu_ok(cuMemMap(*range, bytes, 0, handle, 0));
    cu_ok(cuMemRelease(handle));
    return *range;
}

/* One call gives several devices access; kernels and copies of each then use the memory. */
static void test_mapped_memory_is_for_all_devices_named(void **state)
{
    (void)state;
    const size_t bytes = (size_t)2 << 20;
    if (is_alone()) {
        return;
    }
    if (cu->cuMemSetAccess == NULL || !are_peers()) {
        cf_skip("the devices are no peers");
    }
    open_other();
    CUmemAccessDesc both[] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, (int)own_device()}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, (int)other_device()}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUdeviceptr here, there;
    CUstream stream = cf_stream();
    map_on(own_device(), bytes, &here);
    map_on(other_device(), bytes, &there);
    cu_ok(cuMemSetAccess(here, bytes, both, 2));
    cu_ok(cuMemSetAccess(there, bytes, both, 2));
    cu_ok(cuMemsetD32Async(here, 1, WORDS, stream));
    cu_ok(cuMemsetD32Async(there, 2, WORDS, stream));
    launch_add(cf_add, stream, there, 10);
    cu_ok(cuStreamSynchronize(stream));
    assert_ok(gy_context_push(other.context));
    launch_add(other.add, other.stream, here, 20);
    cu_ok(cuStreamSynchronize(other.stream));
    assert_ok(gy_context_pop(other.context));
    expect_words(here, 21);
    expect_words(there, 12);
    cu_ok(cuMemcpyDtoDAsync(here, there, BYTES, stream));
    cu_ok(cuStreamSynchronize(stream));
    expect_words(here, 12);
    cu_ok(cuMemUnmap(here, bytes));
    cu_ok(cuMemUnmap(there, bytes));
    cu_ok(cuMemAddressFree(here, bytes));
    cu_ok(cuMemAddressFree(there, bytes));
}

static void test_copies_between_contexts_are_not_captured(void **state)
{
    (void)state;
    if (is_alone()) {
        return;
    }
    open_other();
    CUcontext here = cf_context->native, there = other.context->native;
    CUstream stream = cf_stream();
    CUdeviceptr words = cf_device(BYTES);
    CUgraph graph = NULL;
    cu_ok(cuMemcpyPeerAsync(words, here, other.words, there, BYTES, stream));
    cf_expect_words(stream, words, WORDS, 7);
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          cuMemcpyPeerAsync(words, here, other.words, there, BYTES, stream));
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

/* ---- events and graphs ----------------------------------------------------------------------- */

/* A stream waits for an event of the other device; it does not matter which context is current. */
static void test_streams_wait_for_events_of_the_other_device(void **state)
{
    (void)state;
    if (is_alone()) {
        return;
    }
    open_other();
    CUstream stream = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr words = cf_device(BYTES);
    uint32_t *seen = cf_pinned(WORDS);
    cf_close_gate(stream);
    cu_ok(cuMemsetD32Async(words, 3, WORDS, stream));
    /* drivers wait for copies between host addresses */
    cu_ok(cuMemcpyDtoHAsync(seen, words, sizeof(uint32_t), stream));
    cu_ok(cuEventRecord(event, stream));
    cu_is(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, other.stream));
    cu_ok(cuStreamWaitEvent(other.stream, event, 0));
    cu_ok(cuMemcpyAsync(other.words, cf_address(seen), sizeof(uint32_t), other.stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(other.stream));
    cf_open_gate();
    cu_ok(cuStreamSynchronize(other.stream));
    uint32_t word = 0;
    cu_ok(cuMemcpyDtoH(&word, other.words, sizeof(word)));
    assert_int_equal(word, 3);
}

static void test_one_graph_runs_on_both_devices(void **state)
{
    (void)state;
    if (is_alone()) {
        return;
    }
    open_other();
    CUstream stream = cf_stream();
    CUevent fork = cf_event(), join = NULL;
    CUdeviceptr words = cf_device(BYTES);
    CUgraph graph;
    CUgraphExec exec;
    assert_ok(gy_context_push(other.context));
    cu_ok(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    assert_ok(gy_context_pop(other.context));
    cu_ok(cuMemsetD32Async(words, 0, WORDS, stream));
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch_add(cf_add, stream, words, 1);
    cu_ok(cuEventRecord(fork, stream));
    cu_ok(cuStreamWaitEvent(other.stream, fork, 0));
    launch_add(other.add, other.stream, other.words, 1);
    cu_ok(cuEventRecord(join, other.stream));
    cu_ok(cuStreamWaitEvent(stream, join, 0));
    cu_ok(cuMemcpyDtoDAsync(words, other.words, BYTES / 2, stream));
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuGraphLaunch(exec, stream));
    cf_expect_words(stream, words, WORDS / 2, 9);
    cf_expect_words(stream, words + BYTES / 2, WORDS / 2, 2);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
    cu_ok(cuEventDestroy(join));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cf_setup, close_other)
static const struct CMUnitTest devices[] = {
    TEST(test_links_of_a_pair_are_told),
    TEST(test_contexts_reach_each_other_when_asked),
    TEST(test_copies_of_plain_memory_need_no_access),
    TEST(test_mapped_memory_is_for_all_devices_named),
    TEST(test_copies_between_contexts_are_not_captured),
    TEST(test_streams_wait_for_events_of_the_other_device),
    TEST(test_one_graph_runs_on_both_devices),
};
CF_GROUP(devices)
