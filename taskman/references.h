/* SPDX-License-Identifier: MIT */
/* References on tasks that the application or the GPU dispatcher holds. */
#ifndef TASKMAN_REFERENCES_H
#define TASKMAN_REFERENCES_H

#include "taskman/manager.h"

/* Take one more reference while the manager runs, for the application or the dispatcher, which owns it
 * then.  False: the task was dispatched already. */
bool gy_task_hold_outside(gantry_task *task);

/* Take a reference away on behalf of the application; see gantry_task_remove_reference().  `why` not
 * GANTRY_OK: unless that is refused, the task is going to fail, for which `text` is the reason; NULL: the
 * calling thread's last error is, if it has this status. */
gantry_status gy_taskman_unhold(gantry_task *task, gantry_status why, const char *text);

#endif
