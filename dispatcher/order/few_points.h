/* The latest timeline points of a few streams: has the host seen that the GPU has passed them all?  Asking
 * this makes no call of the driver, which behind a pause takes microseconds.
 *
 * Of the dispatcher's thread (GD). */
#ifndef DISPATCHER_ORDER_FEW_POINTS_H
#define DISPATCHER_ORDER_FEW_POINTS_H

#include "dispatcher/order/streams.h"

#define GY_FEW_POINTS 4u

struct gy_few_points {
    uint32_t count; /* 0: there were more, or it is not known */
    uint32_t stream[GY_FEW_POINTS];
    uint64_t seq[GY_FEW_POINTS];
};

/* The tails of these streams, a bit for each. */
static inline void gy_few_points_take(struct gy_few_points *points, const struct gy_streams *streams,
                                      uint64_t which)
{
    points->count = 0;
    if (__builtin_popcountll(which) > (int)GY_FEW_POINTS) {
        return;
    }
    for (; which != 0; which &= which - 1) {
        const uint32_t stream = (uint32_t)__builtin_ctzll(which);
        points->stream[points->count] = stream;
        points->seq[points->count++] = streams->streams[stream].tail;
    }
}

/* False: not, or it is not known. */
static inline bool gy_few_points_are_passed(const struct gy_few_points *points,
                                            const struct gy_streams *streams)
{
    for (uint32_t i = 0; i < points->count; i++) {
        const struct gy_stream *s = &streams->streams[points->stream[i]];
        if (atomic_load_explicit(&s->completed, memory_order_acquire) < points->seq[i]) {
            return false;
        }
    }
    return points->count != 0;
}

#endif
