/* The parts of `gantry bench partition`. */
#ifndef BENCH_BENCH_PARTITION_H
#define BENCH_BENCH_PARTITION_H

#include "bench/critical_scene.h"
#include "bench/harness.h"

/* One line: fastest and median in ns, beside a yardstick's (NULL: there is none). */
struct bench_pair {
    double least, median;
};
void bench_partition_line(const struct bench_options *options, const char *name, const char *item,
                          struct bench_pair ours, const char *yardstick, struct bench_pair theirs);

/* What green contexts, their streams and launches on those take. */
bool bench_partition_costs(const struct bench_options *options);

#endif
