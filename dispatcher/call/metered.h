/* SPDX-License-Identifier: MIT */
/* Calls of tasks that are under a bound on GPU time: each begins and ends in an interval of its meter. */
#ifndef DISPATCHER_CALL_METERED_H
#define DISPATCHER_CALL_METERED_H

#include "dispatcher/internal.h"

/* The meter that measures the launches of `task`; NULL: the task is under no bound on GPU time. */
static inline struct gy_meter *gy_gd_meter(const struct gantry_dispatcher *d, const gantry_task *task)
{
    if (!gy_shares_any(&d->shares)) {
        return NULL;
    }
    uint32_t partition = gy_gd_partition_index(d, task);
    struct gy_quota *quota = (struct gy_quota *)gy_task_share(task);
    quota = quota != NULL ? quota : d->shares.of[partition];
    return quota != NULL ? gy_quota_meter(quota, partition) : NULL;
}

/* To be called before a call enqueues on its stream, in the state that captures are in now. */
GANTRY_MUST_CHECK gantry_status gy_metered_enter(const struct gantry_launch *launch);
/* To be called after a call: its interval may be long enough, or the capture. */
GANTRY_MUST_CHECK gantry_status gy_metered_leave(const struct gantry_launch *launch);

#endif
