/* SPDX-License-Identifier: MIT */
/* A kernel that keeps its blocks busy for a while and counts itself. */
#include <gantry/kernel.h>

GANTRY_KERNEL(tenant_busy, (uint32_t *count, uint64_t ns))
{
    if (threadIdx.x == 0) {
        uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
        if (blockIdx.x == 0) {
            atomicAdd(count, 1u);
        }
    }
}
