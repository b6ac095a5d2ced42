/* SPDX-License-Identifier: MIT */
/* A recording of Gantry's, read back for `gantry report`. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACE_TRACK,  /* slices or marks of any kind */
    TRACE_THREAD, /* of the host */
    TRACE_COUNTER,
    TRACE_QUEUE, /* GPU tasks of a stream; where they overlap, on several tracks of one name and one parent */
    TRACE_BLOCKS, /* blocks on an SM; likewise */
};

struct trace_track {
    const char *name; /* never NULL */
    uint32_t parent;  /* index into tracks; 0: none */
    int32_t rank;
    enum trace_kind kind;
};

enum trace_argument {
    TRACE_ID,
    TRACE_STREAM,
    TRACE_CTAS,
    TRACE_LOST,
    TRACE_ALIGNMENT,
    TRACE_SM_ALIGNMENT,
    TRACE_TICK,
    TRACE_SHIFT,
    TRACE_BLOCK,
    TRACE_BATCH,
    TRACE_CTAS_LOST,
    TRACE_RANGES_LOST,
    TRACE_COPIES,
    TRACE_BYTES_TO_DEVICE,
    TRACE_BYTES_TO_HOST,
    TRACE_BYTES_ON_DEVICE,
    TRACE_TASKS,
    TRACE_AFTER, /* of a GPU task: bit n: it waited for work of the device with ordinal n */
    TRACE_GPU_UNFINISHED,
    TRACE_CTAS_TAKEN,
    TRACE_SM,
    TRACE_MANAGER, /* of a GPU task: the number of the manager whose share it is charged to */
    TRACE_ARGUMENTS
};

/* What a slice of the first sequence has besides. */
struct trace_details {
    uint32_t first_flow, flow_count; /* of the trace's flows */
    uint64_t arguments[TRACE_ARGUMENTS];
    uint32_t present; /* bit a: arguments[a] was there */
};

struct trace_slice {
    uint64_t begin_ns, end_ns;
    uint32_t track;    /* index */
    uint32_t name;     /* index into names */
    uint32_t details;  /* index; 0: none */
    uint32_t category; /* index into names; 0: none */
};

struct trace_count {
    uint64_t time_ns, value;
    uint32_t track;
};

struct trace {
    struct trace_track *tracks; /* 0 is unused */
    size_t track_count;
    struct trace_slice *slices; /* all but blocks, in the order of the file */
    size_t slice_count;
    uint64_t block_count;
    struct trace_slice *marks; /* without extent */
    size_t mark_count;
    struct trace_details *details; /* 0 is unused */
    size_t detail_count;
    uint64_t *flows;
    size_t flow_count;
    struct trace_count *counts;
    size_t count_count;
    const char **names; /* 0 is "" */
    size_t name_count;
    bool is_complete;            /* the recording was ended, and all of it is here */
    uint64_t cut_bytes;          /* at the end of the file, of a packet that is not whole */
    uint64_t unread_bytes;       /* at the end of the file: Ctrl-C came before they were read */
    struct trace_reader *reader; /* the reader's own */
};

/* Told of each block while a trace is loaded: there may be too many to keep.  `number` is its place in the
 * grid, UINT64_MAX when the recording does not say. */
typedef void (*trace_block_fn)(void *user, const struct trace *trace, const struct trace_slice *block,
                               uint64_t number);

/* Read a .pftrace file that Gantry wrote.  `block` may be NULL.  A recording that was not ended, because its
 * program was killed or runs yet, is read as far as it goes, after a line on stderr that says so.  False
 * after a line on stderr; trace needs no free then. */
bool cli_trace_load(const char *path, trace_block_fn block, void *user, struct trace *out);
void cli_trace_free(struct trace *trace);

/* Does the slice have this category? */
bool cli_trace_is(const struct trace *trace, const struct trace_slice *slice, const char *category);
/* An argument, or `otherwise`. */
uint64_t cli_trace_argument(const struct trace *trace, const struct trace_slice *slice,
                            enum trace_argument argument, uint64_t otherwise);

#endif
