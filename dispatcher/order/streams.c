/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/streams.h"

#include "base/alloc.h"
#include "dispatcher/order/waits.h"
#include "driver/places.h"

#include <assert.h>
#include <string.h>

/* Whatever plan there will be. */
enum { KINDS_MOST = 2 * GANTRY_PARTITIONS_MAX };

static uint32_t count_kinds(const struct gy_partitions *partitions)
{
    uint32_t kinds = partitions->count;
    for (uint32_t i = 0; i < partitions->count; i++) {
        kinds += partitions->partitions[i].wide != NULL;
    }
    return kinds;
}

static void adopt_partitions(struct gy_streams *streams, struct gy_partitions *partitions)
{
    const uint32_t kinds = count_kinds(partitions);
    streams->partitions = partitions;
    streams->limit = streams->asked_limit > kinds ? streams->asked_limit : kinds;
    streams->kinds.made = 0;
    streams->kinds.missing = kinds;
    streams->may_borrow = kinds > partitions->count;
}

gantry_status gy_streams_init(struct gy_streams *streams, struct gy_context *context,
                              struct gy_partitions *partitions, uint32_t limit, bool device_wide)
{
    assert(limit >= 1 && limit <= GY_STREAMS_MAX);
    memset(streams, 0, sizeof(*streams));
    streams->context = context;
    streams->asked_limit = limit;
    streams->room = limit > KINDS_MOST ? limit : KINDS_MOST;
    streams->device_wide = device_wide;
    adopt_partitions(streams, partitions);
    size_t bytes = streams->room * sizeof(*streams->streams);
    streams->streams = gy_alloc_aligned(bytes, _Alignof(struct gy_stream));
    if (streams->streams == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "dispatcher: no memory for %u streams", streams->room);
    }
    memset(streams->streams, 0, bytes);
    return GANTRY_OK;
}

static void destroy_events(const struct gy_driver *driver, const struct gy_stream_event *events,
                           uint32_t count)
{
    for (uint32_t e = 0; e < count; e++) {
        if (events[e].native != NULL) {
            /* On a lost context destruction fails, as everything does, and no caller could act on it. */
            (void)driver->cuEventDestroy(events[e].native);
        }
    }
}

static void destroy_all(struct gy_streams *streams)
{
    const struct gy_driver *driver = streams->context->driver;
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        destroy_events(driver, s->plain.ring.own, GY_STREAM_EVENTS);
        destroy_events(driver, s->lane.ends, GY_STREAM_ENDS);
        destroy_events(driver, s->plain.ends, GY_STREAM_ENDS);
        gy_free(s->plain.abroad);
        gy_free(s->lane.abroad);
        (void)driver->cuStreamDestroy(s->native);
        gy_places_give(streams->context->places, 1);
    }
    for (int i = 0; i < 2; i++) {
        if (streams->barrier.events[i] != NULL) {
            (void)driver->cuEventDestroy(streams->barrier.events[i]);
        }
        streams->barrier.events[i] = NULL;
    }
}

void gy_streams_fini(struct gy_streams *streams)
{
    destroy_all(streams);
    gy_free(streams->streams);
}

/* Other threads read `completed` of any stream at any time. */
void gy_streams_renew(struct gy_streams *streams, struct gy_partitions *partitions)
{
    assert(gy_streams_are_valid(streams));
    assert(streams->busy == 0 && streams->batch.state == GY_BATCH_CLOSED);
    destroy_all(streams);
    for (uint32_t i = 0; i < streams->room; i++) {
        const uint64_t tail = streams->streams[i].tail;
        streams->first_seq = tail > streams->first_seq ? tail : streams->first_seq;
    }
    atomic_store_explicit(&streams->created, 0, memory_order_release);
    streams->count = streams->in_use = streams->next_shared = 0;
    for (uint32_t i = 0; i < streams->room; i++) {
        struct gy_stream *s = &streams->streams[i];
        memset(s, 0, offsetof(struct gy_stream, completed));
        atomic_store_explicit(&s->completed, streams->first_seq, memory_order_release);
    }
    streams->barrier.generation = 0;
    streams->batch.home = 0;
    streams->batch.waited = NULL;
    atomic_store(&streams->privates.taken, 0);
    streams->privates.made = 0;
    adopt_partitions(streams, partitions);
}

/* Its timeline points go on where those of streams that have gone have ended. */
static gantry_status create_stream(struct gy_streams *streams, uint32_t kind, uint32_t *out)
{
    struct gy_stream *s = &streams->streams[streams->count];
    CUstream native;
    const uint32_t shared = GY_STREAM_SHARED_KIND(kind);
    const struct gantry_partition *partition = &streams->partitions->partitions[shared / 2];
    gantry_status status = gy_partition_stream(partition, shared % 2 != 0, &native);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_places_take(streams->context->places, 1);
    const bool is_special = partition->green != NULL || partition->info.priority != 0;
    s->native = native;
    s->lane.to = gy_lane_of(native, is_special ? GY_FORM_LANE(kind) : 0);
    s->kind = kind;
    s->origin = gy_timeline_point_on(streams->device, streams->count, 0);
    s->line = &s->plain;
    s->tail = s->superseded = s->plain.known[streams->count] = streams->first_seq;
    if (kind == shared) {
        streams->kinds.missing -= (streams->kinds.made >> kind & 1u) == 0;
        streams->kinds.made |= UINT64_C(1) << kind;
    } else {
        streams->privates.made |= UINT64_C(1) << (GY_STREAM_PRIVATE_SET(kind) - 1);
    }
    *out = streams->count++;
    atomic_store_explicit(&streams->created, streams->count, memory_order_release);
    return GANTRY_OK;
}

/* The last point of a member that may hold up the stream. */
static uint64_t point_beside(const struct gy_stream *s, uint32_t member)
{
    return s->held.by->known[member] + (s->held.open >> member & 1u);
}

bool gy_stream_is_held(const struct gy_streams *streams, const struct gy_stream *s)
{
    const bool is_there = s->held.by != NULL && (s->held.carries || s->tail == s->held.tail);
    uint64_t beside = is_there ? s->held.beside : 0;
    for (uint64_t left = beside; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        const struct gy_stream *other = &streams->streams[i];
        if (gy_stream_has_passed(other, point_beside(s, i))) { /* and so has what that comes after */
            beside &= ~(left & -left) & (other->held.by == s->held.by ? other->held.beside : UINT64_MAX);
        }
    }
    return beside != 0;
}

/* Is a task that comes after the point better off elsewhere, since its stream is held?  The point may have an
 * end of its own, or the host may have seen that it has passed: then the task need not wait for the graph. */
static bool is_better_off(struct gy_streams *streams, uint32_t stream, uint64_t seq)
{
    struct gy_stream *s = &streams->streams[stream];
    s->held.may_be = s->held.may_be && gy_stream_is_held(streams, s);
    return s->held.may_be &&
           ((s->held.carries && s->behind.end != s->held.by) || gy_stream_has_passed(s, seq));
}

/* Find what a task comes after that comes after `clock`, as far as it is known: through the tails of
 * streams, and through timeline points that an event was recorded at.  All points of a graph know what any of
 * them knows, since whoever waits for one waits for all; but nobody waits for one that has passed. */
static void find_reach(const struct gy_streams *streams, const struct gy_clock *clock, uint64_t *reach)
{
    memset(reach, 0, streams->count * sizeof(*reach));
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        const struct gy_stream *s = &streams->streams[i];
        const bool is_of_graph = s->held.by != NULL && gy_stream_has_passed(s, clock->seq[i]);
        /* The tail does not come after what its stream has waited for since. */
        const bool is_tail = s->tail == clock->seq[i] && s->line->waited_at < s->tail;
        const uint64_t *known = is_tail && (!is_of_graph || s->held.beside == 0) ? s->line->known : NULL;
        for (uint32_t e = 0; e < GY_STREAM_EVENTS && known == NULL && !is_of_graph; e++) {
            known = s->plain.ring.seqs[e] == clock->seq[i] ? s->plain.ring.at[e]->known : NULL;
        }
        for (uint32_t j = 0; j < streams->count && known != NULL; j++) {
            reach[j] = known[j] > reach[j] ? known[j] : reach[j];
        }
        reach[i] = clock->seq[i] > reach[i] ? clock->seq[i] : reach[i];
    }
}

/* How much a task loses on a stream that it does not inherit: the less, the better. */
enum offer {
    OFFER_OWN,    /* its owner's, and its work is over, or before the task's anyhow */
    OFFER_OVER,   /* its work is over */
    OFFER_BEHIND, /* the task comes after its work anyhow */
    OFFER_UNUSED, /* not given out since the streams were returned, and its work comes first anyhow */
    OFFER_LAST_FREE = OFFER_UNUSED, /* behind one of those below the task waits for what it need not */
    OFFER_OVERTAKEN,                /* work in progress that other work comes after, and the task does not */
    OFFER_OTHERS,                   /* as UNUSED, but others' work goes on there */
    OFFER_ENDED, /* work in progress that nobody continues, or the rest of the graph that its work is in */
    OFFER_NONE
};

/* Does the task come after the rest of the graph anyhow that the stream's latest work is in? */
static bool reaches_beside(const struct gy_stream *s, const uint64_t *reach)
{
    for (uint64_t left = s->held.beside; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (reach[i] < point_beside(s, i)) {
            return false;
        }
    }
    return true;
}

static enum offer appraise(struct gy_streams *streams, uint32_t index, const uint64_t *reach,
                           const struct gy_stream_claim *claim)
{
    struct gy_stream *s = &streams->streams[index];
    if (s->running != 0) {
        return OFFER_NONE;
    }
    if (gy_batch_bears(streams, index)) {
        return OFFER_ENDED;
    }
    const bool is_free = !gy_stream_is_held(streams, s);
    /* What the task comes after on a stream of its owner, it comes after with all of that graph; a task that
     * is beside the owner's latest step does not. */
    const struct gy_stream_owner *owner = claim->owner;
    const bool is_before = owner != NULL && (claim->before >> index & 1u) != 0;
    const bool may_take = owner != NULL && (!claim->is_beside || (is_before && is_free));
    if (!s->used) {
        const bool is_own = may_take && (s->owner == owner || (const void *)s->held.order == owner);
        return (is_free && gy_stream_has_passed(s, s->tail)) || is_own ? OFFER_UNUSED : OFFER_OTHERS;
    }
    const bool is_own = may_take && s->owner == owner;
    if (is_own && is_before) {
        return OFFER_OWN;
    }
    if (is_free && (s->dependents.unplaced == 0 || streams->is_of_fleet) &&
        gy_stream_has_passed(s, s->tail)) {
        return is_own ? OFFER_OWN : OFFER_OVER;
    }
    if (reach[index] >= s->tail && (is_free || reaches_beside(s, reach))) {
        return OFFER_BEHIND;
    }
    if (is_free && s->superseded >= s->tail) {
        return OFFER_OVERTAKEN;
    }
    return s->dependents.unplaced == 0 || s->superseded >= s->tail ? OFFER_ENDED : OFFER_NONE;
}

/* One more may be made: then there is still room for one of each kind that has none. */
static bool may_create(const struct gy_streams *streams, uint32_t kind)
{
    const uint32_t set = GY_STREAM_PRIVATE_SET(kind);
    uint64_t missing = atomic_load_explicit(&streams->privates.taken, memory_order_relaxed);
    missing &= ~streams->privates.made;
    bool is_first = set == 0 ? (streams->kinds.made >> kind & 1u) == 0 : (missing >> (set - 1) & 1u) != 0;
    uint32_t reserved = streams->kinds.missing + (uint32_t)__builtin_popcountll(missing);
    return (is_first && streams->count < streams->limit) || streams->count + reserved < streams->limit;
}

/* For want of anything better: of the streams with the fewest tasks still to launch one that the task comes
 * after anyhow, which saves the wait, or else the next one in turn. */
static gantry_status find_shared(struct gy_streams *streams, const struct gy_clock *clock, uint32_t kind,
                                 uint32_t *out)
{
    uint64_t fewest = 0; /* bit s: stream s has as few as any */
    uint32_t tasks = UINT32_MAX;
    for (uint32_t i = 0; i < streams->count; i++) {
        const struct gy_stream *s = &streams->streams[i];
        if (s->kind != kind || s->running > tasks) {
            continue;
        }
        fewest = s->running < tasks ? 0 : fewest;
        fewest |= UINT64_C(1) << i;
        tasks = s->running;
    }
    if (fewest == 0) { /* a private set that came too late */
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "work behind a wait for a renderer needs a stream of its own, and all %u are in use "
                       "(stream_limit of the context)",
                       streams->limit);
    }
    uint64_t before = fewest & clock->streams;
    if (before != 0) {
        bool at_home = clock->home < GY_STREAMS_MAX && (before >> clock->home & 1u) != 0;
        *out = at_home ? clock->home : (uint32_t)__builtin_ctzll(before);
        return GANTRY_OK;
    }
    do {
        *out = streams->next_shared++ % streams->count;
    } while ((fewest >> *out & 1u) == 0);
    return GANTRY_OK;
}

/* A stream of this kind for a task that inherits none.  A new one is taken where the task would wait on each
 * of those that there are for work that it does not come after. */
static gantry_status find_free(struct gy_streams *streams, const struct gy_clock *clock, uint32_t kind,
                               const struct gy_stream_claim *claim, uint32_t *out)
{
    bool single = atomic_load_explicit(&streams->single, memory_order_relaxed);
    uint64_t reach[GY_STREAMS_MAX];
    enum offer best = OFFER_NONE;
    uint32_t found = 0, count = single || streams->busy < streams->count ? streams->count : 0;
    if (count != 0) {
        find_reach(streams, clock, reach);
    }
    for (uint32_t i = 0; i < count && best != OFFER_OWN; i++) {
        if (streams->streams[i].kind != kind) {
            continue;
        }
        enum offer offer = single ? OFFER_OWN : appraise(streams, i, reach, claim);
        bool older = offer != OFFER_UNUSED && streams->streams[i].age < streams->streams[found].age;
        if (offer < best || (offer == best && offer != OFFER_NONE && older)) {
            best = offer;
            found = i;
        }
    }
    if (best > OFFER_LAST_FREE && may_create(streams, kind)) {
        return create_stream(streams, kind, out);
    }
    *out = found;
    return best != OFFER_NONE ? GANTRY_OK : find_shared(streams, clock, kind, out);
}

/* Find a stream of `clock`, of this kind, whose tail is just the timeline point asked for and not taken:
 * that of the first predecessor (home), unless another dependent of it may still want it while some other
 * predecessor has no other, or the stream is held while the point has passed. */
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
            if (s->kind != kind || s->tail != clock->seq[i] || s->running != 0 ||
                (found && s->dependents.unplaced != 0) || is_better_off(streams, i, s->tail)) {
                continue;
            }
            *out = i;
            found = true;
            if (s->dependents.unplaced == 0) {
                return true;
            }
        }
    }
    return found;
}

void gy_stream_go_on(struct gy_stream *s)
{
    const uint32_t latest = (s->lane.ring.next - 1) % GY_STREAM_EVENTS;
    const uint32_t awaiting = gy_stream_awaiting(s);
    if (s->lane.ring.seqs[latest] == s->tail && awaiting != 0) {
        s->noted.left++;
        s->lane.ring.at[latest]->pending = awaiting;
        s->lane.ring.at[latest]->hosts = s->dependents.hosts;
    }
}

/* A dependent of the point is called, behind which the stream has gone on. */
static void call_behind(struct gy_stream *s, uint64_t seq)
{
    for (uint32_t e = 0; s->noted.left != 0 && e < GY_STREAM_EVENTS; e++) {
        struct gy_stream_event *event = s->lane.ring.at[e];
        if (s->lane.ring.seqs[e] == seq && event->pending > event->hosts) {
            s->noted.left -= --event->pending == 0;
            return;
        }
    }
}

void gy_streams_note_call(struct gy_streams *streams, const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &streams->streams[i];
        if (s->tail == clock->seq[i]) {
            s->dependents.uncalled -= s->dependents.uncalled > s->dependents.hosts;
        } else if (s->state == GY_STREAM_MEMBER) {
            call_behind(s, clock->seq[i]);
        }
    }
}

void gy_streams_leave(struct gy_streams *streams, const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &streams->streams[i];
        s->dependents.unplaced -= s->tail == clock->seq[i] && s->dependents.unplaced != 0;
        gy_stream_supersede(s, clock->seq[i]);
    }
}

void gy_streams_use(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    if (s->used) {
        return;
    }
    s->used = true;
    streams->in_use++;
    if (streams->in_use > atomic_load_explicit(&streams->counts.peak, memory_order_relaxed)) {
        atomic_store_explicit(&streams->counts.peak, streams->in_use, memory_order_relaxed);
    }
}

gantry_status gy_streams_add(struct gy_streams *streams, uint32_t kind, uint32_t *out)
{
    return may_create(streams, kind) ? create_stream(streams, kind, out) : GANTRY_OK;
}

/* GY_WAIT_SET_ALL: after the tail of every stream.  `clock` is empty. */
void gy_streams_read_all(const struct gy_streams *streams, struct gy_clock *clock)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        if (streams->streams[i].tail != 0) {
            clock->streams |= UINT64_C(1) << i;
            clock->seq[i] = streams->streams[i].tail;
        }
    }
}

/* True: as far as the host knows, nothing is under way on the SMs of the partition that lends them. */
bool gy_streams_borrow(struct gy_streams *streams, uint32_t partition)
{
    assert(gy_streams_are_valid(streams));
    const struct gantry_partition *p = &streams->partitions->partitions[partition];
    if (p->wide == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < streams->count; i++) {
        struct gy_stream *s = &streams->streams[i];
        bool passed = atomic_load_explicit(&s->completed, memory_order_acquire) >= s->tail;
        if (GY_STREAM_PARTITION(s) == p->lender->info.index && (s->running != 0 || !passed)) {
            return false;
        }
    }
    gy_streams_count(&streams->counts.borrowed);
    return true;
}

/* One more task is on its way to the stream. */
static void take(struct gy_streams *streams, uint32_t index)
{
    streams->busy += streams->streams[index].running++ == 0;
    gy_streams_use(streams, index);
    assert(gy_streams_are_valid(streams));
}

gantry_status gy_streams_assign_any(struct gy_streams *streams, uint64_t wait_set, uint32_t kind,
                                    const struct gy_stream_claim *claim, uint32_t *out)
{
    struct gy_clock room;
    uint32_t index = 0;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    const bool is_after_all = clock == NULL;
    if (!is_after_all) {
        gy_streams_leave(streams, clock);
    } else {
        for (uint32_t i = 0; i < streams->count; i++) {
            streams->streams[i].superseded = streams->streams[i].tail;
        }
        gy_streams_read_all(streams, &room);
        clock = &room;
    }
    if (is_after_all || atomic_load_explicit(&streams->single, memory_order_relaxed) ||
        !find_inheritable(streams, clock, kind, &index)) {
        gantry_status status = find_free(streams, clock, kind, claim, &index);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    take(streams, index);
    if (gy_wait_set_is_point(wait_set) && gy_timeline_stream(wait_set) == index) {
        gy_streams_note_call(streams, clock); /* see gy_streams_assign() */
    }
    *out = index;
    return GANTRY_OK;
}

gantry_status gy_streams_leave_held(struct gy_streams *streams, uint64_t wait_set,
                                    const struct gy_stream_claim *claim, uint32_t *stream)
{
    struct gy_stream *s = &streams->streams[*stream];
    gantry_status status = GANTRY_OK;
    if (is_better_off(streams, *stream, s->tail)) {
        struct gy_clock room;
        const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
        gy_streams_abandon(streams, *stream);
        status = find_free(streams, clock != NULL ? clock : &room, s->kind, claim, stream);
        take(streams, *stream);
    }
    return status;
}

/* ---- private sets ---------------------------------------------------------------------------- */

uint32_t gy_streams_take_private(struct gy_streams *streams)
{
    if (streams->partitions->is_planned || streams->device_wide) {
        return 0;
    }
    uint64_t taken = atomic_load(&streams->privates.taken);
    /* At worst the streams that there are belong to nobody, or to sets that nobody has. */
    while (taken != UINT64_MAX &&
           atomic_load(&streams->created) + (uint32_t)__builtin_popcountll(taken) + 1 < streams->limit) {
        const uint64_t bit = ~taken & (taken + 1); /* the lowest that is free */
        if (atomic_compare_exchange_weak(&streams->privates.taken, &taken, taken | bit)) {
            return (uint32_t)__builtin_ctzll(bit) + 1;
        }
    }
    return 0;
}

void gy_streams_give_private(struct gy_streams *streams, uint32_t number)
{
    assert(number != 0 && (atomic_load(&streams->privates.taken) >> (number - 1) & 1u) != 0);
    atomic_fetch_and(&streams->privates.taken, ~(UINT64_C(1) << (number - 1)));
}

/* ---- ends ---------------------------------------------------------------------------------- */

void gy_streams_abandon(struct gy_streams *streams, uint32_t stream)
{
    assert(gy_stream_is_valid(streams, stream));
    assert(streams->streams[stream].running > 0);
    streams->busy -= --streams->streams[stream].running == 0;
    streams->streams[stream].is_open = false;
    assert(gy_stream_is_valid(streams, stream));
}

void gy_streams_return_all(struct gy_streams *streams)
{
    assert(gy_streams_are_valid(streams));
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->streams[i].used = false;
        streams->streams[i].dependents.unplaced = streams->streams[i].dependents.uncalled = 0;
    }
    streams->in_use = 0;
    streams->next_shared = 0; /* a step that is repeated gets the same streams, and can be the same graph */
    assert(gy_streams_are_valid(streams));
}

void gy_streams_passed(struct gy_streams *streams, uint32_t stream, uint64_t seq)
{
    /* Only the completion thread calls this, in order per stream. */
    _Atomic(uint64_t) *completed = &streams->streams[stream].completed;
    if (atomic_load_explicit(completed, memory_order_relaxed) < seq) {
        atomic_store_explicit(completed, seq, memory_order_release);
    }
}

/* ---- checks -------------------------------------------------------------------------------- */

/* The events of the ring come after the stream's timeline points that they stand for, also where they were
 * recorded again since. */
static bool ring_is_valid(const struct gy_streams *streams, const struct gy_stream *s,
                          const struct gy_stream_ring *ring)
{
    for (uint32_t e = 0; e < GY_STREAM_EVENTS; e++) {
        if (ring->seqs[e] > s->tail ||
            (ring->seqs[e] != 0 && (ring->at[e] == NULL || ring->at[e]->native == NULL ||
                                    ring->at[e]->known[s - streams->streams] < ring->seqs[e]))) {
            return false;
        }
    }
    return ring->next < GY_STREAM_EVENTS;
}

/* Does the stream's place agree with whether it is a member of the graph that is being built? */
static bool place_is_valid(const struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    const bool is_listed = (streams->batch.members >> stream & 1u) != 0;
    return (s->state == GY_STREAM_MEMBER) == is_listed && s->native != NULL &&
           (streams->batch.state != GY_BATCH_CLOSED || !is_listed) &&
           (s->state == GY_STREAM_BEHIND ? s->behind.end != NULL
                                         : s->state == GY_STREAM_MEMBER || s->behind.end == NULL) &&
           s->line == (s->state == GY_STREAM_PLAIN ? &s->plain : &s->lane);
}

bool gy_stream_is_valid(const struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    return stream < streams->count && s->origin == gy_timeline_point_on(streams->device, stream, 0) &&
           s->line->known[stream] == s->tail && s->superseded <= s->tail && s->floor <= s->tail &&
           s->noted.entered <= s->tail && s->line->seen <= streams->barrier.generation &&
           s->epoch <= streams->epoch && s->age <= streams->finished &&
           atomic_load_explicit(&s->completed, memory_order_relaxed) <= s->tail &&
           place_is_valid(streams, stream) && ring_is_valid(streams, s, &s->plain.ring);
}

bool gy_streams_are_valid(const struct gy_streams *streams)
{
    uint32_t in_use = 0, busy = 0;
    if (streams->count > streams->limit) {
        return false;
    }
    for (uint32_t i = 0; i < streams->count; i++) {
        if (!gy_stream_is_valid(streams, i)) {
            return false;
        }
        in_use += streams->streams[i].used;
        busy += streams->streams[i].running != 0;
    }
    return in_use == streams->in_use && busy == streams->busy &&
           in_use <= atomic_load_explicit(&streams->counts.peak, memory_order_relaxed) &&
           (streams->barrier.generation == 0 || streams->barrier.events[streams->barrier.latest] != NULL);
}

gantry_status gy_stream_await(struct gy_streams *streams, const struct gy_stream *s, CUevent event)
{
    gy_streams_count(&streams->counts.waits);
    return GY_CALL(streams->context, cuStreamWaitEvent(s->native, event, 0));
}
