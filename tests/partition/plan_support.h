/* SPDX-License-Identifier: MIT */
/* Topologies that were seen on devices, and short functions that ask for a plan. */
#ifndef TESTS_PARTITION_PLAN_SUPPORT_H
#define TESTS_PARTITION_PLAN_SUPPORT_H

#include <gantry/partition.h>

/* GH200: 132 SMs, 16 units of 8 and 4 more. */
static inline gantry_sm_topology gh200(void)
{
    return (gantry_sm_topology){.struct_size = sizeof(gantry_sm_topology),
                                .total_sms = 132,
                                .alignment = 8,
                                .unit_sms = 8,
                                .unit_count = 16,
                                .fine_unit_sms = 2,
                                .fine_unit_count = 66};
}

/* An H200 whose processing clusters leave 15 units of 8 and 12 more. */
static inline gantry_sm_topology h200(void)
{
    gantry_sm_topology t = gh200();
    static const uint8_t gpcs[] = {18, 18, 18, 16, 16, 16, 16, 14};
    t.unit_count = 15;
    t.gpc_count = sizeof(gpcs);
    for (uint32_t i = 0; i < t.gpc_count; i++) {
        t.gpc_sms[i] = gpcs[i];
    }
    return t;
}

/* RTX 4090: 128 SMs in units of 2. */
static inline gantry_sm_topology rtx4090(void)
{
    return (gantry_sm_topology){.struct_size = sizeof(gantry_sm_topology),
                                .total_sms = 128,
                                .alignment = 2,
                                .unit_sms = 2,
                                .unit_count = 64,
                                .fine_unit_sms = 2,
                                .fine_unit_count = 64};
}

static inline gantry_sm_topology structured(gantry_sm_topology t)
{
    t.is_structured = 1;
    t.max_cluster = 32;
    t.workqueues = 8;
    return t;
}

static inline gantry_partition_request request(const char *name, gantry_partition_size size, uint32_t sms)
{
    return (gantry_partition_request){
        .struct_size = sizeof(gantry_partition_request), .name = name, .size = size, .sm_count = sms};
}

static inline gantry_status plan(const gantry_sm_topology *t, const gantry_partition_request *requests,
                                 uint32_t count, gantry_partition_layout *out)
{
    gantry_partition_options options = GANTRY_PARTITION_OPTIONS_INIT;
    options.requests = requests;
    options.count = count;
    out->struct_size = sizeof(*out);
    return gantry_partition_plan(t, &options, out);
}

#endif
