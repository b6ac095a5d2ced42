/* SPDX-License-Identifier: MIT */
/* Messages between SMs, for `gantry bench profile`. */
#ifndef BENCH_BENCH_PROFILE_WAYS_H
#define BENCH_BENCH_PROFILE_WAYS_H

#include <gantry/gantry.h>

#include <stdbool.h>

struct bench_ways {
    uint32_t pairs;
    uint64_t messages;
    uint64_t backwards; /* directions in which a message arrived before it was sent, by the clocks */
    int64_t least_ns;   /* the fastest message */
    double median_ns, p99_ns, most_ns; /* how far two clocks lie apart, if ways there and back are alike */
    double bound_p99_ns;               /* how far at most, if they are not */
};

/* Measure on a real device that does nothing else.  False when it could not be measured, with a line on
 * stderr if a call failed. */
bool bench_measure_ways(gantry_context *context, gantry_taskman *manager, gantry_kernel *ping_pong,
                        uint32_t sms, struct bench_ways *out);

#endif
