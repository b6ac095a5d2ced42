/* SPDX-License-Identifier: MIT */
/* What the description of a task says: it is checked and read here, and written into a task in submit.c. */
#ifndef TASKMAN_DESCRIPTION_H
#define TASKMAN_DESCRIPTION_H

#include "taskman/manager.h"

/* 1 and up; 0: not a partition of the manager's GPU dispatcher. */
uint32_t gy_taskman_partition_number(const gantry_taskman *manager, const gantry_partition *partition,
                                     uint32_t *device);

/* Check a description that is not gy_description_is_plain(), but of this library's size. */
gantry_status gy_description_check(const gantry_taskman *manager, const gantry_task_desc *desc);

/* Take in a description of any age, and check it.  `*desc` is then one of this library's; `*ours` is room for
 * it. */
gantry_status gy_description_import(const gantry_taskman *manager, const gantry_task_desc **desc,
                                    gantry_task_desc *ours);

/* Where the work of a GPU task goes: its device and, returned, its partition there. */
uint32_t gy_description_place(const gantry_taskman *manager, const gantry_task_desc *desc, uint32_t *device);

/* What errors call the task, as gantry_task_label(). */
static inline const char *gy_description_label(const gantry_task_desc *desc)
{
    return desc->label != NULL ? desc->label : desc->name != NULL ? desc->name : "task";
}

/* Are all the fields 0 that only a later version gives a meaning? */
static inline bool gy_description_has_no_rest(const gantry_task_desc *desc)
{
    _Static_assert(sizeof(desc->reserved) == 1, "all of them");
    return desc->reserved[0] == 0;
}

/* Has the description nothing that only some tasks have, and that has to be checked or looked up?  Of most
 * tasks it has not, so this is one question. */
static GY_INLINE bool gy_description_is_usual(const gantry_task_desc *desc)
{
    const uintptr_t places =
        (uintptr_t)desc->partition | (uintptr_t)desc->context | (uintptr_t)desc->name | (uintptr_t)desc->port;
    const unsigned numbers = (unsigned)desc->priority | desc->cpu_class | desc->memory | desc->access_count;
    const unsigned answers = (unsigned)desc->is_condition | (unsigned)desc->bandwidth_critical |
                             (unsigned)desc->calls_say_accesses;
    return (places | numbers | answers) == 0 && gy_description_has_no_rest(desc);
}
_Static_assert(GANTRY_TASK_PRIORITY_NORMAL == 0, "gy_description_is_usual() takes it for nothing");

/* Is there nothing to check of a task that gy_description_is_usual()? */
static GY_INLINE bool gy_description_is_good(const gantry_taskman *manager, const gantry_task_desc *desc)
{
    const bool is_gpu = desc->kind >= GANTRY_TASK_HTOD && (unsigned)desc->kind <= GANTRY_TASK_DTOH;
    return is_gpu ? desc->launch != NULL && manager->gpu.dispatcher != NULL
                  : desc->kind == GANTRY_TASK_CPU && desc->run != NULL && !desc->is_stable &&
                        !desc->is_independent;
}

/* Is it one of this library's, and of a usual task that is good? */
static GY_INLINE bool gy_description_is_plain(const gantry_taskman *manager, const gantry_task_desc *desc)
{
    return desc->struct_size == sizeof(*desc) && gy_description_is_usual(desc) &&
           gy_description_is_good(manager, desc);
}

#endif
