/* SPDX-License-Identifier: MIT */
/* What the bodies of loops do in test_device_loops.c. */
#include <gantry/kernel.h>

/* cells[0]: the word that decides; cells[1]: turns that are wanted still; cells[2]: turns that were done */
GANTRY_KERNEL(loop_count, (uint32_t *cells))
{
    if (threadIdx.x == 0) {
        cells[2]++;
        cells[1]--;
        cells[0] = cells[1] != 0;
    }
}

/* Order matters: to = to * factor + from. */
GANTRY_KERNEL(loop_mix, (uint32_t *to, const uint32_t *from, uint32_t factor))
{
    if (threadIdx.x == 0) {
        *to = *to * factor + *from;
    }
}
