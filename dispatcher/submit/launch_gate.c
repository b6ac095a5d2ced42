/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/launch_gate.h"

#include "base/waiter.h"

gantry_status gy_launch_gate_init(struct gy_launch_gate *g, uint64_t spin_budget_ns)
{
    g->spin_budget_ns = spin_budget_ns;
    return gy_guard_init(&g->lock, GY_RANK_LEAF, &g->launched);
}

void gy_launch_gate_fini(struct gy_launch_gate *g)
{
    gy_guard_fini(&g->lock, &g->launched);
}

void gy_launch_gate_close(struct gy_launch_gate *g)
{
    gy_mutex_lock(&g->lock);
    atomic_fetch_add_explicit(&g->closes, 1, memory_order_release);
    atomic_store_explicit(&g->open, false, memory_order_release);
    gy_cond_broadcast(&g->launched);
    gy_mutex_unlock(&g->lock);
}

/* Has the capture ended that was under way when `closes` was `seen`? */
static bool was_closed(const struct gy_launch_gate *g, uint64_t seen)
{
    return !atomic_load_explicit(&g->open, memory_order_acquire) ||
           atomic_load_explicit(&g->closes, memory_order_acquire) != seen;
}

/* Is work of the manager in the batch?  Its work in earlier ones was launched. */
static bool holds_of(const struct gy_launch_gate *g, const struct gantry_taskman *manager)
{
    const struct gantry_taskman *holds = atomic_load_explicit(&g->holds, memory_order_relaxed);
    return holds == manager || holds == GY_GATE_SEVERAL;
}

void gy_launch_gate_wait(struct gy_launch_gate *g, const struct gantry_taskman *manager)
{
    uint64_t seen = atomic_load_explicit(&g->closes, memory_order_acquire);
    if (!atomic_load_explicit(&g->open, memory_order_acquire) || !holds_of(g, manager)) {
        return;
    }
    struct gy_waiter waiter = gy_waiter_begin(GANTRY_WAIT_HYBRID, g->spin_budget_ns, 0);
    atomic_fetch_add_explicit(&g->waiting, 1, memory_order_relaxed);
    while (!was_closed(g, seen)) {
        if (gy_waiter_pause(&waiter) == GY_WAITER_SLEEP) {
            gy_mutex_lock(&g->lock);
            while (!was_closed(g, seen)) {
                gy_cond_wait(&g->launched, &g->lock);
            }
            gy_mutex_unlock(&g->lock);
        }
    }
    atomic_fetch_sub_explicit(&g->waiting, 1, memory_order_relaxed);
}

void gy_launch_gate_pause(struct gy_launch_gate *g)
{
    atomic_fetch_add_explicit(&g->waiting, 1, memory_order_relaxed);
    gy_mutex_lock(&g->lock);
    g->pauses++; /* this comes first, so that no capture begins between the end of this one and our waking up
                  */
    while (g->open) {
        gy_cond_wait(&g->launched, &g->lock);
    }
    gy_mutex_unlock(&g->lock);
    atomic_fetch_sub_explicit(&g->waiting, 1, memory_order_relaxed);
}

void gy_launch_gate_resume(struct gy_launch_gate *g)
{
    gy_mutex_lock(&g->lock);
    g->pauses--;
    gy_cond_broadcast(&g->launched);
    gy_mutex_unlock(&g->lock);
}

void gy_launch_gate_open(struct gy_launch_gate *g)
{
    gy_mutex_lock(&g->lock);
    while (g->pauses != 0) {
        gy_cond_wait(&g->launched, &g->lock);
    }
    atomic_store_explicit(&g->holds, NULL, memory_order_relaxed);
    g->open = true;
    gy_mutex_unlock(&g->lock);
}
