/* SPDX-License-Identifier: MIT */
/* Waiting: workers wait for tasks, all other threads for the end of a step or a loop.
 *
 * Idle workers spin, yield or sleep on the `work` event, as the wait mode says.  Threads in
 * gantry_taskman_wait()/stop() sleep on the `done` event.  An inline-only pool has no workers: a thread that
 * waits is one for that time, and sleeps on `work`, which completions then notify as well.  Where it is known
 * when the end is to be looked for (base/foresight.h), a thread that waits sets an alarm to shortly before
 * that.
 *
 * Destruction: no thread is between enter and leave, `stopping` is set, and each worker leaves once it
 * finds nothing more to run; what a worker makes ready meanwhile it runs itself. */
#include "taskman/cpu/wait.h"

#include "base/clock.h"
#include "base/times.h"
#include "base/waiter.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/guest.h"
#include "taskman/cpu/kept_error.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/start_batch.h"

#include <assert.h>
#include <setjmp.h>

enum {
    BETWEEN_HELPS =
        2, /* pauses: a thread that helps is the only one to look at the GPU, which takes long enough */
    BETWEEN_LOOKS = 16, /* pauses: each look reads words that others write to */
};

/* Hand the remaining tasks of a thread that is a worker only for a while to the pool. */
static void leave_rest(struct gy_worker *self)
{
    assert(gy_worker_is_valid(self));
    gantry_cpu_dispatcher *pool = self->pool;
    gantry_task *next = self->next;
    self->next = NULL;
    gy_worker_share_batch(self);
    gy_worker_current = NULL;
    if (next != NULL) {
        gy_pool_submit(pool, next, next, 1);
    }
}

/* A body has called pthread_exit() in a thread of the application, which ends. */
static void depart(void *worker)
{
    gy_worker_abandon(worker);
    leave_rest(worker);
}

static void depart_from_outside(void *worker)
{
    struct gy_worker *self = worker;
    depart(self);
    gy_pool_leave(self->pool);
}

static void run_chain(struct gy_worker *self, gantry_task *task)
{
    while (task != NULL) {
        gy_worker_run(self, task);
        task = self->next;
        self->next = NULL;
    }
}

void gy_worker_run_here(gantry_cpu_dispatcher *pool, gantry_task *task)
{
    struct gy_worker *outer = gy_worker_current;
    struct gy_worker self = {.pool = pool, .last_error = gy_error_last()};
    gy_worker_current = &self;
    pthread_cleanup_push(depart_from_outside, &self);
    run_chain(&self, task);
    pthread_cleanup_pop(0);
    gy_worker_current = outer;
}

void gy_pool_expect(gantry_cpu_dispatcher *pool, uint64_t ns)
{
    if (!gy_waiter_spins_first(pool->mode)) {
        return;
    }
    gy_wake_hint_give(&pool->expected, gy_clock_ns() + ns);
    uint32_t sleepers = atomic_load_explicit(&pool->events.work.sleepers, memory_order_relaxed);
    if (sleepers != 0 && atomic_load_explicit(&pool->idle, memory_order_relaxed) <= sleepers) {
        gy_event_notify(&pool->events.work, 1);
    }
}

void gy_pool_foretell_end(struct gy_task_owner *owner, uint64_t from_ns)
{
    uint64_t alarm_ns = atomic_load(&owner->alarm_ns);
    if (alarm_ns > GY_ALARM_AWAKE && alarm_ns > from_ns) {
        gy_pool_notify_waiters(owner->pool);
    }
}

void gy_pool_expect_end(struct gy_task_owner *owner, uint64_t ns)
{
    uint64_t alarm_ns = atomic_load(&owner->alarm_ns);
    if (alarm_ns == GY_ALARM_NONE) {
        gy_pool_expect(owner->pool, ns);
    } else if (alarm_ns != GY_ALARM_AWAKE && alarm_ns > gy_clock_ns() + ns) {
        gy_pool_notify_waiters(owner->pool);
    }
}

/* The worker is the only one awake and idle, and tasks are likely to come. */
static bool is_expected_here(gantry_cpu_dispatcher *pool)
{
    return gy_wake_hint_was_given(&pool->expected) &&
           gy_wake_hint_left(&pool->expected, gy_clock_ns()) != 0 &&
           atomic_load_explicit(&pool->idle, memory_order_relaxed) <=
               atomic_load_explicit(&pool->events.work.sleepers, memory_order_relaxed) + 1;
}

static struct gy_waiter begin_idle(const struct gy_worker *self)
{
    gantry_wait_mode mode = self->pool->mode;
    uint64_t budget = mode == GANTRY_WAIT_ADAPTIVE ? self->spin_budget_ns : GY_WORKER_IDLE_NS;
    return gy_waiter_begin_dear(mode, budget, 0, BETWEEN_LOOKS);
}

/* Pause between two looks at all queues; false: it is time to sleep. */
static bool stay_awake(const struct gy_worker *self, struct gy_waiter *waiter)
{
    if (gy_waiter_pause(waiter) == GY_WAITER_LOOK) {
        return true;
    }
    bool is_expecting = gy_waiter_spins_first(waiter->mode) && is_expected_here(self->pool);
    if (is_expecting) {
        gy_waiter_prolong(waiter, gy_clock_ns() + GY_PROLONG_NS);
    }
    return is_expecting;
}

/* Take a last look, then sleep until something happens.  True: the look has found a task, or that the pool
 * is stopping.  The look may also have helped with a loop: then the worker does not sleep. */
static bool look_and_sleep(struct gy_worker *self, gantry_task **task)
{
    uint32_t key = gy_worker_prepare(self);
    bool stopping = atomic_load(&self->pool->shown.stopping);
    *task = gy_worker_find(self);
    if (*task != NULL || stopping) {
        gy_worker_cancel(self);
        return true;
    }
    if (self->search == GY_SEARCH_LAST_LOOK) {
        gy_worker_sleep(self, key);
    }
    return false;
}

/* Wait, as the mode says, for a task; NULL: the pool is stopping and every queue is empty. */
static gantry_task *idle_for_task(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    bool is_adaptive = pool->mode == GANTRY_WAIT_ADAPTIVE;
    uint64_t begin = is_adaptive ? gy_clock_ns() : 0;
    struct gy_waiter waiter = begin_idle(self);
    gantry_task *task;
    for (;;) {
        bool stopping = atomic_load(&pool->shown.stopping);
        task = gy_worker_find(self);
        if (task != NULL || stopping) {
            break;
        }
        if (stay_awake(self, &waiter)) {
            continue;
        }
        if (look_and_sleep(self, &task)) {
            break;
        }
        waiter = begin_idle(self);
    }
    if (is_adaptive && task != NULL) {
        self->spin_budget_ns =
            gy_waiter_learn(self->spin_budget_ns, gy_clock_ns() - begin, GY_WAITER_MOST_NS);
    }
    return task;
}

static gantry_task *wait_for_task(struct gy_worker *self)
{
    gantry_task *task = gy_worker_find(self);
    if (task == NULL) {
        gy_worker_begin_looking(self);
        task = idle_for_task(self);
        gy_worker_end_looking(self);
    }
    return task;
}

static void work(struct gy_worker *self)
{
    for (gantry_task *task; (task = wait_for_task(self)) != NULL;) {
        do {
            gy_worker_run(self, task);
        } while ((task = gy_worker_find(self)) != NULL);
    }
}

/* A body has called pthread_exit(): its frames are gone, but the thread is the pool's, and ends when that
 * does.  It leaves the handler for good: bodies that run in one could not call pthread_exit() again, since
 * there are compilers (clang) that let nobody unwind through a handler. */
static void stay(void *worker)
{
    struct gy_worker *self = worker;
    gy_worker_abandon(self);
    longjmp(*self->anew, 1);
}

static void serve(struct gy_worker *self)
{
    assert(gy_worker_is_valid(self));
    pthread_cleanup_push(stay, self);
    work(self);
    pthread_cleanup_pop(0);
}

void gy_worker_main(void *worker)
{
    struct gy_worker *self = worker;
    jmp_buf anew;
    gy_worker_current = self;
    self->last_error = gy_error_last();
    self->spin_budget_ns = GY_WAITER_LEAST_NS;
    self->anew = &anew;
    (void)setjmp(anew); /* comes back for each body that has called pthread_exit() */
    serve(worker);
    gy_worker_current = NULL;
}

/* ---- a wait ---------------------------------------------------------------------------------- */

/* A thread that waits for the end of a step or of a loop. */
struct vigil {
    gantry_cpu_dispatcher *pool;
    const struct gy_wait *wait;
    gantry_wait_mode mode;
    uint32_t pauses; /* between two looks */
    uint64_t budget_ns;
    uint64_t begin_ns;   /* of what it waits for now; 0: nobody learns from it */
    uint32_t more_looks; /* before it pauses: a guest's first look after a sleep takes the places of others,
                          * which may be all it does */
    struct gy_waiter waiter;
};

/* A thread that waits for a step sleeps in the end, whatever workers do: the step may take long, and does
 * not need this thread's work. */
static gantry_wait_mode waits_as(const gantry_cpu_dispatcher *pool)
{
    bool never_sleeps = pool->mode == GANTRY_WAIT_SPIN || pool->mode == GANTRY_WAIT_YIELD;
    return never_sleeps ? GANTRY_WAIT_ADAPTIVE : pool->mode;
}

static void set_alarm(const struct vigil *vigil, uint64_t alarm_ns)
{
    if (vigil->wait->next_end != NULL && vigil->mode != GANTRY_WAIT_BLOCK) {
        atomic_store(&vigil->wait->owner->alarm_ns, alarm_ns);
    }
}

/* Something was done, and nothing was wasted so far. */
static void begin_anew(struct vigil *vigil)
{
    vigil->begin_ns = vigil->wait->spin_budget_ns != NULL ? gy_clock_ns() : 0;
    vigil->waiter = gy_waiter_begin_dear(vigil->mode, vigil->budget_ns, 0, vigil->pauses);
}

static struct vigil begin_vigil(gantry_cpu_dispatcher *pool, const struct gy_wait *wait)
{
    uint64_t learned =
        wait->spin_budget_ns != NULL ? atomic_load_explicit(wait->spin_budget_ns, memory_order_relaxed) : 0;
    struct vigil vigil = {.pool = pool,
                          .wait = wait,
                          .mode = waits_as(pool),
                          .pauses = wait->help != NULL ? BETWEEN_HELPS : BETWEEN_LOOKS,
                          .budget_ns = learned < GY_DONE_NS ? GY_DONE_NS : learned};
    begin_anew(&vigil);
    set_alarm(&vigil, GY_ALARM_AWAKE);
    return vigil;
}

static void end_vigil(const struct vigil *vigil)
{
    _Atomic(uint64_t) *spin_budget_ns = vigil->wait->spin_budget_ns;
    set_alarm(vigil, GY_ALARM_NONE);
    if (spin_budget_ns != NULL && vigil->mode != GANTRY_WAIT_BLOCK) {
        uint64_t most = vigil->mode == GANTRY_WAIT_HYBRID ? GY_WAITER_HYBRID_NS : GY_WAITER_MOST_NS;
        uint64_t before = atomic_load_explicit(spin_budget_ns, memory_order_relaxed);
        atomic_store_explicit(spin_budget_ns, gy_waiter_learn(before, gy_clock_ns() - vigil->begin_ns, most),
                              memory_order_relaxed);
    }
}

/* Sleep until the alarm, or until there is news; true: the alarm has rung. */
static bool sleep_until_alarm(const struct vigil *vigil, struct gy_event *event, uint32_t key,
                              uint64_t now_ns, uint64_t alarm_ns)
{
    set_alarm(vigil, alarm_ns);
    bool is_over = gy_event_sleep_until(event, key, alarm_ns);
    if (is_over) {
        gy_oversleep_learn(&vigil->pool->oversleep, alarm_ns - now_ns, gy_clock_ns() - alarm_ns);
    }
    return is_over;
}

/* The thread has said that it sleeps on the event, and that it has no alarm, and has looked once more.  Now
 * it sleeps until there is news; or, where it is known when to look for the end, until shortly before that.
 * True: it looks again, as long as the waiter says; false: it only looks whether there is news. */
static bool doze(struct vigil *vigil, struct gy_event *event, uint32_t key)
{
    const struct gy_wait *wait = vigil->wait;
    struct gy_lookout lookout;
    bool looks = false, is_known = wait->next_end != NULL && vigil->mode != GANTRY_WAIT_BLOCK &&
                                   wait->next_end(wait->user, &lookout);
    uint64_t now = is_known ? gy_clock_ns() : 0;
    uint64_t next =
        is_known ? gy_lookout_next(&lookout, &vigil->pool->oversleep, now) : (uint64_t)GY_ALARM_NEVER;
    if (next == 0) {
        gy_event_cancel(event);
        gy_waiter_prolong(&vigil->waiter, lookout.until_ns);
        looks = true;
    } else if (next == GY_ALARM_NEVER && wait->remind == NULL) {
        gy_event_sleep(event, key);
    } else if (next == GY_ALARM_NEVER) {
        if (gy_event_sleep_for(event, key, wait->remind_ns)) {
            wait->remind(wait->user);
        }
    } else {
        looks = sleep_until_alarm(vigil, event, key, now, next) && now >= lookout.from_ns;
        vigil->more_looks = looks ? 1 : 0;
    }
    set_alarm(vigil, GY_ALARM_AWAKE);
    return looks;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Take a last look, then sleep; returns the task that the look has found, or NULL. */
static gantry_task *look_and_doze(struct gy_worker *self, struct vigil *vigil)
{
    struct gy_event *event = &vigil->pool->events.work;
    set_alarm(vigil, GY_ALARM_NEVER);
    uint32_t key = gy_event_prepare(event);
    gantry_task *task = gy_worker_find(self);
    if (task == NULL && !vigil->wait->condition(vigil->wait->user, true)) {
        (void)doze(vigil, event, key);
        return NULL;
    }
    gy_event_cancel(event);
    set_alarm(vigil, GY_ALARM_AWAKE);
    return task;
}

static void work_until(struct gy_worker *self, struct vigil *vigil)
{
    const struct gy_wait *wait = vigil->wait;
    bool has_worked = false, has_slept = false;
    while (!wait->condition(wait->user, has_slept)) {
        gantry_task *task = gy_worker_find(self);
        has_slept = false;
        if (task == NULL && has_worked) {
            has_worked = false;
            begin_anew(vigil);
        }
        if (task == NULL && gy_waiter_pause(&vigil->waiter) == GY_WAITER_SLEEP) {
            task = look_and_doze(self, vigil);
            has_slept = true;
        }
        if (task != NULL) {
            gy_worker_run(self, task);
            has_worked = true;
        }
    }
}

static void wait_inline(gantry_cpu_dispatcher *pool, const struct gy_wait *wait)
{
    struct vigil vigil = begin_vigil(pool, wait);
    struct gy_kept_error before;
    gy_error_keep(&before);
    struct gy_worker *outer = gy_worker_current;
    struct gy_worker self = {.pool = pool, .last_error = gy_error_last()};
    gy_worker_current = &self;
    pthread_cleanup_push(depart, &self);
    work_until(&self, &vigil);
    pthread_cleanup_pop(0);
    leave_rest(&self);
    gy_worker_current = outer;
    end_vigil(&vigil);
    if (atomic_load(&pool->shown.inject_count) != 0) {
        gy_pool_notify_work(pool, 1); /* we may have been woken for a task that is another waiter's now */
    }
    gy_error_put_back(&before);
}

enum seen { NOTHING, SOMETHING, ENOUGH };

/* Has the condition come to hold (ENOUGH), perhaps by what the thread itself has done?  A waiting thread is
 * awake: it does what there is to do for its owner, unless a thread of the library does that already. */
static enum seen look(const struct gy_wait *wait)
{
    enum seen seen = NOTHING;
    if (wait->condition(wait->user, false)) {
        return ENOUGH;
    }
    if (wait->help != NULL && wait->help(wait->user)) {
        seen = SOMETHING;
    }
    bool is_over = wait->owner != NULL && gy_guest_look(wait);
    return is_over || (seen == SOMETHING && wait->condition(wait->user, false)) ? ENOUGH : seen;
}

static void stop_helping(const struct gy_wait *wait)
{
    if (wait->stop_helping != NULL) {
        wait->stop_helping(wait->user);
    }
}

/* Sleep until the condition holds; false: until it is time to look for that. */
static bool sleep_for(struct vigil *vigil)
{
    struct gy_event *event = &vigil->pool->events.done;
    for (;;) {
        set_alarm(vigil, GY_ALARM_NEVER);
        uint32_t key = gy_event_prepare(event);
        if (vigil->wait->condition(vigil->wait->user, true)) {
            gy_event_cancel(event);
            return true;
        }
        if (doze(vigil, event, key)) {
            return false;
        }
    }
}

void gy_pool_wait(gantry_cpu_dispatcher *pool, const struct gy_wait *wait)
{
    if (pool->inline_only) {
        wait_inline(pool, wait);
        return;
    }
    if (wait->self != NULL && gy_guest_work(wait->self, wait)) {
        return;
    }
    struct vigil vigil = begin_vigil(pool, wait);
    for (enum seen seen; (seen = look(wait)) != ENOUGH;) {
        if (seen == SOMETHING) {
            begin_anew(&vigil);
        } else if (vigil.more_looks != 0) {
            vigil.more_looks--;
        } else if (gy_waiter_pause(&vigil.waiter) == GY_WAITER_SLEEP) {
            stop_helping(wait);
            if (sleep_for(&vigil)) {
                break;
            }
        }
    }
    stop_helping(wait);
    end_vigil(&vigil);
}

static bool nothing_injected(void *user, bool thorough)
{
    (void)thorough;
    gantry_cpu_dispatcher *pool = user;
    return atomic_load(&pool->shown.inject_count) == 0;
}

void gy_pool_drain_inline(gantry_cpu_dispatcher *pool)
{
    const struct gy_wait wait = {.condition = nothing_injected, .user = pool};
    while (!nothing_injected(pool, true)) {
        wait_inline(pool, &wait);
    }
}
