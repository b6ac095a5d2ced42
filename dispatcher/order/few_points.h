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

/* The tails of these streams, a bit for each.  They do not stand for all that is on a stream while a task
 * there has calls left: then nothing is known. */
static inline void gy_few_points_take(struct gy_few_points *points, const struct gy_streams *streams,
                                      uint64_t which)
{
    bool is_known = __builtin_popcountll(which) <= (int)GY_FEW_POINTS;
    uint32_t count = 0;
    for (; which != 0 && is_known; which &= which - 1) {
        const uint32_t stream = (uint32_t)__builtin_ctzll(which);
        is_known = streams->streams[stream].running == 0;
        points->stream[count] = stream;
        points->seq[count++] = streams->streams[stream].tail;
    }
    points->count = is_known ? count : 0;
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
