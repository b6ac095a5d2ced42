/* The task manager's own data, for the files of taskman/. */
#ifndef TASKMAN_MANAGER_H
#define TASKMAN_MANAGER_H

#include "base/fast_lock.h"
#include "base/proof.h"
#include "base/span.h"
#include "base/status.h"
#include "taskman/cpu/account.h"
#include "taskman/cpu/start_batch.h"
#include "taskman/gpu_facts.h"
#include "taskman/graph/graph.h"
#include "taskman/graph/names.h"

#include <stddef.h>

/*            start              stop (all released)        reset
 *   BUILDING -----> RUNNING -------------------> STOPPED -----> BUILDING
 *       |  +-- reset -> BUILDING                  ^  | start, if frozen
 *       +-- freeze -------------------------------+  +-----> RUNNING
 */
enum gy_phase { GY_BUILDING, GY_RUNNING, GY_STOPPED };

/* What freeze() found out.  Immutable until the reset. */
struct gy_frozen {
    gantry_task **roots; /* nothing holds these back */
    size_t root_count;
    size_t plain_count;           /* the first of them: CPU tasks without any traits */
    struct gy_join_group *groups; /* of edges to wide joins, see joins.c; NULL: none */
    size_t group_count;
    bool joins_are_armed;     /* for a run of all tasks */
    struct gy_graph_mark end; /* tasks that were added later lie behind */
    uint64_t tasks, tasks_gpu, tasks_sync;
    uint64_t outside;        /* references that others hold at the begin of a run of all tasks */
    bool has_run;            /* a run was started */
    struct gy_gpu_plan *gpu; /* the dispatcher's plan for it; NULL: there is none */
};

/* So often must a thread come at once before a step counts on that. */
enum { GY_PUNCTUAL = 4 };

struct gantry_taskman {
    struct gy_task_owner as_owner; /* guarded by its own comments; first: see gy_task_manager() */
    struct gy_gpu_facts gpu_facts; /* likewise; second: see gy_task_facts() */

    gantry_cpu_dispatcher *own_pool;  /* immutable; NULL: the owner's pool is borrowed */
    gantry_dispatcher *gpu;           /* immutable; borrowed; NULL: none */
    struct gy_gpu_user gpu_user;      /* the GPU dispatcher's */
    unsigned forks;                   /* immutable; gy_thread_forks() of the threads for its tasks */
    uint32_t device;                  /* immutable; of GPU tasks that name none, in a fleet; else 0 */
    uint32_t partition;               /* as of a task; of GPU tasks that name none, see gy_task_partition() */
    const struct gy_gpu_ops *gpu_ops; /* immutable; NULL exactly if gpu is */
    bool lets_gpu_guests;         /* immutable; threads that wait for it may do the GPU dispatcher's work */
    _Atomic(bool) was_helped;     /* atomic; they did so in the latest step or wait, or could have if the
                                   * dispatcher had slept: nobody need be awake next */
    _Atomic(uint64_t) started_ns; /* atomic; gy_clock_ns() when its first tasks were handed out; 0: a thread
                                   * has waited for them since */
    _Atomic(uint32_t) punctual;   /* atomic; so many steps in a row were waited for at once behind their
                                   * start() by a thread that may be a guest; GY_PUNCTUAL at most */
    const struct gy_span_ranges
        *step_ranges;              /* guarded by lock; who was told that the step began, NULL: nobody */
    uint64_t step_range;           /* guarded by lock; the number that `step_ranges` gave it */
    struct gy_spawn_place *places; /* immutable; one per worker of the pool, see places.h */
    bool frozen;                   /* guarded by lock, immutable while running */
    bool without_gpu;              /* likewise; the step began although the GPU dispatcher is lost: it has no
                                    * GPU task, or did not have one then */

    _Alignas(64) gy_fast_lock lock;  /* names, storage, edges, phase */
    _Atomic(uint8_t) phase;          /* atomic; enum gy_phase; written under lock by enter_phase() alone */
    struct gy_graph graph;           /* guarded by lock */
    struct gy_names names;           /* guarded by lock */
    struct gy_error failure;         /* guarded by lock; the step's first; status GANTRY_OK: none */
    uint64_t submitted;              /* guarded by lock; tasks of the step, light ones included */
    _Atomic(uint64_t) submitted_gpu; /* atomic; written under lock */
    _Atomic(uint64_t)
        spin_budget_ns;      /* atomic; of a thread that waits for the end of a step with GPU tasks */
    uint64_t submitted_sync; /* guarded by lock */
    uint64_t unfilled;       /* guarded by lock; names that no task was submitted for */
    uint64_t late_names;     /* guarded by lock; of the unfilled, those that still have GY_TASK_LATE_NAME */
    bool may_have_cycle;     /* guarded by lock; an edge declared while running may have closed one */
    bool has_broken_cycle;   /* guarded by lock; so a task of it was let go before a task it depends on */
    uint64_t outside;        /* guarded by lock; references that others hold, while building */
    uint64_t counted;        /* guarded by lock; how many tasks were ever counted into `work` */
    uint64_t conditions;     /* guarded by lock; of the submitted */
    uint64_t stables;        /* guarded by lock; of the submitted */
    uint64_t lights;         /* guarded by lock; of the submitted */
    uint64_t special;        /* guarded by lock; all but submissions of plain CPU tasks, and references that
                              * were added before the start */
    struct gy_start_job job; /* written by a start; then guarded by the pool's injection lock */
    struct gy_frozen frozen_graph; /* guarded by lock; all zero unless frozen */

    struct gy_gpu_loop *loops;       /* guarded by lock; since the reset; NULL: none */
    struct gy_gpu_memory **memories; /* guarded by lock; the declarations since the reset, by number - 1 */
    uint32_t memory_count;           /* guarded by lock; of these */
    uint32_t memory_room;            /* guarded by lock; places in `memories` */
    uint64_t memory_tasks;           /* guarded by lock; of the submitted, those that name one */
    bool has_told_memory;            /* guarded by lock; that such tasks are not stable */
    _Atomic(uint64_t)
        held_back;   /* atomic; written under lock; by the GPU dispatcher, until there is memory */
    bool is_awaited; /* guarded by lock; a thread that waits has seen the step quiet since a task was held
                        back */

    /* atomic; references that others hold on tasks of a frozen graph in a run */
    _Alignas(64) _Atomic(uint64_t) frozen_held;
    _Atomic(uint64_t) failed;         /* atomic; FAILED tasks */
    _Atomic(uint64_t) resolved_names; /* atomic; unfilled names that were released */

    gantry_fleet *fleet;          /* immutable; borrowed; whose dispatcher `gpu` is; NULL: none */
    gantry_failure_fn on_failure; /* immutable; NULL: nobody hears of failures */
    void *on_failure_user;        /* immutable */
};

_Static_assert(offsetof(struct gantry_taskman, as_owner) == 0, "gy_task_manager() casts");
_Static_assert(offsetof(struct gantry_taskman, gpu_facts) == offsetof(struct gy_gpu_manager, facts),
               "gy_task_facts() casts");

/* The GPU tasks of the step so far.  Any thread. */
static inline uint64_t gy_taskman_gpu_tasks(const gantry_taskman *manager)
{
    return atomic_load_explicit(&manager->submitted_gpu, memory_order_relaxed);
}

/* Are these all the GPU tasks that the running step will have?  Only of a frozen graph that is known; to one
 * that is built anew for each step more may be submitted while it runs.  Any thread. */
static inline bool gy_taskman_has_no_more(const gantry_taskman *manager, uint64_t gpu_tasks)
{
    return manager->frozen && gy_taskman_gpu_tasks(manager) == gpu_tasks;
}

static inline enum gy_phase gy_taskman_phase(const gantry_taskman *manager)
{
    return (enum gy_phase)atomic_load_explicit(&manager->phase, memory_order_acquire);
}

/* Do the counts, the phase and the frozen graph fit together? */
bool gy_frozen_is_valid(const struct gy_frozen *frozen);
bool gy_taskman_is_valid(const gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* One more task to be released before the step ends; nobody else has seen it.  `active`: GY_WORK_ACTIVE if
 * the caller will hold a reference on it while running, else 0. */
static inline void gy_taskman_count_pending(gantry_taskman *manager, gantry_task *task, uint64_t active)
    GY_REQUIRES(manager->lock)
{
    manager->counted++;
    if (gy_taskman_phase(manager) != GY_RUNNING) {
        return; /* begin_running() counts all at once, and gy_taskman_hear_all_locked() was called */
    }
    if (__builtin_expect(gy_proof_listens() != 0, 0)) {
        gy_task_set(task, GY_TASK_HEARD);
    }
    if ((atomic_load_explicit(&manager->as_owner.epoch, memory_order_relaxed) & 1) == 0) {
        atomic_fetch_add_explicit(&manager->as_owner.work, GY_WORK_PENDING + active, memory_order_relaxed);
        return;
    }
    gy_task_set(task, GY_TASK_ODD);
    atomic_fetch_add_explicit(&manager->as_owner.work, active, memory_order_relaxed);
    atomic_fetch_add_explicit(&manager->as_owner.odd_pending, 1, memory_order_relaxed);
}

/* The last that happens to a task or several, see gy_owner_count_off(). */
static inline void gy_taskman_count_off(gantry_taskman *manager, uint64_t less)
{
    gy_owner_count_off(&manager->as_owner, less, 0);
}

/* Nothing in the step will move by itself. */
static inline bool gy_taskman_is_quiet(gantry_taskman *manager)
{
    return (atomic_load(&manager->as_owner.work) & (GY_WORK_PENDING - 1)) == 0;
}

/* The order matters: when `work` is 0, no running task will add to the other count. */
static inline bool gy_taskman_is_idle(gantry_taskman *manager)
{
    return atomic_load(&manager->as_owner.work) == 0 && atomic_load(&manager->as_owner.odd_pending) == 0;
}

#endif
