/* SPDX-License-Identifier: MIT */
/* `head` and `tail` only grow; slot = number & mask.  The producer publishes a filled slot by a release
 * store of head, the consumer an emptied one by a release store of tail; each side reads the other's
 * counter with acquire.  The producer keeps the last tail it saw, so that in the common case it touches
 * no cache line that the consumer writes. */
#include "profile/ring.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct gy_ring *gy_ring_create(uint32_t spans)
{
    uint32_t slots = 1;
    while (slots < spans && slots < GY_RING_MAX_SPANS) {
        slots *= 2;
    }
    struct gy_ring *ring = gy_alloc_aligned(sizeof(*ring), _Alignof(struct gy_ring));
    if (ring == NULL) {
        return NULL;
    }
    memset(ring, 0, sizeof(*ring));
    /* The memory is not zeroed: the pages of a ring that is never filled are never touched. */
    ring->spans = gy_alloc_aligned((size_t)slots * sizeof(*ring->spans), 64);
    if (ring->spans == NULL) {
        gy_free(ring);
        return NULL;
    }
    ring->mask = slots - 1;
    ring->tid = (int32_t)gettid();
    if (gy_thread_name() != NULL) {
        snprintf(ring->track, sizeof(ring->track), "%s", gy_thread_name());
    } else if (ring->tid == (int32_t)getpid()) {
        snprintf(ring->track, sizeof(ring->track), "main thread");
    } else {
        snprintf(ring->track, sizeof(ring->track), "thread %d", (int)ring->tid);
    }
    return ring;
}

void gy_ring_destroy(struct gy_ring *ring)
{
    if (ring == NULL) {
        return;
    }
    gy_free(ring->spans);
    gy_free(ring);
}

bool gy_ring_has_room(struct gy_ring *ring, uint32_t slots)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    ring->known_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head - ring->known_tail + slots <= (uint64_t)ring->mask + 1;
}

struct gy_ring_span *gy_ring_slot(struct gy_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (__builtin_expect(head - ring->known_tail > ring->mask, 0)) {
        ring->known_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->known_tail > ring->mask) {
            uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_relaxed);
            atomic_store_explicit(&ring->lost, lost + 1, memory_order_relaxed);
            return NULL;
        }
    }
    return &ring->spans[head & ring->mask];
}

bool gy_ring_push(struct gy_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed) + 1;
    atomic_store_explicit(&ring->head, head, memory_order_release);
    uint64_t half = ring->mask / 2 + 1;
    if (__builtin_expect(head - ring->known_tail < half, 1)) {
        return false;
    }
    ring->known_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head - ring->known_tail >= half;
}

void gy_ring_copy_name(char to[GY_RING_NAME_BYTES], const char *name)
{
    size_t bytes = strnlen(name, GY_RING_NAME_BYTES);
    if (__builtin_expect(bytes == GY_RING_NAME_BYTES, 0)) {
        do { /* do not cut within a UTF-8 character */
            bytes--;
        } while (bytes > 0 && ((unsigned char)name[bytes] & 0xC0) == 0x80);
    }
    memcpy(to, name, bytes);
    to[bytes] = '\0';
}

const struct gy_ring_span *gy_ring_peek(const struct gy_ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail == atomic_load_explicit(&ring->head, memory_order_acquire)) {
        return NULL;
    }
    return &ring->spans[tail & ring->mask];
}

void gy_ring_pop(struct gy_ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}

uint64_t gy_ring_lost(const struct gy_ring *ring)
{
    return atomic_load_explicit(&ring->lost, memory_order_relaxed);
}
