/* SPDX-License-Identifier: MIT */
#include "work/lent_event.h"

#include <assert.h>
#include <stddef.h>

void gy_lent_event_enter(struct gy_lent_event *event, enum gy_lent_state state)
{
    event->state = state;
}

/* Each holder has the other's event, and each event is in the state that the other one was in. */
static void exchange(struct gy_lent_event *a, struct gy_lent_event *b)
{
    struct gy_lent_event **const of_a = a->holder, **const of_b = b->holder;
    const enum gy_lent_state state = a->state;
    assert(*of_a == a && *of_b == b);
    *of_a = b;
    *of_b = a;
    a->holder = of_b;
    b->holder = of_a;
    gy_lent_event_enter(a, b->state);
    gy_lent_event_enter(b, state);
}

/* The handle of a GIVEN one is not looked at: its holder may change it at any time. */
bool gy_lent_event_exchange(struct gy_lent_event **place, struct gy_lent_event *wanted, CUevent handle)
{
    gy_mutex *const lock = (*place)->lock;
    gy_mutex_lock(lock);
    const bool has = wanted != NULL && wanted->lock == lock &&
                     (*place == wanted || wanted->state != GY_LENT_GIVEN) && wanted->event == handle;
    if (has && *place != wanted) {
        exchange(*place, wanted);
    }
    if ((*place)->state == GY_LENT_NOTED) {
        gy_lent_event_enter(*place, GY_LENT_GIVEN);
    }
    gy_mutex_unlock(lock);
    return has;
}
