/* SPDX-License-Identifier: MIT */
/* The tails of a few streams of the pool, as points that work/few_points.h asks about. */
#ifndef DISPATCHER_ORDER_TAILS_H
#define DISPATCHER_ORDER_TAILS_H

#include "dispatcher/order/streams.h"
#include "work/few_points.h"

/* The tails of these streams, a bit for each.  They do not stand for all that is on a stream while a task
 * there has calls left: then nothing is known. */
static inline void gy_few_points_take(struct gy_few_points *points, const struct gy_streams *streams,
                                      uint64_t which)
{
    bool is_known = __builtin_popcountll(which) <= (int)GY_FEW_POINTS;
    uint32_t count = 0;
    for (; which != 0 && is_known; which &= which - 1) {
        const struct gy_stream *s = &streams->streams[__builtin_ctzll(which)];
        is_known = s->running == 0;
        points->completed[count] = &s->completed;
        points->seq[count++] = s->tail;
    }
    points->count = is_known ? count : 0;
}

#endif
