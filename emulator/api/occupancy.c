/* SPDX-License-Identifier: MIT */
/* How many clusters of blocks fit on a device at once. */
#include "emulator/module.h"

/* A launch of this size is possible. */
static bool has_size(const CUlaunchConfig *config)
{
    const bool has_grid = config->gridDimX - 1 < INT32_MAX && config->gridDimY - 1 < UINT16_MAX &&
                          config->gridDimZ - 1 < UINT16_MAX;
    /* A block may be too large, and then none fits. */
    return has_grid && config->blockDimX != 0 && config->blockDimY != 0 && config->blockDimZ != 0;
}

static CUresult find(CUfunction handle, const CUlaunchConfig *config, struct gy_emu_function **function,
                     struct gy_emu_stream **stream, struct gy_emu_attributes *attributes)
{
    *function = gy_emu_handle_find(GY_EMU_FUNCTION, handle);
    if (*function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (config == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find(config->hStream, stream);
    if (result == CUDA_SUCCESS && (*function)->object.context != (*stream)->root) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        result = gy_emu_attributes_import(config, attributes);
    }
    if (result == CUDA_SUCCESS && !has_size(config)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < 3 && result == CUDA_SUCCESS && attributes->cluster[0] != 0; i++) {
        const unsigned int grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
        result = grid[i] % attributes->cluster[i] == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    const uint64_t size = attributes->cluster[0] != 0 ? gy_emu_size_of(attributes->cluster) : 1;
    if (result == CUDA_SUCCESS && (attributes->has_bad_cluster || size > GY_EMU_LARGEST_CLUSTER ||
                                   (size > GY_EMU_PORTABLE_CLUSTER && !(*function)->has_large_clusters))) {
        result = CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    const bool can = (*function)->object.context->device->profile->major >= GY_EMU_CLUSTERS_MAJOR;
    return result == CUDA_SUCCESS && !can ? CUDA_ERROR_NOT_SUPPORTED : result;
}

static uint32_t blocks_of(const struct gy_emu_function *function, const CUlaunchConfig *config)
{
    const uint32_t block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    const uint64_t threads = gy_emu_size_of(block);
    const bool wraps = config->sharedMemBytes > UINT32_MAX - 1024;
    if (threads > UINT32_MAX || block[2] > 64) {
        return 0;
    }
    const uint32_t blocks =
        gy_emu_function_occupancy(function, (uint32_t)threads, wraps ? SIZE_MAX : config->sharedMemBytes);
    const uint32_t most = !function->has_carveout  ? blocks
                          : function->carveout < 0 ? 8
                                                   : 4; /* as on an H200 */
    return blocks < most ? blocks : most;
}

/* An SM runs two blocks of a cluster of eight if it can, which needs half as many SMs then: so it was seen on
 * a whole device. */
static uint32_t clusters_of(const struct gy_emu_context *context, uint32_t size, uint32_t blocks)
{
    const bool halves = size == GY_EMU_PORTABLE_CLUSTER && blocks > 1 && context->green == NULL;
    return halves ? gy_emu_attributes_clusters(context, size / 2, blocks / 2)
                  : gy_emu_attributes_clusters(context, size, blocks);
}

static CUresult max_clusters(int *clusters, CUfunction handle, const CUlaunchConfig *config)
{
    if (clusters == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_function *function;
    struct gy_emu_stream *stream;
    struct gy_emu_attributes attributes;
    CUresult result = find(handle, config, &function, &stream, &attributes);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (attributes.cluster[0] == 0) {
        *clusters = 0; /* a launch without clusters has none */
        return CUDA_SUCCESS;
    }
    const uint64_t size = gy_emu_size_of(attributes.cluster);
    *clusters = (int)clusters_of(stream->object.context, (uint32_t)size, blocks_of(function, config));
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    return GY_EMU_CALL(cuOccupancyMaxActiveClusters, max_clusters(clusters, function, config));
}

static CUresult max_cluster_size(int *blocks, CUfunction handle, const CUlaunchConfig *config)
{
    if (blocks == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_function *function;
    struct gy_emu_stream *stream;
    struct gy_emu_attributes attributes;
    CUresult result = find(handle, config, &function, &stream, &attributes);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uint32_t size = function->has_large_clusters ? GY_EMU_LARGEST_CLUSTER : GY_EMU_PORTABLE_CLUSTER;
    while (size > 0 &&
           gy_emu_attributes_clusters(stream->object.context, size, blocks_of(function, config)) == 0) {
        size /= 2;
    }
    *blocks = (int)size;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *blocks, CUfunction function, const CUlaunchConfig *config)
{
    return GY_EMU_CALL(cuOccupancyMaxPotentialClusterSize, max_cluster_size(blocks, function, config));
}
