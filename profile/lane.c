/* A slice arrives when it has ended, hence after everything inside it.  It fits if every slice of the lane
 * ends before it begins, or begins after it begins and ends before it ends.  Only the outermost slices need
 * to be looked at: what is inside of one is inside or outside with it.  Those that the new slice encloses
 * are replaced by it, so the list stays short where slices nest, and each is looked at once.
 *
 * A slice that begins together with one it encloses does not fit: the inner one's begin is already in the
 * file, and would open first.
 *
 * Where nothing ever encloses (the tasks of a worker) the list is cut to half at its limit, and the lane
 * refuses what begins before the cut. */
#include "profile/lane.h"

#include "base/alloc.h"

#include <string.h>

#define FIRST_ROOM 64
#define ROOM_LIMIT 65536

static bool make_room(struct gy_lane *lane)
{
    if (lane->count < lane->room) {
        return true;
    }
    if (lane->room == ROOM_LIMIT) {
        size_t kept = ROOM_LIMIT / 2;
        size_t dropped = lane->count - kept;
        lane->floor = lane->outer[dropped - 1].end;
        memmove(lane->outer, lane->outer + dropped, kept * sizeof(*lane->outer));
        lane->count = kept;
        return true;
    }
    size_t room = lane->room == 0 ? FIRST_ROOM : lane->room * 2;
    struct gy_interval *outer = gy_zalloc_array(room, sizeof(*outer));
    if (outer == NULL) {
        return false;
    }
    if (lane->count != 0) {
        memcpy(outer, lane->outer, lane->count * sizeof(*outer));
    }
    gy_free(lane->outer);
    lane->outer = outer;
    lane->room = room;
    return true;
}

bool gy_lane_take(struct gy_lane *lane, uint64_t begin, uint64_t end)
{
    if (begin < lane->floor) {
        return false;
    }
    size_t keep = lane->count;
    while (keep > 0 && lane->outer[keep - 1].begin > begin && lane->outer[keep - 1].end <= end) {
        keep--;
    }
    if (keep > 0 && lane->outer[keep - 1].end > begin) {
        return false;
    }
    if (keep == lane->count && !make_room(lane)) {
        return false;
    }
    lane->count = keep < lane->count ? keep : lane->count;
    lane->outer[lane->count++] = (struct gy_interval){begin, end};
    return true;
}

void gy_lane_fini(struct gy_lane *lane)
{
    gy_free(lane->outer);
    *lane = (struct gy_lane){0};
}
