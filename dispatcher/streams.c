#include "dispatcher/streams.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

static void bump(_Atomic(uint64_t) *counter)
{
    /* One writer: no read-modify-write needed. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static uint32_t count_kinds(const struct gy_partitions *partitions)
{
    uint32_t kinds = partitions->count;
    for (uint32_t i = 0; i < partitions->count; i++) {
        kinds += partitions->partitions[i].wide != NULL;
    }
    return kinds;
}

gantry_status gy_streams_init(struct gy_streams *streams, struct gy_context *context,
                              struct gy_partitions *partitions, uint32_t limit, bool device_wide)
{
    limit = limit > count_kinds(partitions) ? limit : count_kinds(partitions);
    assert(limit >= 1 && limit <= GY_STREAMS_MAX);
    memset(streams, 0, sizeof(*streams));
    streams->context = context;
    streams->partitions = partitions;
    streams->limit = limit;
    streams->device_wide = device_wide;
    streams->streams = gy_zalloc_array(limit, sizeof(*streams->streams));
    if (streams->streams == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "dispatcher: no memory for %u streams", limit);
    }
    return GANTRY_OK;
}

void gy_streams_fini(struct gy_streams *streams)
{
    const struct gy_driver *driver = streams->context->driver;
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        for (uint32_t e = 0; e < GY_STREAM_EVENTS; e++) {
            if (s->events[e].native != NULL) {
                /* On a lost context destruction fails as everything does; there is nobody to tell. */
                (void)driver->cuEventDestroy(s->events[e].native);
            }
        }
        (void)driver->cuStreamDestroy(s->native);
    }
    for (int i = 0; i < 2; i++) {
        if (streams->barriers[i] != NULL) {
            (void)driver->cuEventDestroy(streams->barriers[i]);
        }
    }
    gy_free(streams->streams);
}

static gantry_status create_stream(struct gy_streams *streams, uint32_t kind, uint32_t *out)
{
    struct gy_stream *s = &streams->streams[streams->count];
    CUstream native;
    gantry_status status =
        gy_partition_stream(&streams->partitions->partitions[kind / 2], kind % 2 != 0, &native);
    if (status != GANTRY_OK) {
        return status;
    }
    s->native = native;
    s->kind = kind;
    *out = streams->count++;
    atomic_store_explicit(&streams->created, streams->count, memory_order_relaxed);
    return GANTRY_OK;
}

/* Whatever is enqueued from now on comes after the stream's work anyhow, or the host has seen it finished. */
static bool is_over(struct gy_stream *s)
{
    return s->floor >= s->tail || atomic_load_explicit(&s->completed, memory_order_acquire) >= s->tail;
}

/* Work on another stream, launched or about to be, comes after the last task of this one. */
static bool is_overtaken(const struct gy_streams *streams, uint32_t index)
{
    const struct gy_stream *s = &streams->streams[index];
    if (s->overtaken >= s->tail) {
        return true;
    }
    for (uint32_t i = 0; i < streams->count; i++) {
        if (i != index && streams->streams[i].known[index] >= s->tail) {
            return true;
        }
    }
    return false;
}

/* As far as it is known, what a task that comes after `clock` comes after: through the tails of streams, and
 * through positions that an event was recorded at. */
static void find_reach(const struct gy_streams *streams, const struct gy_clock *clock, uint64_t *reach)
{
    memset(reach, 0, streams->count * sizeof(*reach));
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        const struct gy_stream *s = &streams->streams[i];
        const uint64_t *known = s->tail == clock->seq[i] ? s->known : NULL;
        for (uint32_t e = 0; e < GY_STREAM_EVENTS && known == NULL; e++) {
            known = s->events[e].seq == clock->seq[i] ? s->events[e].known : NULL;
        }
        for (uint32_t j = 0; j < streams->count && known != NULL; j++) {
            reach[j] = known[j] > reach[j] ? known[j] : reach[j];
        }
        reach[i] = clock->seq[i] > reach[i] ? clock->seq[i] : reach[i];
    }
}

/* What a stream that nobody inherits is worth to a task: the less, the better. */
enum offer {
    OFFER_OVER,      /* its work is over */
    OFFER_BEHIND,    /* the task comes after its work anyhow */
    OFFER_OVERTAKEN, /* other work does: the task is held up by it, as little as by any unrelated task */
    OFFER_UNUSED,    /* not given out since the streams were returned */
    OFFER_ENDED,     /* work in progress that nobody continues: for want of anything better */
    OFFER_NONE
};

static enum offer appraise(struct gy_streams *streams, uint32_t index, const uint64_t *reach)
{
    struct gy_stream *s = &streams->streams[index];
    if (s->running != 0) {
        return OFFER_NONE;
    }
    if (!s->used) {
        return OFFER_UNUSED;
    }
    if (s->heirs == 0 && is_over(s)) {
        return OFFER_OVER;
    }
    if (reach[index] >= s->tail) {
        return OFFER_BEHIND;
    }
    if (is_overtaken(streams, index)) {
        return OFFER_OVERTAKEN;
    }
    return s->heirs == 0 ? OFFER_ENDED : OFFER_NONE;
}

/* One more may be made: then there is still room for one of each kind that has none. */
static bool may_create(const struct gy_streams *streams, uint32_t kind)
{
    uint64_t made = 0;
    for (uint32_t i = 0; i < streams->count; i++) {
        made |= UINT64_C(1) << streams->streams[i].kind;
    }
    uint32_t missing = count_kinds(streams->partitions) - (uint32_t)__builtin_popcountll(made);
    return (made >> kind & 1u) == 0 || streams->count + missing < streams->limit;
}

/* For want of anything better: the next one in turn. */
static uint32_t find_shared(struct gy_streams *streams, uint32_t kind)
{
    uint32_t i;
    do {
        i = streams->next_shared++ % streams->count;
    } while (streams->streams[i].kind != kind);
    return i;
}

/* A stream of this kind for a task that inherits none.  A new one is only taken when the last tasks of all
 * others are such that none of them, nor this one, comes after another: so there are never more streams in
 * use than the graph is wide. */
static gantry_status find_free(struct gy_streams *streams, const struct gy_clock *clock, uint32_t kind,
                               uint32_t *out)
{
    bool single = atomic_load_explicit(&streams->single, memory_order_relaxed);
    uint64_t reach[GY_STREAMS_MAX];
    find_reach(streams, clock, reach);
    enum offer best = OFFER_NONE;
    uint32_t found = 0;
    for (uint32_t i = 0; i < streams->count && best != OFFER_OVER; i++) {
        if (streams->streams[i].kind != kind) {
            continue;
        }
        enum offer offer = single ? OFFER_OVER : appraise(streams, i, reach);
        bool older = offer != OFFER_UNUSED && streams->streams[i].age < streams->streams[found].age;
        if (offer < best || (offer == best && offer != OFFER_NONE && older)) {
            best = offer;
            found = i;
        }
    }
    if (best >= OFFER_ENDED && may_create(streams, kind)) {
        return create_stream(streams, kind, out);
    }
    *out = best != OFFER_NONE ? found : find_shared(streams, kind);
    return GANTRY_OK;
}

/* A stream of `clock`, of this kind, whose tail is just the position asked for and not taken: that of the
 * first predecessor (home), unless another dependent of it may still want it while some other predecessor has
 * no other. */
static bool find_inheritable(struct gy_streams *streams, const struct gy_clock *clock, uint32_t kind,
                             uint32_t *out)
{
    uint64_t order[2] = {0, clock->streams};
    if (clock->home < GY_STREAMS_MAX) {
        order[0] = UINT64_C(1) << clock->home & clock->streams;
        order[1] &= ~order[0];
    }
    bool found = false;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t left = order[pass]; left != 0; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(left);
            struct gy_stream *s = &streams->streams[i];
            if (s->kind != kind || s->tail != clock->seq[i] || s->running != 0 || (found && s->heirs != 0)) {
                continue;
            }
            *out = i;
            found = true;
            if (s->heirs == 0) {
                return true;
            }
        }
    }
    return found;
}

/* One dependent fewer may want the tails in `clock`, and somebody comes after them. */
static void count_heir(struct gy_streams *streams, const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &streams->streams[i];
        if (s->tail == clock->seq[i] && s->heirs > 0) {
            s->heirs--;
        }
        if (s->overtaken < clock->seq[i]) {
            s->overtaken = clock->seq[i];
        }
    }
}

static void overtake_all(struct gy_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].overtaken = streams->streams[i].tail;
    }
}

/* Nothing is under way on the SMs of its lender, as far as the host knows. */
static bool may_borrow(struct gy_streams *streams, uint32_t partition)
{
    const struct gantry_partition *p = &streams->partitions->partitions[partition];
    if (__builtin_expect(p->wide == NULL, 1)) {
        return false;
    }
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        bool passed = atomic_load_explicit(&s->completed, memory_order_acquire) >= s->tail;
        if (GY_STREAM_PARTITION(s) == p->lender->info.index && (s->running != 0 || !passed)) {
            return false;
        }
    }
    bump(&streams->borrowed);
    return true;
}

/* Most tasks: after one other, whose stream is theirs. */
static bool inherit_only(struct gy_streams *streams, uint64_t trail, uint32_t kind, uint32_t *out)
{
    if (!gy_trail_is_position(trail)) {
        return false;
    }
    struct gy_stream *s = &streams->streams[gy_trail_stream(trail)];
    if (s->tail != gy_trail_seq(trail) || s->running != 0 || !s->used || s->kind != kind ||
        atomic_load_explicit(&streams->single, memory_order_relaxed)) {
        return false;
    }
    s->heirs -= s->heirs != 0;
    s->overtaken = s->tail;
    s->running = 1;
    *out = gy_trail_stream(trail);
    return true;
}

gantry_status gy_streams_assign(struct gy_streams *streams, uint64_t trail, uint32_t partition, uint32_t *out)
{
    struct gy_clock clock;
    uint32_t index = 0, kind = GY_STREAM_KIND(partition, may_borrow(streams, partition));
    if (inherit_only(streams, trail, kind, out)) {
        return GANTRY_OK;
    }
    if (gy_trail_read(trail, &clock)) {
        count_heir(streams, &clock);
    } else {
        overtake_all(streams);
    }
    if (atomic_load_explicit(&streams->single, memory_order_relaxed) ||
        !find_inheritable(streams, &clock, kind, &index)) {
        gantry_status status = find_free(streams, &clock, kind, &index);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    struct gy_stream *s = &streams->streams[index];
    s->running++;
    if (!s->used) {
        s->used = true;
        streams->in_use++;
        if (streams->in_use > atomic_load_explicit(&streams->peak, memory_order_relaxed)) {
            atomic_store_explicit(&streams->peak, streams->in_use, memory_order_relaxed);
        }
    }
    *out = index;
    return GANTRY_OK;
}

/* ---- events and waits ---------------------------------------------------------------------- */

static gantry_status record(struct gy_streams *streams, uint32_t index, struct gy_stream_event **out)
{
    struct gy_stream *s = &streams->streams[index];
    struct gy_stream_event *event = &s->events[s->next_event];
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
    s->next_event = (s->next_event + 1) % GY_STREAM_EVENTS;
    event->seq = s->tail;
    memcpy(event->known, s->known, streams->count * sizeof(event->known[0]));
    bump(&streams->recorded);
    *out = event;
    return GANTRY_OK;
}

/* The earliest event that covers position `seq`, recorded now if there is none. */
static gantry_status event_for(struct gy_streams *streams, uint32_t index, uint64_t seq,
                               struct gy_stream_event **out)
{
    struct gy_stream *s = &streams->streams[index];
    struct gy_stream_event *best = NULL;
    for (uint32_t e = 0; e < GY_STREAM_EVENTS; e++) {
        struct gy_stream_event *event = &s->events[e];
        if (event->seq >= seq && (best == NULL || event->seq < best->seq)) {
            best = event;
        }
    }
    if (best == NULL) {
        return record(streams, index, out);
    }
    *out = best;
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
            bump(&streams->dropped);
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
            bump(&streams->dropped);
        }
    }
}

static gantry_status wait_event(struct gy_streams *streams, uint32_t index, uint32_t from,
                                const struct gy_stream_event *event)
{
    struct gy_stream *own = &streams->streams[index];
    gantry_status status = GY_CALL(streams->context, cuStreamWaitEvent(own->native, event->native, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    bump(&streams->waits);
    for (uint32_t i = 0; i < streams->count; i++) {
        if (own->known[i] < event->known[i]) {
            own->known[i] = event->known[i];
        }
    }
    if (own->known[from] < event->seq) {
        own->known[from] = event->seq;
    }
    return GANTRY_OK;
}

/* GY_TRAIL_ALL: after the tail of every stream. */
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
static bool is_ordered(struct gy_streams *streams, uint32_t index, const struct gy_clock *clock)
{
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

gantry_status gy_streams_wait(struct gy_streams *streams, uint32_t stream, uint64_t trail)
{
    if (trail == GY_TRAIL_NONE || (gy_trail_is_position(trail) && gy_trail_stream(trail) == stream)) {
        return GANTRY_OK;
    }
    struct gy_clock clock;
    if (!gy_trail_read(trail, &clock)) {
        read_all(streams, &clock);
    }
    if (streams->device_wide) {
        return is_ordered(streams, stream, &clock) ? GANTRY_OK : gy_streams_sync_point(streams, stream);
    }
    struct needs needs;
    gantry_status status = collect_needs(streams, stream, &clock, &needs);
    if (status != GANTRY_OK) {
        return status;
    }
    reduce_needs(streams, &clock, &needs);
    for (uint64_t left = needs.streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        status = wait_event(streams, stream, i, needs.events[i]);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

/* ---- barriers ------------------------------------------------------------------------------ */

gantry_status gy_streams_gather(struct gy_streams *streams, CUstream into, uint32_t except)
{
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
        bump(&streams->waits);
        s->dirty = false;
    }
    return GANTRY_OK;
}

gantry_status gy_streams_close(struct gy_streams *streams, CUstream on)
{
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
    bump(&streams->recorded);
    streams->barrier = next;
    streams->generation++;
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].floor = streams->streams[i].tail;
    }
    return GANTRY_OK;
}

gantry_status gy_streams_sync_point(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status = gy_streams_gather(streams, s->native, stream);
    if (status == GANTRY_OK) {
        status = gy_streams_close(streams, s->native);
    }
    if (status == GANTRY_OK) {
        s->seen = streams->generation;
    }
    return status;
}

gantry_status gy_streams_wait_barrier(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    gantry_status status =
        GY_CALL(streams->context, cuStreamWaitEvent(s->native, streams->barriers[streams->barrier], 0));
    if (status == GANTRY_OK) {
        s->seen = streams->generation;
        bump(&streams->waits);
    }
    return status;
}

/* ---- ends ---------------------------------------------------------------------------------- */

gantry_status gy_streams_finish(struct gy_streams *streams, uint32_t stream, uint32_t dependents,
                                uint64_t *out_trail)
{
    struct gy_stream *s = &streams->streams[stream];
    assert(s->running > 0);
    s->running--;
    s->tail++;
    s->known[stream] = s->tail;
    s->heirs = dependents;
    s->age = ++streams->finished;
    *out_trail = gy_trail_at(stream, s->tail);
    if (dependents < 2 || streams->device_wide) {
        return GANTRY_OK;
    }
    struct gy_stream_event *event;
    return record(streams, stream, &event);
}

void gy_streams_abandon(struct gy_streams *streams, uint32_t stream)
{
    assert(streams->streams[stream].running > 0);
    streams->streams[stream].running--;
}

void gy_streams_return_all(struct gy_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].used = false;
        streams->streams[i].heirs = 0;
    }
    streams->in_use = 0;
    streams->next_shared = 0; /* a step that is repeated gets the same streams, and can be the same graph */
}

void gy_streams_passed(struct gy_streams *streams, uint32_t stream, uint64_t seq)
{
    /* Only the completion thread calls this, in order per stream. */
    _Atomic(uint64_t) *completed = &streams->streams[stream].completed;
    if (atomic_load_explicit(completed, memory_order_relaxed) < seq) {
        atomic_store_explicit(completed, seq, memory_order_release);
    }
}
