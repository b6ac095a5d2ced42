/* Events, waits and barriers: which stream waits for which, and what that makes it come after. */
#include "dispatcher/order/waits.h"

#include "base/alloc.h"
#include "base/span.h"
#include "dispatcher/order/crossing.h"
#include "dispatcher/order/export.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Record `event` on `on`. */
static gantry_status record_on(struct gy_streams *streams, CUstream on, struct gy_stream_event *event)
{
    gantry_status status = GANTRY_OK;
    if (event->native == NULL) {
        status = GY_CALL(streams->context, cuEventCreate(&event->native, CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(streams->context, cuEventRecord(event->native, on));
    }
    if (status == GANTRY_OK) {
        gy_streams_count(&streams->recorded);
    }
    return status;
}

gantry_status gy_streams_record_into(struct gy_streams *streams, uint32_t index,
                                     struct gy_stream_event *event)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *s = &streams->streams[index];
    gantry_status status = s->behind != NULL ? gy_stream_settle(streams, index) : GANTRY_OK;
    if (s->is_member) {
        event->nodes = s->lane.last;
        gy_streams_count(&streams->recorded);
    } else if (status == GANTRY_OK) {
        status = record_on(streams, s->native, event);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    assert(s->known[index] == s->tail);
    memcpy(event->known, s->known, streams->count * sizeof(event->known[0]));
    return GANTRY_OK;
}

static void keep(struct gy_stream_ring *ring, struct gy_stream_event *event, uint64_t seq)
{
    ring->seqs[ring->next] = seq;
    ring->at[ring->next] = event;
    ring->next = (ring->next + 1) % GY_STREAM_EVENTS;
}

gantry_status gy_streams_release_graph_end(struct gy_streams *streams, struct gy_stream_event *event)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < streams->count && status == GANTRY_OK; i++) {
        status = streams->streams[i].behind == event ? gy_stream_settle(streams, i) : GANTRY_OK;
    }
    event->is_graph_end = status != GANTRY_OK;
    return status;
}

GY_RARE gantry_status gy_stream_record(struct gy_streams *streams, uint32_t index,
                                       struct gy_stream_event **out)
{
    struct gy_stream *s = &streams->streams[index];
    struct gy_stream_ring *ring = s->is_member ? &s->inner : &s->outer;
    struct gy_stream_event *event = &ring->own[ring->next];
    gantry_status status = gy_streams_release_end(streams, event);
    status = status == GANTRY_OK ? gy_streams_record_into(streams, index, event) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    if (s->is_member) {
        s->left -= ring->seqs[ring->next] != 0 && event->pending != 0;
        event->pending = 0;
        event->end = NULL;
    }
    keep(ring, event, s->tail);
    s->is_unrecorded = s->is_unrecorded && s->is_member;
    *out = event;
    return GANTRY_OK;
}

void gy_stream_keep(struct gy_stream *stream, struct gy_stream_event *event, uint64_t seq)
{
    keep(&stream->outer, event, seq);
}

gantry_status gy_stream_record_plain(struct gy_streams *streams, uint32_t index,
                                     struct gy_stream_event *event, const uint64_t *known)
{
    struct gy_stream *s = &streams->streams[index];
    const gantry_status status = record_on(streams, s->native, event);
    if (status == GANTRY_OK) {
        memcpy(event->known, known, streams->count * sizeof(event->known[0]));
        s->is_unrecorded = s->is_unrecorded && s->is_member;
    }
    return status;
}

gantry_status gy_stream_leave_event(struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    const struct gy_stream_ring *ring = gy_batch_holds(streams, stream, s->tail) ? &s->inner : &s->outer;
    const bool is_there = ring->seqs[(ring->next - 1) % GY_STREAM_EVENTS] == s->tail;
    const bool is_passed = ring == &s->outer && gy_stream_has_passed(s, s->tail);
    struct gy_stream_event *event;
    return gy_stream_awaiting(s) == 0 || is_there || is_passed || streams->device_wide ||
                   (s->is_member && ring == &s->outer)
               ? GANTRY_OK
               : gy_stream_record(streams, stream, &event);
}

/* Record an event on the plain stream of a member, whose clock is that of its lane by now.  Its work in an
 * earlier graph, which the plain stream has not waited for, ends with another event. */
static gantry_status record_outside(struct gy_streams *streams, uint32_t index, struct gy_stream_event **out)
{
    struct gy_stream *s = &streams->streams[index];
    if (s->before != NULL) {
        *out = s->before;
        return GANTRY_OK;
    }
    struct gy_stream_event *event = &s->outer.own[s->outer.next];
    gantry_status status = gy_streams_release_end(streams, event);
    status = status == GANTRY_OK ? gy_stream_record_plain(streams, index, event, s->plain_known) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    assert(event->known[index] == s->entered);
    keep(&s->outer, event, s->entered);
    *out = event;
    return GANTRY_OK;
}

/* The earliest event that covers timeline point `seq`, recorded now if there is none. */
static gantry_status event_for(struct gy_streams *streams, uint32_t index, uint64_t seq,
                               struct gy_stream_event **out)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *s = &streams->streams[index];
    const bool inside = gy_batch_holds(streams, index, seq);
    const struct gy_stream_ring *ring = inside ? &s->inner : &s->outer;
    uint32_t covering = 0; /* of the latest, how many; most often it is one of the first */
    while (covering < GY_STREAM_EVENTS && ring->seqs[(ring->next - 1 - covering) % GY_STREAM_EVENTS] >= seq) {
        covering++;
    }
    if (covering == 0) {
        return inside == s->is_member ? gy_stream_record(streams, index, out)
                                      : record_outside(streams, index, out);
    }
    *out = ring->at[(ring->next - covering) % GY_STREAM_EVENTS];
    return GANTRY_OK;
}

/* The needs of a task: timeline points that are not yet before its stream's tail, each with an event. */
struct needs {
    uint64_t streams; /* bit s: events[s] is needed */
    struct gy_stream_event *events[GY_STREAMS_MAX];
};

/* Collect the needed timeline points of `clock` on the streams `which`. */
static gantry_status collect_needs(struct gy_streams *streams, const uint64_t *known,
                                   const struct gy_clock *clock, uint64_t which, struct needs *needs)
{
    needs->streams = 0;
    for (uint64_t left = which; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        uint64_t passed = atomic_load_explicit(&streams->streams[i].completed, memory_order_acquire);
        if (known[i] >= clock->seq[i] || passed >= clock->seq[i] ||
            streams->streams[i].floor >= clock->seq[i]) {
            gy_streams_count(&streams->dropped);
            continue;
        }
        gantry_status status = event_for(streams, i, clock->seq[i], &needs->events[i]);
        if (status != GANTRY_OK) {
            return status;
        }
        needs->streams |= UINT64_C(1) << i;
    }
    return GANTRY_OK;
}

/* True when some event of `kept` is ordered after timeline point clock->seq[i]. */
static bool is_covered(const struct gy_clock *clock, const struct needs *needs, uint64_t kept, uint32_t i)
{
    for (uint64_t left = kept; left != 0; left &= left - 1) {
        uint32_t j = (uint32_t)__builtin_ctzll(left);
        if (j == i || needs->events[j]->known[i] >= clock->seq[i]) {
            return true;
        }
    }
    return false;
}

/* Transitive reduction: drop an event when those that remain cover it and all dropped before it.  (That a
 * dropped one was covered by this one is not enough: the clocks of two events at the same timeline point may
 * differ when the stream waited for something in between.) */
static void reduce_needs(struct gy_streams *streams, const struct gy_clock *clock, struct needs *needs)
{
    uint64_t all = needs->streams;
    for (uint64_t left = all; left != 0; left &= left - 1) {
        uint64_t kept = needs->streams & ~(left & -left);
        bool covered = true;
        for (uint64_t gone = all & ~kept; gone != 0 && covered; gone &= gone - 1) {
            covered = is_covered(clock, needs, kept, (uint32_t)__builtin_ctzll(gone));
        }
        if (covered) {
            needs->streams = kept;
            gy_streams_count(&streams->dropped);
        }
    }
}

/* The tail of `own` comes after timeline point `seq` of stream `of`.  (It knows all of its own.) */
static inline void learn(struct gy_streams *streams, struct gy_stream *own, uint32_t of, uint64_t seq)
{
    if (own->known[of] < seq) {
        own->known[of] = seq;
        own->learnt_at = own->waited_at = own->tail;
        gy_stream_supersede(&streams->streams[of], seq);
    }
}

static void learn_event(struct gy_streams *streams, struct gy_stream *stream,
                        const struct gy_stream_event *event)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        learn(streams, stream, i, event->known[i]);
    }
}

gantry_status gy_streams_wait_event(struct gy_streams *streams, uint32_t index,
                                    const struct gy_stream_event *event)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *own = &streams->streams[index];
    gantry_status status = own->is_member
                               ? gy_lane_wait(&own->lane, event->nodes)
                               : GY_CALL(streams->context, cuStreamWaitEvent(own->native, event->native, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    gy_streams_count(&streams->waits);
    learn_event(streams, own, event);
    assert(gy_stream_is_valid(streams, index));
    return GANTRY_OK;
}

gantry_status gy_tail_wait(struct gy_streams *streams, const struct gy_tail *tail,
                           const struct gy_stream_event *event)
{
    gantry_status status = GY_CALL(streams->context, cuStreamWaitEvent(tail->on, event->native, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    gy_streams_count(&streams->waits);
    gy_known_merge(streams, tail->known, event->known);
    return GANTRY_OK;
}

gantry_status gy_tail_wait_clock(struct gy_streams *streams, const struct gy_tail *tail,
                                 const struct gy_clock *clock, uint64_t which)
{
    struct needs needs;
    gantry_status status = collect_needs(streams, tail->known, clock, which, &needs);
    if (status != GANTRY_OK) {
        return status;
    }
    reduce_needs(streams, clock, &needs);
    for (uint64_t left = needs.streams; left != 0 && status == GANTRY_OK; left &= left - 1) {
        status = gy_tail_wait(streams, tail, needs.events[__builtin_ctzll(left)]);
    }
    return status;
}

/* Would collect_needs() find nothing? */
bool gy_streams_is_ordered(struct gy_streams *streams, uint32_t index, const struct gy_clock *clock)
{
    assert(gy_stream_is_valid(streams, index));
    const struct gy_stream *own = &streams->streams[index];
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &streams->streams[i];
        if (i != index && own->known[i] < clock->seq[i] && s->floor < clock->seq[i] &&
            atomic_load_explicit(&s->completed, memory_order_acquire) < clock->seq[i]) {
            return false;
        }
    }
    return true;
}

static gantry_status wait_events(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                 uint64_t which)
{
    struct needs needs;
    gantry_status status = collect_needs(streams, streams->streams[stream].known, clock, which, &needs);
    if (status != GANTRY_OK) {
        return status;
    }
    reduce_needs(streams, clock, &needs);
    for (uint64_t left = needs.streams; left != 0 && status == GANTRY_OK; left &= left - 1) {
        status = gy_streams_wait_event(streams, stream, needs.events[__builtin_ctzll(left)]);
    }
    return status;
}

/* The graph waits for work that is not in it, on the stream where it will be launched. */
static gantry_status wait_as_graph(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                   uint64_t outside)
{
    struct gy_batch_order *batch = &streams->batch;
    const struct gy_tail home = {streams->streams[batch->home].native, batch->known};
    const gantry_status status = gy_tail_wait_clock(streams, &home, clock, outside);
    for (; outside != 0 && status == GANTRY_OK; outside &= outside - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(outside);
        learn(streams, &streams->streams[stream], i, clock->seq[i]);
    }
    return status;
}

gantry_status gy_streams_wait_outside(struct gy_streams *streams, uint32_t stream,
                                      struct gy_stream_event *event)
{
    struct gy_stream *own = &streams->streams[stream];
    struct gy_batch_order *batch = &streams->batch;
    assert(gy_batch_is_open(batch) && event->native != NULL);
    gantry_status status;
    if (event->noted == batch->number) { /* the graph records it again: so it waits for the record now */
        const struct gy_tail home = {streams->streams[batch->home].native, batch->known};
        status = gy_tail_wait(streams, &home, event);
    } else {
        status = gy_lane_wait_event(&own->lane, event->native);
        gy_streams_count(&streams->waits);
        event->awaited = batch->number;
    }
    if (status == GANTRY_OK) {
        learn_event(streams, own, event);
    }
    return status;
}

/* The member's lane waits for it by itself. */
static gantry_status wait_as_lane(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                  uint64_t outside)
{
    struct needs needs;
    gantry_status status = collect_needs(streams, streams->streams[stream].known, clock, outside, &needs);
    if (status != GANTRY_OK) {
        return status;
    }
    reduce_needs(streams, clock, &needs);
    for (uint64_t left = needs.streams; left != 0 && status == GANTRY_OK; left &= left - 1) {
        status = gy_streams_wait_outside(streams, stream, needs.events[__builtin_ctzll(left)]);
    }
    return status;
}

gantry_status gy_streams_wait_fence(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                    struct gy_stream_event *fence)
{
    struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *own = &streams->streams[stream];
    bool is_known = true;
    for (uint64_t left = clock->streams; left != 0 && is_known; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        is_known = own->known[i] >= clock->seq[i] || batch->known[i] >= clock->seq[i] ||
                   gy_stream_has_passed(&streams->streams[i], clock->seq[i]);
    }
    if (is_known) {
        gy_streams_count(&streams->dropped);
        return GANTRY_OK;
    }
    if (batch->by_lanes && batch->is_beside) {
        return gy_streams_wait_outside(streams, stream, fence);
    }
    const struct gy_tail home = {streams->streams[batch->home].native, batch->known};
    const gantry_status status = gy_tail_wait(streams, &home, fence);
    if (status == GANTRY_OK) {
        learn_event(streams, own, fence);
    }
    return status;
}

/* A member waits for work that is in its graph; for everything else its lane waits where `by_lane`, or else
 * the graph. */
static GY_RARE gantry_status wait_as_member(struct gy_streams *streams, uint32_t stream,
                                            const struct gy_clock *clock, uint64_t which, bool by_lane)
{
    const struct gy_batch_order *batch = &streams->batch;
    const struct gy_stream *own = &streams->streams[stream];
    uint64_t inside = 0, outside = 0;
    for (uint64_t left = which; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (gy_batch_holds(streams, i, clock->seq[i])) {
            inside |= left & -left;
        } else if (own->known[i] < clock->seq[i] && batch->known[i] < clock->seq[i]) {
            outside |= left & -left;
        } else {
            gy_streams_count(&streams->dropped);
        }
    }
    gantry_status status = outside == 0 ? GANTRY_OK
                           : by_lane    ? wait_as_lane(streams, stream, clock, outside)
                                        : wait_as_graph(streams, stream, clock, outside);
    return status == GANTRY_OK && inside != 0 ? wait_events(streams, stream, clock, inside) : status;
}

static gantry_status wait_at_home(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                  bool by_lane)
{
    assert(gy_stream_is_valid(streams, stream));
    const uint64_t which = clock->streams & ~(UINT64_C(1) << stream);
    if (__builtin_expect(streams->streams[stream].is_member, 0)) {
        return wait_as_member(streams, stream, clock, which, by_lane);
    }
    if (streams->device_wide) {
        return gy_streams_is_ordered(streams, stream, clock) ? GANTRY_OK : gy_stream_sync(streams, stream);
    }
    return wait_events(streams, stream, clock, which);
}

/* ---- other devices --------------------------------------------------------------------------- */

void gy_abroad_split(struct gy_stream *stream)
{
    if (__builtin_expect(stream->abroad != NULL, 0)) {
        memcpy(stream->abroad[stream->devices], stream->abroad[0],
               stream->devices * sizeof(stream->abroad[0]));
    }
}

/* `native` waits for `behind`. */
static void unite_abroad(struct gy_stream *stream)
{
    for (uint32_t e = 0; __builtin_expect(stream->abroad != NULL, 0) && e < stream->devices; e++) {
        const uint64_t *plain = stream->abroad[stream->devices + e];
        for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
            stream->abroad[e][i] = stream->abroad[e][i] < plain[i] ? plain[i] : stream->abroad[e][i];
        }
    }
}

/* Of which row of `abroad` on is what `native` comes after? */
static uint32_t plain_row(const struct gy_stream *stream)
{
    return stream->is_member || stream->behind != NULL ? stream->devices : 0;
}

/* Does what is in the row come after everything that the task with `crossing` needs of device `e`? */
static bool is_known_abroad(const struct gy_stream *stream, uint32_t row, const struct gy_crossing *crossing,
                            uint32_t e)
{
    const struct gy_clock *clock = &crossing->of[e];
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (stream->abroad == NULL || stream->abroad[row + e][i] < clock->seq[i]) {
            return false;
        }
    }
    return true;
}

/* Without memory it is waited for again next time. */
static void find_room_abroad(struct gy_stream *stream, uint32_t devices)
{
    if (stream->abroad == NULL) {
        stream->abroad = gy_zalloc_array(2 * (size_t)devices, sizeof(*stream->abroad));
        stream->devices = stream->abroad != NULL ? devices : 0;
    }
}

static void learn_abroad(struct gy_stream *stream, uint32_t row, uint32_t e, const struct gy_export *export)
{
    for (uint32_t i = 0; i < GY_STREAMS_MAX && stream->abroad != NULL; i++) {
        const uint64_t known = export->event.known[i];
        uint64_t *at = &stream->abroad[row + e][i];
        *at = *at < known ? known : *at;
    }
}

/* For recordings: which device the next task of the stream waits for. */
static void record_wait(struct gy_stream *stream, const struct gy_crossing *crossing,
                        const struct gy_export *export, uint64_t begin)
{
    char name[32];
    snprintf(name, sizeof(name), "after GPU %d", export->ordinal);
    stream->after |= UINT64_C(1) << (export->ordinal & 63);
    gy_span_add_flow(export->flow);
    gy_span_add_flow(crossing->flow);
    gy_span_end(GY_SPAN_ACROSS, name, begin, export->stream);
}

/* The exports of the crossing.  A member's are waited for by the plain stream where its graph will be
 * launched: its lane comes after that, too, but a lane of that stream may be in another graph, which does
 * not.
 */
static GY_COLD gantry_status wait_abroad(struct gy_streams *streams, uint32_t stream,
                                         const struct gy_crossing *crossing)
{
    struct gy_stream *own = &streams->streams[stream];
    struct gy_stream *on = own->is_member ? &streams->streams[streams->batch.home] : own;
    const uint32_t devices = crossing->pool->devices;
    for (uint32_t e = 0; e < devices; e++) {
        const struct gy_export *export = crossing->exports[e];
        if (export == NULL) {
            continue;
        }
        find_room_abroad(own, devices);
        find_room_abroad(on, devices);
        if (is_known_abroad(own, 0, crossing, e) || is_known_abroad(on, plain_row(on), crossing, e)) {
            gy_streams_count(&streams->dropped);
            continue;
        }
        const uint64_t begin = gy_span_begin();
        gantry_status status =
            GY_CALL(streams->context, cuStreamWaitEvent(on->native, export->event.native, 0));
        if (status != GANTRY_OK) {
            return status;
        }
        if (begin != 0) {
            record_wait(own, crossing, export, begin);
        }
        gy_streams_count(&streams->waits);
        learn_abroad(own, 0, e, export);
        learn_abroad(on, plain_row(on), e, export);
    }
    return GANTRY_OK;
}

static gantry_status wait_clock(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                bool by_lane)
{
    gantry_status status = wait_at_home(streams, stream, clock, by_lane);
    return status == GANTRY_OK && __builtin_expect(clock->crossing != NULL, 0)
               ? wait_abroad(streams, stream, clock->crossing)
               : status;
}

gantry_status gy_streams_wait_clock(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock)
{
    return wait_clock(streams, stream, clock, streams->batch.by_lanes && streams->batch.is_beside);
}

gantry_status gy_streams_wait_for(struct gy_streams *streams, uint32_t stream, uint64_t wait_set)
{
    struct gy_clock room;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    if (clock == NULL) {
        gy_streams_read_all(streams, &room);
        clock = &room;
    }
    return wait_clock(streams, stream, clock, streams->batch.by_lanes);
}

gantry_status gy_streams_record(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    struct gy_stream_event *event;
    return gy_stream_record(streams, stream, &event);
}

/* ---- the ends of graphs ---------------------------------------------------------------------- */

gantry_status gy_stream_settle(struct gy_streams *streams, uint32_t index)
{
    struct gy_stream *s = &streams->streams[index];
    assert(s->behind != NULL && !s->is_member);
    if (s->behind_home != index) {
        gantry_status status = GY_CALL(streams->context, cuStreamWaitEvent(s->native, s->behind->native, 0));
        if (status != GANTRY_OK) {
            return status;
        }
        gy_streams_count(&streams->waits);
        gy_stream_touch(s); /* a timeline point says so only when the stream gets work */
    }
    s->behind = NULL; /* the points it has learnt from the graph are known since that was launched */
    gy_known_merge(streams, s->known, s->plain_known);
    unite_abroad(s);
    s->learnt_at = s->waited_at = s->tail;
    s->carries = false;
    return GANTRY_OK;
}

/* Is the end of the graph the last on the stream that it was launched on? */
static bool is_last_there(const struct gy_streams *streams, const struct gy_stream *s)
{
    const struct gy_stream *home = &streams->streams[s->behind_home];
    const struct gy_stream_ring *ring = &home->outer;
    return !home->is_unrecorded && !home->is_member &&
           (home->behind == NULL || home->behind_home == s->behind_home) &&
           ring->at[(ring->next - 1) % GY_STREAM_EVENTS] == s->behind;
}

gantry_status gy_streams_end_of(struct gy_streams *streams, uint32_t stream, CUstream *on)
{
    const struct gy_stream *s = &streams->streams[stream];
    assert(!s->is_member);
    if (s->behind != NULL && is_last_there(streams, s)) {
        *on = streams->streams[s->behind_home].native;
        return GANTRY_OK;
    }
    *on = s->native;
    return s->behind != NULL ? gy_stream_settle(streams, stream) : GANTRY_OK;
}

/* ---- barriers ------------------------------------------------------------------------------ */

gantry_status gy_streams_join(struct gy_streams *streams, const struct gy_tail *tail, uint32_t except)
{
    assert(gy_streams_are_valid(streams));
    const struct gy_stream_event *joined = NULL;
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        gantry_status status = GANTRY_OK;
        if (i == except || s->is_member) {
            continue;
        }
        if (s->behind != NULL && s->behind != joined) { /* most have the same */
            status = gy_tail_wait(streams, tail, s->behind);
            joined = s->behind;
        }
        struct gy_stream_event *event;
        if (status == GANTRY_OK && s->dirty) {
            status = gy_stream_record(streams, i, &event);
            status = status == GANTRY_OK ? gy_tail_wait(streams, tail, event) : status;
        }
        if (status != GANTRY_OK) {
            return status;
        }
        s->dirty = false;
    }
    return GANTRY_OK;
}

static gantry_status publish_barrier(struct gy_streams *streams, CUstream on)
{
    assert(gy_streams_are_valid(streams));
    uint32_t next = 1 - streams->barrier;
    gantry_status status = GANTRY_OK;
    if (streams->barriers[next] == NULL) {
        status = GY_CALL(streams->context, cuEventCreate(&streams->barriers[next], CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(streams->context, cuEventRecord(streams->barriers[next], on));
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gy_streams_count(&streams->recorded);
    streams->barrier = next;
    streams->generation++;
    streams->epoch++;
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].floor = streams->streams[i].tail;
    }
    assert(gy_streams_are_valid(streams));
    return GANTRY_OK;
}

gantry_status gy_stream_sync(struct gy_streams *streams, uint32_t stream)
{
    assert(!gy_batch_is_open(&streams->batch) && gy_stream_is_valid(streams, stream));
    struct gy_stream *s = &streams->streams[stream];
    uint64_t known[GY_STREAMS_MAX] = {0}; /* the barrier says it all */
    const struct gy_tail tail = {s->native, known};
    gantry_status status = gy_streams_join(streams, &tail, stream);
    if (status == GANTRY_OK) {
        status = publish_barrier(streams, s->native);
    }
    if (status == GANTRY_OK) {
        s->seen = streams->generation;
        s->epoch = streams->epoch;
    }
    return status;
}
