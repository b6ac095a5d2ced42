/* Tasks made by tasks, without a lock: each worker fills chunks of its own with the light tasks it spawns.
 *
 * A chunk belongs to the manager's storage from when it is given out, and what is in it lives until the reset
 * (or the next start of a frozen graph) like every other task; `generation` tells a worker that its chunk has
 * gone back since. */
#include "taskman/manager.h"
#include "taskman/release.h"
#include "taskman/state.h"
#include "taskman/worker.h"

#include <string.h>

static gantry_task *take_place(struct gy_worker *self, gantry_taskman *manager)
{
    struct gy_task_chunk *chunk = self->chunk_of == manager->generation ? self->chunk : NULL;
    if (chunk == NULL || atomic_load_explicit(&chunk->made, memory_order_relaxed) == chunk->capacity) {
        gy_fast_lock_take(&manager->lock);
        chunk = gy_graph_give_chunk(&manager->graph);
        gy_fast_lock_give(&manager->lock);
        self->chunk = chunk;
        self->chunk_of = manager->generation;
    }
    return chunk != NULL ? &chunk->tasks[atomic_load_explicit(&chunk->made, memory_order_relaxed)] : NULL;
}

/* The task is in the world now: whoever walks the graph may come by. */
static void keep_place(struct gy_worker *self)
{
    size_t made = atomic_load_explicit(&self->chunk->made, memory_order_relaxed);
    atomic_store_explicit(&self->chunk->made, made + 1, memory_order_release);
}

static gantry_status spawn_here(struct gy_worker *self, const gantry_task_desc *desc, gantry_taskman *manager,
                                gantry_task *continuation)
{
    gantry_task *task = take_place(self, manager);
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a task");
    }
    if (continuation != NULL && !gy_task_hold(continuation)) {
        return GY_FAIL(GANTRY_ERR_LATE_DEPENDENCY, "light task: continuation '%s' was dispatched already",
                       gantry_task_label(continuation));
    }
    memset(task, 0, sizeof(*task));
    task->manager = manager;
    task->body.run = desc->run;
    task->arg = desc->arg;
    task->label = desc->label;
    task->index = self->chunk->first_index + (uint32_t)(task - self->chunk->tasks);
    atomic_init(&task->flags, GY_TASK_LIGHT | GY_TASK_FILLED);
    gy_task_state_init(task, GANTRY_TASK_STATE_READY);
    if (continuation != NULL) {
        gy_graph_link_own(task, continuation);
    }
    keep_place(self);
    gy_worker_claim_task(self, manager);
    gy_pool_submit(manager->pool, task, task, 1, GY_POOL_SHARE);
    return GANTRY_OK;
}

gantry_status gantry_taskman_spawn(gantry_taskman *manager, gantry_task_fn run, void *arg, const char *label,
                                   gantry_task *continuation)
{
    bool is_quick = manager != NULL && run != NULL &&
                    (continuation == NULL ||
                     (continuation->manager == manager && !gy_task_has(continuation, GY_TASK_FROZEN)));
    struct gy_worker *self = is_quick ? gy_worker_in_task_of(manager) : NULL;
    if (self != NULL) {
        gantry_task_desc desc = {.run = run, .arg = arg, .label = label};
        return spawn_here(self, &desc, manager, continuation);
    }
    gantry_task *task = NULL;
    gantry_status status = gantry_taskman_create_light(manager, run, arg, label, continuation, &task);
    return status != GANTRY_OK ? status : gantry_task_remove_reference(task);
}
