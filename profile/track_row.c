/* SPDX-License-Identifier: MIT */
/* A slice arrives when it has ended, hence after everything inside it.  It fits if every slice of the row
 * ends before it begins, or begins after it begins and ends before it ends.  Only the outermost slices need
 * to be looked at: a slice inside of one is inside or outside together with it.  Those that the new slice
 * encloses are replaced by it, so the list stays short where slices nest, and each is looked at once.
 *
 * A slice that begins together with one it encloses does not fit: the inner one's begin is already in the
 * file, and would open first.
 *
 * Where no slice ever encloses another (the tasks of a worker), the list is cut to half at its limit, and the
 * row refuses slices that begin before the cut. */
#include "profile/track_row.h"

#include "base/alloc.h"

#include <string.h>

#define FIRST_ROOM 64
#define ROOM_LIMIT 65536

static bool make_room(struct gy_track_row *row)
{
    if (row->count < row->room) {
        return true;
    }
    if (row->room == ROOM_LIMIT) {
        size_t kept = ROOM_LIMIT / 2;
        size_t dropped = row->count - kept;
        row->floor = row->outer[dropped - 1].end;
        memmove(row->outer, row->outer + dropped, kept * sizeof(*row->outer));
        row->count = kept;
        return true;
    }
    size_t room = row->room == 0 ? FIRST_ROOM : row->room * 2;
    struct gy_interval *outer = gy_zalloc_array(room, sizeof(*outer));
    if (outer == NULL) {
        return false;
    }
    if (row->count != 0) {
        memcpy(outer, row->outer, row->count * sizeof(*outer));
    }
    gy_free(row->outer);
    row->outer = outer;
    row->room = room;
    return true;
}

bool gy_track_row_take(struct gy_track_row *row, uint64_t begin, uint64_t end)
{
    if (begin < row->floor) {
        return false;
    }
    size_t keep = row->count;
    while (keep > 0 && row->outer[keep - 1].begin > begin && row->outer[keep - 1].end <= end) {
        keep--;
    }
    if (keep > 0 && row->outer[keep - 1].end > begin) {
        return false;
    }
    if (keep == row->count && !make_room(row)) {
        return false;
    }
    row->count = keep < row->count ? keep : row->count;
    row->outer[row->count++] = (struct gy_interval){begin, end};
    return true;
}

void gy_track_row_fini(struct gy_track_row *row)
{
    gy_free(row->outer);
    *row = (struct gy_track_row){0};
}
