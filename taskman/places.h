/* SPDX-License-Identifier: MIT */
/* Where the workers' spawned tasks lie. */
#ifndef TASKMAN_PLACES_H
#define TASKMAN_PLACES_H

#include "taskman/cpu/worker.h"
#include "taskman/manager.h"

#include <assert.h>

/* Where the worker's spawned tasks of a manager lie. */
struct gy_spawn_place {
    _Alignas(64) struct gy_task_chunk *chunk; /* only its worker touches it while the manager runs */
    gantry_task *ended;                       /* linked through `next`; guarded likewise */
};

/* Is the chunk's count within the chunk, and has the ended task an owner? */
static inline bool gy_spawn_place_is_valid(const struct gy_spawn_place *place)
{
    return (place->chunk == NULL || place->chunk->used <= place->chunk->capacity) &&
           (place->ended == NULL || place->ended->owner != NULL);
}

/* A place for each worker.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
gantry_status gy_taskman_make_places(gantry_taskman *manager);

/* The storage of spawned tasks is taken back: workers shall not use it any more. */
void gy_taskman_clear_places(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* A chunk for the place, empty; NULL: out of memory. */
struct gy_task_chunk *gy_place_new_chunk(struct gy_spawn_place *place, gantry_taskman *manager);

static inline struct gy_spawn_place *gy_worker_place(const struct gy_worker *self, gantry_taskman *manager)
{
    return &manager->places[self->index];
}

/* The spawned task has ended, and nobody knows it any more. */
static inline void gy_worker_take_back(struct gy_worker *self, gantry_task *task)
{
    struct gy_spawn_place *place = gy_worker_place(self, gy_task_manager(task));
    task->next = place->ended;
    place->ended = task;
    assert(gy_spawn_place_is_valid(place));
}

#endif
