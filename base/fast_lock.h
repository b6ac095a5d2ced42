/* SPDX-License-Identifier: MIT */
/* A mutex for critical sections of a few dozen instructions on paths where two calls into libc would be
 * seen.  Taking a free one and giving it back is one inline instruction each; a thread that finds it taken
 * sleeps in the kernel.  It cannot be waited on with a condition variable.
 *
 * U. Drepper, "Futexes Are Tricky", 2011, the second mutex: 0 is free, 1 is taken, 2 is taken and perhaps a
 * thread sleeps. */
#ifndef BASE_FAST_LOCK_H
#define BASE_FAST_LOCK_H

#include "base/hints.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct GY_CAPABILITY("mutex") gy_fast_lock {
    _Atomic(uint32_t) state; /* atomic; see above */
    enum gy_rank rank;       /* immutable after init */
} gy_fast_lock;

static inline void gy_fast_lock_init(gy_fast_lock *lock, enum gy_rank rank)
{
    atomic_init(&lock->state, 0);
    lock->rank = rank;
}

GY_COLD void gy_fast_lock_wait(gy_fast_lock *lock);
GY_COLD void gy_fast_lock_wake(gy_fast_lock *lock);

/* False: it is taken.  A function that goes on elsewhere then has nothing to keep while it waits. */
static inline bool gy_fast_lock_try(gy_fast_lock *lock) GY_TRY_ACQUIRE(true, *lock) GY_NO_ANALYSIS
{
    uint32_t free_state = 0;
    gy_rank_check(lock->rank);
    const bool is_ours = atomic_compare_exchange_strong_explicit(&lock->state, &free_state, 1,
                                                                 memory_order_acquire, memory_order_relaxed);
    if (is_ours) {
        gy_rank_hold(lock->rank);
    }
    return is_ours;
}

static inline void gy_fast_lock_take(gy_fast_lock *lock) GY_ACQUIRE(*lock) GY_NO_ANALYSIS
{
    if (!gy_fast_lock_try(lock)) {
        gy_fast_lock_wait(lock);
        gy_rank_hold(lock->rank);
    }
}

static inline void gy_fast_lock_give(gy_fast_lock *lock) GY_RELEASE(*lock) GY_NO_ANALYSIS
{
    gy_rank_drop(lock->rank);
    if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2) {
        gy_fast_lock_wake(lock);
    }
}

#endif
