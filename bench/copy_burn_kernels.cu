/* SPDX-License-Identifier: MIT */
/* Work for the multiprocessors that needs no memory, to be disturbed by copies. */
#include <gantry/kernel.h>

GANTRY_KERNEL_BOUNDS(copy_burn, 256, (uint32_t * result, uint32_t rounds))
{
    uint32_t a = threadIdx.x + 1, b = blockIdx.x + 1;
    for (uint32_t i = 0; i < rounds; i++) {
        a = a * 1664525u + b;
        b = b * 22695477u + a;
    }
    if (a == 0 && b == 0) { /* so that the loop is not removed */
        *result = a;
    }
}
