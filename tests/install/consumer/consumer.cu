/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

GANTRY_KERNEL(add_one, (uint32_t *data, uint32_t count))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] += 1;
    }
}
