/* SPDX-License-Identifier: MIT */
/* Detached tasks.
 *
 * One table for the process, under one lock, has a place for each.  A handle is the number of the place and a
 * generation that counts on for ever, so a handle whose task has ended is recognised without a look at
 * anything that may be gone: its manager, the task, even the table.  The table is there as long as a manager
 * that has used it.
 *
 * The thread `gantry clock`, which comes and goes with the table, is the one that tells holders and gives
 * tasks up, for time-outs and for cancel().  Nobody else may be there to do it: no thread need wait for the
 * manager, and one that waits may be in a long body.  It looks at all places when the first is due, at most
 * once in a millisecond; complete() does not wake it.  Operations of ports are the business of their threads.
 *
 * A task that has ended is released like one with nothing to run, by a preset failure if it has failed. */
#include "taskman/awaits.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "taskman/callbacks.h"
#include "taskman/cpu/pool.h"
#include "taskman/failure.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PLACE_BITS = 24,
    GRACE_NS = 100000000,
    BETWEEN_LOOKS_NS = 1000000,
};

enum clock { CLOCK_NONE, CLOCK_CHANGES, CLOCK_RUNS, CLOCK_CLOSES };

static struct {
    gy_mutex lock;
    gy_cond moved;             /* `clock` or `own` has changed */
    struct gy_await *places;   /* guarded by lock; NULL: none yet */
    size_t room, used;         /* guarded by lock; places; of these, those that were ever given out */
    uint32_t free;             /* guarded by lock; as gy_await.next_free */
    size_t awaited;            /* guarded by lock; places that are not FREE */
    uint64_t generation;       /* guarded by lock; of the latest handle; never goes back */
    struct gy_await_clock own; /* of `gantry clock` */
    size_t managers;           /* guarded by lock; that have detached a task */
    enum clock clock;          /* guarded by lock */
    unsigned forks;            /* guarded by lock; gy_thread_forks() of the clock's thread */
    gy_dispatch_fn *dispatch;  /* written once, under lock, before a task can be released */
    gy_thread thread;          /* of who makes `clock` CHANGE or CLOSE */
} table = {.lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF}, .moved = GY_COND_INIT};

bool gy_await_is_valid(const struct gy_await *await)
{
    bool is_free = await->state == GY_AWAIT_FREE;
    return is_free == (await->handle == 0) && is_free == (await->task == NULL) &&
           (!is_free || await->busy == 0) && (await->state != GY_AWAIT_ENDED || await->busy != 0) &&
           (!await->is_in_body || await->busy != 0);
}

/* The only writer of the state. */
static void await_enter(struct gy_await *await, enum gy_await_state next)
{
    static const uint8_t from[] = {
        [GY_AWAIT_FREE] = 1u << GY_AWAIT_ENDED,
        [GY_AWAIT_WAITING] = 1u << GY_AWAIT_FREE,
        [GY_AWAIT_TOLD] = 1u << GY_AWAIT_WAITING,
        [GY_AWAIT_ENDED] = 1u << GY_AWAIT_WAITING | 1u << GY_AWAIT_TOLD,
    };
    assert((from[next] >> await->state & 1u) != 0);
    await->state = (uint8_t)next;
}

/* ---- the table: its lock is held ------------------------------------------------------------- */

/* The place of a task that has not been released; NULL: there is none. */
static struct gy_await *find(gantry_detached handle)
{
    const size_t number = (size_t)(handle & ((1u << PLACE_BITS) - 1));
    struct gy_await *await = number < table.used ? &table.places[number] : NULL;
    return await != NULL && await->handle == handle ? await : NULL;
}

static bool has_ended(const struct gy_await *await)
{
    return await == NULL || await->state == GY_AWAIT_ENDED;
}

static struct gy_await *take_place(void)
{
    if (table.free != 0) {
        struct gy_await *await = &table.places[table.free - 1];
        table.free = await->next_free;
        return await;
    }
    if (table.used == (size_t)1 << PLACE_BITS ||
        (table.used == table.room &&
         !gy_grow_array(&table.places, &table.room, table.used + 1, sizeof(*table.places)))) {
        return NULL;
    }
    return &table.places[table.used++];
}

static void expect(struct gy_await_clock *clock, uint64_t due_ns)
{
    if (due_ns < atomic_load(&clock->next_due_ns)) {
        atomic_store(&clock->next_due_ns, due_ns);
        if (clock == &table.own) {
            gy_cond_broadcast(&table.moved);
        }
    }
}

/* A thread is busy with the task no more.  Returns the task if it has ended and the caller is the last: he
 * releases it, without the lock.  Else NULL. */
static gantry_task *leave(struct gy_await *await)
{
    gantry_task *task = NULL;
    await->busy--;
    if (await->state == GY_AWAIT_ENDED && await->busy == 0) {
        task = await->task;
        await_enter(await, GY_AWAIT_FREE);
        await->task = NULL;
        await->handle = 0;
        await->next_free = table.free;
        table.free = (uint32_t)(await - table.places) + 1;
        table.awaited--;
        if (await->clock != &table.own) {
            atomic_fetch_sub(&await->clock->tasks, 1); /* now the port may go */
        }
    }
    assert(gy_await_is_valid(await));
    return task;
}

/* ---- without it ------------------------------------------------------------------------------ */

static void tell_count(size_t awaited)
{
    gy_span_count("awaited tasks", awaited);
}

/* Until then its step is not idle, so the manager and its pool are there. */
void gy_await_release(gantry_task *task, gy_dispatch_fn *dispatch)
{
    struct gy_ready ready = {0};
    struct gy_task_owner *owner = task->owner;
    gantry_cpu_dispatcher *pool = owner->pool;
    gy_task_list_add(&ready.resolve, task);
    gy_pool_enter(pool);
    if (!gy_task_put_aside(&ready)) {
        dispatch(owner, &ready);
    }
    gy_pool_leave(pool);
}

static void release(gantry_task *task, size_t awaited)
{
    if (task != NULL) {
        tell_count(awaited);
        gy_await_release(task, table.dispatch);
    }
}

void gy_await_fail(gantry_task *task, gantry_status status, const char *text)
{
    gy_taskman_keep_cause(task, status, text);
    gy_task_preset_failure(task, status);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static gantry_status why_due(const struct gy_await *await)
{
    return await->is_cancelled ? GANTRY_ERR_CANCELLED : GANTRY_ERR_TIMED_OUT;
}

/* Returns the task if it is to be released. */
static gantry_task *tell_locked(gantry_detached handle) GY_REQUIRES(table.lock)
{
    struct gy_await *await = find(handle);
    const struct gy_await told = *await;
    await_enter(await, GY_AWAIT_TOLD);
    await->due_ns = GY_NEVER_DUE;
    await->busy++;
    if (told.tell != NULL) {
        gy_mutex_unlock(&table.lock);
        told.tell(told.user, handle, why_due(&told));
        gy_mutex_lock(&table.lock);
        await = find(handle);
    }
    await->due_ns = gy_clock_ns() + await->grace_ns;
    expect(await->clock, await->due_ns);
    return leave(await);
}

/* Returns the task, which is to be released. */
static gantry_task *give_up_locked(gantry_detached handle) GY_REQUIRES(table.lock)
{
    struct gy_await *await = find(handle);
    const gantry_status why = why_due(await);
    gantry_task *task = await->task;
    char text[160];
    (void)snprintf(text, sizeof(text),
                   "%s and nobody has completed it within %" PRIu64 " ms; its memory may still be written",
                   await->is_cancelled ? "the run was cancelled," : "its time-out has passed,",
                   await->grace_ns / 1000000);
    await_enter(await, GY_AWAIT_ENDED);
    await->busy++;
    gy_mutex_unlock(&table.lock);
    gy_point(GY_POINT_AWAIT_GIVEN_UP, task);
    gy_await_fail(task, why, text);
    gy_mutex_lock(&table.lock);
    return leave(find(handle));
}

static void attend_locked(gantry_detached handle, bool is_told) GY_REQUIRES(table.lock)
{
    gantry_task *task = is_told ? give_up_locked(handle) : tell_locked(handle);
    const size_t awaited = table.awaited;
    gy_mutex_unlock(&table.lock);
    release(task, awaited);
    gy_mutex_lock(&table.lock);
}

/* Attend to what is due, and find out when something will be. */
static void look_locked(struct gy_await_clock *clock, uint64_t now_ns) GY_REQUIRES(table.lock)
{
    atomic_store(&clock->next_due_ns, GY_NEVER_DUE);
    for (size_t i = 0; i < table.used; i++) {
        const struct gy_await *await = &table.places[i];
        if (has_ended(await) || await->state == GY_AWAIT_FREE || await->is_in_body || await->clock != clock) {
            continue; /* a body that returns tells when it is due */
        }
        if (await->due_ns <= now_ns) {
            attend_locked(await->handle, await->state == GY_AWAIT_TOLD);
        } else {
            expect(clock, await->due_ns);
        }
    }
}

void gy_awaits_look(struct gy_await_clock *clock, uint64_t now_ns)
{
    gy_mutex_lock(&table.lock);
    look_locked(clock, now_ns);
    gy_mutex_unlock(&table.lock);
}

static void keep_time(void *unused)
{
    (void)unused;
    gy_thread_serve(true);
    gy_mutex_lock(&table.lock);
    while (table.clock != CLOCK_CLOSES) {
        const uint64_t now_ns = gy_clock_ns();
        if (atomic_load(&table.own.next_due_ns) <= now_ns) {
            look_locked(&table.own, now_ns);
        }
        const uint64_t due_ns = atomic_load(&table.own.next_due_ns);
        if (due_ns == GY_NEVER_DUE && table.clock != CLOCK_CLOSES) {
            gy_cond_wait(&table.moved, &table.lock);
        } else if (table.clock != CLOCK_CLOSES) {
            const uint64_t soon_ns = now_ns + BETWEEN_LOOKS_NS;
            gy_cond_wait_until(&table.moved, &table.lock, due_ns > soon_ns ? due_ns : soon_ns);
        }
    }
    gy_mutex_unlock(&table.lock);
}

/* Is the clock's thread here, and not about to come or go? */
static bool has_clock(void)
{
    return table.clock == CLOCK_RUNS && table.forks == gy_thread_forks();
}

/* The manager detaches its first task, or the first one in this process, or that needs the clock's thread. */
static gantry_status join_locked(gantry_taskman *manager, bool needs_clock) GY_REQUIRES(table.lock)
{
    gantry_status status = GANTRY_OK;
    while ((table.clock == CLOCK_CHANGES || table.clock == CLOCK_CLOSES) &&
           table.forks == gy_thread_forks()) {
        gy_cond_wait(&table.moved, &table.lock);
    }
    table.managers += !manager->detaches; /* so nobody closes the table meanwhile */
    if (needs_clock && !has_clock()) {
        table.clock = CLOCK_CHANGES;
        table.forks = gy_thread_forks();
        atomic_store(&table.own.next_due_ns, 0);
        gy_mutex_unlock(&table.lock);
        status = gy_thread_start(&table.thread, "gantry clock", keep_time, NULL);
        gy_mutex_lock(&table.lock);
        table.forks = gy_thread_forks();
        table.clock = status == GANTRY_OK ? CLOCK_RUNS : CLOCK_NONE;
        gy_cond_broadcast(&table.moved);
    }
    table.managers -= !manager->detaches && status != GANTRY_OK;
    manager->detaches |= status == GANTRY_OK;
    return status;
}

void gy_awaits_leave(gantry_taskman *manager)
{
    gy_mutex_lock(&table.lock);
    if (manager->detaches && --table.managers == 0) {
        const bool is_here = has_clock();
        table.clock = CLOCK_CLOSES;
        gy_cond_broadcast(&table.moved);
        gy_mutex_unlock(&table.lock);
        if (is_here) {
            gy_thread_join(&table.thread);
        }
        gy_mutex_lock(&table.lock);
        gy_free(table.places);
        table.places = NULL;
        table.room = table.used = table.free = 0;
        table.clock = CLOCK_NONE;
        gy_cond_broadcast(&table.moved);
    }
    gy_mutex_unlock(&table.lock);
}

/* ---- for tasks ------------------------------------------------------------------------------- */

static uint64_t due_after(uint64_t timeout_ns)
{
    const uint64_t now_ns = timeout_ns != 0 ? gy_clock_ns() : 0;
    return timeout_ns != 0 && timeout_ns < GY_NEVER_DUE - now_ns ? now_ns + timeout_ns : GY_NEVER_DUE;
}

static void fill_place(struct gy_await *await, gantry_task *task, const gantry_detach_options *options,
                       struct gy_await_clock *clock)
{
    const bool is_cancelled = atomic_load(&task->owner->cancelled) != GY_CANCELLED_NOT;
    await_enter(await, GY_AWAIT_WAITING);
    await->handle = ++table.generation << PLACE_BITS | (uint64_t)(await - table.places);
    await->task = task;
    await->due_ns = is_cancelled ? 0 : due_after(options->timeout_ns);
    await->grace_ns = options->grace_ns != 0 ? options->grace_ns : GRACE_NS;
    await->clock = clock != NULL ? clock : &table.own;
    await->tell = options->tell;
    await->user = options->user;
    await->busy = 1;
    await->is_in_body = true;
    await->is_cancelled = is_cancelled;
    table.awaited++;
    assert(gy_await_is_valid(await));
}

gantry_status gy_await_begin(gantry_task *task, const gantry_detach_options *options,
                             struct gy_await_clock *clock, gantry_detached *out)
{
    gantry_taskman *manager = gy_task_manager(task);
    gantry_status status = GANTRY_OK;
    struct gy_await *await = NULL;
    gy_mutex_lock(&table.lock);
    if (!manager->detaches || (clock == NULL && !has_clock())) {
        status = join_locked(manager, clock == NULL);
    }
    if (status == GANTRY_OK && (await = take_place()) != NULL) {
        fill_place(await, task, options, clock);
        *out = await->handle;
    }
    const size_t awaited = table.awaited;
    gy_mutex_unlock(&table.lock);
    if (status == GANTRY_OK && await == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY,
                       "gantry_task_detach: no memory for task %zu that is awaited", awaited + 1);
    }
    if (status == GANTRY_OK) {
        tell_count(awaited);
    }
    return status;
}

void gy_await_body_ended(gantry_task *task, gantry_detached handle, gantry_status result,
                         gy_dispatch_fn *dispatch)
{
    gy_point(GY_POINT_AWAIT_RETURNED, task);
    gy_mutex_lock(&table.lock);
    if (table.dispatch == NULL) {
        table.dispatch = dispatch;
    }
    struct gy_await *await = find(handle);
    gy_task_enter(task, GANTRY_TASK_STATE_AWAITED);
    if (result != GANTRY_OK) {
        if (!has_ended(await)) {
            await_enter(await, GY_AWAIT_ENDED);
        }
        gy_mutex_unlock(&table.lock);
        gy_taskman_keep_failure(gy_task_manager(task), task, result);
        gy_task_preset_failure(task, gy_status_is_failure(result) ? result : GANTRY_ERR_TASK_FAILED);
        gy_mutex_lock(&table.lock);
        await = find(handle);
    }
    await->is_in_body = false;
    expect(await->clock, await->due_ns);
    gantry_task *last = leave(await);
    const size_t awaited = table.awaited;
    gy_mutex_unlock(&table.lock);
    release(last, awaited);
}

static gantry_status refuse(gantry_detached handle)
{
    return GY_FAIL(GANTRY_ERR_STATE,
                   "gantry_task_complete: handle %#" PRIx64
                   " is of no task that is awaited: it was completed, "
                   "given up, or is of an earlier run",
                   handle);
}

gantry_status gy_await_complete(gantry_detached handle, gantry_status status, const char *text)
{
    gy_mutex_lock(&table.lock);
    struct gy_await *await = find(handle);
    if (has_ended(await) || gy_task_manager(await->task)->forks < gy_thread_forks()) {
        gy_mutex_unlock(&table.lock);
        return refuse(handle);
    }
    gantry_task *task = await->task;
    if (await->state == GY_AWAIT_TOLD && status == GANTRY_ERR_CANCELLED) {
        status = why_due(await);
    }
    await_enter(await, GY_AWAIT_ENDED);
    await->busy++;
    if (status != GANTRY_OK) {
        gy_mutex_unlock(&table.lock);
        gy_point(GY_POINT_AWAIT_COMPLETED, task);
        gy_await_fail(task, status, text != NULL && text[0] != '\0' ? text : "its work has failed");
        gy_mutex_lock(&table.lock);
        await = find(handle);
    }
    task = leave(await);
    const size_t awaited = table.awaited;
    gy_mutex_unlock(&table.lock);
    release(task, awaited);
    return GANTRY_OK;
}

/* ---- for managers ---------------------------------------------------------------------------- */

void gy_awaits_cancel(const gantry_taskman *manager)
{
    gy_mutex_lock(&table.lock);
    for (size_t i = 0; manager->detaches && i < table.used; i++) {
        struct gy_await *await = &table.places[i];
        if (await->state == GY_AWAIT_WAITING && gy_task_manager(await->task) == manager) {
            await->is_cancelled = true;
            await->due_ns = 0;
            expect(await->clock, 0);
        }
    }
    gy_mutex_unlock(&table.lock);
}

size_t gy_awaits_of(const gantry_taskman *manager, const struct gy_await_clock *clock, char *labels,
                    size_t room)
{
    size_t count = 0, at = 0;
    labels[0] = '\0';
    gy_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.used; i++) {
        const struct gy_await *await = &table.places[i];
        if (await->state == GY_AWAIT_FREE ||
            (manager != NULL ? gy_task_manager(await->task) != manager : await->clock != clock)) {
            continue;
        }
        count++;
        const int more = snprintf(labels + at, room - at, " '%.60s'", gantry_task_label(await->task));
        at += more > 0 && (size_t)more < room - at ? (size_t)more : 0;
        labels[at] = '\0'; /* one that does not fit is left out */
    }
    gy_mutex_unlock(&table.lock);
    return count;
}
