/* SPDX-License-Identifier: MIT */
/* Wake hints: who should be awake when, so that work finds its thread awake.
 *
 * A thread that sleeps is tens of microseconds late.  So a thread which knows that another one will be needed
 * soon gives it a hint:
 *
 *   the giver                                       the thread that is asked
 *   1. gy_wake_hint_give(): until when              1. wakes up, or comes to the end of its spin budget
 *   2. wakes the thread up, if it sleeps            2. gy_wake_hint_left(): for so long it looks on
 *
 * What the protocol promises, and what it asks:
 *
 * - A hint makes nothing right or wrong, it only saves time.  No thread counts on one.  A hint that comes too
 *   late, or for nothing, costs at most one wake-up and one time of looking in vain.
 * - A hint is given only to a thread whose wait mode spins before it sleeps (gy_waiter_spins_first()): in
 *   SPIN and YIELD it does not sleep, in BLOCK it may not look in vain.
 * - A hint is one relaxed atomic, which any thread writes and reads.  An old one only lets a thread look for
 * a little too long or too short.
 * - A newer hint replaces the older one.  A hint is never taken back, it runs out.
 * - A forecast is how a thread that cannot know when it will be needed learns that from the past: the thread
 *   that measures sets how long something took lately, and the thread that could give a hint asks once.
 *
 * docs/design/threading.md says which hints there are: who gives each, when, and to whom. */
#ifndef BASE_WAKE_HINT_H
#define BASE_WAKE_HINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gy_wake_hint {
    _Atomic(uint64_t) until_ns; /* atomic; a time of gy_clock_ns(); 0: no hint was given yet */
};

struct gy_wake_forecast {
    _Atomic(uint64_t) within_ns; /* atomic; 0: not known, or asked for since it was set */
};

/* The thread that is asked should be awake until then.  Any thread. */
static inline void gy_wake_hint_give(struct gy_wake_hint *hint, uint64_t until_ns)
{
    atomic_store_explicit(&hint->until_ns, until_ns, memory_order_relaxed);
}

/* Was a hint ever given?  Spares reading the clock.  Any thread. */
static inline bool gy_wake_hint_was_given(const struct gy_wake_hint *hint)
{
    return atomic_load_explicit(&hint->until_ns, memory_order_relaxed) != 0;
}

/* For so many ns from `now_ns` on the thread that is asked should look; 0: it may sleep.  Any thread. */
static inline uint64_t gy_wake_hint_left(const struct gy_wake_hint *hint, uint64_t now_ns)
{
    uint64_t until = atomic_load_explicit(&hint->until_ns, memory_order_relaxed);
    return now_ns < until ? until - now_ns : 0;
}

/* Note that something which threads wait for came within so many ns lately; 0: later than any thread may
 * look for it.  Any thread. */
static inline void gy_wake_forecast_set(struct gy_wake_forecast *forecast, uint64_t within_ns)
{
    atomic_store_explicit(&forecast->within_ns, within_ns, memory_order_relaxed);
}

/* Return the latest forecast, once; then 0 until one is set again.  Any thread. */
static inline uint64_t gy_wake_forecast_ask(struct gy_wake_forecast *forecast)
{
    if (atomic_load_explicit(&forecast->within_ns, memory_order_relaxed) == 0) {
        return 0;
    }
    return atomic_exchange_explicit(&forecast->within_ns, 0, memory_order_relaxed);
}

#endif
