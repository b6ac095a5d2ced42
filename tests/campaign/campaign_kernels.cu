/* SPDX-License-Identifier: MIT */
/* The kernel of the scenes. */
#include <gantry/profile_kernel.h>

/* words[from + thread] += 1; the block writes a record when a recording runs. */
GANTRY_KERNEL(add_one, (uint32_t *words, uint32_t from, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    atomicAdd(&words[from + threadIdx.x], 1u);
    GANTRY_KERNEL_STOP(profile, id);
}
