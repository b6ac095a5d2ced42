/* SPDX-License-Identifier: MIT */
#include "heap/granules.h"

#include "base/alloc.h"

#include <assert.h>

/* The leaf of a granule, which is made if need be; NULL: out of host memory. */
static struct gy_radix_leaf *leaf_for(struct gy_granules *map, uintptr_t granule)
{
    _Atomic(struct gy_radix_node *) *node_at = &map->nodes[granule >> (2 * GY_RADIX_BITS)];
    struct gy_radix_node *node = atomic_load_explicit(node_at, memory_order_acquire);
    if (node == NULL) {
        struct gy_radix_node *made = gy_zalloc(sizeof(*made));
        if (made == NULL) {
            return NULL;
        }
        /* Another thread may have made the node meanwhile: then `node` becomes that node. */
        if (atomic_compare_exchange_strong(node_at, &node, made)) {
            node = made;
        } else {
            gy_free(made);
        }
    }
    _Atomic(struct gy_radix_leaf *) *leaf_at = &node->leaves[(granule >> GY_RADIX_BITS) & GY_RADIX_MASK];
    struct gy_radix_leaf *leaf = atomic_load_explicit(leaf_at, memory_order_acquire);
    if (leaf == NULL) {
        struct gy_radix_leaf *made = gy_zalloc(sizeof(*made));
        if (made == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(leaf_at, &leaf, made)) {
            leaf = made;
        } else {
            gy_free(made);
        }
    }
    return leaf;
}

bool gy_granules_add(struct gy_granules *map, uintptr_t base, size_t bytes, struct gy_heap_region *region)
{
    assert((base | bytes) % GY_GRANULE_BYTES == 0 && bytes > 0);
    assert(gy_heap_region_is_valid(region));
    uintptr_t first = base >> GY_GRANULE_SHIFT;
    uintptr_t count = bytes >> GY_GRANULE_SHIFT;
    if ((first + count - 1) >> (3 * GY_RADIX_BITS) != 0) {
        return false;
    }
    for (uintptr_t i = 0; i < count; i++) {
        /* This looks once per leaf, and once for the first granule. */
        if ((i == 0 || ((first + i) & GY_RADIX_MASK) == 0) && leaf_for(map, first + i) == NULL) {
            return false;
        }
    }
    gy_granules_replace(map, base, bytes, region);
    return true;
}

void gy_granules_replace(struct gy_granules *map, uintptr_t base, size_t bytes, struct gy_heap_region *region)
{
    uintptr_t first = base >> GY_GRANULE_SHIFT;
    uintptr_t count = bytes >> GY_GRANULE_SHIFT;
    for (uintptr_t granule = first; granule < first + count; granule++) {
        struct gy_radix_leaf *leaf = leaf_for(map, granule);
        assert(leaf != NULL && "these granules were added before");
        atomic_store_explicit(&leaf->regions[granule & GY_RADIX_MASK], region, memory_order_release);
    }
    assert(gy_granules_find(map, base) == region && gy_granules_find(map, base + bytes - 1) == region);
}

void gy_granules_fini(struct gy_granules *map)
{
    for (size_t i = 0; i < GY_RADIX_SIZE; i++) {
        struct gy_radix_node *node = atomic_load_explicit(&map->nodes[i], memory_order_relaxed);
        for (size_t j = 0; node != NULL && j < GY_RADIX_SIZE; j++) {
            gy_free(atomic_load_explicit(&node->leaves[j], memory_order_relaxed));
        }
        gy_free(node);
    }
}
