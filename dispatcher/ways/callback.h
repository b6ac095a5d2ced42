/* The call of a task's launch callback itself. */
#ifndef DISPATCHER_WAYS_CALLBACK_H
#define DISPATCHER_WAYS_CALLBACK_H

#include "dispatcher/internal.h"
#include "driver/inside.h"

/* The callback has left another context current. */
GY_COLD void gy_callback_tell(const gantry_task *task);

/* The call of the application's code itself.  The thread lingers outside until gy_inside_return(). */
static GY_INLINE gantry_launch_result gy_callback_enter(struct gantry_launch *launch)
{
    gy_outside_begin_lingering();
    gantry_launch_result result = gy_task_launch_fn(launch->task)(launch, gy_task_launch_arg(launch->task));
    if (gy_outside_end_lingering(launch->dispatcher->config.context)) {
        gy_callback_tell(launch->task);
    }
    return result;
}

/* Call the callback while something is recorded, or callbacks are checked; `span` is as below. */
GY_COLD gantry_launch_result gy_callback_call_watched(struct gantry_launch *launch, uint64_t span);

/* `last` is the calling thread's last error.  `span` is the time when the call began, before anything was put
 * on the stream; 0: nothing is recorded. */
static GY_INLINE gantry_launch_result gy_callback_call(struct gantry_launch *launch,
                                                       const struct gy_error *last, uint64_t span)
{
    if (last->status != GANTRY_OK) {
        gy_error_clear();
    }
    if (__builtin_expect(span != 0 || launch->dispatcher->checks != 0, 0)) {
        return gy_callback_call_watched(launch, span);
    }
    return gy_callback_enter(launch);
}

/* Call the callback of a turn (launchers.h).  Any thread. */
gantry_launch_result gy_callback_call_beside(struct gantry_launch *launch);

#endif
