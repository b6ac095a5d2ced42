/* SPDX-License-Identifier: MIT */
/* The call of a task's launch callback itself. */
#ifndef DISPATCHER_CALL_CALLBACK_H
#define DISPATCHER_CALL_CALLBACK_H

#include "dispatcher/internal.h"
#include "driver/inside.h"

/* The callback has left another context current. */
GY_COLD void gy_callback_tell(const gantry_task *task);

/* The call of the application's code itself: `task` is the launch's, and of `context`.  The thread lingers
 * outside until gy_inside_return(). */
static GY_INLINE gantry_launch_result gy_callback_enter(struct gantry_launch *launch, const gantry_task *task,
                                                        struct gy_context *context)
{
    gy_outside_begin_lingering();
    gantry_launch_result result = gy_task_launch_fn(task)(launch, gy_task_launch_arg(task));
    if (gy_outside_end_lingering(context)) {
        gy_callback_tell(task);
    }
    return result;
}

/* Call the callback while something is recorded, callbacks are checked, or the thread is stale; `span` is as
 * below. */
GY_COLD gantry_launch_result gy_callback_call_watched(struct gantry_launch *launch, uint64_t span);

/* `d` and `task` are the launch's, and `last` is the calling thread's last error.  `span` is the time when
 * the call began, before anything was put on the stream; 0: nothing is recorded. */
static GY_INLINE gantry_launch_result gy_callback_call(struct gantry_launch *launch,
                                                       const struct gantry_dispatcher *d,
                                                       const gantry_task *task, const struct gy_error *last,
                                                       uint64_t span)
{
    if (last->status != GANTRY_OK) {
        gy_error_clear();
    }
    if (__builtin_expect(span != 0 || atomic_load_explicit(&d->watching.why, memory_order_relaxed) != 0, 0)) {
        return gy_callback_call_watched(launch, span);
    }
    return gy_callback_enter(launch, task, d->config.context);
}

#endif
