/* SPDX-License-Identifier: MIT */
/* A kernel that ends when the host says so. */
#include <gantry/kernel.h>

GANTRY_KERNEL(hold, (uint32_t *begun, const uint32_t *open))
{
#if GANTRY_KERNEL_FORM_DEVICE
    *(volatile uint32_t *)begun = 1;
    while (*(const volatile uint32_t *)open == 0) {
    }
#else
    __atomic_store_n(begun, 1u, __ATOMIC_RELEASE);
    while (__atomic_load_n(open, __ATOMIC_ACQUIRE) == 0) {
    }
#endif
}
