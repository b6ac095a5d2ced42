/* SPDX-License-Identifier: MIT */
/* Plans for drivers that make a group for each partition in one split.
 *
 * The SMs of a cluster lie in one processing cluster (GPC).  So the planner keeps a list of free SMs per GPC,
 * or of one large GPC when their sizes are not known.  Then the driver has the last word, and the SMs that it
 * grants are read back.  SMs that two partitions share are a group of their own. */
#include "partition/plan.h"

#include <string.h>

struct pool {
    struct gy_planner *planner;
    uint32_t gpcs;
    uint32_t free[32];
};

static uint32_t cluster_of(const struct pool *pool, const gantry_partition_request *r)
{
    return gy_plan_cluster_of(pool->planner, r);
}

/* Take up to `sms` SMs in chunks of `chunk`; returns how many. */
static uint32_t take(struct pool *pool, uint32_t chunk, uint32_t sms)
{
    uint32_t taken = 0;
    for (uint32_t g = 0; g < pool->gpcs; g++) {
        while (pool->free[g] >= chunk && taken + chunk <= sms) {
            pool->free[g] -= chunk;
            taken += chunk;
        }
    }
    return taken;
}

static gantry_status refuse(const gantry_partition_request *r, const char *why)
{
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "partition '%s' of %u SMs: %s", r->name, r->sm_count, why);
}

static gantry_sm_group *add_group(struct pool *pool, const gantry_partition_request *r, uint32_t sms,
                                  gantry_partition_slot *slot)
{
    gantry_partition_layout *plan = pool->planner->out;
    uint32_t cluster = cluster_of(pool, r);
    gantry_sm_group *group = &plan->groups[plan->group_count];
    *group = (gantry_sm_group){.planned_sms = sms,
                               .cluster_size = cluster,
                               .preferred_cluster_size =
                                   r->preferred_cluster_size != 0 ? r->preferred_cluster_size : cluster,
                               .backfill = r->backfill != 0};
    gy_groups_add(slot->groups, plan->group_count++);
    slot->cluster_size = cluster;
    return group;
}

static gantry_status check_clusters(const struct pool *pool, const gantry_partition_request *r)
{
    const gantry_sm_topology *t = pool->planner->topology;
    uint32_t cluster = cluster_of(pool, r), most = t->max_cluster != 0 ? t->max_cluster : t->alignment;
    if (cluster > most) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "partition '%s': clusters of %u SMs; the most is %u", r->name,
                       cluster, most);
    }
    return GANTRY_OK;
}

/* Take a group of `sms` SMs. */
static gantry_status take_group(struct pool *pool, const gantry_partition_request *r, uint32_t sms,
                                gantry_partition_slot *slot)
{
    uint32_t cluster = cluster_of(pool, r);
    uint32_t in_clusters = r->backfill != 0 ? cluster : sms;
    bool fits = take(pool, cluster, in_clusters) == in_clusters &&
                take(pool, 1, sms - in_clusters) == sms - in_clusters;
    if (!fits) {
        return refuse(r, "not so many are left, or not in clusters of that size");
    }
    (void)add_group(pool, r, sms, slot);
    return GANTRY_OK;
}

static uint32_t lent_by(const struct gy_planner *p, uint32_t lender)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const gantry_partition_request *r = &p->requests[i];
        if (r->overlaps != NULL && gy_planner_find(p, r->overlaps) == lender && r->overlap_sms > most) {
            most = r->overlap_sms;
        }
    }
    return most;
}

/* Take the SMs that the partition has alone, and those that it lends. */
static gantry_status take_number(struct pool *pool, uint32_t index)
{
    struct gy_planner *p = pool->planner;
    const gantry_partition_request *r = &p->requests[index];
    gantry_partition_slot *slot = &p->out->partitions[index];
    uint32_t cluster = cluster_of(pool, r), own = r->sm_count - r->overlap_sms, lent = lent_by(p, index);
    uint32_t step = r->backfill != 0 ? 2 : cluster;
    if (r->size == GANTRY_PARTITION_AT_LEAST) {
        own = (own + step - 1) / step * step;
    }
    if (own % step != 0 || (r->backfill != 0 && own != 0 && own < cluster)) {
        return refuse(r, "its SMs are not a multiple of 2 and of its cluster size");
    }
    if (lent > own || lent % step != 0) {
        return refuse(r, "the SMs that others overlap with are more than it has, or no whole clusters");
    }
    gantry_status status = own > lent ? take_group(pool, r, own - lent, slot) : GANTRY_OK;
    return status == GANTRY_OK && lent != 0 ? take_group(pool, r, lent, slot) : status;
}

static gantry_status take_discovered(struct pool *pool, uint32_t index)
{
    struct gy_planner *p = pool->planner;
    const gantry_partition_request *r = &p->requests[index];
    uint32_t taken = take(pool, cluster_of(pool, r), UINT32_MAX);
    if (taken != 0 && r->backfill != 0) {
        taken += take(pool, 1, UINT32_MAX);
    }
    if (taken == 0) {
        return refuse(r, "no cluster of that size is left");
    }
    add_group(pool, r, taken, &p->out->partitions[index])->is_discovered = 1;
    return GANTRY_OK;
}

static bool is_number(const gantry_partition_request *r)
{
    return r->size != GANTRY_PARTITION_REST && r->sm_count != 0;
}

/* Share the lender's last group, which was made for this; one descriptor holds clusters of one size only. */
static gantry_status share(struct pool *pool, uint32_t index)
{
    struct gy_planner *p = pool->planner;
    const gantry_partition_request *r = &p->requests[index];
    uint32_t lender = gy_planner_find(p, r->overlaps);
    const gantry_partition_slot *from = &p->out->partitions[lender];
    gantry_partition_slot *slot = &p->out->partitions[index];
    if (!is_number(&p->requests[lender]) || lent_by(p, lender) != r->overlap_sms ||
        p->requests[lender].overlaps != NULL) {
        return GY_FAIL(
            GANTRY_ERR_UNSUPPORTED,
            "partition '%s': overlaps must be with a partition of a given number of SMs, and all of the "
            "same size",
            r->name);
    }
    uint32_t g = p->out->group_count;
    while (g-- > 0 && !gy_groups_have(from->groups, g)) {
    }
    if (gy_groups_any(slot->groups) && slot->cluster_size != from->cluster_size) {
        return refuse(r, "it has another cluster size than the partition it overlaps with");
    }
    gy_groups_add(slot->groups, g);
    slot->cluster_size = from->cluster_size;
    return GANTRY_OK;
}

static gantry_status take_all(struct pool *pool)
{
    struct gy_planner *p = pool->planner;
    gantry_status status = GANTRY_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < p->count && status == GANTRY_OK; i++) {
            const gantry_partition_request *r = &p->requests[i];
            if (r->size != GANTRY_PARTITION_REST && (r->sm_count != 0) == (pass == 0)) {
                status = check_clusters(pool, r);
                if (status == GANTRY_OK) {
                    status = pass == 0 ? take_number(pool, i) : take_discovered(pool, i);
                }
            }
        }
    }
    return status;
}

/* Check that borrowed groups and the partition's own fit into one descriptor. */
static gantry_status check_borrowers(const struct gy_planner *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const gantry_partition_request *r = &p->requests[i];
        uint32_t lender = r->borrows != NULL ? gy_planner_find(p, r->borrows) : i;
        uint32_t a = p->out->partitions[i].cluster_size, b = p->out->partitions[lender].cluster_size;
        if (a != b && a != 0 && b != 0) {
            return refuse(r, "it has another cluster size than the partition it borrows from");
        }
    }
    return GANTRY_OK;
}

gantry_status gy_plan_structured(struct gy_planner *p)
{
    const gantry_sm_topology *t = p->topology;
    struct pool pool = {.planner = p, .gpcs = t->gpc_count != 0 ? t->gpc_count : 1, .free = {t->total_sms}};
    for (uint32_t g = 0; g < t->gpc_count; g++) {
        pool.free[g] = t->gpc_sms[g];
    }
    p->out->is_structured = 1;
    gantry_status status = take_all(&pool);
    for (uint32_t g = 0; g < pool.gpcs; g++) {
        p->out->remainder_sms += pool.free[g];
    }
    for (uint32_t i = 0; i < p->count && status == GANTRY_OK; i++) {
        if (p->requests[i].size == GANTRY_PARTITION_REST) {
            if (p->out->remainder_sms == 0 && p->requests[i].overlaps == NULL) {
                return refuse(&p->requests[i], "nothing is left");
            }
            p->out->partitions[i].takes_remainder = p->out->remainder_sms != 0;
            p->remainder_taken = true;
        }
    }
    for (uint32_t i = 0; i < p->count && status == GANTRY_OK; i++) {
        status = p->requests[i].overlaps != NULL ? share(&pool, i) : GANTRY_OK;
    }
    return status == GANTRY_OK ? check_borrowers(p) : status;
}
