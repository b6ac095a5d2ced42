/* SPDX-License-Identifier: MIT */
/* Blocks on streams as the files that handle them see them.  Functions are called under the lock of the page
 * layer, unless their comment says otherwise. */
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

/* The stream's marks are in order and fit their state, and only a capture has the fields of a graph. */
bool gy_heap_stream_is_valid(const struct gy_heap_stream *stream);
/* The list and the counts agree; looks at 32 streams at most. */
bool gy_heap_streams_are_valid(const struct gy_heap_streams *streams);

/* ---- stream_marks.c ---- */

/* Take the lock and find the stream, which is made if need be.  NULL, and the lock is not held: out of host
 * memory.  With `room`, there are nodes for one operation. */
struct gy_heap_stream *gy_heap_stream_lock(struct gy_heap_streams *streams,
                                           const struct gy_heap_stream_name *name, bool room);

/* An event that will be recorded without the lock. */
struct gy_heap_marking {
    struct gy_heap_stream *stream; /* NULL: none */
    struct gy_heap_event *event;   /* NULL: it has still to be made */
    uint64_t order;
};

/* Begin a mark if there is a reason, or with `anyway`, and if no other thread makes one. */
struct gy_heap_marking gy_heap_stream_begin_mark(struct gy_heap_streams *streams,
                                                 struct gy_heap_stream *stream,
                                                 const struct gy_heap_stream_name *name, bool anyway);
/* Record the mark that was begun, if there is one.  The lock is not held. */
void gy_heap_stream_finish_mark(struct gy_heap_streams *streams, const struct gy_heap_marking *marking,
                                CUstream handle);

/* Take an event that nobody uses; NULL: there is none. */
struct gy_heap_event *gy_heap_streams_pop_event(struct gy_heap_streams *streams);
/* Hold the event no longer; NULL is ignored.  The lock may be given up for a moment. */
void gy_heap_streams_give_event(struct gy_heap_streams *streams, struct gy_heap_event *event);
/* Record `*event`, which is made if need be, on a stream that a call names now.  The lock is not held.
 * False: it could not be recorded. */
bool gy_heap_streams_record_event(struct gy_context *context, CUstream handle, struct gy_heap_event **event);
/* Has the event passed?  `wait`: wait until it has.  The caller holds the event, and not the lock, and a
 * visit is open (visit.h). */
bool gy_heap_streams_has_passed(struct gy_context *context, const struct gy_heap_event *event, bool wait);
/* Ask for the marks of all streams.  The lock is not held, and a visit is open.  Returns the bytes that are
 * free for all now. */
size_t gy_heap_streams_poll_marks(struct gy_heap_streams *streams);
/* The stream has passed all that was freed up to `order`.  Returns the bytes that are free for all now. */
size_t gy_heap_stream_passed(struct gy_heap_streams *streams, struct gy_heap_stream *stream, uint64_t order);

/* ---- stream_ends.c ---- */

/* Let the range, which is the caller's, wait for the stream's `order`, or give it back to its graph. */
void gy_heap_stream_keep(struct gy_heap_streams *streams, struct gy_heap_stream *stream,
                         struct gy_range *range, uint64_t order);
/* Add a block to the late list.  The lock is not held, as in the functions below. */
void gy_heap_streams_attach_late(struct gy_heap_streams *streams, struct gy_late *late);
/* End the late blocks whose events have passed, and those without an event that were freed up to the order
 * `known`.  A visit is open.  True: there was one. */
#define GY_NOTHING_KNOWN 0
bool gy_heap_streams_poll_lates(struct gy_heap_streams *streams, uint64_t known);
/* Free the entries of one block. */
void gy_late_free(struct gy_late *first);

#endif
