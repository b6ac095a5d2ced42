/* SPDX-License-Identifier: MIT */
/* The tracks of one SM: as many lines as blocks were resident at the same time.
 *
 * Blocks of one SM overlap; each goes to the first line that is free when it starts.  Batches may overlap,
 * too; then a later one goes to lines that are free after everything that was written there before.
 *
 * The numbers of a line's track and sequence follow from those of the SM and the line.  So any thread that
 * writes the SM's blocks can open lines, and the file is always the same: GY_SM_LOW_LANES small numbers are
 * reserved for each SM when it is first seen, and large numbers for further lines, which are rare.
 *
 * Threading: one thread at a time per SM. */
#ifndef PROFILE_SM_LANES_H
#define PROFILE_SM_LANES_H

#include "profile/dense.h"

#define GY_SM_LANES 256u
#define GY_SM_LOW_LANES 32u
/* The most SMs of one recording; readers take numbers below 2^20. */
#define GY_SM_HIGH (1u << 19)
#define GY_SMS_OF_TRACE (GY_SM_HIGH / (GY_SM_LANES - GY_SM_LOW_LANES))

typedef int32_t gy_int32x4 __attribute__((vector_size(16)));

struct gy_sm_lanes {
    uint32_t number;                /* the SM's number; immutable, like all fields up to the count */
    uint32_t rank;                  /* its rank among all SMs of the recording, below GY_SMS_OF_TRACE */
    bool numbered;                  /* slices have their block's number */
    gy_pftrace_track first, parent; /* the first of GY_SM_LOW_LANES tracks; the track that they are under */
    uint32_t first_sequence;
    uint32_t count, room; /* a multiple of 16 */
    uint64_t base_ns;
    uint64_t *ends;  /* the end of each lane's latest slice */
    gy_int32x4 *far; /* these ends, counted from base_ns on and at most INT32_MAX; INT32_MAX where there is no
                        lane yet */
    struct gy_dense *lanes;
};

/* The place where packets go: there are at least GY_SINK_ROOM bytes from `at` on, and more() makes it so. */
#define GY_SINK_ROOM (3 * GY_DENSE_ROOM)
struct gy_sink {
    uint8_t *at, *end;
    void (*more)(struct gy_sink *sink);
};

/* Open a lane for blocks from `start_ns` on; `index` gets its place.  False: there are too many lanes, or
 * memory ran out. */
bool gy_sm_lanes_open(struct gy_sm_lanes *sm, struct gy_sink *sink, uint64_t start_ns, uint32_t *index);

/* Until the next call, all blocks start at `start_ns` or later: far[] is counted from there. */
void gy_sm_lanes_rebase(struct gy_sm_lanes *sm, uint64_t start_ns);

/* The start of a block as far[] counts it.  The SM is rebased when it is too far from its base. */
static inline int32_t gy_sm_lanes_near(struct gy_sm_lanes *sm, uint64_t start_ns)
{
    if (__builtin_expect(start_ns - sm->base_ns >= INT32_MAX / 2, 0)) {
        gy_sm_lanes_rebase(sm, start_ns);
    }
    return (int32_t)(start_ns - sm->base_ns);
}

/* The first lane that is free at `start`, which gy_sm_lanes_near() returned; at least `count`: there is none.
 * Which lane it is cannot be predicted, so 16 are compared at once, without branches. */
static inline uint32_t gy_sm_lanes_free(const struct gy_sm_lanes *sm, int32_t start)
{
    static const gy_int32x4 bits[4] = {
        {1, 2, 4, 8}, {16, 32, 64, 128}, {256, 512, 1024, 2048}, {4096, 8192, 16384, 32768}};
    const gy_int32x4 starts = {start, start, start, start};
    for (uint32_t i = 0; i < sm->count; i += 16) {
        const gy_int32x4 *far = &sm->far[i / 4];
        gy_int32x4 set = ((far[0] <= starts) & bits[0]) | ((far[1] <= starts) & bits[1]) |
                         ((far[2] <= starts) & bits[2]) | ((far[3] <= starts) & bits[3]);
        uint32_t free_ones = (uint32_t)(set[0] | set[1] | set[2] | set[3]);
        if (free_ones != 0) {
            return i + (uint32_t)__builtin_ctz(free_ones);
        }
    }
    return sm->count;
}

/* Take the lane until `end_ns`. */
static inline void gy_sm_lanes_take(struct gy_sm_lanes *sm, uint32_t index, uint64_t end_ns)
{
    uint64_t far = end_ns - sm->base_ns;
    sm->ends[index] = end_ns;
    sm->far[index / 4][index % 4] = far < INT32_MAX ? (int32_t)far : INT32_MAX;
}

void gy_sm_lanes_fini(struct gy_sm_lanes *sm);

#endif
