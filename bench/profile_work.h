/* What the kernels of `gantry bench profile` do.  It is work whose length is a number of steps, as
 * arithmetic, which keeps an SM's instruction issue busy as soon as a few blocks are resident, or as loads
 * that wait for each other.  Included by kernel files. */
#ifndef BENCH_PROFILE_WORK_H
#define BENCH_PROFILE_WORK_H

#include "bench/profile_ways.h"

#include <gantry/kernel.h>
#include <gantry/profile_kernel.h>

static __device__ inline uint32_t mix(uint32_t x)
{
    return x * x + 12345u; /* several of these are not one of another kind */
}

/* A number of the warp.  So many instructions for it put what follows elsewhere in memory: where a loop lies
 * within the lines of the instruction cache makes it up to 4 % faster or slower, which is more than what is
 * to be seen here. */
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

/* `data` is zero, which the compiler does not know: each load waits for the one before. */
static __device__ inline uint32_t loads(uint32_t steps, uint32_t x, const uint32_t *data)
{
    uint32_t at = x * 32u + blockIdx.x * 40503u * 128u + threadIdx.x, sum = 0; /* whole lines of the cache */
    for (uint32_t i = 0; i < steps; i++) {
        at += 128u * 7919u;
        sum += data[(at + sum) % BENCH_DATA_WORDS];
    }
    return sum;
}

/* Adds one to one of the counters per block; `sink` keeps the work from being left out. */
static __device__ inline void finish(uint32_t x, uint32_t *counters, uint32_t *sink)
{
    if (x == 0xdeadbeefu) {
        *sink = x;
    }
    if (threadIdx.x == 0) { /* not all on one: that would be what blocks wait for */
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
