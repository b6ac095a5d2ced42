/* SPDX-License-Identifier: MIT */
/* Statistics of batches, and what they count. */
#ifndef DISPATCHER_LOOP_STATS_H
#define DISPATCHER_LOOP_STATS_H

#include "copykernel/copier.h"

#include <gantry/dispatcher.h>

/* What a call of a callback may enqueue.  It is put back where the call is made again, and counted once more
 * where what was recorded is launched. */
enum gd_work {
    GD_KERNELS,
    GD_COPIES,
    GD_BATCHED_COPIES,
    GD_PEER_COPIES,
    GD_BETWEEN, /* copies between devices, and their bytes, by enum gy_copy_by */
    GD_BETWEEN_BYTES = GD_BETWEEN + GY_COPY_WAYS,
    GD_WORKS = GD_BETWEEN_BYTES + GY_COPY_WAYS
};

/* The counters that a batch's statistics are differences of. */
void gy_gd_read_batch(struct gantry_dispatcher *d, gantry_batch_stats *now);
/* A batch that began with the counters `before` has ended: publish its statistics, which come out. */
void gy_gd_end_batch(struct gantry_dispatcher *d, const gantry_batch_stats *before, gantry_batch_stats *now);

#endif
