/* SPDX-License-Identifier: MIT */
/* A trace file as a viewer would see it: protoc decodes it, and slices are rebuilt from begin and end
 * marks. */
#ifndef TESTS_PROFILE_TRACE_READER_H
#define TESTS_PROFILE_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READ_FLOWS = 16 }; /* the most that a slice may have */

struct read_track {
    uint64_t uuid, parent;
    char name[160];
    bool process, thread, counter;
    int rank;
};

struct read_argument {
    char name[24];
    uint64_t value;
};

struct read_slice {
    const struct read_track *track;
    char name[160];
    char category[32]; /* empty on a sequence of its own */
    uint64_t begin, end;
    uint64_t id; /* the argument of that name */
    uint64_t flows[READ_FLOWS];
    size_t flow_count;
    int gpu; /* the number of an event of a queue */
    size_t argument_count;
    struct read_argument arguments[8];
};

struct read_count {
    const struct read_track *track;
    uint64_t time, value;
};

struct read_trace {
    struct read_track *tracks;
    size_t track_count;
    /* in the order of their ends, those of queues first; a queue has a track of its name */
    struct read_slice *slices;
    size_t slice_count;
    struct read_slice *marks; /* instants, by time */
    size_t mark_count;
    struct read_count *counts; /* by time */
    size_t count_count;
    size_t sequences;                   /* besides the first */
    size_t resets;                      /* of the first sequence: packets that clear the incremental state */
    uint64_t monotonic_ns, realtime_ns; /* of the clock snapshot */
    unsigned default_clock, primary_clock;
};

/* Is protoc here?  If not, it prints why. */
bool reader_available(void);

/* Decode and check `path`.  NULL on success, else a static description of the first error: the file is not
 * decodable, a field, track or name is unknown, an end has no begin, a slice is open. */
const char *reader_load(const char *path, struct read_trace *out);
/* An argument of a slice; UINT64_MAX if it has none of that name. */
uint64_t reader_argument(const struct read_slice *slice, const char *name);
/* Do the two slices have a flow in common? */
/* The last mark of that name; NULL: there is none. */
const struct read_slice *reader_mark(const struct read_trace *trace, const char *name);
bool reader_joined(const struct read_slice *a, const struct read_slice *b);
void reader_free(struct read_trace *trace);

/* The track called `name` under a track called `parent` (NULL: any); NULL if there is none. */
const struct read_track *reader_track(const struct read_trace *trace, const char *parent, const char *name);

#endif
