/* SPDX-License-Identifier: MIT */
#include "driver/extra.h"

#include "base/alloc.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PORTABLE_CLUSTER 8u /* blocks; for more a kernel must be told */
#define LARGEST_CLUSTER 16u
#define MODERN 90 /* PTX of compute capability 9.0 */

/* ---- attributes ------------------------------------------------------------------------------- */

enum { MOST_ATTRIBUTES = 6 };

static void add_cluster(CUlaunchAttribute *attribute, CUlaunchAttributeID id, gantry_dim3 size)
{
    attribute->id = id;
    attribute->value.clusterDim.x = size.x;
    attribute->value.clusterDim.y = size.y;
    attribute->value.clusterDim.z = size.z;
}

static unsigned fill(const struct gy_launch_extra *extra, CUlaunchAttribute out[MOST_ATTRIBUTES])
{
    unsigned count = 0;
    memset(out, 0, MOST_ATTRIBUTES * sizeof(*out));
    if (extra->cluster.x != 0) {
        add_cluster(&out[count++], CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, extra->cluster);
    }
    if (extra->preferred_cluster.x != 0) {
        add_cluster(&out[count++], CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, extra->preferred_cluster);
    }
    if (extra->is_cooperative) {
        out[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        out[count++].value.cooperative = 1;
    }
    if (extra->starts_early) {
        out[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        out[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (extra->is_remote) {
        out[count].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
        out[count++].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    }
    if (extra->has_priority) {
        out[count].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
        out[count++].value.priority = extra->priority;
    }
    return count;
}

static CUlaunchConfig config_of(const struct gy_launch_size *size, CUstream stream,
                                CUlaunchAttribute *attributes, unsigned count)
{
    return (CUlaunchConfig){.gridDimX = size->grid.x,
                            .gridDimY = size->grid.y,
                            .gridDimZ = size->grid.z,
                            .blockDimX = size->block.x,
                            .blockDimY = size->block.y,
                            .blockDimZ = size->block.z,
                            .sharedMemBytes = (unsigned)size->shared_bytes,
                            .hStream = stream,
                            .attrs = attributes,
                            .numAttrs = count};
}

CUresult gy_launch_with(const struct gy_driver *driver, CUfunction function,
                        const struct gy_launch_size *size, const struct gy_launch_extra *extra,
                        CUstream stream, void **args)
{
    CUlaunchAttribute attributes[MOST_ATTRIBUTES];
    const unsigned count = fill(extra, attributes);
    const CUlaunchConfig config = config_of(size, stream, attributes, count);
    return driver->cuLaunchKernelEx(&config, function, args, NULL);
}

/* ---- occupancy -------------------------------------------------------------------------------- */

bool gy_kernel_is_modern(struct gantry_kernel *kernel)
{
    int version = atomic_load_explicit(&kernel->ptx_version, memory_order_relaxed);
    if (version == 0) {
        const struct gy_driver *driver = kernel->module->context->driver;
        if (driver->cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel->function) !=
            CUDA_SUCCESS) {
            version = 0;
        }
        atomic_store_explicit(&kernel->ptx_version, version, memory_order_relaxed);
    }
    return version >= MODERN;
}

/* More blocks than every device runs in a cluster: the kernel must be told. */
static gantry_status allow_large(struct gantry_kernel *kernel)
{
    return GY_CALL(
        kernel->module->context,
        cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
}

static gantry_status check_support(struct gantry_kernel *kernel)
{
    const struct gy_context *context = kernel->module->context;
    if (context->driver->cuOccupancyMaxActiveClusters == NULL ||
        context->driver->cuOccupancyMaxPotentialClusterSize == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "kernel %s: the driver has no clusters (CUDA 11.8)",
                       kernel->name);
    }
    if (!gy_kernel_is_modern(kernel)) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "kernel %s: its code on %s (sm_%d%d) is older than compute capability 9.0 and has no "
                       "clusters",
                       kernel->name, context->info.name, context->info.compute_major,
                       context->info.compute_minor);
    }
    return GANTRY_OK;
}

static gantry_status count_clusters(struct gantry_kernel *kernel, const struct gy_launch_size *size,
                                    const struct gy_launch_extra *extra, CUstream stream,
                                    struct gy_occupancy *out)
{
    struct gy_context *context = kernel->module->context;
    const uint64_t blocks = gy_dim3_count(extra->cluster);
    gantry_status status = check_support(kernel);
    if (status == GANTRY_OK && blocks > PORTABLE_CLUSTER) {
        status = allow_large(kernel);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    CUlaunchAttribute attribute;
    memset(&attribute, 0, sizeof(attribute));
    add_cluster(&attribute, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, extra->cluster);
    struct gy_launch_size one = *size;
    one.grid = extra->cluster; /* a grid of any size will do, as long as clusters divide it */
    const CUlaunchConfig config = config_of(&one, stream, &attribute, 1);
    const CUlaunchConfig plain = config_of(&one, stream, NULL, 0);
    int clusters = 0, largest = 0;
    const CUresult result =
        context->driver->cuOccupancyMaxActiveClusters(&clusters, kernel->function, &config);
    if (result != CUDA_ERROR_INVALID_CLUSTER_SIZE) {
        status = gy_context_check(context, result, "cuOccupancyMaxActiveClusters()", __FILE__, __LINE__);
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuOccupancyMaxPotentialClusterSize(&largest, kernel->function, &plain));
    }
    out->clusters = result == CUDA_SUCCESS && clusters > 0 ? (uint32_t)clusters : 0;
    out->largest_cluster = largest > 0 ? (uint32_t)largest : 0;
    out->blocks = out->clusters * (uint32_t)blocks;
    return status;
}

gantry_status gy_kernel_occupancy(struct gantry_kernel *kernel, const struct gy_launch_size *size,
                                  const struct gy_launch_extra *extra, uint32_t sms, CUstream stream,
                                  struct gy_occupancy *out)
{
    int blocks = 0;
    const uint64_t threads = gy_dim3_count(size->block);
    *out = (struct gy_occupancy){.blocks = 0};
    gantry_status status =
        GY_CALL(kernel->module->context, cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                             &blocks, kernel->function,
                                             threads > INT_MAX ? INT_MAX : (int)threads, size->shared_bytes));
    if (status != GANTRY_OK) {
        return status;
    }
    out->blocks_per_sm = blocks > 0 ? (uint32_t)blocks : 0;
    out->blocks = out->blocks_per_sm * sms;
    return extra->cluster.x != 0 ? count_clusters(kernel, size, extra, stream, out) : GANTRY_OK;
}

/* ---- what fits -------------------------------------------------------------------------------- */

static gantry_status check_sizes(const struct gantry_kernel *kernel, const struct gy_launch_size *size,
                                 const struct gy_launch_extra *extra)
{
    const gantry_dim3 grid = size->grid, cluster = extra->cluster, wide = extra->preferred_cluster;
    if (gy_dim3_count(cluster) == 0 || cluster.x > LARGEST_CLUSTER || cluster.y > LARGEST_CLUSTER ||
        cluster.z > LARGEST_CLUSTER || gy_dim3_count(cluster) > LARGEST_CLUSTER) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "kernel %s: a cluster of %ux%ux%u blocks; it has 1 to %u blocks", kernel->name,
                       cluster.x, cluster.y, cluster.z, LARGEST_CLUSTER);
    }
    if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "kernel %s: a grid of %ux%ux%u blocks is no multiple of clusters of %ux%ux%u",
                       kernel->name, grid.x, grid.y, grid.z, cluster.x, cluster.y, cluster.z);
    }
    if (wide.x == 0 && wide.y == 0 && wide.z == 0) {
        return GANTRY_OK;
    }
    if (gy_dim3_count(wide) == 0 || wide.x % cluster.x != 0 || wide.y % cluster.y != 0 ||
        wide.z != cluster.z || grid.x % wide.x != 0 || grid.y % wide.y != 0) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT,
            "kernel %s: preferred clusters of %ux%ux%u blocks; they are multiples of %ux%ux%u with the same "
            "z, and divide the grid of %ux%ux%u",
            kernel->name, wide.x, wide.y, wide.z, cluster.x, cluster.y, cluster.z, grid.x, grid.y, grid.z);
    }
    return GANTRY_OK;
}

static bool is_same(const struct gy_kernel_fit *fit, const struct gy_kernel_fit *other)
{
    return fit->key == other->key && fit->shared_bytes == other->shared_bytes &&
           memcmp(&fit->block, &other->block, sizeof(fit->block)) == 0 &&
           memcmp(&fit->cluster, &other->cluster, sizeof(fit->cluster)) == 0;
}

/* Find how many blocks run at once, which was asked before or is asked now. */
static gantry_status find_fit(struct gantry_kernel *kernel, const struct gy_launch_size *size,
                              const struct gy_launch_extra *extra, const struct gy_launch_place *place,
                              struct gy_occupancy *out)
{
    struct gy_kernel_fit fit = {.key = place->key,
                                .block = size->block,
                                .cluster = extra->cluster,
                                .shared_bytes = size->shared_bytes};
    struct gantry_module *module = kernel->module;
    gy_mutex_lock(&module->fit_lock);
    for (uint32_t i = 0; i < GY_KERNEL_FITS; i++) {
        if (is_same(&kernel->fits[i], &fit)) {
            out->blocks = kernel->fits[i].blocks;
            gy_mutex_unlock(&module->fit_lock);
            return GANTRY_OK;
        }
    }
    gy_mutex_unlock(&module->fit_lock);
    gantry_status status = gy_kernel_occupancy(kernel, size, extra, place->sms, place->stream, out);
    fit.blocks = out->blocks;
    if (status == GANTRY_OK && fit.blocks != 0) { /* what does not fit is asked each time: messages need it */
        gy_mutex_lock(&module->fit_lock);
        kernel->fits[kernel->next_fit] = fit;
        kernel->next_fit = (kernel->next_fit + 1) % GY_KERNEL_FITS;
        gy_mutex_unlock(&module->fit_lock);
    }
    return status;
}

static gantry_status refuse_clusters(const struct gantry_kernel *kernel, const struct gy_launch_size *size,
                                     const struct gy_launch_extra *extra, const struct gy_launch_place *place,
                                     const struct gy_occupancy *found)
{
    return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                   "kernel %s: no cluster of %llu blocks of %llu threads and %zu bytes of shared memory fits "
                   "the %u multiprocessors of partition \"%s\"; the largest that does has %u blocks",
                   kernel->name, (unsigned long long)gy_dim3_count(extra->cluster),
                   (unsigned long long)gy_dim3_count(size->block), size->shared_bytes, place->sms,
                   place->name, found->largest_cluster);
}

gantry_status gy_kernel_check_fit(struct gantry_kernel *kernel, const struct gy_launch_size *size,
                                  const struct gy_launch_extra *extra, const struct gy_launch_place *place)
{
    const bool has_clusters = extra->cluster.x != 0;
    gantry_status status = has_clusters ? check_sizes(kernel, size, extra) : GANTRY_OK;
    if (status != GANTRY_OK || (!has_clusters && !extra->is_cooperative)) {
        return status;
    }
    struct gy_occupancy found;
    status = find_fit(kernel, size, extra, place, &found);
    if (status == GANTRY_OK && has_clusters && found.blocks == 0) {
        status = refuse_clusters(kernel, size, extra, place, &found);
    }
    const uint64_t blocks = gy_dim3_count(size->grid);
    if (status == GANTRY_OK && extra->is_cooperative && blocks > found.blocks) {
        status =
            GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                    "kernel %s: a cooperative grid of %llu blocks of %llu threads and %zu bytes of shared "
                    "memory; the %u multiprocessors of partition \"%s\" run %u at once",
                    kernel->name, (unsigned long long)blocks, (unsigned long long)gy_dim3_count(size->block),
                    size->shared_bytes, place->sms, place->name, found.blocks);
    }
    return status;
}
