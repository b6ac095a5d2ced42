/* SPDX-License-Identifier: MIT */
/* Pre- and post-launch tasks: what brackets a burst of launches. */
#include "dispatcher/internal.h"

#include "base/handle.h"
/* The callback enqueues nothing: it is called when everything that the task comes after was launched, and
 * its stream is ordered behind all of that. */
static gantry_launch_result launch_post(gantry_launch *launch, void *finished)
{
    return gantry_launch_add_completion(launch, finished) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                       : GANTRY_LAUNCH_FAILED;
}

static gantry_status submit(gantry_taskman *manager, gantry_task_kind kind, const char *label,
                            gantry_task *finished, gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.label = label;
    if (kind != GANTRY_TASK_SYNC_POINT) {
        desc.launch = launch_post;
        desc.arg = finished;
        desc.is_stable = true;
    }
    return gantry_taskman_submit(manager, &desc, out);
}

/* While a step runs, the submitter of a task holds a reference on it.  On failure that is given back, so
 * that nothing is left that the step would wait for. */
static void let_go(gantry_task *task)
{
    if (gantry_task_references(task) > 0) {
        (void)gantry_task_remove_reference(task);
    }
}

gantry_status gantry_taskman_submit_launch_tasks(gantry_taskman *manager, gantry_launch_tasks *out)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || out == NULL || out->struct_size < sizeof(*out)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_taskman_submit_launch_tasks: %s",
                       manager == NULL ? "manager is NULL" : "out is NULL, or its struct_size too small");
    }
    gantry_launch_tasks tasks = {.struct_size = out->struct_size};
    gantry_status status = submit(manager, GANTRY_TASK_SYNC_POINT, "finished", NULL, &tasks.finished);
    if (status != GANTRY_OK) {
        return status;
    }
    status = submit(manager, GANTRY_TASK_DTOH, "post-launch", tasks.finished, &tasks.post_launch);
    if (status != GANTRY_OK) {
        goto let_finished_go;
    }
    status = submit(manager, GANTRY_TASK_SYNC_POINT, "pre-launch", NULL, &tasks.pre_launch);
    if (status != GANTRY_OK) {
        goto let_post_go;
    }
    status = gantry_task_start_after(tasks.finished, tasks.post_launch);
    if (status == GANTRY_OK) {
        status = gantry_task_start_after(tasks.post_launch, tasks.pre_launch);
    }
    if (status != GANTRY_OK) {
        goto let_pre_go;
    }
    *out = tasks;
    return GANTRY_OK;
let_pre_go:
    let_go(tasks.pre_launch);
let_post_go:
    let_go(tasks.post_launch);
let_finished_go:
    let_go(tasks.finished);
    return status;
}
