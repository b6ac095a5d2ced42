#include "dispatcher/order/batch_order.h"

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

static struct gy_tail home_of(struct gy_streams *streams)
{
    assert(streams->batch.members != 0);
    return (struct gy_tail){streams->streams[streams->batch.home].native, streams->batch.known};
}

/* ---- members --------------------------------------------------------------------------------- */

/* Streams enter behind these nodes. */
static void open_entrance(struct gy_streams *streams, struct gy_node_set entrance)
{
    struct gy_batch_order *batch = &streams->batch;
    batch->entrance = entrance;
    batch->entrances++;
    streams->epoch++;
    gy_streams_count(&streams->recorded);
}

/* Whatever the lane has noted in this batch is before the entrance. */
static void pass_entrance(struct gy_streams *streams, struct gy_stream *s)
{
    s->lane.nodes = streams->batch.nodes;
    s->lane.last = streams->batch.entrance;
    s->entrance = streams->batch.entrances;
    gy_streams_count(&streams->waits);
}

static gantry_status meet_plain(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = s->behind != NULL ? gy_stream_settle(streams, stream) : GANTRY_OK;
    if (status == GANTRY_OK && s->seen != streams->generation) {
        status =
            GY_CALL(streams->context, cuStreamWaitEvent(s->native, streams->barriers[streams->barrier], 0));
        s->seen = status == GANTRY_OK ? streams->generation : s->seen;
        gy_streams_count(&streams->waits);
    }
    return status;
}

/* The graph comes after the graph that the stream's work is in.  One wait is enough for all its members. */
static gantry_status wait_behind(struct gy_streams *streams, const struct gy_stream *s)
{
    struct gy_batch_order *batch = &streams->batch;
    if (s->behind_home == batch->home || s->behind == batch->waited) {
        return GANTRY_OK;
    }
    const struct gy_tail home = home_of(streams);
    batch->waited = s->behind;
    return gy_tail_wait(streams, &home, s->behind);
}

/* The graph comes after the work on the plain stream of a member.  In another partition that may include
 * waits which others have put there for all its streams. */
static gantry_status wait_for_member(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    const bool is_foreign = s->kind != streams->streams[streams->batch.home].kind;
    const struct gy_tail home = home_of(streams);
    gantry_status status = GANTRY_OK;
    if (is_foreign && s->behind != NULL) {
        status = gy_stream_settle(streams, stream);
    }
    if (status == GANTRY_OK && (is_foreign || s->is_unrecorded)) {
        struct gy_stream_event *event;
        status = gy_stream_record(streams, stream, &event);
        return status == GANTRY_OK ? gy_tail_wait(streams, &home, event) : status;
    }
    if (status == GANTRY_OK && s->behind != NULL) {
        return wait_behind(streams, s);
    }
    struct gy_clock tail = {.streams = UINT64_C(1) << stream};
    tail.seq[stream] = s->tail;
    return status == GANTRY_OK && s->tail != 0 ? gy_tail_wait_clock(streams, &home, &tail, tail.streams)
                                               : status;
}

static gantry_status enter(struct gy_streams *streams, uint32_t stream)
{
    struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = GANTRY_OK;
    pass_entrance(streams, s);
    if (batch->members == 0) {
        status = meet_plain(streams, stream);
        batch->home = stream;
        batch->waited = NULL;
        memcpy(batch->known, s->known, streams->count * sizeof(batch->known[0]));
    } else {
        status = wait_for_member(streams, stream);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    batch->members |= UINT64_C(1) << stream;
    s->is_member = true;
    s->behind = NULL;
    s->seen = streams->generation; /* as its home has */
    s->entered = s->tail;
    memset(s->inner.seqs, 0, sizeof(s->inner.seqs));
    return GANTRY_OK;
}

gantry_status gy_streams_meet(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = GANTRY_OK;
    if (!gy_batch_is_open(&streams->batch)) {
        assert(!s->is_member);
        status = meet_plain(streams, stream);
    } else if (!s->is_member) {
        status = enter(streams, stream);
    } else if (s->entrance != streams->batch.entrances) {
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
    const struct gy_tail home = home_of(streams);
    gantry_status status = gy_streams_join(streams, &home, UINT32_MAX);
    for (uint64_t left = batch->members & ~(UINT64_C(1) << stream); left != 0 && status == GANTRY_OK;
         left &= left - 1) {
        struct gy_stream_event *event;
        status = gy_stream_record(streams, (uint32_t)__builtin_ctzll(left), &event);
        status = status == GANTRY_OK ? gy_streams_wait_event(streams, stream, event) : status;
    }
    struct gy_stream *s = &streams->streams[stream];
    if (status == GANTRY_OK) {
        open_entrance(streams, s->lane.last);
        s->entrance = batch->entrances;
        s->epoch = streams->epoch;
        batch_enter(batch, GY_BATCH_SYNCED);
    }
    return status;
}

gantry_status gy_streams_sync_point(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    return streams->streams[stream].is_member ? sync_as_member(streams, stream)
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

void gy_batch_begin(struct gy_streams *streams, struct gy_nodes *nodes)
{
    assert(streams->batch.state == GY_BATCH_CLOSED && gy_streams_are_valid(streams));
    streams->batch.nodes = nodes;
    streams->batch.members = 0;
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

/* No stream is a member any more.  Returns the streams that were. */
static uint64_t leave(struct gy_streams *streams)
{
    const uint64_t members = streams->batch.members;
    for (uint64_t left = members; left != 0; left &= left - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        s->is_member = false;
        s->dirty = s->is_unrecorded = false;
    }
    streams->batch.members = 0;
    batch_enter(&streams->batch, GY_BATCH_CLOSED);
    streams->epoch++;
    return members;
}

void gy_batch_abandon(struct gy_streams *streams)
{
    (void)leave(streams);
    assert(gy_streams_are_valid(streams));
}

/* Each member's work in the graph comes after some of the others': note beside which it is.  The clocks are
 * those of the lanes yet. */
static void note_beside(struct gy_streams *streams, uint64_t members)
{
    for (uint64_t all = members; all != 0; all &= all - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(all)];
        s->beside = 0;
        for (uint64_t left = members; left != 0; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(left);
            s->beside |= s->known[i] < streams->streams[i].tail ? left & -left : 0;
        }
    }
}

/* The graph comes after everything that any member comes after. */
static void merge_known(struct gy_streams *streams, uint64_t members)
{
    struct gy_batch_order *batch = &streams->batch;
    for (uint64_t left = members; left != 0; left &= left - 1) {
        const struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        for (uint32_t i = 0; i < streams->count; i++) {
            batch->known[i] = batch->known[i] < s->known[i] ? s->known[i] : batch->known[i];
        }
    }
    for (uint64_t left = members; left != 0; left &= left - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        memcpy(s->known, batch->known, streams->count * sizeof(s->known[0]));
        s->learnt_at = s->tail;
    }
}

gantry_status gy_batch_launched(struct gy_streams *streams)
{
    assert(gy_batch_is_open(&streams->batch) && streams->batch.members != 0);
    struct gy_batch_order *batch = &streams->batch;
    struct gy_stream *home = &streams->streams[batch->home];
    const bool is_synced = batch->state == GY_BATCH_SYNCED;
    const uint64_t members = leave(streams);
    note_beside(streams, members);
    merge_known(streams, members);
    struct gy_stream_event *end;
    gantry_status status = gy_stream_record(streams, batch->home, &end);
    home->dirty = true; /* the graph is joined with it */
    for (uint64_t left = members; left != 0 && status == GANTRY_OK; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &streams->streams[i];
        if (i != batch->home) {
            gy_stream_keep(s, end);
        }
        s->behind = end;
        s->behind_home = batch->home;
        status = s->kind != home->kind ? gy_stream_settle(streams, i) : GANTRY_OK;
    }
    if (status == GANTRY_OK && is_synced) {
        status = gy_stream_sync(streams, batch->home);
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
        status = s->tail > s->entered ? gy_stream_record(streams, i, &event) : GANTRY_OK;
    }
    return status;
}

gantry_status gy_batch_dropped(struct gy_streams *streams)
{
    struct gy_batch_order *batch = &streams->batch;
    const bool is_synced = batch->state == GY_BATCH_SYNCED;
    const uint64_t members = leave(streams);
    for (uint64_t left = members; left != 0; left &= left - 1) {
        struct gy_stream *s = &streams->streams[__builtin_ctzll(left)];
        s->dirty = s->is_unrecorded = true;
    }
    gantry_status status = GANTRY_OK;
    /* all but the first member have not waited for the work that comes before it */
    if ((members & (members - 1)) != 0) {
        struct gy_stream_event *event;
        status = gy_stream_record(streams, batch->home, &event);
        for (uint64_t left = members & ~(UINT64_C(1) << batch->home); left != 0 && status == GANTRY_OK;
             left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(left);
            status = gy_streams_wait_event(streams, i, event);
        }
    }
    status = status == GANTRY_OK ? record_ended(streams, members) : status;
    if (status == GANTRY_OK && is_synced && members != 0) {
        status = gy_stream_sync(streams, batch->home);
    }
    assert(status != GANTRY_OK || gy_streams_are_valid(streams));
    return status;
}
