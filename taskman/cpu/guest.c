/* SPDX-License-Identifier: MIT */
/* A guest worker: a thread that waits for a manager runs that manager's tasks in the place of a worker that
 * sleeps.
 *
 *              sleeps               begin                    end
 *   AWAKE ---------------> ASLEEP --------> ON_LOAN --------------------> ASLEEP
 *     ^                      |               | the worker wakes up           end
 *     +----------------------+               +---------------------> RECLAIMED ---> AWAKE
 *          wakes up
 *
 * The guest borrows the struct gy_worker of the sleeper: the deque that others steal from, the index, the
 * place for spawned tasks.  So no more bodies run at a time than there are workers, and with one worker they
 * run one after the other.  A worker whose own thread wakes up while it is on loan passes the news on, since
 * they may have been for another worker, and waits until the guest has returned it.
 *
 * The guest runs tasks of the manager that it waits for and no others: it would have to wait for those in any
 * case, so they do not keep it, and it cannot meet a lock that it holds itself unless it would have waited
 * for that lock for ever.  It gives all other tasks that it meets to the pool.  When tasks of others wait for
 * the worker, the guest leaves after the present body, and leaves its own tasks to the pool.
 *
 * A sleeper that is on loan is not worth waking up: `on_loan` counts them.  A thread that queues tasks and
 * finds no other sleepers says so in `missed` and looks once more; a guest that ends looks there after it has
 * counted itself out.  All of that is sequentially consistent, so one of the two sees the other
 * (tests/models/guest_workers.pml). */
#include "taskman/cpu/guest.h"

#include "taskman/cpu/account.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/kept_error.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/start_batch.h"

#include <assert.h>

enum { LOOK_MOST = 64 }; /* every so many tasks a guest asks whether its wait is over */

/* ---- the worker's side ----------------------------------------------------------------------- */

void gy_worker_sleep(struct gy_worker *self, uint32_t key)
{
    assert(gy_worker_is_valid(self));
    gantry_cpu_dispatcher *pool = self->pool;
    gy_worker_enter_search(self, GY_SEARCH_ASLEEP);
    atomic_store_explicit(&pool->last_asleep, self->index, memory_order_relaxed);
    atomic_store_explicit(&self->holder, GY_WORKER_ASLEEP, memory_order_release);
    gy_event_sleep(&pool->events.work, key);
    for (;;) {
        uint32_t asleep = GY_WORKER_ASLEEP, on_loan = GY_WORKER_ON_LOAN;
        if (atomic_compare_exchange_strong(&self->holder, &asleep, GY_WORKER_AWAKE)) {
            break;
        }
        if (atomic_compare_exchange_strong(&self->holder, &on_loan, GY_WORKER_RECLAIMED)) {
            atomic_fetch_sub(&pool->shown.on_loan, 1);
            atomic_fetch_sub(&pool->idle, 1); /* it does not look: the next one shall */
            gy_event_notify(&pool->events.work, 1);
            gy_event_wait_for(&pool->events.returned, &self->holder, GY_WORKER_AWAKE);
            atomic_fetch_add(&pool->idle, 1);
            break;
        }
    }
    self->last_error = gy_error_last();
    gy_worker_enter_search(self, GY_SEARCH_ON); /* the event has counted it out */
    assert(gy_pool_loans_are_valid(pool));
}

/* ---- the guest's side --------------------------------------------------------------- */

/* Return the worker to the pool.  Others take what its deque holds. */
static void give_back(struct gy_worker *self)
{
    assert(gy_deque_is_valid(&self->deque));
    assert(gy_worker_is_valid(self));
    gantry_cpu_dispatcher *pool = self->pool;
    if (!gy_deque_is_empty(&self->deque)) {
        gy_pool_miss(pool, GY_MISSED);
    }
    self->only_owner = NULL;
    gy_worker_current = NULL;
    uint32_t on_loan = GY_WORKER_ON_LOAN;
    if (!atomic_compare_exchange_strong(&self->holder, &on_loan, GY_WORKER_ASLEEP)) {
        atomic_store(&self->holder, GY_WORKER_AWAKE);
        gy_event_notify(&pool->events.returned, UINT32_MAX);
        return;
    }
    atomic_fetch_sub(&pool->shown.on_loan, 1);
    assert(gy_pool_loans_are_valid(pool));
    if (atomic_load(&pool->shown.missed) != 0 && atomic_exchange(&pool->shown.missed, 0) != 0 &&
        gy_pool_has_work(pool)) {
        gy_pool_notify_work(pool, pool->worker_count);
    }
}

/* The worker that fell asleep last will most likely be woken up last.  A worker in whose deque an earlier
 * guest has left tasks is not borrowed: they may be another manager's. */
static struct gy_worker *borrow(gantry_cpu_dispatcher *pool)
{
    uint32_t at = atomic_load_explicit(&pool->last_asleep, memory_order_relaxed);
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        struct gy_worker *worker = &pool->workers[at];
        uint32_t asleep = GY_WORKER_ASLEEP;
        if (atomic_load_explicit(&worker->holder, memory_order_relaxed) == GY_WORKER_ASLEEP &&
            !gy_deque_has_tasks(&worker->deque) &&
            atomic_compare_exchange_strong(&worker->holder, &asleep, GY_WORKER_ON_LOAN)) {
            return worker;
        }
        at = at + 1 == pool->worker_count ? 0 : at + 1;
    }
    return NULL;
}

struct gy_worker *gy_guest_begin(struct gy_task_owner *owner)
{
    gantry_cpu_dispatcher *pool = owner->pool;
    if (!owner->lets_guests || gy_worker_current != NULL || !gy_pool_has_sleepers(pool)) {
        return NULL;
    }
    struct gy_worker *self = borrow(pool);
    if (self != NULL) {
        atomic_fetch_add(&pool->shown.on_loan, 1);
        self->only_owner = owner;
        self->last_error = gy_error_last();
        gy_worker_current = self;
        assert(gy_worker_is_valid(self) && gy_pool_loans_are_valid(pool));
        if (!gy_deque_is_empty(&self->deque)) { /* left there since we have looked */
            give_back(self);
            self = NULL;
        }
    }
    return self;
}

void gy_guest_end(struct gy_worker *self)
{
    gantry_task *next = self->next;
    self->next = NULL;
    if (next != NULL) {
        gy_worker_give_away(self, next);
    }
    gy_worker_share_batch(self);
    gy_worker_flush(self);
    give_back(self);
}

/* Must the guest leave?  There may be tasks that it must not run, and no other worker may come to them: a
 * worker divides its time between all managers. */
static bool is_reclaimed(const struct gy_worker *self)
{
    const gantry_cpu_dispatcher *pool = self->pool;
    return (atomic_load_explicit(&pool->shown.running, memory_order_relaxed) > 1 ||
            atomic_load_explicit(&pool->shown.classes_have_cpus, memory_order_relaxed)) &&
           (atomic_load_explicit(&pool->shown.missed, memory_order_relaxed) == GY_MISSED_OF_OTHERS ||
            atomic_load_explicit(&self->holder, memory_order_relaxed) == GY_WORKER_RECLAIMED);
}

/* Has the guest nothing of its own left? */
static bool is_through(const struct gy_worker *self)
{
    return self->next == NULL && self->batch.left == 0 && gy_deque_is_empty(&self->deque);
}

/* A body has called pthread_exit() in a guest, which is a thread of the application. */
static void depart(void *worker)
{
    gy_worker_abandon(worker);
    gy_guest_end(worker);
}

static bool work(struct gy_worker *self, const struct gy_wait *wait)
{
    bool is_over = false;
    for (uint32_t left = LOOK_MOST;;) {
        if (is_through(self) || --left == 0) { /* its tasks may make tasks for ever */
            left = LOOK_MOST;
            gy_worker_flush(self);
            is_over = wait->condition(wait->user, false);
        }
        gantry_task *task = is_over ? NULL : gy_worker_find(self);
        if (task == NULL) {
            break;
        }
        gy_worker_run(self, task);
        if (is_reclaimed(self)) {
            break;
        }
    }
    return is_over;
}

bool gy_guest_work(struct gy_worker *self, const struct gy_wait *wait)
{
    struct gy_kept_error before;
    gy_error_keep(&before);
    bool is_over;
    pthread_cleanup_push(depart, self);
    is_over = work(self, wait);
    pthread_cleanup_pop(0);
    gy_error_put_back(&before);
    gy_guest_end(self);
    return is_over;
}

bool gy_guest_look(const struct gy_wait *wait)
{
    gantry_cpu_dispatcher *pool = wait->owner->pool;
    if (!wait->owner->lets_guests || !gy_pool_has_sleepers(pool) || !gy_pool_has_work(pool)) {
        return false;
    }
    struct gy_worker *self = gy_guest_begin(wait->owner);
    if (self != NULL && wait->stop_helping != NULL) {
        wait->stop_helping(wait->user);
    }
    return self != NULL && gy_guest_work(self, wait);
}
