/* SPDX-License-Identifier: MIT */
/* The kernel of saxpy.c. */
#include <gantry/kernel.h>

GANTRY_KERNEL(saxpy, (float a, const float *x, float *y, uint32_t count))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] += a * x[i];
    }
}
