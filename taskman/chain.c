/* SPDX-License-Identifier: MIT */
/* Chains: the commonest graph, in one call. */
#include "base/handle.h"
#include "base/status.h"
#include "taskman/graph/task.h"

gantry_status gantry_taskman_submit_chain(gantry_taskman *manager, const gantry_task_desc *descs,
                                          size_t count, gantry_task **out)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || (descs == NULL && count != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "chain: manager or descs is NULL");
    }
    for (size_t i = 0; i < count && out != NULL; i++) {
        out[i] = NULL;
    }
    gantry_task *before = NULL;
    const char *place = (const char *)descs;
    for (size_t i = 0; i < count; i++, place += descs->struct_size) { /* the caller's size, of any age */
        gantry_task *task;
        gantry_status status = gantry_taskman_submit(manager, (const gantry_task_desc *)place, &task);
        if (status != GANTRY_OK) {
            return status;
        }
        if (out != NULL) {
            out[i] = task;
        }
        status = before != NULL ? gantry_task_start_after(task, before) : GANTRY_OK;
        if (status != GANTRY_OK) {
            return status;
        }
        before = task;
    }
    return GANTRY_OK;
}
