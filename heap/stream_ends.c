/* How blocks come back that waited for more than one stream, for the device, or for a graph; and the end of
 * streams. */
#include "base/alloc.h"
#include "base/point.h"
#include "base/status.h"
#include "heap/kind.h"
#include "heap/pages_inside.h"
#include "heap/streams_inside.h"
#include "heap/visit.h"

#include <assert.h>
#include <string.h>

/* ---- late blocks --------------------------------------------------------------------------- */

void gy_late_free(struct gy_late *first)
{
    while (first != NULL) {
        struct gy_late *next = first->next;
        gy_free(first);
        first = next;
    }
}

/* Let the block wait for its stream, or give it back to its graph.  The lock is held. */
void gy_heap_stream_keep(struct gy_heap_streams *streams, struct gy_heap_stream *stream,
                         struct gy_range *range, uint64_t order) GY_NO_ANALYSIS
{
    struct gy_pages *pages = &streams->kind->pages;
    struct gy_heap_stream *home = (struct gy_heap_stream *)(void *)range->waiter;
    size_t bytes = range->pages << GY_PAGE_SHIFT;
    if (home != NULL && home->waiter.is_graph) {
        home->is_pinned = home->is_pinned || (stream->waiter.is_graph && stream->capture != home->capture);
        gy_waiting_keep(pages, range, &home->waiter, 0);
        return;
    }
    if (home != NULL) { /* the block's graph is gone */
        home->waiter.blocks--;
        range->waiter = NULL;
    }
    gy_waiting_keep(pages, range, &stream->waiter, stream->waiter.is_graph ? 0 : order);
    stream->unmarked++;
    stream->unmarked_bytes += bytes;
    assert(gy_heap_stream_is_valid(stream));
}

/* The block's events have passed, or the device has done everything, so the block goes where it belongs. */
static void end_late(struct gy_heap_streams *streams, struct gy_late *late) GY_NO_ANALYSIS
{
    struct gy_kind *kind = streams->kind;
    struct gy_claim claim = late->claim;
    struct gy_heap_stream *stream = late->stream;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    if (stream != NULL) {
        assert(stream->lates != 0);
        stream->lates--;
        gy_heap_stream_keep(streams, stream, claim.range, late->order);
    }
    for (struct gy_late *one = late; one != NULL; one = one->next) {
        gy_heap_streams_give_event(streams, one->event);
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    if (stream == NULL) {
        kind->setup.free_claimed(kind->setup.user, kind->setup.kind, &claim);
    }
    while (late != NULL) {
        struct gy_late *next = late->next;
        gy_free(late);
        late = next;
    }
}

/* When a late block is taken to have passed. */
struct patience {
    bool waits;       /* its events are waited for */
    bool device_done; /* the device was waited for, which helps those for which no event could be recorded */
    bool all;         /* always: nothing is asked */
};

static bool late_has_passed(struct gy_context *context, const struct gy_late *late, struct patience patience)
{
    while (late != NULL &&
           (late->event != NULL ? gy_heap_streams_has_passed(context, late->event, patience.waits)
                                : patience.device_done)) {
        late = late->next;
    }
    return late == NULL;
}

static struct gy_late *detach_late(struct gy_heap_streams *streams)
{
    gy_mutex_lock(gy_heap_streams_guard(streams));
    struct gy_late *all = streams->late;
    streams->late = NULL;
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return all;
}

void gy_heap_streams_attach_late(struct gy_heap_streams *streams, struct gy_late *late)
{
    gy_mutex_lock(gy_heap_streams_guard(streams));
    late->later = streams->late;
    streams->late = late;
    gy_mutex_unlock(gy_heap_streams_guard(streams));
}

/* End the blocks whose events have passed. */
static bool end_lates(struct gy_heap_streams *streams, struct gy_late *first, struct patience patience)
{
    bool any = false;
    while (first != NULL) {
        struct gy_late *later = first->later;
        if (patience.all || late_has_passed(gy_heap_streams_context(streams), first, patience)) {
            end_late(streams, first);
            any = true;
        } else {
            gy_heap_streams_attach_late(streams, first);
        }
        first = later;
    }
    return any;
}

bool gy_heap_streams_poll(struct gy_heap_streams *streams, bool wait)
{
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        return false;
    }
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(gy_heap_streams_context(streams), &visit);
    bool any = false;
    if (status == GANTRY_OK) {
        any = end_lates(streams, detach_late(streams), (struct patience){.waits = wait});
        any = gy_heap_streams_poll_marks(streams, wait) != 0 || any;
    }
    gy_visit_end(gy_heap_streams_context(streams), &visit);
    return any;
}

/* ---- the whole device, graphs -------------------------------------------------------------- */

/* A capture is under way of which the heap was told.  The lock is held. */
static bool is_captured(const struct gy_heap_streams *streams)
{
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->waiter.is_graph && !stream->is_over) {
            return true;
        }
    }
    return false;
}

/* The device and all marks were waited for, behind all that was freed up to `order`.  Memory behind a mark
 * that was being made meanwhile waits on. */
static bool settle_streams(struct gy_heap_streams *streams, uint64_t order) GY_NO_ANALYSIS
{
    size_t bytes = 0;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        bool is_behind = stream->marks_state != GY_MARKS_FREE ||
                         (stream->mark_count != 0 && stream->marks[0].order <= order);
        if (!stream->waiter.is_graph && !is_behind) {
            bytes += gy_waiting_settle(&streams->kind->pages, &stream->waiter, order);
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return bytes != 0;
}

/* Wait for the device, and for each event: what the driver calls the activities of a context may leave out
 * kernels of green contexts in a graph, which an event on the graph's stream covers.  On driver 580
 * cuCtxSynchronize() waits for them while the primary context is current, but not while a green one is. */
static gantry_status wait_for_all(struct gy_heap_streams *streams, uint64_t order, bool *out_any)
{
    struct gy_context *context = gy_heap_streams_context(streams);
    struct gy_late *late = detach_late(streams);
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(context, &visit);
    status = status == GANTRY_OK ? GY_CALL(context, cuCtxSynchronize()) : status;
    bool done = status == GANTRY_OK;
    bool any = end_lates(streams, late, (struct patience){.waits = done, .device_done = done});
    if (done) {
        gy_point(GY_POINT_HEAP_SETTLED, streams->kind);
        any = gy_heap_streams_poll_marks(streams, true) != 0 || any;
        any = settle_streams(streams, order) || any;
    }
    gy_visit_end(context, &visit);
    *out_any = any;
    return status;
}

gantry_status gy_heap_streams_settle(struct gy_heap_streams *streams, bool *out_any)
{
    *out_any = false;
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        return GANTRY_OK;
    }
    (void)gy_park_flush(
        &streams->kind->park); /* laps: what was freed before this call gets an order before it */
    gy_mutex_lock(gy_heap_streams_guard(streams));
    const bool may_wait = !is_captured(streams);
    const uint64_t order = streams->order++;
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    gy_point(GY_POINT_HEAP_SETTLE, streams->kind);
    return may_wait ? wait_for_all(streams, order, out_any) : GANTRY_ERR_STATE;
}

/* The graph of a capture is gone, so its memory becomes free for all.  The lock is held. */
static struct gy_late *release_graph(struct gy_heap_streams *streams,
                                     struct gy_heap_stream *stream) GY_NO_ANALYSIS
{
    struct gy_late *kept = stream->kept;
    if (stream->is_pinned) {
        return NULL;
    }
    stream->waiter.is_graph = false;
    stream->kept = NULL;
    (void)gy_waiting_settle(&streams->kind->pages, &stream->waiter, UINT64_MAX);
    assert(gy_heap_stream_is_valid(stream));
    return kept;
}

void gy_heap_streams_end_capture(struct gy_heap_streams *streams, uint64_t capture, bool is_gone)
{
    struct gy_late *kept = NULL;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->capture == capture && capture != 0) {
            stream->is_over = true;
            struct gy_late *more = is_gone && stream->waiter.is_graph ? release_graph(streams, stream) : NULL;
            while (more != NULL) {
                struct gy_late *later = more->later;
                more->later = kept;
                kept = more;
                more = later;
            }
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    (void)end_lates(streams, kept, (struct patience){.all = true});
}

size_t gy_heap_streams_waiting(struct gy_heap_streams *streams)
{
    struct gy_pages *pages = &streams->kind->pages;
    gy_mutex_lock(&pages->lock);
    size_t bytes = pages->waiting_pages << GY_PAGE_SHIFT;
    gy_mutex_unlock(&pages->lock);
    return bytes;
}

/* ---- life ---------------------------------------------------------------------------------- */

void gy_heap_streams_init(struct gy_heap_streams *streams, struct gy_kind *kind)
{
    memset(streams, 0, sizeof(*streams));
    streams->kind = kind;
    streams->order = 1;
}

static void drop_event(struct gy_heap_streams *streams, CUevent event)
{
    if (event != NULL) {
        (void)GY_CALL(gy_heap_streams_context(streams), cuEventDestroy(event));
    }
}

static void drop_late(struct gy_heap_streams *streams, struct gy_late *late)
{
    while (late != NULL) {
        struct gy_late *later = late->later;
        for (struct gy_late *one = late; one != NULL; one = one->next) {
            drop_event(streams, one->event);
        }
        gy_late_free(late);
        late = later;
    }
}

/* Waiting ranges end with their slabs; the page layer must not find their waiter any more. */
static void drop_stream(struct gy_heap_streams *streams, struct gy_heap_stream *stream) GY_NO_ANALYSIS
{
    for (unsigned i = 0; i < stream->mark_count; i++) {
        drop_event(streams, stream->marks[i].event);
    }
    drop_late(streams, stream->kept);
    gy_mutex_lock(gy_heap_streams_guard(streams));
    (void)gy_waiting_settle(&streams->kind->pages, &stream->waiter, UINT64_MAX);
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    gy_free(stream);
}

void gy_heap_streams_fini(struct gy_heap_streams *streams) GY_NO_ANALYSIS
{
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        for (unsigned i = 0; i < GY_SHARE_BUCKETS; i++) {
            gy_late_free(streams->shares[i]);
        }
        return;
    }
    struct gy_visit visit;
    (void)gy_visit_begin(gy_heap_streams_context(streams), &visit);
    drop_late(streams, streams->late);
    while (streams->first != NULL) {
        struct gy_heap_stream *stream = streams->first;
        streams->first = stream->next;
        drop_stream(streams, stream);
    }
    for (unsigned i = 0; i < streams->spare_count; i++) {
        drop_event(streams, streams->spare_events[i]);
    }
    for (unsigned i = 0; i < GY_SHARE_BUCKETS; i++) {
        gy_late_free(streams->shares[i]);
    }
    gy_visit_end(gy_heap_streams_context(streams), &visit);
}
