/* SPDX-License-Identifier: MIT */
/* A kernel of a given length that tells when it ran. */
#include <gantry/kernel.h>

/* Every block runs for `ns`; the first notes its begin and its end. */
GANTRY_KERNEL(quota_busy, (uint64_t *record, uint64_t ns))
{
    if (threadIdx.x == 0) {
        uint64_t begin = gantry_global_timer(), now = begin;
        while (now - begin < ns) {
            now = gantry_global_timer();
        }
        if (blockIdx.x == 0) {
            record[0] = begin;
            record[1] = now;
        }
    }
}
