/* SPDX-License-Identifier: MIT */
/* The kernel dialect for clang -x cuda without CUDA headers: builtins and PTX.  Included by
 * <gantry/kernel.h> only. */
#ifndef GANTRY_KERNEL_CLANG_H
#define GANTRY_KERNEL_CLANG_H

#if defined(__cplusplus) && defined(__CUDA__) && !defined(__CUDACC__)

#define threadIdx                                                                          \
    (uint3{(unsigned)__nvvm_read_ptx_sreg_tid_x(), (unsigned)__nvvm_read_ptx_sreg_tid_y(), \
           (unsigned)__nvvm_read_ptx_sreg_tid_z()})
#define blockIdx                                                                               \
    (uint3{(unsigned)__nvvm_read_ptx_sreg_ctaid_x(), (unsigned)__nvvm_read_ptx_sreg_ctaid_y(), \
           (unsigned)__nvvm_read_ptx_sreg_ctaid_z()})
#define blockDim                                                                            \
    (dim3{(unsigned)__nvvm_read_ptx_sreg_ntid_x(), (unsigned)__nvvm_read_ptx_sreg_ntid_y(), \
          (unsigned)__nvvm_read_ptx_sreg_ntid_z()})
#define gridDim                                                                                 \
    (dim3{(unsigned)__nvvm_read_ptx_sreg_nctaid_x(), (unsigned)__nvvm_read_ptx_sreg_nctaid_y(), \
          (unsigned)__nvvm_read_ptx_sreg_nctaid_z()})

/* __syncthreads() is a builtin of clang. */

GANTRY_KERNEL_FUNCTION void __syncwarp(unsigned mask = 0xffffffffu)
{
    __nvvm_bar_warp_sync(mask);
}

GANTRY_KERNEL_FUNCTION void __threadfence_block(void)
{
    __nvvm_membar_cta();
}

GANTRY_KERNEL_FUNCTION void __threadfence(void)
{
    __nvvm_membar_gl();
}

GANTRY_KERNEL_FUNCTION void __threadfence_system(void)
{
    __nvvm_membar_sys();
}

/* ---- atomics: relaxed, device scope ---- */

#define GANTRY_KERNEL_ATOMIC(name, type, ptx, letter)           \
    GANTRY_KERNEL_FUNCTION type name(type *address, type value) \
    {                                                           \
        type old;                                               \
        asm volatile("atom." ptx " %0, [%1], %2;"               \
                     : "=" letter(old)                          \
                     : "l"(address), letter(value)              \
                     : "memory");                               \
        return old;                                             \
    }
#define GANTRY_KERNEL_ATOMICS(type, kind, bits, letter)                             \
    GANTRY_KERNEL_ATOMIC(atomicMin, type, "min." kind, letter)                      \
    GANTRY_KERNEL_ATOMIC(atomicMax, type, "max." kind, letter)                      \
    GANTRY_KERNEL_ATOMIC(atomicExch, type, "exch." bits, letter)                    \
    GANTRY_KERNEL_ATOMIC(atomicAnd, type, "and." bits, letter)                      \
    GANTRY_KERNEL_ATOMIC(atomicOr, type, "or." bits, letter)                        \
    GANTRY_KERNEL_ATOMIC(atomicXor, type, "xor." bits, letter)                      \
    GANTRY_KERNEL_FUNCTION type atomicCAS(type *address, type expected, type value) \
    {                                                                               \
        type old;                                                                   \
        asm volatile("atom.cas." bits " %0, [%1], %2, %3;"                          \
                     : "=" letter(old)                                              \
                     : "l"(address), letter(expected), letter(value)                \
                     : "memory");                                                   \
        return old;                                                                 \
    }
GANTRY_KERNEL_ATOMICS(int, "s32", "b32", "r")
GANTRY_KERNEL_ATOMICS(unsigned, "u32", "b32", "r")
GANTRY_KERNEL_ATOMICS(unsigned long long, "u64", "b64", "l")
GANTRY_KERNEL_ATOMIC(atomicAdd, int, "add.s32", "r")
GANTRY_KERNEL_ATOMIC(atomicAdd, unsigned, "add.u32", "r")
GANTRY_KERNEL_ATOMIC(atomicAdd, unsigned long long, "add.u64", "l")
GANTRY_KERNEL_ATOMIC(atomicAdd, float, "add.f32", "f")
GANTRY_KERNEL_ATOMIC(atomicAdd, double, "add.f64", "d")
GANTRY_KERNEL_ATOMIC(atomicExch, float, "exch.b32", "f")
#undef GANTRY_KERNEL_ATOMICS
#undef GANTRY_KERNEL_ATOMIC

GANTRY_KERNEL_FUNCTION int atomicSub(int *address, int value)
{
    return atomicAdd(address, -value);
}

GANTRY_KERNEL_FUNCTION unsigned atomicSub(unsigned *address, unsigned value)
{
    return atomicAdd(address, 0u - value);
}

/* ---- warp ---- */

/* The clamp operand: the segment's mask in bits 8 to 12, the last lane that may be read in bits 0 to 4. */
#define GANTRY_KERNEL_SHUFFLE(name, builtin, last)                                                           \
    template <typename T> GANTRY_KERNEL_FUNCTION T name(unsigned mask, T value, int operand, int width = 32) \
    {                                                                                                        \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take values of 4 or 8 bytes");             \
        int clamp = ((32 - width) << 8) | (last);                                                            \
        if constexpr (sizeof(T) == 4) {                                                                      \
            return gantry_bits<T>(builtin(mask, gantry_bits<int>(value), operand, clamp));                   \
        } else {                                                                                             \
            unsigned long long bits = gantry_bits<unsigned long long>(value);                                \
            unsigned low = (unsigned)builtin(mask, (int)(unsigned)bits, operand, clamp);                     \
            unsigned high = (unsigned)builtin(mask, (int)(unsigned)(bits >> 32), operand, clamp);            \
            return gantry_bits<T>(((unsigned long long)high << 32) | low);                                   \
        }                                                                                                    \
    }
GANTRY_KERNEL_SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, 31)
GANTRY_KERNEL_SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, 0)
GANTRY_KERNEL_SHUFFLE(__shfl_down_sync, __nvvm_shfl_sync_down_i32, 31)
GANTRY_KERNEL_SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, 31)
#undef GANTRY_KERNEL_SHUFFLE

GANTRY_KERNEL_FUNCTION unsigned __ballot_sync(unsigned mask, int predicate)
{
    return __nvvm_vote_ballot_sync(mask, predicate != 0);
}

GANTRY_KERNEL_FUNCTION int __any_sync(unsigned mask, int predicate)
{
    return __nvvm_vote_any_sync(mask, predicate != 0);
}

GANTRY_KERNEL_FUNCTION int __all_sync(unsigned mask, int predicate)
{
    return __nvvm_vote_all_sync(mask, predicate != 0);
}

GANTRY_KERNEL_FUNCTION unsigned __activemask(void)
{
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}

/* ---- arithmetic ---- */

#define GANTRY_KERNEL_FLOAT1(name)             \
    GANTRY_KERNEL_FUNCTION float name(float x) \
    {                                          \
        return __builtin_##name(x);            \
    }
#define GANTRY_KERNEL_FLOAT2(name)                      \
    GANTRY_KERNEL_FUNCTION float name(float x, float y) \
    {                                                   \
        return __builtin_##name(x, y);                  \
    }
GANTRY_KERNEL_FLOAT1(sqrtf)
GANTRY_KERNEL_FLOAT1(fabsf)
GANTRY_KERNEL_FLOAT1(floorf)
GANTRY_KERNEL_FLOAT1(ceilf)
GANTRY_KERNEL_FLOAT1(rintf)
GANTRY_KERNEL_FLOAT2(fminf)
GANTRY_KERNEL_FLOAT2(fmaxf)
#undef GANTRY_KERNEL_FLOAT1
#undef GANTRY_KERNEL_FLOAT2

GANTRY_KERNEL_FUNCTION float fmaf(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}

GANTRY_KERNEL_FUNCTION float rsqrtf(float x)
{
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

GANTRY_KERNEL_FUNCTION int abs(int x)
{
    return x < 0 ? -x : x;
}

/* As instructions, so that nothing contracts them. */
GANTRY_KERNEL_FUNCTION float __fadd_rn(float a, float b)
{
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
    return sum;
}

GANTRY_KERNEL_FUNCTION float __fmul_rn(float a, float b)
{
    float product;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
    return product;
}

GANTRY_KERNEL_FUNCTION int __float2int_rn(float x)
{
    int i;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(i) : "f"(x));
    return i;
}

GANTRY_KERNEL_FUNCTION int __float2int_rz(float x)
{
    int i;
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(i) : "f"(x));
    return i;
}

/* ---- streaming loads and stores ---- */

GANTRY_KERNEL_FUNCTION uint4 __ldcs(const uint4 *address)
{
    uint4 v;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}

GANTRY_KERNEL_FUNCTION void __stcs(uint4 *address, uint4 v)
{
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

#endif
#endif
