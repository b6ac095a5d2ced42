/* The reclaimer: does what takes long, so that nobody else has to, and not all at once.
 *
 * Two sorts of work: releases of the application's memory, and kinds that have more unused slabs than they
 * are let.  Threading: any thread; work runs with no lock held. */
#ifndef HEAP_RECLAIMER_H
#define HEAP_RECLAIMER_H

#include "base/thread.h"

#include <gantry/heap.h>

struct gy_reclaimer {
    gantry_reclaim_policy policy;                                           /* immutable */
    uint64_t most_bytes;                                                    /* immutable; in the queue */
    void (*trim)(void *user, gantry_memory_kind kind, uint64_t *out_bytes); /* immutable */
    void *user;                                                             /* immutable */
    gy_thread thread;                                                       /* immutable; not with INLINE */
    gy_mutex lock;                                                          /* rank HEAP */
    gy_cond work;                                                           /* the thread waits */
    gy_cond room;               /* others wait: for room, or for everything to be done */
    struct gy_release *first;   /* guarded by lock; the queue */
    struct gy_release *last;    /* guarded by lock */
    struct gy_release *threads; /* guarded by lock; UNBOUNDED: releases with a thread of their own */
    unsigned trims;             /* guarded by lock; bit k: kind k has an excess */
    bool trimming;              /* guarded by lock */
    bool closing;               /* guarded by lock; never goes back */
    uint64_t running;           /* guarded by lock; releases being called */
    gantry_reclaim_stats stats; /* guarded by lock */
};

GANTRY_MUST_CHECK gantry_status
gy_reclaimer_init(struct gy_reclaimer *reclaimer, gantry_reclaim_policy policy, uint64_t most_bytes,
                  void (*trim)(void *user, gantry_memory_kind kind, uint64_t *out_bytes), void *user);
/* Does what is left first. */
void gy_reclaimer_fini(struct gy_reclaimer *reclaimer);

/* As gantry_heap_reclaim(). */
void gy_reclaimer_add(struct gy_reclaimer *reclaimer, void (*release)(void *arg), void *arg, uint64_t bytes);
/* Have trim() called for `kind`. */
void gy_reclaimer_trim(struct gy_reclaimer *reclaimer, gantry_memory_kind kind);
void gy_reclaimer_wait(struct gy_reclaimer *reclaimer);
gantry_reclaim_stats gy_reclaimer_stats(struct gy_reclaimer *reclaimer);

#endif
