/* SPDX-License-Identifier: MIT */
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

/* The GPU dispatcher of a manager, and how its GPU tasks use that.  Immutable, but for the partition: a
 * change of the device's partitions writes that under the manager's lock while it does not run. */
struct gy_gpu_use {
    gantry_dispatcher *dispatcher; /* borrowed; NULL: none */
    const struct gy_gpu_ops *ops;  /* NULL exactly if `dispatcher` is */
    gantry_fleet *fleet;           /* borrowed; whose dispatcher it is; NULL: it is in none */
    struct gy_gpu_user user;       /* the dispatcher's own */
    uint32_t device;               /* of GPU tasks that name none, in a fleet; else 0 */
    uint32_t partition;            /* as of a task; of GPU tasks that name none, see gy_task_partition() */
    bool lets_guests;              /* threads that wait for the manager may do the dispatcher's work */
};

static inline bool gy_gpu_use_is_valid(const struct gy_gpu_use *gpu)
{
    return (gpu->dispatcher != NULL) == (gpu->ops != NULL) &&
           (gpu->dispatcher != NULL || (gpu->fleet == NULL && gpu->partition == 0 && !gpu->lets_guests));
}

/* What a step is made of, counted under the manager's lock as it is declared: since the reset, or, of a
 * frozen graph, since the start on top of the graph itself. */
struct gy_step_counts {
    uint64_t submitted;    /* tasks, light ones included; of these: */
    _Atomic(uint64_t) gpu; /* atomic; written under the lock */
    uint64_t sync, conditions, stables, lights;
    uint64_t memory;     /* those that name memory */
    uint64_t unfilled;   /* names that no task was submitted for; of these: */
    uint64_t late_names; /* those that still have GY_TASK_LATE_NAME */
    uint64_t into_work;  /* tasks that were ever counted into `work` */
    uint64_t outside;    /* references that others hold, while building */
    uint64_t special;    /* all but submissions of plain CPU tasks, and references that were added before the
                          * start */
};

bool gy_step_counts_are_valid(const struct gy_step_counts *counts);

/* The memory that its tasks declare to need: memory.c, and of `has_told` submit.c, under the manager's
 * lock. */
struct gy_task_memory {
    struct gy_gpu_memory **declared; /* since the reset, by number - 1 */
    uint32_t count;                  /* of these */
    uint32_t room;                   /* places in `declared` */
    bool has_told;                   /* that tasks which name memory are not stable */
};

static inline bool gy_task_memory_is_valid(const struct gy_task_memory *memory)
{
    return memory->count <= memory->room && (memory->declared == NULL) == (memory->room == 0);
}

/* Why a step that is quiet may have to be moved, for a thread that waits: stall.c and, of what is held back,
 * memory.c, under the manager's lock. */
struct gy_stall {
    bool may_have_cycle;         /* an edge declared while running may have closed one */
    bool has_broken_cycle;       /* so a task of it was let go before a task it depends on */
    bool is_awaited;             /* a thread that waits has seen the step quiet since a task was held back */
    _Atomic(uint64_t) held_back; /* atomic; written under the lock; by the GPU dispatcher, until there is
                                  * memory */
};

static inline bool gy_stall_is_valid(const struct gy_stall *stall)
{
    return stall->may_have_cycle || !stall->has_broken_cycle;
}

/* So often must a thread come at once before a step counts on that. */
enum { GY_PUNCTUAL = 4 };

/* What the threads that start steps and wait for them tell the next ones: step.c.  Nothing depends on it but
 * who is woken. */
struct gy_wait_hints {
    _Atomic(bool) was_helped;     /* they did the GPU dispatcher's work in the latest step or wait, or could
                                   * have if it had slept: nobody need be awake next */
    _Atomic(uint32_t) punctual;   /* so many steps in a row were waited for at once behind their start() by a
                                   * thread that may be a guest; GY_PUNCTUAL at most */
    _Atomic(uint64_t) started_ns; /* gy_clock_ns() when the first tasks were handed out; 0: a thread has
                                   * waited for them since */
    _Atomic(uint64_t) spin_budget_ns; /* of a thread that waits for the end of a step with GPU tasks */
};

/* Who was told that the step began, and shall be told that it ends: phase.c, under the manager's lock. */
struct gy_step_told {
    const struct gy_span_ranges *ranges; /* NULL: nobody */
    uint64_t range;                      /* the number that `ranges` gave it */
};

/* What threads count that release tasks. */
struct gy_released {
    _Atomic(uint64_t) frozen_held; /* references that others hold on tasks of a frozen graph in a run */
    _Atomic(uint64_t) failed;      /* FAILED tasks */
    _Atomic(uint64_t) names;       /* unfilled names */
};

/* Whom the manager's owner has hear of failures. */
struct gy_failure_listener {
    gantry_failure_fn tell; /* NULL: nobody */
    void *user;
};

struct gantry_taskman {
    struct gy_task_owner as_owner; /* guarded by its own comments; first: see gy_task_manager() */
    struct gy_gpu_facts gpu_facts; /* likewise; second: see gy_task_facts() */

    gantry_cpu_dispatcher *own_pool; /* immutable; NULL: the owner's pool is borrowed */
    unsigned forks;                  /* immutable; gy_thread_forks() of the threads for its tasks */
    struct gy_gpu_use gpu;           /* see there */
    struct gy_wait_hints hints;      /* atomic */
    struct gy_step_told told;        /* guarded by lock */
    struct gy_spawn_place *places;   /* immutable; one per worker of the pool, see places.h */
    bool frozen;                     /* guarded by lock, immutable while running */
    bool without_gpu; /* likewise; the step began although the GPU dispatcher is lost: it has no
                       * GPU task, or did not have one then */

    _Alignas(64) gy_fast_lock lock; /* names, storage, edges, phase */
    _Atomic(uint8_t) phase;         /* atomic; enum gy_phase; written under lock by enter_phase() alone */
    struct gy_graph graph;          /* guarded by lock */
    struct gy_names names;          /* guarded by lock */
    struct gy_error failure;        /* guarded by lock; the step's first; status GANTRY_OK: none */
    struct gy_step_counts counts;   /* guarded by lock */
    struct gy_start_job job;        /* written by a start; then guarded by the pool's injection lock */
    struct gy_frozen frozen_graph;  /* guarded by lock; all zero unless frozen */

    struct gy_gpu_loop *loops;      /* guarded by lock; since the reset; NULL: none */
    struct gy_access_map *accesses; /* guarded by lock; access.c; NULL: none was ever declared */
    struct gy_task_memory memory;   /* guarded by lock */
    struct gy_stall stall;          /* guarded by lock */

    _Alignas(64) struct gy_released released; /* atomic */
    struct gy_failure_listener on_failure;    /* immutable */
    bool detaches; /* guarded by the lock of awaits.c, and read by bodies; a task of it was detached */
};

_Static_assert(offsetof(struct gantry_taskman, as_owner) == 0, "gy_task_manager() casts");
_Static_assert(offsetof(struct gantry_taskman, gpu_facts) == offsetof(struct gy_gpu_manager, facts),
               "gy_task_facts() casts");

/* The GPU tasks of the step so far.  Any thread. */
static inline uint64_t gy_taskman_gpu_tasks(const gantry_taskman *manager)
{
    return atomic_load_explicit(&manager->counts.gpu, memory_order_relaxed);
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
    manager->counts.into_work++;
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
