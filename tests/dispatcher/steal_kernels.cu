/* SPDX-License-Identifier: MIT */
/* Kernels whose blocks steal, launched in clusters. */
#include <gantry/kernel.h>
/* this comes after kernel.h */
#include <gantry/kernel/steal.h>

/* done[unit] is counted up, and wrong[0] where a unit is not at its block's place in the cluster. */
GANTRY_KERNEL(units_of_row, (uint32_t * done, uint32_t *wrong))
{
    uint32_t unit = blockIdx.x;
    GANTRY_STEAL(steal);
    do {
        gantry_steal_request(&steal);
        if (threadIdx.x == 0) {
            atomicAdd(&done[unit], 1u);
            atomicAdd(wrong, unit % gantry_cluster_blocks() != gantry_cluster_rank());
        }
    } while (gantry_steal_take(&steal, &unit));
}

/* Breaks a rule: it asks again after it has seen a refusal. */
GANTRY_KERNEL(ask_again, (uint32_t * done))
{
    uint32_t unit = blockIdx.x;
    GANTRY_STEAL(steal);
    do {
        gantry_steal_request(&steal);
        atomicAdd(done, 1u);
    } while (gantry_steal_take(&steal, &unit));
    gantry_steal_request(&steal);
}

/* The same in a grid and in clusters of any shape; wrong is not counted. */
GANTRY_KERNEL(units_of_box, (uint32_t * done, uint32_t *wrong))
{
    uint32_t unit[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
    (void)wrong;
    GANTRY_STEAL_3D(steal);
    do {
        gantry_steal_request(&steal);
        if (threadIdx.x == 0) {
            atomicAdd(&done[unit[0] + gridDim.x * (unit[1] + gridDim.y * unit[2])], 1u);
        }
    } while (gantry_steal_take_3d(&steal, unit));
}
