/* Kernels whose order on the device shows in memory. */
#include <gantry/kernel.h>

/* begin = tick; end = next tick; `spins` makes the kernel last. */
GANTRY_KERNEL(stamp, (uint32_t *clock, uint32_t *begin, uint32_t *end, uint32_t spins))
{
    if (threadIdx.x != 0) {
        return;
    }
    *begin = atomicAdd(clock, 1u);
    for (uint32_t i = 0; i < spins; i++) {
        atomicAdd(clock, 0u);
    }
    __threadfence();
    *end = atomicAdd(clock, 1u);
}
