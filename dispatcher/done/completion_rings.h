/* SPDX-License-Identifier: MIT */
/* The completions of a dispatcher: one ring and its threads, or one for each partition.
 *
 * The thread that tells a completion runs what follows from it, release callbacks among them.  With a plan
 * each partition has a ring of its own, so that this in one partition delays nothing in another. Threads
 * that spin or yield take a core each: there is one. */
#ifndef DISPATCHER_DONE_COMPLETION_RINGS_H
#define DISPATCHER_DONE_COMPLETION_RINGS_H

#include "dispatcher/done/completion.h"
#include "dispatcher/order/streams.h"

struct gy_completion_rings {
    uint32_t count;                   /* immutable: 1, or one for each partition */
    const struct gy_streams *streams; /* immutable */
    gy_mutex *collecting;             /* immutable; rank COLLECT: see struct gy_completion_config */
    struct gy_completion *rings;      /* immutable: `count` of them */
    struct gy_completion_counts gone; /* immutable: of rings whose place these took */
};

/* For the streams of these partitions, which may be about to take the place of others.  `config->collecting`
 * is ours. */
GANTRY_MUST_CHECK gantry_status gy_rings_init(struct gy_completion_rings *rings,
                                              const struct gy_completion_config *config,
                                              const struct gy_partitions *partitions);

/* The ring that `stream` belongs to. */
static inline struct gy_completion *gy_rings_of(const struct gy_completion_rings *rings, uint32_t stream)
{
    return &rings->rings[rings->count > 1 ? GY_STREAM_PARTITION(&rings->streams->streams[stream]) : 0];
}

/* What they have counted, and those before them. */
struct gy_completion_counts gy_rings_counts(const struct gy_completion_rings *rings);
/* Tell all that is pending, and end the threads; what they have counted can be read until gy_rings_free(). */
void gy_rings_close(struct gy_completion_rings *rings);
void gy_rings_free(struct gy_completion_rings *rings);
/* Both at once. */
void gy_rings_fini(struct gy_completion_rings *rings);

/* The functions of completion.h, for the ring that `stream` belongs to, or for all rings. */
GANTRY_MUST_CHECK gantry_status gy_rings_add(struct gy_completion_rings *rings, uint32_t stream,
                                             gantry_task *task, uint64_t flow);
bool gy_rings_has(struct gy_completion_rings *rings, uint32_t stream, const gantry_task *task);
GANTRY_MUST_CHECK gantry_status gy_rings_watch(struct gy_completion_rings *rings, uint32_t stream);
uint64_t gy_rings_expect(struct gy_completion_rings *rings);
bool gy_rings_next_end(struct gy_completion_rings *rings, const gantry_taskman *manager, bool will_look,
                       struct gy_lookout *out);
/* Are there completions of the stream to be noted, and no event that covers them?  And note them: returns how
 * many have one. */
static inline bool gy_rings_is_unnoted(const struct gy_completion_rings *rings, uint32_t stream)
{
    return gy_completion_is_unnoted(gy_rings_of(rings, stream), stream);
}
static inline uint32_t gy_rings_note(struct gy_completion_rings *rings, uint32_t stream)
{
    return gy_completion_note(gy_rings_of(rings, stream), stream);
}
static inline uint32_t gy_rings_record(struct gy_completion_rings *rings, uint32_t stream)
{
    return gy_completion_record(gy_rings_of(rings, stream), stream);
}
bool gy_rings_is_full(struct gy_completion_rings *rings, uint32_t stream);
bool gy_rings_is_pending(const struct gy_completion_rings *rings);
gantry_status gy_rings_flush(struct gy_completion_rings *rings);

/* Is anything pending in the ring that `stream` belongs to?  And flush that one alone. */
bool gy_rings_is_pending_beside(struct gy_completion_rings *rings, uint32_t stream);
gantry_status gy_rings_flush_of(struct gy_completion_rings *rings, uint32_t stream);

#endif
