/* What the application and the GPU dispatcher may ask of, and do to, a single task. */
#include "taskman/graph/task.h"

#include "base/handle.h"
#include "base/status.h"
#include "taskman/cpu/pool.h"
#include "taskman/gpu_task.h"
#include "taskman/graph/state.h"
#include "taskman/manager.h"
#include "taskman/release.h"

/* What a condition may choose starts whatever its references are, and forgets them. */
static bool is_chosen_anyway(const gantry_task *task)
{
    return task->manager->flow && gy_task_has(task, GY_TASK_CHOSEN);
}

/* A task of a frozen graph has its references for the next run as soon as it was released in this one.  The
 * lock that the caller holds then keeps that next run from starting until we have looked and taken back. */
bool gy_task_hold(gantry_task *task)
{
    bool is_frozen = gy_task_has(task, GY_TASK_FROZEN);
    if (is_frozen && (!gy_task_takes_part(task) || is_chosen_anyway(task))) {
        return false;
    }
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    do {
        if (references <= 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&task->references, &references, references + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    gantry_task_state state = gy_task_state_of(task);
    bool may_run_again = task->manager->flow && state >= GANTRY_TASK_STATE_DONE;
    if (is_frozen && state != GANTRY_TASK_STATE_HELD && !may_run_again) {
        atomic_fetch_sub_explicit(&task->references, 1, memory_order_relaxed);
        return false;
    }
    return true;
}

/* Counted before it is held: in between nobody shall see the step quiet. */
bool gy_task_hold_outside(gantry_task *task)
{
    gantry_taskman *manager = task->manager;
    gantry_cpu_dispatcher *pool = manager->pool;
    atomic_fetch_add(&manager->work, GY_WORK_ACTIVE);
    if (gy_task_hold(task)) {
        return true;
    }
    gy_pool_enter(pool);
    gy_taskman_count_off(manager, GY_WORK_ACTIVE);
    gy_pool_leave(pool);
    return false;
}

gantry_status gy_task_refuse_hold(const gantry_task *task, const char *what)
{
    bool is_frozen = gy_task_has(task, GY_TASK_FROZEN);
    const char *why = is_frozen && !gy_task_takes_part(task)   ? "is not part of this run"
                      : is_frozen && is_chosen_anyway(task)    ? "starts when a condition chooses it"
                      : is_frozen && gy_task_is_released(task) ? "has ended, or is not part of this run"
                                                               : "was dispatched already";
    return GY_FAIL(GANTRY_ERR_LATE_DEPENDENCY, "%s '%s' %s", what, gantry_task_label(task), why);
}

/* The first reason counts, but anything else is said rather than that the run was cancelled, and nothing
 * rather than that the device is lost. */
void gy_task_doom(gantry_task *task, gantry_status why)
{
    int8_t before = atomic_load_explicit(&task->doom, memory_order_relaxed);
    while ((before == GANTRY_OK || before == (int8_t)GANTRY_ERR_CANCELLED || why == GANTRY_ERR_DEVICE_LOST) &&
           before != (int8_t)why &&
           !atomic_compare_exchange_weak_explicit(&task->doom, &before, (int8_t)why, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* ---- for the application -------------------------------------------------------------------- */

/* `phase` gets the one in which that was. */
static bool hold_locked(gantry_task *task, enum gy_phase *phase)
{
    gantry_taskman *manager = task->manager;
    bool is_held = false;
    gy_fast_lock_take(&manager->lock);
    *phase = gy_taskman_phase(manager);
    if (*phase == GY_BUILDING) {
        is_held = gy_task_hold(task);
        manager->outside += is_held;
        manager->special += is_held; /* its count shall be right as soon as the step has begun */
    } else if (*phase == GY_RUNNING) {
        is_held = gy_task_hold_outside(task);
        atomic_fetch_add(&manager->frozen_held, is_held && gy_task_has(task, GY_TASK_FROZEN));
    }
    gy_fast_lock_give(&manager->lock);
    return is_held;
}

gantry_status gantry_task_add_reference(gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "reference: task is NULL");
    }
    enum gy_phase phase = gy_taskman_phase(task->manager);
    bool is_frozen = gy_task_has(task, GY_TASK_FROZEN);
    bool is_held = phase == GY_RUNNING && !is_frozen ? gy_task_hold_outside(task) : hold_locked(task, &phase);
    if (is_frozen && phase != GY_RUNNING) {
        return GY_FAIL(GANTRY_ERR_STATE, "reference: the graph of task '%s' is frozen and not running",
                       gantry_task_label(task));
    }
    return is_held ? GANTRY_OK : gy_task_refuse_hold(task, "reference: task");
}

gantry_status gantry_task_remove_reference(gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "reference: task is NULL");
    }
    gantry_cpu_dispatcher *pool = task->manager->pool;
    gy_pool_enter(pool);
    gantry_status status = gy_taskman_unhold(task, GANTRY_OK);
    gy_pool_leave(pool);
    return status;
}

gantry_status gantry_task_fail_reference(gantry_task *task, gantry_status cause)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "reference: task is NULL");
    }
    if (cause >= GANTRY_OK || cause < GANTRY_ERR_CANCELLED) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "reference: task '%s' cannot fail for %d",
                       gantry_task_label(task), (int)cause);
    }
    gantry_cpu_dispatcher *pool = task->manager->pool;
    gy_pool_enter(pool);
    gantry_status status = gy_taskman_unhold(task, cause);
    gy_pool_leave(pool);
    return status;
}

int gantry_task_references(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return 0;
    }
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    return references > 0 && gy_task_state_of(task) <= GANTRY_TASK_STATE_HELD ? references : 0;
}

const char *gantry_task_name(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return "";
    }
    return task->name != NULL ? task->name : "";
}

/* A placeholder's fields are being written by whoever fills it until it is one no more. */
static bool is_described(const gantry_task *task)
{
    return gy_task_state_of(task) != GANTRY_TASK_STATE_PLACEHOLDER;
}

const char *gantry_task_label(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return "";
    }
    return is_described(task) || task->name == NULL ? gy_task_label(task) : task->name;
}

gantry_task_kind gantry_task_get_kind(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_TASK_SYNC_POINT;
    }
    return is_described(task) ? gy_task_kind(task) : GANTRY_TASK_SYNC_POINT;
}

gantry_task_priority gantry_task_get_priority(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_TASK_PRIORITY_NORMAL;
    }
    unsigned traits = is_described(task) && gy_task_kind(task) == GANTRY_TASK_CPU ? task->traits : 0;
    return (traits & GY_TRAIT_HIGH) != 0  ? GANTRY_TASK_PRIORITY_HIGH
           : (traits & GY_TRAIT_LOW) != 0 ? GANTRY_TASK_PRIORITY_LOW
                                          : GANTRY_TASK_PRIORITY_NORMAL;
}

gantry_task_state gantry_task_get_state(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_TASK_STATE_FAILED;
    }
    return gy_task_state_of(task);
}

gantry_status gantry_task_result(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "result: task is NULL");
    }
    if (gy_task_state_of(task) != GANTRY_TASK_STATE_FAILED) {
        return GANTRY_OK;
    }
    return (gantry_status)atomic_load_explicit(&task->result, memory_order_relaxed);
}

void *gantry_task_arg(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return NULL;
    }
    return is_described(task) ? task->arg : NULL;
}

/* Under the manager's lock, between runs: `task` may launch something else from now on. */
static void forget_launches(gantry_task *task)
{
    struct gy_gpu_plan *plan = task->manager->plan.gpu;
    if (plan != NULL && gy_task_is_stable(task)) {
        plan->changed(plan, task);
    }
}

gantry_status gantry_task_set_arg(gantry_task *task, void *arg)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "argument: task is NULL");
    }
    gantry_taskman *manager = task->manager;
    gy_fast_lock_take(&manager->lock);
    bool may = gy_taskman_phase(manager) != GY_RUNNING && gy_task_has(task, GY_TASK_FILLED);
    if (may) {
        task->arg = arg;
        forget_launches(task);
    }
    gy_fast_lock_give(&manager->lock);
    return may ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "argument: task '%s' is part of a running step, or a name only",
                         gantry_task_label(task));
}

gantry_status gantry_task_invalidate(gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "invalidation: task is NULL");
    }
    gantry_taskman *manager = task->manager;
    gy_fast_lock_take(&manager->lock);
    bool may = gy_taskman_phase(manager) != GY_RUNNING;
    if (may) {
        forget_launches(task);
    }
    gy_fast_lock_give(&manager->lock);
    return may ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "invalidation: task '%s' is part of a running step",
                         gantry_task_label(task));
}

uint64_t gantry_task_context_id(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return 0;
    }
    return is_described(task) ? task->context_id : 0;
}

gantry_taskman *gantry_task_manager(const gantry_task *task)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return NULL;
    }
    return task->manager;
}

gantry_status gantry_task_choose(gantry_task *task, uint32_t index)
{
    if (GY_HANDLE_IS_BAD(TASK, task)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "choice: task is NULL");
    }
    uint64_t *chosen = gy_pool_chosen(task);
    if (chosen == NULL || !gy_task_is_condition(task)) {
        return GY_FAIL(GANTRY_ERR_STATE, "choice: '%s' is no condition, or not running here",
                       gantry_task_label(task));
    }
    const struct gy_edge *edge = gy_edge_at(&task->edges);
    for (uint32_t i = 0; i < index && edge != NULL; i++) {
        edge = gy_edge_at(&edge->next);
    }
    if (edge == NULL || index >= GY_MOST_CHOICES) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "choice: condition '%s' has no dependent %u",
                       gantry_task_label(task), index);
    }
    *chosen |= (uint64_t)1 << index;
    return GANTRY_OK;
}

/* ---- for the GPU dispatcher ------------------------------------------------------------------ */

void gy_task_expect_ready(const gantry_task *task, uint64_t ns)
{
    if (!gy_task_is_gpu(task)) {
        gy_pool_expect(task->manager->pool, ns);
    }
}

bool gy_task_may_begin(const gantry_task *task)
{
    return atomic_load_explicit(&task->doom, memory_order_relaxed) == GANTRY_OK &&
           atomic_load_explicit(&task->manager->cancelled, memory_order_relaxed) == 0;
}

bool gy_taskman_is_cancelled(const gantry_taskman *manager)
{
    return atomic_load_explicit(&manager->cancelled, memory_order_relaxed) != 0;
}

uint32_t gy_task_index(const gantry_task *task)
{
    return task->index;
}

bool gy_task_is_stable(const gantry_task *task)
{
    return gy_task_is_gpu(task) && (task->traits & (GY_TRAIT_STABLE | GY_TRAIT_MEMORY)) == GY_TRAIT_STABLE;
}

bool gy_task_is_held_by_others(const gantry_task *task)
{
    int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed);
    return references - 1 > (int32_t)task->predecessors; /* less the start's */
}

void gy_taskman_each_task(gantry_taskman *manager, gy_task_visit *visit, void *user)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, visit, user);
}

void gy_task_each_dependent(const gantry_task *task, gy_task_visit *visit, void *user)
{
    for (struct gy_edge *edge = gy_edge_at(&task->edges); edge != NULL; edge = gy_edge_at(&edge->next)) {
        visit(user, gy_edge_successor(edge));
    }
}

void gy_task_remove_reference_failed(gantry_task *task, gantry_status why)
{
    gantry_cpu_dispatcher *pool = task->manager->pool;
    gy_pool_enter(pool);
    (void)gy_taskman_unhold(task, why == GANTRY_ERR_DEVICE_LOST ? why : GANTRY_ERR_TASK_FAILED);
    gy_pool_leave(pool);
}
