/* SPDX-License-Identifier: MIT */
/* What a 2 MiB granule of address space belongs to: a slab taken from the driver, or a chunk, which is a part
 * of a slab that was handed to the small tier. */
#ifndef HEAP_REGION_H
#define HEAP_REGION_H

#include <gantry/heap.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GY_GRANULE_SHIFT 21
#define GY_GRANULE_BYTES ((size_t)1 << GY_GRANULE_SHIFT)

struct gy_slab;

/* The first member of struct gy_slab and struct gy_chunk.  It is written before it is put into the granule
 * map, and unchanged while it is there. */
struct gy_heap_region {
    bool is_chunk;
    gantry_memory_kind kind;
    uintptr_t base; /* multiple of GY_GRANULE_BYTES */
    size_t bytes;   /* multiple of GY_GRANULE_BYTES */
    struct gy_slab *slab;
};

/* The region covers whole granules of a kind that exists, and leads to its slab. */
static inline bool gy_heap_region_is_valid(const struct gy_heap_region *region)
{
    return (unsigned)region->kind < GANTRY_MEMORY_KIND_COUNT && region->base % GY_GRANULE_BYTES == 0 &&
           region->bytes != 0 && region->bytes % GY_GRANULE_BYTES == 0 &&
           (!region->is_chunk || region->bytes == GY_GRANULE_BYTES);
}

/* A live block, for functions that visit all of them. */
struct gy_visited {
    uintptr_t base;
    size_t bytes; /* the bytes that were asked for */
    uint32_t site;
};
typedef void (*gy_visit_fn)(void *user, const struct gy_visited *block);

/* Round `bytes` up to whole granules; false when that overflows. */
static inline bool gy_granules_round(size_t bytes, size_t *out)
{
    if (bytes > SIZE_MAX - (GY_GRANULE_BYTES - 1)) {
        return false;
    }
    *out = (bytes + GY_GRANULE_BYTES - 1) & ~(GY_GRANULE_BYTES - 1);
    return true;
}

#endif
