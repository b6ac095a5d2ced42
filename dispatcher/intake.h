/* Where a ready task goes: to its region, behind a gate, or to a stream and a bin. */
#ifndef DISPATCHER_INTAKE_H
#define DISPATCHER_INTAKE_H

#include "dispatcher/internal.h"

/* Give a ready task its stream and bin. */
void gy_gd_place(struct gantry_dispatcher *d, gantry_task *task);

/* Take everything submitted since the last poll, here or elsewhere, into the bins. */
void gy_gd_poll(struct gantry_dispatcher *d);

/* Rule 5.  The last open step has ended, so whatever is binned or arrives now is of a newer one; what that
 * has reserved already is given up, which costs it a wait at most. */
void gy_gd_return_streams_if_due(struct gantry_dispatcher *d);

#endif
