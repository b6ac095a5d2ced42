/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/release.h"

#include "dispatcher/internal.h"

void gy_gd_release_failed(struct gantry_dispatcher *d, gantry_task *task, gantry_status why)
{
    gy_gd_count(&d->counters.tasks, 1);
    gy_gd_count(&d->counters.tasks_failed, 1);
    gy_context_subject = NULL;
    gy_task_release(task, why, &d->loop.debt);
}
