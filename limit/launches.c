/* SPDX-License-Identifier: MIT */
/* What computes: launches of kernels and graphs, and fills.  Each exported function asks the meter, calls the
 * driver's and tells the meter.  The _ptsz and _ptds forms mean the calling thread's own default stream. */
#include "limit/costs.h"
#include "limit/doors.h"
#include "limit/wrap.h"

enum { KERNEL = 1, GRAPH, FILL };

#define GRID(x, y, z) ((uint64_t)(x) << 40 ^ (uint64_t)(y) << 20 ^ (uint64_t)(z))

/* ---- kernels and graphs ------------------------------------------------------------------------ */

#define LAUNCH_PARAMETERS                                                                           \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,      \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, \
     void **extra)
#define LAUNCH_ARGUMENTS \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra)
#define COOPERATIVE_PARAMETERS                                                                 \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters)
#define COOPERATIVE_ARGUMENTS \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters)
#define LAUNCH_KEY \
    gy_costs_key(KERNEL, function, GRID(grid_x, grid_y, grid_z), GRID(block_x, block_y, block_z))

GY_WRAP_LAUNCH(cuLaunchKernel, _ptsz, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS, stream, LAUNCH_KEY)
GY_WRAP_LAUNCH(cuLaunchCooperativeKernel, _ptsz, COOPERATIVE_PARAMETERS, COOPERATIVE_ARGUMENTS, stream,
               LAUNCH_KEY)
GY_WRAP_LAUNCH(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream), stream,
               gy_costs_key(GRAPH, exec, 0, 0))

static uint64_t key_of(const CUlaunchConfig *c, CUfunction function)
{
    return c == NULL ? 1
                     : gy_costs_key(KERNEL, function, GRID(c->gridDimX, c->gridDimY, c->gridDimZ),
                                    GRID(c->blockDimX, c->blockDimY, c->blockDimZ));
}

GY_WRAP_LAUNCH(cuLaunchKernelEx, _ptsz,
               (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
               (config, function, parameters, extra), config != NULL ? config->hStream : NULL,
               key_of(config, function))

/* ---- fills --------------------------------------------------------------------------------------- */

#define FILL_KEY gy_costs_key(FILL, NULL, count * sizeof(value), 1)
#define ROWS_KEY gy_costs_key(FILL, NULL, width * sizeof(value), height)
#define FILLS(bits, type)                                                                                    \
    GY_WRAP_LAUNCH(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr to, type value, size_t count),                  \
                   (to, value, count), NULL, FILL_KEY)                                                       \
    GY_WRAP_LAUNCH(cuMemsetD##bits##Async, _ptsz,                                                            \
                   (CUdeviceptr to, type value, size_t count, CUstream stream), (to, value, count, stream),  \
                   stream, FILL_KEY)                                                                         \
    GY_WRAP_LAUNCH(cuMemsetD2D##bits##_v2, _ptds,                                                            \
                   (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),                  \
                   (to, pitch, value, width, height), NULL, ROWS_KEY)                                        \
    GY_WRAP_LAUNCH(cuMemsetD2D##bits##Async, _ptsz,                                                          \
                   (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream), \
                   (to, pitch, value, width, height, stream), stream, ROWS_KEY)

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
