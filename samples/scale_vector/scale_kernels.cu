/* SPDX-License-Identifier: MIT */
/* y = factor * x in three ways that differ in how work is dealt out to thread blocks.  Elements are integers,
 * so that results are the same everywhere. */
#include "samples/scale_vector/scale_vector_kernels.h"

#include <gantry/kernel.h>
/* after kernel.h */
#include <gantry/kernel/steal.h>

/* Stands for what every block has to find out before it can begin. */
static __device__ inline uint32_t compute_factor(uint32_t seed)
{
    uint32_t x = seed;
    for (uint32_t i = 0; i < SCALE_PROLOGUE; i++) {
        x = x * 1664525u + 1013904223u;
        x ^= x >> 16;
    }
    return x == 0 && seed != 0 ? 0 : SCALE_FACTOR; /* the compiler cannot know that the loop is in vain */
}

/* The work of one tile of SCALE_BLOCK elements; one tile in `every` takes much longer. */
static __device__ inline void scale_tile(uint32_t *data, uint32_t count, uint32_t tile, uint32_t factor,
                                         uint32_t every)
{
    uint32_t i = tile * SCALE_BLOCK + threadIdx.x;
    if (i >= count) {
        return;
    }
    uint32_t value = data[i] * factor, extra = value;
    if (every != 0 && tile % every == 0) {
        for (uint32_t k = 0; k < SCALE_SKEW_STEPS; k++) {
            extra = extra * 1664525u + k;
            extra ^= extra >> 13;
        }
        value += extra == 0xffffffffu && value == 1 ? 1 : 0; /* never: value is a multiple of the factor */
    }
    data[i] = value;
}

/* One tile per block: balanced by the hardware, but every block computes the factor. */
GANTRY_KERNEL_BOUNDS(scale_fixed_work, SCALE_BLOCK,
                     (uint32_t * data, uint32_t count, uint32_t every, uint32_t seed))
{
    scale_tile(data, count, blockIdx.x, compute_factor(seed), every);
}

/* As many blocks as fit, each with every so-manieth tile: the factor is computed once per block, but a block
 * with the long tiles is waited for, and nobody else gets the multiprocessor until all are done. */
GANTRY_KERNEL_BOUNDS(scale_fixed_blocks, SCALE_BLOCK,
                     (uint32_t * data, uint32_t count, uint32_t every, uint32_t seed))
{
    uint32_t factor = compute_factor(seed), tiles = (count + SCALE_BLOCK - 1) / SCALE_BLOCK;
    for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        scale_tile(data, count, tile, factor, every);
    }
}

/* One tile per block, but a block that is done takes over one that has not begun. */
GANTRY_KERNEL_BOUNDS(scale_stealing, SCALE_BLOCK,
                     (uint32_t * data, uint32_t count, uint32_t every, uint32_t seed))
{
    uint32_t factor = compute_factor(seed), tile = blockIdx.x;
    GANTRY_STEAL(steal);
    do {
        gantry_steal_request(&steal);
        scale_tile(data, count, tile, factor, every);
    } while (gantry_steal_take(&steal, &tile));
}

/* The urgent kernel: a few blocks that do next to nothing. */
GANTRY_KERNEL(scale_urgent, (uint32_t * counter))
{
    if (threadIdx.x == 0) {
        (void)atomicAdd(counter, 1u);
    }
}
