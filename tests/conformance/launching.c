/* SPDX-License-Identifier: MIT */
/* Launches by cuLaunchKernelEx() that ask for more than a grid: clusters, cooperative grids, an early start.
 */
#include "tests/conformance/conformance.h"

#include <string.h>

#define THREADS 32u
#define BYTES (THREADS * 4u)

static bool available(void)
{
    int major = 0;
    cu_ok(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cf_context->device));
    return major >= 9 && cu->cuLaunchKernelEx != NULL && cu->cuOccupancyMaxActiveClusters != NULL &&
           cu->cuOccupancyMaxPotentialClusterSize != NULL;
}

#define NEED_CLUSTERS()                                                 \
    do {                                                                \
        if (!available()) {                                             \
            cf_skip("no clusters (compute capability 9.0, CUDA 11.8)"); \
        }                                                               \
    } while (0)

static CUlaunchAttribute cluster_of(unsigned blocks)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attribute.value.clusterDim.x = blocks;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    return attribute;
}

static CUlaunchConfig config_of(unsigned grid, CUstream stream, CUlaunchAttribute *attributes, unsigned count)
{
    return (CUlaunchConfig){.gridDimX = grid,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = THREADS,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = BYTES,
                            .hStream = stream,
                            .attrs = attributes,
                            .numAttrs = count};
}

static void check_clusters(CUstream stream, CUdeviceptr out, unsigned size)
{
    enum { GRID = 48 };
    uint32_t got[GRID * THREADS];
    cu_ok(cuMemcpyDtoHAsync(got, out, sizeof(got), stream));
    cu_ok(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < GRID * THREADS; i++) {
        const unsigned block = i / THREADS, first = block / size * size;
        assert_int_equal(got[i], 1000 * (first + (block + 1 - first) % size) + i % THREADS);
    }
}

static void test_blocks_of_a_cluster_read_each_others_memory(void **state)
{
    (void)state;
    NEED_CLUSTERS();
    CUstream stream = cf_stream();
    CUdeviceptr out = cf_device(48 * BYTES);
    void *params[] = {&out};
    for (unsigned size = 1; size <= 8; size *= 2) {
        CUlaunchAttribute cluster = cluster_of(size);
        CUlaunchConfig config = config_of(48, stream, &cluster, 1);
        cu_ok(cuMemsetD8Async(out, 0xff, 48 * BYTES, stream));
        cu_ok(cuLaunchKernelEx(&config, cf_cluster, params, NULL));
        check_clusters(stream, out, size);
    }
}

static void test_a_captured_cluster_stays_one(void **state)
{
    (void)state;
    NEED_CLUSTERS();
    CUstream stream = cf_stream();
    CUdeviceptr out = cf_device(48 * BYTES);
    void *params[] = {&out};
    CUlaunchAttribute cluster = cluster_of(4);
    CUlaunchConfig config = config_of(48, stream, &cluster, 1);
    CUgraph graph;
    CUgraphExec exec;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu_ok(cuMemsetD8Async(out, 0xff, 48 * BYTES, stream));
    cu_ok(cuLaunchKernelEx(&config, cf_cluster, params, NULL));
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        cu_ok(cuGraphLaunch(exec, stream));
        check_clusters(stream, out, 4);
    }
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static void test_clusters_that_fit_are_counted(void **state)
{
    (void)state;
    NEED_CLUSTERS();
    CUstream stream = cf_stream();
    int sms = 0, last = 1 << 30, largest = 0;
    cu_ok(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cf_context->device));
    for (unsigned size = 1; size <= 8; size *= 2) {
        CUlaunchAttribute cluster = cluster_of(size);
        CUlaunchConfig config = config_of(size, stream, &cluster, 1);
        int clusters = 0, blocks = 0;
        cu_ok(cuOccupancyMaxActiveClusters(&clusters, cf_cluster, &config));
        cu_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cf_cluster, THREADS, BYTES));
        assert_in_range(clusters, 1, last);
        assert_true((unsigned)clusters * size <= (unsigned)(blocks * sms));
        last = clusters;
    }
    CUlaunchConfig config = config_of(16, stream, NULL, 0);
    cu_ok(cuOccupancyMaxPotentialClusterSize(&largest, cf_cluster, &config));
    assert_int_equal(largest, 8);
    cu_ok(cuFuncSetAttribute(cf_cluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    cu_ok(cuOccupancyMaxPotentialClusterSize(&largest, cf_cluster, &config));
    assert_in_range(largest, 8, 16);
    cu_ok(cuFuncSetAttribute(cf_cluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
}

/* ---- cooperative grids ------------------------------------------------------------------------ */

static void check_meeting(CUstream stream, CUdeviceptr words, unsigned grid)
{
    uint32_t got[2 + 3 * 8];
    assert_true(grid <= 8);
    cu_ok(cuMemcpyDtoHAsync(got, words, (2 + 3 * grid) * 4, stream));
    cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(got[1], 3 * grid);
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned block = 0; block < grid; block++) {
            assert_int_equal(got[2 + turn * grid + block], (turn + 1) * grid);
        }
    }
}

static void test_a_cooperative_grid_meets(void **state)
{
    (void)state;
    if (cu->cuLaunchKernelEx == NULL) {
        cf_skip("the driver has no cuLaunchKernelEx");
    }
    CUstream stream = cf_stream();
    CUdeviceptr words = cf_device(4096), count = words + 4, seen = words + 8;
    void *params[] = {&words, &count, &seen};
    CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    cu_ok(cuMemsetD32Async(words, 0, 1, stream));
    for (unsigned grid = 1; grid <= 8; grid++) { /* the same word, though the numbers of blocks differ */
        CUlaunchConfig config = config_of(grid, stream, &together, 1);
        cu_ok(cuMemsetD32Async(count, 0, 1, stream));
        cu_ok(cuLaunchKernelEx(&config, cf_meet, params, NULL));
        check_meeting(stream, words, grid);
    }
}

static void test_a_cooperative_grid_must_fit(void **state)
{
    (void)state;
    if (cu->cuLaunchKernelEx == NULL) {
        cf_skip("the driver has no cuLaunchKernelEx");
    }
    CUstream stream = cf_stream();
    CUdeviceptr words = cf_device(4096), count = words + 4, seen = words + 8;
    void *params[] = {&words, &count, &seen};
    int sms = 0, blocks = 0;
    CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    cu_ok(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cf_context->device));
    cu_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cf_meet, THREADS, BYTES));
    CUlaunchConfig config = config_of((unsigned)(sms * blocks) + 1, stream, &together, 1);
    cu_is(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchKernelEx(&config, cf_meet, params, NULL));
    cu_ok(cuStreamSynchronize(stream)); /* the context is not broken */
}

/* ---- early starts ------------------------------------------------------------------------------ */

static void enqueue_chain(CUstream stream, CUdeviceptr data)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = config_of(4, stream, &early, 1);
    cu_ok(cuMemsetD32Async(data, 1, 4 * THREADS, stream));
    for (uint32_t i = 0; i < 12; i++) {
        void *params[] = {&data, &i};
        cu_ok(cuLaunchKernelEx(&config, cf_early, params, NULL));
    }
}

static void check_chain(CUstream stream, CUdeviceptr data)
{
    uint32_t value = 1;
    for (uint32_t i = 0; i < 12; i++) {
        value = 2 * value + i;
    }
    cf_expect_words(stream, data, 4 * THREADS, value);
}

static void test_an_early_start_waits_for_earlier_work(void **state)
{
    (void)state;
    NEED_CLUSTERS();
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(4 * BYTES);
    for (int i = 0; i < 20; i++) {
        enqueue_chain(stream, data);
        check_chain(stream, data);
    }
}

static void test_an_early_start_can_be_captured(void **state)
{
    (void)state;
    NEED_CLUSTERS();
    CUstream stream = cf_stream();
    CUdeviceptr data = cf_device(4 * BYTES);
    CUgraph graph;
    CUgraphExec exec;
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    enqueue_chain(stream, data);
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 20; i++) {
        cu_ok(cuGraphLaunch(exec, stream));
        check_chain(stream, data);
    }
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
}

static const struct CMUnitTest launching[] = {
    CF_TEST(test_blocks_of_a_cluster_read_each_others_memory),
    CF_TEST(test_a_captured_cluster_stays_one),
    CF_TEST(test_clusters_that_fit_are_counted),
    CF_TEST(test_a_cooperative_grid_meets),
    CF_TEST(test_a_cooperative_grid_must_fit),
    CF_TEST(test_an_early_start_waits_for_earlier_work),
    CF_TEST(test_an_early_start_can_be_captured),
};
CF_GROUP(launching)
