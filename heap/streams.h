/* SPDX-License-Identifier: MIT */
/* Blocks that are used on streams: memory freed on a stream is used there again at once, and elsewhere once
 * the stream has passed the free.
 *
 * A stream is known by its number (cuStreamGetId()), which no other stream ever has.  A stream under capture
 * is known by its handle and the capture's number, since asking for its own number would break the capture.
 * Freed memory gets the current `order`, which is one for all streams and tells what was freed before what. A
 * mark is an event recorded on a stream, after which the order goes up by one: when the event has passed,
 * memory of that stream and of no higher order is free for all.  Marks are made only within a call that names
 * the stream, since only then it certainly exists.  They are never made while the stream is under capture,
 * and not for every block.
 *
 * What a thread has waited for, it knows by the order at which it began, which it keeps to itself.  A later
 * waiter began at a higher one, and the two must not take each other's for theirs.
 *
 * Memory that was freed or allocated on a stream under capture stays with the graph: every replay may write
 * to it.
 *
 * What a thread frees on the stream that it uses most is kept in the thread's lap (park.h), and is taken from
 * there without the lock, an event or a question to the driver.  Blocks that the lap does not keep leave it
 * with the thread's next operation that takes the lock.  Memory gets its order when it leaves the lap.
 *
 * A freed block for which other streams were recorded waits for an event on each of them (`late`).  Then it
 * waits for its own stream like any other block.
 *
 * Threading: any thread.  Guarded by the lock of the page layer; no driver call is made with it held. */
#ifndef HEAP_STREAMS_H
#define HEAP_STREAMS_H

#include "driver/context.h"
#include "heap/waiting.h"

struct gy_kind;

#define GY_STREAM_MARKS 4
#define GY_SPARE_EVENTS 32
#define GY_SHARE_BUCKETS 64

/* A block that was taken from the application and whose memory is not free yet. */
struct gy_claim {
    struct gy_range *range; /* NULL: a block of the small tier */
    uintptr_t address;
    uint32_t record; /* of a block of the small tier */
};

/* A stream as a call names it by its handle. */
struct gy_heap_stream_name {
    CUstream handle;
    uint64_t id;
    uint64_t capture; /* 0: none */
    bool may_mark;    /* the call may record an event on the stream now */
};

/* An event of the heap's.  Who waits for it holds it as well, so that it is not recorded on another stream
 * meanwhile.  Recorded again on its own stream, it passes later, and tells the waiter no less. */
struct gy_heap_event {
    CUevent native;             /* immutable */
    unsigned holders;           /* guarded; what it was recorded for, and who asks or waits for it */
    struct gy_heap_event *next; /* guarded; of the spare ones */
};

struct gy_heap_stream_mark {
    struct gy_heap_event *event;
    uint64_t order;
};

/* Whether a thread makes a mark on a stream; enter() in stream_marks.c is the only writer.
 *
 *    FREE ----- a call begins a mark ---------> MARKING ----- it is recorded, or cannot be ----> FREE
 *
 * MARKING: a thread records an event without the lock, and no other makes a mark. */
enum gy_marks_state { GY_MARKS_FREE, GY_MARKS_MARKING };

/* Guarded by the page layer's lock. */
struct gy_heap_stream {
    struct gy_page_waiter waiter; /* first member */
    struct gy_heap_stream *next;
    uint64_t id, capture;
    CUstream handle; /* as the last call that named the stream gave it */
    bool is_over;    /* of a capture: the capture has ended */
    /* What is above is read by whoever looks for any stream, what follows is written by each operation. */
    char apart[GY_CACHE_LINE];
    uint64_t passed; /* the stream has passed all that was freed on it up to this order */
    struct gy_heap_stream_mark marks[GY_STREAM_MARKS]; /* oldest first */
    unsigned mark_count;
    unsigned unmarked;     /* blocks freed since the last mark */
    size_t unmarked_bytes; /* the bytes of these blocks */
    unsigned laps;         /* laps of shards that keep blocks for the stream (park.h) */
    unsigned lates;        /* blocks on the late list that will wait for this stream next */
    struct gy_late *kept;  /* of a graph: small blocks that were freed during its capture */
    enum gy_marks_state marks_state;
    bool wanted;    /* others could use the stream's memory: the next call makes a mark */
    bool is_pinned; /* of a graph: another graph uses its memory, which is therefore kept for good */
};

/* A stream that was recorded for a block; once the block is freed, an event on that stream. */
struct gy_late {
    struct gy_late *next;  /* next in its bucket, or of the same block */
    struct gy_late *later; /* on the late list: the first entry of the next block */
    uintptr_t address;
    uint64_t id;
    CUstream handle;
    struct gy_heap_event *event;   /* NULL: none could be recorded, so only waiting for the device helps */
    bool has_passed;               /* written by who has taken the block off the late list */
    struct gy_claim claim;         /* in the block's first entry: the freed block */
    struct gy_heap_stream *stream; /* in the block's first entry: the stream that the block waits for next;
                                      NULL: it is free for all */
    uint64_t order;                /* in the block's first entry: the order when it was freed */
};

struct gy_heap_streams {
    struct gy_kind *kind;         /* immutable */
    struct gy_heap_stream *first; /* guarded */
    unsigned count;               /* guarded; of streams */
    uint64_t order;               /* guarded; memory that is freed now gets this order; it begins at 1 */
    bool mixed;                   /* guarded; plain allocations use the same memory */
    struct gy_late *late;         /* guarded; freed blocks for which other streams were recorded */
    unsigned late_polls;          /* guarded; threads that have taken blocks off that list to ask for them */
    struct gy_late *shares[GY_SHARE_BUCKETS]; /* guarded; by address */
    _Atomic(size_t) share_count;              /* atomic; written under the lock */
    struct gy_heap_event *spare;              /* guarded */
    unsigned spare_count;                     /* guarded */
    _Atomic(bool) used;                       /* atomic; there is a stream, or was one */
};

void gy_heap_streams_init(struct gy_heap_streams *streams, struct gy_kind *kind);
/* What laps need of streams: gy_lap_home_fn. */
struct gy_heap_stream *gy_heap_streams_home(void *streams, struct gy_heap_stream *old, struct gy_range *first,
                                            uint64_t id);
/* To be called when the GPU has done all work, and before the page layer ends. */
void gy_heap_streams_fini(struct gy_heap_streams *streams);

/* @retval GANTRY_ERR_INVALID_ARGUMENT  the handle is no stream */
GANTRY_MUST_CHECK gantry_status gy_heap_stream_name(struct gy_context *context, void *stream,
                                                    const char *call, struct gy_heap_stream_name *out);

/* As gy_kind_alloc(). */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_alloc(struct gy_heap_streams *streams,
                                                      const struct gy_heap_stream_name *name, size_t bytes,
                                                      size_t alignment, uint32_t site, uintptr_t *out);
/* `aside`: the block waits for an event of its own, and is then freed like any other.
 * @retval GANTRY_ERR_NOT_FOUND           no live block starts there
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the block is unchanged */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_free(struct gy_heap_streams *streams,
                                                     const struct gy_heap_stream_name *name,
                                                     struct gy_heap_region *region, uintptr_t address,
                                                     bool aside);
/* Record that the block is used on that stream, too.  Statuses as gy_heap_streams_free(). */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_record(struct gy_heap_streams *streams,
                                                       const struct gy_heap_stream_name *name,
                                                       struct gy_heap_region *region, uintptr_t address);
/* The block at `address` is freed without a stream: nothing is recorded for it any more. */
void gy_heap_streams_forget(struct gy_heap_streams *streams, uintptr_t address);

/* Make the memory that streams have passed free for all.  True: there was some. */
bool gy_heap_streams_poll(struct gy_heap_streams *streams);
/* Wait for the event of what was freed first, up to `most`, and make that free for all.  Nobody is waited for
 * but streams of which memory comes back then.  False: there is no such event, or it has failed. */
bool gy_heap_streams_wait(struct gy_heap_streams *streams, uint64_t most);
/* Somebody has no room: each stream makes a mark when it is named next, and the stream that is named now
 * makes one at once. */
void gy_heap_streams_want(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name);
/* Wait for all that was freed, then everything is free for all, except memory that stays with graphs.  The
 * device is waited for only if there is memory for which no event was recorded.
 * @retval GANTRY_ERR_STATE  a capture is under way */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_settle(struct gy_heap_streams *streams);

/* The capture has ended, or its graph is gone and none of its replays is pending. */
void gy_heap_streams_end_capture(struct gy_heap_streams *streams, uint64_t capture, bool is_gone);

/* The bytes that are free for one stream or graph only. */
size_t gy_heap_streams_waiting(struct gy_heap_streams *streams);
/* Say of `waiting` bytes that were freed and are not free whether they wait for streams, or stay with
 * captures: for ever with one that is abandoned without gy_heap_streams_end_capture(). */
void gy_heap_streams_tell(struct gy_heap_streams *streams, uint64_t waiting, char *out, size_t room);

#endif
