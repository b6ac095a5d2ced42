/* SPDX-License-Identifier: MIT */
/* The work of `gantry bench ways`: steps of small kernels, each of which adds one to a cell.
 *
 * A scene is one context, which submits in one way.  Steps of most rows are those of `gantry bench submit`
 * (submit_work.h).  The others are lists of kernels in PIPELINES chains:
 *
 *     RAW         callbacks launch on their stream by the driver's own call
 *     CAPTURABLE  the same, and they say that it may be captured
 *     HOST        one chain; a CPU task between each two kernels, which waits for the end of the first
 *     MIXED       the same for three kernels, and then sixteen at once
 *     UNEVEN      a long kernel, and beside it a chain with CPU tasks
 *     LONG        kernels of 20 us, 8 wide, with CPU tasks after each fourth row
 *     PARTITIONS  half of the chains in a partition of 16 SMs, the other half in the rest
 *     MANAGERS    two managers, each with half of the kernels, run at the same time
 *     LOADS       a module is loaded and unloaded before each fourth step
 *     SOME        of SOME_CHAINS chains, each of another length, some by chance, in any order */
#ifndef BENCH_WAYS_WORK_H
#define BENCH_WAYS_WORK_H

#include "bench/submit_work.h"

enum ways_kind {
    WAYS_PIPELINES,
    WAYS_RAW,
    WAYS_CAPTURABLE,
    WAYS_HOST,
    WAYS_MIXED,
    WAYS_UNEVEN,
    WAYS_LONG,
    WAYS_PARTITIONS,
    WAYS_MANAGERS,
    WAYS_LOADS,
    WAYS_SOME
};

/* The step `number` of a row has `kernels` kernels, and `more` more for each of `shapes` shapes in turn; 0:
 * no two steps are alike. */
struct ways_row {
    const char *name;
    uint32_t kernels, shapes, more, changed;
    bool is_frozen, is_stable, is_scrambled;
    enum ways_kind kind;
};

/* Do its callbacks launch by the driver's own call? */
static inline bool bench_ways_is_raw(const struct ways_row *row)
{
    return row->kind == WAYS_RAW || row->kind == WAYS_CAPTURABLE;
}

enum { WAYS_MOST_LISTED = 512, WAYS_MANAGER_COUNT = 2 };

struct ways_scene;
struct ways_kernel {
    struct ways_scene *scene;
    void *cell; /* the argument of the kernel */
    uint64_t ns;
};

struct ways_scene {
    struct submit_work work;
    const struct ways_row *row;
    gantry_module *module; /* of `timed` and of the kernels that are launched by hand */
    gantry_kernel *timed;  /* increment, after a while */
    gantry_taskman *second;
    struct ways_kernel listed[WAYS_MOST_LISTED];
    uint32_t count;                   /* of them in this step */
    uint32_t expected[2 * PIPELINES]; /* so many kernels add to each cell in this step */
};

/* Open a scene; it must be closed in either case.  The context's options are those of all scenes, but for the
 * plan, which the row may choose. */
bool bench_ways_open(struct ways_scene *scene, const struct ways_row *row,
                     const gantry_context_options *options);
void bench_ways_close(struct ways_scene *scene);

/* How many kernels does this step have? */
uint32_t bench_ways_kernels(const struct ways_row *row, uint32_t step);
/* Build the step `step`, run it until the device is done, and check it; `ns` is the time of running. */
bool bench_ways_run_step(struct ways_scene *scene, uint32_t step, uint64_t *ns);

#endif
