/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

/* Keeps the device busy for about so many nanoseconds. */
GANTRY_KERNEL(busy, (uint32_t nanoseconds))
{
    uint64_t begin = gantry_global_timer();
    while (gantry_global_timer() - begin < nanoseconds) {
    }
}
