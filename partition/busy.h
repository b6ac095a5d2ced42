/* Moments in which the device was busy, each counted once, whatever the order they are told in.  Pure. */
#ifndef PARTITION_BUSY_H
#define PARTITION_BUSY_H

#include <stdbool.h>
#include <stdint.h>

/* More stretches than intervals are in flight: an interval that is told late still finds those beside it. */
#define GY_BUSY_STRETCHES 64u

struct gy_busy_stretch {
    double begin, end; /* ns; begin < end */
};

/* Zeroed: nothing was told. */
struct gy_busy {
    bool has_floor;
    double floor;   /* all before it counts as told */
    uint32_t count; /* stretches, disjoint and in order, none before the floor */
    struct gy_busy_stretch stretches[GY_BUSY_STRETCHES];
};

/* The device was busy from `begin` to `end` [ns].  Returns how much of that was not told before. */
double gy_busy_add(struct gy_busy *busy, double begin, double end);

bool gy_busy_is_valid(const struct gy_busy *busy);

#endif
