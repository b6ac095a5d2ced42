/* SPDX-License-Identifier: MIT */
/* The kernel of the random workloads: one block, with a thread for each word of a cell.  `pause_ns` keeps
 * it from writing for a while, so that a task which does not wait for it finds old words. */
#include <gantry/profile_kernel.h>

#define MIX_FN static __device__ inline
#include "tests/campaign/workload_mix.h"

GANTRY_KERNEL(mix_cells, (struct mix mix, uint32_t pause_ns, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    uint32_t word = threadIdx.x;
    uint32_t first = mix_word(&mix, 0, word), second = mix.out[1] != 0 ? mix_word(&mix, 1, word) : 0;
    if (word == 0 && pause_ns != 0) {
        uint64_t from = gantry_global_timer();
        while (gantry_global_timer() - from < pause_ns) {
        }
    }
    __syncthreads();
    mix.out[0][word] = first;
    if (mix.out[1] != 0) {
        mix.out[1][word] = second;
    }
    GANTRY_KERNEL_STOP(profile, id);
}
