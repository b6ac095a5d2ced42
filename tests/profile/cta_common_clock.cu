/* SPDX-License-Identifier: MIT */
/* An instrumented kernel that reads the common clock, whatever it is told. */
#define GANTRY_CTA_SM_CLOCK 0
#include <gantry/profile_kernel.h>

/* Blocks with an odd number leave without a record. */
GANTRY_KERNEL(half_silent, (void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    if (blockIdx.x % 2 == 1) {
        return;
    }
    GANTRY_KERNEL_STOP(profile, id);
}
