/* A kernel that fills the device for a while, and a short one that is in a hurry. */
#include <gantry/kernel.h>

/* Every block runs for `ns`; the first says that it has begun. */
GANTRY_KERNEL(occupy, (uint32_t *begun, uint32_t *done, uint64_t ns))
{
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            *(volatile uint32_t *)begun = 1;
            __threadfence_system();
        }
        uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
        atomicAdd(done, 1u);
    }
}
