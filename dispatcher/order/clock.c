/* SPDX-License-Identifier: MIT */
/* Vector clocks: a timeline point per stream. */
#include "dispatcher/order/wait_set.h"

void gy_clock_clear(struct gy_clock *clock)
{
    clock->streams = 0;
    clock->home = GY_STREAMS_MAX;
}

void gy_clock_add(struct gy_clock *clock, uint32_t stream, uint64_t seq)
{
    uint64_t bit = UINT64_C(1) << stream;
    if (clock->streams == 0) {
        clock->home = stream;
    }
    if ((clock->streams & bit) == 0 || clock->seq[stream] < seq) {
        clock->seq[stream] = seq;
    }
    clock->streams |= bit;
}

void gy_clock_add_clock(struct gy_clock *clock, const struct gy_clock *from)
{
    if (clock->streams == 0) {
        clock->home = from->home;
    }
    uint32_t home = clock->home;
    for (uint64_t left = from->streams; left != 0; left &= left - 1) {
        uint32_t s = (uint32_t)__builtin_ctzll(left);
        gy_clock_add(clock, s, from->seq[s]);
    }
    clock->home = home;
}

bool gy_clock_is_valid(const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        if (clock->seq[__builtin_ctzll(left)] == 0) {
            return false; /* the first task that finishes is number 1 */
        }
    }
    return clock->streams == 0 || clock->home < GY_STREAMS_MAX;
}
