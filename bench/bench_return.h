/* SPDX-License-Identifier: MIT */
/* Part of `gantry bench latency`: steps after which, and before which, all threads sleep. */
#ifndef BENCH_BENCH_RETURN_H
#define BENCH_BENCH_RETURN_H

#include "bench/harness.h"

#include <stdbool.h>

/* The rows rested and return, see bench_return.c. */
bool bench_return(const struct bench_options *options);

#endif
