/* Tasks made by tasks, without a lock: each worker has a place in each manager for the light tasks that it
 * spawns.
 *
 * A place is a chunk of the manager's storage to fill, and the tasks that have ended, which are used again
 * first: nobody has a handle of a spawned task, and whoever walks the graph leaves it out.  So a recursion of
 * any size needs little more storage than it has tasks waiting, all of it in the cache of the worker that
 * spawns. */
#include "taskman/cpu/worker.h"
#include "taskman/graph/state.h"
#include "taskman/manager.h"
#include "taskman/release.h"

#include "base/alloc.h"
#include "base/handle.h"

#include <string.h>

gantry_status gy_taskman_make_places(gantry_taskman *manager)
{
    size_t bytes = (manager->pool->worker_count + (size_t)1) * sizeof(struct gy_spawn_place);
    manager->places = gy_alloc_aligned(bytes, 64);
    if (manager->places == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task manager: no memory for %u workers",
                       manager->pool->worker_count);
    }
    memset(manager->places, 0, bytes);
    return GANTRY_OK;
}

void gy_taskman_clear_places(gantry_taskman *manager)
{
    memset(manager->places, 0, manager->pool->worker_count * sizeof(struct gy_spawn_place));
    atomic_store(&manager->spawned, 0);
}

static struct gy_task_chunk *new_chunk(struct gy_spawn_place *place, gantry_taskman *manager)
{
    gy_fast_lock_take(&manager->lock);
    struct gy_task_chunk *chunk = gy_graph_give_chunk(&manager->graph);
    gy_fast_lock_give(&manager->lock);
    if (chunk != NULL) {
        place->chunk = chunk;
    }
    return chunk;
}

static inline gantry_task *take_task(struct gy_worker *self, gantry_taskman *manager)
{
    struct gy_spawn_place *place = gy_worker_place(self, manager);
    gantry_task *task = place->ended;
    if (task != NULL) {
        place->ended = task->gpu.next;
        return task;
    }
    struct gy_task_chunk *chunk = place->chunk;
    if (chunk == NULL || chunk->used == chunk->capacity) {
        chunk = new_chunk(place, manager);
    }
    return chunk != NULL ? &chunk->tasks[chunk->used++] : NULL;
}

static inline gantry_status spawn_here(struct gy_worker *self, const gantry_task_desc *desc,
                                       gantry_taskman *manager, gantry_task *continuation)
{
    gantry_task *task = take_task(self, manager);
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a task");
    }
    gy_task_clear_all(task);
    task->manager = manager;
    if (continuation != NULL && !gy_task_hold(continuation)) {
        gy_worker_take_back(self, task);
        return gy_task_refuse_hold(continuation, "light task: continuation");
    }
    task->body.run = desc->run;
    task->arg = desc->arg;
    task->label = desc->label;
    bool is_odd = (atomic_load_explicit(&manager->epoch, memory_order_relaxed) & 1) != 0;
    atomic_init(&task->flags, GY_TASK_LIGHT | GY_TASK_FILLED | GY_TASK_SPAWNED | (is_odd ? GY_TASK_ODD : 0u));
    gy_task_state_init(task, GANTRY_TASK_STATE_READY);
    if (continuation != NULL) {
        gy_graph_link_own(task, continuation);
    }
    if (is_odd) {
        gy_worker_claim_odd_task(self, manager);
    } else {
        gy_worker_claim_task(self, manager);
    }
    gy_worker_push(self, task);
    return GANTRY_OK;
}

/* Does the worker run a task of `manager` at this moment? */
static inline bool is_inside(const struct gy_worker *self, const gantry_taskman *manager)
{
    return self != NULL && self->has_deque && self->activity == GY_IN_BODY && self->running != NULL &&
           self->running->manager == manager;
}

gantry_status gantry_taskman_spawn(gantry_taskman *manager, gantry_task_fn run, void *arg, const char *label,
                                   gantry_task *continuation)
{
    if (GY_HANDLE_IS_BAD(TASKMAN, manager) || GY_HANDLE_IS_BAD(TASK, continuation)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    struct gy_worker *self = gy_worker_current;
    if (manager != NULL && run != NULL && is_inside(self, manager) &&
        (continuation == NULL ||
         (continuation->manager == manager && !gy_task_has(continuation, GY_TASK_FROZEN)))) {
        gantry_task_desc desc = {.run = run, .arg = arg, .label = label};
        return spawn_here(self, &desc, manager, continuation);
    }
    gantry_task *task = NULL;
    gantry_status status = gantry_taskman_create_light(manager, run, arg, label, continuation, &task);
    return status != GANTRY_OK ? status : gantry_task_remove_reference(task);
}
