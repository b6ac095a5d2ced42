/* SPDX-License-Identifier: MIT */
/* Part of `gantry bench latency`: how late a completion is published, and what its threads burn meanwhile. */
#ifndef BENCH_BENCH_PUBLISH_H
#define BENCH_BENCH_PUBLISH_H

#include "bench/harness.h"

#include <stdbool.h>

/* The rows publish, publish-p99 and publish-cpu, each alone and beside older work, by wait mode. */
bool bench_publish(const struct bench_options *options);

#endif
