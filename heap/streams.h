/* Blocks that are used on streams: what is freed on one is used there again at once, and elsewhere when the
 * stream has passed it.
 *
 * A stream is known by its number (cuStreamGetId()), which no other stream ever has; a stream under capture
 * by its handle and the capture's number (asking for its own would break the capture).  What is freed gets
 * the stream's current `order`.  A mark is an event recorded on the stream, after which the order goes up by
 * one: when the event has passed, what has no higher order is free for all.  Marks are made only within a
 * call that names the stream, since only then it certainly exists, never while it is under capture, and not
 * for every block.
 *
 * What is freed on a stream under capture, or was allocated there, stays with the graph: every replay may
 * write to it.
 *
 * A block for which other streams were recorded waits, when it is freed, for an event on each of these
 * (`late`); then it waits as any other for its own stream.
 *
 * Threading: any thread.  Guarded by the lock of the page layer; no driver call is made with it held.  The
 * events of a stream belong to the thread that has made it busy. */
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
    struct gy_range *range; /* NULL: of the small tier */
    uintptr_t address;
    uint32_t record; /* of the small tier */
};

/* What a call was told by a stream's handle. */
struct gy_heap_stream_name {
    CUstream handle;
    uint64_t id;
    uint64_t capture; /* 0: none */
    bool may_mark;    /* an event may be recorded there now */
};

struct gy_heap_stream_mark {
    CUevent event;
    uint64_t order;
};

/* Guarded by the page layer's lock. */
struct gy_heap_stream {
    struct gy_page_waiter waiter; /* first member */
    struct gy_heap_stream *next;
    uint64_t id, capture;
    CUstream handle;  /* of the last call that named the stream */
    uint64_t order;   /* what is freed now gets it; from 1 on */
    uint64_t settled; /* waited for with the whole device: nothing up to this one is pending */
    struct gy_heap_stream_mark marks[GY_STREAM_MARKS]; /* oldest first */
    unsigned mark_count;
    unsigned unmarked;     /* blocks freed since the last mark */
    size_t unmarked_bytes; /* theirs */
    uint64_t round;        /* of the last poll that looked at it */
    unsigned lates;        /* blocks on the late list that come here */
    struct gy_late *kept;  /* of a graph: small blocks that were freed in it */
    bool busy;             /* a thread is at its marks without the lock */
    bool wanted;           /* others could use its memory: the next call makes a mark */
    bool is_over;          /* of a capture: it has ended */
    bool is_pinned;        /* of a graph: another one uses memory of it, which is kept for good */
};

/* A stream recorded for a block; of a block that was freed, an event on it. */
struct gy_late {
    struct gy_late *next;  /* in its bucket, or of the same block */
    struct gy_late *later; /* late list: the next block's first */
    uintptr_t address;
    uint64_t id;
    CUstream handle;
    CUevent event;         /* NULL: none could be recorded; only waiting for the device helps */
    struct gy_claim claim; /* the block's first: what was freed */
    struct gy_heap_stream
        *stream;    /* the block's first: where the block goes then, NULL: it is free for all */
    uint64_t order; /* with `stream`: the stream's when the block was freed */
};

struct gy_heap_streams {
    struct gy_kind *kind;                     /* immutable */
    struct gy_heap_stream *first;             /* guarded */
    unsigned count;                           /* guarded; of streams */
    bool mixed;                               /* guarded; plain allocations use the same memory */
    uint64_t rounds;                          /* guarded; polls so far */
    struct gy_late *late;                     /* guarded; blocks freed with other streams recorded */
    struct gy_late *shares[GY_SHARE_BUCKETS]; /* guarded; by address */
    _Atomic(size_t) share_count;              /* atomic; written under the lock */
    CUevent spare_events[GY_SPARE_EVENTS];    /* guarded */
    unsigned spare_count;                     /* guarded */
    _Atomic(bool) used;                       /* atomic; there is or was a stream */
};

void gy_heap_streams_init(struct gy_heap_streams *streams, struct gy_kind *kind);
/* The GPU has done all work; before the page layer ends. */
void gy_heap_streams_fini(struct gy_heap_streams *streams);

/* @retval GANTRY_ERR_INVALID_ARGUMENT  not a stream */
GANTRY_MUST_CHECK gantry_status gy_heap_stream_name(struct gy_context *context, void *stream,
                                                    const char *call, struct gy_heap_stream_name *out);

/* As gy_kind_alloc(). */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_alloc(struct gy_heap_streams *streams,
                                                      const struct gy_heap_stream_name *name, size_t bytes,
                                                      size_t alignment, uint32_t site, uintptr_t *out);
/* `aside`: the block waits for an event of its own, and is then freed as any other.
 * @retval GANTRY_ERR_NOT_FOUND           no live block starts there
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the block is unchanged */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_free(struct gy_heap_streams *streams,
                                                     const struct gy_heap_stream_name *name,
                                                     struct gy_heap_region *region, uintptr_t address,
                                                     bool aside);
/* The block is used on that stream, too.  As gy_heap_streams_free(). */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_record(struct gy_heap_streams *streams,
                                                       const struct gy_heap_stream_name *name,
                                                       struct gy_heap_region *region, uintptr_t address);
/* The block at `address` is freed without a stream: nothing is recorded for it any more. */
void gy_heap_streams_forget(struct gy_heap_streams *streams, uintptr_t address);

/* Make free for all what has passed; `wait`: wait for the marks that there are.  True: there was some. */
bool gy_heap_streams_poll(struct gy_heap_streams *streams, bool wait);
/* Somebody has no room: streams make marks when they are named next, and one that is named now at once. */
void gy_heap_streams_want(struct gy_heap_streams *streams, const struct gy_heap_stream_name *name);
/* Wait for the device; then everything is free for all but what stays with graphs.
 * @retval GANTRY_ERR_STATE  a capture is under way */
GANTRY_MUST_CHECK gantry_status gy_heap_streams_settle(struct gy_heap_streams *streams, bool *out_any);

/* The capture has ended, or its graph is gone and no replay of it is on its way. */
void gy_heap_streams_end_capture(struct gy_heap_streams *streams, uint64_t capture, bool is_gone);

/* What is free for a stream or graph only. */
size_t gy_heap_streams_waiting(struct gy_heap_streams *streams);

#endif
