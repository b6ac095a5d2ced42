/* SPDX-License-Identifier: MIT */
/* The other parts of `gantry bench tasks`. */
#ifndef BENCH_BENCH_TASK_SHAPES_H
#define BENCH_BENCH_TASK_SHAPES_H

#include "bench/harness.h"
#include "bench/task_shapes.h"

/* The part of a graph's life that is timed. */
enum task_way {
    WAY_BUILD, /* describe the graph in an empty manager */
    WAY_FIRST, /* run it for the first time */
    WAY_RERUN, /* run the frozen graph again */
    WAY_SPAWN, /* make the tasks in tasks */
    WAY_JOIN,  /* the same for trees, where each task has a continuation that waits for the tasks it makes */
    WAY_MEET,  /* the same as SPAWN, and one task comes after all of them */
    WAY_STEPS, /* run a small frozen graph again and again */
    WAY_APART, /* run it again and again by start and stop */
};

/* Measure one row: a graph of `size` (the number of tasks, the side of a wavefront, or the depth of a tree)
 * with so many workers.  `peer` NULL: there is no yardstick. */
bool bench_task_case(const struct bench_options *options, const char *name, enum task_shape shape,
                     uint32_t size, enum task_way way, uint32_t workers, const struct task_peer *peer);

/* The other libraries; NULL: it was not found. */
#ifdef BENCH_HAS_TBB
#define TBB_GRAPH (&task_peer_tbb_graph)
#define TBB_GROUP (&task_peer_tbb_group)
#else
#define TBB_GRAPH NULL
#define TBB_GROUP NULL
#endif
#ifdef BENCH_HAS_OPENMP
#define OPENMP (&task_peer_openmp)
#else
#define OPENMP NULL
#endif

bool bench_task_curves(const struct bench_options *options);
bool bench_task_data(const struct bench_options *options);
bool bench_task_scale(const struct bench_options *options);
bool bench_task_shapes(const struct bench_options *options);

#endif
