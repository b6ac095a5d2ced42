/* SPDX-License-Identifier: MIT */
/* The partitions of a context, as the application sees them. */
#include "context/context.h"

#include "base/handle.h"
#include "base/options.h"
#include "dispatcher/call/launch_options.h"
#include "dispatcher/internal.h"
#include "partition/nvml.h"

#include <stdio.h>

/* Calls that only look: until end_look() the lock is held, and the partitions do not go. */
static struct gy_partitions *look(const gantry_context *context) GY_NO_ANALYSIS
{
    gy_mutex_lock(&((gantry_context *)context)->lock); /* const means that nothing visible changes */
    return context->partitions;
}

static void end_look(const gantry_context *context) GY_NO_ANALYSIS
{
    gy_mutex_unlock(&((gantry_context *)context)->lock);
}

uint32_t gantry_partition_count(const gantry_context *context)
{
    GY_ACCEPT_OR(0, CONTEXT, context);
    const uint32_t count = look(context)->count;
    end_look(context);
    return count;
}

gantry_partition *gantry_partition_at(gantry_context *context, uint32_t index)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    struct gy_partitions *partitions = look(context);
    gantry_partition *found = index < partitions->count ? &partitions->partitions[index] : NULL;
    end_look(context);
    return found;
}

gantry_partition *gantry_partition_default(gantry_context *context)
{
    GY_ACCEPT_OR(NULL, CONTEXT, context);
    struct gy_partitions *partitions = look(context);
    gantry_partition *found = &partitions->partitions[partitions->default_index];
    end_look(context);
    return found;
}

/* Fails with the names of those that there are. */
static gantry_status fail_not_found(const struct gy_partitions *partitions, const char *name)
{
    char names[GANTRY_PARTITIONS_MAX * (GANTRY_PARTITION_NAME_BYTES + sizeof("'', "))] = "";
    size_t used = 0;
    if (!partitions->is_planned) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "there is no partition '%s': the context has no plan", name);
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
    struct gy_partitions *partitions = look(context);
    gantry_partition *found = NULL;
    for (uint32_t i = 0; i < partitions->count && found == NULL; i++) {
        found = strcmp(partitions->partitions[i].info.name, name) == 0 ? &partitions->partitions[i] : NULL;
    }
    gantry_status status = found != NULL ? GANTRY_OK : fail_not_found(partitions, name);
    end_look(context);
    if (status == GANTRY_OK) {
        *out = found;
    }
    return status;
}

gantry_status gantry_partition_get_layout(const gantry_context *context, gantry_partition_layout *out)
{
    GY_NEED(CONTEXT, context);
    const struct gy_partitions *partitions = look(context);
    gantry_status status = partitions->is_planned
                               ? gy_stats_export(out, &partitions->layout, sizeof(partitions->layout),
                                                 "gantry_partition_get_layout")
                               : GY_FAIL(GANTRY_ERR_NOT_FOUND, "the context has no plan");
    end_look(context);
    return status;
}

gantry_status gantry_partition_get_info(const gantry_partition *partition, gantry_partition_info *out)
{
    GY_NEED(PARTITION, partition);
    return gy_stats_export(out, &partition->info, sizeof(partition->info), "gantry_partition_get_info");
}

gantry_status gantry_partition_get_usage(gantry_partition *partition, gantry_share_usage *out)
{
    GY_NEED(PARTITION, partition);
    static const char call[] = "gantry_partition_get_usage";
    gantry_dispatcher *d = partition->owner->owner->dispatcher;
    gantry_status status = gy_replan_call_begin(d, call);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_quota *quota = d->shares.of[partition->info.index];
    gantry_share_usage usage;
    if (quota != NULL) {
        gy_quota_usage(quota, &usage);
    } else {
        status = GY_FAIL(GANTRY_ERR_NOT_FOUND, "partition '%s' has no share", partition->info.name);
    }
    gy_replan_call_end(d);
    return status == GANTRY_OK ? gy_stats_export(out, &usage, sizeof(usage), call) : status;
}

/* A call of the driver about partitions begins: the context is current until leave(). */
static gantry_status enter(gantry_context *context, const char *call)
{
    gantry_status status = gy_replan_call_begin(context->dispatcher, call);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_context_enter(context->cuda);
    if (status != GANTRY_OK) {
        gy_replan_call_end(context->dispatcher);
    }
    return status;
}

static void leave(gantry_context *context)
{
    (void)gy_context_pop(context->cuda);
    gy_replan_call_end(context->dispatcher);
}

static gantry_status read_topology(gantry_context *context, const gantry_partition_options *options,
                                   gantry_sm_topology *out, const char *call)
{
    struct gy_parent parent;
    gantry_sm_topology topology;
    gantry_status status = enter(context, call);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_parent_find(context->cuda, options, &parent);
    if (status == GANTRY_OK) {
        status = gy_topology_read(context->cuda, &parent, &topology);
    }
    leave(context);
    if (status == GANTRY_OK && topology.mps_percentage != 0) {
        const gantry_device_info *device = &context->cuda->info;
        topology.device_sms = gy_nvml_count_sms(device->uuid, device->compute_major, device->compute_minor);
    }
    return status == GANTRY_OK ? gy_stats_export(out, &topology, sizeof(topology), call) : status;
}

gantry_status gantry_partition_read_topology(gantry_context *context, gantry_sm_topology *out)
{
    GY_NEED(CONTEXT, context);
    return read_topology(context, NULL, out, "gantry_partition_read_topology");
}

gantry_status gantry_partition_read_parent_topology(gantry_context *context,
                                                    const gantry_partition_options *options,
                                                    gantry_sm_topology *out)
{
    static const char call[] = "gantry_partition_read_parent_topology";
    GY_NEED(CONTEXT, context);
    if (options == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: options is NULL", call);
    }
    gantry_partition_options ours = {.struct_size = sizeof(ours)};
    gantry_status status = gy_options_import(&ours, sizeof(ours), options, sizeof(size_t) * 3, call);
    return status == GANTRY_OK ? read_topology(context, &ours, out, call) : status;
}

gantry_status gantry_partition_create_stream(gantry_partition *partition, void **out)
{
    GY_ACCEPT(PARTITION, partition);
    if (partition == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_create_stream: an argument is NULL");
    }
    CUstream stream;
    gantry_context *context = partition->owner->owner;
    gantry_status status = enter(context, "gantry_partition_create_stream");
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_partition_stream(partition, false, &stream);
    leave(context);
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
    gantry_status status = enter(context, "gantry_partition_of_stream");
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_partition_of(context->partitions, stream, &found);
    leave(context);
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
    gantry_status status = enter(context, "gantry_stream_get_info");
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_stream_read_info(context->partitions, stream, &info);
    leave(context);
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
    gantry_status status = gy_replan_call_begin(context->dispatcher, "gantry_stream_get_occupancy");
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_stream_occupancy(context->partitions, stream, kernel, &size, options, out);
    gy_replan_call_end(context->dispatcher);
    return status;
}

gantry_status gantry_partition_audit(gantry_partition *partition, gantry_audit_way way, gantry_sm_set *out)
{
    GY_ACCEPT(PARTITION, partition);
    if (partition == NULL || out == NULL || (unsigned)way > GANTRY_AUDIT_GRAPH) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_audit: %s",
                       partition == NULL || out == NULL ? "an argument is NULL" : "unknown way");
    }
    gantry_context *context = partition->owner->owner;
    gantry_status status = enter(context, "gantry_partition_audit");
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_sm_set seen = {.struct_size = sizeof(seen)};
    status = gy_partition_audit(partition, way, &seen);
    leave(context);
    return status == GANTRY_OK ? gy_stats_export(out, &seen, sizeof(seen), "gantry_sm_set") : status;
}
