/* SPDX-License-Identifier: MIT */
/* What fits the SMs of a stream, for gantry_stream_get_occupancy(). */
#ifndef DISPATCHER_CALL_LAUNCH_OPTIONS_H
#define DISPATCHER_CALL_LAUNCH_OPTIONS_H

#include "driver/extra.h"
#include "partition/partitions.h"

#include <gantry/launch.h>

/* Ask what fits a stream, whoever made it; `options` as gantry_partition_get_occupancy().  Statuses are those
 * of the public function. */
GANTRY_MUST_CHECK gantry_status gy_stream_occupancy(struct gy_partitions *partitions, CUstream stream,
                                                    gantry_kernel *kernel, const struct gy_launch_size *size,
                                                    const gantry_launch_options *options,
                                                    gantry_occupancy *out);

#endif
