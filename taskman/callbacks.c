/* SPDX-License-Identifier: MIT */
/* Release callbacks: the application's code, called while a task is being released.
 *
 * A callback may give back the last reference of another task.  One that somebody else runs is queued.  One
 * with nothing to run (a sync point, a name without a task, a task with a preset failure) is released by the
 * thread that took the reference, and its own callback may do the same: called from within each other, a long
 * chain of them would overflow the stack.  So while a thread is inside of a callback such tasks are put
 * aside, and the outermost callback is followed by a loop over them (release.c). */
#include "taskman/callbacks.h"

#include "base/outside.h"

#include <stdio.h>

static GY_COLD void tell(const struct gy_inside *inside, const gantry_task *task)
{
    char what[96];
    snprintf(what, sizeof(what), "the release callback of '%.60s'", gantry_task_label(task));
    inside->tell(what);
}

void gy_task_call_release_fn(gantry_task *task, gantry_status result)
{
    const struct gy_inside *inside = gy_outside_begin();
    task->release(task, task->arg, result);
    if (gy_outside_end(inside)) {
        tell(inside, task);
    }
}

bool gy_task_call_release(gantry_task *task, gantry_status result)
{
    bool is_outermost = !gy_callbacks.is_inside;
    gy_callbacks.is_inside = true;
    gy_task_call_release_fn(task, result);
    return is_outermost;
}

gantry_task *gy_callbacks_next_aside(void)
{
    gantry_task *task = gy_task_list_pop(&gy_callbacks.aside);
    gy_callbacks.is_inside = task != NULL;
    return task;
}

bool gy_task_put_aside(struct gy_ready *ready)
{
    gantry_task *task = ready->resolve.first;
    if (!gy_callbacks.is_inside || task == NULL) {
        return false;
    }
    gy_task_list_add(&gy_callbacks.aside, task);
    return true;
}
