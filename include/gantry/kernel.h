/* SPDX-License-Identifier: MIT */
/**
 * @file kernel.h
 * The kernel dialect: a subset of CUDA C++ that three compilers take from one .cu file.
 *
 *   nvcc              machine code and PTX for devices; the toolkit's own headers do the work
 *   clang -x cuda     PTX for devices without any CUDA header    (kernel/clang.h)
 *   the host C++      machine code for the emulated driver       (kernel/host.h)
 *
 * gantry_add_kernels() of CMake runs them; see GantryKernels.cmake.
 *
 *     #include <gantry/kernel.h>
 *     GANTRY_KERNEL(scale, (float *data, uint32_t count, float factor))
 *     {
 *         uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *         if (i < count) {
 *             data[i] *= factor;
 *         }
 *     }
 *
 * In the dialect, with CUDA's meaning:
 *   __global__ (through GANTRY_KERNEL) __device__ __host__ __constant__ __shared__ __forceinline__
 * __restrict__ threadIdx blockIdx blockDim gridDim warpSize
 *   __syncthreads __syncwarp __threadfence __threadfence_block __threadfence_system
 *   atomicAdd atomicSub atomicMax atomicMin atomicExch atomicCAS atomicAnd atomicOr atomicXor
 *       on int, unsigned, unsigned long long; Add and Exch also on float,
 *       Add also on double
 *   __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync on arithmetic types of 4 and 8 bytes
 *   __ballot_sync __any_sync __all_sync __activemask
 *   min max abs sqrtf rsqrtf fabsf floorf ceilf rintf fminf fmaxf fmaf, __fadd_rn __fmul_rn __fmaf_rn
 *   __float2int_rn __float2int_rz __popc __clz __ffs __funnelshift_r
 *   __float_as_int __int_as_float __float_as_uint __uint_as_float __double_as_longlong __longlong_as_double
 *   __ldg __ldcs __stcs, uint2 uint4 int2 int4 float2 float4 and their make_…
 * Of <math.h> the functions above work in all three forms.  The emulated form has all others, too (expf,
 * powf, sin ...), and so has nvcc; clang without the toolkit's headers has none of these.
 * And of Gantry's own, in all three forms:
 *   GANTRY_KERNEL(name, (parameters)) { body }   a kernel; at global scope, names unique in the file
 *   GANTRY_KERNEL_BOUNDS(name, threads, (…))     the same with the largest block size stated
 *   GANTRY_GRID_CONSTANT                         before a large const struct parameter that is indexed: it
 *                                                is read where it lies, not copied by each thread
 *   GANTRY_DYNAMIC_SHARED(type, pointer);        declares `pointer` to the launch's dynamic shared memory
 *   gantry_global_timer()  gantry_sm_clock()  gantry_smid()  gantry_lane()
 *   cooperative_groups::this_thread_block(): see <gantry/kernel/groups.h>
 *   clusters, barriers of a whole grid, an early start: see <gantry/kernel/launch.h>
 *   GANTRY_KERNEL_RANGE(buffer, id)  what a group of threads does, and when, for recordings; it comes with
 *                                    <gantry/profile_kernel.h>: see <gantry/kernel/ranges.h>
 *
 * Rules that keep the three alike: parameters are trivially copyable; the set of kernels does not depend
 * on the compiler; a thread waits for its siblings only by the functions above (a spin loop on a
 * sibling's store never ends in the emulator); shared memory starts with arbitrary contents; floating
 * point may be contracted into fused multiply-adds on the device, so results that must be equal use
 * integers or the …_rn functions.
 */
#ifndef GANTRY_KERNEL_H
#define GANTRY_KERNEL_H

#ifdef __cplusplus

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) && !defined(__clang__)
/** Before a large const struct parameter that is indexed: it is read where it lies, not copied by each
 * thread. */
#define GANTRY_GRID_CONSTANT __grid_constant__
#else
#define GANTRY_GRID_CONSTANT
#endif

#if defined(__CUDACC__)
/* nvcc, or clang with the toolkit's headers: everything is there already */
/** 1: this compilation is for a device; 0: for the emulated driver. */
#define GANTRY_KERNEL_FORM_DEVICE 1
#elif defined(__CUDA__)
#define GANTRY_KERNEL_FORM_DEVICE 1
#include <gantry/kernel/common.h>
/* after common.h */
#include <gantry/kernel/clang.h>
#else
#define GANTRY_KERNEL_FORM_DEVICE 0
#include <gantry/kernel/common.h>
/* after common.h */
#include <gantry/kernel/host.h>
#endif

#if GANTRY_KERNEL_FORM_DEVICE
/** A kernel: GANTRY_KERNEL(name, (parameters)) { body }, at global scope.  Names are unique in the file. */
#define GANTRY_KERNEL(name, parameters) extern "C" __global__ void name parameters
/** The same, with the largest number of threads of a block. */
#define GANTRY_KERNEL_BOUNDS(name, threads, parameters) \
    extern "C" __global__ void __launch_bounds__(threads) name parameters
/** Declares `pointer`, which points to the launch's dynamic shared memory. */
#define GANTRY_DYNAMIC_SHARED(type, pointer)                                              \
    extern __shared__ __attribute__((aligned(16))) unsigned char gantry_dynamic_shared[]; \
    type *pointer = (type *)gantry_dynamic_shared

/** Nanoseconds of a clock common to the device's multiprocessors. */
static __device__ inline uint64_t gantry_global_timer(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/** Steps of a clock that each multiprocessor has of its own: no two of them need agree. */
static __device__ inline uint64_t gantry_sm_clock(void)
{
    uint64_t steps;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(steps));
    return steps;
}

/** The multiprocessor this thread runs on. */
static __device__ inline uint32_t gantry_smid(void)
{
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

/** This thread's place in its warp, 0 to 31. */
static __device__ inline uint32_t gantry_lane(void)
{
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
#endif

/* after all others */
#include <gantry/kernel/launch.h>

#endif /* __cplusplus */
#endif
