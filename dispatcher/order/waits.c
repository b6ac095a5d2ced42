/* SPDX-License-Identifier: MIT */
/* Events, waits and barriers: which stream waits for which, and what that makes it come after. */
#include "dispatcher/order/waits.h"

#include "dispatcher/order/abroad.h"

#include <assert.h>
#include <string.h>

/* Record the event, which is made when it is needed first, on the native stream. */
static gantry_status record_native(struct gy_streams *streams, const struct gy_stream *s, CUevent *event)
{
    gantry_status status = GANTRY_OK;
    if (*event == NULL) {
        status = GY_CALL(streams->context, cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(streams->context, cuEventRecord(*event, s->native));
    }
    gy_streams_count(&streams->counts.recorded);
    return status;
}

/* `event` is recorded on a line of the stream, and comes after what that does. */
static gantry_status record_on_line(struct gy_streams *streams, const struct gy_stream *s,
                                    const struct gy_line *line, struct gy_stream_event *event)
{
    gantry_status status = GANTRY_OK;
    if (line == &s->lane) {
        event->nodes = line->to.last;
        gy_streams_count(&streams->counts.recorded);
    } else {
        status = record_native(streams, s, &event->native);
    }
    if (status == GANTRY_OK) {
        memcpy(event->known, line->known, streams->count * sizeof(event->known[0]));
    }
    return status;
}

gantry_status gy_streams_record_into(struct gy_streams *streams, uint32_t index,
                                     struct gy_stream_event *event)
{
    assert(gy_stream_is_valid(streams, index));
    const struct gy_stream *s = &streams->streams[index];
    const gantry_status status = gy_stream_settle(streams, index);
    return status == GANTRY_OK ? record_on_line(streams, s, s->line, event) : status;
}

void gy_ring_keep(struct gy_stream_ring *ring, struct gy_stream_event *event, uint64_t seq)
{
    ring->seqs[ring->next] = seq;
    ring->at[ring->next] = event;
    ring->next = (ring->next + 1) % GY_STREAM_EVENTS;
}

gantry_status gy_streams_release_graph_end(struct gy_streams *streams, struct gy_stream_event *event)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < streams->count && status == GANTRY_OK; i++) {
        status = streams->streams[i].behind.end == event ? gy_stream_settle(streams, i) : GANTRY_OK;
    }
    event->is_graph_end = status != GANTRY_OK;
    return status;
}

/* Record the next event of a line's ring; it covers the points up to `seq`. */
static gantry_status record_next(struct gy_streams *streams, struct gy_stream *s, struct gy_line *line,
                                 uint64_t seq, struct gy_stream_event **out)
{
    struct gy_stream_ring *ring = &line->ring;
    struct gy_stream_event *event = &ring->own[ring->next];
    gantry_status status = gy_streams_release_end(streams, event);
    status = status == GANTRY_OK ? record_on_line(streams, s, line, event) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    s->noted.left -= ring->seqs[ring->next] != 0 && event->pending != 0;
    event->pending = 0;
    event->end = NULL;
    gy_ring_keep(ring, event, seq);
    s->is_unrecorded = false; /* of a member it does not matter: its plain stream comes before the graph */
    *out = event;
    return GANTRY_OK;
}

GY_RARE gantry_status gy_stream_record(struct gy_streams *streams, uint32_t index,
                                       struct gy_stream_event **out)
{
    struct gy_stream *s = &streams->streams[index];
    const gantry_status status = gy_stream_settle(streams, index);
    return status == GANTRY_OK ? record_next(streams, s, s->line, s->tail, out) : status;
}

gantry_status gy_stream_record_plain(struct gy_streams *streams, uint32_t index,
                                     struct gy_stream_event *event)
{
    struct gy_stream *s = &streams->streams[index];
    s->is_unrecorded = false;
    return record_on_line(streams, s, &s->plain, event);
}

gantry_status gy_stream_leave_event(struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    const struct gy_stream_ring *ring =
        gy_batch_holds(streams, stream, s->tail) ? &s->lane.ring : &s->plain.ring;
    const bool is_there = ring->seqs[(ring->next - 1) % GY_STREAM_EVENTS] == s->tail;
    const bool is_passed = ring == &s->plain.ring && gy_stream_has_passed(s, s->tail);
    struct gy_stream_event *event;
    return gy_stream_awaiting(s) == 0 || is_there || is_passed || streams->device_wide ||
                   (s->state == GY_STREAM_MEMBER && ring == &s->plain.ring)
               ? GANTRY_OK
               : gy_stream_record(streams, stream, &event);
}

/* An event of what the plain stream of a member comes after.  Its work in an earlier graph, which that has
 * not waited for, ends with another event. */
static gantry_status event_outside(struct gy_streams *streams, struct gy_stream *s,
                                   struct gy_stream_event **out)
{
    *out = s->behind.end;
    return *out != NULL ? GANTRY_OK : record_next(streams, s, &s->plain, s->noted.entered, out);
}

/* The earliest event that covers timeline point `seq`, recorded now if there is none. */
static gantry_status event_for(struct gy_streams *streams, uint32_t index, uint64_t seq,
                               struct gy_stream_event **out)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *s = &streams->streams[index];
    const bool inside = gy_batch_holds(streams, index, seq);
    const struct gy_stream_ring *ring = inside ? &s->lane.ring : &s->plain.ring;
    uint32_t covering = 0; /* of the latest, how many; most often it is one of the first */
    while (covering < GY_STREAM_EVENTS && ring->seqs[(ring->next - 1 - covering) % GY_STREAM_EVENTS] >= seq) {
        covering++;
    }
    if (covering == 0) {
        return inside == (s->state == GY_STREAM_MEMBER) ? gy_stream_record(streams, index, out)
                                                        : event_outside(streams, s, out);
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
            gy_streams_count(&streams->counts.dropped);
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
            gy_streams_count(&streams->counts.dropped);
        }
    }
}

/* The next work of `own` comes after the event.  (It knows all of its own.) */
static void learn(struct gy_streams *streams, struct gy_stream *own, const struct gy_stream_event *event)
{
    uint64_t *known = own->line->known;
    bool grows = false;
    for (uint32_t i = 0; i < streams->count; i++) {
        if (known[i] < event->known[i]) {
            known[i] = event->known[i];
            gy_stream_supersede(&streams->streams[i], event->known[i]);
            grows = true;
        }
    }
    if (grows) {
        own->line->learnt_at = own->line->waited_at = own->tail;
    }
}

gantry_status gy_streams_wait_event(struct gy_streams *streams, uint32_t index, struct gy_stream_event *event)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *own = &streams->streams[index];
    gantry_status status;
    if (own->state == GY_STREAM_MEMBER) {
        status = gy_lane_wait(&own->lane.to, event->nodes);
        gy_streams_count(&streams->counts.waits);
    } else {
        status = gy_stream_await(streams, own, event->native);
    }
    if (status == GANTRY_OK) {
        learn(streams, own, event);
    }
    assert(gy_stream_is_valid(streams, index));
    return status;
}

gantry_status gy_stream_wait_plain(struct gy_streams *streams, uint32_t index, struct gy_stream_event *event)
{
    struct gy_stream *s = &streams->streams[index];
    const gantry_status status = gy_stream_await(streams, s, event->native);
    if (status == GANTRY_OK) {
        gy_known_merge(streams, s->plain.known, event->known);
        s->plain.learnt_at = s->plain.waited_at = s->tail;
    }
    return status;
}

/* The graph that the stream is a member of comes after the event. */
static gantry_status wait_on_home(struct gy_streams *streams, uint32_t stream, struct gy_stream_event *event)
{
    const gantry_status status = gy_stream_wait_plain(streams, streams->batch.home, event);
    if (status == GANTRY_OK) {
        learn(streams, &streams->streams[stream], event);
    }
    return status;
}

/* One of the functions by which what a stream enqueues, or its lane notes, comes after an event. */
typedef gantry_status wait_fn(struct gy_streams *streams, uint32_t stream, struct gy_stream_event *event);

/* `wait` for the points of `clock` on the streams `which`, of which the clock `known` does not know. */
static gantry_status wait_points(struct gy_streams *streams, uint32_t stream, const uint64_t *known,
                                 const struct gy_clock *clock, uint64_t which, wait_fn *wait)
{
    struct needs needs;
    gantry_status status = collect_needs(streams, known, clock, which, &needs);
    if (status != GANTRY_OK) {
        return status;
    }
    reduce_needs(streams, clock, &needs);
    for (uint64_t left = needs.streams; left != 0 && status == GANTRY_OK; left &= left - 1) {
        status = wait(streams, stream, needs.events[__builtin_ctzll(left)]);
    }
    return status;
}

gantry_status gy_stream_wait_plain_clock(struct gy_streams *streams, uint32_t index,
                                         const struct gy_clock *clock, uint64_t which)
{
    return wait_points(streams, index, streams->streams[index].plain.known, clock, which,
                       gy_stream_wait_plain);
}

/* Would that add no wait? */
static bool is_ordered(const struct gy_streams *streams, uint32_t index, const struct gy_clock *clock)
{
    assert(gy_stream_is_valid(streams, index));
    const struct gy_stream *own = &streams->streams[index];
    const struct gy_line *whole = own->state == GY_STREAM_MEMBER ? gy_batch_line(streams) : own->line;
    bool is_known = true;
    for (uint64_t left = clock->streams; left != 0 && is_known; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        is_known = own->line->known[i] >= clock->seq[i] || whole->known[i] >= clock->seq[i] ||
                   gy_stream_has_passed(&streams->streams[i], clock->seq[i]);
    }
    return is_known;
}

gantry_status gy_streams_wait_outside(struct gy_streams *streams, uint32_t stream,
                                      struct gy_stream_event *event)
{
    struct gy_stream *own = &streams->streams[stream];
    struct gy_batch_order *batch = &streams->batch;
    assert(gy_batch_is_open(batch) && event->native != NULL);
    if (event->noted == batch->number) { /* the graph records it again: so it waits for the record now */
        return wait_on_home(streams, stream, event);
    }
    event->awaited = batch->number;
    gy_streams_count(&streams->counts.waits);
    const gantry_status status = gy_lane_wait_event(&own->lane.to, event->native);
    if (status == GANTRY_OK) {
        learn(streams, own, event);
    }
    return status;
}

gantry_status gy_streams_wait_fence(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                    struct gy_stream_event *fence)
{
    const struct gy_batch_order *batch = &streams->batch;
    if (is_ordered(streams, stream, clock)) {
        gy_streams_count(&streams->counts.dropped);
        return GANTRY_OK;
    }
    if (streams->streams[stream].state != GY_STREAM_MEMBER) {
        return gy_streams_wait_event(streams, stream, fence);
    }
    return batch->by_lanes && batch->is_beside ? gy_streams_wait_outside(streams, stream, fence)
                                               : wait_on_home(streams, stream, fence);
}

/* A member waits for work that is in its graph; for everything else its lane waits where `by_lane`, or else
 * the graph. */
static GY_RARE gantry_status wait_as_member(struct gy_streams *streams, uint32_t stream,
                                            const struct gy_clock *clock, uint64_t which, bool by_lane)
{
    const uint64_t *known = streams->streams[stream].line->known, *before = gy_batch_line(streams)->known;
    uint64_t inside = 0, outside = 0;
    for (uint64_t left = which; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (gy_batch_holds(streams, i, clock->seq[i])) {
            inside |= left & -left;
        } else if (known[i] < clock->seq[i] && before[i] < clock->seq[i]) {
            outside |= left & -left;
        } else {
            gy_streams_count(&streams->counts.dropped);
        }
    }
    gantry_status status = by_lane
                               ? wait_points(streams, stream, known, clock, outside, gy_streams_wait_outside)
                               : wait_points(streams, stream, before, clock, outside, wait_on_home);
    return status == GANTRY_OK && inside != 0
               ? wait_points(streams, stream, known, clock, inside, gy_streams_wait_event)
               : status;
}

static gantry_status wait_at_home(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                  bool by_lane)
{
    assert(gy_stream_is_valid(streams, stream));
    const uint64_t which = clock->streams & ~(UINT64_C(1) << stream);
    if (__builtin_expect(streams->streams[stream].state == GY_STREAM_MEMBER, 0)) {
        return wait_as_member(streams, stream, clock, which, by_lane);
    }
    if (streams->device_wide) {
        return is_ordered(streams, stream, clock) ? GANTRY_OK : gy_stream_sync(streams, stream);
    }
    return wait_points(streams, stream, streams->streams[stream].line->known, clock, which,
                       gy_streams_wait_event);
}

static gantry_status wait_clock(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock,
                                bool by_lane)
{
    gantry_status status = wait_at_home(streams, stream, clock, by_lane);
    return status == GANTRY_OK && __builtin_expect(clock->crossing != NULL, 0)
               ? gy_abroad_wait(streams, stream, clock->crossing)
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

/* ---- two lines of a stream -------------------------------------------------------------------- */

#ifndef NDEBUG
static bool may_go(enum gy_stream_state from, enum gy_stream_state to)
{
    return to == GY_STREAM_PLAIN ? from != GY_STREAM_PLAIN
                                 : (to == GY_STREAM_BEHIND) == (from == GY_STREAM_MEMBER);
}
#endif

/* The only writer of a stream's state. */
static void enter_state(struct gy_stream *s, enum gy_stream_state next)
{
    assert(may_go(s->state, next));
    s->state = next;
    s->line = next == GY_STREAM_PLAIN ? &s->plain : &s->lane;
}

void gy_stream_join_graph(const struct gy_streams *streams, struct gy_stream *s)
{
    if (s->state == GY_STREAM_PLAIN) { /* from now on the lane has a clock of its own */
        memcpy(s->lane.known, s->plain.known, streams->count * sizeof(s->lane.known[0]));
        s->lane.learnt_at = s->plain.learnt_at;
        s->lane.waited_at = s->plain.waited_at;
        gy_abroad_copy(&s->lane, &s->plain);
    }
    enter_state(s, GY_STREAM_MEMBER);
    s->held.may_be = false;
    s->lane.seen = streams->barrier.generation; /* as its home has */
    s->noted.entered = s->tail;
    memset(s->lane.ring.seqs, 0, sizeof(s->lane.ring.seqs));
}

void gy_stream_go_behind(struct gy_stream *s, struct gy_stream_event *end, uint32_t home)
{
    s->behind = (struct gy_behind){end, home, s->running != 0};
    enter_state(s, GY_STREAM_BEHIND);
}

void gy_stream_unite(const struct gy_streams *streams, struct gy_stream *s)
{
    gy_known_merge(streams, s->plain.known, s->lane.known);
    gy_abroad_merge(&s->plain, &s->lane);
    s->plain.seen = s->plain.seen > s->lane.seen ? s->plain.seen : s->lane.seen;
    s->plain.learnt_at = s->plain.waited_at = s->tail;
    s->behind.end = NULL;
    s->held.carries = false;
    enter_state(s, GY_STREAM_PLAIN);
}

/* ---- the ends of graphs ---------------------------------------------------------------------- */

gantry_status gy_stream_settle_behind(struct gy_streams *streams, uint32_t index)
{
    struct gy_stream *s = &streams->streams[index];
    assert(s->state == GY_STREAM_BEHIND);
    if (s->behind.home != index) {
        const gantry_status status = gy_stream_await(streams, s, s->behind.end->native);
        if (status != GANTRY_OK) {
            return status;
        }
        gy_stream_touch(s); /* a timeline point says so only when the stream gets work */
    }
    gy_stream_unite(streams, s);
    return GANTRY_OK;
}

/* Is the end of the graph the last on the stream that it was launched on? */
static bool is_last_there(const struct gy_streams *streams, const struct gy_stream *s)
{
    const struct gy_stream *home = &streams->streams[s->behind.home];
    const struct gy_stream_ring *ring = &home->plain.ring;
    const bool is_there = home->line == &home->plain || home->behind.home == s->behind.home;
    return !home->is_unrecorded && home->state != GY_STREAM_MEMBER && is_there &&
           ring->at[(ring->next - 1) % GY_STREAM_EVENTS] == s->behind.end;
}

gantry_status gy_streams_end_of(struct gy_streams *streams, uint32_t stream, CUstream *on)
{
    const struct gy_stream *s = &streams->streams[stream];
    assert(s->state != GY_STREAM_MEMBER);
    if (s->state == GY_STREAM_BEHIND && is_last_there(streams, s)) {
        *on = streams->streams[s->behind.home].native;
        return GANTRY_OK;
    }
    *on = s->native;
    return gy_stream_settle(streams, stream);
}

/* ---- barriers ------------------------------------------------------------------------------ */

gantry_status gy_streams_join(struct gy_streams *streams, uint32_t index, uint32_t except)
{
    assert(gy_streams_are_valid(streams));
    struct gy_stream_event *joined = NULL;
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        gantry_status status = GANTRY_OK;
        if (i == except || s->state == GY_STREAM_MEMBER) {
            continue;
        }
        if (s->state == GY_STREAM_BEHIND && s->behind.end != joined) { /* most have the same */
            status = gy_stream_wait_plain(streams, index, s->behind.end);
            joined = s->behind.end;
        }
        struct gy_stream_event *event;
        if (status == GANTRY_OK && s->dirty) {
            status = gy_stream_record(streams, i, &event);
            status = status == GANTRY_OK ? gy_stream_wait_plain(streams, index, event) : status;
        }
        if (status != GANTRY_OK) {
            return status;
        }
        s->dirty = false;
    }
    return GANTRY_OK;
}

static gantry_status publish_barrier(struct gy_streams *streams, const struct gy_stream *s)
{
    assert(gy_streams_are_valid(streams));
    uint32_t next = 1 - streams->barrier.latest;
    const gantry_status status = record_native(streams, s, &streams->barrier.events[next]);
    if (status != GANTRY_OK) {
        return status;
    }
    streams->barrier.latest = next;
    streams->barrier.generation++;
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
    gantry_status status = gy_streams_join(streams, stream, stream);
    if (status == GANTRY_OK) {
        status = publish_barrier(streams, s);
    }
    if (status == GANTRY_OK) {
        s->plain.seen = streams->barrier.generation;
        s->epoch = streams->epoch;
    }
    return status;
}
