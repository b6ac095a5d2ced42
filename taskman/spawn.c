/* SPDX-License-Identifier: MIT */
/* Light tasks.  A body makes those of its own manager without a lock: each worker has a place in each
 * manager for them, and walks of the graph leave them out.
 *
 * A place is a chunk of the manager's storage to fill, and the spawned tasks that have ended, which are used
 * again first: nobody has a handle of a spawned task.  So a recursion of any size needs little more storage
 * than it has tasks waiting, all of it in the cache of the worker that spawns.  A light task that somebody
 * has a handle of keeps its place until the reset. */
#include "taskman/places.h"

#include "base/handle.h"
#include "base/proof.h"
#include "taskman/cpu/account.h"
#include "taskman/cpu/pool.h"
#include "taskman/submit.h"

/* A new place, which nobody has used since the reset: most likely threads of the former step have written it,
 * on other cores, so the lines of a later one are asked for early.  A little behind the chunk's end does no
 * harm. */
static inline gantry_task *take_new(struct gy_spawn_place *place, gantry_taskman *manager)
{
    enum { AHEAD = 8 };
    struct gy_task_chunk *chunk = place->chunk;
    if (chunk == NULL || chunk->used == chunk->capacity) {
        chunk = gy_place_new_chunk(place, manager);
    }
    if (chunk == NULL) {
        return NULL;
    }
    gantry_task *task = &chunk->tasks[chunk->used++], *soon = task + AHEAD;
    gy_prefetch_write(soon);
    gy_prefetch_write(&soon->last_edge);
    return task;
}

static inline gantry_task *take_task(struct gy_worker *self, gantry_taskman *manager)
{
    struct gy_spawn_place *place = gy_worker_place(self, manager);
    gantry_task *task = place->ended;
    assert(gy_spawn_place_is_valid(place));
    if (task != NULL) {
        place->ended = task->next;
        return task;
    }
    return take_new(place, manager);
}

/* The description of a light task. */
struct light {
    gantry_task_fn run;
    void *arg;
    const char *label;
};

/* A reference on the continuation, for a task that the running one makes: of those that the worker has, if it
 * has met it as a join.  It takes more only while the running task has one itself. */
static inline bool hold(struct gy_worker *self, gantry_task *continuation)
{
    if (self->debt.leave_join == NULL || self->debt.join != continuation ||
        gy_task_continuation(self->running) != continuation) {
        return gy_task_hold(continuation);
    }
    if (self->debt.references == 0) {
        if (!gy_task_hold_some(continuation, GY_JOIN_AHEAD)) {
            return false;
        }
        self->debt.references = GY_JOIN_AHEAD;
    }
    self->debt.references--;
    return true;
}

/* Describe a task of the worker's place.  `flags` beside those of every light task.  False: the continuation
 * was dispatched already. */
static inline bool make_here(struct gy_worker *self, gantry_task *task, const struct light *light,
                             gantry_taskman *manager, gantry_task *continuation, gantry_task_state state,
                             unsigned flags)
{
    gy_task_clear_all(task);
    task->owner = &manager->as_owner;
    if (continuation != NULL && !hold(self, continuation)) {
        return false;
    }
    task->body.run = light->run;
    task->arg = light->arg;
    task->label = light->label;
    bool is_odd = (atomic_load_explicit(&manager->as_owner.epoch, memory_order_relaxed) & 1) != 0;
    atomic_init(&task->flags, (uint8_t)(GY_TASK_LIGHT | GY_TASK_FILLED | flags | gy_proof_listens() |
                                        (is_odd ? GY_TASK_ODD : 0u)));
    atomic_init(&task->references, state == GANTRY_TASK_STATE_HELD ? 1 : 0);
    gy_task_state_init(task, state);
    if (continuation != NULL) {
        gy_graph_link_own(task, continuation);
    }
    if (is_odd) {
        gy_worker_claim_odd_task(self, &manager->as_owner);
    } else {
        gy_worker_claim_task(self, &manager->as_owner);
    }
    return true;
}

static inline gantry_status refuse_memory(void)
{
    return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a task");
}

static inline gantry_status spawn_here(struct gy_worker *self, const struct light *light,
                                       gantry_taskman *manager, gantry_task *continuation)
{
    gantry_task *task = take_task(self, manager);
    if (task == NULL) {
        return refuse_memory();
    }
    if (!make_here(self, task, light, manager, continuation, GANTRY_TASK_STATE_READY, GY_TASK_SPAWNED)) {
        gy_worker_take_back(self, task);
        return gy_task_refuse_hold(continuation, "light task: continuation");
    }
    if (__builtin_expect(gy_proof() != NULL, 0)) {
        gy_proof()->let_go(task);
    }
    gy_worker_push(self, task);
    return GANTRY_OK;
}

/* The caller has the task's one reference. */
static gantry_status create_here(struct gy_worker *self, const struct light *light, gantry_taskman *manager,
                                 gantry_task *continuation, gantry_task **out)
{
    gantry_task *task = take_new(gy_worker_place(self, manager), manager);
    if (task == NULL) {
        return refuse_memory();
    }
    if (!make_here(self, task, light, manager, continuation, GANTRY_TASK_STATE_HELD, 0)) {
        gy_worker_take_back(self, task);
        return gy_task_refuse_hold(continuation, "light task: continuation");
    }
    *out = task;
    return GANTRY_OK;
}

/* Does the calling thread run a task of `manager` at this moment, and may it make tasks there that lead to
 * `continuation`?  Those of a frozen graph are held under the manager's lock. */
static inline bool may_make_here(const struct gy_worker *self, const gantry_taskman *manager,
                                 const gantry_task *continuation)
{
    return gy_worker_is_inside(self, &manager->as_owner) &&
           (continuation == NULL ||
            (gy_task_manager(continuation) == manager && !gy_task_has(continuation, GY_TASK_FROZEN)));
}

static gantry_status create_light(gantry_taskman *manager, const struct light *light,
                                  gantry_task *continuation, gantry_task **out)
{
    struct gy_worker *self = gy_worker_current;
    if (manager == NULL || light->run == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "light task: manager, run or out is NULL");
    }
    if (continuation != NULL && gy_task_manager(continuation) != manager) {
        return GY_FAIL(GANTRY_ERR_FOREIGN_HANDLE, "light task: continuation '%s' is of another task manager",
                       gantry_task_label(continuation));
    }
    if (may_make_here(self, manager, continuation)) {
        return create_here(self, light, manager, continuation, out);
    }
    gantry_task_desc desc = {
        .kind = GANTRY_TASK_CPU, .label = light->label, .run = light->run, .arg = light->arg};
    return gy_taskman_add_light(manager, &desc, continuation, out);
}

gantry_status gantry_taskman_create_light(gantry_taskman *manager, gantry_task_fn run, void *arg,
                                          const char *label, gantry_task *continuation, gantry_task **out)
{
    GY_ACCEPT(TASKMAN, manager);
    GY_ACCEPT(TASK, continuation);
    struct light light = {run, arg, label};
    return create_light(manager, &light, continuation, out);
}

gantry_status gantry_taskman_spawn(gantry_taskman *manager, gantry_task_fn run, void *arg, const char *label,
                                   gantry_task *continuation)
{
    GY_ACCEPT(TASKMAN, manager);
    GY_ACCEPT(TASK, continuation);
    struct gy_worker *self = gy_worker_current;
    struct light light = {run, arg, label};
    if (manager != NULL && run != NULL && may_make_here(self, manager, continuation)) {
        return spawn_here(self, &light, manager, continuation);
    }
    gantry_task *task = NULL;
    gantry_status status = create_light(manager, &light, continuation, &task);
    return status != GANTRY_OK ? status : gantry_task_remove_reference(task);
}
