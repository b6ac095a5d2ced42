/* SPDX-License-Identifier: MIT */
/* The kernels of value chains.  Each block adds one number to its word: it is made of the size of the launch
 * and of all parameters; each thread adds one that is made of its number. */
#include <gantry/kernel.h>

#include "tests/campaign/values_cell.h"

static __device__ uint32_t mix(uint32_t hash, uint32_t word)
{
    hash = (hash ^ word) * 16777619u;
    return hash ^ hash >> 15;
}

/* The bytes that the launch asked for. */
#if GANTRY_KERNEL_FORM_DEVICE
static __device__ uint32_t shared_bytes(void)
{
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}
#define SHARED_BYTES() shared_bytes()
#else
#define SHARED_BYTES() (uint32_t) gantry_self->dynamic_shared_bytes
#endif

#define BLOCK() (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))
#define THREAD() (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))

/* The first thread's `hash` becomes what the launch's size and this block say; `flags` 1: so does its place
 * in its cluster. */
#define BEGIN(hash, which, flags)                                                 \
    uint32_t hash = 0;                                                            \
    if (THREAD() == 0) {                                                          \
        hash = mix(mix(mix(mix(2166136261u, which), gridDim.x), gridDim.y), gridDim.z); \
        hash = mix(mix(mix(mix(hash, blockDim.x), blockDim.y), blockDim.z), SHARED_BYTES()); \
        hash = mix(mix(mix(hash, blockIdx.x), blockIdx.y), blockIdx.z);           \
        if ((flags) == 1) {                                                       \
            hash = mix(mix(hash, gantry_cluster_blocks()), gantry_cluster_rank()); \
        }                                                                         \
    }
#define END(out, hash) atomicAdd(&(out)[BLOCK()], THREAD() * THREAD() + 1u + (hash))

#define SCALARS                                                                                    \
    uint32_t *out, uint32_t four, uint64_t eight, uint8_t one, uint16_t two, struct value_tiny three, \
        struct value_small twenty, uint32_t flags
#define MIX_SCALARS(hash)                                                                                     \
    hash = mix(mix(mix(hash, one), two), four);                                                               \
    hash = mix(mix(hash, (uint32_t)eight), (uint32_t)(eight >> 32));                                          \
    for (uint32_t i = 0; i < VALUE_TINY; i++) {                                                               \
        hash = mix(hash, three.bytes[i]);                                                                     \
    }                                                                                                         \
    for (uint32_t i = 0; i < VALUE_SMALL; i++) {                                                              \
        hash = mix(hash, twenty.words[i]);                                                                    \
    }

GANTRY_KERNEL(value_scalars, (SCALARS))
{
    BEGIN(hash, 0u, flags)
    if (THREAD() == 0) {
        MIX_SCALARS(hash)
    }
    END(out, hash);
}

/* The same parameters, another function. */
GANTRY_KERNEL(value_others, (SCALARS))
{
    BEGIN(hash, 1u, flags)
    if (THREAD() == 0) {
        MIX_SCALARS(hash)
    }
    END(out, hash);
}

/* One parameter of this size and a word behind it. */
#define MIX_BLOCK(hash, count)                                                                                \
    if (THREAD() == 0) {                                                                                      \
        for (uint32_t i = 0; i < (count); i++) {                                                              \
            hash = mix(hash, block.words[i]);                                                                 \
        }                                                                                                     \
        hash = mix(hash, four);                                                                               \
    }

GANTRY_KERNEL(value_middle, (uint32_t * out, const GANTRY_GRID_CONSTANT struct value_middle block,
                             uint32_t four, uint32_t flags))
{
    BEGIN(hash, 2u, flags)
    MIX_BLOCK(hash, VALUE_MIDDLE)
    END(out, hash);
}

GANTRY_KERNEL(value_large, (uint32_t * out, const GANTRY_GRID_CONSTANT struct value_large block,
                            uint32_t four, uint32_t flags))
{
    BEGIN(hash, 3u, flags)
    MIX_BLOCK(hash, VALUE_LARGE)
    END(out, hash);
}
