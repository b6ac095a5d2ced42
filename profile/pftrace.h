/* SPDX-License-Identifier: MIT */
/* A Perfetto trace file, written as it grows.
 *
 * Threading: one thread at a time.  Only gy_pftrace_flush() and a full chunk write to the file. */
#ifndef PROFILE_PFTRACE_H
#define PROFILE_PFTRACE_H

#include "base/span.h"
#include "base/status.h"
#include "profile/outlet.h"

#define GY_PFTRACE_GPU (GY_SPAN_APPLICATION + 1) /* the category behind those of enum gy_span_category */
#define GY_PFTRACE_KERNEL (GY_PFTRACE_GPU + 1)
#define GY_PFTRACE_CTAS (GY_PFTRACE_GPU + 2)  /* a buffer of block records, with the facts on its clock */
#define GY_PFTRACE_RANGE (GY_PFTRACE_GPU + 3) /* the activity of a group of a block's threads */
#define GY_PFTRACE_BATCH (GY_PFTRACE_GPU + 4) /* a batch in GPU time */
#define GY_PFTRACE_CATEGORIES (GY_PFTRACE_GPU + 5)
#define GY_PFTRACE_NAME_BYTES 128 /* of a slice or a track, with the final NUL; longer names are cut */

struct gy_pftrace;

/* A track of the trace.  0 stands for none. */
typedef uint64_t gy_pftrace_track;

/* Create the file; an existing one is emptied.  With `compress`, packets are deflated, if the library was
 * built with zlib.  `chunks` (at least 3), of GY_CHUNK_BYTES each, bound its memory.
 * @retval GANTRY_ERR_IO, GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_pftrace_open(const char *path, bool compress, uint32_t chunks,
                                                struct gy_pftrace **out);

/* Other threads bring packets of sequences of their own here.  A ticket taken after a gy_pftrace_flush()
 * stands for the place behind everything that was added before, and ahead of everything that is added later.
 */
struct gy_outlet *gy_pftrace_outlet(struct gy_pftrace *trace);
/* Reserve numbers for tracks and sequences that others declare; returns the first of `count`. */
gy_pftrace_track gy_pftrace_reserve_tracks(struct gy_pftrace *trace, uint32_t count);
uint32_t gy_pftrace_reserve_sequences(struct gy_pftrace *trace, uint32_t count);

/* Get room for `bytes` of packets at the place of what is added next; then say how far it was used. */
uint8_t *gy_pftrace_room(struct gy_pftrace *trace, size_t bytes);
void gy_pftrace_used(struct gy_pftrace *trace, const uint8_t *end);

gy_pftrace_track gy_pftrace_process_track(const struct gy_pftrace *trace);
gy_pftrace_track gy_pftrace_add_thread(struct gy_pftrace *trace, int32_t tid, const char *name);
/* Tracks of one parent and one name are shown as one, with as many lines as they need; `rank` orders the
 * children of a parent. */
gy_pftrace_track gy_pftrace_add_track(struct gy_pftrace *trace, gy_pftrace_track parent, const char *name,
                                      uint32_t rank);
gy_pftrace_track gy_pftrace_add_counter_track(struct gy_pftrace *trace, gy_pftrace_track parent,
                                              const char *name);

/* The arguments of slices. */
enum gy_pftrace_argument {
    GY_ARGUMENT_ID,
    GY_ARGUMENT_STREAM,
    GY_ARGUMENT_CTAS,
    GY_ARGUMENT_LOST,
    GY_ARGUMENT_ALIGNMENT_NS,    /* bound on the error of these times against the host's */
    GY_ARGUMENT_SM_ALIGNMENT_NS, /* bound on the error of the SMs' clocks against each other */
    GY_ARGUMENT_TICK_NS,         /* the step of the clock that measured them */
    GY_ARGUMENT_SHIFT_NS,        /* how far they were moved, so that no effect comes before its cause */
    GY_ARGUMENT_BLOCK,
    GY_ARGUMENT_BATCH,
    GY_ARGUMENT_CTAS_LOST,
    GY_ARGUMENT_RANGES_LOST,
    GY_ARGUMENT_UNFINISHED,
    GY_ARGUMENT_COPIES,
    GY_ARGUMENT_BYTES_TO_DEVICE,
    GY_ARGUMENT_BYTES_TO_HOST,
    GY_ARGUMENT_BYTES_ON_DEVICE,
    GY_ARGUMENT_CTAS_TAKEN,
    GY_ARGUMENT_TASKS, /* of a batch in GPU time */
    GY_ARGUMENT_SM,
    GY_ARGUMENTS
};
#define GY_PFTRACE_SLICE_ARGUMENTS 10

#define GY_PFTRACE_FLOWS 32 /* the most flows of a slice; more are left out */

struct gy_pftrace_slice {
    gy_pftrace_track track;
    unsigned category;
    bool instant; /* a mark at begin_ns, without an extent */
    const char *name;
    uint64_t begin_ns, end_ns;
    uint32_t flow_count;
    const uint64_t *flows; /* slices with the same number are joined by arrows, in order of time */
    uint32_t argument_count;
    struct {
        enum gy_pftrace_argument name;
        uint64_t value;
    } arguments[GY_PFTRACE_SLICE_ARGUMENTS];
};

/* Add a slice, in host time; profile/track_row.h says which slices may share a track. */
void gy_pftrace_add_slice(struct gy_pftrace *trace, const struct gy_pftrace_slice *slice);
void gy_pftrace_add_count(struct gy_pftrace *trace, gy_pftrace_track counter, uint64_t time_ns,
                          uint64_t value);

/* Work of a GPU's stream: an event of the hardware queue `stream` of GPU number `gpu`.  Events of one queue
 * may overlap. */
struct gy_pftrace_stage {
    uint32_t gpu; /* at least 1 */
    const char *gpu_name;
    const char *partition; /* "": none; always the same for a stream */
    uint32_t stream;       /* below GY_PFTRACE_STREAMS */
    const char *name;
    uint64_t begin_ns, end_ns;
    uint64_t id;
    uint64_t after;   /* bit n: it waited for work of the device with ordinal n */
    uint32_t manager; /* of the manager whose share it is charged to, see shares.c; 0: none */
};
#define GY_PFTRACE_GPUS 64
#define GY_PFTRACE_STREAMS 64
void gy_pftrace_add_stage(struct gy_pftrace *trace, const struct gy_pftrace_stage *stage);

/* Write the buffered packets.  The first failure is logged and kept, and nothing is written after it. */
void gy_pftrace_flush(struct gy_pftrace *trace);
/* Flush, close the file and free.  `bytes` (may be NULL) gets the size of the file, on success.
 * @retval GANTRY_ERR_IO  now or at an earlier write */
gantry_status gy_pftrace_close(struct gy_pftrace *trace, uint64_t *bytes);

#endif
