/* Trails: the GPU positions a task must come after, carried along the edges of the graph.
 *
 * A position (s, n) says "the n-th task that finished launching on stream s".  A trail is 64 bits in the
 * task: nothing, one position, or a pointer to a vector clock with one position per stream.  GPU work is
 * ordered by the trail of the task alone, so a CPU task or a sync point between two GPU tasks passes the
 * order on and costs nothing else. */
#ifndef DISPATCHER_ORDER_TRAIL_H
#define DISPATCHER_ORDER_TRAIL_H

#include "base/hints.h"
#include "base/thread.h"
#include "dispatcher/dispatcher.h"
#include "taskman/gpu_task.h"

#include <stdatomic.h>

struct gy_clock {
    struct gy_clock *next_free; /* guarded by the pool's lock */
    uint32_t refs;              /* guarded by the pool's lock; tasks whose trail points here */
    uint32_t home;              /* stream of the first position carried: the preferred one to inherit */
    uint64_t streams;           /* bit s: seq[s] is a position */
    uint64_t seq[GY_STREAMS_MAX];
};

/* Clocks are taken at creation; when all are in use, a trail degrades to "after everything". */
struct gy_trail_pool {
    gy_mutex lock;         /* rank TRAIL */
    struct gy_clock *free; /* guarded by lock */
    struct gy_clock *all;  /* immutable */
    uint32_t count;        /* immutable; of all */
};

#define GY_TRAIL_NONE UINT64_C(0)
#define GY_TRAIL_ALL UINT64_C(2) /* after everything launched so far */

static inline uint64_t gy_trail_at(uint32_t stream, uint64_t seq)
{
    return seq << 9 | (uint64_t)stream << 1 | GY_TRAIL_PLAIN;
}
static inline bool gy_trail_is_position(uint64_t trail)
{
    return (trail & GY_TRAIL_PLAIN) != 0;
}
static inline uint32_t gy_trail_stream(uint64_t position)
{
    return (uint32_t)(position >> 1) & 0xffu;
}
static inline uint64_t gy_trail_seq(uint64_t position)
{
    return position >> 9;
}

/* It has a position for each of its streams, and a home if it has any. */
bool gy_clock_is_valid(const struct gy_clock *clock);

GANTRY_MUST_CHECK gantry_status gy_trail_pool_init(struct gy_trail_pool *pool, uint32_t clocks);
void gy_trail_pool_fini(struct gy_trail_pool *pool);

/* Merge `from` into the trail at `to`.  Any thread; several may merge into the same `to` at once. */
void gy_trail_merge(struct gy_trail_pool *pool, _Atomic(uint64_t) *to, uint64_t from);

static inline bool gy_trail_is_clock(uint64_t trail)
{
    return trail != GY_TRAIL_NONE && trail != GY_TRAIL_ALL && !gy_trail_is_position(trail);
}

/* A trail that is a clock is no longer needed. */
GY_RARE void gy_trail_drop_clock(struct gy_trail_pool *pool, uint64_t clock);

/* A trail is no longer needed. */
static inline void gy_trail_drop(struct gy_trail_pool *pool, uint64_t trail)
{
    if (gy_trail_is_clock(trail)) {
        gy_trail_drop_clock(pool, trail);
    }
}

/* A trail as a clock (refs and links do not count), in `room` if it is none yet; NULL for GY_TRAIL_ALL, and
 * nothing in `room`.  The trail must be final: no thread merges into it any more. */
const struct gy_clock *gy_trail_read(uint64_t trail, struct gy_clock *room);

#endif
