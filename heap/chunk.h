/* SPDX-License-Identifier: MIT */
/* Chunks, which are the 2 MiB pieces that the small tier lives in, and the records of their blocks.
 *
 * A chunk knows which of its pages belong to the small tier's allocator (struct gy_chunk_pool) and, for
 * every 256-byte unit, the block that starts there.  Both lie beside the chunk in host memory. */
#ifndef HEAP_CHUNK_H
#define HEAP_CHUNK_H

#include "base/thread.h"
#include "heap/granules.h"
#include "heap/tlsf.h"

#define GY_UNIT_SHIFT 8
#define GY_UNIT_BYTES ((size_t)1 << GY_UNIT_SHIFT)
#define GY_CHUNK_UNITS (GY_GRANULE_BYTES >> GY_UNIT_SHIFT)
#define GY_CHUNK_PAGES (GY_GRANULE_BYTES >> GY_PAGE_SHIFT)
#define GY_CHUNK_RUN_CLASSES 10 /* for runs of 1, 2–3, 4–7, …, 512 pages */

/* The size of the largest block of the small tier. */
#define GY_SMALL_MAX 14336u

/* The record of a block has its size in the low bits and its site above them; 0: no block starts here. */
#define GY_RECORD_SIZE_BITS 14
#define GY_SITE_BITS (32 - GY_RECORD_SIZE_BITS)

struct gy_chunk {
    struct gy_heap_region region;
    struct gy_chunk *prev, *next;              /* guarded by the pool's lock */
    uint64_t used[GY_CHUNK_PAGES / 64];        /* guarded by the pool's lock; bit p: page p is given out */
    unsigned longest;                          /* guarded by the pool's lock; longest run of free pages */
    _Atomic(uint32_t) records[GY_CHUNK_UNITS]; /* atomic */
};

/* To be called under the pool's lock: the chunk is a granule of its slab, is linked with its neighbours, and
 * `longest` is the longest run of pages that are free. */
bool gy_chunk_is_valid(const struct gy_chunk *chunk);

static inline uint32_t gy_record_size(uint32_t record)
{
    return record & ((1u << GY_RECORD_SIZE_BITS) - 1);
}

static inline uint32_t gy_record_site(uint32_t record)
{
    return record >> GY_RECORD_SIZE_BITS;
}

/* Note the block at `address` of `bytes` ≤ GY_SMALL_MAX. */
static inline void gy_chunk_record(struct gy_chunk *chunk, uintptr_t address, size_t bytes, uint32_t site)
{
    atomic_store_explicit(&chunk->records[(address - chunk->region.base) >> GY_UNIT_SHIFT],
                          (uint32_t)bytes | site << GY_RECORD_SIZE_BITS, memory_order_release);
}

/* Take the record of the block at `address` away; 0 when no block starts there.  When several threads free
 * the same block, one of them gets the record. */
static inline uint32_t gy_chunk_take(struct gy_chunk *chunk, uintptr_t address)
{
    if (address % GY_UNIT_BYTES != 0) {
        return 0;
    }
    return atomic_exchange_explicit(&chunk->records[(address - chunk->region.base) >> GY_UNIT_SHIFT], 0,
                                    memory_order_acq_rel);
}

/* The record of the block at `address`, 0 when no block starts there. */
uint32_t gy_chunk_peek(struct gy_chunk *chunk, uintptr_t address);

/* True when `address` lies in the requested bytes of a live block. */
bool gy_chunk_contain(struct gy_chunk *chunk, uintptr_t address);

/* Find the live block that starts last at or below `address`, no further away than a block may reach; false
 * when there is none. */
bool gy_chunk_block_at(struct gy_chunk *chunk, uintptr_t address, struct gy_visited *out);

/* The pages of any number of chunks, for an allocator that takes and returns runs of pages; it may return a
 * part of a run, or several runs at once.  Threading: any thread; never allocates nor calls out. */
struct gy_chunk_pool {
    gy_mutex lock;                                     /* rank PAGES */
    struct gy_granules *map;                           /* immutable */
    struct gy_chunk *by_run[GY_CHUNK_RUN_CLASSES + 1]; /* guarded by lock; by floor(log2(longest)) + 1 */
};

void gy_chunk_pool_init(struct gy_chunk_pool *pool, struct gy_granules *map);
void gy_chunk_pool_fini(struct gy_chunk_pool *pool);

/* All pages of `chunk`, which is in the map, become free. */
void gy_chunk_pool_add(struct gy_chunk_pool *pool, struct gy_chunk *chunk);
/* Take out one chunk all of whose pages are free, or any chunk if `even_used`; NULL when there is none. */
struct gy_chunk *gy_chunk_pool_remove(struct gy_chunk_pool *pool, bool even_used);

/* Take a run of pages; 0 when there is none.  `alignment` is a power of two. */
uintptr_t gy_chunk_pool_take(struct gy_chunk_pool *pool, size_t bytes, size_t alignment);
void gy_chunk_pool_return(struct gy_chunk_pool *pool, uintptr_t base, size_t bytes);

/* Call `visit` for every block, under the lock. */
void gy_chunk_pool_each_block(struct gy_chunk_pool *pool, gy_visit_fn visit, void *user);

#endif
