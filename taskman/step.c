/* SPDX-License-Identifier: MIT */
/* A step of a task manager: start, wait, stop, reset; and what it counts. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/proof.h"
#include "base/times.h"
#include "taskman/access.h"
#include "taskman/awaits.h"
#include "taskman/callbacks.h"
#include "taskman/checks.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/guest.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/wait.h"
#include "taskman/device_loops.h"
#include "taskman/freeze.h"
#include "taskman/gpu_guest.h"
#include "taskman/graph/cycles.h"
#include "taskman/graph/failure.h"
#include "taskman/memory.h"
#include "taskman/phase.h"
#include "taskman/places.h"
#include "taskman/stall.h"

#include <assert.h>
#include <inttypes.h>

/* ---- start ----------------------------------------------------------------------------------- */

struct starter {
    struct gy_ready ready;
    size_t found;            /* tasks in `ready` */
    struct gy_start_job job; /* for the workers; left 0: none */
    uint64_t edges;          /* that were looked at before, see check_graph() */
    bool without_gpu;        /* see struct gantry_taskman */
};

/* Nobody else changes references before the step runs: they do it under the lock that we hold. */
static void start_task(void *user, gantry_task *task)
{
    struct starter *starter = user;
    if (gy_task_has(task, GY_TASK_LIGHT)) {
        if (!gy_task_has(task, GY_TASK_PARKED)) {
            return;
        }
    } else {
        int32_t references = atomic_load_explicit(&task->references, memory_order_relaxed) - 1;
        atomic_store_explicit(&task->references, references, memory_order_relaxed);
        if (references != 0) {
            return;
        }
    }
    gy_ready_add(&starter->ready, task);
    starter->found++;
}

/* A frozen graph's first tasks; the workers cannot take all of them as they are. */
static void start_frozen_locked(gantry_taskman *manager, struct starter *starter) GY_REQUIRES(manager->lock)
{
    const struct gy_frozen *frozen = &manager->frozen_graph;
    bool is_fetched = gy_pool_fetches(manager->as_owner.pool);
    if (is_fetched) {
        starter->job = (struct gy_start_job){.roots = frozen->roots, .left = frozen->plain_count};
    }
    for (size_t i = is_fetched ? frozen->plain_count : 0; i < frozen->root_count; i++) {
        gy_ready_add(&starter->ready, frozen->roots[i]);
        starter->found++;
    }
}

/* Where all tasks are plain, even taking the start's references is left to the workers. */
static void start_tasks_locked(gantry_taskman *manager, struct starter *starter) GY_REQUIRES(manager->lock)
{
    struct gy_graph *graph = &manager->graph;
    if (manager->counts.special == 0 && gy_pool_fetches(manager->as_owner.pool)) {
        starter->job = (struct gy_start_job){.chunk = graph->task_chunks, .left = graph->tasks};
        return;
    }
    struct gy_graph_view view = gy_graph_view(graph);
    gy_graph_each(&view, start_task, starter);
}

/* Can it begin?  Changes nothing. */
static gantry_status check_graph_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock)
{
    if (manager->frozen) {
        return GANTRY_OK;
    }
    return manager->counts.conditions != 0
               ? GY_FAIL(GANTRY_ERR_STATE, "start: the graph has conditions or loops: freeze it first")
               : gy_graph_check_cycles(&manager->graph, "start");
}

/* What the start itself makes ready is counted as active, and the start too, until all is handed out. */
static void begin_running_locked(gantry_taskman *manager, struct starter *starter) GY_REQUIRES(manager->lock)
{
    assert(gy_taskman_is_valid(manager));
    manager->without_gpu = starter->without_gpu;
    if (manager->frozen) {
        gy_taskman_rearm(manager);
        start_frozen_locked(manager, starter);
    } else {
        start_tasks_locked(manager, starter);
    }
    gy_taskman_begin_all_memory(manager);
    uint64_t pending = manager->as_owner.has_conditions ? 0 : manager->counts.into_work;
    uint64_t active = starter->found + manager->counts.outside + 1;
    atomic_store_explicit(&manager->as_owner.work, pending * GY_WORK_PENDING + active * GY_WORK_ACTIVE,
                          memory_order_relaxed);
    gy_taskman_enter_phase(manager, GY_RUNNING);
}

/* No edge can be added between the search and the change of phase: both under one lock. */
static gantry_status begin_running(gantry_taskman *manager, struct starter *starter)
{
    gy_fast_lock_take(&manager->lock);
    gantry_status status = check_graph_locked(manager);
    if (status == GANTRY_OK) {
        begin_running_locked(manager, starter);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return status;
}

static void wake_for_completions(gantry_taskman *manager, gantry_cpu_dispatcher *pool)
{
    uint64_t soon_ns = manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_STEP_BEGUN);
    if (soon_ns != 0) {
        gy_pool_expect(pool, soon_ns);
    }
}

/* The caller is likely to be a guest behind the start at once.  If it was so for some steps, no thread is
 * woken for the first GPU tasks. */
static void expect_guest(gantry_taskman *manager, struct gy_task_list *first)
{
    const struct gy_gpu_ops *ops = manager->gpu.ops;
    if (first->first != NULL && ops->guests.submit != NULL &&
        atomic_load_explicit(&manager->hints.punctual, memory_order_relaxed) == GY_PUNCTUAL) {
        const struct gy_task_list tasks = *first;
        *first = (struct gy_task_list){0};
        ops->guests.submit(manager->gpu.dispatcher, tasks.first, tasks.last);
    } else {
        ops->tell(manager->gpu.dispatcher, GY_GPU_GUEST_COMES);
    }
}

/* Plain CPU tasks are left to the workers to fetch; the rest goes its usual way.  If the caller is going to
 * wait at once, as `guest` (else NULL), it begins with the first itself: returns the worker that it has
 * borrowed, or NULL. */
static struct gy_worker *hand_out(gantry_taskman *manager, struct starter *starter,
                                  struct gy_gpu_guest *guest)
{
    gantry_cpu_dispatcher *pool = manager->as_owner.pool;
    const bool has_gpu = manager->gpu.dispatcher != NULL && !starter->without_gpu;
    bool was_helped =
        atomic_exchange_explicit(&manager->hints.was_helped, false, memory_order_relaxed) && has_gpu;
    struct gy_worker *self = guest != NULL && starter->job.left != 0 && manager->gpu.dispatcher == NULL
                                 ? gy_guest_begin(&manager->as_owner)
                                 : NULL;
    if (guest != NULL) {
        gy_gpu_guest_enter(guest);
    }
    gy_pool_enter(pool);
    if (starter->job.left != 0) {
        manager->job = starter->job;
        manager->job.owner = &manager->as_owner;
        gy_pool_start(pool, &manager->job, self);
    }
    if (was_helped && guest == NULL) {
        expect_guest(manager, &starter->ready.gpu);
    }
    gy_ready_dispatch(&manager->as_owner, &starter->ready);
    if (starter->job.left == 0) {
        gy_taskman_count_off(manager, GY_WORK_ACTIVE);
    }
    if (has_gpu && !was_helped) {
        wake_for_completions(manager, pool);
    }
    if (manager->gpu.lets_guests) {
        atomic_store_explicit(&manager->hints.started_ns, gy_clock_ns(), memory_order_relaxed);
    }
    gy_pool_leave(pool);
    return self;
}

/* Check before a start who calls and the phase; if both are right, tell the GPU dispatcher that a step
 * begins.  `guest`: the caller, if it is going to wait at once; else NULL. */
static gantry_status prepare_start(gantry_taskman *manager, const struct gy_gpu_guest *guest,
                                   struct starter *starter)
{
    gantry_status status = gy_taskman_check_owner(manager, "start");
    if (status != GANTRY_OK) {
        return status;
    }
    enum gy_phase phase = gy_taskman_phase(manager);
    if (phase != GY_BUILDING && !(phase == GY_STOPPED && manager->frozen)) {
        return GY_FAIL(GANTRY_ERR_STATE, "start: the task manager is %s", gy_taskman_phase_name(phase));
    }
    const bool is_helped = guest != NULL
                               ? guest->may_help
                               : atomic_load_explicit(&manager->hints.was_helped, memory_order_relaxed);
    return gy_taskman_begin_gpu(manager, is_helped, &starter->without_gpu);
}

static void undo_prepare_start(gantry_taskman *manager, const struct starter *starter)
{
    if (manager->gpu.dispatcher != NULL && !starter->without_gpu) {
        manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_STEP_ENDED);
    }
}

/* `out` gets what hand_out() returns. */
static gantry_status start_step(gantry_taskman *manager, struct gy_gpu_guest *guest, struct gy_worker **out)
{
    struct starter starter = {0};
    gantry_status status = prepare_start(manager, guest, &starter);
    if (status != GANTRY_OK) {
        return status;
    }
    if (__builtin_expect(gy_proof() != NULL, 0)) {
        gy_proof()->step_begin(manager);
    }
    status = begin_running(manager, &starter);
    if (status == GANTRY_OK) {
        if (guest != NULL) {
            guest->may_help &= !starter.without_gpu;
        }
        *out = hand_out(manager, &starter, guest);
    } else {
        undo_prepare_start(manager, &starter);
    }
    return status;
}

gantry_status gantry_taskman_start(gantry_taskman *manager)
{
    GY_ACCEPT(TASKMAN, manager);
    struct gy_worker *none;
    return start_step(manager, NULL, &none);
}

/* ---- several at once --------------------------------------------------------------------------- */

static gantry_status check_managers(gantry_taskman *const *managers, size_t count)
{
    if (managers == NULL && count != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "start_all: `managers` is NULL");
    }
    for (size_t i = 0; i < count; i++) {
        if (GY_HANDLE_IS_BAD_IN("gantry_taskman_start_all", TASKMAN, managers[i])) {
            return GANTRY_ERR_INVALID_ARGUMENT;
        }
        if (managers[i] == NULL) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "start_all: task manager %zu of %zu is NULL", i,
                           count);
        }
        for (size_t before = 0; before < i; before++) {
            if (managers[before] == managers[i]) {
                return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                               "start_all: task managers %zu and %zu are the same", before, i);
            }
        }
    }
    return GANTRY_OK;
}

/* Look for cycles before anything is started.  `starter` notes which of the edges were looked at. */
static gantry_status check_graph(gantry_taskman *manager, struct starter *starter)
{
    gy_fast_lock_take(&manager->lock);
    gantry_status status = check_graph_locked(manager);
    starter->edges = manager->graph.edges;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return status;
}

/* An edge that came since counts as one that was declared while running. */
static void begin_running_checked(gantry_taskman *manager, struct starter *starter)
{
    gy_fast_lock_take(&manager->lock);
    manager->stall.may_have_cycle |= !manager->frozen && manager->graph.edges != starter->edges;
    begin_running_locked(manager, starter);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
}

/* Every manager runs before the first task of any is handed out. */
static gantry_status start_managers(gantry_taskman *const *managers, size_t count, struct starter *starters)
{
    gantry_status status = GANTRY_OK;
    size_t prepared = 0;
    for (; prepared < count && status == GANTRY_OK; prepared++) {
        status = prepare_start(managers[prepared], NULL, &starters[prepared]);
    }
    prepared -= status != GANTRY_OK;
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = check_graph(managers[i], &starters[i]);
    }
    if (status != GANTRY_OK) {
        while (prepared-- > 0) {
            undo_prepare_start(managers[prepared], &starters[prepared]);
        }
        return status;
    }
    for (size_t i = 0; gy_proof() != NULL && i < count; i++) {
        gy_proof()->step_begin(managers[i]);
    }
    for (size_t i = 0; i < count; i++) {
        begin_running_checked(managers[i], &starters[i]);
    }
    for (size_t i = 0; i < count; i++) {
        (void)hand_out(managers[i], &starters[i], NULL);
    }
    return GANTRY_OK;
}

gantry_status gantry_taskman_start_all(gantry_taskman *const *managers, size_t count)
{
    gantry_status status = check_managers(managers, count);
    if (status != GANTRY_OK || count == 0) {
        return status;
    }
    struct starter *starters = gy_zalloc_array(count, sizeof(struct starter));
    if (starters == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "start_all: no memory for %zu task managers", count);
    }
    status = start_managers(managers, count, starters);
    gy_free(starters);
    return status;
}

/* ---- wait, stop ------------------------------------------------------------------------------ */

/* A thread that stops waits until the step is idle.  A thread that only waits does so for the tasks of the
 * epochs up to the one in which it came: tasks are submitted in that, or in the one before if the epoch was
 * read a little earlier.  The epoch is turned when no task of the other parity is left, which the thread
 * must see after it came.  Then the tasks of its own epoch get fewer, and when none is left the thread has
 * seen that of both parities. */
struct waiter {
    gantry_taskman *manager;
    bool is_stopping;
    uint32_t epoch; /* in which he came */
    struct gy_gpu_guest *guest;
    bool has_told; /* what the step waits for */
};

static bool has_pending(gantry_taskman *manager, uint32_t epoch)
{
    return epoch % 2 != 0 ? atomic_load(&manager->as_owner.odd_pending) != 0
                          : atomic_load(&manager->as_owner.work) >= GY_WORK_PENDING;
}

/* May the waiter turn the epoch? */
static bool may_turn(const struct waiter *waiter)
{
    return atomic_load(&waiter->manager->as_owner.epoch) == waiter->epoch &&
           !has_pending(waiter->manager, waiter->epoch + 1);
}

static bool is_past(const struct waiter *waiter)
{
    uint32_t turned = atomic_load(&waiter->manager->as_owner.epoch) - waiter->epoch;
    return turned > 1 || (turned == 1 && !has_pending(waiter->manager, waiter->epoch));
}

/* Loops may go on for ever, and nobody counts what is submitted to them: they are waited for as a whole. */
static bool waits_for_all(const struct waiter *waiter)
{
    return waiter->is_stopping || waiter->manager->as_owner.has_conditions;
}

static bool wait_is_over(void *user, bool thorough)
{
    struct waiter *waiter = user;
    return gy_taskman_is_idle(waiter->manager) ||
           (!waits_for_all(waiter) && (is_past(waiter) || may_turn(waiter))) ||
           (thorough && gy_taskman_is_stalled(waiter->manager, waiter->is_stopping));
}

/* Is the wait over?  Also ends a step that is idle, if asked to, before a thread can submit more; or turns
 * the epoch.  True: the wait is over.  Names that came late are not pending, but must be released like all
 * others before the step ends. */
static bool end_wait(const struct waiter *waiter)
{
    gantry_taskman *manager = waiter->manager;
    gy_fast_lock_take(&manager->lock);
    bool is_over = gy_taskman_is_idle(manager) && !(waiter->is_stopping && manager->counts.late_names != 0);
    if (is_over && waiter->is_stopping) {
        gy_taskman_end_loops(manager);
        gy_taskman_enter_phase(manager, GY_STOPPED);
    }
    if (!is_over && !waits_for_all(waiter)) {
        if (may_turn(waiter)) {
            atomic_store(&manager->as_owner.epoch, waiter->epoch + 1);
        }
        is_over = is_past(waiter);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return is_over;
}

static bool help(void *user)
{
    return gy_gpu_guest_help(((struct waiter *)user)->guest);
}

static void stop_helping(void *user)
{
    gy_gpu_guest_stop_helping(((struct waiter *)user)->guest);
}

static void remind(void *user)
{
    struct waiter *waiter = user;
    waiter->has_told = waiter->has_told || gy_taskman_tell_of_waits(waiter->manager);
}

static bool next_end(void *user, struct gy_lookout *out)
{
    const struct waiter *waiter = user;
    return waiter->manager->gpu.ops->next_end(waiter->manager->gpu.dispatcher, waiter->manager,
                                              waiter->guest->may_help, out);
}

/* A thread begins to wait, not in run().  Does it come so soon that it can do the work of the dispatcher's
 * threads, if they sleep?  Who waits first behind a start tells how the next one is handed out. */
static bool comes_at_once(gantry_taskman *manager, const struct gy_gpu_guest *guest)
{
    const uint64_t started_ns =
        guest->may_help ? atomic_exchange_explicit(&manager->hints.started_ns, 0, memory_order_relaxed) : 0;
    if (started_ns == 0) {
        return false;
    }
    const bool is_at_once = gy_clock_ns() - started_ns < GY_AT_ONCE_NS;
    const uint32_t before = atomic_load_explicit(&manager->hints.punctual, memory_order_relaxed);
    const uint32_t now = !is_at_once ? 0 : before < GY_PUNCTUAL ? before + 1 : before;
    atomic_store_explicit(&manager->hints.punctual, now, memory_order_relaxed);
    return is_at_once;
}

/* `self`: the worker that the caller has borrowed already; NULL: none. */
static void wait_until_over(gantry_taskman *manager, bool is_stopping, struct gy_worker *self,
                            struct gy_gpu_guest *guest)
{
    struct waiter waiter = {manager, is_stopping, atomic_load(&manager->as_owner.epoch), guest, false};
    struct gy_wait wait = {
        .condition = wait_is_over,
        .user = &waiter,
        .spin_budget_ns = manager->gpu.dispatcher != NULL ? &manager->hints.spin_budget_ns : NULL,
        .owner = &manager->as_owner,
        .help = guest->may_help ? help : NULL,
        .stop_helping = guest->may_help ? stop_helping : NULL,
        .remind = remind,
        .remind_ns = GY_REMIND_S * (uint64_t)1000000000,
        .next_end = manager->gpu.dispatcher != NULL && manager->gpu.ops->next_end != NULL ? next_end : NULL,
        .self = self};
    guest->wait = &wait;
    for (;; wait.self = NULL) {
        gy_pool_wait(manager->as_owner.pool, &wait);
        if (end_wait(&waiter)) {
            break;
        }
        gy_taskman_unstall(manager, is_stopping);
    }
    guest->wait = NULL;
    if (__builtin_expect(gy_proof() != NULL, 0)) {
        gy_proof()->step_waited(manager);
    }
    if (guest->has_helped && !guest->is_kept_out) {
        atomic_store_explicit(&manager->hints.was_helped, true, memory_order_relaxed);
    }
}

/* Returns the status of the step so far; its cause becomes the calling thread's last error. */
static gantry_status outcome(gantry_taskman *manager)
{
    if (manager->gpu.dispatcher != NULL && !(manager->without_gpu && gy_taskman_gpu_tasks(manager) == 0)) {
        gantry_status status = manager->gpu.ops->adopt_failure(manager->gpu.dispatcher, manager);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    gy_fast_lock_take(&manager->lock);
    struct gy_error failure = manager->failure;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (failure.status == GANTRY_OK && atomic_load(&manager->as_owner.cancelled) != 0 &&
        (atomic_load(&manager->released.failed) != 0 ||
         atomic_load(&manager->as_owner.cancelled) == GY_CANCELLED_LOOP)) {
        return GY_FAIL(GANTRY_ERR_CANCELLED, "the run was cancelled");
    }
    return failure.status == GANTRY_OK ? GANTRY_OK : gy_error_adopt(&failure);
}

static gantry_status check_running(gantry_taskman *manager, const char *call)
{
    gantry_status status = gy_taskman_check_owner(manager, call);
    if (status == GANTRY_OK && gy_taskman_phase(manager) != GY_RUNNING) {
        status = GY_FAIL(GANTRY_ERR_STATE, "%s: the task manager is %s", call,
                         gy_taskman_phase_name(gy_taskman_phase(manager)));
    }
    return status;
}

gantry_status gantry_taskman_wait(gantry_taskman *manager)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_status status = check_running(manager, "wait");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_gpu_guest guest;
    gy_gpu_guest_init(&guest, manager);
    guest.has_helped = comes_at_once(manager, &guest);
    wait_until_over(manager, false, NULL, &guest);
    return outcome(manager);
}

static gantry_status report_unfilled(gantry_taskman *manager)
{
    gy_fast_lock_take(&manager->lock);
    uint64_t unfilled = manager->counts.unfilled;
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return unfilled == 0 ? GANTRY_OK : gy_graph_fail_unfilled("stop", unfilled, &view);
}

static gantry_status stop_step(gantry_taskman *manager, struct gy_worker *self, struct gy_gpu_guest *guest)
{
    wait_until_over(manager, true, self, guest);
    gantry_status status = outcome(manager);
    if (manager->gpu.dispatcher != NULL && !manager->without_gpu) {
        manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_STEP_ENDED);
    }
    return status != GANTRY_OK ? status : report_unfilled(manager);
}

gantry_status gantry_taskman_stop(gantry_taskman *manager)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_status status = check_running(manager, "stop");
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_gpu_guest guest;
    gy_gpu_guest_init(&guest, manager);
    guest.has_helped = comes_at_once(manager, &guest);
    return stop_step(manager, NULL, &guest);
}

/* Start and stop: the caller waits, so it may begin with the work itself. */
static gantry_status run_once(gantry_taskman *manager)
{
    struct gy_worker *self = NULL;
    struct gy_gpu_guest guest;
    gy_gpu_guest_init(&guest, manager);
    guest.has_helped = guest.may_help;
    gantry_status status = start_step(manager, &guest, &self);
    return status != GANTRY_OK ? status : stop_step(manager, self, &guest);
}

/* ---- run, cancel ------------------------------------------------------------------------------ */

gantry_status gantry_taskman_run(gantry_taskman *manager, uint64_t times)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_status status = gy_taskman_check_owner(manager, "run");
    if (status == GANTRY_OK && !manager->frozen) {
        status =
            GY_FAIL(GANTRY_ERR_STATE, "run: the graph is not frozen: call gantry_taskman_freeze() first");
    } else if (status == GANTRY_OK && gy_taskman_phase(manager) != GY_STOPPED) {
        status = GY_FAIL(GANTRY_ERR_STATE, "run: the task manager is %s",
                         gy_taskman_phase_name(gy_taskman_phase(manager)));
    }
    uint64_t runs = 0;
    for (; runs < times && status == GANTRY_OK; runs++) {
        status = run_once(manager);
    }
    if (status != GANTRY_OK && runs > 0 && times > 1) {
        gy_error_put_before("run %" PRIu64 " of %" PRIu64, runs, times);
    }
    return status;
}

gantry_status gantry_taskman_cancel(gantry_taskman *manager)
{
    GY_NEED(TASKMAN, manager);
    gy_fast_lock_take(&manager->lock);
    bool is_running = gy_taskman_phase(manager) == GY_RUNNING;
    if (is_running) {
        if (atomic_load(&manager->as_owner.cancelled) == GY_CANCELLED_NOT) {
            atomic_store(&manager->as_owner.cancelled, GY_CANCELLED);
        }
        gy_taskman_cancel_loops(manager);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (is_running && manager->gpu.dispatcher != NULL) {
        manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_CANCELLED);
    }
    if (is_running) {
        gy_awaits_cancel(manager);
    }
    return is_running ? GANTRY_OK
                      : GY_FAIL(GANTRY_ERR_STATE, "cancel: the task manager is %s",
                                gy_taskman_phase_name(gy_taskman_phase(manager)));
}

/* ---- reset ----------------------------------------------------------------------------------- */

/* Release a task that was never started: its owner hears of it all the same. */
static void discard_task(void *user, gantry_task *task)
{
    (void)user;
    if (gy_task_has(task, GY_TASK_HEARD) && task->release != NULL && gy_task_never_ran(task)) {
        gy_task_call_release_fn(task, GANTRY_ERR_TASK_FAILED);
    }
}

gantry_status gantry_taskman_reset(gantry_taskman *manager)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_status status = gy_taskman_check_owner(manager, "reset");
    if (status != GANTRY_OK) {
        return status;
    }
    if (gy_taskman_phase(manager) == GY_RUNNING) {
        return GY_FAIL(GANTRY_ERR_STATE, "reset: the task manager is running");
    }
    if (gy_taskman_phase(manager) == GY_BUILDING || manager->frozen) {
        gy_fast_lock_take(&manager->lock);
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        assert(gy_taskman_is_valid(manager));
        gy_fast_lock_give(&manager->lock);
        gy_graph_each(&view, discard_task, NULL);
    }
    gy_fast_lock_take(&manager->lock);
    struct gy_gpu_plan *gpu = manager->frozen_graph.gpu;
    struct gy_gpu_loop *loops = gy_taskman_take_loops(manager);
    gy_accesses_end_step(manager);
    gy_taskman_thaw(manager);
    if (gy_proof() != NULL) {
        gy_taskman_end_for_proof(manager);
    }
    gy_graph_reset(&manager->graph);
    gy_names_reset(&manager->names);
    manager->failure = (struct gy_error){.status = GANTRY_OK};
    manager->counts.submitted = manager->counts.sync = 0;
    atomic_store_explicit(&manager->counts.gpu, 0, memory_order_relaxed);
    manager->counts.unfilled = manager->counts.late_names = manager->counts.into_work = 0;
    manager->counts.conditions = manager->counts.stables = manager->counts.lights = manager->counts.special =
        manager->counts.outside = 0;
    manager->stall.may_have_cycle = manager->stall.has_broken_cycle = false;
    gy_taskman_clear_places(manager);
    gy_taskman_close_memory(manager);
    atomic_store(&manager->as_owner.work, 0);
    atomic_store(&manager->released.failed, 0);
    atomic_store(&manager->released.names, 0);
    atomic_store(&manager->gpu_facts.has_independent, false);
    if (gy_taskman_phase(manager) != GY_BUILDING) {
        gy_taskman_enter_phase(manager, GY_BUILDING);
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (gpu != NULL) {
        gpu->drop(gpu);
    }
    gy_taskman_drop_loops(loops);
    return GANTRY_OK;
}
