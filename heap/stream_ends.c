/* SPDX-License-Identifier: MIT */
/* How blocks come back that waited for more than one stream, or for a graph; and the end of streams. */
#include "base/alloc.h"
#include "base/status.h"
#include "heap/kind.h"
#include "heap/pages_inside.h"
#include "heap/streams_inside.h"
#include "heap/visit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
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
        if (late->order <= stream->passed) { /* its own stream was faster than the others */
            (void)gy_heap_stream_passed(streams, stream, late->order);
        }
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

/* Nobody else knows the block now. */
static bool late_has_passed(struct gy_context *context, struct gy_late *late, uint64_t known)
{
    const bool is_known = late->order <= known;
    for (; late != NULL; late = late->next) {
        if (!late->has_passed) {
            late->has_passed =
                late->event != NULL ? gy_heap_streams_has_passed(context, late->event, false) : is_known;
        }
        if (!late->has_passed) {
            return false;
        }
    }
    return true;
}

static struct gy_late *detach_lates(struct gy_heap_streams *streams)
{
    gy_mutex_lock(gy_heap_streams_guard(streams));
    struct gy_late *all = streams->late;
    streams->late = NULL;
    streams->late_polls++;
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

static void end_all(struct gy_heap_streams *streams, struct gy_late *first)
{
    while (first != NULL) {
        struct gy_late *later = first->later;
        end_late(streams, first);
        first = later;
    }
}

bool gy_heap_streams_poll_lates(struct gy_heap_streams *streams, uint64_t known)
{
    bool any = false;
    struct gy_late *first = detach_lates(streams);
    while (first != NULL) {
        struct gy_late *later = first->later;
        if (late_has_passed(gy_heap_streams_context(streams), first, known)) {
            end_late(streams, first);
            any = true;
        } else {
            gy_heap_streams_attach_late(streams, first);
        }
        first = later;
    }
    gy_mutex_lock(gy_heap_streams_guard(streams));
    assert(streams->late_polls != 0);
    streams->late_polls--;
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return any;
}

bool gy_heap_streams_poll(struct gy_heap_streams *streams)
{
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        return false;
    }
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(gy_heap_streams_context(streams), &visit);
    bool any = false;
    if (status == GANTRY_OK) {
        any = gy_heap_streams_poll_lates(streams, GY_NOTHING_KNOWN);
        any = gy_heap_streams_poll_marks(streams) != 0 || any;
    }
    gy_visit_end(gy_heap_streams_context(streams), &visit);
    return any;
}

/* ---- graphs --------------------------------------------------------------------------------- */

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
    end_all(streams, kept);
}

size_t gy_heap_streams_waiting(struct gy_heap_streams *streams)
{
    struct gy_pages *pages = &streams->kind->pages;
    gy_mutex_lock(&pages->lock);
    size_t bytes = pages->waiting_pages << GY_PAGE_SHIFT;
    gy_mutex_unlock(&pages->lock);
    return bytes;
}

/* Does a stream that comes before this one in the list have memory of the same capture? */
static bool is_counted(const struct gy_heap_streams *streams, const struct gy_heap_stream *stream)
{
    const struct gy_heap_stream *now = streams->first;
    while (now != stream &&
           !(now->waiter.is_graph && now->waiter.free.pages != 0 && now->capture == stream->capture)) {
        now = now->next;
    }
    return now != stream;
}

/* The bytes that stay with graphs, and of how many captures these are. */
static size_t count_captured(struct gy_heap_streams *streams, unsigned *captures)
{
    size_t pages = 0;
    *captures = 0;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->waiter.is_graph && stream->waiter.free.pages != 0) {
            pages += stream->waiter.free.pages;
            *captures += is_counted(streams, stream) ? 0 : 1;
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return pages << GY_PAGE_SHIFT;
}

void gy_heap_streams_tell(struct gy_heap_streams *streams, uint64_t waiting, char *out, size_t room)
{
    unsigned captures;
    uint64_t captured = count_captured(streams, &captures);
    size_t used = 0;
    out[0] = '\0';
    if (waiting > captured) {
        int more = snprintf(out, room, "; %" PRIu64 " wait for streams, see gantry_heap_settle()",
                            waiting - captured);
        used = more > 0 ? (size_t)more : 0;
    }
    if (captured != 0 && used < room) {
        (void)snprintf(out + used, room - used,
                       "; %" PRIu64
                       " stay with %u capture%s until gantry_heap_end_capture() says that %s gone",
                       captured, captures, captures == 1 ? "" : "s",
                       captures == 1 ? "its graph is" : "their graphs are");
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

void gy_heap_streams_init(struct gy_heap_streams *streams, struct gy_kind *kind)
{
    memset(streams, 0, sizeof(*streams));
    streams->kind = kind;
    streams->order = 1;
}

static void drop_event(struct gy_heap_streams *streams, struct gy_heap_event *event)
{
    if (event != NULL) {
        (void)GY_CALL(gy_heap_streams_context(streams), cuEventDestroy(event->native));
        gy_free(event);
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
    while (streams->spare != NULL) {
        struct gy_heap_event *event = streams->spare;
        streams->spare = event->next;
        drop_event(streams, event);
    }
    for (unsigned i = 0; i < GY_SHARE_BUCKETS; i++) {
        gy_late_free(streams->shares[i]);
    }
    gy_visit_end(gy_heap_streams_context(streams), &visit);
}
