/* SPDX-License-Identifier: MIT */
/* Kernels whose blocks steal, for recordings. */
#include <gantry/kernel/steal.h>
#include <gantry/profile_kernel.h>

/* Each unit counts one cell up. */
GANTRY_KERNEL(steal_cells, (uint32_t * cells, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    uint32_t unit[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
    GANTRY_STEAL_3D(steal);
    do {
        gantry_steal_request(&steal);
        if (threadIdx.x == 0) {
            atomicAdd(&cells[unit[0] + gridDim.x * (unit[1] + gridDim.y * unit[2])], 1u);
        }
    } while (gantry_steal_take_3d(&steal, unit));
    GANTRY_KERNEL_STOP(profile, id);
}

/* The same in a grid of one row, but those blocks whose number is odd leave no record. */
GANTRY_KERNEL(steal_and_forget, (uint32_t * cells, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    uint32_t unit = blockIdx.x;
    GANTRY_STEAL(steal);
    do {
        gantry_steal_request(&steal);
        if (threadIdx.x == 0) {
            atomicAdd(&cells[unit], 1u);
        }
    } while (gantry_steal_take(&steal, &unit));
    if (blockIdx.x % 2 == 0) {
        GANTRY_KERNEL_STOP(profile, id);
    }
}
