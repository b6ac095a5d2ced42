/* SPDX-License-Identifier: MIT */
#include "cli/messages.h"
#include "cli/samples.h"
#include "samples/stencil/stencil.h"
#include "samples/stencil/stencil_value.h"

#include <stdlib.h>

struct pass {
    const float *from; /* (rows + 2) x columns, the outermost rows 0 */
    float *to;
    uint32_t columns;
};

/* As stencil_mean() in stencil_kernels.cu. */
static gantry_status compute_rows(size_t begin, size_t end, void *arg)
{
    const struct pass *pass = arg;
    const uint32_t columns = pass->columns;
    for (size_t row = begin + 1; row <= end; row++) {
        const float *here = pass->from + row * columns;
        float *to = pass->to + row * columns;
        for (uint32_t c = 0; c < columns; c++) {
            float west = c > 0 ? here[c - 1] : 0.0f, east = c + 1 < columns ? here[c + 1] : 0.0f;
            float up_down = (here + c)[-(ptrdiff_t)columns] + here[c + columns], sideways = west + east;
            to[c] = 0.25f * (up_down + sideways);
        }
    }
    return GANTRY_OK;
}

static void fill(float *grid, uint32_t rows, uint32_t columns)
{
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t c = 0; c < columns; c++) {
            grid[(size_t)(row + 1) * columns + c] = stencil_value(row, c);
        }
    }
}

float *stencil_reference(uint32_t rows, uint32_t columns, uint64_t steps)
{
    const size_t cells = ((size_t)rows + 2) * columns;
    float *grids[2] = {calloc(cells, sizeof(float)), calloc(cells, sizeof(float))};
    gantry_cpu_dispatcher *cpus = NULL;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (grids[0] != NULL && grids[1] != NULL) {
        fill(grids[0], rows, columns);
        status = gantry_cpu_dispatcher_create(NULL, &cpus);
    }
    for (uint64_t s = 0; s < steps && status == GANTRY_OK; s++) {
        struct pass pass = {grids[s % 2], grids[(s + 1) % 2], columns};
        status = gantry_parallel_for(cpus, 0, rows, 16, compute_rows, &pass);
    }
    gantry_cpu_dispatcher_destroy(cpus);
    free(grids[(steps + 1) % 2]);
    if (status != GANTRY_OK) {
        cli_error("stencil: the result cannot be computed on the CPU: %s", cli_cause(status));
        free(grids[steps % 2]);
        return NULL;
    }
    float *grid = grids[steps % 2]; /* without the row above it */
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        grid[i] = grid[i + columns];
    }
    return grid;
}
