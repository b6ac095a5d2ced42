/* Events, waits and barriers: which stream waits for which, and what that makes it come after. */
#include "dispatcher/order/waits.h"

#include <assert.h>
#include <string.h>

gantry_status gy_streams_record_into(struct gy_streams *streams, uint32_t index,
                                     struct gy_stream_event *event)
{
    assert(gy_stream_is_valid(streams, index));
    const struct gy_stream *s = &streams->streams[index];
    gantry_status status = GANTRY_OK;
    if (event->native == NULL) {
        status = GY_CALL(streams->context, cuEventCreate(&event->native, CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(streams->context, cuEventRecord(event->native, s->native));
    }
    if (status != GANTRY_OK) {
        return status;
    }
    assert(s->known[index] == s->tail);
    memcpy(event->known, s->known, streams->count * sizeof(event->known[0]));
    gy_streams_count(&streams->recorded);
    return GANTRY_OK;
}

static GY_RARE gantry_status record(struct gy_streams *streams, uint32_t index, struct gy_stream_event **out)
{
    struct gy_stream *s = &streams->streams[index];
    struct gy_stream_event *event = &s->events[s->next_event];
    gantry_status status = gy_streams_record_into(streams, index, event);
    if (status != GANTRY_OK) {
        return status;
    }
    s->seqs[s->next_event] = s->tail;
    s->next_event = (s->next_event + 1) % GY_STREAM_EVENTS;
    *out = event;
    return GANTRY_OK;
}

/* The earliest event that covers position `seq`, recorded now if there is none. */
static gantry_status event_for(struct gy_streams *streams, uint32_t index, uint64_t seq,
                               struct gy_stream_event **out)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *s = &streams->streams[index];
    uint32_t covering = 0; /* of the latest, how many; most often it is one of the first */
    while (covering < GY_STREAM_EVENTS && s->seqs[(s->next_event - 1 - covering) % GY_STREAM_EVENTS] >= seq) {
        covering++;
    }
    if (covering == 0) {
        return record(streams, index, out);
    }
    *out = &s->events[(s->next_event - covering) % GY_STREAM_EVENTS];
    return GANTRY_OK;
}

/* What a task needs: positions not yet before its stream's tail, each with an event. */
struct needs {
    uint64_t streams; /* bit s: events[s] is needed */
    struct gy_stream_event *events[GY_STREAMS_MAX];
};

static gantry_status collect_needs(struct gy_streams *streams, uint32_t index, const struct gy_clock *clock,
                                   struct needs *needs)
{
    const struct gy_stream *own = &streams->streams[index];
    needs->streams = 0;
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (i == index) {
            continue;
        }
        uint64_t passed = atomic_load_explicit(&streams->streams[i].completed, memory_order_acquire);
        if (own->known[i] >= clock->seq[i] || passed >= clock->seq[i] ||
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

/* True when some event of `kept` is ordered after position clock->seq[i]. */
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
 * dropped one was covered by this one is not enough: the clocks of two events at the same position may
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

/* The tail of `own` comes after position `seq` of stream `of`.  (Of its own positions it knows all.) */
static inline void learn(struct gy_streams *streams, struct gy_stream *own, uint32_t of, uint64_t seq)
{
    if (own->known[of] < seq) {
        own->known[of] = seq;
        own->learnt_at = own->tail;
        gy_stream_supersede(&streams->streams[of], seq);
    }
}

gantry_status gy_streams_wait_event(struct gy_streams *streams, uint32_t index,
                                    const struct gy_stream_event *event)
{
    assert(gy_stream_is_valid(streams, index));
    struct gy_stream *own = &streams->streams[index];
    gantry_status status = GY_CALL(streams->context, cuStreamWaitEvent(own->native, event->native, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    gy_streams_count(&streams->waits);
    for (uint32_t i = 0; i < streams->count; i++) {
        learn(streams, own, i, event->known[i]);
    }
    assert(gy_stream_is_valid(streams, index));
    return GANTRY_OK;
}

/* GY_TRAIL_ALL: after the tail of every stream.  `clock` is empty. */
static void read_all(const struct gy_streams *streams, struct gy_clock *clock)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        if (streams->streams[i].tail != 0) {
            clock->streams |= UINT64_C(1) << i;
            clock->seq[i] = streams->streams[i].tail;
        }
    }
}

/* As collect_needs(), but only whether there is one. */
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

gantry_status gy_streams_wait_for(struct gy_streams *streams, uint32_t stream, uint64_t trail)
{
    struct gy_clock room;
    const struct gy_clock *clock = gy_trail_read(trail, &room);
    if (clock == NULL) {
        read_all(streams, &room);
        clock = &room;
    }
    return gy_streams_wait_clock(streams, stream, clock);
}

gantry_status gy_streams_wait_clock(struct gy_streams *streams, uint32_t stream, const struct gy_clock *clock)
{
    assert(gy_stream_is_valid(streams, stream));
    if (streams->device_wide) {
        return gy_streams_is_ordered(streams, stream, clock) ? GANTRY_OK
                                                             : gy_streams_sync_point(streams, stream);
    }
    struct needs needs;
    gantry_status status = collect_needs(streams, stream, clock, &needs);
    if (status != GANTRY_OK) {
        return status;
    }
    reduce_needs(streams, clock, &needs);
    for (uint64_t left = needs.streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        status = gy_streams_wait_event(streams, stream, needs.events[i]);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

gantry_status gy_streams_record(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    struct gy_stream_event *event;
    return record(streams, stream, &event);
}

/* ---- barriers ------------------------------------------------------------------------------ */

gantry_status gy_streams_join(struct gy_streams *streams, CUstream into, uint32_t except)
{
    assert(gy_streams_are_valid(streams));
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        if (i == except || !s->dirty) {
            continue;
        }
        struct gy_stream_event *event;
        gantry_status status = record(streams, i, &event);
        if (status == GANTRY_OK) {
            status = GY_CALL(streams->context, cuStreamWaitEvent(into, event->native, 0));
        }
        if (status != GANTRY_OK) {
            return status;
        }
        gy_streams_count(&streams->waits);
        s->dirty = false;
    }
    return GANTRY_OK;
}

gantry_status gy_streams_publish_barrier(struct gy_streams *streams, CUstream on)
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
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].floor = streams->streams[i].tail;
    }
    assert(gy_streams_are_valid(streams));
    return GANTRY_OK;
}

gantry_status gy_streams_sync_point(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = gy_streams_join(streams, s->native, stream);
    if (status == GANTRY_OK) {
        status = gy_streams_publish_barrier(streams, s->native);
    }
    if (status == GANTRY_OK) {
        s->seen = streams->generation;
    }
    return status;
}

void gy_streams_enter_shadow(struct gy_streams *streams)
{
    assert(gy_streams_are_valid(streams));
    streams->shadowed = true;
    assert(gy_streams_are_valid(streams));
}

void gy_streams_leave_shadow(struct gy_streams *streams)
{
    assert(gy_streams_are_valid(streams));
    streams->shadowed = false;
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].native = streams->streams[i].plain;
    }
    assert(gy_streams_are_valid(streams));
}

static gantry_status shadow(struct gy_streams *streams, struct gy_stream *s)
{
    gantry_status status = GANTRY_OK;
    if (s->shadow == NULL) {
        status =
            gy_partition_stream(&streams->partitions->partitions[s->kind / 2], s->kind % 2 != 0, &s->shadow);
    }
    s->native = status == GANTRY_OK ? s->shadow : s->native;
    return status;
}

gantry_status gy_streams_wait_new_barrier(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = streams->shadowed ? shadow(streams, s) : GANTRY_OK;
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(streams->context, cuStreamWaitEvent(s->native, streams->barriers[streams->barrier], 0));
    if (status == GANTRY_OK) {
        s->seen = streams->generation;
        gy_streams_count(&streams->waits);
    }
    assert(gy_stream_is_valid(streams, stream));
    return status;
}
