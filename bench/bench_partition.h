/* SPDX-License-Identifier: MIT */
/* The parts of `gantry bench partition`. */
#ifndef BENCH_BENCH_PARTITION_H
#define BENCH_BENCH_PARTITION_H

#include "bench/critical_scene.h"
#include "bench/harness.h"

/* Print one line: the fastest time and the median in ns, beside those of a yardstick (NULL: there is
 * none). */
struct bench_pair {
    double least, median;
};
void bench_partition_line(const struct bench_options *options, const char *name, const char *item,
                          struct bench_pair ours, const char *yardstick, struct bench_pair theirs);

/* Measure what green contexts, their streams and launches on those cost. */
bool bench_partition_costs(const struct bench_options *options);

#endif
