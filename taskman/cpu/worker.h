/* The insides of a pool, for pool.c, which works it, and cpu_dispatcher.c, which sets it up. */
#ifndef TASKMAN_CPU_WORKER_H
#define TASKMAN_CPU_WORKER_H

#include "base/thread.h"
#include "taskman/cpu/deque.h"
#include "taskman/cpu/event.h"
#include "taskman/cpu/pool.h"
#include "taskman/manager.h"
#include "taskman/release.h"

#include <sched.h>
#include <setjmp.h>

enum { GY_MOST_WORKERS = 1024 };

enum gy_worker_activity {
    GY_LOOKING,   /* for a task */
    GY_IN_BODY,   /* of a task */
    GY_RELEASING, /* a task whose body has returned */
};

/* A share of the tasks that a start hands out; its owner looks at one after the other. */
struct gy_block {
    gantry_taskman *manager;
    gantry_task *const *roots; /* as in struct gy_start_job */
    gantry_task *first;        /* `roots` NULL: the next of tasks that lie side by side */
    size_t left;
};

/* Who is a worker: its own thread, or one that stands in for it.  See guest.c. */
enum gy_worker_holder {
    GY_WORKER_AWAKE,
    GY_WORKER_ASLEEP,
    GY_WORKER_LENT,   /* to a waiting thread */
    GY_WORKER_WANTED, /* the same, and its own thread waits for the end of that */
};

/* Tasks were queued, and none slept but workers that somebody stands in for. */
enum gy_missed {
    GY_MISSED = 1,       /* by those themselves */
    GY_MISSED_OF_OTHERS, /* the same, and by others, or for others */
};

/* One thread that runs tasks; `deque` and `holder` excepted, only that thread touches it. */
struct gy_worker {
    struct gy_deque deque;                    /* not initialised in an inline waiter */
    _Alignas(64) gantry_cpu_dispatcher *pool; /* a line that thieves do not read */
    gantry_task *next;                        /* to run before anything else */
    enum gy_worker_activity activity;
    bool has_deque;
    uint32_t index;               /* in pool->workers */
    const gantry_taskman *only;   /* whose tasks it runs, when somebody stands in; NULL: everybody's */
    gantry_taskman *owed_manager; /* to take these off of, and to tell of `spawned`; NULL: none */
    uint64_t owed;                /* what to take off, in the halves of `work` */
    uint32_t owed_odd;            /* the same, of `odd_pending` */
    uint32_t spawned;             /* tasks */
    struct gy_block block;
    gantry_task *running; /* NULL: none */
    uint64_t chosen;      /* by the running condition: a bit per dependent */
    uint32_t cpu_class;   /* that it works for; 0: none */
    bool is_away;         /* on the CPUs of a class instead of `home` */
    cpu_set_t home;
    const struct gy_error *last_error; /* this thread's */
    jmp_buf *anew;                     /* where the thread begins again; a worker's own only */
    uint64_t span_begin_ns;            /* of the body that ran last, until it is emitted; 0: not recorded */
    uint64_t span_end_ns;
    uint64_t span_flow;       /* of the task that is being released, in a recording; 0: none */
    uint32_t random;          /* state of the victim choice */
    uint32_t ran;             /* tasks */
    uint64_t patience_ns;     /* GANTRY_WAIT_ADAPTIVE: see patience.h */
    _Atomic(uint32_t) holder; /* atomic; enum gy_worker_holder */
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
    cpu_set_t cpus;              /* guarded by inject_lock */
};

struct gy_loop;

struct gantry_cpu_dispatcher {
    struct gy_worker *workers;       /* immutable after create */
    uint32_t worker_count;           /* immutable after create */
    bool inline_only;                /* immutable after create */
    bool lends;                      /* immutable after create; waiting threads may stand in for workers */
    unsigned forks;                  /* immutable after create; gy_thread_forks() of its workers */
    gantry_wait_mode mode;           /* immutable after create */
    struct gantry_cpu_pool_ops host; /* immutable after create; submit NULL: workers of our own */
    uint32_t class_count;            /* immutable after create */
    _Atomic(uint32_t) idle;          /* atomic; workers that find nothing */
    _Atomic(uint64_t) expected_ns;   /* atomic; until when gy_pool_expect() has asked for one of these */

    _Alignas(64) struct gy_event work; /* guarded by its lock; tasks were queued, or stopping */
    struct gy_event done;              /* guarded by its lock; a manager has nothing more to do */
    struct gy_event returned;          /* guarded by its lock; a worker's place is free again */
    _Atomic(bool) stopping;            /* atomic; never goes back to false */
    _Atomic(uint32_t) missed;          /* atomic; enum gy_missed */
    _Atomic(uint32_t) lent;            /* atomic; workers that somebody stands in for and that sleep; see
                                        * gy_pool_lends_fewer() */
    _Atomic(uint32_t) last_asleep;     /* atomic; whoever was the last to fall asleep */
    _Atomic(uint32_t) running;         /* atomic; managers whose step runs */
    _Atomic(bool) classes_have_cpus;   /* atomic; at least one has or had */

    _Alignas(64) _Atomic(uint32_t) outside; /* atomic; foreign threads between enter and leave */
    _Alignas(64) gy_mutex inject_lock;
    gantry_task *inject_first;    /* guarded by inject_lock */
    gantry_task *inject_last;     /* guarded by inject_lock */
    _Atomic(size_t) inject_count; /* atomic; written under inject_lock */

    struct gy_task_list urgent;               /* guarded by inject_lock; tasks of high priority */
    struct gy_task_list low;                  /* guarded by inject_lock; tasks of low priority */
    _Atomic(size_t) urgent_count;             /* atomic; written under inject_lock */
    _Atomic(size_t) low_count;                /* atomic; written under inject_lock */
    _Atomic(struct gy_start_job *) jobs;      /* atomic; written under inject_lock; first to be worked on */
    struct gy_start_job *last_job;            /* guarded by inject_lock */
    _Atomic(struct gy_loop *) loops;          /* atomic; written under inject_lock; newest first */
    struct gy_class classes[GY_MOST_CLASSES]; /* guarded by inject_lock; class n is [n - 1] */
    gantry_taskman
        *gpu_managers; /* guarded by inject_lock; that have a GPU dispatcher; linked by next_of_pool */
    _Atomic(uint64_t) held_back; /* atomic; tasks of theirs that wait for memory */
};

/* wait.c: a worker's thread: runs tasks until the pool is stopping and nothing is left. */
void gy_worker_main(void *worker);

/* queues.c: what is taken before and after everything else; NULL: nothing. */
gantry_task *gy_pool_take_urgent(struct gy_worker *self);
gantry_task *gy_pool_take_low(struct gy_worker *self);

/* queues.c: may the worker run it? */
bool gy_worker_may_run_locked(const gantry_cpu_dispatcher *pool, const struct gy_worker *self,
                              const gantry_task *task) GY_REQUIRES(pool->inject_lock);

/* classes.c: before and after a worker works for a task of that class, whose place it has. */
void gy_worker_enter_class(struct gy_worker *self, uint32_t cpu_class);
void gy_worker_leave_class(struct gy_worker *self);

/* classes.c: other limits from now on; `limit` 0: as it is; `cpus` NULL: none. */
void gy_pool_change_class(gantry_cpu_dispatcher *pool, uint32_t cpu_class, uint32_t limit,
                          const cpu_set_t *cpus);

/* queues.c: tasks of the class that have waited go on as far as its limit lets them, `host` those for a
 * host's pool.  How many were queued here. */
size_t gy_pool_let_class_locked(gantry_cpu_dispatcher *pool, struct gy_class *class,
                                struct gy_task_list *host) GY_REQUIRES(pool->inject_lock);

/* queues.c: at the end of the injection list. */
void gy_pool_inject_locked(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count)
    GY_REQUIRES(pool->inject_lock);
void gy_pool_submit_to_host(gantry_cpu_dispatcher *pool, gantry_task *first);

/* guest.c: so many tasks were queued: wake as many, if they sleep. */
void gy_pool_notify_work(gantry_cpu_dispatcher *pool, size_t count);
/* guest.c: the same for tasks that the worker can run itself. */
void gy_worker_notify_work(const struct gy_worker *self, size_t count);

/* guest.c: queue a task for others. */
void gy_worker_give_away(struct gy_worker *self, gantry_task *task);

/* guest.c: sleep on `work`, and be a worker again. */
void gy_worker_sleep(struct gy_worker *self, uint32_t key);

/* guest.c: run what there is of the manager until there is nothing, or the condition holds, which is
 * returned; then the thread stands in no more. */
bool gy_standin_work(struct gy_worker *self, const struct gy_wait *wait);
/* guest.c: the same, if there may be something to do and somebody to stand in for. */
bool gy_standin_look(const struct gy_wait *wait);

/* start_batch.c: the next task that the worker's block makes ready, taking another block when it is used up.
 */
gantry_task *gy_worker_next_of_block(struct gy_worker *self);
/* start_batch.c: let go of the rest of the block, for others to take. */
void gy_worker_share_block(struct gy_worker *self);
/* start_batch.c: for who has a queue and other tasks, now and then: one of its block, or, where that is new
 * or others have nothing to do, of its queue, where all of the block is now.  NULL: there was none. */
gantry_task *gy_worker_turn_to_block(struct gy_worker *self);

/* release.c: run the task, and release it.  To be called between pthread_cleanup_push() and _pop(): bodies
 * are not supposed to call pthread_exit(), but if one does, its task fails and others' get on. */
void gy_worker_run(struct gy_worker *self, gantry_task *task);
/* release.c: for cleanup handlers: what the thread was running will not return. */
void gy_worker_abandon(struct gy_worker *self);

/* pool.c: whatever can be run now.  NULL only if every queue was seen empty. */
gantry_task *gy_worker_find(struct gy_worker *self);

/* pool.c: count off what is owed. */
void gy_worker_settle(struct gy_worker *self);

/* pool.c: at the end of the injection list. */
void gy_pool_inject(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count);

/* parallel.c: take part in a loop of somebody else; false: there is none. */
bool gy_worker_help(struct gy_worker *self);

/* wait.c: run `task` and what it leaves for the same thread. */
void gy_worker_run_here(gantry_cpu_dispatcher *pool, gantry_task *task);

/* wait.c: run what is queued in an inline-only pool. */
void gy_pool_drain_inline(gantry_cpu_dispatcher *pool);

/* What the calling thread's last error was; tasks that it runs while it waits have errors of their own. */
struct gy_kept_error {
    bool is_set;
    struct gy_error error; /* meaningless unless is_set: it is long */
};

static inline void gy_error_keep(struct gy_kept_error *kept)
{
    const struct gy_error *last = gy_error_last();
    kept->is_set = last->status != GANTRY_OK;
    if (kept->is_set) {
        kept->error = *last;
    }
}

static inline void gy_error_put_back(const struct gy_kept_error *kept)
{
    if (kept->is_set) {
        gy_error_adopt(&kept->error);
    } else if (gy_error_last()->status != GANTRY_OK) {
        gy_error_clear();
    }
}

/* ---- inline: the worker that a thread is, and what it owes its manager ---- */

/* The worker this thread is, if it is one.  Read several times per task, hence in the static TLS block. */
extern _Thread_local struct gy_worker *gy_worker_current __attribute__((tls_model("initial-exec")));

static inline bool gy_worker_is_of(const gantry_cpu_dispatcher *pool)
{
    return gy_worker_current != NULL && gy_worker_current->pool == pool;
}

enum {
    GY_OWED_MOST = 64, /* released tasks not counted off yet */
    GY_CREDIT = 64,    /* how much a worker counts into `work` at once */
};

static inline void gy_worker_owe_to(struct gy_worker *self, gantry_taskman *manager)
{
    if (self->owed_manager != manager) {
        gy_worker_settle(self);
        self->owed_manager = manager;
    }
}

/* Keep in mind to gy_taskman_count_off() later, at the latest before the worker looks for work elsewhere or
 * runs a task of another manager.  Saves most of the traffic on the one counter that all workers share. */
static inline void gy_worker_owe(struct gy_worker *self, gantry_taskman *manager, uint64_t less)
{
    if (!self->has_deque) {
        gy_taskman_count_off(manager, less);
        return;
    }
    gy_worker_owe_to(self, manager);
    self->owed += less;
    if (self->owed >= GY_OWED_MOST * GY_WORK_PENDING) {
        gy_worker_settle(self);
    }
}

/* The same for a task of an odd epoch, and `less` beside. */
static inline void gy_worker_owe_odd(struct gy_worker *self, gantry_taskman *manager, uint64_t less)
{
    if (!self->has_deque) {
        gy_taskman_count_off_both(manager, less, 1);
        return;
    }
    gy_worker_owe_to(self, manager);
    self->owed += less;
    if (++self->owed_odd >= GY_OWED_MOST) {
        gy_worker_settle(self);
    }
}

/* Count one more as active.  What was not counted off yet can be used again; else more is counted in than is
 * needed now, and owed. */
static inline void gy_worker_claim_active(struct gy_worker *self, gantry_taskman *manager)
{
    uint64_t batch = self->has_deque ? GY_CREDIT : 1;
    if (self->has_deque) {
        gy_worker_owe_to(self, manager);
        if (self->owed % GY_WORK_PENDING != 0) {
            self->owed -= GY_WORK_ACTIVE;
            return;
        }
        self->owed += (batch - 1) * GY_WORK_ACTIVE;
    }
    atomic_fetch_add_explicit(&manager->work, batch * GY_WORK_ACTIVE, memory_order_relaxed);
}

/* Where the worker's spawned tasks of a manager lie, see spawn.c. */
struct gy_spawn_place {
    _Alignas(64) struct gy_task_chunk *chunk; /* only its worker touches it while the manager runs */
    gantry_task *ended;                       /* linked through gpu.next; the same */
};

static inline struct gy_spawn_place *gy_worker_place(const struct gy_worker *self, gantry_taskman *manager)
{
    return &manager->places[self->index];
}

/* The spawned task has ended, and nobody knows it any more. */
static inline void gy_worker_take_back(struct gy_worker *self, gantry_task *task)
{
    struct gy_spawn_place *place = gy_worker_place(self, task->manager);
    task->gpu.next = place->ended;
    place->ended = task;
}

/* Are so many workers more than those that somebody stands in for?  `lent` may be -1 for a moment: when a
 * worker wakes up before who stands in for it was counted. */
static inline bool gy_pool_lends_fewer(const gantry_cpu_dispatcher *pool, uint32_t count)
{
    return (int32_t)(count - atomic_load(&pool->lent)) > 0;
}

/* Has it more of its block than it runs next, and do others have nothing to do? */
static inline bool gy_worker_may_share(const struct gy_worker *self)
{
    return self->block.left > 1 &&
           gy_pool_lends_fewer(self->pool, atomic_load_explicit(&self->pool->idle, memory_order_relaxed));
}

/* Queue a READY plain task that the worker's own task has made. */
static inline void gy_worker_push(struct gy_worker *self, gantry_task *task)
{
    gantry_cpu_dispatcher *pool = self->pool;
    if (!gy_deque_push(&self->deque, task)) {
        gy_pool_inject(pool, task, task, 1);
    }
    /* Once somebody was missed it need not be said again. */
    uint32_t sleepers = atomic_load(&pool->work.sleepers);
    if (sleepers != 0 && (gy_pool_lends_fewer(pool, sleepers) || atomic_load(&pool->missed) == 0)) {
        gy_worker_notify_work(self, 1);
    }
}

/* The same for a task that is spawned in an odd epoch. */
static inline void gy_worker_claim_odd_task(struct gy_worker *self, gantry_taskman *manager)
{
    gy_worker_owe_to(self, manager);
    gy_worker_claim_active(self, manager);
    if (self->owed_odd == 0) {
        atomic_fetch_add_explicit(&manager->odd_pending, GY_CREDIT / 2, memory_order_relaxed);
        self->owed_odd = GY_CREDIT / 2;
    }
    self->owed_odd--;
    self->spawned++;
}

/* Count one more task as pending and active. */
static inline void gy_worker_claim_task(struct gy_worker *self, gantry_taskman *manager)
{
    gy_worker_owe_to(self, manager);
    if (self->owed < GY_WORK_PENDING || self->owed % GY_WORK_PENDING == 0) {
        const uint64_t credit = GY_CREDIT / 2 * (GY_WORK_PENDING + GY_WORK_ACTIVE);
        atomic_fetch_add_explicit(&manager->work, credit, memory_order_relaxed);
        self->owed += credit;
    }
    self->owed -= GY_WORK_PENDING + GY_WORK_ACTIVE;
    self->spawned++;
}

#endif
