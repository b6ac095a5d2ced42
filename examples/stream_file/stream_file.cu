/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

GANTRY_KERNEL(square, (uint32_t *numbers, uint32_t count))
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        numbers[i] *= numbers[i];
    }
}

GANTRY_KERNEL(add_index, (uint32_t *numbers, uint32_t count))
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        numbers[i] += i;
    }
}
