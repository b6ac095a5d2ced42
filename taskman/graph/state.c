/* SPDX-License-Identifier: MIT */
#include "taskman/graph/state.h"

#include <assert.h>

static const unsigned next_states[] = {
#define NEXT(state, mask) [GANTRY_TASK_STATE_##state] = (mask),
    GY_TASK_STATE_MAP(NEXT)
#undef NEXT
};

static const char *const state_names[] = {
#define NAME(state, mask) [GANTRY_TASK_STATE_##state] = #state,
    GY_TASK_STATE_MAP(NAME)
#undef NAME
};

bool gy_task_state_may_go(gantry_task_state from, gantry_task_state to)
{
    return (next_states[from] >> (unsigned)to & 1u) != 0;
}

const char *gy_task_state_name(gantry_task_state state)
{
    return state_names[state];
}

/* The diagram's invariants, as far as the thread that changes the state can check them without a lock.
 * An application that gives back a reference it does not own can make `references` negative; it never
 * becomes positive again once the task was dispatched. */
bool gy_task_is_valid(const gantry_task *task, gantry_task_state state)
{
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    bool runs = gy_task_kind(task) != GANTRY_TASK_SYNC_POINT;
    int32_t result = atomic_load_explicit(&task->result, memory_order_relaxed);
    if (gy_task_has(task, GY_TASK_FROZEN) && task->owner->has_conditions) {
        return true; /* a chosen task does not care for its references */
    }
    switch (state) {
    case GANTRY_TASK_STATE_PLACEHOLDER:
        return !gy_task_has(task, GY_TASK_FILLED) && task->name != NULL && references > 0;
    case GANTRY_TASK_STATE_HELD:
        return gy_task_has(task, GY_TASK_FILLED) && (references > 0 || gy_task_has(task, GY_TASK_FROZEN));
    case GANTRY_TASK_STATE_READY:
        return references <= 0;
    case GANTRY_TASK_STATE_RUNNING:
        return references <= 0 && runs && task->body.run != NULL;
    case GANTRY_TASK_STATE_AWAITED:
        return references <= 0 && gy_task_kind(task) == GANTRY_TASK_CPU;
    case GANTRY_TASK_STATE_DONE:
        return references <= 0;
    case GANTRY_TASK_STATE_FAILED:
        return references <= 0 && result != GANTRY_OK;
    }
    return false;
}

#ifndef NDEBUG
void gy_task_state_check(const gantry_task *task, gantry_task_state next, bool is_first)
{
    assert(is_first || gy_task_state_may_go(gy_task_state_of(task), next));
    assert(gy_task_is_valid(task, next));
}
#endif

static void set_between_runs(gantry_task *task, gantry_task_state state, unsigned more)
{
#ifndef NDEBUG
    gy_task_state_check(task, state, true);
#endif
    unsigned mark = atomic_load_explicit(&task->owner->run_mark, memory_order_relaxed);
    atomic_store_explicit(&task->state, (uint8_t)((unsigned)state | mark | more), memory_order_relaxed);
}

void gy_task_state_hold(void *unused, gantry_task *task)
{
    (void)unused;
    set_between_runs(task, GANTRY_TASK_STATE_HELD, gy_task_never_ran(task) ? 0 : GY_STATE_RAN);
}

void gy_task_state_rest(void *unused, gantry_task *task)
{
    (void)unused;
    unsigned ran = gy_task_never_ran(task) ? 0 : GY_STATE_RAN;
    set_between_runs(task, gy_task_state_of(task), GY_STATE_RESTS | ran);
}

bool gy_task_enter_ready(gantry_task *task)
{
    unsigned mark = atomic_load_explicit(&task->owner->run_mark, memory_order_relaxed);
    uint8_t raw = atomic_load_explicit(&task->state, memory_order_acquire);
    do {
        gantry_task_state state = gy_task_state_meant(task, raw);
        if (state == GANTRY_TASK_STATE_READY || state == GANTRY_TASK_STATE_RUNNING ||
            state == GANTRY_TASK_STATE_AWAITED) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&task->state, &raw,
                                                    (uint8_t)(GANTRY_TASK_STATE_READY | mark),
                                                    memory_order_acq_rel, memory_order_acquire));
    return true;
}
