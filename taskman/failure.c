#include "taskman/failure.h"

#include "taskman/graph/failure.h"

#include <assert.h>

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
    if (has_cause && (is_first || result != GANTRY_ERR_DEVICE_LOST)) {
        gy_log(GANTRY_LOG_INFO, "%s", failure.text);
    }
}
