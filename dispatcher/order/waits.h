/* SPDX-License-Identifier: MIT */
/* The functions that the files of the stream pool share. */
#ifndef DISPATCHER_ORDER_WAITS_H
#define DISPATCHER_ORDER_WAITS_H

#include "dispatcher/order/streams.h"

/* One more; a counter has one writer, so no read-modify-write is needed. */
static inline void gy_streams_count(_Atomic(uint64_t) *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Work on another stream comes after timeline point `seq`. */
static inline void gy_stream_supersede(struct gy_stream *stream, uint64_t seq)
{
    stream->superseded = stream->superseded < seq ? seq : stream->superseded;
}

/* The host has seen that the GPU has passed the point, or it lies before the barrier. */
static inline bool gy_stream_has_passed(const struct gy_stream *stream, uint64_t seq)
{
    return stream->floor >= seq || atomic_load_explicit(&stream->completed, memory_order_acquire) >= seq;
}

/* `clock` comes after what `from` comes after. */
static inline void gy_known_merge(const struct gy_streams *streams, uint64_t *clock, const uint64_t *from)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        clock[i] = clock[i] < from[i] ? from[i] : clock[i];
    }
}

/* The stream becomes a member. */
void gy_stream_join_graph(const struct gy_streams *streams, struct gy_stream *stream);
/* The graph was launched on the stream `home`, and `end` tells the end of the stream's work in it. */
void gy_stream_go_behind(struct gy_stream *stream, struct gy_stream_event *end, uint32_t home);
/* `native` comes after what its lane comes after, and work goes to it again. */
void gy_stream_unite(const struct gy_streams *streams, struct gy_stream *stream);

/* The stream's latest work is in a graph, or one was launched on it, and other work there, which that work
 * does not come after, may go on: whatever is enqueued on the stream waits for that, too. */
bool gy_stream_is_held(const struct gy_streams *streams, const struct gy_stream *stream);

/* Is timeline point `seq` of stream `of` in the graph that is being built? */
static inline bool gy_batch_holds(const struct gy_streams *streams, uint32_t of, uint64_t seq)
{
    const struct gy_stream *s = &streams->streams[of];
    return s->state == GY_STREAM_MEMBER && seq > s->noted.entered;
}

/* The graph that is being built has members: what it comes after as a whole. */
static inline struct gy_line *gy_batch_line(const struct gy_streams *streams)
{
    return &streams->streams[streams->batch.home].plain;
}

/* Will the graph that is being built be launched on the stream, which is none of its members? */
static inline bool gy_batch_bears(const struct gy_streams *streams, uint32_t stream)
{
    const struct gy_batch_order *batch = &streams->batch;
    return batch->members != 0 && batch->home == stream && streams->streams[stream].state != GY_STREAM_MEMBER;
}

/* The plain stream comes after the event, or after the points of `clock` on the streams `which`, whatever its
 * lane does. */
GANTRY_MUST_CHECK gantry_status gy_stream_wait_plain(struct gy_streams *streams, uint32_t index,
                                                     struct gy_stream_event *event);
GANTRY_MUST_CHECK gantry_status gy_stream_wait_plain_clock(struct gy_streams *streams, uint32_t index,
                                                           const struct gy_clock *clock, uint64_t which);
/* The plain stream comes after all work on those that were not joined yet, except the stream `except`. */
GANTRY_MUST_CHECK gantry_status gy_streams_join(struct gy_streams *streams, uint32_t index, uint32_t except);
/* A barrier behind everything, on the stream; no graph is being built. */
GANTRY_MUST_CHECK gantry_status gy_stream_sync(struct gy_streams *streams, uint32_t stream);
/* `event` covers the timeline points of the ring's stream up to `seq`. */
void gy_ring_keep(struct gy_stream_ring *ring, struct gy_stream_event *event, uint64_t seq);
/* `event` will be recorded again: streams that come after its latest record wait for that one now, since the
 * next one may be behind work of a later step. */
GANTRY_MUST_CHECK gantry_status gy_streams_release_graph_end(struct gy_streams *streams,
                                                             struct gy_stream_event *event);
GANTRY_MUST_CHECK static inline gantry_status gy_streams_release_end(struct gy_streams *streams,
                                                                     struct gy_stream_event *event)
{
    return __builtin_expect(event->is_graph_end, 0) ? gy_streams_release_graph_end(streams, event)
                                                    : GANTRY_OK;
}
/* Record `event` on the plain stream, likewise. */
GANTRY_MUST_CHECK gantry_status gy_stream_record_plain(struct gy_streams *streams, uint32_t index,
                                                       struct gy_stream_event *event);
/* The member's lane comes after the event, which is outside of the graph. */
GANTRY_MUST_CHECK gantry_status gy_streams_wait_outside(struct gy_streams *streams, uint32_t stream,
                                                        struct gy_stream_event *event);
/* The stream comes after `fence`, which covers `clock` and is not in the graph that is being built. */
GANTRY_MUST_CHECK gantry_status gy_streams_wait_fence(struct gy_streams *streams, uint32_t stream,
                                                      const struct gy_clock *clock,
                                                      struct gy_stream_event *fence);
/* `native` comes after the graph that the stream's work is in, if there is one. */
GANTRY_MUST_CHECK gantry_status gy_stream_settle_behind(struct gy_streams *streams, uint32_t index);
GANTRY_MUST_CHECK static inline gantry_status gy_stream_settle(struct gy_streams *streams, uint32_t index)
{
    return streams->streams[index].state == GY_STREAM_BEHIND ? gy_stream_settle_behind(streams, index)
                                                             : GANTRY_OK;
}

#endif
