/* SPDX-License-Identifier: MIT */
/* Whom a guest works for, see guest.h: its own manager alone; and when it keeps the rings that it leads. */
#ifndef DISPATCHER_LOOP_GUEST_RULE_H
#define DISPATCHER_LOOP_GUEST_RULE_H

#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"

/* While no other step is open all work is of the one manager whose step that is. */
static inline bool gy_guest_is_alone(const struct gantry_dispatcher *d)
{
    return atomic_load(&d->told.open_steps) == 1;
}

/* Thread that has the loop: is it a guest that must leave it now?  Not in the middle of a recording. */
bool gy_guest_must_leave(const struct gantry_dispatcher *d, const struct gy_round *round);
static inline bool gy_gd_must_leave(const struct gantry_dispatcher *d, const struct gy_round *round)
{
    return __builtin_expect(d->loop.guest != NULL, 0) && gy_guest_must_leave(d, round);
}

/* A guest takes in nothing that others submit while it records: it may have to leave that to the dispatcher's
 * thread. */
static inline bool gy_gd_is_recorded_by_guest(const struct gantry_dispatcher *d, const struct gy_round *round)
{
    return __builtin_expect(d->loop.guest != NULL, 0) && round->recording != NULL;
}

/* The guest that has the loop is about to do what may last: a completion thread tells completions that are
 * pending already meanwhile.  Those that are asked for in a turn are published at its end. */
void gy_guest_leave_pending_rings(struct gantry_dispatcher *d);

#endif
