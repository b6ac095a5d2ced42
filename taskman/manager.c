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

bool gy_taskman_is_valid(const gantry_taskman *manager)
{
    enum gy_phase phase = gy_taskman_phase(manager);
    bool counts = gy_taskman_gpu_tasks(manager) + manager->submitted_sync <= manager->submitted &&
                  manager->late_names <= manager->unfilled && manager->lights <= manager->special &&
                  manager->memory_count <= manager->memory_room;
    bool is_frozen =
        manager->frozen == (manager->frozen_graph.roots != NULL) &&
        (manager->frozen || !manager->as_owner.has_conditions) &&
        (manager->gpu_facts.plan == NULL || manager->gpu_facts.plan == manager->frozen_graph.gpu) &&
        gy_frozen_is_valid(&manager->frozen_graph);
    bool is_still = phase != GY_BUILDING || atomic_load(&manager->as_owner.work) == 0;
    return phase <= GY_STOPPED && counts && is_frozen && is_still &&
           (manager->gpu != NULL) == (manager->gpu_ops != NULL) && gy_graph_is_valid(&manager->graph) &&
           gy_names_are_valid(&manager->names);
}
