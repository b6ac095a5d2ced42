/* SPDX-License-Identifier: MIT */
/* From an address to its region: a radix tree over 2 MiB granules of 57-bit addresses.
 *
 * Threading: any thread may call find() at any time without a lock; until fini(), levels are only added. */
#ifndef HEAP_GRANULES_H
#define HEAP_GRANULES_H

#include "heap/region.h"

#include <stdatomic.h>

#define GY_RADIX_BITS 12
#define GY_RADIX_SIZE ((size_t)1 << GY_RADIX_BITS)
#define GY_RADIX_MASK (GY_RADIX_SIZE - 1)

struct gy_radix_leaf {
    _Atomic(struct gy_heap_region *) regions[GY_RADIX_SIZE]; /* atomic */
};

struct gy_radix_node {
    _Atomic(struct gy_radix_leaf *) leaves[GY_RADIX_SIZE]; /* atomic; NULL, then one leaf for ever */
};

/* All zero bytes are an empty map. */
struct gy_granules {
    _Atomic(struct gy_radix_node *) nodes[GY_RADIX_SIZE]; /* atomic; NULL, then one node for ever */
};

/* Make the granules of [base, base + bytes) belong to `region`.  False, and nothing has changed: host memory
 * ran out, or the tree has no room for the address. */
GANTRY_MUST_CHECK bool gy_granules_add(struct gy_granules *map, uintptr_t base, size_t bytes,
                                       struct gy_heap_region *region);
/* Give granules that have been added before to another region; NULL takes them out. */
void gy_granules_replace(struct gy_granules *map, uintptr_t base, size_t bytes,
                         struct gy_heap_region *region);
/* Free the levels. */
void gy_granules_fini(struct gy_granules *map);

/* The region that `address` lies in, NULL when it is in none. */
static inline struct gy_heap_region *gy_granules_find(struct gy_granules *map, uintptr_t address)
{
    uintptr_t granule = address >> GY_GRANULE_SHIFT;
    if (granule >> (3 * GY_RADIX_BITS) != 0) {
        return NULL;
    }
    struct gy_radix_node *node =
        atomic_load_explicit(&map->nodes[granule >> (2 * GY_RADIX_BITS)], memory_order_acquire);
    if (node == NULL) {
        return NULL;
    }
    struct gy_radix_leaf *leaf =
        atomic_load_explicit(&node->leaves[(granule >> GY_RADIX_BITS) & GY_RADIX_MASK], memory_order_acquire);
    if (leaf == NULL) {
        return NULL;
    }
    return atomic_load_explicit(&leaf->regions[granule & GY_RADIX_MASK], memory_order_acquire);
}

#endif
