/* SPDX-License-Identifier: MIT */
/* One thread's finished spans on their way to the writer: a ring with one producer and one consumer. */
#ifndef PROFILE_RING_H
#define PROFILE_RING_H

#include <gantry/base.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GY_RING_NAME_BYTES 52  /* bytes of a span's name, with the final NUL; longer names are cut */
#define GY_RING_TRACK_BYTES 64 /* bytes of a track's name */
#define GY_RING_COUNT 255u
#define GY_RING_FLOWS 254u      /* the category of an entry that holds further flows of the span after it */
#define GY_RING_FLOWS_OF_ONE 6u /* the most flows in the `name` of such an entry */
#define GY_RING_FLOWS_KEPT 32u
#define GY_RING_MANAGER_MAX 1023u
#define GY_RING_MAX_SPANS (1u << 24)

struct gy_ring_span {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t id;
    uint64_t flow;       /* 0: none; of GY_PFTRACE_GPU: bit n: it waited for the device with ordinal n; of
                            GY_PFTRACE_BATCH: its tasks */
    uint8_t category;    /* enum gy_span_category; GY_PFTRACE_GPU or _BATCH; GY_RING_COUNT: id is the value at
                            begin_ns; or GY_RING_FLOWS: `id` flows are in `name` */
    uint8_t gpu;         /* 0: the thread's own track; else 1 + number of the GPU in the session */
    uint16_t stream : 6; /* valid with gpu */
    uint16_t manager : 10; /* of GY_PFTRACE_GPU: as in struct gy_gpu_slice */
    char name[GY_RING_NAME_BYTES];
};

struct gy_ring {
    /* The consumer's fields: */
    _Alignas(64) atomic_uint_fast64_t tail; /* atomic; spans taken so far; written by the consumer */
    struct gy_ring *next;                   /* link of the session's list; its lock guards it */
    struct track *track_of_writer;          /* consumer's own, see profile/tracks.c */
    uint32_t flow_count;                    /* consumer's own: flows that wait for their span */
    uint64_t flows[GY_RING_FLOWS_KEPT];     /* consumer's own */
    /* Immutable fields: */
    uint32_t mask; /* slots - 1 */
    int32_t tid;
    char track[GY_RING_TRACK_BYTES];
    struct gy_ring_span *spans;
    /* The producer's fields: */
    _Alignas(64) atomic_uint_fast64_t head; /* atomic; spans put so far; written by the producer */
    uint64_t known_tail;                    /* the producer's own: an old value of tail */
    atomic_uint_fast64_t lost;              /* atomic; written by the producer */
};

/* Producer.  Are there `slots` free ones?  A span that is refused because of this is not counted as lost. */
bool gy_ring_has_room(struct gy_ring *ring, uint32_t slots);

/* A ring of `spans` slots (rounded up to a power of two, at most GY_RING_MAX_SPANS) for the calling
 * thread, whose name is copied.  NULL when out of memory. */
struct gy_ring *gy_ring_create(uint32_t spans);
/* NULL is ignored. */
void gy_ring_destroy(struct gy_ring *ring);

/* Producer.  Get the slot to fill before gy_ring_push(); NULL: the ring is full, so a span is lost, which is
 * counted. */
struct gy_ring_span *gy_ring_slot(struct gy_ring *ring);
/* Producer.  Hand the slot over.  True when the ring is at least half full, as far as is known. */
bool gy_ring_push(struct gy_ring *ring);
/* Copy a name into a span or a mark, cut to fit. */
void gy_ring_copy_name(char to[GY_RING_NAME_BYTES], const char *name);

/* Consumer.  The oldest span, or NULL when the ring is empty. */
const struct gy_ring_span *gy_ring_peek(const struct gy_ring *ring);
/* Consumer.  Give the slot of gy_ring_peek() back. */
void gy_ring_pop(struct gy_ring *ring);

uint64_t gy_ring_lost(const struct gy_ring *ring);

#endif
