/* SPDX-License-Identifier: MIT */
/* What the kernels of `gantry bench profile` do.  Its length is a number of steps.  They are arithmetic,
 * which keeps an SM's instruction issue busy as soon as a few blocks are resident, or loads that wait for
 * each other.  Included by kernel files. */
#ifndef BENCH_PROFILE_WORK_H
#define BENCH_PROFILE_WORK_H

#include "bench/profile_ways.h"

#include <gantry/kernel.h>
#include <gantry/profile_kernel.h>

static __device__ inline uint32_t mix(uint32_t x)
{
    /* numbers such that several blocks of one kind do not look like one of another kind */
    return x * x + 12345u;
}

/* Compute a number of the warp with so many instructions.  They move the code that follows to another
 * address.  A loop runs up to 4 % faster or slower depending on where it lies in the lines of the
 * instruction cache, and that is more than the difference which is measured here. */
template <int shift> static __device__ inline uint32_t shifted()
{
    uint32_t x = threadIdx.x / 32 + 1;
    for (int i = 0; i < shift; i++) {
        x = mix(x);
    }
    return x;
}

static __device__ inline uint32_t arithmetic(uint32_t steps, uint32_t x)
{
    for (uint32_t i = 0; i < steps; i++) {
        for (int k = 0; k < 16; k++) {
            x = mix(x);
        }
    }
    return x;
}

/* `data` is zero, which the compiler does not know, so each load waits for the one before. */
static __device__ inline uint32_t loads(uint32_t steps, uint32_t x, const uint32_t *data)
{
    uint32_t at = x * 32u + blockIdx.x * 40503u * 128u + threadIdx.x, sum = 0; /* whole lines of the cache */
    for (uint32_t i = 0; i < steps; i++) {
        at += 128u * 7919u;
        sum += data[(at + sum) % BENCH_DATA_WORDS];
    }
    return sum;
}

/* Add one to one of the counters per block; because of `sink` the compiler cannot leave the work out. */
static __device__ inline void finish(uint32_t x, uint32_t *counters, uint32_t *sink)
{
    if (x == 0xdeadbeefu) {
        *sink = x;
    }
    if (threadIdx.x == 0) { /* there are several counters, or blocks would wait for that one */
        atomicAdd(&counters[blockIdx.x % BENCH_COUNTERS * BENCH_COUNTER_WORDS], 1u);
    }
}

/* A kernel that records its blocks; `work` is an expression of its arguments. */
#define BENCH_RECORDED(name, work)                                                                 \
    GANTRY_KERNEL(name, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink, \
                         void *profile, uint32_t id))                                              \
    {                                                                                              \
        GANTRY_KERNEL_START(profile, id);                                                          \
        (void)data;                                                                                \
        finish(work, counters, sink);                                                              \
        GANTRY_KERNEL_STOP(profile, id);                                                           \
    }

#define BENCH_EIGHT(kind) kind(0) kind(1) kind(2) kind(3) kind(4) kind(5) kind(6) kind(7)

#endif
