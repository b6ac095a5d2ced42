/* SPDX-License-Identifier: MIT */
/**
 * @file launch.h
 * For kernels that are launched with gantry_launch_kernel_with(): clusters, barriers of a whole grid, and an
 * early start.  Included by <gantry/kernel.h>; everything works in all three forms of the dialect.
 *
 *   gantry_cluster_blocks()  gantry_cluster_rank()   blocks of this block's cluster, its place among them;
 *                                                    1 and 0 in a launch without clusters
 *   gantry_cluster_sync()                            all threads of the cluster's blocks, as __syncthreads()
 *   gantry_cluster_shared(pointer, rank)             the same place in the shared memory of another block of
 *                                                    the cluster
 *   gantry_grid_sync(word)                           all threads of the grid, in a cooperative launch
 *   GANTRY_KERNEL_EARLY(name, (parameters))          a kernel that may start before earlier work has ended
 *   gantry_wait_for_earlier()                        there: all earlier work has ended, and shows in memory
 *   gantry_let_next_start()                          the next kernel, if it may start early, may start now
 *
 * Rules.  A neighbour's shared memory may be used between two calls of gantry_cluster_sync(): after the first
 * all blocks have begun, and before the second none ends.  In the emulator it must be dynamic shared memory
 * (GANTRY_DYNAMIC_SHARED).  The word of gantry_grid_sync() lies in device memory and is 0 before the first
 * launch that uses it; each launch leaves it as it was, and no two launches use it at the same time.
 *
 * Each block of a kernel that is GANTRY_KERNEL_EARLY calls gantry_wait_for_earlier(), whatever it does: a
 * block that returns without it lets the kernel end, and what comes after it start, before earlier work has
 * ended. Until the call, a block reads only its parameters and memory that no work in flight writes, and
 * writes only registers and shared memory.  The emulator ends a launch as failed in which a block never
 * waits.
 *
 * Clusters and early starts need code for compute capability 9.0: in older code every block is a cluster of
 * its own, and kernels start when all before them has ended. */
#ifndef GANTRY_KERNEL_LAUNCH_H
#define GANTRY_KERNEL_LAUNCH_H

#ifdef __cplusplus

#if GANTRY_KERNEL_FORM_DEVICE

/** A kernel that may start before earlier work has ended; each block calls gantry_wait_for_earlier(). */
#define GANTRY_KERNEL_EARLY(name, parameters) GANTRY_KERNEL(name, parameters)

#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

static __device__ __forceinline__ uint32_t gantry_cluster_blocks(void)
{
    uint32_t blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

static __device__ __forceinline__ uint32_t gantry_cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ __forceinline__ void gantry_cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

template <typename T> static __device__ __forceinline__ T *gantry_cluster_shared(T *pointer, uint32_t rank)
{
    uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"((uint64_t)pointer), "r"(rank));
    return (T *)there;
}

static __device__ __forceinline__ void gantry_wait_for_earlier(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

static __device__ __forceinline__ void gantry_let_next_start(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#else

static __device__ __forceinline__ uint32_t gantry_cluster_blocks(void)
{
    return 1;
}

static __device__ __forceinline__ uint32_t gantry_cluster_rank(void)
{
    return 0;
}

static __device__ __forceinline__ void gantry_cluster_sync(void)
{
    __syncthreads();
}

template <typename T> static __device__ __forceinline__ T *gantry_cluster_shared(T *pointer, uint32_t rank)
{
    (void)rank;
    return pointer;
}

static __device__ __forceinline__ void gantry_wait_for_earlier(void)
{
}

static __device__ __forceinline__ void gantry_let_next_start(void)
{
}

#endif

/* Together the blocks of one barrier add 2^31: block 0 adds what the others leave.  The highest bit of the
 * word turns when all have come, whatever the number of blocks is. */
static __device__ inline void gantry_grid_sync(uint32_t *word)
{
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        const uint32_t blocks = gridDim.x * gridDim.y * gridDim.z;
        const bool is_first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
        __threadfence();
        const uint32_t before = atomicAdd(word, is_first ? 0x80000000u - (blocks - 1u) : 1u);
        while (((*(volatile uint32_t *)word ^ before) & 0x80000000u) == 0u) {
        }
        __threadfence();
    }
    __syncthreads();
}

#else /* the emulator */

GANTRY_KERNEL_FUNCTION uint32_t gantry_cluster_blocks(void)
{
    const uint32_t *size = gantry_self->cluster_size;
    return size[0] * size[1] * size[2];
}

GANTRY_KERNEL_FUNCTION uint32_t gantry_cluster_rank(void)
{
    const uint32_t *size = gantry_self->cluster_size, *block = gantry_self->block_index;
    return block[0] % size[0] + size[0] * (block[1] % size[1] + size[1] * (block[2] % size[2]));
}

GANTRY_KERNEL_FUNCTION void gantry_cluster_sync(void)
{
    gantry_self->ops->cluster_barrier(gantry_self);
}

template <typename T> GANTRY_KERNEL_FUNCTION T *gantry_cluster_shared(T *pointer, uint32_t rank)
{
    return static_cast<T *>(gantry_self->ops->cluster_shared(gantry_self, pointer, rank));
}

GANTRY_KERNEL_FUNCTION void gantry_grid_sync(uint32_t *word)
{
    (void)word;
    gantry_self->ops->grid_barrier(gantry_self);
}

GANTRY_KERNEL_FUNCTION void gantry_wait_for_earlier(void)
{
    gantry_self->ops->wait_for_earlier(gantry_self);
}

GANTRY_KERNEL_FUNCTION void gantry_let_next_start(void)
{
}

#endif

#endif /* __cplusplus */
#endif
