/* SPDX-License-Identifier: MIT */
/* Wait sets: the timeline points a task must come after, carried along the edges of the graph.
 *
 * A timeline point (s, n) says "the n-th task that finished launching on stream s".  A wait set is 64 bits in
 * the task: nothing, one timeline point, or a pointer to a vector clock with one timeline point per stream.
 * In a fleet a timeline point also says on which of its devices, and while a task comes after work of several
 * its wait set is a crossing: see fleet/crossing.h.
 * GPU work is ordered by the wait set of the task alone, so a CPU task or a sync point between two GPU tasks
 * passes the order on and costs nothing else. */
#ifndef DISPATCHER_ORDER_WAIT_SET_H
#define DISPATCHER_ORDER_WAIT_SET_H

#include "base/hints.h"
#include "base/thread.h"
#include "dispatcher/streams_max.h"
#include "taskman/graph/task.h"

#include <stdatomic.h>

struct gy_crossing;

struct gy_clock {
    struct gy_clock *next_free; /* guarded by the pool's lock */
    struct gy_crossing
        *crossing;    /* immutable; that it is part of, which holds what to wait for besides; NULL: none */
    uint32_t refs;    /* guarded by the pool's lock; tasks whose wait set points here */
    uint32_t home;    /* stream of the first timeline point carried: the preferred one to inherit */
    uint64_t streams; /* bit s: seq[s] is a timeline point */
    uint64_t seq[GY_STREAMS_MAX];
};

/* Clocks are taken at creation; when all are in use, a wait set degrades to "after everything". */
struct gy_wait_set_pool {
    gy_mutex lock;         /* rank WAIT_SETS */
    struct gy_clock *free; /* guarded by lock */
    struct gy_clock *all;  /* immutable */
    uint32_t count;        /* immutable; of all */
};

#define GY_WAIT_SET_NONE UINT64_C(0)
#define GY_WAIT_SET_ALL UINT64_C(2) /* after everything launched so far */

/* Bit 0 marks a point; above it are the stream in 8 bits, the device in 4, and the position. */
static inline uint64_t gy_timeline_point_on(uint32_t device, uint32_t stream, uint64_t seq)
{
    return seq << 13 | (uint64_t)device << 9 | (uint64_t)stream << 1 | GY_WAIT_SET_PLAIN;
}
/* The same, where the point at position 0 of the stream is known. */
static inline uint64_t gy_timeline_point_of(uint64_t origin, uint64_t seq)
{
    return seq << 13 | origin;
}
static inline uint64_t gy_timeline_point(uint32_t stream, uint64_t seq)
{
    return gy_timeline_point_on(0, stream, seq);
}
static inline bool gy_wait_set_is_point(uint64_t wait_set)
{
    return (wait_set & GY_WAIT_SET_PLAIN) != 0;
}
static inline uint32_t gy_timeline_stream(uint64_t point)
{
    return (uint32_t)(point >> 1) & 0xffu;
}
/* Is it a point on this stream? */
static inline bool gy_wait_set_is_point_of(uint64_t wait_set, uint32_t stream)
{
    return (wait_set & 0x1ff) == ((uint64_t)stream << 1 | GY_WAIT_SET_PLAIN);
}
static inline uint64_t gy_timeline_seq(uint64_t point)
{
    return point >> 13;
}
/* Which of its fleet's devices the stream is on. */
static inline uint32_t gy_timeline_device(uint64_t point)
{
    return (uint32_t)(point >> 9) & 0xfu;
}

/* A clock by itself, as it lies in a crossing. */
void gy_clock_clear(struct gy_clock *clock);
void gy_clock_add(struct gy_clock *clock, uint32_t stream, uint64_t seq);
void gy_clock_add_clock(struct gy_clock *clock, const struct gy_clock *from);
/* The clock of a wait set that is one. */
static inline struct gy_clock *gy_clock_of(uint64_t wait_set)
{
    return (struct gy_clock *)(uintptr_t)wait_set; /* NOLINT: the encoding above */
}

/* The clock has a timeline point for each of its streams, and a home if it has any. */
bool gy_clock_is_valid(const struct gy_clock *clock);

GANTRY_MUST_CHECK gantry_status gy_wait_set_pool_init(struct gy_wait_set_pool *pool, uint32_t clocks);
void gy_wait_set_pool_fini(struct gy_wait_set_pool *pool);

/* Merge `from` into the wait set at `to`.  Any thread; several may merge into the same `to` at once. */
void gy_wait_set_merge(struct gy_wait_set_pool *pool, _Atomic(uint64_t) *to, uint64_t from);

static inline bool gy_wait_set_is_clock(uint64_t wait_set)
{
    return wait_set != GY_WAIT_SET_NONE && wait_set != GY_WAIT_SET_ALL && !gy_wait_set_is_point(wait_set);
}

/* A wait set that is a clock is no longer needed. */
GY_RARE void gy_wait_set_drop_clock(struct gy_wait_set_pool *pool, uint64_t clock);

/* A wait set is no longer needed. */
static inline void gy_wait_set_drop(struct gy_wait_set_pool *pool, uint64_t wait_set)
{
    if (gy_wait_set_is_clock(wait_set)) {
        gy_wait_set_drop_clock(pool, wait_set);
    }
}

/* A wait set as a clock (refs and links do not count), in `room` if it is none yet; NULL for GY_WAIT_SET_ALL,
 * and nothing in `room`.  The wait set must be final: no thread merges into it any more. */
const struct gy_clock *gy_wait_set_read(uint64_t wait_set, struct gy_clock *room);

#endif
