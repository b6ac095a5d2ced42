/* Calls of tasks that are under a bound on GPU time: each begins and ends in a segment of its lane. */
#ifndef DISPATCHER_WAYS_METERED_H
#define DISPATCHER_WAYS_METERED_H

#include "dispatcher/internal.h"

/* What the launches of `task` are measured with; NULL: nothing, it is under no bound on GPU time. */
static inline struct gy_lane *gy_gd_lane(const struct gantry_dispatcher *d, const gantry_task *task)
{
    if (!gy_shares_any(&d->shares)) {
        return NULL;
    }
    uint32_t partition = gy_gd_partition_index(d, task);
    struct gy_account *account = (struct gy_account *)gy_task_share(task);
    account = account != NULL ? account : d->shares.of[partition];
    return account != NULL ? account->lanes[partition] : NULL;
}

/* Before a call enqueues on its stream, in the state that captures are in now. */
GANTRY_MUST_CHECK gantry_status gy_metered_enter(const struct gantry_launch *launch);
/* After a call: its segment may be long enough, or the capture. */
GANTRY_MUST_CHECK gantry_status gy_metered_leave(const struct gantry_launch *launch);

#endif
