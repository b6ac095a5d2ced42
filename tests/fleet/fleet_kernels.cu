/* SPDX-License-Identifier: MIT */
/* The kernel of tests/dispatcher/order_kernels.cu for a clock that several devices advance. */
#include <gantry/kernel.h>

/* Add to a word that all devices reach, as one step for all of them. */
#if GANTRY_KERNEL_FORM_DEVICE
#define ADD(word, by, before) \
    asm volatile("atom.sys.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(by) : "memory")
#define POKE(word, value) (*(volatile uint32_t *)(word) = (value))
#define SPIN(count) asm volatile("add.u32 %0, %0, 1;" : "+r"(count)) /* some cycles */
#else
#define ADD(word, by, before) ((before) = __atomic_fetch_add((word), (by), __ATOMIC_SEQ_CST))
#define SPIN(count) ((void)__atomic_fetch_add(&(count), 1u, __ATOMIC_SEQ_CST))
#define POKE(word, value) __atomic_store_n((word), (value), __ATOMIC_RELEASE)
#endif

/* begin = tick; end = next tick; `spins` makes the kernel last. */
GANTRY_KERNEL(stamp, (uint32_t * clock, uint32_t *begin, uint32_t *end, uint32_t spins))
{
    if (threadIdx.x != 0) {
        return;
    }
    uint32_t tick;
    ADD(clock, 1u, tick);
    POKE(begin, tick);
    for (uint32_t i = 0; i < spins; i++) {
        SPIN(tick);
    }
    __threadfence();
    ADD(clock, 1u, tick);
    POKE(end, tick);
}

/* The same for a task that is launched again without a call: it reads the number of the run from memory. */
GANTRY_KERNEL(stamp_in_run, (uint32_t * clock, uint32_t *begin, const uint32_t *run, uint32_t stride,
                             uint32_t spins))
{
    if (threadIdx.x != 0) {
        return;
    }
    uint32_t tick;
    begin += *(const volatile uint32_t *)run * stride;
    ADD(clock, 1u, tick);
    POKE(begin, tick);
    for (uint32_t i = 0; i < spins; i++) {
        SPIN(tick);
    }
    __threadfence();
    ADD(clock, 1u, tick);
    POKE(begin + 1, tick);
}
