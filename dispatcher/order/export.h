/* SPDX-License-Identifier: MIT */
/* Exports: events by which work of one device of a fleet comes after work of another.
 *
 * The dispatcher thread of the device that has the work records an event behind it and hands it out.  From
 * then on nothing about it changes, so any thread may make its streams wait for it, as often as it likes.
 * When nobody has it any more it goes back to its device, which records it again for other work. */
#ifndef DISPATCHER_ORDER_EXPORT_H
#define DISPATCHER_ORDER_EXPORT_H

#include "dispatcher/order/streams.h"

struct gy_export {
    _Atomic(uint32_t) refs;        /* atomic; how many holders it has */
    struct gy_export_pool *pool;   /* immutable */
    struct gy_export *next_unused; /* see `unused` of the pool */
    struct gy_export *next;        /* immutable; all of the pool */
    uint32_t stream;               /* immutable while there are refs; it was recorded there */
    struct gy_stream_event event;  /* likewise */
    int ordinal;                   /* likewise; of the device */
    uint64_t flow;                 /* likewise; the arrow to those who wait for it; 0: nothing is recorded */
};

struct gy_export_pool {
    struct gy_export *all;                    /* dispatcher thread only */
    struct gy_export *spare;                  /* dispatcher thread only; nobody holds these */
    _Atomic(struct gy_export *) unused;       /* atomic; nor these, which that thread takes all at once */
    struct gy_export *latest[GY_STREAMS_MAX]; /* dispatcher thread only; by stream; held; NULL: none yet */
};

/* The dispatcher thread: an export behind all timeline points of `clock`, which are on this device and not in
 * a graph that is still being built; it counts as one reference of the caller's.  NULL comes out when the
 * host has seen all of them pass.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, … */
GANTRY_MUST_CHECK gantry_status gy_export_make(struct gy_export_pool *pool, struct gy_streams *streams,
                                               uint64_t wait_set, uint32_t partition, struct gy_export **out);

static inline struct gy_export *gy_export_ref(struct gy_export *export)
{
    atomic_fetch_add_explicit(&export->refs, 1, memory_order_relaxed);
    return export;
}
/* Any thread.  NULL is ignored. */
static inline void gy_export_unref(struct gy_export *export)
{
    if (export == NULL || atomic_fetch_sub_explicit(&export->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    struct gy_export_pool *pool = export->pool;
    struct gy_export *head = atomic_load_explicit(&pool->unused, memory_order_relaxed);
    do {
        export->next_unused = head;
    } while (!atomic_compare_exchange_weak_explicit(&pool->unused, &head, export, memory_order_release,
                                                    memory_order_relaxed));
}

/* The dispatcher ends: nobody holds an export any more but for the pool. */
void gy_exports_fini(struct gy_export_pool *pool, const struct gy_driver *driver);

#endif
