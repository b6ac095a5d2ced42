/* SPDX-License-Identifier: MIT */
/* The kernels of steps that are alike: what they leave in a cell says which kernel ran, with which arguments,
 * on a grid of which size, and what the cell that it reads had then.  `pause_ns` keeps a kernel from writing for a
 * while, so that one which does not wait for it reads an old word. */
#include <gantry/kernel.h>

static __device__ void pause(uint32_t ns)
{
    const uint64_t begin = gantry_global_timer();
    while (ns != 0 && gantry_global_timer() - begin < ns) {
    }
}

GANTRY_KERNEL(grow, (uint32_t * out, const uint32_t *in, uint32_t code, uint32_t pause_ns))
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        pause(pause_ns);
        *out = (*out * 16777619u ^ code) + *in + 31u * gridDim.x + blockDim.x;
    }
}

GANTRY_KERNEL(turn, (uint32_t * out, const uint32_t *in, uint32_t code, uint32_t pause_ns))
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        pause(pause_ns);
        *out = ((*out >> 7 | *out << 25) + code) ^ (*in + 17u * gridDim.x + blockDim.x);
    }
}
