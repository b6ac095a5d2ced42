/* SPDX-License-Identifier: MIT */
/* The tracks of a trace that show ranges inside blocks:
 *
 *   GPU ─┬─ ranges of KERNEL ── group 0, SM 000 ── as many lines as blocks were resident at once
 *        └─ lost ranges      a mark for each launch and group whose room was used up
 *
 * A line shows one block's group at a time, so what is drawn within a range happened within it.
 *
 * Threading: the writer's thread alone. */
#ifndef PROFILE_RANGES_H
#define PROFILE_RANGES_H

#include "profile/cta_batch.h"
#include "profile/pftrace.h"

struct gy_ranges;

/* NULL: out of memory. */
struct gy_ranges *gy_ranges_create(struct gy_pftrace *trace, gy_pftrace_track gpu);
/* Report the losses, and destroy it.  NULL is ignored. */
void gy_ranges_destroy(struct gy_ranges *ranges);

/* Write the ranges of one launch, whose records are in times of the common clock; `clock` and `shift_ns` lead
 * from there to host times. */
void gy_ranges_add(struct gy_ranges *ranges, const struct gy_cta_batch *batch,
                   const struct gy_cta_launch *launch, const struct gy_gpu_clock *clock, int64_t shift_ns);

/* The ranges that are in the trace, and those that are not. */
uint64_t gy_ranges_written(const struct gy_ranges *ranges);
uint64_t gy_ranges_lost(const struct gy_ranges *ranges);

/* The records for ranges of block `block` of a launch; there are launch->ranges of them. */
static inline gantry_range_record *gy_ranges_of_block(const struct gy_cta_batch *batch,
                                                      const struct gy_cta_launch *launch, uint32_t block)
{
    size_t at = launch->first + (size_t)launch->count + (size_t)block * launch->ranges;
    return (gantry_range_record *)(void *)&batch->records[at];
}

#endif
