/* SPDX-License-Identifier: MIT */
/* Marks of GPU time: pairs of timed events around a task's work, and the queues in which the GPU passes them.
 *
 * Its events may be exchanged with those of another one until the graph of their nodes is launched
 * (work/lent_event.h).
 *
 * A mark is free, open (held by the dispatcher between begin and end), in a capture that is not launched yet,
 * or queued: each stream has a queue in the order of the end records, which the collecting thread empties
 * from the front.  Marks are made in chunks, so that begin and end never allocate. */
#ifndef PROFILE_GPU_MARKS_H
#define PROFILE_GPU_MARKS_H

#include "driver/context.h"
#include "profile/gpu_batch.h"
#include "profile/ring.h"
#include "work/lent_event.h"

#define GY_GPU_MARK_STREAMS 64u

struct gy_gpu_mark {
    struct gy_lent_event *begin, *end; /* changed under lock; the holder of the mark may touch them */
    struct gy_lent_event events[2];    /* of this mark or another one */
    struct gy_gpu_mark *next;          /* link of the free list or a queue; lock */
    struct gy_gpu_batch *batch;        /* that it holds while it is in use; NULL: none */
    uint64_t generation; /* of the recording; gy_gpu_marks_take() writes it, and its holder reads it */
    bool counted;        /* guarded by lock: it is one of marks->used */
    bool rests; /* guarded by lock, and written by its holder: open, and its task's next call is held back */
    /* The other fields belong to the holder of the mark. */
    uint64_t begun, ended; /* the numbers of its two records among all records, on any stream */
    uint64_t id;
    uint64_t after;       /* see gy_gpu_time_describe() */
    uint64_t end_call_ns; /* host time before the end was recorded */
    uint32_t stream;
    uint32_t manager;      /* see struct gy_gpu_slice */
    bool is_void;          /* its task was not called: no slice comes of it */
    const char *partition; /* NULL: none */
    char name[GY_RING_NAME_BYTES];
};

struct gy_gpu_mark_queue {
    struct gy_gpu_mark *first, *last; /* guarded by lock */
    /* The collecting thread alone; of the latest slice: */
    uint64_t generation;
    uint64_t ended; /* the number of its end record */
    uint64_t end_ns;
};

struct gy_gpu_marks {
    struct gy_context *context;            /* immutable */
    gy_mutex lock;                         /* rank LEAF */
    struct gy_gpu_mark *free;              /* guarded by lock */
    uint32_t free_count;                   /* guarded by lock */
    uint32_t made;                         /* guarded by lock: marks in all chunks */
    struct gy_gpu_mark_chunk *made_chunks; /* guarded by lock */
    uint64_t busy;                         /* guarded by lock: bit s is set while queues[s] is not empty */
    uint64_t generation; /* guarded by lock: the recording that the latest mark was taken for */
    uint64_t closed;     /* guarded by lock: the recording whose marks are all accounted for */
    uint32_t used;       /* guarded by lock: marks of `generation` of which a slice will come */
    uint32_t resting;    /* guarded by lock: of these, those that rest */
    atomic_uint queued;  /* atomic: marks in queues; changed under lock */
    struct gy_gpu_mark_queue queues[GY_GPU_MARK_STREAMS]; /* see there */
};

void gy_gpu_marks_init(struct gy_gpu_marks *marks, struct gy_context *context);
/* The context is current, and no thread uses the marks any more: destroy their events. */
void gy_gpu_marks_destroy_events(struct gy_gpu_marks *marks);
/* Free everything; the events are destroyed, or their context is. */
void gy_gpu_marks_fini(struct gy_gpu_marks *marks);

/* Make the first marks, if there are none yet. */
void gy_gpu_marks_make_first(struct gy_gpu_marks *marks);
/* Make more until `wanted`, and some to spare, are free; there is a limit. */
void gy_gpu_marks_provide(struct gy_gpu_marks *marks, uint64_t wanted);

/* Take a free mark for the recording; NULL: there is none. */
struct gy_gpu_mark *gy_gpu_marks_take(struct gy_gpu_marks *marks, uint64_t generation);
/* No slice will come of the mark, and none is lost. */
void gy_gpu_marks_make_void(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark);
/* Give the mark back; with `lost`, its slice is counted as lost, unless gy_gpu_marks_close() has counted it.
 */
void gy_gpu_marks_put(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark, bool lost);

/* Put the mark, whose end has been launched, at the end of its stream's queue. */
void gy_gpu_marks_enqueue(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark);
/* The first of a stream's queue; NULL: it is empty. */
struct gy_gpu_mark *gy_gpu_marks_front(struct gy_gpu_marks *marks, uint32_t stream);
/* Take the first mark out of the queue; the caller disposes of it. */
void gy_gpu_marks_dequeue(struct gy_gpu_marks *marks, uint32_t stream);
/* The streams whose queues are not empty, as bits. */
uint64_t gy_gpu_marks_busy(struct gy_gpu_marks *marks);

/* The next call of the mark's task is held back for a time that nobody knows, or is not any longer. */
void gy_gpu_marks_rest(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark, bool rests);
/* The marks of the recording of which a slice will come, but for those that rest. */
uint32_t gy_gpu_marks_awaited(struct gy_gpu_marks *marks, uint64_t generation);
/* Nobody waits for marks of the recording any longer: the caller counts those that are left, whose number is
 * returned, as lost; those that rest are among them. */
uint32_t gy_gpu_marks_close(struct gy_gpu_marks *marks, uint64_t generation);
bool gy_gpu_marks_are_closed(struct gy_gpu_marks *marks, uint64_t generation);

#ifdef GANTRY_TESTING
/* Later recordings begin with this many marks, which have a pair of events each. */
void gy_gpu_marks_set_first(uint32_t first);
#endif

#endif
