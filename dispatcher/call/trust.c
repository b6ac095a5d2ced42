/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/trust.h"

#include "dispatcher/call/met.h"

/* Its entry; where there is no room to remember it, a free one. */
static struct gy_trust_function *find(struct gy_trusts *t, gantry_launch_fn function)
{
    uint32_t i = (uint32_t)(((uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
    while (t->functions[i].function != NULL && t->functions[i].function != function) {
        i = (i + 1) % GY_TRUSTS_FUNCTIONS;
    }
    if (t->functions[i].function == NULL && t->count < GY_TRUSTS_FUNCTIONS - 1) {
        t->functions[i].function = function;
        t->count++;
    }
    return &t->functions[i];
}

static void set_latest(struct gy_trusts *t, const struct gy_trust_function *f)
{
    t->latest = f;
    t->latest_ours = f->trust == GY_TRUST_OURS ? f->function : NULL;
}

enum gy_trust gy_trusts_find(struct gy_trusts *t, gantry_launch_fn function)
{
    const struct gy_trust_function *f = find(t, function);
    set_latest(t, f);
    return f->function != NULL ? f->trust : GY_TRUST_NO;
}

void gy_trusts_set(struct gy_trusts *t, gantry_launch_fn function, enum gy_trust trust)
{
    struct gy_trust_function *f = find(t, function);
    if (trust == GY_TRUST_OURS) {
        gy_met_add(function, t->met_context);
        trust = t->notes ? trust : GY_TRUST_RAW;
    }
    if (f->function != NULL) {
        f->trust = trust;
        set_latest(t, f);
    }
}

bool gy_trusts_may_meet(struct gy_trusts *t, gantry_launch_fn function, uint64_t batch)
{
    const struct gy_trust_function *f = find(t, function);
    return f->waits_of != batch || f->waits < GY_TRUSTS_WAITS;
}

bool gy_trusts_note_wait(struct gy_trusts *t, gantry_launch_fn function, uint64_t batch)
{
    gy_trusts_set(t, function, GY_TRUST_UNKNOWN);
    struct gy_trust_function *f = find(t, function);
    if (f->function == NULL) {
        return false;
    }
    if (f->waits_of != batch) {
        f->waits_of = batch;
        f->waits = 0;
        f->waiting_batches++;
    }
    f->waits++;
    const bool is_enough = f->waiting_batches >= GY_TRUSTS_WAITS;
    if (is_enough) {
        gy_trusts_set(t, function, GY_TRUST_NO);
    }
    return is_enough;
}

bool gy_trusts_adopt_met(struct gy_trusts *t, gantry_launch_fn function)
{
    const bool is_met = gy_met_has(function, t->met_context);
    if (is_met) {
        gy_trusts_set(t, function, GY_TRUST_OURS);
    }
    return is_met;
}

void gy_trusts_tell_child(struct gy_trusts *t, gantry_launch_fn function, const char *label)
{
    struct gy_trust_function *f = find(t, function);
    const bool is_first = f->trust == GY_TRUST_UNKNOWN; /* who comes once is not told */
    if (f->function != NULL && !is_first && !f->is_told) {
        f->is_told = true;
        gy_log(GANTRY_LOG_INFO,
               "task '%s' enqueues on its stream itself: graphs with work of its function are not patched",
               label);
    }
}
