/* SPDX-License-Identifier: MIT */
/* Parts of the kernel dialect that clang without CUDA headers and the host compiler share.  Included by
 * <gantry/kernel.h> only. */
#ifndef GANTRY_KERNEL_COMMON_H
#define GANTRY_KERNEL_COMMON_H

#if !defined(__cplusplus) || defined(__CUDACC__)
/* nothing: not a kernel file, or the toolkit has it all */
#else

#if defined(__CUDA__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
#define GANTRY_KERNEL_FUNCTION \
    static __attribute__((device)) __inline__ __attribute__((always_inline, unused))
#else
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utility>
#define __device__
#define __host__
#define __constant__
/* All threads of a block run on one OS thread, and different OS threads run different blocks. */
#define __shared__ static thread_local
#define GANTRY_KERNEL_FUNCTION static inline __attribute__((always_inline, unused))
#endif

#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

/* Kernels read and write memory of any type by whole vectors. */
#define GANTRY_KERNEL_VECTOR2(type, name)                               \
    struct __attribute__((may_alias, aligned(2 * sizeof(type)))) name { \
        type x, y;                                                      \
    };                                                                  \
    GANTRY_KERNEL_FUNCTION name make_##name(type x, type y)             \
    {                                                                   \
        return name{x, y};                                              \
    }
#define GANTRY_KERNEL_VECTOR4(type, name)                                   \
    struct __attribute__((may_alias, aligned(4 * sizeof(type)))) name {     \
        type x, y, z, w;                                                    \
    };                                                                      \
    GANTRY_KERNEL_FUNCTION name make_##name(type x, type y, type z, type w) \
    {                                                                       \
        return name{x, y, z, w};                                            \
    }
GANTRY_KERNEL_VECTOR2(int, int2)
GANTRY_KERNEL_VECTOR2(unsigned, uint2)
GANTRY_KERNEL_VECTOR2(float, float2)
GANTRY_KERNEL_VECTOR4(int, int4)
GANTRY_KERNEL_VECTOR4(unsigned, uint4)
GANTRY_KERNEL_VECTOR4(float, float4)
#undef GANTRY_KERNEL_VECTOR2
#undef GANTRY_KERNEL_VECTOR4

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};

#define warpSize 32

#define GANTRY_KERNEL_MIN_MAX(type)                 \
    GANTRY_KERNEL_FUNCTION type min(type a, type b) \
    {                                               \
        return b < a ? b : a;                       \
    }                                               \
    GANTRY_KERNEL_FUNCTION type max(type a, type b) \
    {                                               \
        return a < b ? b : a;                       \
    }
GANTRY_KERNEL_MIN_MAX(int)
GANTRY_KERNEL_MIN_MAX(unsigned)
GANTRY_KERNEL_MIN_MAX(long)
GANTRY_KERNEL_MIN_MAX(unsigned long)
GANTRY_KERNEL_MIN_MAX(long long)
GANTRY_KERNEL_MIN_MAX(unsigned long long)
GANTRY_KERNEL_MIN_MAX(float)
GANTRY_KERNEL_MIN_MAX(double)
#undef GANTRY_KERNEL_MIN_MAX

GANTRY_KERNEL_FUNCTION int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

GANTRY_KERNEL_FUNCTION int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

GANTRY_KERNEL_FUNCTION int __ffs(int x)
{
    return __builtin_ffs(x);
}

/* The low word of {high, low} shifted right by the low five bits of `shift`. */
GANTRY_KERNEL_FUNCTION unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    unsigned long long both = ((unsigned long long)high << 32) | low;
    return (unsigned)(both >> (shift & 31));
}

GANTRY_KERNEL_FUNCTION float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

/* The same bits as another type. */
#define GANTRY_KERNEL_SAME_BITS(name, from, to)           \
    GANTRY_KERNEL_FUNCTION to name(from x)                \
    {                                                     \
        static_assert(sizeof(from) == sizeof(to), #name); \
        to bits;                                          \
        __builtin_memcpy(&bits, &x, sizeof(bits));        \
        return bits;                                      \
    }
GANTRY_KERNEL_SAME_BITS(__float_as_int, float, int)
GANTRY_KERNEL_SAME_BITS(__int_as_float, int, float)
GANTRY_KERNEL_SAME_BITS(__float_as_uint, float, unsigned)
GANTRY_KERNEL_SAME_BITS(__uint_as_float, unsigned, float)
GANTRY_KERNEL_SAME_BITS(__double_as_longlong, double, long long)
GANTRY_KERNEL_SAME_BITS(__longlong_as_double, long long, double)
#undef GANTRY_KERNEL_SAME_BITS

template <typename T> GANTRY_KERNEL_FUNCTION T __ldg(const T *address)
{
    return *address;
}

/* Bits of a value of 4 or 8 bytes, for shuffles. */
template <typename To, typename From> GANTRY_KERNEL_FUNCTION To gantry_bits(From from)
{
    To to{};
    __builtin_memcpy(&to, &from, sizeof(from) < sizeof(to) ? sizeof(from) : sizeof(to));
    return to;
}

#endif
#endif
