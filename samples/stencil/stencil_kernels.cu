/* SPDX-License-Identifier: MIT */
/* A cell becomes the mean of its four neighbours; outside of the grid all is 0.  Sums are rounded after each
 * addition, in one order, so that the result is the same everywhere. */
#include <gantry/kernel.h>

#define STENCIL_FUNCTION static __device__ inline
#include "samples/stencil/stencil_value.h"

static __device__ inline float stencil_mean(const float *from, uint32_t columns, uint32_t row, uint32_t column)
{
    const float *here = from + (size_t)row * columns + column;
    float west = column > 0 ? here[-1] : 0.0f, east = column + 1 < columns ? here[1] : 0.0f;
    float north = *(here - columns), south = here[columns];
    return __fmul_rn(0.25f, __fadd_rn(__fadd_rn(north, south), __fadd_rn(west, east)));
}

/* Rows from `first` on of a part, whose row 0 is the halo above it; a row of blocks for each. */
GANTRY_KERNEL(stencil_rows, (const float *from, float *to, uint32_t columns, uint32_t first))
{
    uint32_t column = blockIdx.x * blockDim.x + threadIdx.x, row = first + blockIdx.y;
    if (column < columns) {
        to[(size_t)row * columns + column] = stencil_mean(from, columns, row, column);
    }
}

/* The first row of a part and its last one, `rows`; also into the halo of the part above and of the one below,
 * unless those are NULL. */
GANTRY_KERNEL(stencil_edges,
              (const float *from, float *to, uint32_t columns, uint32_t rows, float *above, float *below))
{
    uint32_t column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y == 0 ? 1 : rows;
    float *halo = blockIdx.y == 0 ? above : below;
    if (column < columns) {
        float mean = stencil_mean(from, columns, row, column);
        to[(size_t)row * columns + column] = mean;
        if (halo != nullptr) {
            halo[column] = mean;
        }
    }
}

/* What the grid begins with, into both buffers of a part: blockIdx.y is the row in it, `first` the grid's row
 * that is its row 1. */
GANTRY_KERNEL(stencil_fill, (float *a, float *b, uint32_t columns, uint32_t first, uint32_t grid_rows))
{
    uint32_t column = blockIdx.x * blockDim.x + threadIdx.x, row = first + blockIdx.y; /* 1 too many */
    if (column < columns) {
        float value = row > 0 && row <= grid_rows ? stencil_value(row - 1, column) : 0.0f;
        size_t at = (size_t)blockIdx.y * columns + column;
        a[at] = value;
        b[at] = value;
    }
}
