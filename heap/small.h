/* SPDX-License-Identifier: MIT */
/* The small tier gives blocks up to GY_SMALL_MAX bytes, from a general-purpose allocator that is fed with
 * chunks of memory it must not touch.
 *
 * Threading: any thread, except for create and destroy. */
#ifndef HEAP_SMALL_H
#define HEAP_SMALL_H

#include "heap/chunk.h"
#include "heap/usage.h"

struct gy_small;

/* Has this process an allocator for the small tier that never writes to blocks?  The first call tries it out
 * on host memory.
 * @retval GANTRY_OK
 * @retval GANTRY_ERR_UNSUPPORTED         none in this build, or it does write (warned of once)
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  it could not be tried */
GANTRY_MUST_CHECK gantry_status gy_small_probe(void);

/* Make an allocator without chunks.  The sums of its blocks go to `usage`, for which gy_usage_make_site() was
 * called with their sites; threads hold a part of the sums back until the tier is destroyed.
 * @retval GANTRY_ERR_UNSUPPORTED         none in this build, or the process has too many
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_small_create(struct gy_granules *map, struct gy_usage *usage,
                                                struct gy_small **out);
/* Destroy the tier and its live blocks.  Returns its chunks, linked by `next`; they belong to the caller
 * again. */
struct gy_chunk *gy_small_destroy(struct gy_small *small);

/* `chunk` is in the granule map; it stays with the small tier until it is removed. */
void gy_small_add_chunk(struct gy_small *small, struct gy_chunk *chunk);
/* Let go of the pages that no block uses, as far as the calling thread and the shared part hold them.  Other
 * threads let go of the blocks they keep when they next call the small tier. */
void gy_small_purge(struct gy_small *small);
/* Take out a chunk of which no page is in use; NULL when there is none. */
struct gy_chunk *gy_small_remove_chunk(struct gy_small *small);

enum gy_small_result {
    GY_SMALL_OK,
    GY_SMALL_WANTS_CHUNK, /* nothing fits: add a chunk and try again */
    GY_SMALL_NO_MEMORY,   /* host memory for the bookkeeping ran out */
};

/* `bytes` > 0.  Rounded up to `alignment` (a power of two from GY_UNIT_BYTES to GY_PAGE_BYTES) they are at
 * most GY_SMALL_MAX. */
enum gy_small_result gy_small_alloc(struct gy_small *small, size_t bytes, size_t alignment, uint32_t site,
                                    uintptr_t *out);
/* `bytes` and `site` are those that were asked for. */
void gy_small_free(struct gy_small *small, uintptr_t address, size_t bytes, uint32_t site);
/* The bytes that the block can hold where it is. */
size_t gy_small_capacity(uintptr_t address);
/* A block that was asked for with `before` bytes counts as `after` bytes from now on. */
void gy_small_resized(struct gy_small *small, uint32_t site, size_t before, size_t after);

/* A block that is no longer live, but was not freed, becomes a block of another site. */
void gy_small_reused(struct gy_small *small, uint32_t site, size_t bytes, uint32_t new_site,
                     size_t new_bytes);

/* Add the numbers in the threads' tallies to `sums`. */
void gy_small_collect(struct gy_small *small, struct gy_sums *sums);
void gy_small_collect_site(struct gy_small *small, uint32_t site, int64_t *bytes, int64_t *count);

/* No thread's tally is made or ended between these two calls.  False: this needs waiting, and `wait` is
 * false. */
GANTRY_MUST_CHECK bool gy_small_hold_tallies(struct gy_small *small, bool wait);
void gy_small_let_go_tallies(struct gy_small *small);
/* As gy_small_collect(), for one site. */
void gy_small_add_site(struct gy_small *small, uint32_t site, int64_t *bytes, int64_t *count);
/* As gy_park_allocated() and gy_park_freed(), for the tallies of the threads. */
GANTRY_MUST_CHECK bool gy_small_allocated(struct gy_small *small, uint64_t *sum);
uint64_t gy_small_freed(struct gy_small *small);

void gy_small_each_block(struct gy_small *small, gy_visit_fn visit, void *user);

#endif
