/* SPDX-License-Identifier: MIT */
/* A recording: see session.c. */
#ifndef PROFILE_RECORDING_H
#define PROFILE_RECORDING_H

#include "base/span.h"
#include "base/thread.h"
#include "profile/cta_tracks.h"
#include "profile/pftrace.h"
#include "profile/ring.h"
#include "profile/session.h"
#include "profile/tracks.h"

#include <stdatomic.h>

/* The steps that are recorded. */
struct window {
    uint64_t first; /* immutable */
    uint64_t count; /* immutable; 0: no window */
    uint64_t begun; /* guarded by window_lock: steps begun so far */
};

/* The GPUs of a recording, by number, under its lock. */
struct named_gpus {
    uint32_t count;
    const void *owners[GY_TRACKS_GPUS];              /* NULL: nobody asks again */
    char names[GY_TRACKS_GPUS][GY_RING_TRACK_BYTES]; /* guarded until its number is given out */
    atomic_uint_fast64_t named[GY_TRACKS_GPUS];      /* atomic: bit s: stream s has its partition's name */
    char partitions[GY_TRACKS_GPUS][GY_PFTRACE_STREAMS]
                   [GY_CTA_PARTITION_BYTES]; /* guarded until its bit is set */
};

/* What threads that record note, for the end of the trace. */
struct noted {
    atomic_uint_fast64_t lost;                       /* spans that never got to a ring */
    atomic_uint_fast64_t alignment;                  /* the greatest bound noted */
    atomic_uint_fast64_t alignments[GY_TRACKS_GPUS]; /* likewise, of each GPU */
    atomic_uint_fast64_t ctas_lost;                  /* blocks that never got to the writer */
};

/* What the writer thread writes to. */
struct output {
    struct gy_pftrace *trace;
    struct gy_tracks *tracks;
    struct gy_cta_tracks *cta_tracks;
    uint64_t written; /* spans in the trace */
    uint64_t dropped; /* spans that were lost since there was no memory for their track */
};

struct gantry_profile {
    struct gy_span_sink sink;    /* immutable */
    uint64_t generation;         /* immutable */
    uint32_t spans;              /* immutable: slots of a ring */
    struct gy_cta_limits limits; /* immutable */
    struct window window;        /* see there */

    gy_mutex lock;                             /* rank PROFILE */
    gy_cond work;                              /* signalled when `wanted` or `stopping` is set */
    struct gy_ring *rings;                     /* guarded by lock; only grows */
    uint32_t ring_count;                       /* guarded by lock */
    struct named_gpus gpus;                    /* guarded by lock, but for what says otherwise */
    struct gy_cta_batch *batches, *last_batch; /* guarded by lock: for the writer, in order */
    bool stopping;                             /* guarded by lock; never goes back to false */
    atomic_bool wanted;                        /* set under lock, read without: a ring is half full */

    struct noted noted;  /* atomic */
    uint64_t unfinished; /* start and stop only: see gpu_unfinished */
    unsigned forks;      /* immutable: in which process its threads are */
    gy_thread writer;    /* start and stop only */

    struct output output; /* the writer thread alone, while it runs */
};

/* The writer thread; `arg` is the recording.  It returns when that ends. */
void gy_profile_write(void *arg);

#endif
