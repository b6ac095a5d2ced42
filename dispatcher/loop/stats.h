/* Statistics of batches. */
#ifndef DISPATCHER_LOOP_STATS_H
#define DISPATCHER_LOOP_STATS_H

#include <gantry/dispatcher.h>

/* The counters that a batch's statistics are differences of. */
void gy_gd_read_batch(struct gantry_dispatcher *d, gantry_batch_stats *now);
/* A batch that began with the counters `before` has ended: publish its statistics, which come out. */
void gy_gd_end_batch(struct gantry_dispatcher *d, const gantry_batch_stats *before, gantry_batch_stats *now);

#endif
