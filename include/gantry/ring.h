/* SPDX-License-Identifier: MIT */
/**
 * @file ring.h
 * Buffers that are used in turn, for pipelines in a bounded amount of memory.
 *
 * A ring has some buffers of one size.  Each piece of work takes the next one, and its tasks declare what
 * they do with it (access.h).  So the first of them comes after whatever was done with the buffer before:
 * nobody writes the edge from the last reader of a buffer to the task that writes it again.
 *
 * The tasks of a piece of work declare their accesses before the ring comes to their buffer again.
 */
#ifndef GANTRY_RING_H
#define GANTRY_RING_H

#include <gantry/access.h>
#include <gantry/heap.h>

GANTRY_BEGIN_DECLS

/** Buffers that are used in turn.  Any thread. */
typedef struct gantry_ring gantry_ring;

/** Make a ring of `count` buffers of `bytes` bytes each, aligned to 256 bytes, in one block of the heap.
 *  @param kind  of memory
 *  @param site  where it comes from, GANTRY_ALLOC_SITE("tag")
 *  @param out   the caller's, for gantry_ring_destroy()
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `heap` or `out` NULL, no bytes or buffers, or more than a size_t
 * counts
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY
 *  @retval others                       as gantry_heap_alloc() */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_ring_create(gantry_heap *heap, gantry_memory_kind kind,
                                                              size_t bytes, size_t count,
                                                              gantry_alloc_site site, gantry_ring **out);

/** The next buffer in turn, the ring's; behind the last comes the first again.  NULL for a ring that is NULL.
 */
GANTRY_API void *gantry_ring_next(gantry_ring *ring);

/** Free the ring and its buffers, which the GPU uses no more; before the heap goes.  NULL is ignored. */
GANTRY_API void gantry_ring_destroy(gantry_ring *ring);

GANTRY_END_DECLS

#endif
