/* SPDX-License-Identifier: MIT */
/**
 * @file groups.h
 * The block as CUDA's <cooperative_groups.h> has it, for kernels that were written with it and are in the
 * dialect of <gantry/kernel.h> now.  With the toolkit this is that header; otherwise there is
 *
 *   cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
 *   block.sync()                             as __syncthreads()
 *   block.thread_rank()  block.num_threads()  block.size()
 *   block.thread_index()  block.group_index()  block.dim_threads()  block.group_dim()
 *   cooperative_groups::sync(block)
 *
 * Tiles, grids and clusters are not: shuffles, gantry_grid_sync() and gantry_cluster_sync() do what they do.
 */
#ifndef GANTRY_KERNEL_GROUPS_H
#define GANTRY_KERNEL_GROUPS_H

#ifdef __cplusplus

#include <gantry/kernel.h>

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#else

namespace cooperative_groups
{

/** All threads of a block. */
class thread_block
{
  public:
    /** Returns when every thread of the block that has not exited got here. */
    __device__ void sync() const
    {
        __syncthreads();
    }
    /** This thread's number within the block, x fastest. */
    __device__ unsigned thread_rank() const
    {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    /** The threads of the block. */
    __device__ unsigned num_threads() const
    {
        return blockDim.x * blockDim.y * blockDim.z;
    }
    /** The same. */
    __device__ unsigned size() const
    {
        return num_threads();
    }
    /** threadIdx. */
    __device__ dim3 thread_index() const
    {
        return dim3{threadIdx.x, threadIdx.y, threadIdx.z};
    }
    /** blockIdx. */
    __device__ dim3 group_index() const
    {
        return dim3{blockIdx.x, blockIdx.y, blockIdx.z};
    }
    /** blockDim. */
    __device__ dim3 dim_threads() const
    {
        return blockDim;
    }
    /** The same. */
    __device__ dim3 group_dim() const
    {
        return blockDim;
    }
};

/** The block that the calling thread is in. */
static __device__ inline thread_block this_thread_block()
{
    return thread_block();
}

/** block.sync(). */
static __device__ inline void sync(const thread_block &block)
{
    block.sync();
}

} /* namespace cooperative_groups */

#endif
#endif
#endif
