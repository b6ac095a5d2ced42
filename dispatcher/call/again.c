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
    first->batched_copies = now(&c->batched_copies);
    first->peer_copies = now(&c->peer_copies);
    for (int by = 0; by < GY_COPY_WAYS; by++) {
        first->between[by] = now(&c->between[by]);
        first->between_bytes[by] = now(&c->between_bytes[by]);
    }
}

void gy_again_begin(const struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    struct gd_counters *c = &d->counters;
    struct gd_first_time *first = &d->first_time;
    assert(first->completions_left == 0);
    put_back(&c->kernels, launch->kernels);
    put_back(&c->copies, launch->copies);
    if (first->call != now(&c->launch_calls)) {
        return; /* it has counted nothing else */
    }
    first->completions_left = now(&c->completions) - first->completions;
    put_back(&c->batched_copies, first->batched_copies);
    put_back(&c->peer_copies, first->peer_copies);
    for (int by = 0; by < GY_COPY_WAYS; by++) {
        put_back(&c->between[by], first->between[by]);
        put_back(&c->between_bytes[by], first->between_bytes[by]);
    }
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
