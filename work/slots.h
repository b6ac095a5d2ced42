/* SPDX-License-Identifier: MIT */
/* Memory for the slots of executable graphs that are kept (work/slot_args.h): one block on the device and
 * one of page-locked memory, which are given out in parts at the same places.
 *
 *          make (outside of captures)         take               put; or retire, and the GPU has passed
 *     NONE -------------------------> FREE ---------> of a graph -------------------------------------> FREE
 *
 * The part of a graph that is dropped while the GPU may still read it is *retired*: with it goes the event
 * behind its latest launch, and it is free when that has passed.  The first slots are stand-ins, which nobody
 * ever writes.
 *
 * Everything belongs to the dispatcher's thread (GD). */
#ifndef WORK_SLOTS_H
#define WORK_SLOTS_H

#include "driver/context.h"

#include <stdbool.h>
#include <stdint.h>

#define GY_SLOTS_UNIT 256u  /* slots are given out in so many */
#define GY_SLOTS_UNITS 321u /* the first is of the stand-ins */
#define GY_SLOTS_RETIRED 64u

/* count 0: there is none. */
struct gy_slots_part {
    uint32_t first, count; /* units */
};

struct gy_slots_retired {
    struct gy_slots_part part;
    CUevent passed;
};

struct gy_slots {
    CUdeviceptr device; /* 0: it was not made */
    uint64_t *host;
    bool was_refused; /* there was no memory: it is not asked for again */
    uint8_t is_taken[GY_SLOTS_UNITS];
    struct gy_slots_retired retired[GY_SLOTS_RETIRED];
    uint32_t retired_count;
};

/* The context is current, and no capture of the thread's is open: get the memory, once.  Without it kernels
 * get the addresses of their records themselves. */
void gy_slots_make(struct gy_slots *slots, struct gy_context *context);
/* The GPU is done with all, or the context is lost. */
void gy_slots_fini(struct gy_slots *slots, struct gy_context *context);

/* A part with room for so many slots; there may be none. */
struct gy_slots_part gy_slots_take(struct gy_slots *slots, uint32_t count);
/* The GPU is done with it, or never had it. */
void gy_slots_put(struct gy_slots *slots, struct gy_slots_part part);
/* The GPU is done with it when it has passed the event, which belongs to us from now on.  False: there is no
 * room for it, and the part stays taken. */
bool gy_slots_retire(struct gy_slots *slots, struct gy_slots_part part, CUevent passed);

static inline CUdeviceptr gy_slots_on_device(const struct gy_slots *slots, struct gy_slots_part part)
{
    return slots->device + (CUdeviceptr)part.first * GY_SLOTS_UNIT * sizeof(uint64_t);
}
static inline uint64_t *gy_slots_on_host(const struct gy_slots *slots, struct gy_slots_part part)
{
    return slots->host + (size_t)part.first * GY_SLOTS_UNIT;
}

bool gy_slots_are_valid(const struct gy_slots *slots);

#endif
