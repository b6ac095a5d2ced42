/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/again.h"

#include <assert.h>

static uint64_t now(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void put_back(_Atomic(uint64_t) *counter, uint64_t before)
{
    assert(before <= now(counter));
    atomic_store_explicit(counter, before, memory_order_relaxed);
}

void gy_again_remember(struct gantry_dispatcher *d, uint64_t call)
{
    const struct gd_counters *c = &d->counters;
    struct gd_first_time *first = &d->first_time;
    first->call = call;
    first->completions = now(&c->completions);
    for (int i = 0; i < GD_WORKS; i++) {
        first->works[i] = now(&c->works[i]);
    }
}

void gy_again_begin(const struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gd_counters *c = &d->counters;
    struct gd_first_time *first = &d->first_time;
    assert(first->completions_left == 0);
    const bool is_remembered = first->call == now(&c->launch_calls); /* else it has counted nothing else */
    for (int i = 0; i < GD_WORKS && is_remembered; i++) {
        put_back(&c->works[i], first->works[i]);
    }
    put_back(&c->works[GD_KERNELS], launch->kernels);
    put_back(&c->works[GD_COPIES], launch->copies);
    first->completions_left = is_remembered ? now(&c->completions) - first->completions : 0;
}

void gy_again_end(struct gantry_dispatcher *d)
{
    d->first_time.completions_left = 0;
}

bool gy_again_has_completion(struct gantry_dispatcher *d, uint32_t stream, const gantry_task *task)
{
    if (d->first_time.completions_left == 0 || !gy_rings_has(&d->completion, stream, task)) {
        return false;
    }
    d->first_time.completions_left--;
    return true;
}
