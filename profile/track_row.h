/* SPDX-License-Identifier: MIT */
/* Which slices may share one track of a trace.
 *
 * A trace viewer rebuilds slices from begin and end marks sorted by time, each end closing the innermost
 * open slice.  Slices of one row must therefore be disjoint or properly nested, also where their times are
 * equal and only the order in the file decides; anything else shows wrong durations without an error. */
#ifndef PROFILE_TRACK_ROW_H
#define PROFILE_TRACK_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gy_interval {
    uint64_t begin, end;
};

/* One row: the outermost slices written to it, disjoint and in order of time. */
struct gy_track_row {
    struct gy_interval *outer;
    size_t count, room;
    uint64_t floor; /* nothing may begin before this time, since earlier slices are forgotten */
};

/* Take [begin, end], begin <= end, into the row as the next slice of the file.  False when it does not fit
 * there or memory ran out: the row is unchanged. */
bool gy_track_row_take(struct gy_track_row *row, uint64_t begin, uint64_t end);
void gy_track_row_fini(struct gy_track_row *row);

#endif
