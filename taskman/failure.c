/* SPDX-License-Identifier: MIT */
#include "taskman/failure.h"

#include "base/outside.h"
#include "taskman/cpu/kept_error.h"
#include "taskman/graph/failure.h"

#include <assert.h>

static GY_COLD void tell(const gantry_taskman *manager, const gantry_task *task,
                         const struct gy_error *failure)
{
    struct gy_kept_error before;
    gy_error_keep(&before);
    const struct gy_inside *inside = gy_outside_begin();
    manager->on_failure.tell(manager->on_failure.user, task, failure->status, failure->text);
    gy_outside_end_of(inside, "gantry_taskman_options.on_failure");
    gy_error_put_back(&before);
}

void gy_taskman_keep_failure(gantry_taskman *manager, const gantry_task *task, gantry_status result)
{
    struct gy_error failure;
    bool has_cause = gy_task_describe_failure(task, result, &failure);
    gy_fast_lock_take(&manager->lock);
    bool is_first = manager->failure.status == GANTRY_OK;
    if (is_first) {
        manager->failure = failure;
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    /* The thread that has found the cause has logged it.  A lost device fails every task that was on it: one
     * line says it.
     */
    const bool is_news = is_first || result != GANTRY_ERR_DEVICE_LOST;
    if (has_cause && is_news) {
        gy_log(GANTRY_LOG_INFO, "%s", failure.text);
    }
    if (is_news && manager->on_failure.tell != NULL) {
        tell(manager, task, &failure);
    }
}

void gy_taskman_keep_cause(gantry_task *task, gantry_status why, const char *text)
{
    struct gy_kept_error before;
    gy_error_keep(&before);
    if (text[0] != '\0') {
        (void)GY_FAIL(why, "%s", text);
    }
    gy_taskman_keep_failure(gy_task_manager(task), task, why);
    gy_error_put_back(&before);
}
