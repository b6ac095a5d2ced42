/* SPDX-License-Identifier: MIT */
/* The kernels of a chain that hops from device to device: the one that holds it back, and its links. */
#include <gantry/kernel.h>

#if GANTRY_KERNEL_FORM_DEVICE
#define LOOK(word) (*(const volatile uint32_t *)(word))
#else
#define LOOK(word) __atomic_load_n((word), __ATOMIC_ACQUIRE)
#endif

/* Until the word in page-locked memory is not 0, but no longer than `most_ns`: nothing hangs. */
GANTRY_KERNEL(hop_gate, (const uint32_t *word, uint64_t most_ns))
{
    uint64_t begin = gantry_global_timer();
    while (LOOK(word) == 0 && gantry_global_timer() - begin < most_ns) {
    }
}

/* One thread at a time, since each link comes after the one before. */
GANTRY_KERNEL(hop_link, (uint32_t *count))
{
    *count += 1;
}
