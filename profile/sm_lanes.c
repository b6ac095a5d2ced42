/* SPDX-License-Identifier: MIT */
#include "profile/sm_lanes.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

void gy_sm_lanes_rebase(struct gy_sm_lanes *sm, uint64_t start_ns)
{
    sm->base_ns = start_ns;
    for (uint32_t i = 0; i < sm->count; i++) {
        gy_sm_lanes_take(sm, i, sm->ends[i] > start_ns ? sm->ends[i] : start_ns);
    }
}

static bool grow(struct gy_sm_lanes *sm)
{
    struct gy_sm_lanes old = *sm;
    sm->room = old.room == 0 ? 16 : old.room * 2;
    sm->ends = sm->room <= GY_SM_LANES ? gy_zalloc_array(sm->room, sizeof(*sm->ends)) : NULL;
    sm->far = sm->ends != NULL ? gy_zalloc_array(sm->room / 4, sizeof(*sm->far)) : NULL;
    sm->lanes = sm->far != NULL ? gy_zalloc_array(sm->room, sizeof(*sm->lanes)) : NULL;
    if (sm->lanes == NULL) {
        gy_sm_lanes_fini(sm);
        *sm = old;
        return false;
    }
    for (uint32_t i = 0; i < sm->room; i++) {
        sm->far[i / 4][i % 4] = i < old.count ? old.far[i / 4][i % 4] : INT32_MAX;
    }
    if (old.count != 0) {
        memcpy(sm->ends, old.ends, old.count * sizeof(*old.ends));
        memcpy(sm->lanes, old.lanes, old.count * sizeof(*old.lanes));
    }
    gy_sm_lanes_fini(&old);
    return true;
}

bool gy_sm_lanes_open(struct gy_sm_lanes *sm, struct gy_sink *sink, uint64_t start_ns, uint32_t *index)
{
    if (sm->count == sm->room && !grow(sm)) {
        return false;
    }
    uint32_t lane = sm->count++;
    uint32_t high = GY_SM_HIGH + sm->rank * (GY_SM_LANES - GY_SM_LOW_LANES) + lane - GY_SM_LOW_LANES;
    bool is_low = lane < GY_SM_LOW_LANES;
    char name[16];
    snprintf(name, sizeof(name), "SM %03u", sm->number);
    struct gy_dense_track track = {.track = is_low ? sm->first + lane : high,
                                   .parent = sm->parent,
                                   .sequence = is_low ? sm->first_sequence + lane : high,
                                   .rank = sm->number,
                                   .name = name,
                                   .begin_ns = start_ns,
                                   .numbered = sm->numbered};
    sink->at = gy_dense_open(sink->at, &track, &sm->lanes[lane]);
    *index = lane;
    return true;
}

void gy_sm_lanes_fini(struct gy_sm_lanes *sm)
{
    gy_free(sm->ends);
    gy_free(sm->far);
    gy_free(sm->lanes);
}
