/* SPDX-License-Identifier: MIT */
#include "base/waiter.h"

#include "base/clock.h"
#include "base/thread.h"

#include <sched.h>

#ifdef GANTRY_TESTING
uint64_t (*gy_waiter_test_clock)(void);
#endif

static uint64_t clock_ns(void)
{
#ifdef GANTRY_TESTING
    if (gy_waiter_test_clock != NULL) {
        return gy_waiter_test_clock();
    }
#endif
    return gy_clock_ns();
}

static bool is_over(const struct gy_waiter *w, uint64_t now)
{
    return w->deadline_ns != 0 && now >= w->deadline_ns;
}

static enum gy_waiter_next sleep_unless_over(struct gy_waiter *w)
{
    w->budget_ns = 0;
    return w->deadline_ns != 0 && is_over(w, clock_ns()) ? GY_WAITER_GIVE_UP : GY_WAITER_SLEEP;
}

void gy_waiter_relax(gantry_wait_mode mode, uint32_t look)
{
    if (mode == GANTRY_WAIT_YIELD) {
        sched_yield();
    } else if (mode == GANTRY_WAIT_SPIN) {
        gy_cpu_relax();
    } else {
        gy_spin(look);
    }
}

/* Make the pauses between two looks; true when it is time to read the clock. */
static bool relax(struct gy_waiter *w)
{
    uint32_t before = w->pauses;
    uint32_t count = w->looks < w->most_pauses ? w->looks + 1 : w->most_pauses > 1 ? w->most_pauses : 1;
    w->looks++;
    for (uint32_t i = 0; i < count; i++) {
        gy_waiter_relax(w->mode, w->pauses++);
    }
    return w->mode == GANTRY_WAIT_YIELD ||
           before / GY_WAITER_CLOCK_LOOKS != w->pauses / GY_WAITER_CLOCK_LOOKS;
}

enum gy_waiter_next gy_waiter_pause(struct gy_waiter *w)
{
    bool sleeps = w->mode != GANTRY_WAIT_SPIN && w->mode != GANTRY_WAIT_YIELD;
    if (sleeps && w->budget_ns == 0) {
        return sleep_unless_over(w);
    }
    bool is_time = relax(w);
    if (!is_time || (!sleeps && w->deadline_ns == 0)) {
        return GY_WAITER_LOOK;
    }
    uint64_t now = clock_ns();
    w->spin_until = w->spin_until == 0 ? now + w->budget_ns : w->spin_until;
    if (is_over(w, now)) {
        return GY_WAITER_GIVE_UP;
    }
    if (sleeps && now >= w->spin_until) {
        w->budget_ns = 0; /* the condition may hold by now: it says SLEEP the next time */
    }
    return GY_WAITER_LOOK;
}
