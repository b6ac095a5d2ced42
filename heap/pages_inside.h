/* SPDX-License-Identifier: MIT */
/* The page layer as its own files see it: its ranges, under its lock. */
#ifndef HEAP_PAGES_INSIDE_H
#define HEAP_PAGES_INSIDE_H

#include "heap/pages.h"

/* The slab has no block, no chunk, and nothing that waits for a stream. */
bool gy_slab_is_empty(const struct gy_slab *slab);

/* Make sure that one operation has enough nodes; the lock may be given up meanwhile.  False: out of host
 * memory. */
bool gy_pages_ensure_room(struct gy_pages *pages) GY_REQUIRES(pages->lock);

/* Cut `range`, which is in no index, after `at` pages; the upper part is FREE and in no index either. */
struct gy_range *gy_pages_cut(struct gy_pages *pages, struct gy_range *range, size_t at)
    GY_REQUIRES(pages->lock);

/* Take `count` pages out of a FREE range; the result is in no index.  NULL: there is none. */
struct gy_range *gy_pages_carve(struct gy_pages *pages, size_t count, size_t alignment)
    GY_REQUIRES(pages->lock);
/* Put a range that is in no index among the FREE ones, joined with FREE neighbours; a range that has a waiter
 * goes to its waiter. */
void gy_pages_release_one(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock);

/* Put `range`, which is in no index, into the index of its waiter. */
void gy_waiting_insert(struct gy_pages *pages, struct gy_page_waiter *waiter, struct gy_range *range,
                       uint64_t order) GY_REQUIRES(pages->lock);
/* Take a WAITING range out of the index of its waiter. */
void gy_waiting_remove(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock);
/* Let `range`, which is in no index, wait.  It is joined with neighbours that wait for the same waiter, or
 * that are free for all and may be joined.  Returns the joined range. */
struct gy_range *gy_waiting_join(struct gy_pages *pages, struct gy_range *range,
                                 struct gy_page_waiter *waiter, uint64_t order, bool even_free)
    GY_REQUIRES(pages->lock);
/* Let `range`, which the caller OWNS, wait. */
void gy_waiting_keep(struct gy_pages *pages, struct gy_range *range, struct gy_page_waiter *waiter,
                     uint64_t order) GY_REQUIRES(pages->lock);

/* Make a range live that is in no index and has its request. */
static inline void gy_pages_go_live(struct gy_range *range, enum gy_range_state state)
{
    gy_range_set_state(range, state);
    atomic_store_explicit(gy_live_at(range->slab, range->base), range, memory_order_release);
}

#endif
