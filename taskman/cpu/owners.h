/* SPDX-License-Identifier: MIT */
/* The owners of tasks that have a GPU dispatcher, which hears when one of them falls quiet. */
#ifndef TASKMAN_CPU_OWNERS_H
#define TASKMAN_CPU_OWNERS_H

#include "taskman/cpu/worker.h"

/* An owner with a GPU dispatcher is created / destroyed. */
void gy_pool_add_owner(gantry_cpu_dispatcher *pool, struct gy_task_owner *owner);
void gy_pool_remove_owner(gantry_cpu_dispatcher *pool, struct gy_task_owner *owner);

/* One task more, or less, of an owner of the pool waits for memory. */
void gy_pool_count_held_back(gantry_cpu_dispatcher *pool, bool more);

/* An owner has fallen quiet, and tasks wait for memory: their GPU dispatchers hear of it.  The owner may be
 * gone. */
void gy_pool_tell_held_back(gantry_cpu_dispatcher *pool);

/* An owner has fallen quiet. */
static inline void gy_pool_tell_quiet(gantry_cpu_dispatcher *pool)
{
    if (__builtin_expect(atomic_load(&pool->held_back) != 0, 0)) {
        gy_pool_tell_held_back(pool);
    }
}

#endif
