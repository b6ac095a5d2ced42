/* SPDX-License-Identifier: MIT */
/* The stretches of time in which the device was busy.  Each moment counts once, in whatever order the
 * intervals are added.  The functions are pure. */
#ifndef PARTITION_BUSY_H
#define PARTITION_BUSY_H

#include <stdbool.h>
#include <stdint.h>

/* This is more than the number of intervals in flight: an interval that is added late still finds those
 * beside it. */
#define GY_BUSY_STRETCHES 64u

struct gy_busy_stretch {
    double begin, end; /* ns; begin < end */
};

/* All zero: nothing was added yet. */
struct gy_busy {
    bool has_floor;
    double floor;   /* all time before it counts as added */
    uint32_t count; /* stretches, which are disjoint and in order, and none before the floor */
    struct gy_busy_stretch stretches[GY_BUSY_STRETCHES];
};

/* Add that the device was busy from `begin` to `end` [ns].  Returns how much of this time is new. */
double gy_busy_add(struct gy_busy *busy, double begin, double end);

bool gy_busy_is_valid(const struct gy_busy *busy);

#endif
