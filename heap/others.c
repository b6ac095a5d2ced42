/* SPDX-License-Identifier: MIT */
#include "heap/others.h"

#include "heap/internal.h"

static gy_mutex heaps_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_HEAPS};
static gantry_heap *heaps;     /* guarded by heaps_lock; linked by next_heap */
static atomic_uint heap_count; /* atomic; written under heaps_lock */

void gy_heaps_add(gantry_heap *heap)
{
    gy_mutex_lock(&heaps_lock);
    heap->next_heap = heaps;
    heaps = heap;
    atomic_fetch_add_explicit(&heap_count, 1, memory_order_relaxed);
    gy_mutex_unlock(&heaps_lock);
}

void gy_heaps_remove(gantry_heap *heap)
{
    gy_mutex_lock(&heaps_lock);
    gantry_heap **link = &heaps;
    while (*link != heap) {
        link = &(*link)->next_heap;
    }
    *link = heap->next_heap;
    atomic_fetch_sub_explicit(&heap_count, 1, memory_order_relaxed);
    gy_mutex_unlock(&heaps_lock);
}

enum gy_heap_place gy_heaps_look(const gantry_heap *own, const void *address, struct gy_heap_look *out,
                                 struct gy_heap_owner *owner)
{
    enum gy_heap_place place = GY_HEAP_FOREIGN;
    if (atomic_load_explicit(&heap_count, memory_order_relaxed) < 2) {
        return place;
    }
    gy_mutex_lock(&heaps_lock);
    for (gantry_heap *heap = heaps; heap != NULL && place == GY_HEAP_FOREIGN; heap = heap->next_heap) {
        place = heap != own && heap->context != NULL ? gy_heap_look(heap, address, out) : GY_HEAP_FOREIGN;
        if (place != GY_HEAP_FOREIGN) {
            const bool is_apps =
                /* its owner decides which devices may use it */
                heap->kinds[GANTRY_MEMORY_DEVICE].setup.source != NULL;
            *owner = (struct gy_heap_owner){
                heap->context->native, heap->context->info.ordinal, is_apps ? UINT64_MAX : heap->peers,
                place == GY_HEAP_LIVE ? gy_heap_site(heap, out->site) : (gantry_alloc_site){NULL, NULL, 0}};
        }
    }
    gy_mutex_unlock(&heaps_lock);
    return place;
}
