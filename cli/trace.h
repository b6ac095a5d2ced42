/* A recording of Gantry's, read back for `gantry report`. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_track {
    const char *name; /* never NULL */
    uint32_t parent;  /* index into tracks; 0: none */
    int32_t rank;
    bool is_thread, is_counter;
    bool is_block; /* its slices are blocks on an SM */
};

enum trace_argument {
    TRACE_ID,
    TRACE_STREAM,
    TRACE_CTAS,
    TRACE_LOST,
    TRACE_ALIGNMENT,
    TRACE_TICK,
    TRACE_SHIFT,
    TRACE_BLOCK,
    TRACE_BATCH,
    TRACE_ARGUMENTS
};

/* What a slice of the first sequence has besides; blocks have none, or only their number. */
struct trace_details {
    uint64_t flow; /* 0: none */
    uint64_t arguments[TRACE_ARGUMENTS];
    uint32_t present; /* bit a: arguments[a] was there */
};

struct trace_slice {
    uint64_t begin_ns, end_ns; /* end 0: never closed */
    uint32_t track;            /* index */
    uint32_t name;             /* index into names */
    uint32_t details;          /* index; 0: none */
    uint32_t category;         /* index into names; 0: none */
};

struct trace_count {
    uint64_t time_ns, value;
    uint32_t track;
};

struct trace {
    struct trace_track *tracks; /* by uuid; 0 is unused */
    size_t track_count;
    struct trace_slice *slices;
    size_t slice_count;
    struct trace_details *details; /* 0 is unused */
    size_t detail_count;
    struct trace_count *counts;
    size_t count_count;
    const char **names; /* 0 is "" */
    size_t name_count;
    struct trace_reader *reader; /* the reader's own */
};

/* Read a .pftrace file that Gantry wrote.  False after a line on stderr; trace needs no free then. */
bool cli_trace_load(const char *path, struct trace *out);
void cli_trace_free(struct trace *trace);

/* Does the slice have this category? */
bool cli_trace_is(const struct trace *trace, const struct trace_slice *slice, const char *category);
/* An argument, or `otherwise`. */
uint64_t cli_trace_argument(const struct trace *trace, const struct trace_slice *slice,
                            enum trace_argument argument, uint64_t otherwise);

#endif
