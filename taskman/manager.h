/* The task manager's own data, for the files of taskman/. */
#ifndef TASKMAN_MANAGER_H
#define TASKMAN_MANAGER_H

#include "base/fast_lock.h"
#include "base/status.h"
#include "taskman/cpu/pool.h"
#include "taskman/graph/graph.h"
#include "taskman/graph/names.h"

/*            start              stop (all released)        reset
 *   BUILDING -----> RUNNING -------------------> STOPPED -----> BUILDING
 *       |  +-- reset -> BUILDING                  ^  | start, if frozen
 *       +-- freeze -------------------------------+  +-----> RUNNING
 */
enum gy_phase { GY_BUILDING, GY_RUNNING, GY_STOPPED };

/* `work` counts in two halves: tasks not released yet, and what will move without anybody waiting for it:
 * tasks that were dispatched, whatever else is about to dispatch some, and references that others hold (the
 * application, completions on the GPU).  It is 0 while building; a step is idle when it is 0 again, and
 * `odd_pending` too.  When the lower half alone is 0 the step is quiet: what is left waits for each other,
 * see stall.c.
 *
 * Tasks that were submitted in an odd epoch (GY_TASK_ODD) are counted in `odd_pending` instead of the upper
 * half.  Who waits for what was submitted so far turns the epoch once the tasks of the one before are
 * released, and then waits for those of the present one: what is submitted meanwhile is not among them.
 *
 * A graph with conditions (`flow`) does not know beforehand which of its tasks will run: there both count
 * only what was added while running. */
#define GY_WORK_PENDING ((uint64_t)1 << 32)
#define GY_WORK_ACTIVE ((uint64_t)1)

/* What freeze() found out.  Immutable until the reset. */
struct gy_frozen {
    gantry_task **roots; /* nothing holds these back */
    size_t root_count;
    size_t plain_count;       /* the first of them: CPU tasks without any traits */
    struct gy_graph_mark end; /* what was added later lies behind */
    uint64_t tasks, tasks_gpu, tasks_sync;
    uint64_t outside;         /* references that others hold at the begin of a run of all tasks */
    bool has_run;             /* a run was started */
    struct gy_gpu_plan *gpu;  /* what the dispatcher made of it; NULL: nothing */
    struct gy_gpu_plan *live; /* the same in a run of all tasks, else NULL; immutable while running */
};

struct gantry_taskman {
    gantry_cpu_dispatcher *pool;      /* immutable */
    gantry_cpu_dispatcher *own_pool;  /* immutable; NULL: `pool` is borrowed */
    gantry_dispatcher *gpu;           /* immutable; borrowed; NULL: none */
    unsigned forks;                   /* immutable; gy_thread_forks() of the threads for its tasks */
    uint32_t partition;               /* immutable; of GPU tasks that name none, see gy_task_partition() */
    const struct gy_gpu_ops *gpu_ops; /* immutable; NULL exactly if gpu is */
    struct gy_gpu_share *gpu_share;   /* immutable; its bound on GPU time; NULL: none */
    struct gy_gpu_order *gpu_order;   /* immutable; orders its steps on the GPU; NULL: they are independent */

    bool lets_help;             /* immutable; whoever waits may run its tasks in a worker's place */
    bool frozen;                /* guarded by lock, immutable while running */
    bool flow;                  /* guarded by lock, immutable while running; frozen, and it has conditions */
    _Atomic(uint8_t) run_mark;  /* atomic; written under lock by a start; 0 or GY_STATE_MARK, see state.h */
    _Atomic(uint8_t) cancelled; /* atomic; set by cancel(), cleared under lock */
    _Atomic(bool) has_independent; /* atomic; written under lock; some GPU task is GY_TRAIT_INDEPENDENT */
    _Atomic(uint32_t) epoch;       /* atomic; written under lock; see GY_WORK_…; never goes back */

    uint64_t run; /* guarded by lock, immutable while running; unlike any other manager's or run's */
    struct gy_spawn_place *places; /* immutable; one per worker of the pool, see spawn.c */

    _Alignas(64) gy_fast_lock lock; /* names, storage, edges, phase */
    _Atomic(uint8_t) phase;         /* atomic; enum gy_phase; written under lock by enter_phase() alone */
    struct gy_graph graph;          /* guarded by lock */
    struct gy_names names;          /* guarded by lock */
    struct gy_error failure;        /* guarded by lock; the step's first; status GANTRY_OK: none */
    uint64_t submitted;             /* guarded by lock; tasks of the step, light ones included */
    uint64_t submitted_gpu;         /* guarded by lock */
    _Atomic(uint64_t) patience_ns;  /* atomic; of who waits for the end of a step with GPU tasks */
    uint64_t submitted_sync;        /* guarded by lock */
    uint64_t unfilled;              /* guarded by lock; names that no task was submitted for */
    uint64_t late_names;     /* guarded by lock; of the unfilled, those that still have GY_TASK_LATE_NAME */
    bool may_have_cycle;     /* guarded by lock; an edge declared while running may have closed one */
    bool has_broken_cycle;   /* guarded by lock; so a task of it was let go before what it comes after */
    uint64_t outside;        /* guarded by lock; references that others hold, while building */
    uint64_t counted;        /* guarded by lock; how many tasks were ever counted into `work` */
    uint64_t conditions;     /* guarded by lock; of the submitted */
    uint64_t stables;        /* guarded by lock; of the submitted */
    uint64_t lights;         /* guarded by lock; of the submitted */
    uint64_t special;        /* guarded by lock; all but submissions of plain CPU tasks, and references that
                              * were added before the start */
    struct gy_start_job job; /* written by a start; then guarded by the pool's injection lock */
    struct gy_frozen plan;   /* guarded by lock; all zero unless frozen */

    struct gy_gpu_memory **memories; /* guarded by lock; what was declared since the reset, by number - 1 */
    uint32_t memory_count;           /* guarded by lock; of these */
    uint32_t memory_room;            /* guarded by lock; places in `memories` */
    uint64_t memory_tasks;           /* guarded by lock; of the submitted, those that name one */
    bool has_told_memory;            /* guarded by lock; that such tasks are not stable */
    _Atomic(uint64_t)
        held_back;   /* atomic; written under lock; by the GPU dispatcher, until there is memory */
    bool is_awaited; /* guarded by lock; a thread that waits has seen the step quiet since a task was held
                        back */
    gantry_taskman *next_of_pool; /* guarded by the pool's injection lock; see gy_pool_add_manager() */

    _Alignas(64) _Atomic(uint64_t) work; /* atomic; see GY_WORK_… */
    _Atomic(uint64_t) odd_pending;       /* atomic; the same */
    _Atomic(uint64_t)
        frozen_held;           /* atomic; references that others hold on tasks of a frozen graph in a run */
    _Atomic(uint64_t) failed;  /* atomic; FAILED tasks */
    _Atomic(uint64_t) spawned; /* atomic; tasks of the step that spawn.c made */
    _Atomic(uint64_t) resolved_names; /* atomic; unfilled names that were released */
};

static inline enum gy_phase gy_taskman_phase(const gantry_taskman *manager)
{
    return (enum gy_phase)atomic_load_explicit(&manager->phase, memory_order_acquire);
}

/* Check for cycles.  @retval GANTRY_ERR_CYCLE */
gantry_status gy_taskman_check_cycles(gantry_taskman *manager, const char *call) GY_REQUIRES(manager->lock);

/* The error that names the tasks of the view that are only names. */
gantry_status gy_taskman_fail_unfilled(const char *call, uint64_t unfilled, const struct gy_graph_view *view);

/* The only writer of `phase`. */
void gy_taskman_enter_phase(gantry_taskman *manager, enum gy_phase next) GY_REQUIRES(manager->lock);

/* NULL, or called from a task. */
gantry_status gy_taskman_check_owner(gantry_taskman *manager, const char *call);

/* "building", "running", "stopped" */
const char *gy_taskman_phase_name(enum gy_phase phase);

/* Start and stop: the caller, who waits, may begin with the work itself. */
gantry_status gy_taskman_run_once(gantry_taskman *manager);

/* Bring a frozen graph to the begin of a run of all its tasks. */
void gy_taskman_rearm(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* spawn.c: where the workers' spawned tasks lie.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
gantry_status gy_taskman_make_places(gantry_taskman *manager);

/* The storage of spawned tasks is taken back: workers shall not use it any more. */
void gy_taskman_clear_places(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* Forget that the graph is frozen. */
void gy_taskman_thaw(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* Declare an edge; see gantry_task_start_after(), or gantry_task_start_after_done() if `when_done`. */
gantry_status gy_taskman_link(gantry_task *predecessor, gantry_task *successor, bool when_done);

/* Take a reference away on behalf of the application; see gantry_task_remove_reference().  `why` not
 * GANTRY_OK: unless that is refused, the task is going to fail. */
gantry_status gy_taskman_unhold(gantry_task *task, gantry_status why);

/* One more task to be released before the step ends; nobody else has seen it.  `active`: GY_WORK_ACTIVE if
 * the caller will hold a reference on it while running, else 0. */
static inline void gy_taskman_count_pending(gantry_taskman *manager, gantry_task *task, uint64_t active)
    GY_REQUIRES(manager->lock)
{
    manager->counted++;
    if (gy_taskman_phase(manager) != GY_RUNNING) {
        return; /* begin_running() counts all at once */
    }
    if ((atomic_load_explicit(&manager->epoch, memory_order_relaxed) & 1) == 0) {
        atomic_fetch_add_explicit(&manager->work, GY_WORK_PENDING + active, memory_order_relaxed);
        return;
    }
    gy_task_set(task, GY_TASK_ODD);
    atomic_fetch_add_explicit(&manager->work, active, memory_order_relaxed);
    atomic_fetch_add_explicit(&manager->odd_pending, 1, memory_order_relaxed);
}

/* Nothing will move by itself. */
static inline bool gy_taskman_is_quiet(gantry_taskman *manager)
{
    return (atomic_load(&manager->work) & (GY_WORK_PENDING - 1)) == 0;
}

/* Quiet, and something is pending that nothing will ever move?  Names referred to while running count as
 * movable unless `is_stopping`. */
bool gy_taskman_is_stalled(gantry_taskman *manager, bool is_stopping);

/* If so, move it.  When stopping and nothing is pending: release names that came late all the same.  Several
 * threads may call at once. */
void gy_taskman_unstall(gantry_taskman *manager, bool is_stopping);

/* `task`, just submitted, names the memory of that number. */
void gy_taskman_name_memory(gantry_taskman *manager, gantry_task *task, uint32_t number)
    GY_REQUIRES(manager->lock);
/* `task` will be released in this step; if it names memory, the dispatcher is told. */
void gy_taskman_begin_memory(gantry_taskman *manager, gantry_task *task) GY_REQUIRES(manager->lock);
/* The same for all tasks of the graph. */
void gy_taskman_begin_all_memory(gantry_taskman *manager) GY_REQUIRES(manager->lock);
/* A task that names memory was released. */
void gy_taskman_end_memory(gantry_task *task);
/* Forget what was declared. */
void gy_taskman_close_memory(gantry_taskman *manager) GY_REQUIRES(manager->lock);

/* Keep the calling thread's last error as the reason why `task` failed, if it is the step's first. */
void gy_taskman_keep_failure(gantry_taskman *manager, const gantry_task *task, gantry_status result);

/* In this order: when `work` is 0, nobody who runs will add to the other. */
static inline bool gy_taskman_is_idle(gantry_taskman *manager)
{
    return atomic_load(&manager->work) == 0 && atomic_load(&manager->odd_pending) == 0;
}

#endif
