/* Blocks on streams as the files that handle them see them: under the lock of the page layer, unless it is
 * said otherwise. */
#ifndef HEAP_STREAMS_INSIDE_H
#define HEAP_STREAMS_INSIDE_H

#include "heap/kind.h"
#include "heap/streams.h"

static inline gy_mutex *gy_heap_streams_guard(const struct gy_heap_streams *streams)
{
    return &streams->kind->pages.lock;
}

static inline struct gy_context *gy_heap_streams_context(const struct gy_heap_streams *streams)
{
    return streams->kind->setup.context;
}

/* ---- stream_marks.c ---- */

/* Take the lock and find the stream, made if need be; NULL without the lock: out of host memory.  With
 * `room`, there are nodes for one operation. */
struct gy_heap_stream *gy_heap_stream_lock(struct gy_heap_streams *streams,
                                           const struct gy_heap_stream_name *name, bool room);

/* An event that is to be recorded without the lock. */
struct gy_heap_marking {
    struct gy_heap_stream *stream; /* NULL: none */
    CUevent event;                 /* NULL: to be made */
    uint64_t order;
};

/* Begin a mark if there is a reason: the stream's marks belong to the caller until it is finished. */
struct gy_heap_marking gy_heap_stream_begin_mark(struct gy_heap_streams *streams,
                                                 struct gy_heap_stream *stream,
                                                 const struct gy_heap_stream_name *name);
/* Without the lock: record what was begun, if anything. */
void gy_heap_stream_finish_mark(struct gy_heap_streams *streams, const struct gy_heap_marking *marking,
                                CUstream handle);

/* An event that nobody uses; NULL: there is none. */
CUevent gy_heap_streams_pop_event(struct gy_heap_streams *streams);
/* NULL is ignored.  May give the lock up for a moment. */
void gy_heap_streams_give_event(struct gy_heap_streams *streams, CUevent event);
/* Without the lock: record `*event`, made if need be, on a stream that a call names now.  False: it could not
 * be. */
bool gy_heap_streams_record_event(struct gy_context *context, CUstream handle, CUevent *event);
/* Without the lock, within a visit. */
bool gy_heap_streams_has_passed(struct gy_context *context, CUevent event, bool wait);
/* Without the lock, within a visit: bytes that are free for all now. */
size_t gy_heap_streams_poll_marks(struct gy_heap_streams *streams, bool wait);

/* ---- stream_ends.c ---- */

/* The range, which is the caller's, waits for the stream's `order`, or goes back to its graph. */
void gy_heap_stream_keep(struct gy_heap_streams *streams, struct gy_heap_stream *stream,
                         struct gy_range *range, uint64_t order);
/* Without the lock, likewise the following: add a block to the late list. */
void gy_heap_streams_attach_late(struct gy_heap_streams *streams, struct gy_late *late);
/* A list of one block's. */
void gy_late_free(struct gy_late *first);

#endif
