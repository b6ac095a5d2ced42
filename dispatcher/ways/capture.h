/* Calls whose work is noted for a graph: which ones, what comes before and after them, and the launch of what
 * they make.  The modes BATCH and RECORDING of mode.h. */
#ifndef DISPATCHER_WAYS_CAPTURE_H
#define DISPATCHER_WAYS_CAPTURE_H

#include "dispatcher/round.h"

/* Before a call in a round that is to be a graph: whether its batch goes on, begins or is cut, and the call's
 * mode. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_capture_choose(struct gantry_launch *launch);
/* Before a call that is noted, when all else is ready. */
GANTRY_MUST_CHECK gantry_status gy_capture_before(struct gantry_launch *launch);
/* After it: nothing was refused, nothing is to be looked at or learnt.  Else the function below says what
 * becomes of the call. */
static inline bool gy_capture_took(const struct gantry_launch *launch, gantry_launch_result result)
{
    const struct gantry_dispatcher *d = launch->dispatcher;
    return result != GANTRY_LAUNCH_FAILED && launch->trust == GY_TRUST_OURS && !launch->asked &&
           launch->spoilt == NULL && *d->refusals == launch->refusals && d->graphs.may_lend && !launch->aside;
}
gantry_launch_result gy_capture_after(struct gantry_launch *launch, gantry_launch_result result);

/* Launch what is noted, if a graph is being built. */
gantry_status gy_capture_end(struct gantry_dispatcher *d);
/* The same before the end of the batch, the rest of which may begin another graph. */
gantry_status gy_capture_cut(struct gantry_dispatcher *d);

/* In a callback: what it enqueues from now on goes to the plain stream.  Nothing happens if that is so. */
GY_COLD gantry_status gy_capture_leave(struct gantry_launch *launch);
/* In a callback: what follows cannot be captured, now and whenever this callback is called. */
GANTRY_MUST_CHECK gantry_status gy_capture_leave_for_good(struct gantry_launch *launch, const char *why);

#endif
