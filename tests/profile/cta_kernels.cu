/* Instrumented kernels, and what there is without the macros. */
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

/* Blocks with an odd number leave without a record. */
GANTRY_KERNEL(half_silent, (void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    if (blockIdx.x % 2 == 1) {
        return;
    }
    GANTRY_KERNEL_STOP(profile, id);
}
