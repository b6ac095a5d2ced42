/* SPDX-License-Identifier: MIT */
/* Streams by their numbers, and the marks that tell when a stream has passed a free. */
#include "base/alloc.h"
#include "base/status.h"
#include "heap/kind.h"
#include "heap/pages_inside.h"
#include "heap/streams_inside.h"
#include "heap/visit.h"

#include <assert.h>
#include <string.h>

/* The most blocks, and bytes, freed on a stream between two marks, while others may want its memory. */
#define BLOCKS_PER_MARK 16u
#define BYTES_PER_MARK ((size_t)8 << 20)
/* The share of the kind's memory that may be more than that: events are dear where many threads record them.
 */
#define SHARE_PER_MARK 64u
/* The most bytes between two marks while all waiting memory is the stream's. */
#define LONE_BYTES_PER_MARK ((size_t)256 << 20)
/* The number of streams that are remembered although nothing waits for them. */
#define IDLE_STREAMS 32u

#define LEGACY_ID UINT64_MAX /* the legacy default stream's; no other stream ever has this number */

/* ---- names --------------------------------------------------------------------------------- */

/* Ask for the number of a stream that is not under capture, since asking would break a capture; other streams
 * may be under capture. */
static CUresult ask_id(struct gy_context *context, CUstream handle, uint64_t *out)
{
    const struct gy_driver *driver = context->driver;
    unsigned long long id = (uintptr_t)handle;
    CUresult result = CUDA_SUCCESS;
    if ((uintptr_t)handle <= 1) {
        id = LEGACY_ID;
    } else if (driver->cuStreamGetId != NULL) {
        const struct gy_relaxed relaxed = gy_relaxed_begin(context);
        result = driver->cuStreamGetId(handle, &id);
        (void)gy_relaxed_end(context, &relaxed); /* a failure is in the context */
    }
    *out = id;
    return result;
}

static gantry_status ask_name(struct gy_context *context, CUstream handle, const char *call,
                              struct gy_heap_stream_name *out)
{
    const struct gy_driver *driver = context->driver;
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t capture = 0;
    *out = (struct gy_heap_stream_name){.handle = handle, .id = (uintptr_t)handle};
    CUresult result = driver->cuStreamGetCaptureInfo(handle, &capturing, &capture, NULL, NULL, NULL);
    if (result == CUDA_SUCCESS && capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        out->capture = capture; /* the handle and this number are enough */
        return GANTRY_OK;
    }
    bool may_mark = result == CUDA_SUCCESS && capturing == CU_STREAM_CAPTURE_STATUS_NONE;
    if (may_mark || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
        out->may_mark = may_mark;
        result = ask_id(context, handle, &out->id);
    }
    if (result == CUDA_SUCCESS) {
        return GANTRY_OK;
    }
    gantry_status status = gy_context_check(context, result, "cuStreamGetCaptureInfo", __FILE__, __LINE__);
    return status == GANTRY_ERR_DEVICE_LOST
               ? status
               : GY_FAIL_NATIVE(GANTRY_ERR_INVALID_ARGUMENT, (int)result,
                                "%s: %p is not a stream of the heap's context", call, (void *)handle);
}

gantry_status gy_heap_stream_name(struct gy_context *context, void *stream, const char *call,
                                  struct gy_heap_stream_name *out)
{
    CUcontext current = NULL;
    /* A default stream is the one of the current context. */
    bool is_default = (uintptr_t)stream <= 2;
    bool push = is_default &&
                (context->driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context->native);
    gantry_status status = push ? gy_context_push(context) : GANTRY_OK;
    if (status != GANTRY_OK) {
        return status;
    }
    status = ask_name(context, (CUstream)stream, call, out);
    if (push) {
        (void)gy_context_pop(context);
    }
    return status;
}

/* ---- streams ------------------------------------------------------------------------------- */

static bool is_idle(const struct gy_heap_stream *stream)
{
    return stream->waiter.free.pages == 0 && stream->waiter.blocks == 0 && stream->mark_count == 0 &&
           stream->lates == 0 && stream->laps == 0 && stream->kept == NULL &&
           stream->marks_state == GY_MARKS_FREE;
}

static void choose_lone(struct gy_heap_streams *streams)
{
    struct gy_heap_stream *only = streams->count == 1 && !streams->mixed ? streams->first : NULL;
    streams->kind->pages.lone = only != NULL && !only->waiter.is_graph ? &only->waiter : NULL;
}

/* Find the stream; NULL: it is not known.  What its handle tells of other streams is noted. */
static struct gy_heap_stream *find(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name)
{
    struct gy_heap_stream *found = NULL;
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->id == name->id && stream->capture == name->capture) {
            if (stream->handle != name->handle) { /* the cache line is read by all threads */
                stream->handle = name->handle;
            }
            found = stream;
        } else if (stream->capture != 0 && stream->handle == name->handle) {
            stream->is_over = true; /* its stream has begun something else, or is another one */
        }
    }
    return found;
}

static void make_new(struct gy_heap_stream *stream, const struct gy_heap_stream_name *name)
{
    struct gy_heap_stream *next = stream->next;
    memset(stream, 0, sizeof(*stream));
    *stream = (struct gy_heap_stream){.waiter = {.is_graph = name->capture != 0},
                                      .next = next,
                                      .id = name->id,
                                      .capture = name->capture,
                                      .handle = name->handle};
}

/* Find a stream that nothing waits for, when there are many streams. */
static struct gy_heap_stream *find_idle(struct gy_heap_streams *streams)
{
    struct gy_heap_stream *stream = streams->count > IDLE_STREAMS ? streams->first : NULL;
    while (stream != NULL && !is_idle(stream)) {
        stream = stream->next;
    }
    return stream;
}

/* Take the lock and find the stream, which is made if need be.  NULL, and the lock is not held: out of host
 * memory.  With `room`, there are nodes for one operation. */
struct gy_heap_stream *gy_heap_stream_lock(struct gy_heap_streams *streams,
                                           const struct gy_heap_stream_name *name, bool room) GY_NO_ANALYSIS
{
    struct gy_pages *pages = &streams->kind->pages;
    struct gy_heap_stream *made = NULL;
    for (;;) {
        gy_mutex_lock(&pages->lock);
        if (room && !gy_pages_ensure_room(pages)) {
            gy_mutex_unlock(&pages->lock);
            gy_free(made);
            return NULL;
        }
        struct gy_heap_stream *stream = find(streams, name);
        if (stream == NULL && (stream = find_idle(streams)) != NULL) {
            make_new(stream, name);
        } else if (stream == NULL && made != NULL) {
            stream = made;
            made = NULL;
            make_new(stream, name);
            stream->next = streams->first;
            streams->first = stream;
            streams->count++;
            choose_lone(streams);
            atomic_store_explicit(&streams->used, true, memory_order_relaxed);
        }
        if (stream != NULL) {
            if (made != NULL) { /* another thread was faster */
                gy_mutex_unlock(&pages->lock);
                gy_free(made);
                made = NULL;
                continue;
            }
            assert(gy_heap_stream_is_valid(stream) && gy_heap_streams_are_valid(streams));
            return stream;
        }
        gy_mutex_unlock(&pages->lock);
        made = gy_zalloc(sizeof(*made));
        if (made == NULL) {
            return NULL;
        }
    }
}

/* ---- marks --------------------------------------------------------------------------------- */

/* The only writer of the state. */
static void enter(struct gy_heap_stream *stream, enum gy_marks_state next)
{
    assert((stream->marks_state == GY_MARKS_FREE) != (next == GY_MARKS_FREE));
    stream->marks_state = next;
}

/* The most bytes that wait on the stream without an event; all streams together have no more than the last
 * share.  Who finds no room can wait for the rest. */
static size_t most_unmarked(const struct gy_heap_streams *streams, bool is_lone)
{
    const size_t share = gy_kind_total(streams->kind) / SHARE_PER_MARK;
    const size_t usual = is_lone ? LONE_BYTES_PER_MARK : share > BYTES_PER_MARK ? share : BYTES_PER_MARK;
    const size_t most = gy_kind_capacity(streams->kind) / GY_KIND_LAST_SHARE / streams->count;
    return usual < most ? usual : most;
}

static bool should_mark(const struct gy_heap_streams *streams, const struct gy_heap_stream *stream)
{
    if (stream->unmarked == 0) {
        return false;
    }
    const bool is_lone = streams->kind->pages.lone == &stream->waiter;
    return stream->wanted || gy_kind_is_full(streams->kind) ||
           (!is_lone && stream->unmarked >= BLOCKS_PER_MARK) ||
           stream->unmarked_bytes >= most_unmarked(streams, is_lone);
}

struct gy_heap_event *gy_heap_streams_pop_event(struct gy_heap_streams *streams)
{
    struct gy_heap_event *event = streams->spare;
    if (event != NULL) {
        assert(event->holders == 0 && streams->spare_count != 0);
        streams->spare = event->next;
        streams->spare_count--;
        event->holders = 1;
    }
    return event;
}

/* Begin a mark under the lock: no other thread makes one until gy_heap_stream_finish_mark(). */
struct gy_heap_marking gy_heap_stream_begin_mark(struct gy_heap_streams *streams,
                                                 struct gy_heap_stream *stream,
                                                 const struct gy_heap_stream_name *name, bool anyway)
{
    struct gy_heap_marking marking = {NULL, NULL, 0};
    if (!name->may_mark || stream->marks_state != GY_MARKS_FREE ||
        !(anyway || should_mark(streams, stream))) {
        return marking;
    }
    /* With all marks in use, the latest one moves: it passes later and covers more blocks. */
    marking.event = stream->mark_count < GY_STREAM_MARKS ? gy_heap_streams_pop_event(streams)
                                                         : stream->marks[--stream->mark_count].event;
    marking.stream = stream;
    marking.order = streams->order++;
    enter(stream, GY_MARKS_MARKING);
    stream->wanted = false;
    stream->unmarked = 0;
    stream->unmarked_bytes = 0;
    assert(gy_heap_stream_is_valid(stream));
    return marking;
}

void gy_heap_streams_give_event(struct gy_heap_streams *streams, struct gy_heap_event *event) GY_NO_ANALYSIS
{
    if (event == NULL) {
        return;
    }
    assert(event->holders != 0);
    if (--event->holders != 0) {
        return;
    }
    if (streams->spare_count < GY_SPARE_EVENTS) {
        event->next = streams->spare;
        streams->spare = event;
        streams->spare_count++;
        return;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams)); /* many threads use events at once, which is rare */
    (void)GY_CALL(gy_heap_streams_context(streams), cuEventDestroy(event->native));
    gy_free(event);
    gy_mutex_lock(gy_heap_streams_guard(streams));
}

static struct gy_heap_event *make_event(struct gy_context *context)
{
    struct gy_heap_event *event = gy_zalloc(sizeof(*event));
    if (event == NULL) {
        return NULL;
    }
    event->holders = 1;
    if (GY_CALL(context, cuEventCreate(&event->native, CU_EVENT_DISABLE_TIMING)) != GANTRY_OK) {
        gy_free(event);
        return NULL;
    }
    return event;
}

/* Record `*event`, which is made if need be, on a stream that a call names now.  False: it could not be
 * recorded. */
bool gy_heap_streams_record_event(struct gy_context *context, CUstream handle, struct gy_heap_event **event)
{
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(context, &visit);
    if (status == GANTRY_OK && *event == NULL) {
        *event = make_event(context);
    }
    const bool recorded = status == GANTRY_OK && *event != NULL &&
                          GY_CALL(context, cuEventRecord((*event)->native, handle)) == GANTRY_OK;
    gy_visit_end(context, &visit);
    return recorded;
}

/* Finish a mark.  The lock is not held. */
void gy_heap_stream_finish_mark(struct gy_heap_streams *streams, const struct gy_heap_marking *marking,
                                CUstream handle)
{
    struct gy_heap_stream *stream = marking->stream;
    if (stream == NULL) {
        return;
    }
    struct gy_heap_event *event = marking->event;
    bool recorded = gy_heap_streams_record_event(gy_heap_streams_context(streams), handle, &event);
    gy_mutex_lock(gy_heap_streams_guard(streams));
    assert(stream->marks_state == GY_MARKS_MARKING && gy_heap_stream_is_valid(stream));
    if (recorded) {
        stream->marks[stream->mark_count++] = (struct gy_heap_stream_mark){event, marking->order};
    } else {
        stream->unmarked = BLOCKS_PER_MARK; /* the next call tries again */
        gy_heap_streams_give_event(streams, event);
    }
    enter(stream, GY_MARKS_FREE);
    assert(gy_heap_stream_is_valid(stream));
    gy_mutex_unlock(gy_heap_streams_guard(streams));
}

bool gy_heap_streams_has_passed(struct gy_context *context, const struct gy_heap_event *event, bool wait)
{
    const struct gy_driver *driver = context->driver;
    CUresult result = wait ? driver->cuEventSynchronize(event->native) : driver->cuEventQuery(event->native);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        (void)gy_context_check(context, result, "cuEventQuery", __FILE__, __LINE__);
    }
    return result == CUDA_SUCCESS;
}

/* Each thread that asks knows up to which order, and tells no more than that.  Another one may have been
 * faster, and the stream's struct may be another stream's by now, whose memory has later orders. */
size_t gy_heap_stream_passed(struct gy_heap_streams *streams, struct gy_heap_stream *stream,
                             uint64_t order) GY_NO_ANALYSIS
{
    struct gy_heap_event *events[GY_STREAM_MARKS];
    unsigned count = 0;
    if (stream->waiter.is_graph) {
        return 0;
    }
    while (count < stream->mark_count && stream->marks[count].order <= order) {
        events[count] = stream->marks[count].event;
        count++;
    }
    stream->mark_count -= count;
    memmove(stream->marks, stream->marks + count, stream->mark_count * sizeof(stream->marks[0]));
    stream->passed = stream->passed > order ? stream->passed : order;
    const size_t bytes = gy_waiting_settle(&streams->kind->pages, &stream->waiter, order);
    assert(gy_heap_stream_is_valid(stream) && gy_heap_streams_are_valid(streams));
    for (unsigned i = 0; i < count; i++) {
        gy_heap_streams_give_event(streams, events[i]);
    }
    return bytes;
}

/* Ask for the marks of a stream.  The lock is held, but not while the driver is asked. */
static size_t poll_stream(struct gy_heap_streams *streams, struct gy_heap_stream *stream) GY_NO_ANALYSIS
{
    struct gy_heap_stream_mark marks[GY_STREAM_MARKS];
    const unsigned count = stream->mark_count;
    for (unsigned i = 0; i < count; i++) {
        marks[i] = stream->marks[i];
        marks[i].event->holders++;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    unsigned passed = 0;
    while (passed < count &&
           gy_heap_streams_has_passed(gy_heap_streams_context(streams), marks[passed].event, false)) {
        passed++;
    }
    gy_mutex_lock(gy_heap_streams_guard(streams));
    const size_t bytes = passed != 0 ? gy_heap_stream_passed(streams, stream, marks[passed - 1].order) : 0;
    for (unsigned i = 0; i < count; i++) {
        gy_heap_streams_give_event(streams, marks[i].event);
    }
    return bytes;
}

size_t gy_heap_streams_poll_marks(struct gy_heap_streams *streams) GY_NO_ANALYSIS
{
    size_t bytes = 0;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        bytes += stream->mark_count != 0 ? poll_stream(streams, stream) : 0;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return bytes;
}

void gy_heap_streams_want(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name)
{
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        return;
    }
    struct gy_heap_marking marking = {NULL, NULL, 0};
    gy_mutex_lock(gy_heap_streams_guard(streams));
    streams->mixed = streams->mixed || name == NULL;
    choose_lone(streams);
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        stream->wanted = stream->unmarked != 0;
        if (name != NULL && stream->id == name->id && stream->capture == name->capture) {
            marking = gy_heap_stream_begin_mark(streams, stream, name, false);
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    gy_heap_stream_finish_mark(streams, &marking, name != NULL ? name->handle : NULL);
}
