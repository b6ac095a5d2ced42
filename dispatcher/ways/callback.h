/* The call of a task's launch callback itself. */
#ifndef DISPATCHER_WAYS_CALLBACK_H
#define DISPATCHER_WAYS_CALLBACK_H

#include "dispatcher/internal.h"

/* `last` is the calling thread's last error; `span` when the call began, before anything was put on the
 * stream, 0: nothing is recorded. */
gantry_launch_result gy_callback_call(struct gantry_launch *launch, const struct gy_error *last,
                                      uint64_t span);

/* The call of a turn (launchers.h).  Any thread. */
gantry_launch_result gy_callback_call_beside(struct gantry_launch *launch);

#endif
