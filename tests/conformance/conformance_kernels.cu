/* SPDX-License-Identifier: MIT */
/* Kernels of the conformance suite. */
#include <gantry/kernel.h>
#include <gantry/kernel/surface.h>

GANTRY_KERNEL(cf_add, (uint32_t * data, uint32_t count, uint32_t value))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] += value;
    }
}

/* Every thread of a 3-D grid writes its indices at its linear place. */
GANTRY_KERNEL(cf_geometry, (uint32_t * out))
{
    uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    uint32_t place = block * blockDim.x * blockDim.y * blockDim.z + thread;
    out[place] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x + 10000 * threadIdx.y +
                 100000 * threadIdx.z;
}

/* Reverse each block's part through shared memory, which needs the barrier. */
GANTRY_KERNEL(cf_reverse, (uint32_t * data))
{
    GANTRY_DYNAMIC_SHARED(uint32_t, shared);
    uint32_t *mine = data + blockIdx.x * blockDim.x;
    shared[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

struct cf_triple {
    uint32_t a;
    uint8_t b;
    uint64_t c;
};

/* Parameters of many sizes and alignments. */
GANTRY_KERNEL(cf_parameters, (uint64_t * out, uint8_t byte, uint16_t half, uint32_t word, uint64_t big,
                              float real, struct cf_triple triple))
{
    out[0] = byte;
    out[1] = half;
    out[2] = word;
    out[3] = big;
    out[4] = (uint64_t)(real * 4.0f);
    out[5] = triple.a;
    out[6] = triple.b;
    out[7] = triple.c;
}

/* Each block writes the multiprocessor on which it ran. */
GANTRY_KERNEL(cf_place, (uint32_t * out))
{
    if (threadIdx.x == 0) {
        out[blockIdx.x] = gantry_smid();
    }
}

/* Touch the last word of the dynamic shared memory. */
GANTRY_KERNEL(cf_shared, (uint32_t * out, uint32_t words))
{
    GANTRY_DYNAMIC_SHARED(uint32_t, shared);
    shared[words - 1] = words;
    __syncthreads();
    out[0] = shared[words - 1];
}

/* The kernel ends when the host says so. */
GANTRY_KERNEL(cf_hold, (uint32_t * begun, const uint32_t *open, uint32_t *ended))
{
#if GANTRY_KERNEL_FORM_DEVICE
    *(volatile uint32_t *)begun = 1;
    while (*(const volatile uint32_t *)open == 0) {
    }
    *(volatile uint32_t *)ended = 1;
#else
    __atomic_store_n(begun, 1u, __ATOMIC_RELEASE);
    while (__atomic_load_n(open, __ATOMIC_ACQUIRE) == 0) {
    }
    __atomic_store_n(ended, 1u, __ATOMIC_RELEASE);
#endif
}

/* Every block keeps its place for `ns` and then counts itself. */
GANTRY_KERNEL(cf_crowd, (uint32_t * count, uint64_t ns))
{
    if (threadIdx.x == 0) {
        const uint64_t until = gantry_global_timer() + ns;
        while (gantry_global_timer() < until) {
        }
        atomicAdd(count, 1u);
    }
    __syncthreads();
}

GANTRY_KERNEL(cf_look, (uint32_t * count, uint32_t *seen))
{
    *seen = atomicAdd(count, 0u);
}

/* Each block writes its number to its shared memory and reads that of the next block of its cluster. */
GANTRY_KERNEL(cf_cluster, (uint32_t * out))
{
    GANTRY_DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t rank = gantry_cluster_rank(), blocks = gantry_cluster_blocks();
    shared[threadIdx.x] = 1000u * blockIdx.x + threadIdx.x;
    gantry_cluster_sync();
    const uint32_t *next = gantry_cluster_shared(shared, (rank + 1u) % blocks);
    out[blockIdx.x * blockDim.x + threadIdx.x] = next[threadIdx.x];
    gantry_cluster_sync();
}

/* Each block counts itself three times; after each barrier it notes how many had come. */
GANTRY_KERNEL(cf_meet, (uint32_t * word, uint32_t *count, uint32_t *seen))
{
    for (uint32_t turn = 0; turn < 3; turn++) {
        if (threadIdx.x == 0) {
            atomicAdd(count, 1u);
        }
        gantry_grid_sync(word);
        if (threadIdx.x == 0) {
            seen[turn * gridDim.x + blockIdx.x] = atomicAdd(count, 0u);
        }
        gantry_grid_sync(word);
    }
}

/* data[i] = 2 * data[i] + by: the result is wrong unless all work that was launched before is done. */
GANTRY_KERNEL_EARLY(cf_early, (uint32_t * data, uint32_t by))
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    gantry_let_next_start();
    gantry_wait_for_earlier();
    data[i] = 2u * data[i] + by;
}

/* Columns of an image change places, from the left and the right; there is one thread per column and one
 * block per row.  *outside collects the texels that are read outside of the image. */
GANTRY_KERNEL(cf_mirror, (gantry_surface image, uint32_t width, uint32_t *outside))
{
    uint32_t x = threadIdx.x, y = blockIdx.y;
    uint32_t left = gantry_surface_read<uint32_t>(image, x, y);
    if (x >= width) {
        atomicAdd(outside, left);
        gantry_surface_write(image, 99u, x, y);
    } else if (x < width / 2) {
        uint32_t right = gantry_surface_read<uint32_t>(image, width - 1 - x, y);
        gantry_surface_write(image, right, x, y);
        gantry_surface_write(image, left, width - 1 - x, y);
    }
}
