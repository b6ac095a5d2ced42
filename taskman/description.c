/* SPDX-License-Identifier: MIT */
#include "taskman/description.h"

#include "base/handle.h"
#include "base/options.h"
#include "taskman/access.h"
#include "taskman/cpu/queues.h"
#include "taskman/port.h"

#include <stddef.h>
#include <string.h>

uint32_t gy_taskman_partition_number(const gantry_taskman *manager, const gantry_partition *partition,
                                     uint32_t *device)
{
    return manager->gpu.ops != NULL && manager->gpu.ops->partition_number != NULL
               ? manager->gpu.ops->partition_number(manager->gpu.dispatcher, partition, device)
               : 0;
}

uint32_t gy_description_place(const gantry_taskman *manager, const gantry_task_desc *desc, uint32_t *device)
{
    uint32_t partition = manager->gpu.partition;
    *device = manager->gpu.device;
    if (desc->context != NULL &&
        manager->gpu.ops->on_device(manager->gpu.dispatcher, desc->context, device) != NULL) {
        partition = *device == manager->gpu.device ? partition : 0;
    }
    return desc->partition != NULL ? gy_taskman_partition_number(manager, desc->partition, device)
                                   : partition;
}

/* Check what only CPU tasks may have. */
static gantry_status check_cpu_traits(const gantry_taskman *manager, const gantry_task_desc *desc,
                                      const char *shown)
{
    if (desc->priority < GANTRY_TASK_PRIORITY_LOW || desc->priority > GANTRY_TASK_PRIORITY_HIGH) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': there is no priority %d", shown,
                       (int)desc->priority);
    }
    if (desc->kind != GANTRY_TASK_CPU &&
        (desc->cpu_class != 0 || desc->is_condition || desc->bandwidth_critical)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "task '%s': only a CPU task has a class, is a condition or critical", shown);
    }
    if (desc->cpu_class > gy_pool_class_count(manager->as_owner.pool)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': class %u of a CPU dispatcher with %u classes",
                       shown, desc->cpu_class, gy_pool_class_count(manager->as_owner.pool));
    }
    return GANTRY_OK;
}

/* Check the kind, and the function that a task of this kind needs. */
static gantry_status check_kind(const gantry_task_desc *desc, const char *shown)
{
    if ((unsigned)desc->kind > GANTRY_TASK_DTOH) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': unknown kind %d", shown, (int)desc->kind);
    }
    if (!gy_description_has_no_rest(desc)) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "task '%s': `reserved` is set, which this version does not know", shown);
    }
    if (desc->kind == GANTRY_TASK_CPU && desc->run == NULL && desc->port == NULL) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT, "task '%s': run is NULL%s", shown,
            desc->launch == NULL ? "" : ", and a CPU task has no `launch`: its kind says that it is one");
    }
    if (desc->kind >= GANTRY_TASK_HTOD && desc->launch == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': launch is NULL%s", shown,
                       desc->run == NULL ? ""
                                         : ", and a GPU task has no `run`: its kind says that it is one");
    }
    return GANTRY_OK;
}

/* Check the fields that only GPU tasks may have, and those that they need. */
static gantry_status check_gpu_traits(const gantry_taskman *manager, const gantry_task_desc *desc,
                                      const char *shown)
{
    bool is_gpu = desc->kind >= GANTRY_TASK_HTOD;
    if (is_gpu && manager->gpu.dispatcher == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "task '%s': the task manager has no GPU dispatcher", shown);
    }
    if (desc->is_stable && !is_gpu) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': only GPU tasks can be stable", shown);
    }
    if (desc->is_independent && !is_gpu) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "task '%s': only GPU tasks can be independent of the step before", shown);
    }
    return GY_HANDLE_IS_BAD_IN("gantry_taskman_submit", PARTITION, desc->partition)
               ? GANTRY_ERR_INVALID_ARGUMENT
               : GANTRY_OK;
}

static gantry_status check_partition(const gantry_taskman *manager, const gantry_task_desc *desc,
                                     const char *shown)
{
    if (desc->partition != NULL && desc->kind < GANTRY_TASK_HTOD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': only GPU tasks have a partition", shown);
    }
    uint32_t device;
    if (desc->partition != NULL && gy_taskman_partition_number(manager, desc->partition, &device) == 0) {
        return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE, "task '%s': the partition is of another context", shown);
    }
    return GANTRY_OK;
}

/* The device of a GPU task of a fleet; the partition, which was checked, may say it, too. */
static gantry_status check_context(const gantry_taskman *manager, const gantry_task_desc *desc,
                                   const char *shown)
{
    if (desc->context == NULL) {
        return GANTRY_OK;
    }
    if (desc->kind < GANTRY_TASK_HTOD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': only GPU tasks have a context", shown);
    }
    if (GY_HANDLE_IS_BAD_IN("gantry_taskman_submit", CONTEXT, desc->context)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    uint32_t device, other;
    if (manager->gpu.ops->on_device == NULL ||
        manager->gpu.ops->on_device(manager->gpu.dispatcher, desc->context, &device) == NULL) {
        return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE, "task '%s': the context is not of its manager's fleet",
                       shown);
    }
    if (desc->partition != NULL && gy_taskman_partition_number(manager, desc->partition, &other) != 0 &&
        other != device) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "task '%s': its context is number %u of the fleet, its partition of number %u", shown,
                       device, other);
    }
    return GANTRY_OK;
}

static gantry_status check_port(const gantry_task_desc *desc, const char *shown)
{
    if (desc->port == NULL) {
        return GANTRY_OK;
    }
    if (desc->kind != GANTRY_TASK_CPU || desc->run != NULL || desc->is_condition ||
        desc->bandwidth_critical || desc->cpu_class != 0 || desc->priority != GANTRY_TASK_PRIORITY_NORMAL) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT,
            "task '%s': a port goes with a CPU task alone, without `run`, priority, class, and being "
            "critical or a condition",
            shown);
    }
    return GY_HANDLE_IS_BAD_IN("gantry_taskman_submit", PORT, desc->port) ? GANTRY_ERR_INVALID_ARGUMENT
                                                                          : gy_port_check(desc->port, shown);
}

static gantry_status check_accesses(const gantry_taskman *manager, const gantry_task_desc *desc,
                                    const char *shown)
{
    if (desc->calls_say_accesses && (desc->kind < GANTRY_TASK_HTOD || desc->access_count != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "task '%s': its calls say what it accesses: a GPU task, without a list", shown);
    }
    if (desc->access_count != 0 && (desc->accesses == NULL || desc->is_condition)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': %u accesses %s", shown, desc->access_count,
                       desc->accesses == NULL ? "at NULL" : "of a condition, which has none");
    }
    return gy_accesses_check(manager, shown, desc->accesses, desc->access_count);
}

gantry_status gy_description_check(const gantry_taskman *manager, const gantry_task_desc *desc)
{
    const char *shown = gy_description_label(desc);
    if (desc->name != NULL && desc->name[0] == '\0') {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task '%s': the name is empty", shown);
    }
    gantry_status status = check_kind(desc, shown);
    status = status == GANTRY_OK ? check_gpu_traits(manager, desc, shown) : status;
    status = status == GANTRY_OK ? check_cpu_traits(manager, desc, shown) : status;
    status = status == GANTRY_OK ? check_partition(manager, desc, shown) : status;
    status = status == GANTRY_OK ? check_context(manager, desc, shown) : status;
    status = status == GANTRY_OK ? check_port(desc, shown) : status;
    return status == GANTRY_OK ? check_accesses(manager, desc, shown) : status;
}

gantry_status gy_description_import(const gantry_taskman *manager, const gantry_task_desc **desc,
                                    gantry_task_desc *ours)
{
    gantry_status status = GANTRY_OK;
    if ((*desc)->struct_size != sizeof(*ours)) { /* the caller's is older or younger */
        memset(ours, 0, sizeof(*ours));
        status =
            gy_options_import(ours, sizeof(*ours), *desc, offsetof(gantry_task_desc, context_id), "task");
        ours->struct_size = sizeof(*ours); /* of this copy: it may be taken in once more */
        *desc = ours;
    }
    return status == GANTRY_OK && !gy_description_is_plain(manager, *desc)
               ? gy_description_check(manager, *desc)
               : status;
}
