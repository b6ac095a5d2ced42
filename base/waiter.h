/* SPDX-License-Identifier: MIT */
/* The waiter: how a thread waits for what another one will do, as the wait mode says.
 *
 * Every loop of the dispatcher and of the CPU pool that waits is written with one:
 *
 *     struct gy_waiter w = gy_waiter_begin(mode, budget_ns, deadline_ns);
 *     while (!condition()) {
 *         enum gy_waiter_next next = gy_waiter_pause(&w);
 *         if (next == GY_WAITER_GIVE_UP) {
 *             break;
 *         }
 *         if (next == GY_WAITER_SLEEP) {
 *             say that you sleep; look at the condition once more; sleep until woken, or until the deadline
 *         }
 *     }
 *
 * The waiter promises, and asks of its caller:
 *
 * - SPIN and YIELD never sleep: gy_waiter_pause() pauses, and says LOOK or, once the deadline has passed,
 * GIVE_UP.
 * - BLOCK says SLEEP at once and every time.  HYBRID and ADAPTIVE say LOOK until the budget is used up, then
 * SLEEP every time: a wait has one budget, a thread that was woken for something else does not spin again.
 * - The budget counts from the first time that the clock is read, which is the 32nd look, so a wait that is
 * over at once reads no clock; a budget of 0 is none.  In between the clock is read at every 32nd look, a
 * microsecond or two apart, in YIELD at each, since that may take long.
 * - The deadline is a time of gy_clock_ns(), 0: there is none.  It is looked at whenever the clock is read,
 * and before each SLEEP.  The caller's sleep must end by then itself.
 * - The waiter does not sleep, wake or remember anybody, and has no lock: the caller knows what it sleeps on.
 * It is the caller who loses no wake-up: it says that it sleeps, then looks at the condition, while the
 * thread that makes the condition true does so first and looks for sleepers then; all four sequentially
 * consistent (docs/design/threading.md, "Sleeping and waking").
 * - A look that is expensive, or reads what others write, comes after several pauses: gy_waiter_begin_dear().
 * The first looks are one, two, three, … pauses apart, so that a short wait ends soon.
 * - gy_waiter_prolong() gives a waiter whose budget is used up another one, where a hint says that what is
 * waited for will come soon.
 * - A waiter is its thread's own and lives for one wait.
 *
 * A learned budget: gy_waiter_learn() makes it about twice as long as what is waited for lately took to come,
 * since waking up takes tens of microseconds, but never longer than the mode may waste.
 * docs/design/threading.md says who waits how, and who is woken before it is needed. */
#ifndef BASE_WAITER_H
#define BASE_WAITER_H

#include "base/times.h"

#include <gantry/taskman.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    GY_WAITER_CLOCK_LOOKS = 32, /* pauses between two readings of the clock */
};

enum gy_waiter_next { GY_WAITER_LOOK, GY_WAITER_SLEEP, GY_WAITER_GIVE_UP };

struct gy_waiter {
    gantry_wait_mode mode;
    uint32_t looks;
    uint32_t most_pauses; /* pauses between two looks at most; 0: one */
    uint32_t pauses;      /* pauses made so far */
    uint64_t budget_ns;   /* 0: it is used up, or there was none */
    uint64_t spin_until;  /* 0: the clock has not been read yet */
    uint64_t deadline_ns; /* 0: there is none */
};

/* The modes that spin until their budget is used up, and then sleep. */
static inline bool gy_waiter_spins_first(gantry_wait_mode mode)
{
    return mode == GANTRY_WAIT_HYBRID || mode == GANTRY_WAIT_ADAPTIVE;
}

static inline struct gy_waiter gy_waiter_begin(gantry_wait_mode mode, uint64_t budget_ns,
                                               uint64_t deadline_ns)
{
    return (struct gy_waiter){
        .mode = mode, .budget_ns = gy_waiter_spins_first(mode) ? budget_ns : 0, .deadline_ns = deadline_ns};
}

/* gy_waiter_begin() with up to `most_pauses` pauses between two looks, except in SPIN and YIELD. */
static inline struct gy_waiter gy_waiter_begin_dear(gantry_wait_mode mode, uint64_t budget_ns,
                                                    uint64_t deadline_ns, uint32_t most_pauses)
{
    struct gy_waiter waiter = gy_waiter_begin(mode, budget_ns, deadline_ns);
    waiter.most_pauses = mode == GANTRY_WAIT_SPIN || mode == GANTRY_WAIT_YIELD ? 0 : most_pauses;
    return waiter;
}

/* The condition does not hold: pause, and say what to do then. */
enum gy_waiter_next gy_waiter_pause(struct gy_waiter *waiter);

/* The waiter has said SLEEP: now it says LOOK until `until_ns`.  HYBRID and ADAPTIVE only. */
static inline void gy_waiter_prolong(struct gy_waiter *waiter, uint64_t until_ns)
{
    waiter->budget_ns = gy_waiter_spins_first(waiter->mode) ? 1 : 0;
    waiter->spin_until = until_ns;
}

/* Pause once between two looks, as a mode does that does not sleep now; `look` counts the looks. */
void gy_waiter_relax(gantry_wait_mode mode, uint32_t look);

/* The budget after a wait that took `idle_ns`, asleep or not, of a thread that may waste `most_ns`.  A wait
 * that could have been bridged raises it at once and lowers it slowly; one that could not halves it. */
static inline uint64_t gy_waiter_learn(uint64_t budget_ns, uint64_t idle_ns, uint64_t most_ns)
{
    uint64_t next = budget_ns / 2;
    if (idle_ns <= most_ns) {
        uint64_t wanted = 2 * idle_ns;
        next = wanted >= budget_ns ? wanted : budget_ns - (budget_ns - wanted) / 8;
    }
    return next < GY_WAITER_LEAST_NS ? GY_WAITER_LEAST_NS : next > most_ns ? most_ns : next;
}

#ifdef GANTRY_TESTING
extern uint64_t (*gy_waiter_test_clock)(void); /* NULL: gy_clock_ns() */
#endif

#endif
