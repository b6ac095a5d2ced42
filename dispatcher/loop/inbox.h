/* SPDX-License-Identifier: MIT */
/* The dispatcher's inbox: ready tasks from any thread, in order of arrival, without a lock on the way in.
 *
 * Producers push whole lists with one compare-and-swap (a Treiber stack of reversed lists); the dispatcher
 * thread takes everything at once and reverses it.  Links live in the tasks, so a push cannot fail.  The
 * lock is only taken to sleep and to wake a sleeper. */
#ifndef DISPATCHER_LOOP_INBOX_H
#define DISPATCHER_LOOP_INBOX_H

#include "base/hints.h"
#include "base/thread.h"
#include "base/wake_hint.h"
#include "taskman/gpu_task.h"

#include <stdatomic.h>

struct gy_gpu_list {
    gantry_task *first; /* NULL: empty */
    gantry_task *last;
};

/* Which thread may take: the taker's own one, or a guest while that sleeps (guest.h).  Its only writer is
 * enter() in inbox.c.
 *
 *              sleeps                borrow
 *   TAKER_AWAKE -----> TAKER_ASLEEP -------> TAKER_ON_LOAN
 *        ^                |      ^                |
 *        +----------------+      +----------------+
 *            wakes up                give back
 *
 * A thread that wakes up while it is on loan sleeps on: the guest sees the same news, and passes on what it
 * leaves.  Where a guest is expected at once (`guest_comes`), a thread that has news is TAKER_ASLEEP until
 * that has come or the hint has run out: the guest has the tasks in its caches, and no others to do.
 *
 * To wake a thread takes its waker some microseconds.  A guest that comes at once need not spend them
 * (gy_inbox_push_for_guest()): while such guests come, and NAPPING_NS behind the last, the sleep of the
 * taker's own thread is a chain of naps.  At the end of each it looks for tasks, so those that no guest takes
 * are left alone for one nap.  Who pushes in any other way, and who signals, wakes it from a nap as from any
 * sleep.  tests/models/inbox.pml has the push and the end of the naps, guest.pml the loan. */
enum gy_taker_state { GY_TAKER_AWAKE, GY_TAKER_ASLEEP, GY_TAKER_ON_LOAN };

struct gy_inbox {
    _Atomic(gantry_task *) head; /* atomic: newest first */
    _Atomic(uint32_t) signals;   /* atomic: other reasons to wake up, counted */
    _Atomic(bool) asleep;        /* atomic: the taker is, or is about to be, in gy_cond_wait(), not on loan */
    _Atomic(uint32_t) taker;     /* atomic; written under lock: enum gy_taker_state */
    _Atomic(bool) naps; /* atomic; written under lock, by the taker's own thread: its sleep ends soon */
    bool is_called;     /* guarded by lock: somebody has woken it since it last looked at everything */
    struct gy_wake_hint naps_on;     /* atomic; guests come at once lately: the taker naps until then */
    struct gy_wake_hint deserted;    /* atomic; one has not come: until then nobody counts on them */
    struct gy_wake_hint guest_comes; /* atomic; a guest is likely to take in the taker's place until then */
    gy_mutex lock;                   /* rank DISPATCHER_INBOX */
    gy_cond wake;                    /* signalled under lock when `asleep` was seen */
};

GANTRY_MUST_CHECK gantry_status gy_inbox_init(struct gy_inbox *inbox);
void gy_inbox_fini(struct gy_inbox *inbox);

/* Add the list first … last.  Any thread. */
GY_RARE void gy_inbox_push(struct gy_inbox *inbox, gantry_task *first, gantry_task *last);

/* Make a sleeping taker look around.  Any thread. */
void gy_inbox_signal(struct gy_inbox *inbox);

/* A thread is about to push tasks, and is likely to borrow the taker's place at once then.  The taker spins
 * before it sleeps.  Any thread. */
void gy_inbox_expect_guest(struct gy_inbox *inbox);

/* gy_inbox_expect_guest() and gy_inbox_push() in one, which wakes no taker that naps: if the guest does not
 * come, the tasks are found at the end of its nap.  Any thread. */
void gy_inbox_push_for_guest(struct gy_inbox *inbox, gantry_task *first, gantry_task *last);

/* gy_inbox_signal() for news that can wait until the taker looks around in any case: it wakes no thread. */
static inline void gy_inbox_note(struct gy_inbox *inbox)
{
    atomic_fetch_add(&inbox->signals, 1);
}

/* Append everything to `list`, oldest first; false when there was nothing.  Taker only. */
GY_RARE bool gy_inbox_take(struct gy_inbox *inbox, struct gy_gpu_list *list);

static inline bool gy_inbox_is_empty(struct gy_inbox *inbox)
{
    return atomic_load_explicit(&inbox->head, memory_order_relaxed) == NULL;
}

/* Return when `signals` is not `seen` or, with `tasks_too`, when there are tasks, or at `until_ns` of
 * gy_clock_ns(); 0: however long it takes.  `spin_budget_ns`: how long a hybrid or adaptive wait spins before
 * it sleeps.  Taker only. */
void gy_inbox_wait(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, gantry_wait_mode mode,
                   uint64_t spin_budget_ns, uint64_t until_ns);

static inline bool gy_inbox_has_tasks(struct gy_inbox *inbox, bool tasks_too)
{
    return tasks_too && atomic_load(&inbox->head) != NULL;
}

/* Would gy_inbox_wait() return at once? */
static inline bool gy_inbox_has_news(struct gy_inbox *inbox, uint32_t seen, bool tasks_too)
{
    return atomic_load(&inbox->signals) != seen || gy_inbox_has_tasks(inbox, tasks_too);
}

/* The taker sleeps, and nobody has taken its place. */
static inline bool gy_inbox_is_free(const struct gy_inbox *inbox)
{
    return atomic_load_explicit(&inbox->taker, memory_order_relaxed) == GY_TAKER_ASLEEP;
}

/* The calling thread is the taker until gy_inbox_give_back(), in the place of one that sleeps; false: that
 * does not, or another one has taken its place already. */
bool gy_inbox_borrow(struct gy_inbox *inbox);

/* The taker's own thread sleeps on, unless there is news after the signal `seen`, or it shall `wake` anyway.
 */
void gy_inbox_give_back(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, bool wake);

static inline void gy_gpu_list_append(struct gy_gpu_list *list, gantry_task *first, gantry_task *last)
{
    last->next = NULL;
    if (list->first == NULL) {
        list->first = first;
    } else {
        list->last->next = first;
    }
    list->last = last;
}

/* Take the first; NULL: there is none. */
static inline gantry_task *gy_gpu_list_pop(struct gy_gpu_list *list)
{
    gantry_task *task = list->first;
    if (task != NULL) {
        list->first = task->next;
        list->last = list->first != NULL ? list->last : NULL;
    }
    return task;
}

/* The list has a first task if it has a last one, and no task follows the last one. */
static inline bool gy_gpu_list_is_valid(const struct gy_gpu_list *list)
{
    return list->first == NULL ? list->last == NULL : list->last != NULL && list->last->next == NULL;
}

#endif
