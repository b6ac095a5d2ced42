/* SPDX-License-Identifier: MIT */
/* The latest timeline points of a few streams: has the host seen that the GPU has passed them all?  Asking
 * this makes no call of the driver, which behind a pause takes microseconds.
 *
 * Of the dispatcher's thread (GD). */
#ifndef WORK_FEW_POINTS_H
#define WORK_FEW_POINTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GY_FEW_POINTS 4u

struct gy_few_points {
    uint32_t count;                                    /* 0: there were more, or it is not known */
    const _Atomic(uint64_t) *completed[GY_FEW_POINTS]; /* how far the GPU is, as the host knows */
    uint64_t seq[GY_FEW_POINTS];
};

/* False: not, or it is not known. */
static inline bool gy_few_points_are_passed(const struct gy_few_points *points)
{
    for (uint32_t i = 0; i < points->count; i++) {
        if (atomic_load_explicit(points->completed[i], memory_order_acquire) < points->seq[i]) {
            return false;
        }
    }
    return points->count != 0;
}

#endif
