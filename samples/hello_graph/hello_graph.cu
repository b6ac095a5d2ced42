/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

GANTRY_KERNEL(triple, (uint32_t *numbers, uint32_t count))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        numbers[i] *= 3;
    }
}

GANTRY_KERNEL(increment, (uint32_t *numbers, uint32_t count))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        numbers[i] += 1;
    }
}
