/* SPDX-License-Identifier: MIT */
/* Kernels whose order on the device shows in memory. */
#include <gantry/kernel.h>

/* Words that the host looks at, or writes, while the kernel runs. */
#if GANTRY_KERNEL_FORM_DEVICE
#define PEEK(word) (*(const volatile uint32_t *)(word))
#define POKE(word, value) (*(volatile uint32_t *)(word) = (value))
#else
#define PEEK(word) __atomic_load_n((word), __ATOMIC_ACQUIRE)
#define POKE(word, value) __atomic_store_n((word), (value), __ATOMIC_RELEASE)
#endif

/* begin = tick; end = next tick; `spins` makes the kernel last. */
GANTRY_KERNEL(stamp, (uint32_t * clock, uint32_t *begin, uint32_t *end, uint32_t spins))
{
    if (threadIdx.x != 0) {
        return;
    }
    POKE(begin, atomicAdd(clock, 1u));
    for (uint32_t i = 0; i < spins; i++) {
        atomicAdd(clock, 0u);
    }
    __threadfence();
    POKE(end, atomicAdd(clock, 1u));
}

/* Wait until `*flag` is not 0, for `most_ns` at most; `*seen` says whether it was, plus 1. */
GANTRY_KERNEL(await_flag, (uint32_t * flag, uint32_t *seen, uint64_t most_ns))
{
    if (threadIdx.x != 0) {
        return;
    }
    uint64_t begin = gantry_global_timer();
    uint32_t is_set = 0;
    while (is_set == 0 && gantry_global_timer() - begin < most_ns) {
        is_set = PEEK(flag);
    }
    POKE(seen, 1u + (is_set != 0));
}

/* Like stamp, for the n-th run of a node, which `*runs` counts: it writes begin[n * stride] and the cell
 * behind; run `most` writes where run 0 did.  It lasts `least_ns` or longer. */
GANTRY_KERNEL(stamp_run, (uint32_t * clock, uint32_t *runs, uint32_t most, uint32_t *begin, uint32_t stride,
                          uint64_t least_ns))
{
    if (threadIdx.x != 0) {
        return;
    }
    uint32_t at = atomicAdd(runs, 1u) % most * stride;
    uint64_t from = gantry_global_timer();
    begin[at] = atomicAdd(clock, 1u);
    while (gantry_global_timer() - from < least_ns) {
        atomicAdd(clock, 0u);
    }
    __threadfence();
    POKE(&begin[at + 1], atomicAdd(clock, 1u));
}

/* For any number of threads: each adds `by` to `*clock`. */
GANTRY_KERNEL(count_up, (uint32_t * clock, uint32_t by))
{
    atomicAdd(clock, by);
}

/* The opposite: each subtracts it. */
GANTRY_KERNEL(count_down, (uint32_t * clock, uint32_t by))
{
    atomicAdd(clock, 0u - by);
}
