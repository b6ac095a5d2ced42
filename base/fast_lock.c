/* SPDX-License-Identifier: MIT */
#include "base/fast_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic(uint32_t)) == 4, "what the kernel looks at");

/* The kernel compares under a lock of its own, so a wake-up between our exchange and our sleep is not lost;
 * whatever it returns, we look again. */
void gy_fast_lock_wait(gy_fast_lock *lock)
{
    enum { LOOKS = 32 }; /* the holder is most likely done in less time than it takes to sleep */
    for (int i = 0; i < LOOKS; i++) {
        uint32_t free_state = 0;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(&lock->state, &free_state, 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            return;
        }
        gy_cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
}

void gy_fast_lock_wake(gy_fast_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
