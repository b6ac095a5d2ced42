/* SPDX-License-Identifier: MIT */
/* A kernel that fills SMs for a while: as the long kernel, or as the short one that is in a hurry. */
#include <gantry/kernel.h>

/* Write the word that the host looks at all the time. */
static __device__ inline void tell(uint32_t *word)
{
#if GANTRY_KERNEL_FORM_DEVICE
    *(volatile uint32_t *)word = 1;
#else
    __atomic_store_n(word, 1u, __ATOMIC_RELEASE);
#endif
}

/* Every block keeps its place for `ns`, with all its warps: if they did not wait for the first warp, they
 * would leave one by one.  `begun` and `ended` are words in host memory, which the first block and the last
 * one write, or NULL.  `done` counts the blocks and is in device memory, as counting in host memory takes a
 * microsecond per block. */
GANTRY_KERNEL(occupy, (uint32_t *begun, uint32_t *ended, uint32_t *done, uint64_t ns))
{
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0 && begun != nullptr) {
            tell(begun);
        }
        uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t before = atomicAdd(done, 1u);
        if (ended != nullptr && before % gridDim.x == gridDim.x - 1) {
            tell(ended);
        }
    }
}

/* Take a piece: after `ns`, its first word is added to a sum, which no other kernel has meanwhile. */
GANTRY_KERNEL(take, (const uint32_t *piece, uint32_t *sum, uint64_t ns))
{
    if (threadIdx.x == 0) {
        const uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
        *sum += *piece;
    }
}
