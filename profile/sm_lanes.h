/* The tracks of one SM: as many lines as blocks were resident at once.
 *
 * Blocks of one SM overlap; each goes to the first line that is free when it starts.  Batches may overlap
 * too, and then later ones go to lines that are free after all that was written there before.
 *
 * The numbers of a line's track and sequence follow from the SM's and the line's, so that lines can be opened
 * by whoever writes the SM's blocks, and the file is the same whoever does: GY_SM_LOW_LANES small numbers are
 * set aside for each SM when it is first seen, and large ones for the lines beyond, which are rare.
 *
 * Threading: one thread at a time per SM. */
#ifndef PROFILE_SM_LANES_H
#define PROFILE_SM_LANES_H

#include "profile/dense.h"

#define GY_SM_LANES 256u
#define GY_SM_LOW_LANES 32u
/* SMs of one recording; readers take numbers below 2^20. */
#define GY_SM_HIGH (1u << 19)
#define GY_SMS_OF_TRACE (GY_SM_HIGH / (GY_SM_LANES - GY_SM_LOW_LANES))

struct gy_sm_lanes {
    uint32_t number;                /* of the SM; immutable, as all that follows up to the count */
    uint32_t rank;                  /* among all SMs of the recording, below GY_SMS_OF_TRACE */
    bool numbered;                  /* slices have their block's number */
    gy_pftrace_track first, parent; /* of GY_SM_LOW_LANES tracks; what they are under */
    uint32_t first_sequence;
    uint32_t count, room;
    uint64_t *ends; /* of each lane's latest slice; UINT64_MAX where there is no lane yet; `room` is a
                     * multiple of 16 */
    struct gy_dense *lanes;
};

/* Where packets go: at least GY_SINK_ROOM bytes from `at` on, more() makes it so. */
#define GY_SINK_ROOM (3 * GY_DENSE_ROOM)
struct gy_sink {
    uint8_t *at, *end;
    void (*more)(struct gy_sink *sink);
};

/* Open a lane for blocks from `start_ns` on; `index` gets its place.  False: too many, or out of memory. */
bool gy_sm_lanes_open(struct gy_sm_lanes *sm, struct gy_sink *sink, uint64_t start_ns, uint32_t *index);

/* Bit i: lane i is free. */
static inline uint32_t gy_sm_lanes_free_of_8(const uint64_t *ends, uint64_t start_ns)
{
    uint32_t low = (uint32_t)(ends[0] <= start_ns) | (uint32_t)(ends[1] <= start_ns) << 1 |
                   (uint32_t)(ends[2] <= start_ns) << 2 | (uint32_t)(ends[3] <= start_ns) << 3;
    uint32_t high = (uint32_t)(ends[4] <= start_ns) | (uint32_t)(ends[5] <= start_ns) << 1 |
                    (uint32_t)(ends[6] <= start_ns) << 2 | (uint32_t)(ends[7] <= start_ns) << 3;
    return low | high << 4;
}

/* The first lane that is free at `start_ns`; at least `count`: there is none. */
static inline uint32_t gy_sm_lanes_free(const struct gy_sm_lanes *sm, uint64_t start_ns)
{
    for (uint32_t i = 0; i < sm->count; i += 16) { /* which of them cannot be predicted: no branches */
        const uint64_t *ends = sm->ends + i;
        uint32_t free_ones = gy_sm_lanes_free_of_8(ends, start_ns) | gy_sm_lanes_free_of_8(ends + 8, start_ns)
                                                                         << 8;
        if (free_ones != 0) {
            return i + (uint32_t)__builtin_ctz(free_ones);
        }
    }
    return sm->count;
}

void gy_sm_lanes_fini(struct gy_sm_lanes *sm);

#endif
