/* SPDX-License-Identifier: MIT */
/* What the GPU dispatcher asks of every task that passes.  It is inline: as calls it would take a fifth of
 * the time per task in builds without link-time optimisation.  gpu_ops.h has the rest. */
#ifndef TASKMAN_GPU_TASK_H
#define TASKMAN_GPU_TASK_H

#include "base/hints.h"
#include "taskman/gpu_facts.h"
#include "taskman/graph/state.h"

static inline gantry_launch_fn gy_task_launch_fn(const gantry_task *task)
{
    return task->body.launch;
}

static inline void *gy_task_launch_arg(const gantry_task *task)
{
    return task->arg;
}

/* The name of the task's record in the application, see gantry_task_context_id(). */
static inline uint64_t gy_task_context_id(const gantry_task *task)
{
    return task->context_id;
}

/* The number of the task's partition, as partition_number() gives it; 0: the task names none. */
static inline uint32_t gy_task_partition(const gantry_task *task)
{
    return task->partition;
}

/* The bound on GPU time of the task's manager, on the task's device; NULL: none. */
static inline struct gy_gpu_share *gy_task_share(const gantry_task *task)
{
    struct gy_gpu_share *share = gy_task_facts(task)->share;
    return share != NULL && share->members != NULL ? share->members[task->device] : share;
}

/* A number that the same task of its manager has in every step, and few others have.  Its lower 32 bits are
 * 0.
 */
static inline uint64_t gy_task_name(const gantry_task *task)
{
    const uint64_t manager = (uint64_t)(uintptr_t)gy_task_manager(task) * UINT64_C(0x9e3779b97f4a7c15);
    return (manager & ~(uint64_t)UINT32_MAX) + ((uint64_t)task->index << 32);
}

/* The order between its manager's steps; NULL: they are independent. */
static inline struct gy_gpu_order *gy_task_order(const gantry_task *task)
{
    return gy_task_facts(task)->order;
}

/* The number of its manager's step; never 0. */
static inline uint64_t gy_task_run(const gantry_task *task)
{
    return gy_task_facts(task)->run;
}

/* That of the step just before; 0: there was none. */
static inline uint64_t gy_task_previous_run(const gantry_task *task)
{
    return gy_task_facts(task)->previous_run;
}

static inline bool gy_task_is_independent(const gantry_task *task)
{
    return (task->traits & GY_TRAIT_INDEPENDENT) != 0;
}

/* Which steps before its own a task with this wait set must be ordered behind explicitly: else GPU work of
 * its own step is in front of it that is ordered so, or there is no order.  All GPU work of a step comes
 * after the older steps, so an independent task looks at them only where nothing of its step is before it. */
static inline enum gy_step_bound_of gy_task_bound(const gantry_task *task, uint64_t wait_set)
{
    const struct gy_gpu_facts *facts = gy_task_facts(task);
    const bool is_first = wait_set == 0;
    if ((!is_first && !atomic_load_explicit(&facts->has_independent, memory_order_relaxed)) ||
        facts->order == NULL) {
        return GY_BOUND_NONE;
    }
    return !gy_task_is_independent(task) ? GY_BOUND_ALL : is_first ? GY_BOUND_OLDER : GY_BOUND_NONE;
}

/* Are there GPU tasks in the step that need not come after the step before? */
static inline bool gy_task_has_independent_peers(const gantry_task *task)
{
    return atomic_load_explicit(&gy_task_facts(task)->has_independent, memory_order_relaxed);
}

/* The memory that the task declares to need; NULL: none. */
static inline struct gy_gpu_memory *gy_task_memory(gantry_task *task)
{
    return (task->traits & GY_TRAIT_MEMORY) != 0 ? gy_task_find_memory(task) : NULL;
}

/* The plan that this run follows; NULL for a task that is not part of the frozen graph, and while only a
 * part of that runs. */
static inline struct gy_gpu_plan *gy_task_gpu_plan(const gantry_task *task)
{
    return gy_task_has(task, GY_TASK_FROZEN) ? gy_task_facts(task)->plan : NULL;
}

/* READY → RUNNING, by the thread that starts the task.  False when the task must not run because something
 * it depends on failed: release it with gy_task_release(task, GANTRY_ERR_TASK_FAILED) instead. */
static inline bool gy_task_begin(gantry_task *task)
{
    return gy_task_enter_running(task);
}

/* How often the launch callback was called in this run.  There is room for 32 bits beside `launch_index`:
 * nobody reads a task's `result` before it has ended, so meanwhile that counts how often `launch_index` was
 * full; 0 is left out then, since such a task would not have begun. */
static inline uint64_t gy_task_calls(const gantry_task *task)
{
    if (task->launch_index == 0) {
        return 0;
    }
    uint32_t full = (uint32_t)atomic_load_explicit(&task->result, memory_order_relaxed);
    return task->launch_index + (uint64_t)full * UINT32_MAX;
}

/* Before the first call. */
static inline void gy_task_begin_calls(gantry_task *task)
{
    if (atomic_load_explicit(&task->result, memory_order_relaxed) != 0) { /* of an earlier run */
        atomic_store_explicit(&task->result, 0, memory_order_relaxed);
    }
}

/* One more call. */
static inline void gy_task_count_call(gantry_task *task)
{
    if (__builtin_expect(++task->launch_index == 0, 0)) {
        task->launch_index = 1;
        atomic_fetch_add_explicit(&task->result, 1, memory_order_relaxed);
    }
}

/* Before its end, which needs `result`: what the statistics have is at most UINT32_MAX. */
static inline void gy_task_end_calls(gantry_task *task)
{
    if (__builtin_expect(atomic_load_explicit(&task->result, memory_order_relaxed) != 0, 0)) {
        task->launch_index = UINT32_MAX;
    }
}

/* gy_gpu_debt_settle(), unless nobody waits for what is owed as long as `task`, which is ready, has not
 * ended: its step is not over then, but a thread may wait for the tasks of one epoch. */
static inline void gy_gpu_debt_settle_beside(struct gy_gpu_debt *debt, const gantry_task *task)
{
    if (debt->manager != gy_task_manager(task) || debt->owed_odd != 0 || gy_task_has(task, GY_TASK_ODD)) {
        gy_gpu_debt_settle(debt);
    }
}

/* gy_task_begin() for a task whose work is enqueued already: it has begun, so cancelling comes too late. */
static inline bool gy_task_begin_launched(gantry_task *task)
{
    if (atomic_load_explicit(&task->preset, memory_order_relaxed) != GANTRY_OK) {
        return false;
    }
    gy_task_enter(task, GANTRY_TASK_STATE_RUNNING);
    return true;
}

/* Tasks are built by one thread and launched by another, so every line of a task is a cache miss of the
 * dispatcher (100 to 300 ns on a server).  The two calls start those misses early: the first, when the task
 * is binned, for what its own launch will touch; the second, while the task before it is launched,
 * for the dependents that its release will touch.  Hints: they change nothing. */
static inline void gy_task_prefetch_self(const gantry_task *task)
{
    gy_prefetch_write(atomic_load_explicit(&task->edges, memory_order_acquire)); /* it closes its list */
    __builtin_prefetch(&task->last_edge);
    __builtin_prefetch(task->arg);
}

/* How many dependents it has; and 1: some of these are no GPU tasks, and may have GPU tasks behind them. */
static inline uint32_t gy_task_successors(const gantry_task *task)
{
    return atomic_load_explicit(&task->successors, memory_order_relaxed);
}
static inline uint32_t gy_task_count_dependents(uint32_t successors)
{
    return successors & GY_SUCCESSORS_MOST;
}
static inline uint32_t gy_task_has_hosts(uint32_t successors)
{
    return (successors & GY_SUCCESSORS_HOST) != 0;
}

static inline void gy_task_prefetch_dependents(const gantry_task *task)
{
    enum { MOST = 4 }; /* a fork wider than this has time to hide its misses behind each other */
    const struct gy_edge *edge = atomic_load_explicit(&task->edges, memory_order_acquire);
    for (int i = 0; i < MOST && edge != NULL && edge != &gy_edge_closed; i++) {
        gy_prefetch_write(gy_edge_successor(edge));
        edge = atomic_load_explicit(&edge->next, memory_order_acquire);
    }
}

#endif
