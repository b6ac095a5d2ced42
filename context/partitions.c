/* The partitions of a context, as the application sees them. */
#include "context/context.h"

#include "base/handle.h"
#include "base/options.h"
#include "dispatcher/internal.h"
#include "dispatcher/launch_options.h"
#include "partition/nvml.h"

#include <stdio.h>

uint32_t gantry_partition_count(const gantry_context *context)
{
    GY_ACCEPT_OR(0, CONTEXT, context);
    return context->partitions->count;
}

gantry_partition *gantry_partition_at(gantry_context *context, uint32_t index)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    return index < context->partitions->count ? &context->partitions->partitions[index] : NULL;
}

gantry_partition *gantry_partition_default(gantry_context *context)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    return &context->partitions->partitions[context->partitions->default_index];
}

/* Fails with the names of those that there are. */
static gantry_status fail_not_found(const struct gy_partitions *partitions, const char *name)
{
    char names[GANTRY_PARTITIONS_MAX * (GANTRY_PARTITION_NAME_BYTES + sizeof("'', "))] = "";
    size_t used = 0;
    if (!partitions->is_planned) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND,
                       "there is no partition '%s': the context was created without a plan", name);
    }
    for (uint32_t i = 0; i < partitions->count; i++) {
        int more = snprintf(names + used, sizeof(names) - used, "%s'%s'", i > 0 ? ", " : "",
                            partitions->partitions[i].info.name);
        used += more > 0 ? (size_t)more : 0;
    }
    return GY_FAIL(GANTRY_ERR_NOT_FOUND, "there is no partition '%s'; there are: %s", name, names);
}

gantry_status gantry_partition_find(gantry_context *context, const char *name, gantry_partition **out)
{
    GY_ACCEPT(CONTEXT, context);
    if (context == NULL || name == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_find: an argument is NULL");
    }
    for (uint32_t i = 0; i < context->partitions->count; i++) {
        if (strcmp(context->partitions->partitions[i].info.name, name) == 0) {
            *out = &context->partitions->partitions[i];
            return GANTRY_OK;
        }
    }
    return fail_not_found(context->partitions, name);
}

gantry_status gantry_partition_get_layout(const gantry_context *context, gantry_partition_layout *out)
{
    GY_NEED(CONTEXT, context);
    if (!context->partitions->is_planned) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "the context was created without a plan");
    }
    return gy_stats_export(out, &context->partitions->layout, sizeof(context->partitions->layout),
                           "gantry_partition_get_layout");
}

gantry_status gantry_partition_get_info(const gantry_partition *partition, gantry_partition_info *out)
{
    GY_NEED(PARTITION, partition);
    return gy_stats_export(out, &partition->info, sizeof(partition->info), "gantry_partition_get_info");
}

gantry_status gantry_partition_get_usage(gantry_partition *partition, gantry_share_usage *out)
{
    GY_NEED(PARTITION, partition);
    struct gy_quota *quota = partition->owner->owner->dispatcher->shares.of[partition->info.index];
    if (quota == NULL) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "partition '%s' has no share", partition->info.name);
    }
    gantry_share_usage usage;
    gy_quota_usage(quota, &usage);
    return gy_stats_export(out, &usage, sizeof(usage), "gantry_partition_get_usage");
}

gantry_status gantry_partition_read_topology(gantry_context *context, gantry_sm_topology *out)
{
    GY_NEED(CONTEXT, context);
    gantry_sm_topology topology;
    gantry_status status = gy_context_enter(context->cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_topology_read(context->cuda, &topology);
    (void)gy_context_pop(context->cuda);
    if (status == GANTRY_OK && topology.mps_percentage != 0) {
        const gantry_device_info *device = &context->cuda->info;
        topology.device_sms = gy_nvml_count_sms(device->uuid, device->compute_major, device->compute_minor);
    }
    return status == GANTRY_OK
               ? gy_stats_export(out, &topology, sizeof(topology), "gantry_partition_read_topology")
               : status;
}

gantry_status gantry_partition_create_stream(gantry_partition *partition, void **out)
{
    GY_ACCEPT(PARTITION, partition);
    if (partition == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_create_stream: an argument is NULL");
    }
    CUstream stream;
    gantry_status status = gy_context_enter(partition->owner->context);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_partition_stream(partition, false, &stream);
    (void)gy_context_pop(partition->owner->context);
    if (status == GANTRY_OK) {
        *out = stream;
    }
    return status;
}

gantry_status gantry_partition_of_stream(gantry_context *context, void *stream, gantry_partition **out)
{
    GY_ACCEPT(CONTEXT, context);
    if (context == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_of_stream: an argument is NULL");
    }
    gantry_partition *found;
    gantry_status status = gy_context_enter(context->cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_partition_of(context->partitions, stream, &found);
    (void)gy_context_pop(context->cuda);
    if (status == GANTRY_OK) {
        *out = found;
    }
    return status;
}

gantry_status gantry_stream_get_info(gantry_context *context, void *stream, gantry_stream_info *out)
{
    GY_ACCEPT(CONTEXT, context);
    if (context == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_stream_get_info: %s is NULL",
                       context == NULL ? "context" : "out");
    }
    gantry_stream_info info;
    gantry_status status = gy_context_enter(context->cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_stream_read_info(context->partitions, stream, &info);
    (void)gy_context_pop(context->cuda);
    return status == GANTRY_OK ? gy_stats_export(out, &info, sizeof(info), "gantry_stream_get_info") : status;
}

gantry_status gantry_stream_get_occupancy(gantry_context *context, void *stream, gantry_kernel *kernel,
                                          gantry_dim3 block, size_t shared_bytes,
                                          const gantry_launch_options *options, gantry_occupancy *out)
{
    GY_ACCEPT(CONTEXT, context);
    GY_ACCEPT(KERNEL, kernel);
    if (context == NULL || kernel == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_stream_get_occupancy: %s is NULL",
                       context == NULL  ? "context"
                       : kernel == NULL ? "kernel"
                                        : "out");
    }
    const struct gy_launch_size size = {{1, 1, 1}, block, shared_bytes};
    return gy_stream_occupancy(context->partitions, stream, kernel, &size, options, out);
}
