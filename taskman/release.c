/* SPDX-License-Identifier: MIT */
/* The release path: the only code that every task passes, from any thread.
 *
 * It takes no lock and allocates nothing: one read-modify-write per edge, one that closes the list of
 * edges, one that counts the task off its manager (a worker saves up several of those).  It does not recurse:
 * what needs no running (sync points, unfilled names, CPU tasks with a preset failure) is queued in struct
 * gy_ready and released in a loop, so a chain of any length needs the same stack; callbacks.c does that for
 * chains of release callbacks.
 *
 * The order for one task: final state; for each dependent, in order of declaration, timeline points and
 * failure, then its reference; the ready ones are handed out; drop; release callback; count-down.  After
 * the count-down the manager may be gone: hence the ready tasks go out before, since each of them
 * still keeps the count above 0. */
#include "taskman/cpu/client.h"

#include "base/bandwidth.h"
#include "base/checking.h"
#include "base/outside.h"
#include "base/point.h"
#include "base/proof.h"
#include "base/span.h"
#include "taskman/arrows.h"
#include "taskman/awaits.h"
#include "taskman/callbacks.h"
#include "taskman/checks.h"
#include "taskman/conditions.h"
#include "taskman/cpu/classes.h"
#include "taskman/cpu/pool.h"
#include "taskman/failure.h"
#include "taskman/gpu_task.h"
#include "taskman/memory.h"
#include "taskman/places.h"
#include "taskman/port.h"
#include "taskman/successors.h"

#include <assert.h>

/* While a long cascade is being resolved, real work is handed out every so many tasks. */
enum { CASCADE_BATCH = 256 };

/* ---- handing out ------------------------------------------------------------------------------- */

/* GPU tasks first: once the last list is gone, so may be the manager. */
static GY_RARE void flush(gantry_taskman *manager, struct gy_ready *ready)
{
    struct gy_task_list gpu = ready->gpu, cpu = ready->cpu, queued = ready->queued;
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    ready->gpu = ready->cpu = ready->queued = (struct gy_task_list){0};
    if (gpu.first != NULL) {
        manager->gpu.ops->submit(manager->gpu.dispatcher, gpu.first, gpu.last);
    }
    if (cpu.first != NULL) {
        gy_pool_submit(pool, cpu.first, cpu.last, cpu.count);
    }
    if (queued.first != NULL) {
        gy_ports_take(&queued, gy_ready_dispatch);
    }
    if (queued.first != NULL) {
        gy_pool_queue(pool, queued.first);
    }
}

/* flush() at the end of a task: the worker that ran it keeps one ready task to run next. */
static inline void flush_but_one(gantry_taskman *manager, struct gy_ready *ready, struct gy_worker *self)
{
    gantry_task *first = ready->cpu.first;
    if (first != NULL && self != NULL && self->activity == GY_WORKER_RELEASING && self->next == NULL) {
        self->next = first;
        ready->cpu.first = first->next;
        ready->cpu.count--;
    }
    if (ready->cpu.first != NULL || ready->queued.first != NULL) {
        flush(manager, ready);
    } else if (ready->gpu.first != NULL) { /* as in pipelines on the GPU */
        gantry_task *gpu = ready->gpu.first;
        ready->gpu.first = NULL;
        ready->gpu.count = 0;
        manager->gpu.ops->submit(manager->gpu.dispatcher, gpu, ready->gpu.last);
    }
}

/* Hand out tasks while the caller owes the step nothing that keeps it open.  The GPU dispatcher, which the
 * program may destroy as soon as the step has ended, is still used when it has the last task: so the step
 * does not end before.  The caller is between gy_pool_enter() and gy_pool_leave(). */
static GY_RARE void hand_out(gantry_taskman *manager, struct gy_ready *ready, struct gy_worker *self)
{
    const bool keeps_open = ready->gpu.first != NULL;
    if (keeps_open) {
        atomic_fetch_add_explicit(&manager->as_owner.work, GY_WORK_ACTIVE, memory_order_relaxed);
    }
    if (self != NULL && self->activity == GY_WORKER_RELEASING) {
        flush_but_one(manager, ready, self);
    } else {
        flush(manager, ready);
    }
    if (keeps_open) {
        gy_taskman_count_off(manager, GY_WORK_ACTIVE);
    }
}

/* The set is final: each thread that could merge into it held a reference. */
static inline uint64_t wait_set_of(const gantry_task *task)
{
    return atomic_load_explicit(&task->wait_set, memory_order_acquire);
}

/* One dependent comes after `wait_set`, hears how the task has ended, and loses a reference; true when that
 * was its last. */
static GY_INLINE bool let_go(gantry_task *task, const struct gy_edge *edge, gantry_status result,
                             uint64_t wait_set)
{
    gantry_task *successor = gy_edge_successor(edge);
    if (result == GANTRY_OK && (wait_set & GY_WAIT_SET_PLAIN) != 0 &&
        gy_edge_let_last_go(task, edge, wait_set)) {
        return true; /* most GPU tasks come after one other */
    }
    gy_task_merge_deps(task, wait_set, successor);
    if (gy_edge_notify(task, edge, result, wait_set)) {
        return false;
    }
    int32_t before = gy_edge_let_go(edge);
    if (__builtin_expect(before < 1, 0)) {
        gy_task_repay(successor);
    }
    return before == 1;
}

/* let_go() of one dependent; true when that made it ready.  `keeper`, if not NULL, may run one next, itself.
 */
static GY_INLINE bool notify_successor(gantry_task *task, const struct gy_edge *edge, gantry_status result,
                                       uint64_t wait_set, struct gy_ready *ready, struct gy_worker *keeper)
{
    gantry_task *successor = gy_edge_successor(edge);
    if (!let_go(task, edge, result, wait_set)) {
        return false;
    }
    gy_task_become_ready(successor);
    if (keeper != NULL && keeper->next == NULL && successor->traits == GANTRY_TASK_CPU &&
        atomic_load_explicit(&successor->preset, memory_order_relaxed) == GANTRY_OK) {
        keeper->next = successor;
    } else {
        gy_ready_sort(ready, successor);
    }
    return true;
}

/* Tell every dependent, also those that are declared while we are at it, and close the list.  Returns how
 * many became ready. */
static GY_INLINE size_t notify_successors(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                          struct gy_worker *keeper)
{
    uint64_t wait_set = wait_set_of(task);
    size_t made_ready = 0;
    _Atomic(struct gy_edge *) *place = &task->edges;
    for (;;) {
        struct gy_edge *edge = atomic_load_explicit(place, memory_order_acquire);
        if (edge == NULL && atomic_compare_exchange_strong_explicit(
                                place, &edge, &gy_edge_closed, memory_order_acq_rel, memory_order_acquire)) {
            return made_ready;
        }
        place = &edge->next; /* before the successor, which may be all that keeps the graph alive */
        made_ready += notify_successor(task, edge, result, wait_set, ready, keeper);
    }
}

/* Give back the references that the worker has on a join, which is counted as active before anybody gets it.
 */
static GY_RARE void leave_join(struct gy_worker *self)
{
    gantry_task *join = self->debt.join;
    const int32_t count = self->debt.references;
    assert(gy_worker_is_valid(self));
    self->debt.references = 0;
    self->debt.leave_join = NULL;
    if (count != 0 && gy_task_let_some_go(join, count)) {
        struct gy_ready ready;
        gy_ready_init(&ready);
        gy_worker_claim_active(self, join->owner, 1);
        gy_ready_add(&ready, join);
        gy_ready_dispatch(join->owner, &ready);
    }
}

/* The dependent of a light task is none that is ready now.  If very many come before it, the worker keeps the
 * references that other tasks leave (struct gy_worker_debt). */
static GY_INLINE void meet_join(struct gy_worker *self, gantry_task *successor)
{
    const bool is_wide = atomic_load_explicit(&successor->references, memory_order_relaxed) > GY_JOIN_MANY;
    if (is_wide && self->has_deque && self->debt.references == 0 && !gy_task_has(successor, GY_TASK_FROZEN)) {
        self->debt.join = successor;
    }
}

/* notify_successors() for a light task, to which no edge is declared any more. */
static inline size_t notify_continuation(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                         struct gy_worker *keeper)
{
    struct gy_edge *edge = atomic_load_explicit(&task->edges, memory_order_relaxed);
    if (edge == NULL) {
        return 0;
    }
    const uint64_t wait_set = wait_set_of(task);
    gantry_task *successor = gy_edge_successor(edge);
    if (keeper != NULL && keeper->debt.join == successor && result == GANTRY_OK && wait_set == 0) {
        keeper->debt.references++;
        keeper->debt.leave_join = leave_join;
        return 0;
    }
    const size_t made_ready = notify_successor(task, edge, result, wait_set, ready, keeper);
    if (keeper != NULL && made_ready == 0) {
        meet_join(keeper, successor);
    }
    return made_ready;
}

/* notify_successors() in a frozen graph: no edge is declared meanwhile, and the list is needed again.
 * Taking a reference away stalls when the dependent's line is not in the cache, so those of the tasks that
 * were created next, and most likely run soon, are asked for early. */
static GY_INLINE size_t notify_frozen(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                      struct gy_worker *keeper)
{
    uint64_t wait_set = wait_set_of(task);
    size_t made_ready = 0;
    struct gy_edge *edge = atomic_load_explicit(&task->edges, memory_order_relaxed);
    if (edge != NULL) {
        __builtin_prefetch(gy_edge_line(&edge[1]), 1); /* perhaps not ours, but a task then or nothing */
    }
    while (edge != NULL) {
        struct gy_edge *next = atomic_load_explicit(&edge->next, memory_order_relaxed);
        gantry_task *successor = gy_edge_successor(edge);
        __builtin_prefetch(gy_edge_line(&edge[GY_EDGES_AHEAD]), 1);
        if (notify_successor(task, edge, result, wait_set, ready, keeper)) {
            __builtin_prefetch(atomic_load_explicit(&successor->edges, memory_order_relaxed));
            made_ready++;
        }
        edge = next;
    }
    return made_ready;
}

_Static_assert(GY_PROOF_LISTENS == GY_TASK_HEARD, "a task that is made then is heard");

/* Any of the three while the proof listens: it hears of an edge before the dependent can begin. */
static GY_COLD size_t notify_listened(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                      struct gy_worker *keeper, unsigned flags)
{
    const struct gy_proof_ops *proof = gy_proof();
    const bool is_open = (flags & (GY_TASK_FROZEN | GY_TASK_LIGHT)) == 0; /* edges may still be declared */
    const uint64_t wait_set = wait_set_of(task);
    size_t made_ready = 0;
    _Atomic(struct gy_edge *) *place = &task->edges;
    proof->body_end(task);
    for (;;) {
        struct gy_edge *edge = atomic_load_explicit(place, memory_order_acquire);
        if (edge == NULL &&
            (!is_open || atomic_compare_exchange_strong_explicit(
                             place, &edge, &gy_edge_closed, memory_order_acq_rel, memory_order_acquire))) {
            proof->end(gy_task_manager(task), task);
            return made_ready;
        }
        place = &edge->next;
        gy_edge_prove(proof, task, edge);
        made_ready += notify_successor(task, edge, result, wait_set, ready, keeper);
    }
}

/* The result of the task: its preset failure, or else what its body returned. */
static GY_RARE gantry_status decide_result(gantry_task *task, gantry_status result)
{
    gantry_taskman *manager = gy_task_manager(task);
    gantry_status preset = (gantry_status)atomic_load_explicit(&task->preset, memory_order_relaxed);
    if (preset != GANTRY_OK) {
        result = preset;
        atomic_store_explicit(&task->preset, GANTRY_OK, memory_order_relaxed);
    } else if (result != GANTRY_OK) {
        gy_taskman_keep_failure(manager, task, result);
    }
    if (result != GANTRY_OK) {
        atomic_store_explicit(&task->result, result, memory_order_relaxed);
        atomic_fetch_add_explicit(&manager->released.failed, 1, memory_order_relaxed);
    }
    return result;
}

/* Release the tasks that a release callback has let go while the thread was inside of it. */
static void release_aside(gantry_task *task)
{
    struct gy_task_owner *owner = task->owner;
    gantry_cpu_dispatcher *pool = owner->pool;
    struct gy_ready ready;
    gy_ready_init(&ready);
    gy_task_list_add(&ready.resolve, task);
    gy_pool_enter(pool);
    gy_ready_dispatch(owner, &ready);
    gy_pool_leave(pool);
}

static void call_release(gantry_task *task, gantry_status result)
{
    if (task->release != NULL && gy_task_call_release(task, result)) {
        for (gantry_task *next; (next = gy_callbacks_next_aside()) != NULL;) {
            release_aside(next);
        }
    }
}

/* Tasks that the end of a task has made ready: one of them takes over its place among the active ones, and
 * the others are counted as active before any thread gets them.  A worker pays for that with the references
 * it owes. */
static inline void count_ready(gantry_taskman *manager, size_t made_ready, struct gy_worker *self)
{
    if (made_ready <= 1) {
        return;
    }
    if (self != NULL) {
        gy_worker_claim_active(self, &manager->as_owner, made_ready - 1);
    } else {
        atomic_fetch_add_explicit(&manager->as_owner.work, (made_ready - 1) * GY_WORK_ACTIVE,
                                  memory_order_relaxed);
    }
}

/* The final state, the dependents, the release callback.  Returns how many tasks became ready.  They have not
 * been handed out when `ready` still holds something to resolve. */
static GY_INLINE size_t end_task(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                 struct gy_worker *self, unsigned flags)
{
    gantry_taskman *manager = gy_task_manager(task);
    gy_task_enter(task, result == GANTRY_OK ? GANTRY_TASK_STATE_DONE : GANTRY_TASK_STATE_FAILED);
    /* While a cascade is resolved, no task is kept back, since that may take long. */
    struct gy_worker *keeper =
        self != NULL && self->activity == GY_WORKER_RELEASING && ready->resolve.first == NULL ? self : NULL;
    const bool is_proved = (flags & GY_TASK_HEARD) != 0 && gy_proof() != NULL;
    size_t made_ready = is_proved                       ? notify_listened(task, result, ready, keeper, flags)
                        : (flags & GY_TASK_FROZEN) != 0 ? notify_frozen(task, result, ready, keeper)
                        : (flags & GY_TASK_LIGHT) != 0  ? notify_continuation(task, result, ready, keeper)
                                                        : notify_successors(task, result, ready, keeper);
    count_ready(manager, made_ready, self);
    if (self != NULL && __builtin_expect(self->span.begin_ns != 0, 0)) {
        gy_worker_emit_body(self, task, ready->gpu.first != NULL);
    }
    if (ready->resolve.first == NULL) {
        flush_but_one(manager, ready, self);
    } else if (ready->cpu.count + ready->gpu.count + ready->queued.count >= CASCADE_BATCH) {
        flush(manager, ready);
    }
    gy_task_drop_deps(task);
    if ((flags & GY_TASK_HEARD) != 0) {
        call_release(task, result);
    }
    if ((task->traits & GY_TRAIT_MEMORY) != 0) {
        gy_taskman_end_memory(task);
    }
    /* For the next run, which cannot start before this task is counted off. */
    if ((flags & GY_TASK_FROZEN) != 0) {
        atomic_store_explicit(&task->wait_set, 0, memory_order_relaxed);
        atomic_store_explicit(&task->references, gy_task_armed(task), memory_order_release);
    }
    return made_ready;
}

/* end_task() in a graph with conditions. */
static GY_RARE size_t end_round(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                struct gy_worker *self)
{
    gantry_taskman *manager = gy_task_manager(task);
    struct gy_round_end end = gy_round_end(task, result);
    if (gy_task_has(task, GY_TASK_HEARD)) {
        call_release(task, result);
    }
    size_t made_ready = gy_round_notify(task, result, &end, ready);
    if (self != NULL && self->span.begin_ns != 0) {
        gy_worker_emit_body(self, task, ready->gpu.first != NULL);
    }
    count_ready(manager, made_ready, self);
    if (ready->resolve.first == NULL) {
        /* Nothing is owed for the round: the tasks that are handed out may end the step at once. */
        gantry_cpu_dispatcher *pool = manager->as_owner.pool;
        gy_pool_enter(pool);
        hand_out(manager, ready, self);
        gy_pool_leave(pool);
    }
    return made_ready;
}

bool gy_gpu_debt_is_valid(const struct gy_gpu_debt *debt)
{
    uint64_t most = GY_OWED_MOST * (GY_WORK_PENDING + GY_WORK_ACTIVE);
    return debt->manager != NULL && debt->owed <= most && debt->owed_odd <= GY_OWED_MOST;
}

/* While something is owed its manager is not idle, so the manager and the pool stay.  The thread that makes
 * it idle may need the pool a little longer. */
void gy_gpu_debt_pay(struct gy_gpu_debt *debt)
{
    assert(gy_gpu_debt_is_valid(debt));
    gantry_taskman *manager = debt->manager;
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    debt->manager = NULL;
    gy_pool_enter(pool);
    gy_owner_count_off(&manager->as_owner, debt->owed, debt->owed_odd);
    gy_pool_leave(pool);
}

static GY_INLINE void owe(struct gy_gpu_debt *debt, gantry_taskman *manager, uint64_t less, uint64_t odd)
{
    if (debt->manager != manager) {
        gy_gpu_debt_settle(debt);
        *debt = (struct gy_gpu_debt){.manager = manager};
    }
    debt->owed += less;
    debt->owed_odd += odd;
    assert(gy_gpu_debt_is_valid(debt));
    if (debt->owed >= GY_OWED_MOST * GY_WORK_PENDING || debt->owed_odd >= GY_OWED_MOST) {
        gy_gpu_debt_pay(debt);
    }
}

/* A task of an odd epoch has ended, for which another would owe `less`. */
static GY_RARE void end_odd(gantry_taskman *manager, uint64_t less, struct gy_worker *self,
                            struct gy_gpu_debt *debt)
{
    less -= GY_WORK_PENDING;
    if (self != NULL) {
        gy_worker_owe_odd(self, &manager->as_owner, less);
    } else if (debt != NULL) {
        owe(debt, manager, less, 1);
    } else {
        gy_owner_count_off(&manager->as_owner, less, 1);
    }
}

/* release_task() of one that has these flags. */
static GY_INLINE void release_flagged(gantry_task *task, unsigned flags, gantry_status result,
                                      struct gy_ready *ready, struct gy_worker *self,
                                      struct gy_gpu_debt *debt)
{
    gantry_taskman *manager = gy_task_manager(task);
    uint64_t less = GY_WORK_PENDING;
    size_t made_ready;
    if (result != GANTRY_OK || atomic_load_explicit(&task->preset, memory_order_relaxed) != GANTRY_OK) {
        result = decide_result(task, result);
    }
    if ((flags & GY_TASK_FILLED) == 0) {
        atomic_fetch_add_explicit(&manager->released.names, 1, memory_order_relaxed);
    }
    if (manager->as_owner.has_conditions && (flags & GY_TASK_FROZEN) != 0) {
        less = 0;
        made_ready = end_round(task, result, ready, self);
    } else {
        made_ready = end_task(task, result, ready, self, flags);
        if ((flags & GY_TASK_SPAWNED) != 0) {
            gy_worker_take_back(self, task);
        }
    }
    /* Tasks that were made ready have taken over this one's place among the active ones. */
    less += made_ready == 0 ? GY_WORK_ACTIVE : 0;
    if ((flags & GY_TASK_ODD) != 0) {
        end_odd(manager, less, self, debt);
        return;
    }
    if (less == 0) {
        return;
    }
    if (self != NULL) {
        gy_worker_owe(self, &manager->as_owner, less);
    } else if (debt != NULL) {
        owe(debt, manager, less, 0);
    } else {
        gy_taskman_count_off(manager, less);
    }
}

/* Out of line, so that tasks of which nobody hears do not pay for the registers that it needs. */
static GY_COLD void release_heard(gantry_task *task, unsigned flags, gantry_status result,
                                  struct gy_ready *ready, struct gy_worker *self, struct gy_gpu_debt *debt)
{
    release_flagged(task, flags, result, ready, self, debt);
}

/* Path of a task, step 9 of 9: it has ended, its successors hear of it.
 *
 * `self`: the worker that the calling thread is in the manager's pool, or NULL; then it may have a `debt`. */
static GY_INLINE void release_task(gantry_task *task, gantry_status result, struct gy_ready *ready,
                                   struct gy_worker *self, struct gy_gpu_debt *debt)
{
    gy_point(GY_POINT_PATH_9, task);
    unsigned flags = atomic_load_explicit(&task->flags, memory_order_relaxed);
    if (flags == GY_TASK_FILLED) { /* most tasks: the compiler knows what need not be asked */
        release_flagged(task, GY_TASK_FILLED, result, ready, self, debt);
    } else if (flags == (GY_TASK_FILLED | GY_TASK_FROZEN)) { /* and most of a frozen graph */
        release_flagged(task, GY_TASK_FILLED | GY_TASK_FROZEN, result, ready, self, debt);
    } else if ((flags & GY_TASK_HEARD) != 0) {
        release_heard(task, flags, result, ready, self, debt);
    } else {
        release_flagged(task, flags & ~(unsigned)GY_TASK_HEARD, result, ready, self, debt);
    }
}

static void release_one(gantry_task *task, gantry_status result, struct gy_ready *ready,
                        struct gy_worker *self)
{
    release_task(task, result, ready, self, NULL);
}

static void resolve(struct gy_ready *ready, struct gy_worker *self)
{
    for (gantry_task *task; (task = gy_task_list_pop(&ready->resolve)) != NULL;) {
        release_one(task, GANTRY_OK, ready, self);
    }
}

/* Does the worker do something else than tasks of the owner, perhaps for long? */
static bool is_visitor(const struct gy_worker *self, const struct gy_task_owner *owner)
{
    if (self->running != NULL) {
        return self->running->owner != owner;
    }
    return self->activity == GY_WORKER_IN_BODY || (self->only_owner != NULL && self->only_owner != owner);
}

void gy_ready_dispatch(struct gy_task_owner *owner, struct gy_ready *ready)
{
    struct gy_worker *self = gy_worker_is_of(owner->pool) ? gy_worker_current : NULL;
    if (ready->resolve.first != NULL) {
        resolve(ready, self);
        if (self != NULL && self->debt.owner == owner && is_visitor(self, owner)) {
            gy_worker_flush(self); /* a thread that waits for the owner need not wait for that */
        }
    } else {
        hand_out((gantry_taskman *)(void *)owner, ready, self);
    }
}

void gy_task_release(gantry_task *task, gantry_status result, struct gy_gpu_debt *debt)
{
    gantry_taskman *manager = gy_task_manager(task);
    struct gy_ready ready;
    gy_ready_init(&ready);
    release_task(task, result, &ready, NULL, debt);
    if (ready.resolve.first != NULL) {
        gantry_cpu_dispatcher *pool =
            manager->as_owner.pool; /* there is more to end, so the manager is there */
        gy_pool_enter(pool);
        resolve(&ready, NULL);
        gy_pool_leave(pool);
    }
}

/* Call a CPU task's body on a guest's thread that is inside. */
static GY_COLD gantry_status run_outside(gantry_task *task)
{
    const struct gy_inside *inside = gy_outside_begin();
    gantry_status result = task->body.run(task, task->arg);
    if (gy_outside_end(inside)) {
        inside->tell(gantry_task_label(task));
    }
    return result;
}

/* Call a CPU task's body. */
static inline gantry_status run_body(struct gy_worker *self, gantry_task *task)
{
    if (self->last_error->status != GANTRY_OK) {
        gy_error_clear(); /* so that what is there afterwards comes from the body */
    }
    if (!gy_task_enter_running(task)) {
        return GANTRY_ERR_TASK_FAILED; /* cancelled since it became ready: the preset failure decides */
    }
    if (gy_check_is_on(GY_CHECK_COMPLETIONS | GY_CHECK_EDGES)) {
        gy_task_check_body(task);
    }
    uint64_t begin = gy_span_begin();
    bool is_critical = gy_task_is_critical(task);
    if (is_critical) {
        gantry_bandwidth_gate_raise();
    }
    const struct gy_span_ranges *ranges =
        __builtin_expect(begin != 0, 0) ? gy_span_push(begin, GY_RANGE_TASK, gantry_task_label(task)) : NULL;
    gantry_status result =
        __builtin_expect(gy_place != GY_OUTSIDE, 0) ? run_outside(task) : task->body.run(task, task->arg);
    if (is_critical) {
        (void)gantry_bandwidth_gate_lower();
    }
    if (__builtin_expect(begin != 0, 0)) { /* see gy_worker_emit_body() */
        gy_span_pop(ranges);
        self->span.begin_ns = begin;
        self->span.end_ns = gy_clock_ns();
        self->span.flow = 0;
    }
    return result;
}

/* The running task's body has returned, or gone. */
static GY_INLINE void end_body(struct gy_worker *self, gantry_task *task, gantry_status result)
{
    struct gy_ready ready;
    gy_ready_init(&ready);
    gy_worker_enter(self, GY_WORKER_RELEASING);
    release_task(task, result, &ready, self, NULL);
    if (ready.resolve.first != NULL) {
        resolve(&ready, self);
    }
    self->running = NULL;
    gy_worker_enter(self, GY_WORKER_BETWEEN);
}

/* Most tasks that tasks have spawned: nobody waits for it, nobody has a handle, it has no callback. */
static inline bool is_unheard(const struct gy_worker *self, const gantry_task *task, gantry_status result)
{
    const unsigned odd = GY_TASK_ODD;
    return (atomic_load_explicit(&task->flags, memory_order_relaxed) & ~odd) ==
               (GY_TASK_LIGHT | GY_TASK_FILLED | GY_TASK_SPAWNED) &&
           atomic_load_explicit(&task->edges, memory_order_relaxed) == NULL && result == GANTRY_OK &&
           self->span.begin_ns == 0;
}

void gy_worker_abandon(struct gy_worker *self)
{
    assert(gy_worker_is_valid(self));
    gantry_task *task = self->activity == GY_WORKER_IN_BODY ? self->running : NULL;
    if (self->activity == GY_WORKER_IN_BODY) {
        gy_worker_end_bundles(self);
    }
    if (task == NULL) { /* it was the part of a loop, see parallel.c */
        self->running = NULL;
        if (self->activity != GY_WORKER_BETWEEN) {
            gy_worker_enter(self, GY_WORKER_BETWEEN);
        }
        return;
    }
    if (gy_task_is_critical(task)) {
        (void)gantry_bandwidth_gate_lower();
    }
    gantry_status why = GY_FAIL(GANTRY_ERR_STATE, "the body has called pthread_exit()");
    if (self->said.detached != 0) {
        gy_worker_leave_awaited(self, task, why, gy_ready_dispatch);
        return;
    }
    uint32_t cpu_class = gy_task_class(task);
    end_body(self, task, why);
    if (cpu_class != 0) {
        gy_worker_leave_class(self);
    }
}

/* A thread that waits for the owner of the worker's debt must not wait for this task, too, if it need not.
 * It need not if the task is another owner's, or of the other epoch. */
static inline bool owes_others(const struct gy_worker *self, const gantry_task *task)
{
    bool owes_other_epoch =
        gy_task_has(task, GY_TASK_ODD) ? self->debt.work >= GY_WORK_PENDING : self->debt.odd != 0;
    return self->debt.owner != task->owner || owes_other_epoch;
}

void gy_worker_run(struct gy_worker *self, gantry_task *task)
{
    assert(gy_worker_is_valid(self));
    if (owes_others(self, task)) {
        gy_worker_flush(self);
    }
    if (__builtin_expect(self->debt.leave_join != NULL, 0) && gy_task_continuation(task) != self->debt.join) {
        leave_join(self);
    }
    uint32_t cpu_class = gy_task_class(task);
    if (cpu_class != 0) {
        gy_worker_enter_class(self, cpu_class);
    }
    self->running = task;
    gy_worker_enter(self, GY_WORKER_IN_BODY);
    self->said.chosen = 0;
    self->filling.made = 0;
    gantry_status result = run_body(self, task);
    if (__builtin_expect(self->filling.made > GY_BUNDLE_BEHIND, 0)) {
        gy_worker_end_bundles(self);
        if (self->said.detached != 0) {
            gy_worker_leave_awaited(self, task, result, gy_ready_dispatch);
            return;
        }
    }
    if (is_unheard(self, task, result)) {
        gantry_taskman *manager = gy_task_manager(task);
        self->running = NULL;
        gy_worker_enter(self, GY_WORKER_BETWEEN);
        bool is_odd = gy_task_has(task, GY_TASK_ODD);
        gy_worker_take_back(self, task);
        if (is_odd) {
            gy_worker_owe_odd(self, &manager->as_owner, GY_WORK_ACTIVE);
        } else {
            gy_worker_owe(self, &manager->as_owner, GY_WORK_PENDING + GY_WORK_ACTIVE);
        }
        return;
    }
    end_body(self, task, result);
    if (cpu_class != 0) {
        gy_worker_leave_class(self);
    }
}
