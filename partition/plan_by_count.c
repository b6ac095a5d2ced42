/* SPDX-License-Identifier: MIT */
/* Plans for drivers that make groups of one size: partitions are made of units of one split. */
#include "partition/plan.h"

#include <string.h>

struct units {
    struct gy_planner *planner;
    uint32_t next;     /* the first free unit */
    uint32_t promised; /* the cluster size that every unit can run */
};

static uint32_t left(const struct units *u)
{
    return u->planner->out->group_count - u->next;
}

static void take(struct units *u, gantry_partition_slot *slot, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gy_groups_add(slot->groups, u->next++);
    }
}

static bool take_remainder(struct units *u, gantry_partition_slot *slot)
{
    struct gy_planner *p = u->planner;
    if (p->remainder_taken || p->out->remainder_sms == 0) {
        return false;
    }
    slot->takes_remainder = 1;
    p->remainder_taken = true;
    return true;
}

static gantry_status too_few(const struct units *u, const gantry_partition_request *r, uint32_t wanted)
{
    const gantry_partition_layout *plan = u->planner->out;
    return GY_FAIL(
        GANTRY_ERR_INVALID_ARGUMENT,
        "partition '%s' wants %u SMs: %u of %u are left in units of %u, %u more come without clusters",
        r->name, wanted, left(u) * plan->unit_sms, u->planner->topology->total_sms, plan->unit_sms,
        u->planner->remainder_taken ? 0 : plan->remainder_sms);
}

/* Take the partition's own SMs, without those that it shares. */
static gantry_status take_number(struct units *u, const gantry_partition_request *r,
                                 gantry_partition_slot *slot)
{
    const gantry_partition_layout *plan = u->planner->out;
    uint32_t own = r->sm_count - r->overlap_sms;
    uint32_t unit = plan->unit_sms, rest = own % unit;
    if (r->size == GANTRY_PARTITION_EXACT && rest != 0) {
        bool fits = r->backfill != 0 && own >= plan->remainder_sms &&
                    (own - plan->remainder_sms) % unit == 0 &&
                    (own - plan->remainder_sms) / unit <= left(u) && take_remainder(u, slot);
        if (!fits) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                           "partition '%s': exactly %u SMs of its own cannot be made of units of %u", r->name,
                           own, unit);
        }
        own -= plan->remainder_sms;
    }
    uint32_t wanted = (own + unit - 1) / unit;
    if (wanted <= left(u)) {
        take(u, slot, wanted);
        return GANTRY_OK;
    }
    uint32_t without = own > plan->remainder_sms ? (own - plan->remainder_sms + unit - 1) / unit : 0;
    bool exact = r->size == GANTRY_PARTITION_EXACT && without * unit + plan->remainder_sms != own;
    if (r->backfill == 0 || exact || without > left(u) || !take_remainder(u, slot)) {
        return too_few(u, r, own);
    }
    take(u, slot, without);
    return GANTRY_OK;
}

static gantry_status take_discovered(struct units *u, const gantry_partition_request *r,
                                     gantry_partition_slot *slot)
{
    take(u, slot, left(u));
    bool any = gy_groups_any(slot->groups);
    if (r->backfill != 0 && take_remainder(u, slot)) {
        any = true;
    }
    return any ? GANTRY_OK : too_few(u, r, u->planner->out->unit_sms);
}

static gantry_status take_rest(struct units *u, const gantry_partition_request *r,
                               gantry_partition_slot *slot)
{
    uint32_t units = left(u);
    take(u, slot, units);
    bool more = take_remainder(u, slot);
    return units != 0 || more || r->overlap_sms != 0 ? GANTRY_OK : too_few(u, r, 1);
}

/* Share the last of the lender's own units. */
static gantry_status share(struct units *u, uint32_t index, const uint64_t own[][4])
{
    struct gy_planner *p = u->planner;
    const gantry_partition_request *r = &p->requests[index];
    gantry_partition_slot *slot = &p->out->partitions[index];
    const uint64_t *lender = own[gy_planner_find(p, r->overlaps)];
    uint32_t unit = p->out->unit_sms, wanted = (r->overlap_sms + unit - 1) / unit;
    if (r->size == GANTRY_PARTITION_EXACT && r->overlap_sms % unit != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "partition '%s': an overlap of %u SMs is not made of units of %u", r->name,
                       r->overlap_sms, unit);
    }
    for (uint32_t g = p->out->group_count; g-- > 0 && wanted > 0;) {
        if (gy_groups_have(lender, g)) {
            gy_groups_add(slot->groups, g);
            wanted--;
        }
    }
    return wanted == 0
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "partition '%s': '%s' has no %u SMs to overlap with",
                         r->name, r->overlaps, r->overlap_sms);
}

static gantry_status share_all(struct units *u)
{
    struct gy_planner *p = u->planner;
    uint64_t own[GANTRY_PARTITIONS_MAX][4];
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < p->count; i++) {
        memcpy(own[i], p->out->partitions[i].groups, sizeof(own[i]));
    }
    for (uint32_t i = 0; i < p->count && status == GANTRY_OK; i++) {
        status = p->requests[i].overlaps != NULL ? share(u, i, (const uint64_t(*)[4])own) : GANTRY_OK;
        p->out->partitions[i].cluster_size = gy_groups_any(p->out->partitions[i].groups) ? u->promised : 0;
    }
    return status;
}

static gantry_status check_clusters(const struct units *u)
{
    const struct gy_planner *p = u->planner;
    for (uint32_t i = 0; i < p->count; i++) {
        const gantry_partition_request *r = &p->requests[i];
        if (r->cluster_size > u->promised && r->size != GANTRY_PARTITION_REST) {
            return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                           "partition '%s': clusters of %u SMs; units of this split promise %u%s", r->name,
                           r->cluster_size, u->promised,
                           p->out->ignores_coscheduling ? ", as a partition ignores co-scheduling" : "");
        }
    }
    return GANTRY_OK;
}

typedef gantry_status (*take_fn)(struct units *, const gantry_partition_request *, gantry_partition_slot *);

static take_fn way_of(const gantry_partition_request *r)
{
    return r->size == GANTRY_PARTITION_REST ? take_rest : r->sm_count == 0 ? take_discovered : take_number;
}

gantry_status gy_plan_by_count(struct gy_planner *p)
{
    static const take_fn order[] = {take_number, take_discovered, take_rest};
    const gantry_sm_topology *t = p->topology;
    gantry_partition_layout *plan = p->out;
    for (uint32_t i = 0; i < p->count; i++) {
        plan->ignores_coscheduling |= p->requests[i].ignore_coscheduling != 0;
    }
    bool fine = plan->ignores_coscheduling != 0;
    plan->unit_sms = fine ? t->fine_unit_sms : t->unit_sms;
    plan->group_count = fine ? t->fine_unit_count : t->unit_count;
    plan->remainder_sms = t->total_sms - plan->unit_sms * plan->group_count;
    struct units u = {.planner = p, .promised = fine ? t->fine_unit_sms : t->alignment};
    gantry_status status = check_clusters(&u);
    for (int way = 0; way < 3; way++) {
        for (uint32_t i = 0; i < p->count && status == GANTRY_OK; i++) {
            gantry_partition_slot *slot = &plan->partitions[i];
            if (way_of(&p->requests[i]) == order[way]) {
                status = order[way](&u, &p->requests[i], slot);
            }
        }
    }
    return status == GANTRY_OK ? share_all(&u) : status;
}
