/* A kernel that fills the device for a while, and a short one that is in a hurry. */
#include <gantry/kernel.h>

/* Tell the host, which looks at the word all the time. */
static __device__ inline void tell(uint32_t *word)
{
#if GANTRY_KERNEL_FORM_DEVICE
    *(volatile uint32_t *)word = 1;
    __threadfence_system();
#else
    __atomic_store_n(word, 1u, __ATOMIC_RELEASE);
#endif
}

/* Every block runs for `ns`; the first says that it has begun. */
GANTRY_KERNEL(occupy, (uint32_t *begun, uint32_t *done, uint64_t ns))
{
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            tell(begun);
        }
        uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
        atomicAdd(done, 1u);
    }
}
