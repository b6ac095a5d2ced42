/* SPDX-License-Identifier: MIT */
/* The reclaimer does what takes long, so that nobody else has to do it, and never all at once.
 *
 * There are two sorts of work: releases of the application's memory, and trims of kinds that have more unused
 * slabs than they may keep.  A lane per memory kind does both, with a thread of its own: releases come first,
 * one at a time and in order, since somebody may wait for room.  A lane's thread is made when the kind takes
 * its first slab or gets its first release, whichever is first, so that no free() makes one.  Where no thread
 * can be had, the caller does the work.
 *
 * Threading: any thread; the work runs with no lock held. */
#ifndef HEAP_RECLAIMER_H
#define HEAP_RECLAIMER_H

#include "base/thread.h"

#include <gantry/heap.h>

enum gy_reclaim_lane_state {
    GY_LANE_IDLE,     /* there is no thread: the next open() tries to make one */
    GY_LANE_STARTING, /* open() is making the thread; work waits for it */
    GY_LANE_RUNNING,  /* the thread runs until fini() */
};

struct gy_reclaim_lane {
    struct gy_reclaimer *reclaimer;   /* immutable */
    gantry_memory_kind kind;          /* immutable */
    enum gy_reclaim_lane_state state; /* guarded by lock; enter() of reclaimer.c is the only writer */
    gy_thread thread;                 /* valid in RUNNING; open() and fini() only */
    gy_cond work;                     /* the lane's thread waits here */
    struct gy_release *first;         /* guarded by lock; the queue */
    struct gy_release *last;          /* guarded by lock */
    uint64_t queued_bytes;            /* guarded by lock; bytes of releases that wait or run */
    bool trim;                        /* guarded by lock; the kind has an excess */
    uint64_t trim_at_ns;              /* guarded by lock; with `trim`: the trim runs no earlier than this */
    bool grow;                        /* guarded by lock; memory is to be mapped beforehand */
    bool busy;                        /* guarded by lock; some thread does the lane's work */
};

struct gy_reclaimer {
    gantry_reclaim_policy policy; /* immutable */
    uint64_t most_bytes;          /* immutable; bytes in a lane's queue */
    void (*trim)(void *user, gantry_memory_kind kind, uint64_t *out_bytes); /* immutable */
    void (*grow)(void *user, gantry_memory_kind kind);                      /* immutable */
    void *user;                                                             /* immutable */
    gy_mutex lock;                                                          /* rank HEAP */
    gy_cond room; /* other threads wait here: for room, or until everything is done */
    struct gy_reclaim_lane lanes[GANTRY_MEMORY_KIND_COUNT]; /* own guards */
    struct gy_release *threads; /* guarded by lock; UNBOUNDED: releases that have a thread of their own */
    bool closing;               /* guarded by lock; never goes back */
    uint64_t running;           /* guarded by lock; releases that are being called */
    gantry_reclaim_stats stats; /* guarded by lock */
};

/* To be called with the lock held.  The queue has an end if it has a beginning, and bytes wait if a release
 * waits. */
bool gy_reclaim_lane_is_valid(const struct gy_reclaim_lane *lane);
/* All lanes are valid, and their sums are right. */
bool gy_reclaimer_is_valid(const struct gy_reclaimer *reclaimer);

GANTRY_MUST_CHECK gantry_status
gy_reclaimer_init(struct gy_reclaimer *reclaimer, gantry_reclaim_policy policy, uint64_t most_bytes,
                  void (*trim)(void *user, gantry_memory_kind kind, uint64_t *out_bytes),
                  void (*grow)(void *user, gantry_memory_kind kind), void *user);
/* Do what is left to do, then end. */
void gy_reclaimer_fini(struct gy_reclaimer *reclaimer);

/* Make a thread for the kind, if one can be had and the policy wants one. */
void gy_reclaimer_open(struct gy_reclaimer *reclaimer, gantry_memory_kind kind);
/* Let the reclaimer call trim() for `kind`, in `delay_ns` at the earliest. */
void gy_reclaimer_trim(struct gy_reclaimer *reclaimer, gantry_memory_kind kind, uint64_t delay_ns);
/* Let the reclaimer call grow() for `kind`, if the kind has a thread. */
void gy_reclaimer_grow(struct gy_reclaimer *reclaimer, gantry_memory_kind kind);

#endif
