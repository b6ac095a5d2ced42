/* The pool at work: queues, workers, waiting threads.
 *
 * Where a ready CPU task waits:
 *   - in the `next` slot of the worker that made it ready while releasing its own task: that worker runs
 *     it directly afterwards, hot in its cache and without recursion;
 *   - in that worker's deque, from whose other end idle workers steal;
 *   - in the injection list, an intrusive queue in order of arrival, when the thread that made it ready is
 *     no worker of this pool, or the deque could not grow;
 *   - nowhere yet, when a step has just begun: workers take shares of the step's tasks, see block.c;
 *   - in the lists of queues.c when it has a priority or a limited class.
 * A worker looks in this order; now and then it looks at the injection list first, so that a worker that
 * feeds itself does not starve it.
 *
 * Idle workers spin, yield or sleep on the `work` event, as the wait mode says.  Threads in
 * gantry_taskman_wait()/stop() sleep on the `done` event.  An inline-only pool has no workers: whoever waits
 * is one for that time, and sleeps on `work`, which completions then notify as well.
 *
 * Destruction: no thread is between enter and leave, `stopping` is set, and each worker leaves once it
 * finds nothing more to run; what a worker makes ready meanwhile it runs itself. */
#include "taskman/pool.h"

#include "base/status.h"
#include "taskman/manager.h"
#include "taskman/release.h"
#include "taskman/worker.h"

#include <sched.h>

enum {
    SPIN_ROUNDS = 64, /* looks at all queues before a hybrid worker sleeps */
    SPIN_PAUSES = 16, /* between two looks */
    MOST_PATIENCE =
        8192,    /* looks before an adaptive worker sleeps, if that has paid off: a few milliseconds */
    CREDIT = 64, /* how much a worker counts into `work` at once */
    WAITER_PAUSES = 256,   /* before a waiting thread sleeps */
    INJECTION_PERIOD = 64, /* every so many tasks the injection list comes first */
    INJECTION_BATCH = 32,  /* most tasks taken from it at once */
    OWED_MOST = 64,        /* released tasks not counted off yet */
    PUSH_LIST_MOST = 1024, /* longer lists go to the injection list, in one step */
};

/* The worker this thread is, if it is one.  Read several times per task, hence in the static TLS block. */
static _Thread_local struct gy_worker *current __attribute__((tls_model("initial-exec")));

static bool is_worker_of(const gantry_cpu_dispatcher *pool)
{
    return current != NULL && current->pool == pool;
}

void gy_pool_enter(gantry_cpu_dispatcher *pool)
{
    if (!is_worker_of(pool)) {
        atomic_fetch_add_explicit(&pool->outside, 1, memory_order_relaxed);
    }
}

void gy_pool_leave(gantry_cpu_dispatcher *pool)
{
    if (!is_worker_of(pool)) {
        atomic_fetch_sub_explicit(&pool->outside, 1, memory_order_release);
    }
}

bool gy_pool_in_task(void)
{
    return current != NULL && current->activity != GY_LOOKING;
}

void gy_pool_notify_waiters(gantry_cpu_dispatcher *pool)
{
    gy_event_notify(pool->inline_only ? &pool->work : &pool->done, UINT32_MAX);
}

void gy_pool_watch(gantry_cpu_dispatcher *pool)
{
    atomic_fetch_add(&pool->watched, 1);
}

void gy_pool_unwatch(gantry_cpu_dispatcher *pool)
{
    atomic_fetch_sub(&pool->watched, 1);
}

bool gy_pool_is_watched(const gantry_cpu_dispatcher *pool)
{
    return atomic_load(&pool->watched) != 0;
}

uint64_t *gy_pool_chosen(const gantry_task *task)
{
    struct gy_worker *self = current;
    return self != NULL && self->running == task ? &self->chosen : NULL;
}

/* ---- queues -------------------------------------------------------------------------------- */

static void inject(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count)
{
    gy_mutex_lock(&pool->inject_lock);
    gy_pool_inject_locked(pool, first, last, count);
    gy_mutex_unlock(&pool->inject_lock);
}

/* The first injected task, and a share of those behind it into the worker's own deque. */
static gantry_task *take_injected(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (atomic_load(&pool->inject_count) == 0) {
        return NULL;
    }
    gy_mutex_lock(&pool->inject_lock);
    gantry_task *first = pool->inject_first, *last = first;
    size_t taken = 0;
    if (first != NULL) {
        size_t count = atomic_load_explicit(&pool->inject_count, memory_order_relaxed);
        size_t share = self->has_deque ? count / (2 * (size_t)pool->worker_count) : 1;
        size_t most = share < 1 ? 1 : share > INJECTION_BATCH ? INJECTION_BATCH : share;
        for (taken = 1; taken < most; taken++) {
            last = last->gpu.next;
        }
        pool->inject_first = last->gpu.next;
        last->gpu.next = NULL;
        atomic_fetch_sub(&pool->inject_count, taken);
    }
    gy_mutex_unlock(&pool->inject_lock);
    if (taken > 1) {
        gantry_task *rest = first->gpu.next;
        if (!gy_deque_push_list(&self->deque, rest, taken - 1)) {
            inject(pool, rest, last, taken - 1);
        }
        gy_pool_notify_work(pool, taken - 1); /* a worker may have looked while they were in neither queue */
    }
    return first;
}

static gantry_task *steal(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    bool lost_race = false;
    do {
        lost_race = false;
        self->random = self->random * 1664525u + 1013904223u;
        uint32_t start = (uint32_t)((uint64_t)self->random * pool->worker_count >> 32);
        for (uint32_t i = 0; i < pool->worker_count; i++) {
            uint32_t at = start + i < pool->worker_count ? start + i : start + i - pool->worker_count;
            struct gy_worker *victim = &pool->workers[at];
            gantry_task *task = victim != self ? gy_deque_steal(&victim->deque, &lost_race) : NULL;
            if (task != NULL) {
                return task;
            }
        }
    } while (lost_race); /* somebody else got on: there may be more */
    return NULL;
}

/* Count off what was deferred. */
static void settle(struct gy_worker *self)
{
    gantry_taskman *manager = self->owed_manager;
    if (manager != NULL) {
        uint64_t owed = self->owed_pending * GY_WORK_PENDING + self->owed_active * GY_WORK_ACTIVE;
        if (self->spawned != 0) {
            atomic_fetch_add_explicit(&manager->spawned, self->spawned, memory_order_relaxed);
            self->spawned = 0;
        }
        self->owed_manager = NULL;
        self->owed_pending = self->owed_active = self->owed_tasks = 0;
        if (owed != 0) {
            gy_taskman_count_off(manager, owed);
        }
    }
}

static void owe_to(struct gy_worker *self, gantry_taskman *manager)
{
    if (self->owed_manager != manager) {
        settle(self);
        self->owed_manager = manager;
    }
}

bool gy_pool_defer_count(gantry_cpu_dispatcher *pool, gantry_taskman *manager, uint64_t less)
{
    struct gy_worker *self = current;
    if (!is_worker_of(pool) || !self->has_deque) {
        return false;
    }
    owe_to(self, manager);
    self->owed_pending += (uint32_t)(less / GY_WORK_PENDING);
    self->owed_active += (uint32_t)(less % GY_WORK_PENDING);
    if (++self->owed_tasks == OWED_MOST) {
        settle(self);
    }
    return true;
}

void gy_worker_owe(struct gy_worker *self, gantry_taskman *manager, uint64_t less)
{
    if (!gy_pool_defer_count(self->pool, manager, less)) {
        gy_taskman_count_off(manager, less);
    }
}

/* What was not counted off yet can be used again; else more is counted in than is needed now, and owed. */
void gy_worker_claim_active(struct gy_worker *self, gantry_taskman *manager)
{
    uint32_t batch = self->has_deque ? CREDIT : 1;
    if (self->has_deque) {
        owe_to(self, manager);
        if (self->owed_active != 0) {
            self->owed_active--;
            return;
        }
        self->owed_active = batch - 1;
    }
    atomic_fetch_add_explicit(&manager->work, batch * GY_WORK_ACTIVE, memory_order_relaxed);
}

/* The same for one more task that is dispatched at once. */
void gy_worker_claim_task(struct gy_worker *self, gantry_taskman *manager)
{
    owe_to(self, manager);
    if (self->owed_pending == 0 || self->owed_active == 0) {
        atomic_fetch_add_explicit(&manager->work, CREDIT * (GY_WORK_PENDING + GY_WORK_ACTIVE),
                                  memory_order_relaxed);
        self->owed_pending += CREDIT;
        self->owed_active += CREDIT;
    }
    self->owed_pending--;
    self->owed_active--;
    self->spawned++;
}

struct gy_worker *gy_worker_in_task_of(const gantry_taskman *manager)
{
    struct gy_worker *self = current;
    bool is_ours = self != NULL && self->has_deque && self->pool == manager->pool && self->running != NULL &&
                   self->running->manager == manager && self->activity == GY_IN_BODY;
    return is_ours ? self : NULL;
}

/* Whatever can be run now.  NULL only if every queue was seen empty. */
static gantry_task *find_task(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    gantry_task *task;
    if (atomic_load(&pool->urgent_count) != 0 && (task = gy_pool_take_urgent(pool)) != NULL) {
        return task;
    }
    task = self->next;
    if (task != NULL) {
        self->next = NULL;
        return task;
    }
    if (++self->ran % INJECTION_PERIOD == 0 && (task = take_injected(self)) != NULL) {
        return task;
    }
    if (self->has_deque && (task = gy_deque_take(&self->deque)) != NULL) {
        return task;
    }
    if (self->block.left != 0) {
        if (self->block.left > 1 && atomic_load_explicit(&pool->idle, memory_order_relaxed) != 0) {
            gy_worker_share_block(self);
        } else if ((task = gy_worker_next_of_block(self)) != NULL) {
            return task;
        }
        if (self->has_deque && (task = gy_deque_take(&self->deque)) != NULL) {
            return task;
        }
    }
    settle(self);
    task = gy_worker_next_of_block(self); /* a step's first tasks before what came later */
    if (task == NULL) {
        task = take_injected(self);
    }
    while (task == NULL && gy_worker_help(self)) {
    }
    if (task == NULL) {
        task = steal(self);
    }
    return task != NULL || atomic_load(&pool->low_count) == 0 ? task : gy_pool_take_low(pool);
}

void gy_pool_submit(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count,
                    enum gy_pool_keep keep)
{
    struct gy_worker *self = is_worker_of(pool) ? current : NULL;
    if (self != NULL && keep == GY_POOL_KEEP_ONE && self->activity == GY_RELEASING && self->next == NULL) {
        self->next = first;
        if (--count == 0) {
            return;
        }
        first = first->gpu.next;
    }
    if (pool->host.submit != NULL) {
        last->gpu.next = NULL;
        gy_pool_submit_to_host(pool, first);
        return;
    }
    bool pushed = self != NULL && self->has_deque && count <= PUSH_LIST_MOST &&
                  gy_deque_push_list(&self->deque, first, count);
    if (!pushed) {
        inject(pool, first, last, count);
    }
    gy_pool_notify_work(pool, count);
}

/* ---- running ------------------------------------------------------------------------------- */

static void run_task(struct gy_worker *self, gantry_task *task)
{
    if (self->owed_manager != task->manager) {
        settle(self); /* its waiter need not wait for a task of somebody else */
    }
    uint32_t cpu_class = (task->traits & GY_TRAIT_CLASSED) != 0 ? task->cpu_class : 0;
    self->activity = GY_IN_BODY;
    self->running = task;
    self->chosen = 0;
    gantry_status result = gy_task_run_body(task, self->last_error);
    self->activity = GY_RELEASING;
    gy_task_release(task, result);
    self->activity = GY_LOOKING;
    self->running = NULL;
    if (cpu_class != 0) {
        gy_pool_end_classed(self->pool, cpu_class);
    }
}

void gy_worker_run_here(gantry_cpu_dispatcher *pool, gantry_task *task)
{
    struct gy_worker *outer = current;
    struct gy_worker self = {.pool = pool, .activity = GY_LOOKING, .last_error = gy_error_last()};
    current = &self;
    while (task != NULL) {
        run_task(&self, task);
        task = self.next;
        self.next = NULL;
    }
    current = outer;
}

/* Wait, as the mode says, for a task; NULL: the pool is stopping and every queue is empty. */
static gantry_task *idle_for_task(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    for (uint32_t round = 0;; round++) {
        bool stopping = atomic_load(&pool->stopping);
        gantry_task *task = find_task(self);
        if (task != NULL || stopping) {
            if (pool->mode == GANTRY_WAIT_ADAPTIVE && task != NULL && self->patience < MOST_PATIENCE) {
                self->patience *= 2; /* it was worth waiting */
            }
            return task;
        }
        if (pool->mode == GANTRY_WAIT_YIELD) {
            sched_yield();
        } else if (pool->mode == GANTRY_WAIT_SPIN) {
            gy_cpu_relax();
        } else if ((pool->mode == GANTRY_WAIT_HYBRID && round < SPIN_ROUNDS) ||
                   (pool->mode == GANTRY_WAIT_ADAPTIVE && round < self->patience)) {
            for (int i = 0; i < SPIN_PAUSES; i++) {
                gy_cpu_relax();
            }
        } else {
            uint32_t key = gy_event_prepare(&pool->work);
            stopping = atomic_load(&pool->stopping);
            task = find_task(self);
            if (task != NULL || stopping) {
                gy_event_cancel(&pool->work);
                return task;
            }
            gy_event_sleep(&pool->work, key);
            round = 0;
            if (self->patience > SPIN_ROUNDS) {
                self->patience /= 2;
            }
        }
    }
}

static gantry_task *wait_for_task(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    gantry_task *task = find_task(self);
    if (task == NULL) {
        atomic_fetch_add_explicit(&pool->idle, 1, memory_order_relaxed);
        task = idle_for_task(self);
        atomic_fetch_sub_explicit(&pool->idle, 1, memory_order_relaxed);
    }
    return task;
}

void gy_worker_main(void *worker)
{
    struct gy_worker *self = worker;
    current = self;
    self->last_error = gy_error_last();
    self->patience = SPIN_ROUNDS;
    for (gantry_task *task; (task = wait_for_task(self)) != NULL;) {
        do {
            run_task(self, task);
        } while ((task = find_task(self)) != NULL);
    }
    current = NULL;
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void wait_inline(gantry_cpu_dispatcher *pool, bool (*condition)(void *user, bool thorough), void *user)
{
    /* The tasks' errors are not the caller's: it has asked for no more than to wait. */
    struct gy_error before = *gy_error_last();
    struct gy_worker *outer = current;
    struct gy_worker self = {.pool = pool, .activity = GY_LOOKING, .last_error = gy_error_last()};
    current = &self;
    while (!condition(user, false)) {
        gantry_task *task = find_task(&self);
        if (task == NULL) {
            uint32_t key = gy_event_prepare(&pool->work);
            if ((task = find_task(&self)) != NULL || condition(user, true)) {
                gy_event_cancel(&pool->work);
            } else {
                gy_event_sleep(&pool->work, key);
                continue;
            }
            if (task == NULL) {
                break;
            }
        }
        run_task(&self, task);
    }
    gy_worker_share_block(&self);
    current = outer;
    if (self.next != NULL) {
        inject(pool, self.next, self.next, 1);
    }
    if (atomic_load(&pool->inject_count) != 0) {
        gy_pool_notify_work(pool, 1); /* we may have been woken for a task that is another waiter's now */
    }
    gy_error_adopt(&before);
}

void gy_pool_wait(gantry_cpu_dispatcher *pool, bool (*condition)(void *user, bool thorough), void *user)
{
    if (pool->inline_only) {
        wait_inline(pool, condition, user);
        return;
    }
    for (int i = 0; i < WAITER_PAUSES && pool->mode != GANTRY_WAIT_BLOCK; i++) {
        if (condition(user, false)) {
            return;
        }
        gy_cpu_relax();
    }
    for (;;) {
        uint32_t key = gy_event_prepare(&pool->done);
        if (condition(user, true)) {
            gy_event_cancel(&pool->done);
            return;
        }
        gy_event_sleep(&pool->done, key);
    }
}

static bool nothing_injected(void *user, bool thorough)
{
    (void)thorough;
    gantry_cpu_dispatcher *pool = user;
    return atomic_load(&pool->inject_count) == 0;
}

void gy_pool_drain_inline(gantry_cpu_dispatcher *pool)
{
    while (!nothing_injected(pool, true)) {
        wait_inline(pool, nothing_injected, pool);
    }
}
