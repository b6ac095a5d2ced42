/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/inbox.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/times.h"
#include "base/waiter.h"

#include <assert.h>

gantry_status gy_inbox_init(struct gy_inbox *inbox)
{
    atomic_init(&inbox->head, NULL);
    atomic_init(&inbox->signals, 0);
    atomic_init(&inbox->asleep, false);
    atomic_init(&inbox->taker, GY_TAKER_AWAKE);
    atomic_init(&inbox->naps, false);
    atomic_init(&inbox->guest_comes.until_ns, 0);
    atomic_init(&inbox->naps_on.until_ns, 0);
    atomic_init(&inbox->deserted.until_ns, 0);
    inbox->is_called = false;
    return gy_guard_init(&inbox->lock, GY_RANK_DISPATCHER_INBOX, &inbox->wake);
}

void gy_inbox_fini(struct gy_inbox *inbox)
{
    gy_guard_fini(&inbox->lock, &inbox->wake);
}

static void call_taker(struct gy_inbox *inbox) GY_REQUIRES(inbox->lock)
{
    inbox->is_called = true;
    gy_cond_signal(&inbox->wake);
}

static void wake_sleeper(struct gy_inbox *inbox)
{
    /* Pairs with the taker's store of `asleep` before its last look: both are sequentially consistent, so
     * either we see it asleep or it sees what we just added. */
    if (atomic_load(&inbox->asleep)) {
        gy_mutex_lock(&inbox->lock);
        call_taker(inbox);
        gy_mutex_unlock(&inbox->lock);
    }
}

/* Path of a task, step 4 of 9: the inbox. */
static inline void add(struct gy_inbox *inbox, gantry_task *first, gantry_task *last)
{
    gy_point(GY_POINT_PATH_4, first);
    /* Reverse the list: it becomes newest first, as the stack is. */
    gantry_task *reversed = NULL;
    for (gantry_task *task = first; task != NULL;) {
        gantry_task *next = task == last ? NULL : task->next;
        task->next = reversed;
        reversed = task;
        task = next;
    }
    gantry_task *head = atomic_load_explicit(&inbox->head, memory_order_relaxed);
    do {
        first->next = head;
    } while (!atomic_compare_exchange_weak(&inbox->head, &head, reversed));
}

void gy_inbox_push(struct gy_inbox *inbox, gantry_task *first, gantry_task *last)
{
    add(inbox, first, last);
    gy_point(GY_POINT_INBOX_ADDED, inbox);
    wake_sleeper(inbox);
}

void gy_inbox_push_for_guest(struct gy_inbox *inbox, gantry_task *first, gantry_task *last)
{
    const uint64_t now = gy_clock_ns();
    const bool is_deserted = gy_wake_hint_left(&inbox->deserted, now) != 0;
    gy_wake_hint_give(&inbox->guest_comes, now + GY_GUEST_NS);
    if (!is_deserted) {
        gy_wake_hint_give(&inbox->naps_on, now + GY_NAPPING_NS);
    }
    add(inbox, first, last);
    /* Pairs with the taker's store of `naps` before it looks once more and sleeps for good: both are
     * sequentially consistent. */
    if (is_deserted || !atomic_load(&inbox->naps)) {
        wake_sleeper(inbox);
    }
}

void gy_inbox_signal(struct gy_inbox *inbox)
{
    atomic_fetch_add(&inbox->signals, 1);
    wake_sleeper(inbox);
}

void gy_inbox_expect_guest(struct gy_inbox *inbox)
{
    gy_wake_hint_give(&inbox->guest_comes, gy_clock_ns() + GY_GUEST_NS);
}

bool gy_inbox_take(struct gy_inbox *inbox, struct gy_gpu_list *list)
{
    if (gy_inbox_is_empty(inbox)) {
        return false;
    }
    gantry_task *newest = atomic_exchange_explicit(&inbox->head, NULL, memory_order_acquire);
    gantry_task *oldest = NULL;
    for (gantry_task *task = newest; task != NULL;) {
        gantry_task *next = task->next;
        task->next = oldest;
        oldest = task;
        task = next;
    }
    gy_gpu_list_append(list, oldest, newest);
    return true;
}

/* ---- who takes ------------------------------------------------------------------------------ */

#ifndef NDEBUG
static bool may_go(enum gy_taker_state from, enum gy_taker_state to)
{
    return from == GY_TAKER_ASLEEP ? to != GY_TAKER_ASLEEP : to == GY_TAKER_ASLEEP;
}
#endif

static enum gy_taker_state taker_of(struct gy_inbox *inbox)
{
    return (enum gy_taker_state)atomic_load_explicit(&inbox->taker, memory_order_relaxed);
}

/* The only writer of inbox->taker, and so of `asleep`: that nobody takes. */
static void enter(struct gy_inbox *inbox, enum gy_taker_state next) GY_REQUIRES(inbox->lock)
{
    assert(may_go(taker_of(inbox), next));
    atomic_store_explicit(&inbox->taker, next, memory_order_relaxed);
    atomic_store(&inbox->asleep, next == GY_TAKER_ASLEEP);
}

bool gy_inbox_borrow(struct gy_inbox *inbox)
{
    if (!gy_inbox_is_free(inbox)) {
        return false;
    }
    gy_mutex_lock(&inbox->lock);
    bool is_free = gy_inbox_is_free(inbox);
    if (is_free) {
        enter(inbox, GY_TAKER_ON_LOAN);
    }
    gy_mutex_unlock(&inbox->lock);
    return is_free;
}

void gy_inbox_give_back(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, bool wake)
{
    gy_point(GY_POINT_GUEST_LEAVE, inbox);
    gy_mutex_lock(&inbox->lock);
    enter(inbox, GY_TAKER_ASLEEP);
    if (wake) {
        gy_inbox_note(inbox); /* the tasks that are left need not be news to the thread that wakes up */
    }
    if (wake || gy_inbox_has_news(inbox, seen, tasks_too)) {
        call_taker(inbox);
    }
    gy_mutex_unlock(&inbox->lock);
}

/* Until when does the taker leave its place to a guest that is about to come?  0: none is. */
static uint64_t gives_way_until(const struct gy_inbox *inbox)
{
    if (!gy_wake_hint_was_given(&inbox->guest_comes)) {
        return 0;
    }
    const uint64_t now = gy_clock_ns(), left = gy_wake_hint_left(&inbox->guest_comes, now);
    return left != 0 ? now + left : 0;
}

/* The taker has news, and is TAKER_ASLEEP for the guest.  False: that has not come in time. */
static bool give_way(struct gy_inbox *inbox) GY_REQUIRES(inbox->lock)
{
    const uint64_t until_ns = gives_way_until(inbox);
    if (until_ns == 0) {
        return false;
    }
    gy_mutex_unlock(&inbox->lock);
    struct gy_waiter waiter =
        gy_waiter_begin(GANTRY_WAIT_HYBRID, GY_GUEST_NS, until_ns); /* it may need this core */
    while (gy_inbox_is_free(inbox) && gy_waiter_pause(&waiter) == GY_WAITER_LOOK) {
    }
    gy_mutex_lock(&inbox->lock);
    return true;
}

/* What the taker looks at when it has slept: signals that only note something are no news at the end of a
 * nap, or each guest's step would be followed by a turn of the taker's own thread. */
enum look { LOOK_AT_ALL, LOOK_AT_TASKS, LOOK_IS_OVER };

/* A task that a guest was to take is left alone for one nap.  The longer no guest has come, the less likely
 * is one: so a chain of naps is few of them.  `left_ns`: of the time for which the taker naps. */
static uint64_t nap_ns(uint64_t left_ns)
{
    const uint64_t half_ns = left_ns < GY_NAPPING_NS ? (GY_NAPPING_NS - left_ns) / 2 : 0;
    return half_ns > GY_GUEST_NAP_NS ? half_ns : GY_GUEST_NAP_NS;
}

/* Sleep until somebody calls, until the end of a nap, or until the time is over; 0: there is no such time. */
static enum look sleep_once(struct gy_inbox *inbox, uint64_t until_ns) GY_REQUIRES(inbox->lock)
{
    const bool has_napped = gy_wake_hint_was_given(&inbox->naps_on);
    const uint64_t now = has_napped || until_ns != 0 ? gy_clock_ns() : 0;
    if (until_ns != 0 && now >= until_ns) {
        return LOOK_IS_OVER;
    }
    const uint64_t napping_ns = has_napped ? gy_wake_hint_left(&inbox->naps_on, now) : 0;
    if (napping_ns == 0 && atomic_load_explicit(&inbox->naps, memory_order_relaxed)) {
        atomic_store(&inbox->naps, false);
        return LOOK_AT_TASKS; /* who has pushed just now may have counted on a nap */
    }
    if (napping_ns != 0) {
        atomic_store(&inbox->naps, true);
        const uint64_t end_ns = now + nap_ns(napping_ns);
        gy_cond_wait_until(&inbox->wake, &inbox->lock,
                           until_ns != 0 && until_ns < end_ns ? until_ns : end_ns);
        return LOOK_AT_TASKS;
    }
    if (until_ns != 0) {
        gy_cond_wait_until(&inbox->wake, &inbox->lock, until_ns);
    } else {
        gy_cond_wait(&inbox->wake, &inbox->lock);
    }
    return LOOK_AT_ALL;
}

/* `look` becomes LOOK_AT_ALL if somebody has called meanwhile: also while the lock was not held, in
 * give_way(). */
static bool finds(struct gy_inbox *inbox, enum look *look, uint32_t seen, bool tasks_too)
    GY_REQUIRES(inbox->lock)
{
    if (*look == LOOK_AT_TASKS && !inbox->is_called) {
        return gy_inbox_has_tasks(inbox, tasks_too);
    }
    *look = LOOK_AT_ALL;
    inbox->is_called = false;
    return gy_inbox_has_news(inbox, seen, tasks_too);
}

/* The taker's sleep, until woken or until the time is over, and nobody takes in its place. */
static void sleep_until(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, uint64_t until_ns)
{
    gy_point(GY_POINT_INBOX_SLEEP, inbox);
    gy_mutex_lock(&inbox->lock);
    enter(inbox, GY_TAKER_ASLEEP);
    for (enum look look = LOOK_AT_ALL; look != LOOK_IS_OVER;) {
        bool is_on_loan = taker_of(inbox) == GY_TAKER_ON_LOAN;
        if (is_on_loan || !finds(inbox, &look, seen, tasks_too)) {
            look = sleep_once(inbox, is_on_loan ? 0 : until_ns);
        } else if (!give_way(inbox)) {
            if (look == LOOK_AT_TASKS) { /* nobody has called: they were pushed for a guest */
                gy_wake_hint_give(&inbox->deserted, gy_clock_ns() + GY_DESERTED_NS);
            }
            break;
        }
    }
    enter(inbox, GY_TAKER_AWAKE);
    atomic_store(&inbox->naps, false);
    gy_mutex_unlock(&inbox->lock);
}

void gy_inbox_wait(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, gantry_wait_mode mode,
                   uint64_t spin_budget_ns, uint64_t until_ns)
{
    struct gy_waiter waiter = gy_waiter_begin(mode, spin_budget_ns, until_ns);
    while (!gy_inbox_has_news(inbox, seen, tasks_too)) {
        enum gy_waiter_next next = gy_waiter_pause(&waiter);
        if (next == GY_WAITER_GIVE_UP) {
            break;
        }
        if (next == GY_WAITER_SLEEP) {
            sleep_until(inbox, seen, tasks_too, until_ns);
        }
    }
    if (gives_way_until(inbox) != 0) {
        sleep_until(inbox, seen, tasks_too, until_ns);
    }
}
