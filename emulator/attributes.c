/* SPDX-License-Identifier: MIT */
/* What cuLaunchKernelEx() asks for besides a grid: clusters, cooperative grids, an early start, a priority;
 * and how many of such fit.
 *
 * An SM runs a block of a cluster as it runs any other, and all blocks of a cluster run on neighbouring SMs:
 * of one processing cluster, or in a green context of one group that was split off.  So a group of `n` SMs
 * runs n / size clusters for each block that an SM runs at once.  A memory sync domain and a preferred
 * cluster size change no result, and are accepted only. */
#include "emulator/logs.h"
#include "emulator/module.h"

/* Attributes that Gantry does not use, and that change no result. */
enum { IGNORED = 0, ACCESS_POLICY_WINDOW = 1 };

#define RESERVED_SHARED 1024u /* of each block, for the system */

/* How much of an SM's memory is shared memory for a block that needs `each`, as an H200 divides it. */
static size_t shared_per_sm(const struct gy_emu_function *function, size_t each)
{
    static const uint8_t steps_kib[] = {8, 16, 32, 64, 100, 132, 164, 196};
    const size_t all = function->object.context->device->profile->shared_bytes_per_sm;
    const size_t wanted = all * (function->carveout < 0 ? 100u : (unsigned)function->carveout) / 100;
    for (size_t i = 0; i < sizeof(steps_kib) && function->carveout >= 0; i++) {
        const size_t step = (size_t)steps_kib[i] << 10;
        if (step >= wanted && step >= each && step < all) {
            return step;
        }
    }
    return all;
}

uint32_t gy_emu_function_occupancy(const struct gy_emu_function *function, uint32_t threads,
                                   size_t shared_bytes)
{
    const struct gy_emu_profile *profile = function->object.context->device->profile;
    const size_t each = shared_bytes + RESERVED_SHARED; /* a number that is too large wraps, as on an H200 */
    const size_t limit = function->max_dynamic_shared > profile->shared_bytes_per_block
                             ? function->max_dynamic_shared
                             : profile->shared_bytes_per_block;
    const bool wraps = each < shared_bytes;
    if (threads == 0 || threads > GY_EMU_MAX_THREADS || each > limit + RESERVED_SHARED ||
        (wraps && limit > profile->shared_bytes_per_block)) {
        return 0;
    }
    size_t most = profile->threads_per_sm / threads;
    const size_t shared = shared_per_sm(function, each);
    if (each > 0 && most > shared / each) {
        most = shared / each;
    }
    return (uint32_t)(most < profile->blocks_per_sm ? most : profile->blocks_per_sm);
}

static CUresult import_one(const CUlaunchAttribute *attribute, struct gy_emu_attributes *out)
{
    const CUlaunchAttributeValue *value = &attribute->value;
    switch ((int)attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out->is_cooperative = value->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        out->cluster[0] = value->clusterDim.x;
        out->cluster[1] = value->clusterDim.y;
        out->cluster[2] = value->clusterDim.z;
        return gy_emu_size_of(out->cluster) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        out->starts_early = value->programmaticStreamSerializationAllowed != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        out->has_priority = true;
        out->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        out->preferred[0] = value->clusterDim.x;
        out->preferred[1] = value->clusterDim.y;
        out->preferred[2] = value->clusterDim.z;
        return value->clusterDim.x != 0 && value->clusterDim.y != 0 && value->clusterDim.z != 0
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return (unsigned)value->memSyncDomain <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_INVALID_VALUE;
    case IGNORED:
    case ACCESS_POLICY_WINDOW:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* A preferred cluster is for launches that have clusters, and divides the grid. */
static bool is_good_preferred(const CUlaunchConfig *config, const CUlaunchAttributeValue *value,
                              const struct gy_emu_attributes *attributes)
{
    const uint32_t size[3] = {value->clusterDim.x, value->clusterDim.y, value->clusterDim.z};
    return attributes->cluster[0] != 0 && gy_emu_size_of(size) != 0 && config->gridDimX % size[0] == 0 &&
           config->gridDimY % size[1] == 0 && config->gridDimZ % size[2] == 0;
}

CUresult gy_emu_attributes_import(const CUlaunchConfig *config, struct gy_emu_attributes *out)
{
    *out = (struct gy_emu_attributes){.priority = 0};
    if (config->numAttrs > 0 && config->attrs == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = CUDA_SUCCESS;
    for (unsigned int i = 0; i < config->numAttrs && result == CUDA_SUCCESS; i++) {
        result = import_one(&config->attrs[i], out);
    }
    for (unsigned int i = 0; i < config->numAttrs && result == CUDA_SUCCESS; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION) {
            out->has_bad_cluster |= !is_good_preferred(config, &config->attrs[i].value, out);
        }
    }
    return result;
}

uint32_t gy_emu_attributes_clusters(const struct gy_emu_context *context, uint32_t size, uint32_t blocks)
{
    const struct gy_emu_profile *profile = context->device->profile;
    uint32_t clusters = 0;
    if (context->green != NULL) {
        return context->sm_count / profile->split_min * (profile->split_min / size) * blocks;
    }
    for (int i = 0; i < GY_EMU_MAX_GPCS && profile->gpc_sms[i] != 0; i++) {
        clusters += profile->gpc_sms[i] / size * blocks;
    }
    return clusters;
}

bool gy_emu_clusters_are_possible(const struct gy_emu_function *function, const struct gy_emu_launch *launch)
{
    const uint32_t *cluster = launch->attributes.cluster, *grid = launch->grid;
    const uint64_t size = cluster[0] != 0 ? gy_emu_size_of(cluster) : 1;
    if (size > GY_EMU_LARGEST_CLUSTER || (size > GY_EMU_PORTABLE_CLUSTER && !function->has_large_clusters)) {
        return false;
    }
    for (int i = 0; i < 3 && cluster[0] != 0; i++) {
        if (grid[i] % cluster[i] != 0) {
            gy_emu_explain("The grid (%u,%u,%u) is no multiple of the cluster (%u,%u,%u)", grid[0], grid[1],
                           grid[2], cluster[0], cluster[1], cluster[2]);
            return false;
        }
    }
    return true;
}

static CUresult check_clusters(const struct gy_emu_context *context, const struct gy_emu_function *function,
                               const struct gy_emu_launch *launch)
{
    const uint32_t *cluster = launch->attributes.cluster;
    const uint64_t size = gy_emu_size_of(cluster);
    if (context->device->profile->major < GY_EMU_CLUSTERS_MAJOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    const uint32_t *preferred = launch->attributes.preferred;
    const bool is_multiple = preferred[0] % cluster[0] == 0 && preferred[1] % cluster[1] == 0;
    if (preferred[2] != 0 && (preferred[2] != cluster[2] || !is_multiple)) {
        gy_emu_explain("The preferred cluster (%u,%u,%u) is no multiple of the cluster (%u,%u,%u)",
                       preferred[0], preferred[1], preferred[2], cluster[0], cluster[1], cluster[2]);
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    const uint32_t blocks =
        gy_emu_function_occupancy(function, (uint32_t)gy_emu_size_of(launch->block), launch->shared_bytes);
    if (size > GY_EMU_LARGEST_CLUSTER || (size > GY_EMU_PORTABLE_CLUSTER && !function->has_large_clusters) ||
        gy_emu_attributes_clusters(context, (uint32_t)size, blocks) == 0) {
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return CUDA_SUCCESS;
}

CUresult gy_emu_attributes_check(const struct gy_emu_context *context, const struct gy_emu_function *function,
                                 const struct gy_emu_launch *launch)
{
    const bool has_clusters = launch->attributes.cluster[0] != 0;
    CUresult result = has_clusters ? check_clusters(context, function, launch) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS || !launch->attributes.is_cooperative) {
        return result;
    }
    const uint32_t blocks =
        gy_emu_function_occupancy(function, (uint32_t)gy_emu_size_of(launch->block), launch->shared_bytes);
    uint64_t most = (uint64_t)blocks * context->sm_count;
    if (has_clusters) {
        const uint64_t size = gy_emu_size_of(launch->attributes.cluster);
        most = gy_emu_attributes_clusters(context, (uint32_t)size, blocks) * size;
    }
    if (gy_emu_size_of(launch->grid) > most) {
        gy_emu_explain("The cooperative grid has %llu blocks, and %llu run at once",
                       (unsigned long long)gy_emu_size_of(launch->grid), (unsigned long long)most);
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    return CUDA_SUCCESS;
}
