/* SPDX-License-Identifier: MIT */
/* Where a ready task goes: to its unit, behind a gate, or to a stream and a bin. */
#ifndef DISPATCHER_LOOP_INTAKE_H
#define DISPATCHER_LOOP_INTAKE_H

#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"

/* Give a ready task, which has passed the gate of units, its stream and bin in `round`. */
void gy_gd_place(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task);

/* Take everything submitted since the last poll, here or elsewhere, into `round`. */
void gy_gd_poll(struct gantry_dispatcher *d, struct gy_round *round);

/* Rule 5.  The last open step has ended, so whatever is binned or arrives now is of a newer one; what that
 * has reserved already is given up, which costs it a wait at most. */
static inline void gy_gd_return_streams_if_due(struct gantry_dispatcher *d)
{
    if (atomic_load_explicit(&d->told.streams_due, memory_order_relaxed) &&
        atomic_exchange(&d->told.streams_due, false)) {
        gy_streams_return_all(&d->streams);
    }
}

#endif
