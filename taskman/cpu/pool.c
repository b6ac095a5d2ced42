/* SPDX-License-Identifier: MIT */
/* The pool at work: where ready tasks wait, and where workers look for them.
 *
 * Where a ready CPU task waits:
 *   - in the `next` slot of the worker that made it ready while releasing its own task: that worker runs
 *     it directly afterwards, hot in its cache and without recursion;
 *   - in that worker's deque, from whose other end idle workers steal;
 *   - in the injection list, an intrusive queue in order of arrival, when the thread that made it ready is
 *     no worker of this pool, or the deque could not grow;
 *   - nowhere yet, when a step has just begun: workers take shares of the step's tasks, see start_batch.c;
 *   - in the lists of queues.c when it has a priority or a limited class.
 * A worker looks in this order; now and then the injection list and the steps that have begun come first, so
 * that a worker that feeds itself does not starve them. */
#include "taskman/cpu/pool.h"

#include "base/hints.h"
#include "base/point.h"
#include "taskman/cpu/account.h"
#include "taskman/cpu/loop.h"
#include "taskman/cpu/start_batch.h"

#include <assert.h>
#include <limits.h>

enum {
    /* A worker looks elsewhere once in so many tasks, each number a multiple of the one before: */
    OWN_MOST = 64,      /* for tasks that it has not made ready itself, before its own */
    DEPTH_MOST = 1024,  /* in its own queue, before the tasks that its last body has made ready, though those
                         * are in the caches */
    OLDEST_MOST = 4096, /* for the oldest task of its own queue, which tasks that go on making tasks would
                         * keep waiting for ever if no worker steals it */
    INJECTION_BATCH = 32, /* most tasks taken from it at once */
    STEAL_MOST = 31,      /* most items taken from another worker beside the one that is run at once */
    DRY_MOST = 32, /* every so many looks in which a worker finds nothing it takes what bodies are bundling */
};

void gy_pool_enter(gantry_cpu_dispatcher *pool)
{
    if (!gy_worker_is_of(pool)) {
        atomic_fetch_add_explicit(&pool->outside, 1, memory_order_relaxed);
    }
}

void gy_pool_leave(gantry_cpu_dispatcher *pool)
{
    if (!gy_worker_is_of(pool)) {
        atomic_fetch_sub_explicit(&pool->outside, 1, memory_order_release);
    }
}

gantry_status gy_pool_check_outside(const char *call)
{
    if (gy_worker_current != NULL && gy_worker_current->activity != GY_WORKER_BETWEEN) {
        return GY_FAIL(GANTRY_ERR_STATE, "%s: called from a task", call);
    }
    if (gy_thread_is_serving()) {
        return GY_FAIL(GANTRY_ERR_STATE, "%s: called from a GPU task's callback", call);
    }
    return GANTRY_OK;
}

unsigned gy_pool_forks(const gantry_cpu_dispatcher *pool)
{
    return pool->worker_count != 0 ? pool->forks : UINT_MAX;
}

bool gy_pool_lends(const gantry_cpu_dispatcher *pool)
{
    return pool->lends && pool->worker_count != 0;
}

void gy_pool_count_running(gantry_cpu_dispatcher *pool, bool begins)
{
    if (begins) {
        atomic_fetch_add(&pool->shown.running, 1);
    } else {
        atomic_fetch_sub(&pool->shown.running, 1);
    }
}

uint64_t *gy_pool_chosen(const gantry_task *task)
{
    struct gy_worker *self = gy_worker_current;
    return self != NULL && self->running == task ? &self->said.chosen : NULL;
}

/* The first injected task, and a share of those behind it into the worker's own deque. */
static gantry_task *take_injected(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (atomic_load(&pool->shown.inject_count) == 0) {
        return NULL;
    }
    gy_mutex_lock(&pool->inject_lock);
    gantry_task *first = pool->queues.first, *last = first;
    size_t taken = 0;
    if (first != NULL && !gy_worker_may_run_locked(pool, self, first)) {
        first = NULL;
    }
    if (first != NULL) {
        size_t count = atomic_load_explicit(&pool->shown.inject_count, memory_order_relaxed);
        bool takes_several = self->has_deque && self->only_owner == NULL;
        size_t share = takes_several ? count / (2 * (size_t)pool->worker_count) : 1;
        size_t most = share < 1 ? 1 : share > INJECTION_BATCH ? INJECTION_BATCH : share;
        for (taken = 1; taken < most; taken++) {
            last = last->next;
        }
        pool->queues.first = last->next;
        last->next = NULL;
        atomic_fetch_sub(&pool->shown.inject_count, taken);
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (taken > 1) {
        gantry_task *rest = first->next;
        if (!gy_deque_push_list(&self->deque, rest, taken - 1)) {
            gy_pool_inject(pool, rest, last, taken - 1);
        }
        gy_pool_notify_work(pool, taken - 1); /* a worker may have looked while they were in neither queue */
    }
    return first;
}

/* Take the oldest item of the victim, and if that is a task, move half of those behind it into the thief's
 * own deque: a thief that takes one task after the other from a body that makes thousands only disturbs it.
 */
static gantry_task *steal_from(struct gy_worker *self, struct gy_worker *victim, bool *lost_race)
{
    gantry_task *first = gy_deque_steal(&victim->deque, lost_race), *more[STEAL_MOST];
    if (first == NULL || self->only_owner != NULL || gy_item_is_bundle(first)) {
        return first;
    }
    size_t half = gy_deque_count(&victim->deque) / 2, most = half < STEAL_MOST ? half : STEAL_MOST;
    size_t count = 0;
    bool others_steal = false;
    while (count < most && (more[count] = gy_deque_steal(&victim->deque, &others_steal)) != NULL) {
        if (gy_item_is_bundle(more[count++])) {
            break;
        }
    }
    if (count != 0) {
        gy_point(GY_POINT_WORKER_STOLE, self);
        if (!gy_deque_push_array(&self->deque, more, count)) {
            for (size_t i = 0; i < count; i++) {
                gy_pool_inject_item(self->pool, more[i]);
            }
        }
        gy_worker_notify_work(self, 1); /* a worker may have looked while they were in neither deque */
    }
    return first;
}

/* Take a task from any deque. */
static gantry_task *steal_queued(struct gy_worker *self)
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
            gantry_task *task = victim != self ? steal_from(self, victim, &lost_race) : NULL;
            if (task != NULL) {
                return task;
            }
        }
    } while (lost_race); /* another thief was faster: there may be more */
    return NULL;
}

/* Take an item of another worker.  The tasks that a body is bundling are left to it as long as there may be
 * others: otherwise it would have to begin a new bundle all the time. */
static gantry_task *steal(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    gantry_task *item = steal_queued(self);
    bool is_urgent = self->search == GY_SEARCH_LAST_LOOK || self->only_owner != NULL;
    if (item == NULL && (is_urgent || ++self->dry % DRY_MOST == 0)) {
        for (uint32_t i = 0; i < pool->worker_count && item == NULL; i++) {
            item = gy_bundle_seize(&pool->workers[i]);
        }
    }
    return item;
}

/* A guest steals only while no other manager has tasks: a task's owner is seen only when it is stolen.  All
 * tasks of a bundle have the same. */
static gantry_task *steal_own(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (atomic_load(&pool->shown.running) != 1) {
        return NULL;
    }
    gy_point(GY_POINT_WORKER_STEAL, pool);
    gantry_task *item = steal(self), *task = gy_item_first(item);
    if (item == NULL || (task->owner == self->only_owner && gy_task_class(task) == 0)) {
        return item;
    }
    gy_worker_give_away(self, item);
    return NULL;
}

/* Count off the debt for the epoch before: a thread may wait for the tasks of that epoch. */
static void flush_last_epoch(struct gy_worker *self)
{
    if ((self->debt.work | self->debt.odd) == 0) {
        return; /* then the manager may be gone */
    }
    bool is_odd = (atomic_load_explicit(&self->debt.owner->epoch, memory_order_relaxed) & 1) != 0;
    if (is_odd ? self->debt.work >= GY_WORK_PENDING : self->debt.odd != 0) {
        gy_worker_flush(self);
    }
}

static inline bool may_run(const struct gy_worker *self, const gantry_task *task)
{
    return __builtin_expect(self->only_owner == NULL || self->only_owner == task->owner, 1);
}

/* Now and then take a task that a worker which always has tasks of its own would never reach. */
static GY_RARE gantry_task *look_elsewhere(struct gy_worker *self)
{
    gantry_task *next = self->next;
    flush_last_epoch(self);
    gantry_task *task = take_injected(self);
    if (task == NULL && !self->has_deque) {
        task = next != NULL ? gy_worker_next_of_batch(self) : NULL;
    } else if (task == NULL && (next != NULL || !gy_deque_is_empty(&self->deque))) {
        bool lost_race = false;
        task = gy_worker_turn_to_batch(self);
        if (task == NULL && self->ran % OLDEST_MOST == 0) {
            task = gy_worker_open_item(self, gy_deque_steal(&self->deque, &lost_race));
        } else if (task == NULL && self->ran % DEPTH_MOST == 0) {
            task = gy_worker_take(self);
        }
    }
    if (task != NULL && next != NULL) {
        self->next = NULL;
        gy_pool_submit(self->pool, next, next, 1);
    }
    return task;
}

/* Take a task that the worker has made ready itself, the latest first. */
static GY_INLINE gantry_task *take_own(struct gy_worker *self)
{
    gantry_task *task = self->next;
    if (task == NULL) {
        return self->has_deque && !gy_deque_is_empty(&self->deque) ? gy_worker_take(self) : NULL;
    }
    if (may_run(self, task)) {
        self->next = NULL;
        return task;
    }
    return NULL;
}

/* `turn`: it is time to look elsewhere first. */
static gantry_task *find_queued(struct gy_worker *self, bool turn)
{
    gantry_cpu_dispatcher *pool = self->pool;
    gantry_task *task;
    if (atomic_load(&pool->shown.urgent_count) != 0 && (task = gy_pool_take_urgent(self)) != NULL) {
        return task;
    }
    if (turn && (task = look_elsewhere(self)) != NULL) {
        return task;
    }
    if ((task = take_own(self)) != NULL) {
        return task;
    }
    if (self->next != NULL) {
        gantry_task *others = self->next;
        self->next = NULL;
        gy_worker_give_away(self, others);
        if ((task = take_own(self)) != NULL) {
            return task;
        }
    }
    if (self->batch.left != 0) {
        if (gy_worker_may_share(self)) {
            gy_worker_share_batch(self);
        } else if ((task = gy_worker_next_of_batch(self)) != NULL) {
            return task;
        }
        if (self->has_deque && (task = gy_worker_take(self)) != NULL) {
            return task;
        }
    }
    gy_worker_flush(self);
    task = gy_worker_next_of_batch(self); /* a step's first tasks before what came later */
    if (task == NULL) {
        gy_worker_flush(self); /* for batches in which every task waits for another */
        task = take_injected(self);
    }
    while (task == NULL && gy_worker_help(self)) {
    }
    if (task == NULL) {
        task = gy_worker_open_item(self, self->only_owner == NULL ? steal(self) : steal_own(self));
    }
    return task != NULL || atomic_load(&pool->shown.low_count) == 0 ? task : gy_pool_take_low(self);
}

gantry_task *gy_worker_find(struct gy_worker *self)
{
    bool turn = ++self->ran % OWN_MOST == 0;
    gantry_task *task = !turn && atomic_load(&self->pool->shown.urgent_count) == 0 ? take_own(self) : NULL;
    return task != NULL ? task : find_queued(self, turn);
}

void gy_pool_submit(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count)
{
    if (pool->host.submit != NULL) {
        last->next = NULL;
        gy_pool_submit_to_host(pool, first);
        return;
    }
    struct gy_worker *self = gy_worker_is_of(pool) ? gy_worker_current : NULL;
    bool pushed = self != NULL && self->has_deque && count <= GY_LIST_MOST &&
                  (self->only_owner == NULL || self->only_owner == first->owner) &&
                  gy_worker_push_list(self, first, count);
    if (pushed) {
        gy_worker_notify_work(self, count);
    } else {
        gy_pool_inject(pool, first, last, count);
        gy_pool_notify_work(pool, count);
    }
}
