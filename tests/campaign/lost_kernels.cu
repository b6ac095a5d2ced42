/* SPDX-License-Identifier: MIT */
/* The kernel of test_lost.c. */
#include <gantry/kernel.h>

/* words[thread] += thread: the sum shows how often it ran. */
GANTRY_KERNEL(count_up, (uint32_t *words))
{
    words[threadIdx.x] += threadIdx.x;
}
