/* SPDX-License-Identifier: MIT */
/* Memory that one launch uses at a time: page-locked memory for batches that do not fit in kernel parameters,
 * or device memory for the notes of the kernels of a list.  Dispatcher thread only. */
#ifndef COPYKERNEL_RING_H
#define COPYKERNEL_RING_H

#include "heap/heap.h"

enum {
    GY_COPY_RING_CLASSES = 32,
    GY_COPY_RING_COUNTERS = 4096, /* chunks beyond this many divide their units without counters */
};

/* A piece of memory, used by one launch at a time. */
struct gy_copy_chunk {
    struct gy_copy_chunk
        *next; /* link of its class's `free` or `busy` list, of `stuck` or of `captured`, which belong to the
                  ring; or of the chunks of a graph that is kept (copier.h) */
    struct gy_copy_ring *ring; /* immutable */
    bool is_stuck;             /* dispatcher thread only: no event follows its last launch */
    unsigned size_class;       /* immutable */
    uint64_t *host;            /* immutable; of device memory: only the heap uses it */
    CUdeviceptr device;        /* immutable; the same memory as the device sees it */
    CUevent event;             /* immutable handle; recorded after the launch that reads the chunk */
    CUdeviceptr counters;      /* immutable; this chunk's, zero between launches; 0: none */
};

struct gy_copy_chunks {
    struct gy_copy_chunk *first, *last; /* dispatcher thread only */
};

struct gy_copy_ring {
    struct gy_context *context; /* immutable */
    gantry_heap *heap;          /* immutable */
    gantry_memory_kind kind;    /* immutable: PINNED or DEVICE */
    size_t counter_bytes;       /* immutable: of the counters of one chunk */
    /* By size class; dispatcher thread only: */
    struct gy_copy_chunk *free[GY_COPY_RING_CLASSES]; /* no launch reads them */
    struct gy_copy_chunks busy[GY_COPY_RING_CLASSES]; /* their events are recorded; the oldest comes first */
    struct gy_copy_chunk *stuck;                      /* launched, but the event could not be recorded */
    struct gy_copy_chunk *captured;                   /* read by a graph that was not launched yet */
    CUdeviceptr counters;                             /* GY_COPY_RING_COUNTERS of them; immutable */
    uint32_t counters_given;
};

/* The lists of a size class hold chunks of that size, and the busy list has an end if it has a beginning. */
bool gy_copy_ring_class_is_valid(const struct gy_copy_ring *ring, unsigned size_class);

/* Statuses as gy_copy_ring_take(). */
GANTRY_MUST_CHECK gantry_status gy_copy_ring_init(struct gy_copy_ring *ring, struct gy_context *context,
                                                  gantry_heap *heap, gantry_memory_kind kind,
                                                  size_t counter_bytes);
/* End the ring; the GPU has passed all launches. */
void gy_copy_ring_fini(struct gy_copy_ring *ring);

/* Take a chunk of at least `bytes` that nothing reads: one whose launch the GPU has passed, or a new one.
 * This never waits.  Give it to gy_copy_ring_launched() or gy_copy_ring_give_back().
 * @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER,
 *         GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_copy_ring_take(struct gy_copy_ring *ring, size_t bytes,
                                                  struct gy_copy_chunk **out);
/* A launch that reads the chunk was enqueued on `stream`.  If the event cannot be recorded, the chunk is
 * never used again. */
GANTRY_MUST_CHECK gantry_status gy_copy_ring_launched(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk,
                                                      CUstream stream);
/* A launch that reads the chunk was captured into a graph. */
void gy_copy_ring_captured(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk);
/* The graph with all the captured chunks was launched on `stream`: the chunks are used again after it. */
GANTRY_MUST_CHECK gantry_status gy_copy_ring_graph_launched(struct gy_copy_ring *ring, CUstream stream);
/* The graph was launched, but may be launched again: the chunks are added to *kept instead. */
GANTRY_MUST_CHECK gantry_status gy_copy_ring_graph_kept(struct gy_copy_ring *ring, CUstream stream,
                                                        struct gy_copy_chunk **kept);
/* A graph that uses the chunk was launched again.  After a failure the chunk is never used for others. */
gantry_status gy_copy_ring_relaunched(struct gy_copy_chunk *chunk, CUstream stream);
/* No graph that will be launched uses the chunk any more. */
void gy_copy_ring_returned(struct gy_copy_chunk *chunk);
/* The graph will never be launched. */
void gy_copy_ring_graph_dropped(struct gy_copy_ring *ring);
/* Nothing was launched with the chunk. */
void gy_copy_ring_give_back(struct gy_copy_ring *ring, struct gy_copy_chunk *chunk);

#endif
