/* The page layer as its own files see it: ranges under its lock. */
#ifndef HEAP_PAGES_INSIDE_H
#define HEAP_PAGES_INSIDE_H

#include "heap/pages.h"

/* No block, no chunk, and nothing that waits for a stream. */
bool gy_slab_is_empty(const struct gy_slab *slab);

/* See to it that one operation has enough nodes, giving the lock up meanwhile if need be.  False: out of
 * host memory. */
bool gy_pages_ensure_room(struct gy_pages *pages) GY_REQUIRES(pages->lock);

/* Cut `range`, which is in no index, after `at` pages; the upper part, likewise in none, is FREE. */
struct gy_range *gy_pages_cut(struct gy_pages *pages, struct gy_range *range, size_t at)
    GY_REQUIRES(pages->lock);

/* A range of `count` pages out of a FREE one, in no index; NULL: there is none. */
struct gy_range *gy_pages_carve(struct gy_pages *pages, size_t count, size_t alignment)
    GY_REQUIRES(pages->lock);
/* Put a range that is in no index among the FREE ones, joined with such neighbours; one that has a waiter
 * goes to that. */
void gy_pages_release_one(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock);

/* `range`, in no index, waits in the index of its waiter. */
void gy_waiting_insert(struct gy_pages *pages, struct gy_page_waiter *waiter, struct gy_range *range,
                       uint64_t order) GY_REQUIRES(pages->lock);
/* Take a WAITING range out of the index of its waiter. */
void gy_waiting_remove(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock);
/* `range`, in no index, waits, joined with its neighbours that do so for the same waiter, or are free for all
 * and may be joined; what it became. */
struct gy_range *gy_waiting_join(struct gy_pages *pages, struct gy_range *range,
                                 struct gy_page_waiter *waiter, uint64_t order, bool even_free)
    GY_REQUIRES(pages->lock);
/* `range`, OWNED by the caller, waits. */
void gy_waiting_keep(struct gy_pages *pages, struct gy_range *range, struct gy_page_waiter *waiter,
                     uint64_t order) GY_REQUIRES(pages->lock);

/* A range that is in no index, and has its request, is live from now on. */
static inline void gy_pages_go_live(struct gy_range *range, enum gy_range_state state)
{
    gy_range_set_state(range, state);
    atomic_store_explicit(gy_live_at(range->slab, range->base), range, memory_order_release);
}

#endif
