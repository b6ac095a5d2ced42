/* The smallest kernel whose launches can be counted afterwards. */
#include <gantry/kernel.h>

GANTRY_KERNEL(increment, (uint32_t * cell))
{
    if (threadIdx.x == 0) {
        *cell += 1;
    }
}
