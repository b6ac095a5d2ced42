/* The other parts of `gantry bench tasks`. */
#ifndef BENCH_BENCH_TASK_SHAPES_H
#define BENCH_BENCH_TASK_SHAPES_H

#include "bench/harness.h"

bool bench_task_scale(const struct bench_options *options);
bool bench_task_shapes(const struct bench_options *options);

#endif
