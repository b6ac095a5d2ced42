/* SPDX-License-Identifier: MIT */
#include "partition/busy.h"

#include <assert.h>
#include <string.h>

enum { MOST_LOOKED_AT = 32 }; /* so that a check costs the same however many stretches there are */

/* The latest stretches are looked at: those that change. */
bool gy_busy_is_valid(const struct gy_busy *b)
{
    if (b->count > GY_BUSY_STRETCHES) {
        return false;
    }
    for (uint32_t i = b->count > MOST_LOOKED_AT ? b->count - MOST_LOOKED_AT : 0; i < b->count; i++) {
        double before = i > 0 ? b->stretches[i - 1].end : b->floor;
        bool has_before = i > 0 || b->has_floor;
        if (b->stretches[i].begin >= b->stretches[i].end || (has_before && b->stretches[i].begin < before)) {
            return false;
        }
    }
    return true;
}

/* There is no room for one more stretch: forget the oldest, and the time before its end with it. */
static void forget_oldest(struct gy_busy *b)
{
    b->floor = b->stretches[0].end;
    b->has_floor = true;
    b->count--;
    memmove(&b->stretches[0], &b->stretches[1], b->count * sizeof(b->stretches[0]));
}

double gy_busy_add(struct gy_busy *b, double begin, double end)
{
    assert(gy_busy_is_valid(b));
    if (b->count == GY_BUSY_STRETCHES) {
        forget_oldest(b);
    }
    begin = b->has_floor && begin < b->floor ? b->floor : begin;
    if (end <= begin) {
        return 0;
    }
    uint32_t last = b->count,
             first; /* [first, last) are the stretches that touch the new one, and become one with it */
    while (last > 0 && b->stretches[last - 1].begin > end) {
        last--;
    }
    double told = 0;
    struct gy_busy_stretch whole = {begin, end};
    for (first = last; first > 0 && b->stretches[first - 1].end >= begin; first--) {
        const struct gy_busy_stretch *one = &b->stretches[first - 1];
        double from = one->begin > begin ? one->begin : begin, to = one->end < end ? one->end : end;
        told += to - from;
        whole.begin = one->begin < whole.begin ? one->begin : whole.begin;
        whole.end = one->end > whole.end ? one->end : whole.end;
    }
    memmove(&b->stretches[first + 1], &b->stretches[last], (b->count - last) * sizeof(b->stretches[0]));
    b->stretches[first] = whole;
    b->count = b->count - (last - first) + 1;
    assert(gy_busy_is_valid(b));
    return end - begin - told;
}
