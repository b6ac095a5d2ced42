/* SPDX-License-Identifier: MIT */
/* The SMs that a device, or a part of it, offers for division.  They are found by trying, since the rules
 * differ by generation and by part. */
#include "base/environment.h"
#include "partition/partitions.h"

#include "base/alloc.h"
#include "partition/plan.h"

#include <stdlib.h>
#include <string.h>

/* Split once into the smallest groups, to learn their size and number. */
static gantry_status try_units(struct gy_context *context, const CUdevResource *all, unsigned flags,
                               uint32_t *unit, uint32_t *count)
{
    unsigned groups = GY_GROUPS_MAX;
    CUdevResource rest;
    CUdevResource *parts = gy_zalloc_array(GY_GROUPS_MAX, sizeof(*parts));
    if (parts == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "partition: no memory for a split");
    }
    gantry_status status =
        GY_CALL(context, cuDevSmResourceSplitByCount(parts, &groups, all, &rest, flags, 1));
    if (status == GANTRY_OK) {
        *count = groups;
        *unit = groups != 0 ? parts[0].sm.smCount : 0;
    }
    gy_free(parts);
    return status;
}

/* Co-scheduled SMs lie in one processing cluster, so the number of SMs in chunks of c is the sum of
 * floor(size / c) * c over the clusters.  The loop goes from the largest c downwards: SMs that larger
 * clusters do not explain are in clusters of exactly this size. */
static void read_clusters(struct gy_context *context, const CUdevResource *all, gantry_sm_topology *t)
{
    uint32_t sizes[32], count = 0, sum = 0;
    for (uint32_t c = t->max_cluster & ~1u; c >= 2; c -= 2) {
        CU_DEV_SM_RESOURCE_GROUP_PARAMS params;
        memset(&params, 0, sizeof(params));
        params.coscheduledSmCount = params.preferredCoscheduledSmCount = c;
        /* This is a dry run; some drivers report an error for a size that does not fit at all. */
        CUresult result = context->driver->cuDevSmResourceSplit(NULL, 1, all, NULL, 0, &params);
        uint32_t chunks = result == CUDA_SUCCESS ? params.smCount / c : 0;
        for (uint32_t i = 0; i < count; i++) {
            chunks -= sizes[i] / c < chunks ? sizes[i] / c : chunks;
        }
        for (; chunks > 0 && count < 32; chunks--) {
            sizes[count++] = c;
            sum += c;
        }
    }
    if (sum == t->total_sms) {
        t->gpc_count = count;
        for (uint32_t i = 0; i < count; i++) {
            t->gpc_sms[i] = (uint8_t)sizes[i];
        }
    } /* else the device is not built like that, and only the driver's answers are known */
}

/* A client of MPS is told its static partition by a variable; the driver says nothing else of it. */
static uint32_t mps_percentage(const struct gy_context *context, bool *is_static)
{
    int enabled = 0;
    const char *text = gy_environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    CUresult result =
        context->driver->cuDeviceGetAttribute(&enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, context->device);
    if (result != CUDA_SUCCESS || enabled == 0) { /* older drivers do not know the attribute */
        return 0;
    }
    *is_static = gy_environment("CUDA_MPS_SM_PARTITION") != NULL;
    unsigned long percent = text != NULL ? strtoul(text, NULL, 10) : 100;
    return percent > 0 && percent < 100 ? (uint32_t)percent : 100;
}

gantry_workqueue_scope gy_workqueue_scope(const CUdevResource *config)
{
    return config->wqConfig.sharingScope == CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED ? GANTRY_WORKQUEUE_BALANCED
                                                                                  : GANTRY_WORKQUEUE_SHARED;
}

/* The configuration of work queues, and whether those of a context can be handed on.  Both came with CUDA
 * 13.1, as did the structured split. */
static void read_workqueues(const struct gy_context *context, gantry_sm_topology *t)
{
    const struct gy_driver *driver = context->driver;
    CUdevResource queues;
    memset(&queues, 0, sizeof(queues));
    if (t->is_structured == 0) {
        return;
    }
    if (driver->cuDeviceGetDevResource(context->device, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG) ==
        CUDA_SUCCESS) {
        t->workqueues = queues.wqConfig.wqConcurrencyLimit;
        t->workqueue_scope = gy_workqueue_scope(&queues);
    }
    memset(&queues, 0, sizeof(queues));
    t->has_workqueues =
        driver->cuCtxGetDevResource != NULL &&
        driver->cuCtxGetDevResource(context->native, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE) == CUDA_SUCCESS;
}

gantry_status gy_topology_read(struct gy_context *context, const struct gy_parent *parent,
                               gantry_sm_topology *out)
{
    const struct gy_driver *driver = context->driver;
    const CUdevResource *all = &parent->sms;
    gantry_sm_topology t = {.struct_size = sizeof(t)};
    gantry_status status = try_units(context, all, 0, &t.unit_sms, &t.unit_count);
    if (status == GANTRY_ERR_DRIVER && parent->green != NULL &&
        all->sm.smCount < all->sm.minSmPartitionSize) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "the parent has %u SMs, of which the driver makes no partition: the least are %u",
                       all->sm.smCount, all->sm.minSmPartitionSize);
    }
    if (status == GANTRY_OK) {
        status = try_units(context, all, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, &t.fine_unit_sms,
                           &t.fine_unit_count);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    t.total_sms = all->sm.smCount;
    t.alignment = driver->version >= 13000 && all->sm.smCoscheduledAlignment != 0
                      ? all->sm.smCoscheduledAlignment
                      : t.unit_sms;
    t.is_structured = driver->version >= 13010 && driver->cuDevSmResourceSplit != NULL;
    t.max_cluster = t.is_structured && context->info.compute_major >= 9 ? 32 : t.alignment;
    if (t.is_structured != 0) {
        read_clusters(context, all, &t);
    }
    t.is_mig = strstr(context->info.name, " MIG ") != NULL;
    bool is_static = false;
    t.mps_percentage = mps_percentage(context, &is_static);
    t.mps_is_static = is_static;
    read_workqueues(context, &t);
    *out = t;
    return GANTRY_OK;
}
