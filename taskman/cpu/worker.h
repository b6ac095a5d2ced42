/* SPDX-License-Identifier: MIT */
/* A worker and a pool of them as they lie in memory, for the files of taskman/cpu/ and the client of a pool.
 */
#ifndef TASKMAN_CPU_WORKER_H
#define TASKMAN_CPU_WORKER_H

#include "base/cpus.h"
#include "base/foresight.h"
#include "base/hints.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/wake_hint.h"
#include "taskman/cpu/deque.h"
#include "taskman/cpu/event.h"
#include "taskman/graph/ready.h"

#include <assert.h>
#include <sched.h>
#include <setjmp.h>

enum { GY_MOST_WORKERS = 1024 };

/* What the thread that has a worker does with tasks; gy_worker_enter() is the only writer.
 *
 *                a task, or a part of a loop           the body returns
 *   BETWEEN ------------------------------> IN BODY ------------------> RELEASING
 *    ^   |                                    |                          ^   |
 *    +---|--- the part, or an unheard task ---+                          |   |
 *    |   |       is done                                                 |   |
 *    |   +--- a guest of the GPU dispatcher releases tasks --------------+   |
 *    +--------------- all successors have been notified ---------------------+
 */
enum gy_worker_activity {
    GY_WORKER_BETWEEN,   /* two tasks; it may be looking for the next one, see gy_worker_search */
    GY_WORKER_IN_BODY,   /* of a task, or of a part of a loop */
    GY_WORKER_RELEASING, /* a task whose body has returned, or GPU tasks */
};

/* How a worker's own thread looks for tasks; gy_worker_enter_search() is the only writer.
 *
 *          begins looking         prepares                  sleeps
 *   OFF <------------------> ON <-----------> LAST LOOK -------------> ASLEEP
 *          ends looking      ^     cancels                               |
 *                            +--------------- wakes up ------------------+
 *
 * Only a worker that is ASLEEP can be on loan, and its activity is that of the guest then. */
enum gy_worker_search {
    GY_SEARCH_OFF,
    GY_SEARCH_ON,        /* counted in pool->idle, as are those that follow */
    GY_SEARCH_LAST_LOOK, /* counted in pool->events.work.sleepers, as are those that follow */
    GY_SEARCH_ASLEEP,    /* until it has its place back; while a guest keeps it waiting it does not count */
};

/* A batch of the tasks that a start hands out; the worker that took it looks at one after the other. */
struct gy_start_batch {
    struct gy_task_owner *owner;
    gantry_task *const *roots; /* as in struct gy_start_job */
    gantry_task *first;        /* `roots` NULL: the next of tasks that lie side by side */
    size_t left;
};

/* Who has a worker: its own thread, or a guest.  The diagram is in guest.c. */
enum gy_worker_holder {
    GY_WORKER_AWAKE,
    GY_WORKER_ASLEEP,
    GY_WORKER_ON_LOAN,   /* a guest has it */
    GY_WORKER_RECLAIMED, /* a guest has it, and its own thread waits for it */
};

/* Work was queued while every sleeping worker was on loan. */
enum gy_missed {
    GY_MISSED = 1,       /* by guests, for themselves */
    GY_MISSED_OF_OTHERS, /* also by others, or for others */
};

struct gy_worker;

/* What a worker has not told the owner of tasks yet: account.c.
 *
 * `join`: a task that many come before.  The tasks that the worker has run leave it their references on that,
 * and those that it makes take them, so that not every one of them writes a line that all workers share.
 * While it has any, it runs nothing but tasks that have one themselves, so nothing is delayed by it. */
struct gy_worker_debt {
    struct gy_task_owner *owner;                /* NULL: none */
    uint64_t work;                              /* what to take off, in the halves of `work` */
    uint32_t odd;                               /* what to take off `odd_pending` */
    uint32_t spawned;                           /* tasks to add to `spawned` */
    int32_t references;                         /* on `join` */
    gantry_task *join;                          /* NULL: none was met */
    void (*leave_join)(struct gy_worker *self); /* give them back; NULL: there are none */
};

/* The bundle that the running body fills: bundle.c. */
struct gy_filling {
    uint32_t made;     /* tasks that the body has made, up to GY_BUNDLE_BEHIND + 1 */
    uint32_t count;    /* tasks in `bundle`, unless another worker has taken them */
    uint32_t most;     /* so many tasks fill it */
    uint64_t since_ns; /* when the body began to fill it */
};

/* What the running body has said of its task. */
struct gy_said {
    uint64_t chosen;   /* a condition: a bit per dependent */
    uint64_t detached; /* the task's handle, see awaits.h; 0: it ends with the body */
};

/* Where a worker's thread is: classes.c. */
struct gy_worker_cpus {
    uint32_t cpu_class; /* that it works for; 0: none */
    bool is_away;       /* on the CPUs of a class instead of `home` */
    gy_cpus *home;      /* behind the pool's workers; NULL: of a guest */
};

/* In a recording: release.c. */
struct gy_worker_span {
    uint64_t begin_ns; /* of the body that ran last, until it is emitted; 0: not recorded */
    uint64_t end_ns;
    uint64_t flow; /* of the task that is being released; 0: none */
};

/* One thread that runs tasks; `deque` and `holder` excepted, only that thread touches it. */
struct gy_worker {
    struct gy_deque deque;                    /* not initialised in an inline waiter */
    _Alignas(64) gantry_cpu_dispatcher *pool; /* a line that thieves do not read */
    gantry_task *next;                        /* to run before anything else */
    enum gy_worker_activity activity;
    enum gy_worker_search search; /* its own thread's, while that sleeps, too */
    bool has_deque;
    uint32_t index;                         /* in pool->workers */
    const struct gy_task_owner *only_owner; /* a guest runs tasks of this one alone; NULL: of all owners */
    struct gy_worker_debt debt;
    struct gy_start_batch batch;
    gantry_task *running; /* NULL: none */
    struct gy_filling filling;
    struct gy_said said;
    struct gy_worker_cpus cpus;
    const struct gy_error *last_error; /* this thread's */
    jmp_buf *anew;                     /* where the thread begins again; a worker's own only */
    struct gy_worker_span span;
    uint32_t random;          /* state of the victim choice */
    uint32_t ran;             /* tasks */
    uint32_t dry;             /* looks at other workers' deques that found nothing */
    uint64_t spin_budget_ns;  /* GANTRY_WAIT_ADAPTIVE: see base/waiter.h */
    _Atomic(uint32_t) holder; /* atomic; enum gy_worker_holder */
    /* atomic; the worker adds to it, any thread takes all of it; see bundle.c */
    _Atomic(gantry_task *) bundle;
    gy_thread thread;
    char name[32];
};

enum { GY_MOST_CLASSES = 16 };

/* Tasks of a limited class. */
struct gy_class {
    uint32_t limit;              /* guarded by inject_lock */
    uint32_t running;            /* guarded by inject_lock; queued for or at a worker, and helpers of loops */
    struct gy_task_list waiting; /* guarded by inject_lock */
    bool has_cpus;               /* guarded by inject_lock; while they run, workers are on `cpus` */
    gy_cpus cpus;                /* guarded by inject_lock */
};

struct gy_loop;

/* What threads of a pool sleep on. */
struct gy_pool_events {
    struct gy_event work;     /* tasks were queued, or stopping */
    struct gy_event done;     /* a manager has nothing more to do */
    struct gy_event returned; /* a worker's place is free again */
};

/* Threads that look for tasks read these all the time, and few write them. */
struct gy_pool_shown {
    _Atomic(bool) stopping;          /* never goes back to false */
    _Atomic(bool) classes_have_cpus; /* at least one has or had */
    _Atomic(uint32_t) missed;        /* enum gy_missed */
    _Atomic(uint32_t) on_loan;       /* workers that sleep and are on loan; see gy_pool_exceeds_loans() */
    _Atomic(uint32_t) running;       /* managers whose step runs */
    _Atomic(size_t) inject_count;    /* these, of the queues, are written under inject_lock */
    _Atomic(size_t) urgent_count;
    _Atomic(size_t) low_count;
    _Atomic(struct gy_start_job *) jobs; /* first to be worked on */
    _Atomic(struct gy_loop *) loops;     /* newest first */
};

/* Tasks that no worker has yet: queues.c, under inject_lock. */
struct gy_pool_queues {
    gantry_task *first, *last;
    struct gy_task_list urgent, low; /* of high and low priority */
    struct gy_start_job *last_job;
};

struct gantry_cpu_dispatcher {
    struct gy_worker *workers;       /* immutable after create */
    uint32_t worker_count;           /* immutable after create */
    bool inline_only;                /* immutable after create */
    bool lends;                      /* immutable after create; waiting threads may borrow workers */
    unsigned forks;                  /* immutable after create; gy_thread_forks() of its workers */
    gantry_wait_mode mode;           /* immutable after create */
    struct gantry_cpu_pool_ops host; /* immutable after create; submit NULL: workers of our own */
    uint32_t class_count;            /* immutable after create */

    _Alignas(64) _Atomic(uint32_t) idle; /* atomic; workers that look for work, or sleep */
    struct gy_wake_hint expected;  /* atomic; tasks will come soon: one of the idle workers stays awake */
    struct gy_oversleep oversleep; /* atomic; of threads that wait */

    _Alignas(64) struct gy_pool_events events; /* its own guards */
    _Alignas(64) struct gy_pool_shown shown;   /* atomic */

    _Alignas(64) _Atomic(uint32_t) outside; /* atomic; foreign threads between enter and leave */
    _Atomic(uint32_t) last_asleep;          /* atomic; the worker that was the last to fall asleep */
    _Alignas(64) gy_mutex inject_lock;
    struct gy_pool_queues queues;             /* guarded by inject_lock */
    struct gy_class classes[GY_MOST_CLASSES]; /* guarded by inject_lock; class n is [n - 1] */
    struct gy_task_owner *gpu_owners; /* guarded by inject_lock; linked by next_of_pool, see owners.h */
    _Atomic(uint64_t) held_back;      /* atomic; tasks of theirs that wait for memory */
};

/* Do these fit together?  A worker is asked by the thread that has it, a pool's lists under inject_lock. */
bool gy_start_batch_is_valid(const struct gy_start_batch *batch);
bool gy_worker_is_valid(const struct gy_worker *self);
bool gy_worker_may_enter(const struct gy_worker *self, enum gy_worker_activity next);
bool gy_worker_may_search(const struct gy_worker *self, enum gy_worker_search next);
bool gy_pool_loans_are_valid(const gantry_cpu_dispatcher *pool);
bool gy_pool_is_valid(const gantry_cpu_dispatcher *pool) GY_REQUIRES(pool->inject_lock);

static inline void gy_worker_enter(struct gy_worker *self, enum gy_worker_activity next)
{
    assert(gy_worker_may_enter(self, next));
    self->activity = next;
    assert(gy_worker_is_valid(self));
}

static inline void gy_worker_enter_search(struct gy_worker *self, enum gy_worker_search next)
{
    assert(gy_worker_may_search(self, next));
    self->search = next;
    assert(gy_worker_is_valid(self));
}

/* The worker this thread is, if it is one.  Read several times per task, hence in the static TLS block. */
extern _Thread_local struct gy_worker *gy_worker_current GY_TLS_HOT;

static inline bool gy_worker_is_of(const gantry_cpu_dispatcher *pool)
{
    return gy_worker_current != NULL && gy_worker_current->pool == pool;
}

#endif
