/* SPDX-License-Identifier: MIT */
/* An instrumented kernel that can be told to read its SM's clock, on any device. */
#define GANTRY_CTA_SM_CLOCK 1
#include <gantry/profile_kernel.h>

/* Each thread adds 1 to its block's cell, `spins` times. */
GANTRY_KERNEL(count_up, (uint32_t *cells, uint32_t spins, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    for (uint32_t i = 0; i < spins; i++) {
        atomicAdd(&cells[block], 1u);
    }
    GANTRY_KERNEL_STOP(profile, id);
}
