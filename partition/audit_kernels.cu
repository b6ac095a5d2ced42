/* SPDX-License-Identifier: MIT */
/* The kernel that tells on which SMs a launch really runs. */
#include <gantry/kernel.h>

/* Every block notes its SM in `seen`, one bit for each of 1024 SMs, and keeps it for a while, so that the
 * other blocks go elsewhere. */
GANTRY_KERNEL(gantry_audit, (uint32_t *seen, uint32_t words, uint64_t ns))
{
    if (threadIdx.x == 0) {
        uint32_t sm = gantry_smid();
        if (sm / 32 < words) {
            atomicOr(&seen[sm / 32], 1u << (sm % 32));
        }
        uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
    }
}
