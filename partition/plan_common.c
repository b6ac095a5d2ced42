/* SPDX-License-Identifier: MIT */
/* The functions that both ways to plan need: the result of a split by count, names, and sums of SMs. */
#include "partition/plan.h"

#include <string.h>

uint32_t gy_planner_find(const struct gy_planner *planner, const char *name)
{
    for (uint32_t i = 0; i < planner->count; i++) {
        if (strcmp(planner->requests[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint32_t gy_plan_cluster_of(const struct gy_planner *planner, const gantry_partition_request *request)
{
    return request->cluster_size != 0          ? request->cluster_size
           : request->ignore_coscheduling != 0 ? 2
                                               : planner->topology->alignment;
}

static uint32_t round_up(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

struct gy_split_result gy_split_by_count(const gantry_sm_topology *topology, uint32_t groups,
                                         uint32_t min_sms, bool ignore_coscheduling)
{
    uint32_t unit = ignore_coscheduling ? topology->fine_unit_sms : topology->unit_sms;
    uint32_t units = ignore_coscheduling ? topology->fine_unit_count : topology->unit_count;
    uint32_t step = ignore_coscheduling ? unit : topology->alignment;
    uint32_t size = round_up(min_sms > unit ? min_sms : unit, step);
    uint32_t most = units * unit / size;
    uint32_t made = groups < most ? groups : most;
    return (struct gy_split_result){made, size, topology->total_sms - made * size};
}

uint32_t gy_plan_count_sms(const gantry_partition_layout *plan, const uint64_t groups[4], bool remainder)
{
    uint32_t sms = remainder ? plan->remainder_sms : 0;
    for (uint32_t g = 0; g < plan->group_count; g++) {
        if (gy_groups_have(groups, g)) {
            sms += plan->is_structured ? plan->groups[g].planned_sms : plan->unit_sms;
        }
    }
    return sms;
}

/* Find the groups of slot `index` that another slot has as well. */
static void find_shared(const gantry_partition_layout *plan, uint32_t index, uint64_t shared[4])
{
    for (uint32_t other = 0; other < plan->count; other++) {
        for (uint32_t w = 0; w < 4 && other != index; w++) {
            shared[w] |= plan->partitions[index].groups[w] & plan->partitions[other].groups[w];
        }
    }
}

void gy_plan_recount(gantry_partition_layout *plan, uint32_t total_sms)
{
    uint64_t all[4] = {0, 0, 0, 0};
    bool remainder = false;
    for (uint32_t i = 0; i < plan->count; i++) {
        gantry_partition_slot *slot = &plan->partitions[i];
        uint64_t shared[4] = {0, 0, 0, 0};
        find_shared(plan, i, shared);
        slot->planned_sms = gy_plan_count_sms(plan, slot->groups, slot->takes_remainder != 0);
        slot->shared_sms = gy_plan_count_sms(plan, shared, false);
        slot->wide_sms = gy_plan_count_sms(plan, slot->wide_groups, slot->wide_remainder != 0);
        remainder = remainder || slot->takes_remainder != 0;
        for (uint32_t w = 0; w < 4; w++) {
            all[w] |= slot->groups[w];
        }
    }
    plan->unused_sms = total_sms - gy_plan_count_sms(plan, all, remainder);
}
