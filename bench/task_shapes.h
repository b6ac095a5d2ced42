/* SPDX-License-Identifier: MIT */
/* The graphs that `gantry bench tasks` measures, in our own words and in those of other libraries. */
#ifndef BENCH_TASK_SHAPES_H
#define BENCH_TASK_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum task_shape {
    SHAPE_INDEPENDENT,
    SHAPE_CHAIN,     /* each task comes after the one before it */
    SHAPE_WAVEFRONT, /* a square; each task comes after its upper and its left neighbour */
    SHAPE_TREE,      /* each task comes before two others, and a last one after all leaves */
};

/* The body of a task: it counts itself, and checks that the tasks it depends on have run.  All libraries
 * run the same code. */
struct task_field {
    enum task_shape shape;
    uint32_t side;  /* of the wavefront */
    uint32_t count; /* tasks */
    uint8_t *cells; /* one per task: how often it ran */
    uint8_t disorder;
};

static inline void task_field_touch(struct task_field *field, uint32_t i)
{
    uint8_t *cells = field->cells;
    uint8_t now = (uint8_t)(cells[i] + 1);
    bool good = true;
    switch (field->shape) {
    case SHAPE_INDEPENDENT:
        break;
    case SHAPE_CHAIN:
        good = i == 0 || cells[i - 1] == now;
        break;
    case SHAPE_WAVEFRONT:
        good = (i % field->side == 0 || cells[i - 1] == now) &&
               (i < field->side || cells[i - field->side] == now);
        break;
    case SHAPE_TREE:
        good = i == 0 || i + 1 == field->count || cells[(i - 1) / 2] == now;
        break;
    }
    if (!good) {
        field->disorder = 1;
    }
    cells[i] = now;
}

/* Another library's way to run a graph.  make() and drop() are not timed; make() returns NULL when it has
 * failed. */
struct task_peer {
    const char *name;
    void *(*make)(struct task_field *field, uint32_t workers);
    bool (*run)(void *job);
    void (*drop)(void *job);
};

extern const struct task_peer task_peer_tbb_graph; /* oneTBB's flow graph, built beforehand */
extern const struct task_peer task_peer_tbb_group; /* oneTBB's task group: independent tasks, trees */
extern const struct task_peer task_peer_openmp;    /* OpenMP tasks: independent tasks, trees */

#ifdef __cplusplus
}
#endif

#endif
