/* SPDX-License-Identifier: MIT */
/* Step 3: the same kernel in the dialect of <gantry/kernel.h>. */
#include <gantry/kernel.h>
#define BINS 256

GANTRY_KERNEL(histogram, (const uint8_t *data, uint32_t count, uint32_t *bins))
{
    __shared__ uint32_t local[BINS];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
