/* SPDX-License-Identifier: MIT */
/* Kernels whose groups of threads record their work. */
#define GANTRY_CTA_SM_CLOCK 1
#include <gantry/profile_kernel.h>

/* There are three groups of 32 threads: the first loads, the second computes in two parts, the third stores;
 * `turns` times.  The ids are 0, 1 with 2 within it, and 3. */
GANTRY_KERNEL(tile_stages, (uint32_t *cells, uint32_t turns, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    GANTRY_KERNEL_RANGES(ranges, profile, 32);
    const uint32_t group = threadIdx.x / 32;
    for (uint32_t turn = 0; turn < turns; turn++) {
        if (group == 0) {
            GANTRY_KERNEL_RANGE(ranges, 0);
            atomicAdd(&cells[blockIdx.x], 1u);
        } else if (group == 1) {
            GANTRY_KERNEL_RANGE_BEGIN(ranges, 1);
            {
                GANTRY_KERNEL_RANGE(ranges, 2);
                atomicAdd(&cells[blockIdx.x], 1u);
            }
            GANTRY_KERNEL_RANGE_END(ranges, 1);
        } else {
            GANTRY_KERNEL_RANGE(ranges, 3);
            atomicAdd(&cells[blockIdx.x], 1u);
        }
        __syncthreads();
    }
    GANTRY_KERNEL_STOP(profile, id);
}

static __device__ inline void work_within(gantry_ranges &ranges, uint32_t *cell)
{
    GANTRY_KERNEL_RANGE(ranges, 0);
    atomicAdd(cell, 1u);
}

/* The whole block is one group, and a function records. */
GANTRY_KERNEL(whole_block, (uint32_t *cells, uint32_t turns, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    {
        GANTRY_KERNEL_RANGES(ranges, profile, 0);
        for (uint32_t turn = 0; turn < turns; turn++) {
            work_within(ranges, &cells[blockIdx.x]);
        }
    }
    GANTRY_KERNEL_STOP(profile, id);
}
