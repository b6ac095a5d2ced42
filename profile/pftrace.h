/* A Perfetto trace file, written as it grows.
 *
 * Threading: one thread at a time.  Only gy_pftrace_flush() and a full buffer write to the file. */
#ifndef PROFILE_PFTRACE_H
#define PROFILE_PFTRACE_H

#include "base/span.h"
#include "base/status.h"

#define GY_PFTRACE_GPU (GY_SPAN_MEMORY + 1) /* category behind those of enum gy_span_category */
#define GY_PFTRACE_KERNEL (GY_PFTRACE_GPU + 1)
#define GY_PFTRACE_CTAS (GY_PFTRACE_GPU + 2) /* a buffer of block records, and what is known of its clock */
#define GY_PFTRACE_CATEGORIES (GY_PFTRACE_GPU + 3)
#define GY_PFTRACE_NAME_BYTES 128 /* of a slice or a track, with the final NUL; longer names are cut */

struct gy_pftrace;

/* A track of the trace.  0 stands for none. */
typedef uint64_t gy_pftrace_track;

/* Create the file; an existing one is emptied.  With `compress`, what is written is deflated, if the library
 * was built with zlib.
 * @retval GANTRY_ERR_IO, GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_pftrace_open(const char *path, bool compress, struct gy_pftrace **out);

gy_pftrace_track gy_pftrace_process_track(const struct gy_pftrace *trace);
gy_pftrace_track gy_pftrace_add_thread(struct gy_pftrace *trace, int32_t tid, const char *name);
/* Tracks of one parent and one name are shown as one, with as many lines as they need; `rank` orders the
 * children of a parent. */
gy_pftrace_track gy_pftrace_add_track(struct gy_pftrace *trace, gy_pftrace_track parent, const char *name,
                                      uint32_t rank);
gy_pftrace_track gy_pftrace_add_counter_track(struct gy_pftrace *trace, gy_pftrace_track parent,
                                              const char *name);

/* Arguments of slices. */
enum gy_pftrace_argument {
    GY_ARGUMENT_ID,
    GY_ARGUMENT_STREAM,
    GY_ARGUMENT_CTAS,
    GY_ARGUMENT_LOST,
    GY_ARGUMENT_ALIGNMENT_NS,    /* bound on the error of these times against the host's */
    GY_ARGUMENT_SM_ALIGNMENT_NS, /* of the SMs' clocks against each other */
    GY_ARGUMENT_TICK_NS,         /* step of the clock they were taken with */
    GY_ARGUMENT_SHIFT_NS,        /* what they were moved by, so that no effect comes before its cause */
    GY_ARGUMENT_BLOCK,
    GY_ARGUMENT_BATCH,
    GY_ARGUMENT_CTAS_LOST,
    GY_ARGUMENTS
};
#define GY_PFTRACE_SLICE_ARGUMENTS 7

#define GY_PFTRACE_FLOWS 32 /* of a slice; more are left out */

struct gy_pftrace_slice {
    gy_pftrace_track track;
    unsigned category;
    bool instant; /* a mark at begin_ns, without an extent */
    const char *name;
    uint64_t begin_ns, end_ns;
    uint32_t flow_count;
    const uint64_t *flows; /* slices of one number are joined by arrows, in order of time */
    uint32_t argument_count;
    struct {
        enum gy_pftrace_argument name;
        uint64_t value;
    } arguments[GY_PFTRACE_SLICE_ARGUMENTS];
};

/* A slice, host time; what may share a track says profile/lane.h. */
void gy_pftrace_add_slice(struct gy_pftrace *trace, const struct gy_pftrace_slice *slice);
void gy_pftrace_add_count(struct gy_pftrace *trace, gy_pftrace_track counter, uint64_t time_ns,
                          uint64_t value);

/* What a GPU's stream did: an event of the hardware queue `stream` of GPU number `gpu`.  Those of one queue
 * may overlap. */
struct gy_pftrace_stage {
    uint32_t gpu; /* at least 1 */
    const char *gpu_name;
    const char *partition; /* "": none; of each stream always the same */
    uint32_t stream;       /* below GY_PFTRACE_STREAMS */
    const char *name;
    uint64_t begin_ns, end_ns;
    uint64_t id;
};
#define GY_PFTRACE_GPUS 64
#define GY_PFTRACE_STREAMS 64
void gy_pftrace_add_stage(struct gy_pftrace *trace, const struct gy_pftrace_stage *stage);

/* A track of very many slices that follow each other, each packed into some 30 bytes: its packets are a
 * sequence of their own, with a clock that counts from packet to packet. */
struct gy_pftrace_dense {
    gy_pftrace_track track;
    uint32_t sequence;
    uint32_t known[8]; /* set of the numbers declared so far; those above 255 are declared every time */
    uint64_t now_ns;
};
/* `begin_ns`: no slice begins before it. */
void gy_pftrace_open_dense(struct gy_pftrace *trace, gy_pftrace_track parent, const char *name, uint32_t rank,
                           uint64_t begin_ns, struct gy_pftrace_dense *out);
#define GY_PFTRACE_NO_BLOCK UINT64_MAX
/* begin_ns is not before the end of the slice before.  `number` is that of the name: one number, one name. */
void gy_pftrace_add_dense(struct gy_pftrace *trace, struct gy_pftrace_dense *dense, uint32_t number,
                          const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t block);

/* Write what is buffered.  The first failure is logged and kept, and nothing is written after it. */
void gy_pftrace_flush(struct gy_pftrace *trace);
/* Flush, close the file and free.  `bytes` (may be NULL) gets the size of the file, on success.
 * @retval GANTRY_ERR_IO  now or at an earlier write */
gantry_status gy_pftrace_close(struct gy_pftrace *trace, uint64_t *bytes);

#endif
