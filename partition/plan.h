/* SPDX-License-Identifier: MIT */
/* The planner makes groups of one split from requests.  The functions are pure. */
#ifndef PARTITION_PLAN_H
#define PARTITION_PLAN_H

#include "base/status.h"

#include <gantry/partition.h>

#include <stdbool.h>

#define GY_GROUPS_MAX 256u

/* The result of a split by count. */
struct gy_split_result {
    uint32_t groups, group_sms, remaining;
};

/* CUDA's split by count for this request: at most `groups` groups of at least `min_sms` SMs. */
struct gy_split_result gy_split_by_count(const gantry_sm_topology *topology, uint32_t groups,
                                         uint32_t min_sms, bool ignore_coscheduling);

/* A plan that is being made. */
struct gy_planner {
    const gantry_sm_topology *topology;
    const char *whole;                                        /* for messages: what is divided */
    gantry_partition_request requests[GANTRY_PARTITIONS_MAX]; /* copied from the caller's */
    gantry_share shares[GANTRY_PARTITIONS_MAX];               /* those of the requests; percent 0: no bound */
    uint32_t count;
    gantry_partition_layout *out;
    bool remainder_taken;
};

/* Plan for p->topology into the zeroed *p->out; the requests stay in `p`.  Statuses as
 * gantry_partition_plan(). */
GANTRY_MUST_CHECK gantry_status gy_plan(struct gy_planner *planner, const gantry_partition_options *options);

/* Count the SMs of these groups, and of the remainder. */
uint32_t gy_plan_count_sms(const gantry_partition_layout *plan, const uint64_t groups[4], bool remainder);

/* Count the SMs anew, after groups turned out to have other sizes than planned. */
void gy_plan_recount(gantry_partition_layout *plan, uint32_t total_sms);

/* Find the slot of the request called `name`; UINT32_MAX: none. */
uint32_t gy_planner_find(const struct gy_planner *planner, const char *name);

static inline void gy_groups_add(uint64_t groups[4], uint32_t group)
{
    groups[group / 64] |= UINT64_C(1) << (group % 64);
}

static inline bool gy_groups_have(const uint64_t groups[4], uint32_t group)
{
    return (groups[group / 64] >> (group % 64) & 1u) != 0;
}

static inline bool gy_groups_any(const uint64_t groups[4])
{
    return (groups[0] | groups[1] | groups[2] | groups[3]) != 0;
}

/* Copy the share that a caller of any version asks for, or no bound for NULL, and check it.  `whose`: for
 * messages. */
GANTRY_MUST_CHECK gantry_status gy_share_import(const gantry_share *theirs, const char *whose,
                                                gantry_share *ours);

/* The size of the clusters that the request is for, by its wish or by the device. */
uint32_t gy_plan_cluster_of(const struct gy_planner *planner, const gantry_partition_request *request);

/* The two ways to plan; the requests are already checked. */
GANTRY_MUST_CHECK gantry_status gy_plan_by_count(struct gy_planner *planner);
GANTRY_MUST_CHECK gantry_status gy_plan_structured(struct gy_planner *planner);

#endif
