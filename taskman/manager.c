/* SPDX-License-Identifier: MIT */
#include "taskman/manager.h"

bool gy_frozen_is_valid(const struct gy_frozen *frozen)
{
    return frozen->roots == NULL
               ? frozen->root_count == 0 && frozen->gpu == NULL && frozen->tasks == 0 &&
                     frozen->groups == NULL
               : frozen->plain_count <= frozen->root_count && frozen->root_count <= frozen->end.tasks &&
                     frozen->tasks_gpu + frozen->tasks_sync <= frozen->tasks &&
                     (frozen->groups == NULL) == (frozen->group_count == 0);
}

bool gy_step_counts_are_valid(const struct gy_step_counts *counts)
{
    return atomic_load_explicit(&counts->gpu, memory_order_relaxed) + counts->sync <= counts->submitted &&
           counts->late_names <= counts->unfilled && counts->lights <= counts->special;
}

bool gy_taskman_is_valid(const gantry_taskman *manager)
{
    enum gy_phase phase = gy_taskman_phase(manager);
    bool is_frozen =
        manager->frozen == (manager->frozen_graph.roots != NULL) &&
        (manager->frozen || !manager->as_owner.has_conditions) &&
        (manager->gpu_facts.plan == NULL || manager->gpu_facts.plan == manager->frozen_graph.gpu) &&
        gy_frozen_is_valid(&manager->frozen_graph);
    bool is_still = phase != GY_BUILDING || atomic_load(&manager->as_owner.work) == 0;
    return phase <= GY_STOPPED && gy_step_counts_are_valid(&manager->counts) &&
           gy_task_memory_is_valid(&manager->memory) && gy_stall_is_valid(&manager->stall) && is_frozen &&
           is_still && gy_gpu_use_is_valid(&manager->gpu) && gy_graph_is_valid(&manager->graph) &&
           gy_names_are_valid(&manager->names);
}
