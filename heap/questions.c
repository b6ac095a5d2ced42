/* SPDX-License-Identifier: MIT */
/* The answers of a heap to questions: budgets, statistics, what an address is. */
#include "heap/heap.h"

#include "base/handle.h"
#include "base/options.h"
#include "heap/internal.h"

uint64_t gy_heap_budget(gantry_heap *heap, gantry_memory_kind kind)
{
    struct gy_kind *of = &heap->kinds[kind];
    size_t limit = gy_setting(&of->settings.limit_bytes);
    if (limit != 0) {
        return limit;
    }
    bool known = kind == GANTRY_MEMORY_DEVICE && of->setup.source == NULL && of->setup.context != NULL;
    return known ? of->setup.context->info.memory_bytes : UINT64_MAX;
}

uint64_t gy_heap_occupied(gantry_heap *heap, gantry_memory_kind kind)
{
    return gy_kind_occupied(&heap->kinds[kind]);
}

uint64_t gy_heap_own(gantry_heap *heap, gantry_memory_kind kind)
{
    return atomic_load_explicit(&heap->own_bytes[kind], memory_order_relaxed);
}

gantry_status gantry_heap_get_stats(gantry_heap *heap, gantry_memory_kind kind, gantry_heap_stats *stats)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || (unsigned)kind >= GANTRY_MEMORY_KIND_COUNT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_get_stats: no heap, or unknown memory kind %d", (int)kind);
    }
    gantry_heap_stats ours = {0};
    gy_kind_stats(&heap->kinds[kind], &ours);
    return gy_stats_export(stats, &ours, sizeof(ours), "gantry_heap_get_stats");
}

gantry_status gantry_heap_reset_peaks(gantry_heap *heap, gantry_memory_kind kind)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || (unsigned)kind >= GANTRY_MEMORY_KIND_COUNT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_reset_peaks: no heap, or unknown memory kind %d", (int)kind);
    }
    gy_kind_reset_peaks(&heap->kinds[kind], gy_sites_count(&heap->sites));
    return GANTRY_OK;
}

enum gy_heap_place gy_heap_look(gantry_heap *heap, const void *address, struct gy_heap_look *out)
{
    struct gy_heap_region *region = gy_granules_find(&heap->map, (uintptr_t)address);
    struct gy_visited block;
    if (region == NULL) {
        return GY_HEAP_FOREIGN;
    }
    out->kind = region->kind;
    if (!gy_kind_block_at(&heap->kinds[region->kind], region, (uintptr_t)address, &block) ||
        (uintptr_t)address - block.base >= block.bytes) {
        return GY_HEAP_NOT_LIVE;
    }
    const struct gy_backing *backing = &region->slab->backing;
    out->base = block.base;
    out->bytes = block.bytes;
    out->device =
        backing->device_base != 0 ? backing->device_base + (block.base - backing->base) : block.base;
    out->site = block.site;
    return GY_HEAP_LIVE;
}

gantry_alloc_site gy_heap_site(gantry_heap *heap, uint32_t site)
{
    return gy_sites_where(&heap->sites, site);
}

gantry_status gantry_heap_find_block(gantry_heap *heap, const void *address, gantry_heap_block *out)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_find_block: %s is NULL",
                       heap == NULL ? "heap" : "out");
    }
    struct gy_heap_look look;
    if (gy_heap_look(heap, address, &look) != GY_HEAP_LIVE) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "gantry_heap_find_block: %p is in no live block of this heap",
                       address);
    }
    const gantry_heap_block block = {sizeof(block), look.kind, (void *)look.base, look.bytes,
                                     gy_heap_site(heap, look.site)};
    return gy_stats_export(out, &block, sizeof(block), "gantry_heap_block");
}

uint64_t gy_heap_peers(const gantry_heap *heap)
{
    return heap->peers;
}
