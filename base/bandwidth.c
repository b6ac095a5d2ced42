/* SPDX-License-Identifier: MIT */
/* The bandwidth gate.
 *
 * One word counts the threads that have raised the gate.  Loops that yield read it, and sleep on it in the
 * kernel with a time limit.  It changes under the lock alone; the thread that brings it to 0 wakes the
 * sleepers.  A sleeper counts itself before the kernel compares the word with what the sleeper has seen, and
 * the lowering thread writes the word before it looks for sleepers: one of the two sees the other.
 *
 * Each thread has an account of how long it was held back, see bandwidth.h. */
#include "base/bandwidth.h"

#include "base/fast_lock.h"
#include "base/options.h"
#include "base/span.h"
#include "base/times.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEFAULT_RUN_PERCENT = 90 };

uint32_t gantry_bandwidth_raised; /* atomic; written under lock */

static gy_fast_lock lock = {.rank = GY_RANK_CPU_POOL};
static uint64_t raised_since_ns;                            /* guarded by lock; while the gate is up */
static uint64_t raises, raised_ns;                          /* guarded by lock */
static _Atomic(uint32_t) sleepers;                          /* atomic */
static _Atomic(uint64_t) bound_ns = GY_BANDWIDTH_HELD_NS;   /* atomic */
static _Atomic(uint32_t) run_percent = DEFAULT_RUN_PERCENT; /* atomic */
static _Atomic(uint32_t) way = GANTRY_BANDWIDTH_SLEEP;      /* atomic; of enum gantry_bandwidth_way */
static _Atomic(uint64_t) holds, held_ns, most_held_ns, bounded, passes; /* atomic */

static _Thread_local uint32_t own_raises; /* of this thread, by calls */
static _Thread_local uint32_t exempt; /* this thread has raised the gate, or works for a thread that has */
static _Thread_local struct gy_bandwidth_account account;

/* ---- raising ------------------------------------------------------------------------------- */

void gy_bandwidth_exempt(void)
{
    exempt++;
}

void gy_bandwidth_unexempt(void)
{
    exempt--;
}

bool gy_bandwidth_is_exempt(void)
{
    return exempt != 0;
}

void gantry_bandwidth_gate_raise(void)
{
    exempt++;
    own_raises++;
    gy_fast_lock_take(&lock);
    uint32_t count = gantry_bandwidth_raised + 1;
    if (count == 1) {
        raised_since_ns = gy_clock_ns();
    }
    raises++;
    __atomic_store_n(&gantry_bandwidth_raised, count, __ATOMIC_SEQ_CST);
    gy_span_count("Raises of the bandwidth gate", count);
    gy_fast_lock_give(&lock);
}

gantry_status gantry_bandwidth_gate_lower(void)
{
    if (own_raises == 0) {
        return GY_FAIL(GANTRY_ERR_STATE, "bandwidth gate: this thread has not raised it");
    }
    exempt--;
    own_raises--;
    gy_fast_lock_take(&lock);
    uint32_t count = gantry_bandwidth_raised - 1;
    if (count == 0) {
        raised_ns += gy_clock_ns() - raised_since_ns;
    }
    __atomic_store_n(&gantry_bandwidth_raised, count, __ATOMIC_SEQ_CST);
    gy_span_count("Raises of the bandwidth gate", count);
    gy_fast_lock_give(&lock);
    if (count == 0 && atomic_load(&sleepers) != 0) {
        syscall(SYS_futex, &gantry_bandwidth_raised, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    return GANTRY_OK;
}

/* ---- being held back ----------------------------------------------------------------------- */

uint64_t gy_bandwidth_allowance(struct gy_bandwidth_account *of, uint64_t now_ns, uint64_t bound,
                                uint32_t percent)
{
    uint64_t paid = (now_ns - of->since_ns) / percent * (100 - percent);
    of->debt_ns -= paid < of->debt_ns ? paid : of->debt_ns;
    of->since_ns = now_ns;
    return of->debt_ns < bound ? bound - of->debt_ns : 0;
}

/* Sleep until the gate is down or the time is over; true: it is down. */
static bool sleep_until(uint64_t end_ns)
{
    bool is_down = false;
    atomic_fetch_add(&sleepers, 1);
    for (;;) {
        uint32_t seen = __atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_SEQ_CST);
        uint64_t now = gy_clock_ns();
        is_down = seen == 0;
        if (is_down || now >= end_ns) {
            break;
        }
        struct timespec left = {.tv_sec = (time_t)((end_ns - now) / 1000000000u),
                                .tv_nsec = (long)((end_ns - now) % 1000000000u)};
        syscall(SYS_futex, &gantry_bandwidth_raised, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
    }
    atomic_fetch_sub(&sleepers, 1);
    return is_down;
}

uint32_t gy_bandwidth_sleepers(void)
{
    return atomic_load(&sleepers);
}

static void count_hold(uint64_t ns, bool is_down)
{
    atomic_fetch_add_explicit(&holds, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&held_ns, ns, memory_order_relaxed);
    if (!is_down) {
        atomic_fetch_add_explicit(&bounded, 1, memory_order_relaxed);
    }
    uint64_t most = atomic_load_explicit(&most_held_ns, memory_order_relaxed);
    while (ns > most && !atomic_compare_exchange_weak_explicit(&most_held_ns, &most, ns, memory_order_relaxed,
                                                               memory_order_relaxed)) {
    }
}

/* The CPU goes to any thread that waits for it; the scheduler decides for how long. */
static void yield_once(void)
{
    const uint64_t begin = gy_clock_ns();
    (void)sched_yield();
    count_hold(gy_clock_ns() - begin, __atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_RELAXED) == 0);
}

void gantry_bandwidth_wait(void)
{
    if (exempt != 0 || __atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_RELAXED) == 0) {
        return;
    }
    if (atomic_load_explicit(&way, memory_order_relaxed) == GANTRY_BANDWIDTH_YIELD) {
        yield_once();
        return;
    }
    uint64_t begin = gy_clock_ns();
    uint64_t allowance =
        gy_bandwidth_allowance(&account, begin, atomic_load_explicit(&bound_ns, memory_order_relaxed),
                               atomic_load_explicit(&run_percent, memory_order_relaxed));
    if (allowance == 0) {
        atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed);
        return;
    }
    uint64_t span = gy_span_begin();
    bool is_down = sleep_until(begin + allowance);
    account.since_ns = gy_clock_ns();
    account.debt_ns += account.since_ns - begin;
    count_hold(account.since_ns - begin, is_down);
    gy_span_end(GY_SPAN_WAIT, "held by the bandwidth gate", span, 0);
}

/* ---- settings and statistics --------------------------------------------------------------- */

gantry_status gantry_bandwidth_configure(const gantry_bandwidth_settings *settings)
{
    gantry_bandwidth_settings ours = {0};
    gantry_status status =
        gy_options_import(&ours, sizeof(ours), settings, offsetof(gantry_bandwidth_settings, most_held_ns),
                          "bandwidth settings");
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours.most_held_ns > GY_BANDWIDTH_HELD_MOST_NS || ours.run_percent > 99) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "bandwidth settings: held for at most a second and running for at most 99 %%");
    }
    if (ours.way > GANTRY_BANDWIDTH_YIELD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "bandwidth settings: there is no way %u", ours.way);
    }
    atomic_store_explicit(&way, ours.way, memory_order_relaxed);
    atomic_store_explicit(&bound_ns, ours.most_held_ns != 0 ? ours.most_held_ns : GY_BANDWIDTH_HELD_NS,
                          memory_order_relaxed);
    atomic_store_explicit(&run_percent, ours.run_percent != 0 ? ours.run_percent : DEFAULT_RUN_PERCENT,
                          memory_order_relaxed);
    return GANTRY_OK;
}

gantry_status gantry_bandwidth_get_stats(gantry_bandwidth_stats *stats)
{
    gy_fast_lock_take(&lock);
    gantry_bandwidth_stats ours = {.raises = raises, .raised_ns = raised_ns};
    gy_fast_lock_give(&lock);
    ours.holds = atomic_load_explicit(&holds, memory_order_relaxed);
    ours.held_ns = atomic_load_explicit(&held_ns, memory_order_relaxed);
    ours.most_held_ns = atomic_load_explicit(&most_held_ns, memory_order_relaxed);
    ours.bounded = atomic_load_explicit(&bounded, memory_order_relaxed);
    ours.passes = atomic_load_explicit(&passes, memory_order_relaxed);
    return gy_stats_export(stats, &ours, sizeof(ours), "bandwidth statistics");
}
