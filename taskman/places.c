/* SPDX-License-Identifier: MIT */
#include "taskman/places.h"

#include "base/alloc.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

gantry_status gy_taskman_make_places(gantry_taskman *manager)
{
    size_t bytes = (manager->as_owner.pool->worker_count + (size_t)1) * sizeof(struct gy_spawn_place);
    manager->places = gy_alloc_aligned(bytes, 64);
    if (manager->places == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task manager: no memory for %u workers",
                       manager->as_owner.pool->worker_count);
    }
    memset(manager->places, 0, bytes);
    return GANTRY_OK;
}

void gy_taskman_clear_places(gantry_taskman *manager)
{
    memset(manager->places, 0, manager->as_owner.pool->worker_count * sizeof(struct gy_spawn_place));
    atomic_store(&manager->as_owner.spawned, 0);
}

struct gy_task_chunk *gy_place_new_chunk(struct gy_spawn_place *place, gantry_taskman *manager)
{
    gy_fast_lock_take(&manager->lock);
    struct gy_task_chunk *chunk = gy_graph_give_chunk(&manager->graph);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (chunk != NULL) {
        place->chunk = chunk;
    }
    return chunk;
}
