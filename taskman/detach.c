/* SPDX-License-Identifier: MIT */
/* Work that ends later, for bodies and for the application. */
#include "base/handle.h"
#include "base/options.h"
#include "base/proof.h"
#include "taskman/arrows.h"
#include "taskman/awaits.h"
#include "taskman/cpu/bundle.h"
#include "taskman/cpu/classes.h"

static gantry_status detach(gantry_task *task, const gantry_detach_options *theirs, gantry_detached *out)
{
    gantry_detach_options options = {0};
    struct gy_worker *self = gy_worker_current;
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_task_detach: `out` is NULL");
    }
    gantry_status status = gy_options_import(&options, sizeof(options), theirs,
                                             offsetof(gantry_detach_options, grace_ns), "gantry_task_detach");
    if (status != GANTRY_OK) {
        return status;
    }
    if (self == NULL || self->running != task || self->activity != GY_WORKER_IN_BODY) {
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_task_detach: this is not the body of task '%s'",
                       gantry_task_label(task));
    }
    if (self->said.detached != 0) {
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_task_detach: task '%s' is detached already",
                       gantry_task_label(task));
    }
    if (gy_task_is_condition(task)) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_task_detach: task '%s' is a condition, which chooses when its body returns",
                       gantry_task_label(task));
    }
    status = gy_await_begin(task, &options, NULL, &self->said.detached);
    if (status == GANTRY_OK) {
        gy_worker_begin_bundles(self);
        *out = self->said.detached;
    }
    return status;
}

gantry_status gantry_task_detach(gantry_task *task, gantry_detached *out)
{
    GY_NEED(TASK, task);
    return detach(task, NULL, out);
}

gantry_status gantry_task_detach_with(gantry_task *task, const gantry_detach_options *options,
                                      gantry_detached *out)
{
    GY_NEED(TASK, task);
    return detach(task, options, out);
}

gantry_status gantry_task_complete(gantry_detached handle, gantry_status status, const char *text)
{
    if (handle == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_task_complete: the handle is 0");
    }
    if (status != GANTRY_OK && !gy_status_is_failure(status)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_task_complete: %d is no gantry_status",
                       (int)status);
    }
    return gy_await_complete(handle, status, text);
}

/* Nothing of the worker or of the manager is touched behind the last call: the task may be released in it. */
void gy_worker_leave_awaited(struct gy_worker *self, gantry_task *task, gantry_status result,
                             gy_dispatch_fn *dispatch)
{
    const gantry_detached handle = self->said.detached;
    const bool is_of_class = gy_task_class(task) != 0;
    if (self->span.begin_ns != 0) {
        gy_worker_emit_body(self, task, false);
    }
    if (gy_proof() != NULL) {
        gy_proof()->body_end(task);
    }
    if (gy_task_has(task, GY_TASK_SPAWNED)) {
        gy_task_clear(task, GY_TASK_SPAWNED); /* no worker may be there to take its place back */
    }
    self->said.detached = 0;
    self->running = NULL;
    gy_worker_enter(self, GY_WORKER_BETWEEN);
    if (is_of_class) {
        gy_worker_leave_class(self);
    }
    gy_await_body_ended(task, handle, result, dispatch);
}
