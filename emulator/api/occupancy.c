/* How many clusters of blocks fit on a device at once. */
#include "emulator/module.h"

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
    if (result == CUDA_SUCCESS) {
        result = gy_emu_attributes_import(config, attributes);
    }
    const bool can = (*function)->object.context->device->profile->major >= GY_EMU_CLUSTERS_MAJOR;
    return result == CUDA_SUCCESS && !can ? CUDA_ERROR_NOT_SUPPORTED : result;
}

static uint32_t blocks_of(const struct gy_emu_function *function, const CUlaunchConfig *config)
{
    const uint32_t block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    const uint64_t threads = gy_emu_size_of(block);
    return threads > UINT32_MAX
               ? 0
               : gy_emu_function_occupancy(function, (uint32_t)threads, config->sharedMemBytes);
}

static CUresult max_clusters(int *clusters, CUfunction handle, const CUlaunchConfig *config)
{
    struct gy_emu_function *function;
    struct gy_emu_stream *stream;
    struct gy_emu_attributes attributes;
    CUresult result = find(handle, config, &function, &stream, &attributes);
    if (result != CUDA_SUCCESS || clusters == NULL || attributes.cluster[0] == 0) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t size = gy_emu_size_of(attributes.cluster);
    if (size > GY_EMU_LARGEST_CLUSTER || (size > GY_EMU_PORTABLE_CLUSTER && !function->has_large_clusters)) {
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    *clusters =
        (int)gy_emu_attributes_clusters(stream->object.context, (uint32_t)size, blocks_of(function, config));
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    return GY_EMU_CALL(cuOccupancyMaxActiveClusters, max_clusters(clusters, function, config));
}

static CUresult max_cluster_size(int *blocks, CUfunction handle, const CUlaunchConfig *config)
{
    struct gy_emu_function *function;
    struct gy_emu_stream *stream;
    struct gy_emu_attributes attributes;
    CUresult result = find(handle, config, &function, &stream, &attributes);
    if (result != CUDA_SUCCESS || blocks == NULL) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
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
