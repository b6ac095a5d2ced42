/* SPDX-License-Identifier: MIT */
/* What a plan divides: the device, or the SMs of one green context of the application.  And the list of all
 * plans of the process, since the driver says nothing when two of them divide the same SMs. */
#include "partition/partitions.h"

#include <stdio.h>
#include <string.h>

static gy_mutex plans_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static struct gy_partitions *plans; /* guarded by plans_lock */

/* ---- the parent -------------------------------------------------------------------------------- */

bool gy_parent_is_named(const gantry_partition_options *options)
{
    return options->parent_green != NULL || options->parent_stream != NULL;
}

bool gy_green_contexts_exist(const struct gy_driver *driver)
{
    return driver->version >= 12040 && driver->cuDeviceGetDevResource != NULL &&
           driver->cuDevSmResourceSplitByCount != NULL && driver->cuDevResourceGenerateDesc != NULL &&
           driver->cuGreenCtxCreate != NULL && driver->cuGreenCtxDestroy != NULL &&
           driver->cuCtxFromGreenCtx != NULL && driver->cuGreenCtxGetDevResource != NULL;
}

static gantry_status check_green_contexts(const struct gy_driver *driver)
{
    return gy_green_contexts_exist(driver)
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                         "partitions need green contexts, which came with CUDA 12.4; this driver is of CUDA "
                         "%d.%d",
                         driver->version / 1000, driver->version % 1000 / 10);
}

gantry_status gy_parent_find(struct gy_context *context, const gantry_partition_options *options,
                             struct gy_parent *out)
{
    gantry_status status = check_green_contexts(context->driver);
    CUgreenCtx green = options != NULL ? options->parent_green : NULL;
    if (status == GANTRY_OK && options != NULL && options->parent_stream != NULL) {
        status = green == NULL ? gy_stream_green(context, options->parent_stream, &green)
                               : GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                                         "gantry_partition_options: both parent_green and parent_stream");
    }
    if (status != GANTRY_OK) {
        return status;
    }
    memset(out, 0, sizeof(*out));
    out->green = green;
    if (green == NULL) {
        return GY_CALL(context, cuDeviceGetDevResource(context->device, &out->sms, CU_DEV_RESOURCE_TYPE_SM));
    }
    /* One of another device is refused by the driver when a green context is made of its SMs. */
    return GY_CALL(context, cuGreenCtxGetDevResource(green, &out->sms, CU_DEV_RESOURCE_TYPE_SM));
}

/* ---- the list of plans --------------------------------------------------------------------------- */

/* Which of the plan's partitions has this green context; NULL: none. */
static const struct gantry_partition *find_green(const struct gy_partitions *all, CUgreenCtx green)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct gantry_partition *p = &all->partitions[i];
        if (green != NULL && (p->green == green || p->wide == green)) {
            return p;
        }
    }
    return NULL;
}

static bool same_device(const struct gy_partitions *a, const struct gy_partitions *b)
{
    return a->context->driver == b->context->driver && a->context->device == b->context->device;
}

/* Some of the SMs that the two divide are most likely the same.  A plan inside a partition of the other has
 * that partition's alone, which is what it was made for. */
static bool may_overlap(const struct gy_partitions *a, const struct gy_partitions *b)
{
    return (a->parent.green == NULL && find_green(a, b->parent.green) == NULL) ||
           (b->parent.green == NULL && find_green(b, a->parent.green) == NULL);
}

gantry_status gy_parents_enter(struct gy_partitions *all, const struct gy_partitions *before)
{
    const struct gy_partitions *same = NULL, *near = NULL;
    char name[GANTRY_PARTITION_NAME_BYTES] = "";
    uint32_t count = 0;
    gy_mutex_lock(&plans_lock);
    for (const struct gy_partitions *other = plans; other != NULL; other = other->next) {
        if (other == before || !same_device(all, other)) {
            continue;
        }
        if (all->parent.green != NULL && all->parent.green == other->parent.green) {
            same = other;
            count = other->layout.count;
            memcpy(name, other->layout.partitions[0].name, sizeof(name));
        }
        near = may_overlap(all, other) ? other : near;
    }
    if (same == NULL) {
        all->next = plans;
        plans = all;
        all->is_listed = true;
    }
    gy_mutex_unlock(&plans_lock);
    if (same != NULL) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "the parent is divided by the plan of another context already, into %u partitions, "
                       "'%s' the first: their SMs would be the same, and the driver would not say so",
                       count, name);
    }
    if (near != NULL) {
        gy_log(GANTRY_LOG_WARNING,
               "two plans of this process divide device %d, one of them all of it: their partitions have SMs "
               "in common",
               all->context->info.ordinal);
    }
    return GANTRY_OK;
}

void gy_parents_leave(struct gy_partitions *all)
{
    gy_mutex_lock(&plans_lock);
    if (all->is_listed) {
        struct gy_partitions **link = &plans;
        while (*link != all) {
            link = &(*link)->next;
        }
        *link = all->next;
        all->is_listed = false;
    }
    gy_mutex_unlock(&plans_lock);
}

gantry_status gy_parents_check_childless(const struct gy_partitions *all)
{
    const struct gantry_partition *parent = NULL;
    gy_mutex_lock(&plans_lock);
    for (const struct gy_partitions *other = plans; other != NULL && parent == NULL; other = other->next) {
        parent = same_device(all, other) ? find_green(all, other->parent.green) : NULL;
    }
    gy_mutex_unlock(&plans_lock);
    return parent == NULL
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE,
                         "partition '%s' is divided by the plan of another context: destroy that first",
                         parent->info.name);
}
