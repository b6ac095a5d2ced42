/* SPDX-License-Identifier: MIT */
/* The arrows between spans in a recording: each task has a number of its own in each run. */
#ifndef TASKMAN_ARROWS_H
#define TASKMAN_ARROWS_H

#include "base/hints.h"
#include "taskman/cpu/worker.h"

/* Emit the span of the body that the worker ran last, `task`'s.  It is emitted when its dependents are known,
 * since an arrow leads from it to those of the GPU (`submits`), and before anybody can run them. */
GY_COLD void gy_worker_emit_body(struct gy_worker *self, gantry_task *task, bool submits);

#endif
