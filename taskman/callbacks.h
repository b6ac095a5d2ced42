/* SPDX-License-Identifier: MIT */
/* Release callbacks: the application's code, called while a task is being released. */
#ifndef TASKMAN_CALLBACKS_H
#define TASKMAN_CALLBACKS_H

#include "base/hints.h"
#include "taskman/graph/ready.h"

/* What the calling thread knows of the release callbacks that it is in. */
struct gy_callbacks {
    bool is_inside;
    struct gy_task_list aside; /* READY, to be released; each keeps its manager from being idle */
};
extern _Thread_local struct gy_callbacks gy_callbacks GY_TLS_HOT;

/* Call the task's release callback, and nothing else. */
void gy_task_call_release_fn(gantry_task *task, gantry_status result);

/* Call the task's release callback.  True: no callback of this thread is around it, and the caller releases
 * what was put aside: the tasks that gy_callbacks_next_aside() returns, until that is NULL. */
bool gy_task_call_release(gantry_task *task, gantry_status result);

/* A task that was put aside; NULL, and the thread is inside of no callback any more: none is left. */
gantry_task *gy_callbacks_next_aside(void);

/* The one task in `ready` was let go by the calling thread.  True: the thread is inside of a release
 * callback, and there is nothing to run; the task is released when that has returned. */
bool gy_task_put_aside(struct gy_ready *ready);

#endif
