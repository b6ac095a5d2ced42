/* SPDX-License-Identifier: MIT */
/* Kernels whose accesses the proof sees. */
#include <gantry/kernel.h>

GANTRY_KERNEL(pipeline_scale, (uint32_t *to, const uint32_t *from, uint32_t count, uint32_t factor))
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        to[i] = from[i] * factor;
    }
}

/* Each thread of a block adds to shared memory, which is nobody else's, and one of them to a cell of all. */
GANTRY_KERNEL(pipeline_sum, (const uint32_t *data, uint32_t count, uint32_t *sum))
{
    __shared__ uint32_t part;
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        part = 0;
    }
    __syncthreads();
    if (i < count) {
        atomicAdd(&part, data[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(sum, part);
    }
}

/* Bytes, from one of them on. */
GANTRY_KERNEL(pipeline_stamp, (uint8_t *data, uint32_t count, uint32_t first))
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[first + i] = (uint8_t)i;
    }
}
