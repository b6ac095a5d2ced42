/* SPDX-License-Identifier: MIT */
/**
 * @file profile_kernel.h
 * What a kernel needs to be seen block by block in a recording (profile.h): two macros.
 *
 *     #include <gantry/profile_kernel.h>
 *     GANTRY_KERNEL(scale, (float *data, uint32_t count, void *profile, uint32_t id))
 *     {
 *         GANTRY_KERNEL_START(profile, id);
 *         uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *         if (i < count) {
 *             data[i] *= 2;
 *         }
 *         GANTRY_KERNEL_STOP(profile, id);
 *     }
 *
 * `profile` is what gantry_launch_profile() gave for this launch; NULL while nothing is recorded, and then
 * the macros do nothing but compare it.  In a batch that is a graph it may be the address of a slot, which
 * holds what it would be elsewhere: so a graph that is launched again has the same parameters, and START is a
 * load more.  Bit 2 says that it is one.  `id` is the kernel's number, 1 to 1048575: the first number of
 * gantry_profile_register_kernels() plus the kernel's place in the list.
 *
 * Times are read from %globaltimer or, with GANTRY_PROFILE_CLOCK_SM, from the SM's own clock; bit 0 of
 * `profile` says which.  Bit 1 is always set, so that its lower half is never 0 and says whether anything is
 * recorded: while not, the macros are a reading of the clock and a comparison with a constant.
 *
 * Devices from sm_90 on, whose %globaltimer is fine enough, are not asked which clock it is to be: their
 * blocks read that one unless GANTRY_CTA_SM_CLOCK is defined as 1 before the file is included.  It is 1 for
 * all others; each record says what it was.
 *
 * Each block writes one record of 16 bytes into the place that the host has set aside for it, without
 * atomics.  START is to be the first statement of the kernel's body.  STOP waits for the threads of the
 * block that have not returned (a __syncthreads()), and is to be reached by all of those; its first thread
 * (index 0, 0, 0) must be among them, or the block leaves no record and counts as lost.
 *
 * A block that was taken over by another (<gantry/kernel/steal.h>) leaves no record of its own, and is not
 * lost: the block that takes it marks its place, where START comes before GANTRY_STEAL in the same function.
 *
 * What a block's groups of warps do within it can be recorded too: see <gantry/kernel/ranges.h>.
 *
 * With GANTRY_CTA_PROFILING defined as 0 before the file is included, the macros are empty: the machine code
 * is that of a kernel without them.  The image says so: gantry_launch_profile() gives NULL for its kernels,
 * and for those of a file that does not include this one, and none of their blocks counts as lost.
 */
#ifndef GANTRY_PROFILE_KERNEL_H
#define GANTRY_PROFILE_KERNEL_H

#include <gantry/kernel.h>
/* after kernel.h */
#include <gantry/kernel/record.h>

#include <stdint.h>

#ifndef GANTRY_CTA_PROFILING
/** 0: the macros below do nothing in this file, and its kernels leave no records. */
#define GANTRY_CTA_PROFILING 1
#endif

#ifndef GANTRY_CTA_SM_CLOCK
/** 1: blocks can be told to read their SM's clock. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GANTRY_CTA_SM_CLOCK 0
#else
#define GANTRY_CTA_SM_CLOCK 1
#endif
#endif

/** What a block leaves behind.  Its number in the grid is its place among the launch's records. */
typedef struct gantry_cta_record gantry_cta_record;
/** What a block leaves behind. */
struct gantry_cta_record {
    uint64_t start_ns;    /* the clock at START, with the bit below: of the SM; 0: the block left no record,
                           * and was taken over if duration_ns is GANTRY_CTA_TAKEN */
    uint32_t duration_ns; /* until STOP; 0xffffffff: that or longer */
    uint32_t origin;      /* %smid in bits 0 to 11, the kernel's id above */
};
#define GANTRY_CTA_SM_BITS 12                    /* bits of gantry_cta_record.origin for %smid */
#define GANTRY_CTA_OWN_CLOCK ((uint64_t)1 << 63) /* bit of start_ns: the SM's own clock was read */
#define GANTRY_CTA_KERNELS (1u << (32 - GANTRY_CTA_SM_BITS)) /* how many kernel ids there are */

#ifdef __cplusplus
#if GANTRY_CTA_PROFILING

#undef GANTRY_CTA_MACROS
#define GANTRY_CTA_MACROS 2 /* see kernel/host.h */

/** What gantry_launch_profile() means for this launch: a slot is read. */
static __device__ inline void *gantry_cta_find(const void *records)
{
    const uintptr_t address = (uintptr_t)records;
    return ((uint32_t)address & GANTRY_CTA_SLOT) != 0
               ? *(void *const *)(address & ~(uintptr_t)(GANTRY_CTA_SLOT | 3))
               : (void *)address;
}

/** Whether this thread writes its block's record. */
static __device__ inline bool gantry_cta_speaks(void)
{
    return (threadIdx.x | threadIdx.y | threadIdx.z) == 0;
}

/** What the clock shows that these records are read from. */
static __device__ inline uint64_t gantry_cta_now(const void *records)
{
#if GANTRY_CTA_SM_CLOCK
    if (((uint32_t)(uintptr_t)records & 1) != 0) {
        return gantry_sm_clock() | GANTRY_CTA_OWN_CLOCK;
    }
#else
    (void)records;
#endif
    return gantry_global_timer();
}

/** The clock at the start of the block. */
/* On a device all threads read the clock: it costs a warp no more than to ask which of them speaks, or even
 * whether anything is recorded, for which the kernel's first loads would have to wait. */
static __device__ inline uint64_t gantry_cta_start(const void *records)
{
#if GANTRY_KERNEL_FORM_DEVICE && !GANTRY_CTA_SM_CLOCK
    return gantry_cta_now(records);
#else
    uint64_t start;
#if GANTRY_KERNEL_FORM_DEVICE
    asm volatile("" : "=l"(start)); /* anything, without an instruction */
    const bool reads = gantry_cta_records(records);
#else
    start = 0;
    const bool reads = gantry_cta_records(records) && gantry_cta_speaks();
#endif
    if (reads) {
        start = gantry_cta_now(records);
    }
    return start;
#endif
}

/** Leave the block's record. */
static __device__ inline void gantry_cta_stop(void *records, uint32_t kernel, uint64_t start)
{
    if (!gantry_cta_records(records)) {
        return;
    }
    const bool speaks = gantry_cta_speaks();
    __syncthreads();
    if (speaks) {
        const uint32_t sm = gantry_smid(); /* what takes longest comes first */
        const uint64_t duration = gantry_cta_now(records) - start;
        const uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        const uint4 record = make_uint4((uint32_t)start, (uint32_t)(start >> 32),
                                        duration >> 32 == 0 ? (uint32_t)duration : 0xffffffffu,
                                        sm + (kernel << GANTRY_CTA_SM_BITS));
        __stcs((uint4 *)gantry_cta_address(records) + block, record);
    }
}

/** The first statement of a kernel that leaves records: `records` is what gantry_launch_profile() gave,
 * `kernel` the kernel's id. */
#define GANTRY_KERNEL_START(records, kernel)                 \
    void *const gantry_cta_found = gantry_cta_find(records); \
    const uint64_t gantry_cta_started = gantry_cta_start(gantry_cta_found)
/** The last statement; it waits for the threads of the block that have not returned. */
#define GANTRY_KERNEL_STOP(records, kernel) \
    ((void)(records), gantry_cta_stop(gantry_cta_found, (kernel), gantry_cta_started))

#else

#define GANTRY_KERNEL_START(records, kernel) ((void)0)
#define GANTRY_KERNEL_STOP(records, kernel) ((void)(records), (void)(kernel))

#endif
#endif

/* after the macros */
#include <gantry/kernel/ranges.h>

#endif
