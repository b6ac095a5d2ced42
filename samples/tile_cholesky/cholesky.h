/* SPDX-License-Identifier: MIT */
/* A Cholesky factorisation of tiles over the devices of a fleet: A = L L', in float, L in place of A.
 *
 * The tiles of the lower triangle are dealt out to a rectangle of devices, block-cyclic in rows and columns,
 * and stay where they are.  The graph is the textbook's, right-looking:
 *
 *   for k:  factor (k,k)
 *           solve  (i,k) with (k,k)              for i > k
 *           update (i,j) with (i,k) and (j,k)    for i >= j > k
 *
 * each task on the device of the tile that it writes.  What it reads of other devices is copied by a task of
 * its own into a cache of that device, which has room for a fixed number of tiles (graph.c). */
#ifndef CHOLESKY_CHOLESKY_H
#define CHOLESKY_CHOLESKY_H

#include "samples/tile_cholesky/libraries.h"

#include <gantry/gantry.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    CHOLESKY_BLOCK = 64 /* a tile's side is a multiple */,
    CHOLESKY_CACHE_LEAST = 2 /* what an update reads */
};

enum cholesky_kernel {
    CHOLESKY_FILL,
    CHOLESKY_FACTOR,
    CHOLESKY_SOLVE,
    CHOLESKY_SOLVE_64,
    CHOLESKY_UPDATE_64,
    CHOLESKY_UPDATE_128,
    CHOLESKY_KERNELS
};

struct cholesky_settings {
    gantry_driver_choice driver;
    const char *devices; /* as gantry_fleet_options.devices */
    gantry_submission submission;
    bool from_data;      /* the order comes from the tiles that tasks access, and not from edges */
    uint32_t size, tile; /* of the matrix, a multiple of the tile's; rows and columns */
    uint32_t cache;      /* tiles of others that a device has room for */
};

/* A device, with memory for its tiles and for copies of others. */
struct cholesky_device {
    gantry_context *context;
    gantry_kernel *kernels[CHOLESKY_KERNELS];
    struct cholesky_library library; /* its handles; zeroed: not open */
    float *tiles, *cache;            /* tile * tile floats each */
    uint32_t tile_count;
};

/* A tile of the lower triangle. */
struct cholesky_tile {
    uint32_t device;     /* which has it */
    float *memory;       /* there, column by column */
    gantry_task *writer; /* the last task so far that writes it; NULL: none.  Only while the graph is built */
};

/* What a task is to do: its callback's argument. */
struct cholesky_work {
    struct cholesky *cholesky;
    struct cholesky_device *device;
    const float *left, *right; /* what is read */
    float *to;
    bool is_diagonal; /* an update: `left` is `right`, and only the lower triangle counts */
};

/* Works of the graph, some at a time, so that they stay where they are. */
struct cholesky_works;

struct cholesky {
    struct cholesky_settings settings;
    gantry_device_info info; /* of the first device */
    gantry_fleet *fleet;
    gantry_taskman *graph; /* frozen: the factorisation */
    gantry_taskman *aside; /* fills and fetches */
    uint32_t fleet_count;  /* devices of the fleet, */
    uint32_t count;        /* and those of them that are used, from the first on: down x across */
    uint32_t down, across;
    uint32_t side;   /* of the matrix, in tiles */
    int exit_status; /* of the sample, where the fleet cannot be opened */
    bool has_library, uses_library;
    struct cholesky_device devices[GANTRY_FLEET_DEVICES_MAX];
    struct cholesky_tile *tiles; /* side x side; only those with row >= column */
    struct cholesky_works *works;
    uint64_t tasks, copies; /* of the graph; copies between devices are among the tasks */
    uint64_t edges;         /* likewise */
    float *column;          /* page-locked: a column of tiles that was fetched */
};

/* Open the fleet and find the libraries; `fleet_count`, `info` and `has_library` are known then.  False, here
 * and below: told on stderr. */
bool cholesky_open(struct cholesky *cholesky, const struct cholesky_settings *settings);
/* Deal the tiles out to the first `count` devices and freeze the graph, with the libraries' kernels or with
 * our own; cholesky_clear() undoes it. */
bool cholesky_build(struct cholesky *cholesky, uint32_t count, bool uses_library);
void cholesky_clear(struct cholesky *cholesky);
/* Write the matrix's elements into the tiles; factor them, until all devices are done. */
bool cholesky_fill(struct cholesky *cholesky);
bool cholesky_factor(struct cholesky *cholesky);
/* Bring the tiles (k,k) to (side-1,k) to the host: one behind the other in `column`. */
bool cholesky_fetch(struct cholesky *cholesky, uint32_t k);
void cholesky_close(struct cholesky *cholesky);

/* The diagonal's value. */
float cholesky_diagonal(uint32_t size);
/* Did the call work?  When not, says on stderr what failed, and why. */
bool cholesky_ok(gantry_status status, const char *what);

static inline struct cholesky_tile *cholesky_tile_at(const struct cholesky *cholesky, uint32_t row,
                                                     uint32_t column)
{
    return &cholesky->tiles[(size_t)row * cholesky->side + column];
}

/* ---- graph.c, kernels.c ------------------------------------------------------------------------ */

bool cholesky_submit(struct cholesky *cholesky);
void cholesky_free_works(struct cholesky *cholesky);

/* Callbacks; `arg` is a struct cholesky_work. */
gantry_launch_result cholesky_launch_factor(gantry_launch *launch, void *arg);
gantry_launch_result cholesky_launch_solve(gantry_launch *launch, void *arg);
gantry_launch_result cholesky_launch_update(gantry_launch *launch, void *arg);
gantry_launch_result cholesky_launch_copy(gantry_launch *launch, void *arg);

#endif
