/* Work whose length is a number of steps, with and without the macros of a recording. */
#include <gantry/profile_kernel.h>

static __device__ inline uint32_t steps_of_work(uint32_t steps)
{
    uint32_t x = threadIdx.x + 1;
    for (uint32_t i = 0; i < steps; i++) {
        x = x * 1664525u + 1013904223u;
    }
    return x;
}

/* Adds one to *blocks per block; `sink` keeps the work from being left out. */
static __device__ inline void finish(uint32_t x, uint32_t *blocks, uint32_t *sink)
{
    if (x == 0xdeadbeefu) {
        *sink = x;
    }
    if (threadIdx.x == 0) {
        atomicAdd(blocks, 1u);
    }
}

GANTRY_KERNEL(plain_work, (uint32_t steps, uint32_t *blocks, uint32_t *sink))
{
    finish(steps_of_work(steps), blocks, sink);
}

GANTRY_KERNEL(recorded_work, (uint32_t steps, uint32_t *blocks, uint32_t *sink, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    finish(steps_of_work(steps), blocks, sink);
    GANTRY_KERNEL_STOP(profile, id);
}
