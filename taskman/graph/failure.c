/* SPDX-License-Identifier: MIT */
#include "taskman/graph/failure.h"

#include <stdio.h>
#include <string.h>

/* The cause, and the task's name, unless that is part of it. */
static void describe(struct gy_error *failure, const char *label, const char *cause)
{
    char quoted[104];
    snprintf(quoted, sizeof(quoted), "'%.100s'", label);
    if (strstr(cause, quoted) != NULL) {
        snprintf(failure->text, sizeof(failure->text), "%s", cause);
    } else {
        snprintf(failure->text, sizeof(failure->text), "task %s failed: %.380s", quoted, cause);
    }
}

bool gy_task_describe_failure(const gantry_task *task, gantry_status result, struct gy_error *out)
{
    const char *label = gantry_task_label(task);
    bool known = gy_status_is_failure(result);
    struct gy_error failure = {.status = known ? result : GANTRY_ERR_TASK_FAILED};
    bool has_cause = gy_error_last()->status != GANTRY_OK;
    if (!has_cause) {
        (void)(known ? GY_FAIL(failure.status, "task '%.100s' returned %s", label, gantry_status_name(result))
                     : GY_FAIL(failure.status, "task '%.100s' returned %d, which is no gantry_status", label,
                               (int)result));
        failure = *gy_error_last();
    } else {
        failure.native = gy_error_last()->native;
        describe(&failure, label, gy_error_last()->text);
    }
    *out = failure;
    return has_cause;
}

struct missing {
    char names[GY_ERROR_TEXT_BYTES - 120];
    size_t used;
};

static void list_unfilled(void *user, gantry_task *task)
{
    struct missing *missing = user;
    if (gy_task_has(task, GY_TASK_FILLED) || missing->used + 60 > sizeof(missing->names)) {
        return;
    }
    int wrote = snprintf(missing->names + missing->used, sizeof(missing->names) - missing->used, " '%.50s'",
                         gantry_task_name(task));
    missing->used += wrote > 0 ? (size_t)wrote : 0;
}

gantry_status gy_graph_fail_unfilled(const char *call, uint64_t unfilled, const struct gy_graph_view *view)
{
    struct missing missing = {.names = "", .used = 0};
    gy_graph_each(view, list_unfilled, &missing);
    return GY_FAIL(GANTRY_ERR_UNFILLED_NAME, "%s: no task was submitted for %llu names:%s", call,
                   (unsigned long long)unfilled, missing.names);
}
