/* SPDX-License-Identifier: MIT */
/* How a plan is carried out.
 *
 * What the plan divides, the whole device or its parent's SMs, is split once.  Then each partition gets one
 * descriptor of its groups and one green context. The SMs that were granted are read back from the green
 * context, since drivers have given fewer than asked for. All groups of a descriptor must come from one
 * split, and this file makes sure of it: a driver of CUDA 13.0 takes parts of two splits in one descriptor
 * without an error.
 *
 * Green contexts belong to the device's primary context, and so do the memory and the modules they can use.
 * They are never made current on a thread (a handle may be used by one thread at a time): streams are created
 * from them and work is enqueued on streams with the primary context current.
 *
 * The plan's default partition becomes the context's home: all other streams on the context are made in it
 * (gy_context_create_stream()). */
#include "partition/partitions.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/span.h"
#include "driver/whole.h"
#include "partition/plan.h"

#include <assert.h>

/* The state of building, which is thrown away afterwards. */
struct build {
    struct gy_partitions *partitions;
    const gantry_partition_options *options;
    const struct gy_partitions
        *before; /* the plan of the context that this one takes the place of; or NULL */
    struct gy_planner planner;
    CUdevResource rest;
    CUdevResource parts[GY_GROUPS_MAX];
    CUdevResource
        chosen[GY_GROUPS_MAX + 2]; /* the resources of one descriptor: groups, the remainder, work queues */
};

static uint64_t next_id(void)
{
    static _Atomic(uint64_t) ids; /* atomic: the ids given out in the process */
    return atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
}

static void init_info(struct gy_partitions *all, uint32_t index, const char *name)
{
    struct gantry_partition *p = &all->partitions[index];
    *p = (struct gantry_partition){.owner = all};
    p->info = (gantry_partition_info){.struct_size = sizeof(p->info),
                                      .id = next_id(),
                                      .device = all->context->info.ordinal,
                                      .index = index,
                                      .total_sms = all->context->info.total_sms,
                                      .parent_sms = all->context->info.total_sms};
    memcpy(p->info.name, name, strlen(name) + 1);
}

/* ---- one green context ---------------------------------------------------------------------- */

static unsigned choose(struct build *b, const uint64_t groups[4], bool remainder)
{
    unsigned count = 0;
    for (uint32_t g = 0; g < b->partitions->layout.group_count; g++) {
        if (gy_groups_have(groups, g)) {
            b->chosen[count++] = b->parts[g];
        }
    }
    if (remainder) {
        b->chosen[count++] = b->rest;
    }
    return count;
}

/* Hand on the work queues of a partition that is there already, or of a green context of somebody else's. */
static gantry_status choose_existing(struct build *b, const gantry_partition_request *r, unsigned *count)
{
    const struct gy_partitions *all = b->partitions;
    const CUgreenCtx owner = r->workqueues_of != NULL
                                 ? all->partitions[gy_planner_find(&b->planner, r->workqueues_of)].green
                                 : (CUgreenCtx)r->workqueues_green;
    if (all->topology.has_workqueues == 0) {
        gy_log(GANTRY_LOG_WARNING,
               "partition '%s': this driver does not hand on work queues, as those for CUDA 13.1 do; it uses "
               "those of all",
               r->name);
        return GANTRY_OK;
    }
    CUdevResource *queues = &b->chosen[*count];
    memset(queues, 0, sizeof(*queues));
    gantry_status status =
        GY_CALL(all->context, cuGreenCtxGetDevResource(owner, queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE));
    *count += status == GANTRY_OK;
    return status;
}

/* Choose work queues as the request wishes, where they can be divided; else the environment of the process
 * decides. */
static gantry_status choose_workqueues(struct build *b, const gantry_partition_request *r, unsigned *count)
{
    struct gy_context *context = b->partitions->context;
    if (r != NULL && (r->workqueues_of != NULL || r->workqueues_green != NULL)) {
        return choose_existing(b, r, count);
    }
    if (r == NULL || (r->workqueue_limit == 0 && r->workqueue_scope == GANTRY_WORKQUEUE_SHARED)) {
        return GANTRY_OK;
    }
    if (b->partitions->topology.workqueues == 0) {
        gy_log(GANTRY_LOG_WARNING,
               "partition '%s': work queues cannot be divided by a driver before CUDA 13.1; "
               "CUDA_DEVICE_MAX_CONNECTIONS sets their number for the process",
               r->name);
        return GANTRY_OK;
    }
    CUdevResource *queues = &b->chosen[*count];
    memset(queues, 0, sizeof(*queues));
    gantry_status status = GY_CALL(
        context, cuDeviceGetDevResource(context->device, queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG));
    if (r->workqueue_limit != 0) {
        queues->wqConfig.wqConcurrencyLimit = r->workqueue_limit;
    }
    queues->wqConfig.sharingScope = r->workqueue_scope == GANTRY_WORKQUEUE_BALANCED
                                        ? CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED
                                        : CU_WORKQUEUE_SCOPE_DEVICE_CTX;
    *count += status == GANTRY_OK;
    return status;
}

static gantry_status create_green(struct gy_context *context, CUdevResource *resources, unsigned count,
                                  CUgreenCtx *out, uint32_t *granted)
{
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUdevResource resource;
    gantry_status status = GY_CALL(context, cuDevResourceGenerateDesc(&desc, resources, count));
    if (status == GANTRY_OK) {
        status =
            GY_CALL(context, cuGreenCtxCreate(&green, desc, context->device, CU_GREEN_CTX_DEFAULT_STREAM));
    }
    if (status != GANTRY_OK) {
        return status;
    }
    memset(&resource, 0, sizeof(resource));
    status = GY_CALL(context, cuGreenCtxGetDevResource(green, &resource, CU_DEV_RESOURCE_TYPE_SM));
    if (status != GANTRY_OK) {
        (void)GY_CALL(context, cuGreenCtxDestroy(green));
        return status;
    }
    *out = green;
    *granted = resource.sm.smCount;
    return GANTRY_OK;
}

static gantry_status check_grant(const struct build *b, const char *name, uint32_t planned, uint32_t granted)
{
    if (granted >= planned) {
        return GANTRY_OK;
    }
    if (b->options->shortfall == GANTRY_PARTITION_SHORT_IS_ERROR) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "partition '%s': %u SMs were planned, the driver granted %u",
                       name, planned, granted);
    }
    gy_log(GANTRY_LOG_WARNING, "partition '%s': %u SMs were planned, the driver granted %u", name, planned,
           granted);
    return GANTRY_OK;
}

static void read_workqueues(struct gantry_partition *p)
{
    CUdevResource queues;
    memset(&queues, 0, sizeof(queues));
    const struct gy_context *context = p->owner->context;
    if (p->owner->topology.workqueues != 0 &&
        context->driver->cuGreenCtxGetDevResource(p->green, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG) ==
            CUDA_SUCCESS) {
        p->info.workqueue_limit = queues.wqConfig.wqConcurrencyLimit;
        p->info.workqueue_scope = gy_workqueue_scope(&queues);
    }
    memset(&queues, 0, sizeof(queues));
    p->info.has_workqueues = p->owner->topology.has_workqueues != 0 &&
                             context->driver->cuGreenCtxGetDevResource(
                                 p->green, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE) == CUDA_SUCCESS;
}

static gantry_status create_partition(struct build *b, uint32_t index)
{
    struct gy_context *context = b->partitions->context;
    struct gantry_partition *p = &b->partitions->partitions[index];
    const gantry_partition_slot *slot = &b->partitions->layout.partitions[index];
    const gantry_partition_request *r =
        slot->request < b->planner.count ? &b->planner.requests[slot->request] : NULL;
    unsigned count = choose(b, slot->groups, slot->takes_remainder != 0);
    gantry_status status = choose_workqueues(b, r, &count);
    if (status == GANTRY_OK) {
        status = create_green(context, b->chosen, count, &p->green, &p->info.granted_sms);
    }
    if (status == GANTRY_OK) {
        status = check_grant(b, slot->name, slot->planned_sms, p->info.granted_sms);
    }
    if (status == GANTRY_OK && slot->wide_sms != 0) {
        count = choose(b, slot->wide_groups, slot->wide_remainder != 0);
        status = create_green(context, b->chosen, count, &p->wide, &p->info.wide_sms);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    p->info.is_exclusive = slot->shared_sms == 0;
    p->info.cluster_size = slot->cluster_size;
    read_workqueues(p);
    return GANTRY_OK;
}

/* ---- the split ------------------------------------------------------------------------------ */

static gantry_status split_equal(struct build *b)
{
    struct gy_context *context = b->partitions->context;
    const gantry_partition_layout *plan = &b->partitions->layout;
    unsigned groups = plan->group_count;
    unsigned flags = plan->ignores_coscheduling != 0 ? CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING : 0;
    if (groups == 0) { /* there are too few SMs for a unit: all of them are the remainder */
        b->rest = b->partitions->parent.sms;
        return GANTRY_OK;
    }
    gantry_status status =
        GY_CALL(context, cuDevSmResourceSplitByCount(b->parts, &groups, &b->partitions->parent.sms, &b->rest,
                                                     flags, plan->unit_sms));
    if (status == GANTRY_OK && (groups != plan->group_count || b->parts[0].sm.smCount != plan->unit_sms)) {
        status =
            GY_FAIL(GANTRY_ERR_UNSUPPORTED, "partition: the driver made %u groups of %u SMs, %u of %u before",
                    groups, b->parts[0].sm.smCount, plan->group_count, plan->unit_sms);
    }
    return status;
}

static gantry_status split_structured(struct build *b)
{
    struct gy_context *context = b->partitions->context;
    gantry_partition_layout *plan = &b->partitions->layout;
    CU_DEV_SM_RESOURCE_GROUP_PARAMS params[2 * GANTRY_PARTITIONS_MAX];
    memset(params, 0, sizeof(params));
    for (uint32_t g = 0; g < plan->group_count; g++) {
        const gantry_sm_group *group = &plan->groups[g];
        params[g].smCount = group->is_discovered != 0 ? 0 : group->planned_sms;
        params[g].coscheduledSmCount = group->cluster_size;
        params[g].preferredCoscheduledSmCount = group->preferred_cluster_size;
        params[g].flags = group->backfill != 0 ? CU_DEV_SM_RESOURCE_GROUP_BACKFILL : 0;
    }
    if (plan->group_count == 0) {
        b->rest = b->partitions->parent.sms;
        return GANTRY_OK;
    }
    gantry_status status =
        GY_CALL(context, cuDevSmResourceSplit(b->parts, plan->group_count, &b->partitions->parent.sms,
                                              &b->rest, 0, params));
    for (uint32_t g = 0; g < plan->group_count && status == GANTRY_OK; g++) {
        plan->groups[g].planned_sms = b->parts[g].sm.smCount; /* the size that discovery has found */
    }
    if (status == GANTRY_OK) {
        plan->remainder_sms = b->rest.type == CU_DEV_RESOURCE_TYPE_SM ? b->rest.sm.smCount : 0;
        gy_plan_recount(plan, b->planner.topology->total_sms);
    }
    return status;
}

/* ---- a whole plan --------------------------------------------------------------------------- */

static void destroy_greens(struct gy_partitions *all)
{
    const struct gy_driver *driver = all->context->driver;
    for (uint32_t i = all->count; i-- > 0;) {
        /* On a lost context destruction fails, as everything does. */
        if (all->partitions[i].wide != NULL) {
            (void)driver->cuGreenCtxDestroy(all->partitions[i].wide);
        }
        if (all->partitions[i].green != NULL) {
            (void)driver->cuGreenCtxDestroy(all->partitions[i].green);
        }
    }
}

/* Adopt the parts of the requests that are not about SMs.  The driver gives streams its most urgent priority
 * where more was asked for, without a word. */
static gantry_status adopt_requests(struct build *b)
{
    struct gy_partitions *all = b->partitions;
    int least = 0, greatest = 0; /* the most urgent priority is the lowest number */
    gantry_status status = GY_CALL(all->context, cuCtxGetStreamPriorityRange(&least, &greatest));
    if (status != GANTRY_OK) {
        return status;
    }
    all->count = all->layout.count;
    all->default_index = all->layout.default_partition;
    for (uint32_t i = 0; i < all->count; i++) {
        const gantry_partition_slot *slot = &all->layout.partitions[i];
        struct gantry_partition *p = &all->partitions[i];
        init_info(all, i, slot->name);
        p->info.planned_sms = slot->planned_sms;
        p->info.parent_sms = b->planner.topology->total_sms;
        if (all->parent.green == NULL) {
            p->info.total_sms = p->info.parent_sms; /* of a MIG instance, its own */
        }
        p->info.is_default = i == all->default_index;
        if (slot->request < b->planner.count) {
            const gantry_partition_request *r = &b->planner.requests[slot->request];
            p->info.priority = r->priority < greatest ? greatest : r->priority;
            p->share = b->planner.shares[slot->request];
            p->lender =
                r->borrows != NULL ? &all->partitions[gy_planner_find(&b->planner, r->borrows)] : NULL;
        }
    }
    return GANTRY_OK;
}

static gantry_status carry_out(struct build *b)
{
    struct gy_partitions *all = b->partitions;
    gantry_status status = all->layout.is_structured != 0 ? split_structured(b) : split_equal(b);
    if (status != GANTRY_OK) {
        return status;
    }
    status = adopt_requests(b);
    for (uint32_t i = 0; i < 2 * all->count && status == GANTRY_OK;
         i++) { /* first those with queues of theirs */
        const uint32_t index = i % all->count, request = all->layout.partitions[index].request;
        const bool uses_others =
            request < b->planner.count && b->planner.requests[request].workqueues_of != NULL;
        if (uses_others == (i >= all->count)) {
            status = create_partition(b, index);
        }
    }
    if (status != GANTRY_OK) {
        destroy_greens(all);
    }
    return status;
}

/* Fall back to streams with priorities on all SMs, since there is nothing better. */
static gantry_status fall_back(struct build *b)
{
    struct gy_partitions *all = b->partitions;
    uint32_t sms = all->context->sms;
    gantry_sm_topology whole = {.struct_size = sizeof(whole), .total_sms = sms, .alignment = 1};
    whole.unit_sms = whole.fine_unit_sms = 1;
    whole.unit_count = whole.fine_unit_count = sms < GY_GROUPS_MAX ? sms : GY_GROUPS_MAX;
    all->topology = whole;
    b->planner.topology = &all->topology;
    b->planner.whole = "the device";
    gantry_status status = gy_plan(&b->planner, b->options);
    if (status != GANTRY_OK) {
        return status;
    }
    status = adopt_requests(b);
    if (status != GANTRY_OK) {
        return status;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        all->partitions[i].info.granted_sms = sms;
        all->partitions[i].lender = NULL;
    }
    gy_log(GANTRY_LOG_WARNING,
           "there are no green contexts here: the %u partitions are streams with priorities, "
           "each on all %u SMs",
           all->count, sms);
    return GANTRY_OK;
}

/* Is the context the primary one, of which green contexts are parts? */
static gantry_status look_for_primary(struct gy_context *context, bool *out)
{
    CUcontext primary = context->native;
    gantry_status status = GANTRY_OK;
    if (context->mode != GANTRY_CONTEXT_PRIMARY) {
        status = GY_CALL(context, cuDevicePrimaryCtxRetain(&primary, context->device));
        if (status == GANTRY_OK) {
            status = GY_CALL(context, cuDevicePrimaryCtxRelease(context->device));
        }
    }
    *out = primary == context->native;
    return status;
}

static void warn_of_mps(const gantry_sm_topology *t)
{
    if (t->mps_percentage != 0 && t->mps_percentage < 100) {
        gy_log(
            GANTRY_LOG_WARNING,
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is %u: a partition may get as many SMs as that is, and others "
            "from time to time",
            t->mps_percentage);
    }
}

/* Find what the plan divides, and how it can be divided. */
static gantry_status find_whole(struct build *b, bool is_primary)
{
    struct gy_partitions *all = b->partitions;
    gantry_status status =
        is_primary
            ? GANTRY_OK
            : GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                      "partitions need the device's primary context: GANTRY_CONTEXT_PRIMARY, or adopt it");
    if (status == GANTRY_OK) {
        status = gy_parent_find(all->context, b->options, &all->parent);
    }
    b->planner.whole = all->parent.green != NULL ? "its parent" : "the device";
    return status == GANTRY_OK ? gy_topology_read(all->context, &all->parent, &all->topology) : status;
}

static gantry_status plan_and_carry_out(struct build *b)
{
    struct gy_partitions *all = b->partitions;
    if ((unsigned)b->options->fallback > GANTRY_PARTITION_PRIORITY_ONLY ||
        (unsigned)b->options->shortfall > GANTRY_PARTITION_SHORT_IS_WARNING) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_partition_options: unknown fallback or shortfall");
    }
    b->planner.out = &all->layout;
    all->layout.struct_size = sizeof(all->layout);
    bool is_primary = false;
    const bool may_fall_back =
        b->options->fallback == GANTRY_PARTITION_PRIORITY_ONLY && !gy_parent_is_named(b->options);
    gantry_status status = look_for_primary(all->context, &is_primary);
    if (status == GANTRY_OK && may_fall_back &&
        !(is_primary && gy_green_contexts_exist(all->context->driver))) {
        return fall_back(b); /* asked for, so the log has no error */
    }
    if (status == GANTRY_OK) {
        status = find_whole(b, is_primary);
    }
    if (status == GANTRY_ERR_UNSUPPORTED && may_fall_back) { /* by the driver, whose error is in the log */
        return fall_back(b);
    }
    b->planner.topology = &all->topology;
    if (status == GANTRY_OK) {
        warn_of_mps(&all->topology);
        status = gy_plan(&b->planner, b->options);
    }
    if (status == GANTRY_OK) {
        status = gy_parents_enter(all, b->before);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = carry_out(b);
    if (status != GANTRY_OK) {
        gy_parents_leave(all);
    }
    return status;
}

gantry_status gy_partitions_make(struct gy_context *context, gantry_context *owner,
                                 const gantry_partition_options *options, const struct gy_partitions *before,
                                 struct gy_partitions **out)
{
    struct gy_partitions *all = gy_zalloc(sizeof(*all));
    if (all == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for partitions");
    }
    all->context = context;
    all->owner = owner;
    gantry_status status = GANTRY_OK;
    if (options == NULL) {
        init_info(all, 0, "default");
        all->count = 1;
        all->partitions[0].info.planned_sms = all->partitions[0].info.granted_sms = context->sms;
        all->partitions[0].info.is_default = true;
    } else {
        gantry_partition_options ours = {.struct_size = sizeof(ours)};
        struct build *b = gy_zalloc(sizeof(*b));
        status = b == NULL ? GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a plan")
                           : gy_options_import(&ours, sizeof(ours), options, sizeof(size_t) * 3,
                                               "gantry_partition_options");
        if (status == GANTRY_OK) {
            ours.struct_size = sizeof(ours); /* of this copy, which the planner takes in */
            b->partitions = all;
            b->options = &ours;
            b->before = before;
            all->is_planned = true;
            status = plan_and_carry_out(b);
        }
        gy_free(b);
    }
    if (status != GANTRY_OK) {
        gy_free(all);
        return status;
    }
    *out = all;
    return GANTRY_OK;
}

void gy_partitions_enter(struct gy_partitions *all)
{
    all->context->home = all->partitions[all->default_index].green;
    all->context->plans++;
    all->context->plan_id = all->partitions[0].info.id;
    gy_handle_born(GY_HANDLE_PARTITION, all->partitions, all->count * sizeof(all->partitions[0]),
                   sizeof(all->partitions[0]));
}

gantry_status gy_partitions_create(struct gy_context *context, gantry_context *owner,
                                   const gantry_partition_options *options, struct gy_partitions **out)
{
    gantry_status status = gy_partitions_make(context, owner, options, NULL, out);
    if (status == GANTRY_OK) {
        gy_partitions_enter(*out);
    }
    return status;
}

void gy_partitions_drop(struct gy_partitions *all)
{
    gy_parents_leave(all);
    destroy_greens(all);
    gy_free(all);
}

void gy_partitions_destroy(struct gy_partitions *all)
{
    if (all == NULL) {
        return;
    }
    if (all->context->home == all->partitions[all->default_index].green) {
        all->context->home = NULL; /* else other partitions have taken their place */
    }
    gy_parents_leave(all);
    destroy_greens(all);
    gy_handle_free(all->partitions, all);
}

/* Of one green context; `event` is the caller's. */
static gantry_status await_green(struct gy_context *context, CUgreenCtx green, CUevent event)
{
    if (green == NULL) {
        return GANTRY_OK;
    }
    gantry_status status = GY_WHOLE_CALL(context, cuGreenCtxRecordEvent(green, event));
    return status == GANTRY_OK ? GY_CALL(context, cuEventSynchronize(event)) : status;
}

gantry_status gy_partitions_await(const struct gy_partitions *all)
{
    struct gy_context *context = all->context;
    CUevent event;
    gantry_status status =
        GY_CALL(context, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    if (status != GANTRY_OK) {
        return status;
    }
    for (uint32_t i = 0; i < all->count && status == GANTRY_OK; i++) {
        status = await_green(context, all->partitions[i].green, event);
        status = status == GANTRY_OK ? await_green(context, all->partitions[i].wide, event) : status;
    }
    gantry_status destroyed = GY_CALL(context, cuEventDestroy(event));
    return status != GANTRY_OK ? status : destroyed;
}

/* ---- streams and events --------------------------------------------------------------------- */

gantry_status gy_partition_stream(const struct gantry_partition *p, bool wide, CUstream *out)
{
    assert(!wide || p->wide != NULL);
    gantry_status status =
        gy_context_create_stream(p->owner->context, wide ? p->wide : p->green, p->info.priority, out);
    const struct gy_span_ranges *ranges = atomic_load_explicit(&gy_span_ranges, memory_order_acquire);
    if (status == GANTRY_OK && ranges != NULL) {
        char name[96];
        snprintf(name, sizeof(name), "gantry, partition %s", p->info.name);
        ranges->name_stream(*out, name);
    }
    return status;
}

bool gy_partition_is_whole(const struct gantry_partition *p)
{
    return p->green == NULL && p->owner->count == 1;
}

static gantry_status check_events(const struct gantry_partition *p)
{
    const struct gy_context *context = p->owner->context;
    if (p->green != NULL || (gy_partition_is_whole(p) && gy_context_has_events(context))) {
        return GANTRY_OK;
    }
    int version = context->driver->version;
    return gy_partition_is_whole(p)
               ? GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                         "events of a whole context need a driver of CUDA 12.5, this one is for %d.%d",
                         version / 1000, version % 1000 / 10)
               : GY_FAIL(GANTRY_ERR_UNSUPPORTED, "partition '%s' has no green context", p->info.name);
}

/* Record the event behind both green contexts of a partition: they are gathered on a stream of its own, so
 * that nothing else has to wait. */
static gantry_status record_both(struct gantry_partition *p, CUevent event)
{
    struct gy_context *context = p->owner->context;
    const CUgreenCtx greens[] = {p->green, p->wide};
    CUstream gather;
    gantry_status status = gy_partition_stream(p, false, &gather);
    if (status != GANTRY_OK) {
        return status;
    }
    for (int i = 0; i < 2 && status == GANTRY_OK; i++) {
        status = GY_WHOLE_CALL(context, cuGreenCtxRecordEvent(greens[i], event));
        if (status == GANTRY_OK) { /* this waits for the event as it is now */
            status = GY_CALL(context, cuStreamWaitEvent(gather, event, 0));
        }
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuEventRecord(event, gather));
    }
    gantry_status destroyed = GY_CALL(context, cuStreamDestroy(gather));
    return status != GANTRY_OK ? status : destroyed;
}

gantry_status gy_partition_record(struct gantry_partition *p, CUevent event)
{
    struct gy_context *context = p->owner->context;
    gantry_status status = check_events(p);
    if (status != GANTRY_OK) {
        return status;
    }
    if (p->green == NULL) {
        return gy_whole_record(context, event);
    }
    return p->wide != NULL ? record_both(p, event)
                           : GY_WHOLE_CALL(context, cuGreenCtxRecordEvent(p->green, event));
}

gantry_status gy_partition_wait(struct gantry_partition *p, CUevent event)
{
    struct gy_context *context = p->owner->context;
    gantry_status status = check_events(p);
    if (status == GANTRY_OK && p->green == NULL) {
        return gy_whole_come_after(context, event);
    }
    if (status == GANTRY_OK && p->wide != NULL) {
        status = GY_WHOLE_CALL(context, cuGreenCtxWaitEvent(p->wide, event));
    }
    return status == GANTRY_OK ? GY_WHOLE_CALL(context, cuGreenCtxWaitEvent(p->green, event)) : status;
}
