/* SPDX-License-Identifier: MIT */
/* The rows `double-buffer` of `gantry bench overlap`. */
#ifndef BENCH_OVERLAP_BUFFERS_H
#define BENCH_OVERLAP_BUFFERS_H

#include "bench/harness.h"

bool bench_double_buffer(const struct bench_options *options);

#endif
