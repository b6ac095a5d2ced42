/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

/* numbers[i] = 3 * numbers[i] + (the sum of the small table): the table needs nothing of the kernel before. */
GANTRY_KERNEL_EARLY(step, (uint32_t *numbers, uint32_t count, uint32_t table))
{
    gantry_let_next_start(); /* the next kernel may prepare, too */
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= table; i++) {
        sum += i;
    }
    gantry_wait_for_earlier(); /* every block calls it; from here on, the kernel before has ended */
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        numbers[i] = 3u * numbers[i] + sum;
    }
}
