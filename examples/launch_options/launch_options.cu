/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

/* seen[block] = how many blocks had counted when all had: blocks of a cooperative grid may wait for each other. */
GANTRY_KERNEL(meet, (uint32_t *barrier, uint32_t *count, uint32_t *seen))
{
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
    }
    gantry_grid_sync(barrier);
    if (threadIdx.x == 0) {
        seen[blockIdx.x] = atomicAdd(count, 0u);
    }
}
