/* Tasks made by tasks, without a lock: each worker has a place in each manager for the light tasks that it
 * spawns.
 *
 * A place is a chunk of the manager's storage to fill, and the tasks that have ended, which are used again
 * first: nobody has a handle of a spawned task, and whoever walks the graph leaves it out.  So a recursion of
 * any size needs little more storage than it has tasks waiting, all of it in the cache of the worker that
 * spawns. */
#include "taskman/places.h"

#include "base/handle.h"
#include "taskman/cpu/account.h"
#include "taskman/cpu/pool.h"

static inline gantry_task *take_task(struct gy_worker *self, gantry_taskman *manager)
{
    struct gy_spawn_place *place = gy_worker_place(self, manager);
    gantry_task *task = place->ended;
    assert(gy_spawn_place_is_valid(place));
    if (task != NULL) {
        place->ended = task->gpu.next;
        return task;
    }
    struct gy_task_chunk *chunk = place->chunk;
    if (chunk == NULL || chunk->used == chunk->capacity) {
        chunk = gy_place_new_chunk(place, manager);
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
    task->owner = &manager->as_owner;
    if (continuation != NULL && !gy_task_hold(continuation)) {
        gy_worker_take_back(self, task);
        return gy_task_refuse_hold(continuation, "light task: continuation");
    }
    task->body.run = desc->run;
    task->arg = desc->arg;
    task->label = desc->label;
    bool is_odd = (atomic_load_explicit(&manager->as_owner.epoch, memory_order_relaxed) & 1) != 0;
    atomic_init(&task->flags, GY_TASK_LIGHT | GY_TASK_FILLED | GY_TASK_SPAWNED | (is_odd ? GY_TASK_ODD : 0u));
    gy_task_state_init(task, GANTRY_TASK_STATE_READY);
    if (continuation != NULL) {
        gy_graph_link_own(task, continuation);
    }
    if (is_odd) {
        gy_worker_claim_odd_task(self, &manager->as_owner);
    } else {
        gy_worker_claim_task(self, &manager->as_owner);
    }
    gy_worker_push(self, task);
    return GANTRY_OK;
}

/* Does the worker run a task of `manager` at this moment? */
static inline bool is_inside(const struct gy_worker *self, const gantry_taskman *manager)
{
    return self != NULL && self->has_deque && self->activity == GY_IN_BODY && self->running != NULL &&
           gy_task_manager(self->running) == manager;
}

gantry_status gantry_taskman_spawn(gantry_taskman *manager, gantry_task_fn run, void *arg, const char *label,
                                   gantry_task *continuation)
{
    GY_ACCEPT(TASKMAN, manager);
    GY_ACCEPT(TASK, continuation);
    struct gy_worker *self = gy_worker_current;
    if (manager != NULL && run != NULL && is_inside(self, manager) &&
        (continuation == NULL ||
         (gy_task_manager(continuation) == manager && !gy_task_has(continuation, GY_TASK_FROZEN)))) {
        gantry_task_desc desc = {.run = run, .arg = arg, .label = label};
        return spawn_here(self, &desc, manager, continuation);
    }
    gantry_task *task = NULL;
    gantry_status status = gantry_taskman_create_light(manager, run, arg, label, continuation, &task);
    return status != GANTRY_OK ? status : gantry_task_remove_reference(task);
}
