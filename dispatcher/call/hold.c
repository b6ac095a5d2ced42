/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/hold.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/times.h"

#include <assert.h>
#include <sched.h>

void gy_holds_init(struct gy_holds *holds, struct gy_context *context)
{
    *holds = (struct gy_holds){.context = context, .limit_ns = GY_HOLD_NS, .forks = gy_thread_forks()};
    for (uint32_t i = 0; i < GY_HOLDS; i++) {
        atomic_init(&holds->holds[i].is_over, true);
    }
}

void gy_holds_forget(struct gy_holds *holds)
{
    assert(holds->current == NULL);
    CUstream stream = atomic_exchange(&holds->stream, NULL);
    gy_context_drop_stream(holds->context, &stream);        /* this waits, but in a context that is lost */
    const bool is_here = holds->forks == gy_thread_forks(); /* a child process has no thread that is in one */
    for (uint32_t i = 0; i < GY_HOLDS; i++) {
        const struct gy_hold *hold = &holds->holds[i];
        while (is_here && atomic_load(&hold->has_begun) && !atomic_load(&hold->is_over)) {
            sched_yield(); /* it was let go, or gives up by itself, and looks at the hold until it has ended */
        }
    }
}

/* The host function.  It leaves the hold alone behind its last line. */
static void keep(void *arg)
{
    struct gy_hold *hold = arg;
    uint32_t held = GY_HOLD_HELD;
    atomic_store(&hold->has_begun, true);
    while (atomic_load(&hold->state) == GY_HOLD_HELD && gy_clock_ns() < hold->until_ns) {
        sched_yield();
    }
    (void)atomic_compare_exchange_strong(&hold->state, &held, GY_HOLD_GIVEN_UP);
    atomic_store(&hold->is_over, true);
}

void gy_holds_prepare(struct gy_holds *holds)
{
    CUstream made = NULL, none = NULL;
    if (atomic_load(&holds->stream) == NULL &&
        gy_context_create_stream(holds->context, NULL, 0, &made) == GANTRY_OK &&
        !atomic_compare_exchange_strong(&holds->stream, &none, made)) { /* another thread was faster */
        gy_context_drop_stream(holds->context, &made);
    }
}

void gy_hold_begin(struct gy_holds *holds)
{
    struct gy_hold *hold = &holds->holds[holds->next % GY_HOLDS];
    assert(holds->current == NULL);
    gy_holds_prepare(holds);
    const CUstream stream = atomic_load(&holds->stream);
    if (!atomic_load(&hold->is_over) || stream == NULL) {
        return;
    }
    hold->until_ns = gy_clock_ns() + holds->limit_ns;
    atomic_store(&hold->has_begun, false);
    atomic_store(&hold->is_over, false);
    atomic_store(&hold->state, GY_HOLD_HELD);
    if (GY_CALL(holds->context, cuLaunchHostFunc(stream, keep, hold)) != GANTRY_OK) {
        atomic_store(&hold->is_over, true);
        return;
    }
    holds->current = hold;
    holds->next++;
}

enum gy_hold_answer gy_hold_end(struct gy_holds *holds)
{
    struct gy_hold *hold = holds->current;
    uint32_t held = GY_HOLD_HELD;
    if (hold == NULL) {
        return GY_HOLD_UNKNOWN;
    }
    holds->current = NULL;
    return atomic_compare_exchange_strong(&hold->state, &held, GY_HOLD_LET_GO) ? GY_HOLD_DID_NOT_WAIT
                                                                               : GY_HOLD_MAY_HAVE_WAITED;
}
