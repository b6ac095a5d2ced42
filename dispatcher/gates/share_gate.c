/* SPDX-License-Identifier: MIT */
/* The gate of GPU time: a bound that shares keep (shares.h). */
#include "dispatcher/call/metered.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/gates/quota.h"
#include "dispatcher/submit/replay_units.h"

/* While a unit is recorded, the gate has decided for all of it already.  A task that was cancelled is not
 * held: it is released, or, where it has begun, goes on, on credit. */
static bool share_admits(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    bool ends = !gy_task_may_begin(task);
    struct gy_meter *meter = gy_gd_meter(d, task);
    if (meter == NULL || round->recording != NULL || (ends && task->launch_index == 0) ||
        (ends ? gy_meter_has_room(&d->shares, meter)
              : gy_meter_admits(&d->shares, meter, task->launch_index != 0))) {
        return true;
    }
    gy_meter_hold(meter, round->phase, task);
    return false;
}

static void poll_share(struct gantry_dispatcher *d, struct gy_round *round, bool all)
{
    if (gy_shares_any(&d->shares) && gy_shares_unhold(&d->shares, &round->bins, all)) {
        gy_units_try_again(d);
    }
}

static void cancel_share(struct gantry_dispatcher *d, struct gy_round *round)
{
    if (gy_shares_any(&d->shares)) {
        gy_shares_cancel(&d->shares, &round->bins);
        gy_units_try_again(d);
    }
}

static uint64_t share_deadline(struct gantry_dispatcher *d)
{
    return gy_shares_any(&d->shares) ? gy_shares_deadline(&d->shares) : 0;
}

static bool share_holds(struct gantry_dispatcher *d)
{
    return gy_shares_hold_any(&d->shares);
}

static bool share_is_valid(const struct gantry_dispatcher *d)
{
    return gy_shares_are_valid(&d->shares);
}

const struct gy_gate gy_gate_share = {.name = "share",
                                      .admits = share_admits,
                                      .poll = poll_share,
                                      .cancel = cancel_share,
                                      .deadline = share_deadline,
                                      .holds = share_holds,
                                      .is_valid = share_is_valid};
