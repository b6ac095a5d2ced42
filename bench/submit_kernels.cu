/* SPDX-License-Identifier: MIT */
/* The smallest kernels whose launches can be counted afterwards. */
#include <gantry/kernel.h>

GANTRY_KERNEL(increment, (uint32_t * cell))
{
    if (threadIdx.x == 0) {
        *cell += 1;
    }
}

/* The same after so many ns. */
GANTRY_KERNEL(increment_after, (uint32_t * cell, uint64_t ns))
{
    if (threadIdx.x == 0) {
        const uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
        *cell += 1;
    }
}
