/* SPDX-License-Identifier: MIT */
/* Streams beside those of the pool, on which parts of a batch are enqueued: nothing else is on them, so no
 * other work waits for such a part, nor it for other work, but for what it is told to.
 *
 * They are made when they are first needed, and kept.  A stream is taken again when what was enqueued there
 * last has ended.
 *
 * One thread at a time; the context is current. */
#ifndef WORK_SIDE_STREAMS_H
#define WORK_SIDE_STREAMS_H

#include "driver/context.h"

#define GY_SIDE_STREAMS 64u

struct gy_side_stream {
    CUstream native; /* NULL: not made yet */
    CUevent done;    /* behind what was there last; NULL: not made yet */
    bool is_used;    /* something was */
};

struct gy_side_streams {
    struct gy_context *context; /* immutable */
    CUevent begin;              /* behind what the latest fork comes after; NULL: not made yet */
    struct gy_side_stream of[GY_SIDE_STREAMS];
};

void gy_side_streams_init(struct gy_side_streams *streams, struct gy_context *context);
/* The GPU is done with them, or the context is lost. */
void gy_side_streams_fini(struct gy_side_streams *streams);

/* None of the thread's captures must forbid to ask for events and to make streams (gy_relaxed_begin()).
 * The next one from *next on that has no work, which is 0 for the first of a batch; NULL: there is none. */
struct gy_side_stream *gy_side_streams_next(struct gy_side_streams *streams, uint32_t *next);

/* What is enqueued on them from here on comes after what is on `home`. */
GANTRY_MUST_CHECK gantry_status gy_side_streams_fork(struct gy_side_streams *streams, CUstream home,
                                                     struct gy_side_stream *const *sides, uint32_t count);
/* All of the batch's part is on the stream: `home` comes after it from here on. */
GANTRY_MUST_CHECK gantry_status gy_side_stream_join(struct gy_side_streams *streams,
                                                    struct gy_side_stream *side, CUstream home);

#endif
