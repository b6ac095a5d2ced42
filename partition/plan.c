/* SPDX-License-Identifier: MIT */
/* The planner of partitions makes a plan from requests, whichever way the driver splits.
 *
 * Everything that a plan divides comes from ONE split of all SMs: parts of two splits overlap, and a driver
 * that is given both does not report that.  A split by count makes equal units, of which a partition gets any
 * number; a structured split (CUDA 13.1) makes a group for each partition.  Both leave a remainder, whose SMs
 * come without any promise about clusters.  In either case a partition is a set of groups and perhaps the
 * remainder, so overlap, leftovers and borrowing are operations on bit sets.
 *
 * Requests with numbers come first, then requests for what is discovered, then those for the rest.  So the
 * order of requests decides only which partition comes first where, not which partition gets SMs at all. */
#include "partition/plan.h"

#include "base/options.h"

#include <math.h>
#include <stdio.h>

/* ---- checks --------------------------------------------------------------------------------- */

static gantry_status check_topology(const gantry_sm_topology *t)
{
    bool sane = t->total_sms > 0 && t->alignment > 0 && t->unit_sms > 0 && t->fine_unit_sms > 0 &&
                t->unit_count <= GY_GROUPS_MAX && t->fine_unit_count <= GY_GROUPS_MAX && t->gpc_count <= 32 &&
                (uint64_t)t->unit_sms * t->unit_count <= t->total_sms &&
                (uint64_t)t->fine_unit_sms * t->fine_unit_count <= t->total_sms;
    uint32_t in_clusters = 0;
    for (uint32_t g = 0; sane && g < t->gpc_count; g++) {
        in_clusters += t->gpc_sms[g];
    }
    if (!sane || (t->gpc_count != 0 && in_clusters != t->total_sms)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_partition_plan: a topology of %u SMs contradicts itself", t->total_sms);
    }
    return GANTRY_OK;
}

static gantry_status bad(const gantry_partition_request *r, const char *why)
{
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "partition '%s': %s", r->name, why);
}

gantry_status gy_share_import(const gantry_share *theirs, const char *whose, gantry_share *ours)
{
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), theirs, offsetof(gantry_share, burst_ns), "gantry_share");
    if (status == GANTRY_OK && (!isfinite(ours->percent) || ours->percent < 0 || ours->in_flight > 16)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: a share of %g percent with %u groups in flight",
                       whose, ours->percent, ours->in_flight);
    }
    return status;
}

/* Check the numbers before anything is rounded up, since a sum could wrap. */
static gantry_status check_numbers(const struct gy_planner *p, const gantry_partition_request *r)
{
    uint32_t all = p->topology->total_sms;
    if (r->size != GANTRY_PARTITION_REST && r->sm_count > all) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "partition '%s' wants %u SMs: %s has %u", r->name,
                       r->sm_count, p->whole, all);
    }
    if (r->overlap_sms > all) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "partition '%s' wants an overlap of %u SMs: %s has %u",
                       r->name, r->overlap_sms, p->whole, all);
    }
    return GANTRY_OK;
}

static gantry_status check_one(const gantry_partition_request *r)
{
    if ((unsigned)r->size > GANTRY_PARTITION_REST ||
        (unsigned)r->workqueue_scope > GANTRY_WORKQUEUE_BALANCED) {
        return bad(r, "an unknown size or workqueue scope");
    }
    if (r->cluster_size % 2 != 0 || r->preferred_cluster_size % 2 != 0) {
        return bad(r, "cluster sizes are even");
    }
    if (r->ignore_coscheduling != 0 && r->cluster_size > 2) {
        return bad(r, "clusters need co-scheduling");
    }
    if ((r->overlaps != NULL) != (r->overlap_sms != 0)) {
        return bad(r, "an overlap needs both a partition and a number of SMs");
    }
    bool is_sized = r->size != GANTRY_PARTITION_REST && r->sm_count != 0;
    if (r->overlaps != NULL && is_sized && r->overlap_sms > r->sm_count) {
        return bad(r, "the overlap is larger than the partition");
    }
    if (r->priority > 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "partition '%s': priority %d; 0 is normal, and negative numbers are more urgent",
                       r->name, r->priority);
    }
    return GANTRY_OK;
}

/* The same on all drivers, although those before CUDA 13.1 would not look at it. */
static gantry_status check_preferred(const struct gy_planner *p, const gantry_partition_request *r)
{
    const uint32_t cluster = gy_plan_cluster_of(p, r);
    if (r->size != GANTRY_PARTITION_REST && r->preferred_cluster_size != 0 &&
        (cluster == 0 || r->preferred_cluster_size % cluster != 0)) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "partition '%s': clusters of %u SMs, preferably %u; the preferred size is a multiple "
                       "of the other",
                       r->name, cluster, r->preferred_cluster_size);
    }
    return GANTRY_OK;
}

static gantry_status check_references(const struct gy_planner *p, uint32_t index)
{
    const gantry_partition_request *r = &p->requests[index];
    const char *const names[] = {r->overlaps, r->borrows};
    for (int i = 0; i < 2; i++) {
        uint32_t other = names[i] != NULL ? gy_planner_find(p, names[i]) : index + 1;
        if (other == UINT32_MAX || other == index) {
            return bad(r, "it shares with itself or with a partition that is not in the plan");
        }
    }
    return GANTRY_OK;
}

/* A partition uses another one's queues, or has queues of its own, but not both. */
static gantry_status check_queues(const struct gy_planner *p, uint32_t index)
{
    const gantry_partition_request *r = &p->requests[index];
    if (r->workqueues_of == NULL && r->workqueues_green == NULL) {
        return GANTRY_OK;
    }
    if (r->workqueue_limit != 0 || r->workqueue_scope != GANTRY_WORKQUEUE_SHARED) {
        return bad(r, "it has a wish about work queues, and uses another's");
    }
    if (r->workqueues_of == NULL) {
        return GANTRY_OK;
    }
    if (r->workqueues_green != NULL) {
        return bad(r, "it uses the work queues of a partition and of a green context");
    }
    const uint32_t other = gy_planner_find(p, r->workqueues_of);
    if (other == UINT32_MAX || other == index) {
        return bad(r, "it uses its own work queues as another's, or those of a partition that is not in the "
                      "plan");
    }
    return p->requests[other].workqueues_of != NULL
               ? bad(r, "it uses the work queues of a partition that uses another's")
               : GANTRY_OK;
}

static gantry_status check_all(const struct gy_planner *p)
{
    uint32_t rests = 0, defaults = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const gantry_partition_request *r = &p->requests[i];
        gantry_status status = check_one(r);
        if (status == GANTRY_OK) {
            status = check_numbers(p, r);
        }
        if (status == GANTRY_OK) {
            status = check_preferred(p, r);
        }
        if (status == GANTRY_OK) {
            status = check_references(p, i);
        }
        if (status == GANTRY_OK) {
            status = check_queues(p, i);
        }
        if (status != GANTRY_OK) {
            return status;
        }
        if (gy_planner_find(p, r->name) != i) {
            return bad(r, "another one has this name");
        }
        rests += r->size == GANTRY_PARTITION_REST;
        defaults += r->is_default != 0;
    }
    if (rests > 1 || defaults > 1) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_plan: more than one partition takes %s",
                       rests > 1 ? "the rest" : "what names no partition");
    }
    return GANTRY_OK;
}

/* Import the request array of a caller of any version. */
static gantry_status import_requests(struct gy_planner *p, const gantry_partition_options *options)
{
    if (options->count == 0 || options->count > GANTRY_PARTITIONS_MAX || options->requests == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_partition_plan: %u requests; 1 to %d are possible", options->count,
                       GANTRY_PARTITIONS_MAX);
    }
    size_t stride = options->requests->struct_size;
    for (uint32_t i = 0; i < options->count; i++) {
        const gantry_partition_request *theirs =
            (const gantry_partition_request *)(const void *)((const char *)options->requests + i * stride);
        gantry_partition_request *r = &p->requests[i];
        if (theirs->struct_size != stride) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                           "gantry_partition_plan: request %u has another struct_size than the first one", i);
        }
        gantry_status status =
            gy_options_import(r, sizeof(*r), theirs, offsetof(gantry_partition_request, cluster_size),
                              "gantry_partition_request");
        if (status != GANTRY_OK) {
            return status;
        }
        if (r->name == NULL || r->name[0] == '\0' || strlen(r->name) >= GANTRY_PARTITION_NAME_BYTES) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                           "gantry_partition_plan: the name of request %u is missing or longer than %d bytes",
                           i, GANTRY_PARTITION_NAME_BYTES - 1);
        }
        char whose[GANTRY_PARTITION_NAME_BYTES + 16];
        (void)snprintf(whose, sizeof(whose), "partition '%s'", r->name);
        status = gy_share_import(r->share, whose, &p->shares[i]);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    p->count = options->count;
    return check_all(p);
}

/* ---- how both ways end ---------------------------------------------------------------------- */

static void borrow(struct gy_planner *p, uint32_t index)
{
    gantry_partition_slot *slot = &p->out->partitions[index];
    if (p->requests[index].borrows == NULL) {
        return;
    }
    const gantry_partition_slot *lender = &p->out->partitions[gy_planner_find(p, p->requests[index].borrows)];
    for (uint32_t w = 0; w < 4; w++) {
        slot->wide_groups[w] = slot->groups[w] | lender->groups[w];
    }
    slot->wide_remainder = slot->takes_remainder | lender->takes_remainder;
    slot->wide_sms = gy_plan_count_sms(p->out, slot->wide_groups, slot->wide_remainder != 0);
}

/* Report that there is no default partition; `count`: there are so many requests; 0: their number does not
 * matter. */
static gantry_status no_default(uint32_t count, const char *why)
{
    char requests[32] = "";
    if (count != 0) {
        (void)snprintf(requests, sizeof(requests), "%u requests: ", count);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                   "gantry_partition_plan: %s%s; mark one as is_default, or have one take the rest", requests,
                   why);
}

/* Choose the partition for work that names none: the one that says so, else the rest, else a new one of what
 * is left. */
static gantry_status choose_default(struct gy_planner *p, const uint64_t taken[4])
{
    gantry_partition_layout *plan = p->out;
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->requests[i].is_default != 0) {
            plan->default_partition = i;
            return GANTRY_OK;
        }
    }
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->requests[i].size == GANTRY_PARTITION_REST) {
            plan->default_partition = i;
            return GANTRY_OK;
        }
    }
    gantry_partition_slot rest = {.name = "default", .request = UINT32_MAX};
    rest.takes_remainder = !p->remainder_taken && plan->remainder_sms != 0;
    for (uint32_t g = 0; g < plan->group_count; g++) {
        if (!gy_groups_have(taken, g)) {
            gy_groups_add(rest.groups, g);
        }
    }
    if (gy_plan_count_sms(plan, rest.groups, rest.takes_remainder != 0) == 0) {
        return no_default(0, "nothing is left for what names no partition");
    }
    if (plan->count == GANTRY_PARTITIONS_MAX) {
        return no_default(plan->count,
                          "there is no room for one more beside them, for what names no partition");
    }
    if (gy_planner_find(p, rest.name) != UINT32_MAX) {
        return no_default(0, "what names no partition gets one called 'default', and that name is taken");
    }
    p->remainder_taken = p->remainder_taken || rest.takes_remainder != 0;
    plan->default_partition = plan->count;
    plan->partitions[plan->count++] = rest;
    return GANTRY_OK;
}

static gantry_status finish(struct gy_planner *p)
{
    gantry_partition_layout *plan = p->out;
    uint64_t taken[4] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < plan->count; i++) {
        for (uint32_t w = 0; w < 4; w++) {
            taken[w] |= plan->partitions[i].groups[w];
        }
    }
    gantry_status status = choose_default(p, taken);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_plan_recount(plan, p->topology->total_sms);
    for (uint32_t i = 0; i < p->count; i++) {
        borrow(p, i);
    }
    return GANTRY_OK;
}

gantry_status gy_plan(struct gy_planner *p, const gantry_partition_options *options)
{
    gantry_partition_layout *plan = p->out;
    gantry_partition_options asked = {.struct_size = sizeof(asked)};
    gantry_status status =
        gy_options_import(&asked, sizeof(asked), options, offsetof(gantry_partition_options, parent_green),
                          "gantry_partition_options");
    if (status == GANTRY_OK && asked.reserved != 0) {
        status = GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                         "gantry_partition_options: `reserved` is %u, which this version does not know",
                         asked.reserved);
    }
    if (status == GANTRY_OK) {
        status = check_topology(p->topology);
    }
    if (status == GANTRY_OK) {
        status = import_requests(p, &asked);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    plan->count = p->count;
    for (uint32_t i = 0; i < p->count; i++) {
        memcpy(plan->partitions[i].name, p->requests[i].name, strlen(p->requests[i].name));
        plan->partitions[i].request = i;
    }
    status = p->topology->is_structured != 0 ? gy_plan_structured(p) : gy_plan_by_count(p);
    return status == GANTRY_OK ? finish(p) : status;
}

gantry_status gantry_partition_plan(const gantry_sm_topology *topology,
                                    const gantry_partition_options *options, gantry_partition_layout *out)
{
    if (topology == NULL || options == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_partition_plan: an argument is NULL");
    }
    gantry_sm_topology ours = {.struct_size = sizeof(ours)};
    gantry_partition_layout plan = {.struct_size = sizeof(plan)};
    struct gy_planner p = {.topology = &ours, .out = &plan, .whole = "the device"};
    gantry_status status = gy_options_import(
        &ours, sizeof(ours), topology, offsetof(gantry_sm_topology, workqueue_scope), "gantry_sm_topology");
    if (status == GANTRY_OK) {
        status = gy_plan(&p, options);
    }
    return status == GANTRY_OK ? gy_stats_export(out, &plan, sizeof(plan), "gantry_partition_plan") : status;
}
