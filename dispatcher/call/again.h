/* SPDX-License-Identifier: MIT */
/* A noted call that is made again: what its first time has counted, and which completions it has asked for.
 *
 * The work that it noted the first time is taken back, and so is what was counted for that work.  Completions
 * stay: a task whose reference were given back could start, and could not be held once more.  So a completion
 * that the second time asks for, too, is the one that is there.  GD is the dispatcher's thread. */
#ifndef DISPATCHER_CALL_AGAIN_H
#define DISPATCHER_CALL_AGAIN_H

#include "dispatcher/internal.h"

/* Remember the counters that few calls change: gy_again_before_count() asks for it. */
GY_COLD void gy_again_remember(struct gantry_dispatcher *d, uint64_t call);

/* In a callback, before anything is counted but kernels and single copies. */
static inline void gy_again_before_count(const struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    if (!gy_mode_is_noted(launch)) {
        return;
    }
    const uint64_t call = atomic_load_explicit(&d->counters.launch_calls, memory_order_relaxed);
    if (d->first_time.call != call) {
        gy_again_remember(d, call);
    }
}

/* GD: the work of the call was taken back, and it will be made again. */
void gy_again_begin(const struct gantry_launch *launch);
void gy_again_end(struct gantry_dispatcher *d);

/* In a call that is made again: has its first time asked for this completion?  That one is for both. */
bool gy_again_has_completion(struct gantry_dispatcher *d, uint32_t stream, const gantry_task *task);

#endif
