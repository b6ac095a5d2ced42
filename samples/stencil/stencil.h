/* SPDX-License-Identifier: MIT */
/* A grid that is divided by rows between the devices of a fleet, and the graph that advances it.
 *
 * Each device has its rows twice, what is read and what is written in a step, with a row more at each end:
 * the halo, a copy of its neighbour's nearest row.  A step has, for each device,
 *
 *   edges      compute the first row and the last one
 *   halo       copy these two to the neighbours; or the edges are stored there as well, by their kernel
 *   interior   compute all other rows, meanwhile
 *
 * by_hand.c has the same by hand, with the same kernels and memory. */
#ifndef STENCIL_STENCIL_H
#define STENCIL_STENCIL_H

#include <gantry/gantry.h>

#include <stdbool.h>
#include <stdint.h>

enum { STENCIL_BLOCK = 256 /* threads */, STENCIL_ROWS_LEAST = 3 /* of a part */ };

struct stencil_settings {
    gantry_driver_choice driver;
    const char *devices; /* as gantry_fleet_options.devices */
    uint32_t rows, columns;
    uint32_t steps; /* of a run; even, so that each run begins with the same buffers */
    bool from_data; /* the order between tasks comes from what they access, and not from edges made by hand */
    bool is_fused;  /* the kernel of the edges stores them into the neighbours' halos */
    gantry_submission submission;
};

struct stencil;

/* One step of a part, forth or back between its buffers: what its callbacks are given. */
struct stencil_step {
    struct stencil_part *part;
    const float *from;
    float *to;
    uint32_t index; /* of `to` */
};

/* The rows of one device. */
struct stencil_part {
    struct stencil *stencil;
    gantry_context *context;
    gantry_kernel *rows_kernel, *edges_kernel, *fill_kernel;
    struct stencil_part *above, *below; /* NULL: the grid ends there */
    uint32_t first, rows;               /* of the grid */
    float *buffers[2];                  /* (rows + 2) x columns floats each, on the device */
    float *host;                        /* rows x columns, page-locked */
    struct stencil_step steps[2];       /* that write buffer 1, and 0 */
};

struct stencil {
    struct stencil_settings settings;
    gantry_device_info info; /* of the first device */
    gantry_fleet *fleet;
    gantry_taskman *graph; /* frozen: the steps of a run */
    gantry_taskman *aside; /* fills and fetches */
    uint32_t count;        /* of parts */
    int exit_status;       /* of the sample, where the fleet cannot be opened */
    struct stencil_part parts[GANTRY_FLEET_DEVICES_MAX];
};

/* Open the fleet; its device_count() and `info` are known then.  False, here and below: told on stderr. */
bool stencil_open(struct stencil *stencil, gantry_driver_choice driver, const char *devices,
                  gantry_submission submission);
/* Divide the grid, take memory, and freeze the graph.  The fleet's device_count() times STENCIL_ROWS_LEAST is
 * the least number of rows. */
bool stencil_build(struct stencil *stencil, const struct stencil_settings *settings);
/* Write what the grid begins with. */
bool stencil_fill(struct stencil *stencil);
/* settings.steps steps; until all devices are done. */
bool stencil_run(struct stencil *stencil);
/* Bring the grid to the host: rows of a part are in its `host`. */
bool stencil_fetch(struct stencil *stencil);
/* Is what was fetched bit for bit equal to `expected`, rows x columns?  Names the first cell that is not. */
bool stencil_compare(const struct stencil *stencil, const float *expected);
void stencil_close(struct stencil *stencil);

/* The same steps on the CPU, on all of its cores: the grid after `steps`, to be freed; NULL: told on stderr.
 */
float *stencil_reference(uint32_t rows, uint32_t columns, uint64_t steps);

#endif
