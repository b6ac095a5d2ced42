/* SPDX-License-Identifier: MIT */
/* The offsets of the clocks of a device's SMs against each other: arithmetic, without a device. */
#ifndef PROFILE_SM_CLOCK_H
#define PROFILE_SM_CLOCK_H

#include "profile/sm_anchor.h"

#include <gantry/profile_kernel.h>

#include <stdbool.h>

#define GY_SMS (1u << GANTRY_CTA_SM_BITS)

/* How far an SM's %globaltimer is ahead of the others. */
struct gy_sm_offset {
    uint32_t sm;
    uint32_t samples;
    double ns;
};

/* Compute the offsets from the samples of `compare_sms`, which are in the order of the counter.  Returns how
 * many SMs `out` (room for GY_SMS) has, in their order.  0: the SMs did not take turns, or memory ran out, so
 * nothing can be said. */
uint32_t gy_sm_offsets(const struct gy_sm_sample *samples, uint32_t count, struct gy_sm_offset *out);

/* An offset without its sign, in whole ns. */
uint64_t gy_sm_offset_error(const struct gy_sm_offset *offset);
/* The error that all but one in a hundred SMs stay below; 0 when there are none.  `errors` are sorted. */
uint64_t gy_sm_p99(uint64_t *errors, uint32_t count);

/* The line from an SM's own clock to %globaltimer, for one batch. */
struct gy_sm_line {
    uint64_t clock, timer_ns; /* a point of the line */
    double ns_per_clock;      /* 0: the SM is not known */
    uint64_t error_ns;        /* how far the line may be off within the batch */
};

/* Compute lines through the anchors of a batch's begin and end.  Either may lack SMs.  Where the begin lacks
 * one, `before` (the latest anchor of each SM from earlier batches) is used instead.  An SM with one anchor
 * gets the rate of the others.  `before` is brought up to date. */
void gy_sm_lines(const struct gy_sm_anchor *begin, const struct gy_sm_anchor *end, uint32_t count,
                 struct gy_sm_anchor *before, struct gy_sm_line *out);

uint64_t gy_sm_line_at(const struct gy_sm_line *line, uint64_t clock);

#endif
