#include "profile/sm_lanes.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static bool grow(struct gy_sm_lanes *sm)
{
    uint32_t room = sm->room == 0 ? 16 : sm->room * 2;
    uint64_t *ends = room <= GY_SM_LANES ? gy_zalloc_array(room, sizeof(*ends)) : NULL;
    struct gy_dense *lanes = ends != NULL ? gy_zalloc_array(room, sizeof(*lanes)) : NULL;
    if (lanes == NULL) {
        gy_free(ends);
        return false;
    }
    for (uint32_t i = 0; i < room; i++) {
        ends[i] = i < sm->count ? sm->ends[i] : UINT64_MAX;
    }
    if (sm->count != 0) {
        memcpy(lanes, sm->lanes, sm->count * sizeof(*lanes));
    }
    gy_sm_lanes_fini(sm);
    sm->ends = ends;
    sm->lanes = lanes;
    sm->room = room;
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
    gy_free(sm->lanes);
}
