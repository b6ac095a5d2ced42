/* SPDX-License-Identifier: MIT */
/* Buffers that are used in turn (include/gantry/ring.h): one block of a heap, and the number of the next. */
#include "base/alloc.h"
#include "base/handle.h"
#include "base/status.h"

#include <gantry/ring.h>

#include <stdatomic.h>

enum { ALIGNMENT = 256 };

struct gantry_ring {
    gantry_heap *heap;     /* immutable */
    unsigned char *block;  /* immutable */
    size_t stride;         /* immutable; bytes from one buffer to the next */
    size_t count;          /* immutable */
    _Atomic(size_t) taken; /* atomic; of the current turn: buffers that were taken, modulo `count` */
};

gantry_status gantry_ring_create(gantry_heap *heap, gantry_memory_kind kind, size_t bytes, size_t count,
                                 gantry_alloc_site site, gantry_ring **out)
{
    GY_NEED(HEAP, heap);
    size_t stride, all;
    if (out == NULL || bytes == 0 || count == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "ring: %s",
                       out == NULL ? "out is NULL" : "there are no buffers, or no bytes in one");
    }
    if (__builtin_add_overflow(bytes, (size_t)ALIGNMENT - 1, &stride) ||
        __builtin_mul_overflow(stride / ALIGNMENT * ALIGNMENT, count, &all)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "ring: %zu buffers of %zu bytes are more than fit", count,
                       bytes);
    }
    gantry_ring *ring = gy_zalloc(sizeof(*ring));
    void *block;
    if (ring == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a ring");
    }
    const gantry_status status = gantry_heap_alloc(heap, kind, all, ALIGNMENT, site, &block);
    if (status != GANTRY_OK) {
        gy_free(ring);
        return status;
    }
    ring->heap = heap;
    ring->block = block;
    ring->stride = stride / ALIGNMENT * ALIGNMENT;
    ring->count = count;
    gy_handle_born(GY_HANDLE_RING, ring, sizeof(*ring), sizeof(*ring));
    *out = ring;
    return GANTRY_OK;
}

void *gantry_ring_next(gantry_ring *ring)
{
    GY_ACCEPT_OR(NULL, RING, ring);
    if (ring == NULL) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_ring_next: ring is NULL");
        return NULL;
    }
    size_t number = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&ring->taken, &number, (number + 1) % ring->count,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return ring->block + number * ring->stride;
}

void gantry_ring_destroy(gantry_ring *ring)
{
    GY_ACCEPT_OR_LEAVE(RING, ring);
    if (ring != NULL) {
        (void)gantry_heap_free(ring->heap, ring->block);
        gy_handle_free(ring, ring);
    }
}
