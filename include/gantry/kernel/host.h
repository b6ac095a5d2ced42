/* SPDX-License-Identifier: MIT */
/* The kernel dialect for the host's C++ compiler: kernels that the emulated driver runs.  Included by
 * <gantry/kernel.h> only.
 *
 * A kernel becomes a static function; GANTRY_KERNEL also specialises gantry_slot<N> for it, N counted by
 * __COUNTER__.  After the last kernel, GANTRY_HOST_MODULE (put there by gantry_add_kernels()) walks all N
 * and builds the module's table at compile time, so nothing has to be registered when the program starts. */
#ifndef GANTRY_KERNEL_HOST_H
#define GANTRY_KERNEL_HOST_H

#if defined(__cplusplus) && !defined(__CUDA__) && !defined(__CUDACC__)

#include <gantry/host_module.h>

/* The engine's thread; set when it enters a kernel of this file.  It is the same object for all threads
 * that ever run on one OS thread: the engine rewrites its fields when it switches. */
static thread_local struct gantry_host_thread *gantry_self __attribute__((unused));

/* ---- tables ---- */

namespace
{

template <typename P> inline P gantry_load(const void *value)
{
    P parameter;
    memcpy(static_cast<void *>(&parameter), value, sizeof(P)); /* the launch need not align it */
    return parameter;
}

template <auto Body> struct gantry_entry;
template <typename... P, void (*Body)(P...)> struct gantry_entry<Body> {
    static constexpr uint32_t count = sizeof...(P);
    static constexpr uint32_t bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};

    template <size_t... I> static void call(void *const *args, std::index_sequence<I...>)
    {
        (void)args;
        Body(gantry_load<P>(args[I])...);
    }

    static void run(struct gantry_host_thread *self, void *const *args)
    {
        gantry_self = self;
        call(args, std::index_sequence_for<P...>());
    }
};

/* Slot N of the file; __COUNTER__ values that other code took stay empty. */
template <int N> struct gantry_slot {
    static constexpr bool used = false;
    static constexpr bool early = false;
    static constexpr gantry_host_kernel kernel{};
};

template <auto Body, bool Early> struct gantry_used_slot {
    static constexpr bool used = true;
    static constexpr bool early = Early;
    static constexpr gantry_host_kernel entry(const char *name)
    {
        return gantry_host_kernel{name, gantry_entry<Body>::run, gantry_entry<Body>::count,
                                  gantry_entry<Body>::bytes};
    }
};

template <size_t Count> struct gantry_table {
    gantry_host_kernel kernels[Count + 1];
    const char *names[Count + 1]; /* NULL-terminated */
    const char *early[Count + 1]; /* of GANTRY_KERNEL_EARLY; NULL-terminated */
};

template <size_t... N> constexpr size_t gantry_count(std::index_sequence<N...>)
{
    return (size_t{0} + ... + (gantry_slot<N>::used ? 1 : 0));
}

template <size_t Count, size_t... N> constexpr gantry_table<Count> gantry_collect(std::index_sequence<N...>)
{
    gantry_table<Count> table{};
    size_t next = 0, early = 0;
    ((gantry_slot<N>::used ? (void)(table.names[next] = gantry_slot<N>::kernel.name,
                                    table.kernels[next] = gantry_slot<N>::kernel, next++)
                           : (void)0),
     ...);
    ((gantry_slot<N>::early ? (void)(table.early[early++] = gantry_slot<N>::kernel.name) : (void)0), ...);
    (void)early;
    return table;
}

} /* namespace */

#ifdef GANTRY_KERNEL_LISTING /* gantry_add_kernels() reads the kernels' parameters from preprocessed text */
#define GANTRY_KERNEL(name, parameters) gantry_listed_kernel name parameters gantry_listed_end
#define GANTRY_KERNEL_EARLY(name, parameters) GANTRY_KERNEL(name, parameters)
#else
#define GANTRY_KERNEL(name, parameters) GANTRY_KERNEL_SLOT(name, parameters, false)
#define GANTRY_KERNEL_EARLY(name, parameters) GANTRY_KERNEL_SLOT(name, parameters, true)
#endif
#define GANTRY_KERNEL_SLOT(name, parameters, early)                                             \
    static void gantry_body_##name parameters;                                                  \
    namespace                                                                                   \
    {                                                                                           \
    template <> struct gantry_slot<__COUNTER__> : gantry_used_slot<gantry_body_##name, early> { \
        static constexpr gantry_host_kernel kernel = entry(#name);                              \
    };                                                                                          \
    }                                                                                           \
    static void gantry_body_##name parameters
#define GANTRY_KERNEL_BOUNDS(name, threads, parameters) GANTRY_KERNEL(name, parameters)

/* 1 once profile_kernel.h is included and not turned off. */
#define GANTRY_CTA_MACROS 0

/* Defines `static const gantry_host_module gantry_host_module_<module>` and the list of kernel names
 * `gantry_kernel_names_<module>`, and `gantry_early_names_<module>`; once per file, after its last kernel. */
#define GANTRY_HOST_MODULE(module)                                                               \
    namespace                                                                                    \
    {                                                                                            \
    using gantry_slots_##module = std::make_index_sequence<__COUNTER__>;                         \
    constexpr auto gantry_table_##module =                                                       \
        gantry_collect<gantry_count(gantry_slots_##module())>(gantry_slots_##module());          \
    constexpr gantry_host_module gantry_host_module_##module = {                                 \
        GANTRY_HOST_MODULE_MAGIC,      #module,           gantry_count(gantry_slots_##module()), \
        gantry_table_##module.kernels, GANTRY_CTA_MACROS, 0};                                    \
    constexpr const char *const *gantry_kernel_names_##module = gantry_table_##module.names;     \
    constexpr const char *const *gantry_early_names_##module = gantry_table_##module.early;      \
    }

/* ---- the thread ---- */

GANTRY_KERNEL_FUNCTION uint3 gantry_index3(const uint32_t *v)
{
    return uint3{v[0], v[1], v[2]};
}

GANTRY_KERNEL_FUNCTION dim3 gantry_size3(const uint32_t *v)
{
    return dim3{v[0], v[1], v[2]};
}

#define threadIdx (gantry_index3(gantry_self->thread_index))
#define blockIdx (gantry_index3(gantry_self->block_index))
#define blockDim (gantry_size3(gantry_self->block_size))
#define gridDim (gantry_size3(gantry_self->grid_size))

#define GANTRY_DYNAMIC_SHARED(type, pointer) type *pointer = static_cast<type *>(gantry_self->dynamic_shared)

GANTRY_KERNEL_FUNCTION uint64_t gantry_global_timer(void)
{
    return gantry_self->ops->global_timer(gantry_self);
}

/* Two steps a nanosecond, from an origin that differs between SMs. */
GANTRY_KERNEL_FUNCTION uint64_t gantry_sm_clock(void)
{
    return gantry_global_timer() * 2 + gantry_self->sm * UINT64_C(1000000007);
}

GANTRY_KERNEL_FUNCTION uint32_t gantry_smid(void)
{
    return gantry_self->sm;
}

GANTRY_KERNEL_FUNCTION uint32_t gantry_lane(void)
{
    const struct gantry_host_thread *t = gantry_self;
    return (t->thread_index[0] +
            t->block_size[0] * (t->thread_index[1] + t->block_size[1] * t->thread_index[2])) %
           32u;
}

GANTRY_KERNEL_FUNCTION void __syncthreads(void)
{
    gantry_self->ops->block_barrier(gantry_self);
}

GANTRY_KERNEL_FUNCTION void __syncwarp(unsigned mask = 0xffffffffu)
{
    gantry_self->ops->warp_barrier(gantry_self, mask);
}

/* A fence that ThreadSanitizer understands too, which knows no fences. */
GANTRY_KERNEL_FUNCTION void __threadfence(void)
{
    static int anchor;
    (void)__atomic_fetch_add(&anchor, 0, __ATOMIC_SEQ_CST);
}

GANTRY_KERNEL_FUNCTION void __threadfence_block(void)
{
    __threadfence();
}

GANTRY_KERNEL_FUNCTION void __threadfence_system(void)
{
    __threadfence();
}

/* ---- atomics: relaxed, as on the device ---- */

#define GANTRY_KERNEL_ATOMIC(name, type, builtin)               \
    GANTRY_KERNEL_FUNCTION type name(type *address, type value) \
    {                                                           \
        return builtin(address, value, __ATOMIC_RELAXED);       \
    }
#define GANTRY_KERNEL_ATOMIC_IF(name, type, condition)                                                   \
    GANTRY_KERNEL_FUNCTION type name(type *address, type value)                                          \
    {                                                                                                    \
        type old = __atomic_load_n(address, __ATOMIC_RELAXED);                                           \
        while ((condition) && !__atomic_compare_exchange_n(address, &old, value, true, __ATOMIC_RELAXED, \
                                                           __ATOMIC_RELAXED)) {                          \
        }                                                                                                \
        return old;                                                                                      \
    }
#define GANTRY_KERNEL_ATOMICS(type)                                                           \
    GANTRY_KERNEL_ATOMIC(atomicAdd, type, __atomic_fetch_add)                                 \
    GANTRY_KERNEL_ATOMIC(atomicExch, type, __atomic_exchange_n)                               \
    GANTRY_KERNEL_ATOMIC(atomicAnd, type, __atomic_fetch_and)                                 \
    GANTRY_KERNEL_ATOMIC(atomicOr, type, __atomic_fetch_or)                                   \
    GANTRY_KERNEL_ATOMIC(atomicXor, type, __atomic_fetch_xor)                                 \
    GANTRY_KERNEL_ATOMIC_IF(atomicMin, type, value < old)                                     \
    GANTRY_KERNEL_ATOMIC_IF(atomicMax, type, old < value)                                     \
    GANTRY_KERNEL_FUNCTION type atomicCAS(type *address, type expected, type value)           \
    {                                                                                         \
        (void)__atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, \
                                          __ATOMIC_RELAXED);                                  \
        return expected;                                                                      \
    }
GANTRY_KERNEL_ATOMICS(int)
GANTRY_KERNEL_ATOMICS(unsigned)
GANTRY_KERNEL_ATOMICS(unsigned long long)
GANTRY_KERNEL_ATOMIC(atomicSub, int, __atomic_fetch_sub)
GANTRY_KERNEL_ATOMIC(atomicSub, unsigned, __atomic_fetch_sub)
#undef GANTRY_KERNEL_ATOMICS
#undef GANTRY_KERNEL_ATOMIC_IF
#undef GANTRY_KERNEL_ATOMIC

GANTRY_KERNEL_FUNCTION float atomicExch(float *address, float value)
{
    float old;
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
    return old;
}

#define GANTRY_KERNEL_ATOMIC_ADD(type)                                                                       \
    GANTRY_KERNEL_FUNCTION type atomicAdd(type *address, type value)                                         \
    {                                                                                                        \
        type old, sum;                                                                                       \
        __atomic_load(address, &old, __ATOMIC_RELAXED);                                                      \
        do {                                                                                                 \
            sum = old + value;                                                                               \
        } while (!__atomic_compare_exchange(address, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        return old;                                                                                          \
    }
GANTRY_KERNEL_ATOMIC_ADD(float)
GANTRY_KERNEL_ATOMIC_ADD(double)
#undef GANTRY_KERNEL_ATOMIC_ADD

/* ---- warp ---- */

template <typename T> GANTRY_KERNEL_FUNCTION T gantry_shuffle(unsigned mask, T value, uint32_t source)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take values of 4 or 8 bytes");
    return gantry_bits<T>(gantry_self->ops->shuffle(gantry_self, mask, gantry_bits<uint64_t>(value), source));
}

/* A source outside the segment of `width` lanes leaves a lane its own value. */

template <typename T> GANTRY_KERNEL_FUNCTION T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    uint32_t first = gantry_lane() & ~(uint32_t)(width - 1);
    return gantry_shuffle(mask, value, first + ((uint32_t)source & (uint32_t)(width - 1)));
}

template <typename T>
GANTRY_KERNEL_FUNCTION T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    uint32_t lane = gantry_lane();
    uint32_t place = lane & (uint32_t)(width - 1);
    return gantry_shuffle(mask, value, delta <= place ? lane - delta : lane);
}

template <typename T>
GANTRY_KERNEL_FUNCTION T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    uint32_t lane = gantry_lane();
    uint32_t left = (uint32_t)(width - 1) - (lane & (uint32_t)(width - 1));
    return gantry_shuffle(mask, value, delta <= left ? lane + delta : lane);
}

template <typename T>
GANTRY_KERNEL_FUNCTION T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
    uint32_t lane = gantry_lane();
    uint32_t last = lane | (uint32_t)(width - 1);
    uint32_t source = lane ^ (uint32_t)lanes;
    return gantry_shuffle(mask, value, source <= last ? source : lane);
}

GANTRY_KERNEL_FUNCTION unsigned __ballot_sync(unsigned mask, int predicate)
{
    return gantry_self->ops->ballot(gantry_self, mask, predicate);
}

GANTRY_KERNEL_FUNCTION int __any_sync(unsigned mask, int predicate)
{
    return gantry_self->ops->ballot(gantry_self, mask, predicate != 0) != 0;
}

GANTRY_KERNEL_FUNCTION int __all_sync(unsigned mask, int predicate)
{
    return gantry_self->ops->ballot(gantry_self, mask, predicate == 0) == 0;
}

/* The emulator runs one thread at a time, so only the caller is active. */
GANTRY_KERNEL_FUNCTION unsigned __activemask(void)
{
    return 1u << gantry_lane();
}

/* ---- arithmetic; <math.h> has the rest ---- */

GANTRY_KERNEL_FUNCTION float rsqrtf(float x)
{
    return 1.0f / __builtin_sqrtf(x);
}

GANTRY_KERNEL_FUNCTION float __fadd_rn(float a, float b)
{
    return a + b;
}

GANTRY_KERNEL_FUNCTION float __fmul_rn(float a, float b)
{
    return a * b;
}

/* Out of range values saturate and NaN becomes 0, as on the device. */
GANTRY_KERNEL_FUNCTION int __float2int_rz(float x)
{
    if (x != x) {
        return 0;
    }
    if (x >= 2147483648.0f) {
        return 0x7fffffff;
    }
    return x < -2147483648.0f ? -0x7fffffff - 1 : (int)x;
}

GANTRY_KERNEL_FUNCTION int __float2int_rn(float x)
{
    return __float2int_rz(__builtin_rintf(x));
}

template <typename T> GANTRY_KERNEL_FUNCTION T __ldcs(const T *address)
{
    return *address;
}

template <typename T> GANTRY_KERNEL_FUNCTION void __stcs(T *address, T value)
{
    *address = value;
}

#endif
#endif
