/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/batch_order.h"

#include "dispatcher/order/lane_order.h"
#include "dispatcher/order/waits.h"

#include <assert.h>
#include <string.h>

/* ---- states ---------------------------------------------------------------------------------- */

#ifndef NDEBUG
static bool may_go(enum gy_batch_state from, enum gy_batch_state to)
{
    switch (from) {
    case GY_BATCH_CLOSED:
    case GY_BATCH_SUSPENDED:
        return to == GY_BATCH_OPEN;
    case GY_BATCH_OPEN:
        return to != GY_BATCH_OPEN;
    case GY_BATCH_SYNCED:
        return to == GY_BATCH_CLOSED || to == GY_BATCH_SYNCED;
    }
    return false;
}
#endif

/* The only writer of the batch's state. */
static void batch_enter(struct gy_batch_order *batch, enum gy_batch_state next)
{
    assert(may_go(batch->state, next));
    batch->state = next;
}

/* ---- members --------------------------------------------------------------------------------- */

/* Streams enter behind these nodes. */
static void open_entrance(struct gy_streams *streams, struct gy_node_set entrance)
{
    struct gy_batch_order *batch = &streams->batch;
    batch->entrance = entrance;
    batch->entrances++;
    streams->epoch++;
    gy_streams_count(&streams->counts.recorded);
}

/* Whatever the lane has noted in this batch is before the entrance. */
static void pass_entrance(struct gy_streams *streams, struct gy_stream *s)
{
    s->lane.to.nodes = streams->batch.nodes;
    s->lane.to.last = streams->batch.entrance;
    s->noted.entrance = streams->batch.entrances;
    gy_streams_count(&streams->counts.waits);
}

static gantry_status meet_barrier(struct gy_streams *streams, struct gy_stream *s)
{
    gantry_status status = GANTRY_OK;
    if (s->plain.seen != streams->barrier.generation) {
        status = gy_stream_await(streams, s, streams->barrier.events[streams->barrier.latest]);
        s->plain.seen = status == GANTRY_OK ? streams->barrier.generation : s->plain.seen;
    }
    return status;
}

static gantry_status meet_plain(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    const gantry_status status = gy_stream_settle(streams, stream);
    return status == GANTRY_OK ? meet_barrier(streams, s) : status;
}

/* The stream of the first member is the home, unless a graph there would wait for work of its own step.  The
 * plain stream of the home does not wait for what its lane has in earlier graphs of that step. */
static gantry_status choose_home(struct gy_streams *streams, uint32_t stream)
{
    struct gy_batch_order *batch = &streams->batch;
    gantry_status status = GANTRY_OK;
    batch->home = stream;
    batch->waited = NULL;
    if (batch->by_lanes && gy_lane_order_is_held_up(streams, stream)) {
        status = gy_lane_order_find_home(streams, stream, &batch->home);
    }
    struct gy_stream *home = &streams->streams[batch->home];
    const bool is_apart = batch->by_lanes && home->state == GY_STREAM_BEHIND &&
                          home->behind.home != batch->home && gy_lane_order_is_of_step(streams, home);
    if (status == GANTRY_OK) {
        status = is_apart ? meet_barrier(streams, home) : meet_plain(streams, batch->home);
    }
    return status;
}

/* The graph comes after the graph that the stream's work is in.  One wait is enough for all its members. */
static gantry_status wait_behind(struct gy_streams *streams, const struct gy_stream *s)
{
    struct gy_batch_order *batch = &streams->batch;
    if (s->behind.home == batch->home || s->behind.end == batch->waited) {
        return GANTRY_OK;
    }
    batch->waited = s->behind.end;
    return gy_stream_wait_plain(streams, batch->home, s->behind.end);
}

/* The graph comes after the work on the plain stream of a member.  In another partition that may include
 * waits which others have put there for all its streams. */
static gantry_status wait_for_member(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    if (streams->batch.by_lanes && gy_lane_order_is_of_step(streams, s)) {
        return gy_lane_order_enter(streams, stream);
    }
    const uint32_t home = streams->batch.home;
    const bool is_foreign = s->kind != streams->streams[home].kind;
    gantry_status status = is_foreign ? gy_stream_settle(streams, stream) : GANTRY_OK;
    const bool is_beyond = s->is_unrecorded || gy_lane_order_bears_graph(s);
    if (status == GANTRY_OK && (is_foreign || is_beyond)) {
        struct gy_stream_event *event;
        status = gy_stream_record(streams, stream, &event);
        return status == GANTRY_OK ? gy_stream_wait_plain(streams, home, event) : status;
    }
    if (status == GANTRY_OK && s->state == GY_STREAM_BEHIND) {
        return wait_behind(streams, s);
    }
    struct gy_clock tail = {.streams = UINT64_C(1) << stream};
    tail.seq[stream] = s->tail;
    return status == GANTRY_OK && s->tail != 0
               ? gy_stream_wait_plain_clock(streams, home, &tail, tail.streams)
               : status;
}

static gantry_status enter(struct gy_streams *streams, uint32_t stream)
{
    struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = GANTRY_OK;
    pass_entrance(streams, s);
    s->noted.end = NULL;
    s->noted.left = 0;
    if (batch->members == 0) {
        status = choose_home(streams, stream);
    }
    if (status == GANTRY_OK && (batch->home != stream || s->state == GY_STREAM_BEHIND)) {
        status = wait_for_member(streams, stream);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    batch->members |= UINT64_C(1) << stream;
    gy_stream_join_graph(streams, s);
    return GANTRY_OK;
}

gantry_status gy_streams_meet(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = GANTRY_OK;
    if (!gy_batch_is_open(&streams->batch)) {
        assert(s->state != GY_STREAM_MEMBER);
        status = meet_plain(streams, stream);
    } else if (s->state != GY_STREAM_MEMBER) {
        status = enter(streams, stream);
    } else if (s->noted.entrance != streams->batch.entrances) {
        pass_entrance(streams, s);
    }
    s->epoch = status == GANTRY_OK ? streams->epoch : s->epoch;
    assert(gy_stream_is_valid(streams, stream));
    return status;
}

/* ---- sync points ------------------------------------------------------------------------------ */

/* The next work of the member comes after everything: members in the graph, the rest before it. */
static gantry_status sync_as_member(struct gy_streams *streams, uint32_t stream)
{
    struct gy_batch_order *batch = &streams->batch;
    gantry_status status = gy_streams_join(streams, batch->home, UINT32_MAX);
    for (uint64_t left = batch->members & ~(UINT64_C(1) << stream); left != 0 && status == GANTRY_OK;
         left &= left - 1) {
        struct gy_stream_event *event;
        status = gy_stream_record(streams, (uint32_t)__builtin_ctzll(left), &event);
        status = status == GANTRY_OK ? gy_streams_wait_event(streams, stream, event) : status;
    }
    struct gy_stream *s = &streams->streams[stream];
    if (status == GANTRY_OK) {
        open_entrance(streams, s->lane.to.last);
        s->noted.entrance = batch->entrances;
        s->epoch = streams->epoch;
        batch_enter(batch, GY_BATCH_SYNCED);
    }
    return status;
}

gantry_status gy_streams_sync_point(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    return streams->streams[stream].state == GY_STREAM_MEMBER ? sync_as_member(streams, stream)
                                                              : gy_stream_sync(streams, stream);
}

bool gy_batch_holds_any(const struct gy_streams *streams, const struct gy_clock *clock)
{
    bool holds = false;
    for (uint64_t left = clock->streams & streams->batch.members; left != 0 && !holds; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        holds = gy_batch_holds(streams, i, clock->seq[i]);
    }
    return holds;
}

bool gy_batch_reaches(const struct gy_streams *streams, uint64_t wait_set)
{
    struct gy_clock room;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    return clock != NULL ? gy_batch_holds_any(streams, clock)
                         : gy_batch_is_open(&streams->batch); /* after everything */
}

/* ---- work ahead of it ------------------------------------------------------------------------ */

void gy_batch_suspend(struct gy_streams *streams)
{
    batch_enter(&streams->batch, GY_BATCH_SUSPENDED);
    assert(gy_streams_are_valid(streams));
}

/* A stream that has met the pool meanwhile meets it again if it gets work in the graph. */
void gy_batch_resume(struct gy_streams *streams)
{
    assert(streams->batch.state == GY_BATCH_SUSPENDED);
    batch_enter(&streams->batch, GY_BATCH_OPEN);
    streams->epoch++;
    assert(gy_streams_are_valid(streams));
}

/* ---- life ------------------------------------------------------------------------------------ */

void gy_batch_begin(struct gy_streams *streams, struct gy_nodes *nodes, bool by_lanes)
{
    assert(streams->batch.state == GY_BATCH_CLOSED && gy_streams_are_valid(streams));
    streams->batch.nodes = nodes;
    streams->batch.number++;
    streams->batch.members = 0;
    streams->batch.by_lanes = by_lanes;
    batch_enter(&streams->batch, GY_BATCH_OPEN);
    open_entrance(streams, (struct gy_node_set){0, 0});
}

CUstream gy_batch_home(const struct gy_streams *streams)
{
    assert(streams->batch.members != 0);
    return streams->streams[streams->batch.home].native;
}

uint32_t gy_batch_partition(const struct gy_streams *streams)
{
    assert(streams->batch.members != 0);
    return GY_STREAM_PARTITION(&streams->streams[streams->batch.home]);
}

/* The graph has no members any more.  Returns the streams that were, which have their state yet. */
static uint64_t leave(struct gy_streams *streams)
{
    const uint64_t members = streams->batch.members;
    for (uint64_t left = members; left != 0; left &= left - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        s->held.may_be = s->held.carries;
        s->dirty = s->is_unrecorded = false;
    }
    streams->batch.members = 0;
    batch_enter(&streams->batch, GY_BATCH_CLOSED);
    streams->epoch++;
    return members;
}

/* Work goes to the native streams of these again. */
static void unite(struct gy_streams *streams, uint64_t members)
{
    for (; members != 0; members &= members - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(members)];
        gy_stream_touch(s);
        gy_stream_unite(streams, s);
    }
}

void gy_batch_abandon(struct gy_streams *streams)
{
    unite(streams, leave(streams));
    assert(gy_streams_are_valid(streams));
}

/* Each member's work in the graph comes after some of the others': note beside which it is.  The clocks are
 * those of the lanes yet.  A task that has begun may have noted waits, although its point is not there. */
static void note_beside(struct gy_streams *streams, uint64_t members)
{
    struct gy_stream *home = &streams->streams[streams->batch.home];
    uint64_t open = 0;
    for (uint64_t left = members; left != 0; left &= left - 1) {
        open |= streams->streams[__builtin_ctzll(left)].running != 0 ? left & -left : 0;
    }
    home->held.beside = members;
    home->held.open = open;
    for (uint64_t all = members; all != 0; all &= all - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(all)];
        uint64_t beside = open & ~(all & -all);
        for (uint64_t left = members; left != 0; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(left);
            beside |= s->line->known[i] < streams->streams[i].tail ? left & -left : 0;
        }
        if (s->noted.end == NULL || !s->held.carries || s == home) {
            s->held.beside = beside;
            s->held.open = open;
        }
    }
}

/* The graph comes after everything that any member comes after; a lane that ends by itself only after what
 * the graph came after as a whole, and the lane. */
static void merge_known(struct gy_streams *streams, uint64_t members)
{
    uint64_t *known = gy_batch_line(streams)->known;
    for (uint64_t left = members; left != 0; left &= left - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        gy_lane_order_learn_left(streams, s);
        if (s->noted.end != NULL) {
            gy_known_merge(streams, s->line->known, known);
            memcpy(s->noted.end->known, s->line->known, streams->count * sizeof(s->line->known[0]));
        }
    }
    for (uint64_t left = members; left != 0; left &= left - 1) {
        gy_known_merge(streams, known, streams->streams[__builtin_ctzll(left)].line->known);
    }
    for (uint64_t left = members; left != 0; left &= left - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        if (s->noted.end == NULL) {
            memcpy(s->line->known, known, streams->count * sizeof(s->line->known[0]));
        }
        s->line->learnt_at = s->tail;
    }
}

/* Record the end of the graph on its home. */
static gantry_status record_end(struct gy_streams *streams, struct gy_stream_event **out)
{
    const struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *home = &streams->streams[batch->home];
    /* What its lane has in an earlier graph does not come before this event, which is none of its ring's. */
    const bool is_apart = home->state == GY_STREAM_BEHIND;
    struct gy_stream_event *end = is_apart ? &home->plain.ends[home->plain.next_end++ % GY_STREAM_ENDS]
                                           : &home->plain.ring.own[home->plain.ring.next];
    gantry_status status = gy_streams_release_end(streams, end);
    status = status == GANTRY_OK ? gy_stream_record_plain(streams, batch->home, end) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    end->is_graph_end = true;
    gy_lane_order_keep_left(home);
    if (home->state == GY_STREAM_MEMBER && home->noted.end != NULL) {
        gy_ring_keep(&home->plain.ring, home->noted.end, home->noted.end_seq);
    }
    if (!is_apart) {
        gy_ring_keep(&home->plain.ring, end, home->tail);
    }
    *out = end;
    return GANTRY_OK;
}

static void hold(const struct gy_batch_order *batch, struct gy_stream *s, struct gy_stream_event *end,
                 bool carries)
{
    const uint64_t beside = s->held.beside, open = s->held.open; /* see note_beside() */
    s->held = (struct gy_held){end, s->tail, beside, open, true, carries, batch->order, batch->run};
}

/* The graph was launched on the stream: its plain work comes after that. */
static void note_home(const struct gy_batch_order *batch, struct gy_stream *home, struct gy_stream_event *end)
{
    home->dirty = true; /* the graph is joined with it */
    hold(batch, home, end, home->state != GY_STREAM_PLAIN);
    if (home->state == GY_STREAM_PLAIN) {
        home->plain.learnt_at = home->plain.waited_at = home->tail;
        home->owner = NULL; /* its tasks do not take it for a stream that their step comes after anyhow */
    }
}

/* The member's work is behind its lane's end, or that of the graph. */
static gantry_status note_member(struct gy_streams *streams, uint32_t index, struct gy_stream_event *end)
{
    const struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *s = &streams->streams[index];
    struct gy_stream_event *own = s->noted.end;
    const bool is_home = index == batch->home; /* it has kept its ends, and is held */
    gy_lane_order_keep_left(s);
    if (!is_home) {
        gy_ring_keep(&s->plain.ring, own != NULL ? own : end, own != NULL ? s->noted.end_seq : s->tail);
    }
    if (!is_home && own == NULL) {
        hold(batch, s, end, false);
    } else if (!is_home && !s->held.carries) {
        s->held.by = NULL;
    }
    gy_stream_go_behind(s, own != NULL ? own : end, batch->home);
    return s->kind != streams->streams[batch->home].kind ? gy_stream_settle(streams, index) : GANTRY_OK;
}

gantry_status gy_batch_launched(struct gy_streams *streams)
{
    assert(gy_batch_is_open(&streams->batch) && streams->batch.members != 0);
    const struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *home = &streams->streams[batch->home];
    const bool is_synced = batch->state == GY_BATCH_SYNCED;
    const uint64_t members = leave(streams);
    note_beside(streams, members);
    merge_known(streams, members);
    struct gy_stream_event *end = NULL;
    gantry_status status = record_end(streams, &end);
    if (status == GANTRY_OK) {
        note_home(batch, home, end);
    }
    uint64_t left = members;
    for (; left != 0 && status == GANTRY_OK; left &= left - 1) {
        status = note_member(streams, (uint32_t)__builtin_ctzll(left), end);
    }
    unite(streams, left); /* the context is lost */
    if (status == GANTRY_OK && is_synced) {
        status = gy_stream_settle(streams, batch->home);
        status = status == GANTRY_OK ? gy_stream_sync(streams, batch->home) : status;
    }
    assert(status != GANTRY_OK || gy_streams_are_valid(streams));
    return status;
}

/* Tasks that enqueued nothing have ended in the graph: who comes after them waits for what is on the streams
 * by now, and not for what follows. */
static gantry_status record_ended(struct gy_streams *streams, uint64_t members)
{
    gantry_status status = GANTRY_OK;
    for (uint64_t left = members; left != 0 && status == GANTRY_OK; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream_event *event;
        const struct gy_stream *s = &streams->streams[i];
        status = s->tail > s->noted.entered ? gy_stream_record(streams, i, &event) : GANTRY_OK;
    }
    return status;
}

gantry_status gy_batch_dropped(struct gy_streams *streams)
{
    struct gy_batch_order *batch = &streams->batch;
    const bool is_synced = batch->state == GY_BATCH_SYNCED;
    const uint64_t members = leave(streams);
    unite(streams, members);
    struct gy_stream *home = &streams->streams[batch->home];
    gantry_status status = GANTRY_OK;
    /* all but the home have not waited for the work that comes before the graph */
    if ((members & ~(UINT64_C(1) << batch->home)) != 0) {
        struct gy_stream_event *event;
        status = gy_stream_record(streams, batch->home, &event);
        for (uint64_t left = members & ~(UINT64_C(1) << batch->home); left != 0 && status == GANTRY_OK;
             left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(left);
            status = gy_streams_wait_event(streams, i, event);
        }
        /* a home that is no member may have waited, too, and no timeline point of its own says so */
        home->is_unrecorded |= (members >> batch->home & 1u) == 0;
    }
    status = status == GANTRY_OK ? record_ended(streams, members) : status;
    if (status == GANTRY_OK && is_synced && members != 0) {
        status = gy_stream_sync(streams, batch->home);
    }
    assert(status != GANTRY_OK || gy_streams_are_valid(streams));
    return status;
}
