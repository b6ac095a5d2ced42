/* SPDX-License-Identifier: MIT */
/* The page layer: carves slabs into ranges of 4 KiB pages.
 *
 * Its records lie in host memory.  It never touches the memory that it hands out, and never calls the driver.
 * Free neighbours inside a slab are always one range; slabs are never joined.
 *
 * Threading: any thread.  There is one lock (rank PAGES); it is held for O(1) work and never around an
 * allocation. */
#ifndef HEAP_PAGES_H
#define HEAP_PAGES_H

#include "base/hints.h"
#include "base/thread.h"
#include "heap/backing.h"
#include "heap/tlsf.h"

#include <assert.h>

struct gy_slab {
    struct gy_heap_region region;
    struct gy_backing backing;   /* immutable while the slab is in a page layer */
    struct gy_range *first;      /* guarded by the page layer's lock; NULL: not in a page layer */
    struct gy_slab *prev, *next; /* guarded by the page layer's lock */
    size_t idle_pages;           /* guarded by it; pages of FREE ranges and of HOLEs */
    size_t hole_bytes;           /* guarded by it; bytes of HOLEs, by which the slab is smaller */
    uint64_t *starts;            /* guarded by it; bit p: a range starts at page p */
    uint64_t *starts_summary;    /* guarded by it; bit w: word w of `starts` is not 0 */
    /* atomic entries; by page: the BLOCK or CHUNK that starts there.  The thread that takes an entry out owns
     * the range.  The array is readable while the slab is in the granule map or in the page layer, see
     * gy_pages_claim(). */
    _Atomic(struct gy_range *) *live;
};

static inline _Atomic(struct gy_range *) *gy_live_at(const struct gy_slab *slab, uintptr_t base)
{
    return &slab->live[(base - slab->region.base) >> GY_PAGE_SHIFT];
}

/* A stream or graph that ranges wait for.  Guarded by the page layer's lock. */
struct gy_page_waiter {
    struct gy_tlsf free; /* its WAITING ranges */
    size_t blocks;       /* live blocks of a graph, which come back to it */
    bool is_graph;       /* the waiter is a graph: its blocks come back to it for as long as it exists */
};

struct gy_pages {
    gy_mutex lock;             /* rank PAGES */
    char apart[GY_CACHE_LINE]; /* nobody's; who waits for the lock writes to its cache line */
    /* What nearly each operation uses lies together. */
    struct gy_range *spare; /* guarded by lock */
    size_t spare_count;     /* guarded by lock */
    size_t waiting_pages;   /* guarded by lock; pages of WAITING ranges */
    struct gy_page_waiter
        *lone; /* guarded by lock; the only waiter that has WAITING ranges; NULL: none or several have some */
    struct gy_tlsf free;         /* guarded by lock */
    struct gy_slab *slabs;       /* guarded by lock */
    _Atomic(size_t) empty_bytes; /* atomic; written under lock; bytes of slabs that are one free range */
    _Atomic(size_t) least_empty; /* atomic; written under lock, or by the watching thread; the least of
                                    empty_bytes since that was reset */
    struct range_batch *batch;   /* guarded by lock; the memory of the nodes */
    char apart_from_next[GY_CACHE_LINE]; /* nobody's */
};

/* To be called under the page layer's lock: the range lies in its slab without a gap to its neighbours, and
 * is marked where it starts. */
bool gy_range_is_valid(const struct gy_range *range);
/* The range is valid, and no neighbour of a FREE range is FREE. */
bool gy_range_is_joined(const struct gy_range *range);
/* The slab has no more idle pages than pages, and no more holes than idle pages.  It is linked with its
 * neighbours, and its first range begins where it begins. */
bool gy_slab_is_valid(const struct gy_slab *slab);
/* The stacks of spare nodes and of slabs are right, and so is the sum of empty slabs. */
bool gy_pages_are_valid(const struct gy_pages *pages);

enum gy_pages_result {
    GY_PAGES_OK,
    GY_PAGES_FULL,      /* there is no such range; a resize: it cannot be done in place */
    GY_PAGES_NO_MEMORY, /* host memory for the bookkeeping ran out */
    GY_PAGES_NOT_FOUND, /* no live range starts there */
};

/* False: out of host memory. */
GANTRY_MUST_CHECK bool gy_pages_init(struct gy_pages *pages);
/* End the page layer, from which all slabs have been removed. */
void gy_pages_fini(struct gy_pages *pages);

/* Make `slab` describe `backing`; it is in no page layer yet.  False: out of host memory. */
GANTRY_MUST_CHECK bool gy_slab_init(struct gy_slab *slab, gantry_memory_kind kind,
                                    const struct gy_backing *backing);
/* Free what belongs to the slab, which is in no page layer; the struct stays the caller's. */
void gy_slab_fini(struct gy_slab *slab);

/* Add the slab as one free range.  False: out of host memory. */
GANTRY_MUST_CHECK bool gy_pages_add_slab(struct gy_pages *pages, struct gy_slab *slab);
/* Take out a slab without live ranges, or any slab if `even_used`; NULL when there is none. */
struct gy_slab *gy_pages_remove_slab(struct gy_pages *pages, bool even_used);
/* Take out a slab without live ranges of at most `most` bytes, the largest of them. */
struct gy_slab *gy_pages_remove_empty(struct gy_pages *pages, size_t most);

/* The bytes that can be made into a range of any size, or given back: slabs without live ranges, and whole
 * units that lie free in other slabs (granules, where a slab has no units). */
size_t gy_pages_movable(struct gy_pages *pages);

/* The bytes of all units of virtual memory management that lie free as a whole while other units of their
 * slab are in use. */
size_t gy_pages_whole_units(struct gy_pages *pages);
/* Make holes of some of these units, next to each other in one slab: about `most` bytes, at least one unit.
 * NULL: there are none. */
struct gy_slab *gy_pages_punch(struct gy_pages *pages, size_t most, size_t *out_offset, size_t *out_bytes);

/* Take a range of `bytes` > 0 at a multiple of `alignment` (a power of two); `state` is BLOCK or CHUNK.
 * Returns OK, FULL or NO_MEMORY. */
enum gy_pages_result gy_pages_alloc(struct gy_pages *pages, enum gy_range_state state, size_t bytes,
                                    size_t alignment, uint32_t site, uintptr_t *out);

/* The request that a live BLOCK answers. */
struct gy_block_request {
    size_t bytes;
    uint32_t site;
};

/* Give the range of that state at `base` of `slab` back; `request` gets the request that it answered.
 * Returns OK or NOT_FOUND. */
enum gy_pages_result gy_pages_free(struct gy_pages *pages, struct gy_slab *slab, enum gy_range_state state,
                                   uintptr_t base, struct gy_block_request *request);

/* Make the BLOCK at `base` of `slab` hold `bytes` > 0 without moving it; `before` gets what was asked for it.
 * Returns OK, FULL, NO_MEMORY or NOT_FOUND. */
enum gy_pages_result gy_pages_resize(struct gy_pages *pages, struct gy_slab *slab, uintptr_t base,
                                     size_t bytes, struct gy_block_request *before);

/* Take the live range of that state at `base` of `slab`, without the lock; the caller owns it then.  NULL:
 * there is none.  The caller makes sure that the slab is not taken apart meanwhile. */
static inline struct gy_range *gy_pages_claim(struct gy_slab *slab, enum gy_range_state state, uintptr_t base)
{
    if (base % GY_PAGE_BYTES != 0) {
        return NULL;
    }
    _Atomic(struct gy_range *) *at = gy_live_at(slab, base);
    struct gy_range *range = atomic_load_explicit(at, memory_order_acquire);
    if (range == NULL || gy_range_state(range) != state ||
        !atomic_compare_exchange_strong_explicit(at, &range, NULL, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        return NULL;
    }
    gy_range_set_state(range, GY_RANGE_OWNED);
    return range;
}
/* Turn a range that the caller owns into a live BLOCK, without the lock. */
static inline void gy_pages_publish(struct gy_range *range, size_t bytes, uint32_t site)
{
    assert(gy_range_state(range) == GY_RANGE_OWNED && bytes <= range->pages << GY_PAGE_SHIFT);
    assert(atomic_load_explicit(gy_live_at(range->slab, range->base), memory_order_relaxed) == NULL);
    gy_range_set_request(range, bytes, site);
    gy_range_set_state(range, GY_RANGE_BLOCK);
    atomic_store_explicit(gy_live_at(range->slab, range->base), range, memory_order_release);
}
/* Give back ranges that the caller owns, linked by `next`. */
void gy_pages_release(struct gy_pages *pages, struct gy_range *first);

/* True when `address` lies in the requested bytes of a live BLOCK of `slab`. */
bool gy_pages_contain(struct gy_pages *pages, struct gy_slab *slab, uintptr_t address);

struct gy_pages_stats {
    size_t largest_free; /* bytes of the largest free range */
    size_t free_bytes;   /* of all free ranges */
    size_t empty_bytes;  /* of slabs without live ranges */
};
struct gy_pages_stats gy_pages_stats(struct gy_pages *pages);

/* Call `visit` for every live BLOCK under the lock; it must not call the page layer. */
void gy_pages_each_block(struct gy_pages *pages, gy_visit_fn visit, void *user);

/* Call `visit` for every slab and every range in it, in address order, under the lock. */
void gy_pages_each_range(struct gy_pages *pages,
                         void (*visit)(void *user, const struct gy_slab *slab, const struct gy_range *range),
                         void *user);

/* Find the live BLOCK of `slab` that `address` lies in, counting all its pages; false when there is none. */
bool gy_pages_block_at(struct gy_pages *pages, struct gy_slab *slab, uintptr_t address,
                       struct gy_visited *out);

#endif
