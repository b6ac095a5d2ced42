/* SPDX-License-Identifier: MIT */
/* What one rank has of the grid; graph.c has the steps. */
#ifndef HALO_MPI_HALO_MPI_H
#define HALO_MPI_HALO_MPI_H

#include "samples/stencil/stencil_value.h"
#include "stencil_kernels.kernels.h"

#include <gantry/gantry.h>
#include <gantry/mpi.h>

enum { HALO_BLOCK = 256 /* threads */, HALO_LEAST_ROWS = 3 /* of a rank */ };

struct halo;

/* A step forth or back between the buffers: what its callbacks are given. */
struct halo_step {
    struct halo *halo;
    const float *from;
    float *to;
    gantry_mpi_message send[2], receive[2]; /* above and below; they must be there as long as the graph */
};

struct halo {
    int rank, size;
    uint32_t grid_rows, columns;
    uint32_t first, rows; /* of the grid */
    gantry_mpi *mpi;
    gantry_context *context;
    gantry_taskman *graph; /* frozen: two steps */
    gantry_taskman *aside; /* fill and fetch */
    gantry_kernel *rows_kernel, *edges_kernel, *fill_kernel;
    float *buffers[2];   /* (rows + 2) x columns floats each, on the device */
    float *edges_out[2]; /* page-locked: the first row and the last one, to be sent above and below */
    float *halo_in[2];   /* page-locked: what was received from above and below */
    float *host;         /* rows x columns, page-locked */
    struct halo_step steps[2];
};

/* A failure ends the job, with the reason. */
void halo_must(gantry_status status);

/* Submit two steps, and freeze the graph. */
void halo_submit_steps(struct halo *halo);

static inline gantry_launch_result halo_launched(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static inline gantry_dim3 halo_blocks(const struct halo *halo, uint32_t rows)
{
    return (gantry_dim3){(halo->columns + HALO_BLOCK - 1) / HALO_BLOCK, rows, 1};
}

#endif
