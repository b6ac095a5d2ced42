/* SPDX-License-Identifier: MIT */
/* Blocks that were given back while GPU work may still use them: they wait for a timeline point of a stream.
 *
 * The dispatcher thread (GD) adds them and takes them up again for the same stream; the completion thread
 * frees them when the stream has passed, and so does a thread that runs out of memory. */
#ifndef DISPATCHER_DONE_DEFERRED_H
#define DISPATCHER_DONE_DEFERRED_H

#include "dispatcher/order/streams.h"
#include "heap/heap.h"

struct gy_deferred_block {
    struct gy_heap_claim claim; /* address 0: taken up again */
    uint64_t seq;
};

struct gy_deferred_queue {
    struct gy_deferred_block *blocks; /* guarded by lock; a ring of `room` */
    _Atomic(uint64_t)
        head;         /* atomic; written under lock; a position that only grows; index = position % room */
    uint64_t tail;    /* likewise; guarded by lock, written by GD, which may read it without */
    uint64_t room;    /* likewise; 0 or a power of two */
    uint64_t watched; /* guarded by lock; the completion thread looks out for this timeline point */
};

struct gy_deferred {
    gantry_heap *heap;          /* immutable */
    struct gy_streams *streams; /* immutable */
    gy_mutex lock;              /* rank WAIT_SETS */
    gy_cond freed;              /* `frees` has changed, or nothing is watched any more */
    uint64_t frees;             /* guarded by lock; blocks freed so far */
    uint64_t in_transit;        /* guarded by lock; blocks out of their queue and not freed yet */
    _Atomic(uint64_t) pending;  /* atomic; blocks in the queues */
    _Atomic(uint64_t) deferred; /* atomic; written by GD */
    _Atomic(uint64_t) reused;   /* atomic; written by GD */
    struct gy_deferred_queue queues[GY_STREAMS_MAX]; /* guarded by lock; by stream */
};

GANTRY_MUST_CHECK gantry_status gy_deferred_init(struct gy_deferred *deferred, gantry_heap *heap,
                                                 struct gy_streams *streams);
/* GD and the completion thread have ended and the GPU is done: frees everything. */
void gy_deferred_fini(struct gy_deferred *deferred);

/* GD, or under the lock: its positions fit its room, and those of its blocks only grow. */
bool gy_deferred_queue_is_valid(const struct gy_deferred_queue *queue);

/* GD: free the block when `stream` has passed `seq`.
 * @retval GANTRY_ERR_NOT_FOUND           not a live block
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the block is live still */
GANTRY_MUST_CHECK gantry_status gy_deferred_add(struct gy_deferred *deferred, uint32_t stream, uint64_t seq,
                                                void *pointer);

/* Positions in the queue of a stream: the blocks that a call which is made once more has given back.  When
 * it is made again it may give those blocks back again, and use them until it does. */
struct gy_deferred_span {
    uint64_t begin, end;
};

/* GD: where the next block of `stream` goes. */
uint64_t gy_deferred_next(const struct gy_deferred *deferred, uint32_t stream);

/* GD: true when `pointer` is in the span: it is given back again, and in the span no more. */
bool gy_deferred_again(struct gy_deferred *deferred, uint32_t stream, struct gy_deferred_span *span,
                       const void *pointer);

/* GD: a block that waits for `stream` and is not in `spared`, for use on that stream; false when none fits.
 */
bool gy_deferred_take(struct gy_deferred *deferred, uint32_t stream, const struct gy_deferred_span *spared,
                      gantry_memory_kind kind, size_t bytes, size_t alignment, const gantry_alloc_site *site,
                      void **out);

/* GD: true when the completion thread must be made to look out for `stream`, whose tail is `tail`; it counts
 * as told then.
 * `*all_seen` becomes false when a block waits for a timeline point behind the tail, as that of a task that
 * is called again: ask again later. */
bool gy_deferred_watch(struct gy_deferred *deferred, uint32_t stream, uint64_t tail, bool *all_seen);

/* Free what `stream` has passed, or all of its blocks when the context is lost; true when there were any. Any
 * thread. */
bool gy_deferred_collect(struct gy_deferred *deferred, uint32_t stream, bool lost);

/* What a thread that needs memory may wait for.  The completion thread: nothing, it might be itself.  GD:
 * blocks whose event is recorded.  Others: all blocks, since GD records the missing events when its batch
 * ends. */
enum gy_deferred_wait { GY_DEFERRED_NOTHING, GY_DEFERRED_WATCHED, GY_DEFERRED_ALL };

/* gy_deferred_collect() for all streams; if there is nothing, wait for the next block to be freed, as far as
 * `wait` says.  True when any block was freed since the call. */
bool gy_deferred_collect_or_wait(struct gy_deferred *deferred, enum gy_deferred_wait wait);

#endif
