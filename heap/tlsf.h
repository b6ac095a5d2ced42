/* SPDX-License-Identifier: MIT */
/* The index of free ranges.  It is two-level segregated fit (M. Masmano, I. Ripoll, A. Crespo, J. Real,
 * "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004), with its nodes out of band: the
 * memory that a range describes is never touched.
 *
 * Row r holds ranges of 2^(r+4) up to 2^(r+5)-1 pages, cut into 32 columns of equal width; row 0 holds
 * ranges below 32 pages, one column per page count.  Insert, remove and find are O(1).
 *
 * Threading: none; the caller's lock. */
#ifndef HEAP_TLSF_H
#define HEAP_TLSF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GY_PAGE_SHIFT 12
#define GY_PAGE_BYTES ((size_t)1 << GY_PAGE_SHIFT)

#define GY_TLSF_COLUMN_BITS 5
#define GY_TLSF_COLUMNS (1u << GY_TLSF_COLUMN_BITS)
#define GY_TLSF_ROWS (64 - GY_PAGE_SHIFT - GY_TLSF_COLUMN_BITS + 1)

struct gy_slab;

enum gy_range_state {
    GY_RANGE_SPARE,   /* an unused node */
    GY_RANGE_FREE,    /* in the index */
    GY_RANGE_BLOCK,   /* a block of a caller */
    GY_RANGE_CHUNK,   /* given to the small tier */
    GY_RANGE_HOLE,    /* its memory was given back alone; only the address range is left */
    GY_RANGE_OWNED,   /* claimed by one thread, or parked (park.h): neither in an index nor live */
    GY_RANGE_WAITING, /* free for one stream or graph only (waiting.h): in the index of that waiter */
};

/* A run of pages of one slab.  It is guarded by the lock of the page layer, except for its atomic fields and,
 * while the state is OWNED, `next`: its owner writes these. */
struct gy_range {
    /* The struct has cache lines of its own, since blocks of several threads are neighbours here. */
    _Alignas(64) _Atomic(uint32_t) state; /* atomic; enum gy_range_state */
    _Atomic(uint32_t) site;               /* atomic; of a BLOCK: the site that asked for it */
    struct gy_slab *slab;                 /* not SPARE */
    struct gy_range *below;               /* neighbour at lower addresses in the slab, NULL at its start */
    struct gy_range *above;               /* neighbour at higher addresses, NULL at its end */
    struct gy_range
        *next;      /* FREE: next in its column; OWNED: next where it is parked; SPARE: next in the stack */
    uintptr_t base; /* multiple of GY_PAGE_BYTES */
    size_t pages;   /* > 0 */
    _Atomic(size_t) requested;     /* atomic; of a BLOCK: bytes asked for; the first cache line ends here */
    struct gy_range *prev;         /* FREE, WAITING: previous in its column */
    struct gy_page_waiter *waiter; /* WAITING: the waiter that may use it; BLOCK, OWNED: the waiter that gets
                                      it when it is freed; NULL: everybody */
    uint64_t order;                /* WAITING: the mark of the waiter after which it is everybody's */
    atomic_bool shared;            /* atomic; of a BLOCK: other streams were recorded for it (streams.h) */
};

static inline enum gy_range_state gy_range_state(const struct gy_range *range)
{
    return (enum gy_range_state)atomic_load_explicit(&range->state, memory_order_relaxed);
}

static inline void gy_range_set_state(struct gy_range *range, enum gy_range_state state)
{
    atomic_store_explicit(&range->state, (uint32_t)state, memory_order_relaxed);
}

/* The range is in an index. */
static inline bool gy_range_is_idle(const struct gy_range *range)
{
    return gy_range_state(range) == GY_RANGE_FREE || gy_range_state(range) == GY_RANGE_WAITING;
}

static inline size_t gy_range_requested(const struct gy_range *range)
{
    return atomic_load_explicit(&range->requested, memory_order_relaxed);
}

static inline uint32_t gy_range_site(const struct gy_range *range)
{
    return atomic_load_explicit(&range->site, memory_order_relaxed);
}

static inline void gy_range_set_request(struct gy_range *range, size_t bytes, uint32_t site)
{
    atomic_store_explicit(&range->requested, bytes, memory_order_relaxed);
    atomic_store_explicit(&range->site, site, memory_order_relaxed);
}

struct gy_tlsf {
    size_t pages;                                          /* of all ranges */
    uint64_t rows;                                         /* bit r: row r has a range */
    uint32_t columns[GY_TLSF_ROWS];                        /* bit c: column c of the row has a range */
    struct gy_range *heads[GY_TLSF_ROWS][GY_TLSF_COLUMNS]; /* last in, first out */
};

/* `range` is FREE, or WAITING in the index of a waiter, and its size is set. */
void gy_tlsf_insert(struct gy_tlsf *tlsf, struct gy_range *range);
void gy_tlsf_remove(struct gy_tlsf *tlsf, struct gy_range *range);

/* Find a range that holds `pages` pages at a multiple of `alignment` bytes (a power of two, at least a page);
 * it stays in the index.  NULL: no range has room for pages * (1 + 1/16) + alignment. */
struct gy_range *gy_tlsf_find(struct gy_tlsf *tlsf, size_t pages, size_t alignment);

/* Find a range as gy_tlsf_find() does, but prefer the smallest of the first few ranges of its own size to any
 * larger one.  This is slower, and the range is nearer to what was asked for. */
struct gy_range *gy_tlsf_find_close(struct gy_tlsf *tlsf, size_t pages, size_t alignment);

/* The column of ranges of `pages` pages leads to such ranges and is marked, or is empty and not marked. */
bool gy_tlsf_column_is_valid(const struct gy_tlsf *tlsf, size_t pages);
/* A range in the index is linked as its column says. */
bool gy_tlsf_link_is_valid(const struct gy_tlsf *tlsf, const struct gy_range *range);

/* The pages of the largest range, 0 when there is none. */
size_t gy_tlsf_largest(const struct gy_tlsf *tlsf);

#endif
