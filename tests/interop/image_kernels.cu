/* SPDX-License-Identifier: MIT */
/* A kernel that reads and writes an image. */
#include <gantry/kernel.h>
#include <gantry/kernel/surface.h>

/* Each texel becomes its complement plus `value`; there is one block per row. */
GANTRY_KERNEL(turn, (gantry_surface image, uint32_t width, uint32_t value))
{
    for (uint32_t x = threadIdx.x; x < width; x += blockDim.x) {
        gantry_surface_write(image, ~gantry_surface_read<uint32_t>(image, x, blockIdx.x) + value, x,
                             blockIdx.x);
    }
}
