/* SPDX-License-Identifier: MIT */
/**
 * @file task.h
 * Tasks: what the application describes, and what the task manager and the dispatcher run.
 *
 * A task is a CPU task (a function), a GPU task of one of three flavours (a callback that enqueues
 * work on the stream it is handed), or a sync point (no work, only dependencies).  It is created by
 * submitting a description to a task manager (taskman.h) and lives until that manager is reset or
 * destroyed; the handle is valid that long.
 *
 * A task starts when its reference count is 0.  It begins with one reference that
 * gantry_taskman_start() removes; every task it starts after holds one more, as does every
 * gantry_task_add_reference().  A task submitted while the manager is running keeps its first
 * reference until the submitter removes it with gantry_task_remove_reference(), so that its
 * dependencies can be declared in between.
 *
 * Failure: when a body returns a status other than GANTRY_OK, or a launch callback
 * GANTRY_LAUNCH_FAILED, the task is FAILED and everything that depends on it is released as FAILED
 * without running.  Independent tasks go on.
 *
 * Threading: all functions may be called from any thread, also from task bodies.
 */
#ifndef GANTRY_TASK_H
#define GANTRY_TASK_H

#include <gantry/base.h>

#include <stdbool.h>

GANTRY_BEGIN_DECLS

/** A task of a manager. */
typedef struct gantry_task gantry_task;
/** A graph of tasks and its runs (taskman.h). */
typedef struct gantry_taskman gantry_taskman;
typedef struct gantry_context gantry_context;     /* see context.h */
typedef struct gantry_launch gantry_launch;       /* see dispatcher.h */
typedef struct gantry_partition gantry_partition; /* see partition.h */
typedef struct gantry_port gantry_port;           /* see port.h */
typedef struct gantry_share gantry_share;         /* see partition.h */
typedef struct gantry_access gantry_access;       /* see access.h */

/** What a task does. */
typedef enum gantry_task_kind {
    GANTRY_TASK_CPU = 0,        /* runs `run` */
    GANTRY_TASK_SYNC_POINT = 1, /* no body */
    GANTRY_TASK_HTOD = 2,       /* GPU: copies to the device */
    GANTRY_TASK_KERNEL = 3,     /* GPU: kernel launches, batched copies */
    GANTRY_TASK_DTOH = 4,       /* GPU: copies to the host */
} gantry_task_kind;

/** Where a task is on its way; see docs/design/threading.md. */
typedef enum gantry_task_state {
    GANTRY_TASK_STATE_PLACEHOLDER = 0, /* a name that was referred to, not yet submitted */
    GANTRY_TASK_STATE_HELD,            /* submitted, references > 0 */
    GANTRY_TASK_STATE_READY,           /* references reached 0; queued for a worker or the dispatcher */
    GANTRY_TASK_STATE_RUNNING,         /* body or launch callback in progress */
    GANTRY_TASK_STATE_DONE,            /* released; dependents' references removed */
    GANTRY_TASK_STATE_FAILED,          /* released without success */
    GANTRY_TASK_STATE_AWAITED,         /* its body has returned, its work has not ended, see detach.h */
} gantry_task_state;

/** Among CPU tasks that are ready at the same moment, those of a higher priority are begun first.  Nothing
 *  that runs is interrupted.  GPU tasks and sync points have none. */
typedef enum gantry_task_priority {
    GANTRY_TASK_PRIORITY_LOW = -1,   /* when a worker finds nothing else */
    GANTRY_TASK_PRIORITY_NORMAL = 0, /* in between */
    GANTRY_TASK_PRIORITY_HIGH = 1,   /* before anything else, in order of becoming ready */
} gantry_task_priority;

/** A CPU body.  Runs once, on a worker or, in the place of one that sleeps, in a thread that waits for the
 *  task's manager (gantry_taskman_options.workers_only); may submit tasks and wait for nothing.  What it
 *  changes of its thread it puts back.  Any status other than GANTRY_OK fails the task; a body that finds its
 *  result wrong, with no call of the library to blame, returns GANTRY_ERR_TASK_FAILED.  It must return, as
 *  all callbacks: no C++ exception, longjmp() or pthread_exit() may leave it.  exit() may be called.  (After
 *  pthread_exit() in a body, or in a part of a loop, the task fails with GANTRY_ERR_STATE, and the step goes
 *  on: a worker stays, a thread of the application that was running the body ends.) */
typedef gantry_status (*gantry_task_fn)(gantry_task *task, void *arg);

/** What a launch callback says. */
typedef enum gantry_launch_result {
    GANTRY_LAUNCH_DONE = 0,   /* all of the task's GPU work has been enqueued */
    GANTRY_LAUNCH_AGAIN = 1,  /* call again with the next index; others are interleaved in between */
    GANTRY_LAUNCH_FAILED = 2, /* give up: the task and its dependents fail */
} gantry_launch_result;

/** A GPU task's callback: enqueues work on gantry_launch_stream(launch) and returns at once.  Runs on
 *  the dispatcher's thread with the CUDA context current, any number of times: index 0, 1, 2, … until
 *  it returns something other than GANTRY_LAUNCH_AGAIN.  Must not block or synchronise. */
typedef gantry_launch_result (*gantry_launch_fn)(gantry_launch *launch, void *arg);

/** Called exactly once when a submitted task is released, whatever its fate, after its dependents'
 *  references were removed: the last moment the library touches `arg`.  `result` is GANTRY_OK,
 *  the body's own status, or GANTRY_ERR_TASK_FAILED / GANTRY_ERR_CANCELLED / GANTRY_ERR_DEVICE_LOST when
 *  the task did not run.  In a frozen graph it is called once per run of the task; in one with conditions,
 *  before the dependents' references are removed.  For GPU tasks "released" means launched, not finished on
 * the GPU. */
typedef void (*gantry_task_release_fn)(gantry_task *task, void *arg, gantry_status result);

/** Description of one task; copied by gantry_taskman_submit(). */
typedef struct gantry_task_desc {
    size_t struct_size;             /* sizeof(gantry_task_desc) of the caller */
    gantry_task_kind kind;          /* what the task does */
    const char *name;               /* NULL: unnamed.  Copied.  Unique among live tasks of the manager */
    const char *label;              /* NULL: the name.  What profiles and errors call the task; need not
                                     * be unique, NOT copied: must outlive the manager's reset */
    gantry_task_fn run;             /* CPU tasks */
    gantry_launch_fn launch;        /* GPU tasks */
    gantry_task_release_fn release; /* may be NULL */
    void *arg;                      /* handed to the callbacks; the library never touches it */
    uint64_t context_id;            /* the application's own tag, shown in profiles */
    gantry_task_priority priority;  /* CPU tasks */
    uint32_t cpu_class;             /* CPU tasks; 0: none, else one of the CPU dispatcher's limited classes */
    bool is_condition;              /* a CPU task that picks its dependents, see gantry_task_choose() */
    uint32_t memory;                /* from gantry_taskman_declare_memory(); 0: nothing was declared for it */
    bool bandwidth_critical;     /* a CPU task that raises the bandwidth gate (bandwidth.h) while it runs */
    gantry_partition *partition; /* GPU tasks: whose streams its work goes to; NULL: its manager's */
    bool is_stable;              /* GPU tasks: `launch` would enqueue the same in every run of a frozen
                                  * graph, see gantry_task_invalidate(); does nothing beside `memory`, and
                                  * where GPU work is submitted to streams (GANTRY_SUBMISSION_STREAMS) */
    bool is_independent;         /* GPU tasks: its work need not come after GPU work of the manager's step
                                  * just before, as an upload into the other of two buffers; it comes after
                                  * the steps before that one, and what depends on it after all.  See
                                  * gantry_taskman_start() */
    bool calls_say_accesses;     /* GPU tasks whose callback makes single copies, fills, batches of copies and
                                  * boxes alone: what these access is what the task accesses.  See access.h */
    uint8_t reserved[1];         /* 0 */
    uint32_t access_count;       /* of `accesses`; 0: the description declares none */
    gantry_context *context; /* GPU tasks of a manager with a fleet: on which of its devices; NULL: that of
                              * the partition, else that of the manager's partition, else the first */
    const gantry_access *accesses; /* what the task does with which memory, as gantry_task_access() declares
                                    * it; copied.  No condition has any */
    gantry_port *port; /* CPU tasks: whose thread begins the task's operation, in the place of `run`; such a
                        * task has no priority and no class.  NULL: workers run it */
} gantry_task_desc;
#define GANTRY_TASK_DESC_INIT                                                                               \
    {                                                                                                       \
        sizeof(gantry_task_desc), GANTRY_TASK_CPU, NULL, NULL, NULL, NULL, NULL, NULL, 0,                   \
            GANTRY_TASK_PRIORITY_NORMAL, 0, false, 0, false, NULL, false, false, false, {0}, 0, NULL, NULL, \
            NULL                                                                                            \
    }

/** `task` will not start before `predecessor` has been released.  For two GPU tasks, GPU work of
 *  `task` is also ordered after GPU work of `predecessor`, even through CPU tasks and sync points.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a task after itself, or a light task
 *  @retval GANTRY_ERR_FOREIGN_HANDLE    the tasks belong to different managers
 *  @retval GANTRY_ERR_LATE_DEPENDENCY   `task` was dispatched already, or `predecessor` released; also as
 *                                       gantry_task_add_reference()
 *  @retval GANTRY_ERR_STATE             the graph is frozen, and `predecessor` belongs to it, or it is not
 * running
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_start_after(gantry_task *task,
                                                                   gantry_task *predecessor);

/** `task` will not start before the GPU has done the work of `gpu_task`: what a CPU task that reads results,
 * or a sync point in front of several, waits for.  The callback of `gpu_task` need not do anything for it.
 * Before a GPU task it is the same as gantry_task_start_after(), which orders the two on the GPU.
 *
 *  `gpu_task` may also be a sync point: then `task` starts when the GPU has done all work that the sync point
 *  comes after; such an edge is declared before the manager starts, and not in graphs with conditions.  A
 * task that fails on the way fails `task`.  gantry_launch_add_completion() does the same from inside a
 * callback.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  as gantry_task_start_after(), or `gpu_task` is a CPU task
 *  @retval GANTRY_ERR_FOREIGN_HANDLE    as gantry_task_start_after(), and so are those below
 *  @retval GANTRY_ERR_LATE_DEPENDENCY
 *  @retval GANTRY_ERR_STATE             also when `gpu_task` is a sync point and the manager is running
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_start_after_done(gantry_task *task,
                                                                        gantry_task *gpu_task);

/** The edge of gantry_task_start_after() seen from the other end: `task` is released before `successor`
 * starts.  Statuses as gantry_task_start_after(). */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_finish_before(gantry_task *task,
                                                                     gantry_task *successor);

/** Hold `task` back by one more reference.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             the graph of the task is frozen and not running
 *  @retval GANTRY_ERR_LATE_DEPENDENCY   the task was dispatched already; of a frozen graph also: it is not
 *                                       part of this run, or a condition may choose it, which holding does
 *                                       not prevent */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_add_reference(gantry_task *task);

/** Give one reference back; at 0 the task is dispatched before the call returns.  A sync point is released
 *  then, too; in a release callback that happens when the callback has returned, however long a chain of such
 *  callbacks gets.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             the task has no reference left to remove, or is not part of this run
 *                                       of its frozen graph; before the start, and in a frozen graph, also:
 *                                       only those of the start and of its predecessors are left.  Elsewhere
 *                                       taking one of those starts the task too early, which fails the step
 *                                       when what it comes after has ended */
GANTRY_API gantry_status gantry_task_remove_reference(gantry_task *task);

/** Give one reference back as failed: as gantry_task_remove_reference(), but when the task's turn comes it is
 *  released as FAILED without running, with `cause` as its result, unless something has failed it before.
 * What depends on it fails with GANTRY_ERR_TASK_FAILED, its step with `cause` if nothing has failed in it
 * before; the calling thread's last error is the reason that is told if it has the same status.  With it a
 * failure crosses task managers: where the release callback of a task gives back a reference on a task of
 * another manager, it calls this one if its `result` is not GANTRY_OK.  Also before the start.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `task` NULL, or `cause` is GANTRY_OK or no gantry_status
 *  @retval GANTRY_ERR_STATE             as gantry_task_remove_reference(); the task does not fail */
GANTRY_API gantry_status gantry_task_fail_reference(gantry_task *task, gantry_status cause);

/** gantry_task_fail_reference() with the reason in words, which becomes part of the cause that the step's
 *  status is told with.  Statuses as there.
 *  @param text  at most some 380 bytes of it are kept; copied.  NULL, "": as gantry_task_fail_reference() */
GANTRY_API gantry_status gantry_task_fail_reference_with(gantry_task *task, gantry_status cause,
                                                         const char *text);

/** References that hold the task back at this moment; the start's is one of them until a worker has come to
 * take it.  In a frozen graph those of 256 predecessors or more are taken in groups of up to 128. */
GANTRY_API int gantry_task_references(const gantry_task *task);

/** From the body of a condition (gantry_task_desc.is_condition): the dependent that was declared as the
 *  `index`-th, counted from 0, starts when this task is released.  It may be called for several; those not
 *  chosen do not start on behalf of this task, and when the body fails none does.
 *
 *  A dependency on a condition holds nothing back: a task that has no other dependency waits to be chosen,
 *  and a chosen one starts at once whatever else it depends on.  It may be an ancestor of the condition:
 *  that is a loop.  Only frozen graphs run conditions (gantry_taskman_freeze()); which tasks ran shows in
 * their states.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  no dependent of that index, or `index` above 63
 *  @retval GANTRY_ERR_STATE             `task` is no condition, or this is not its body */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_choose(gantry_task *task, uint32_t index);

/** "" for an unnamed task; valid as long as the task. */
GANTRY_API const char *gantry_task_name(const gantry_task *task);
/** What profiles and errors call the task: label, else name, else "task". */
GANTRY_API const char *gantry_task_label(const gantry_task *task);
/** What the task does. */
GANTRY_API gantry_task_kind gantry_task_get_kind(const gantry_task *task);
/** The priority it was submitted with; NORMAL for GPU tasks and sync points. */
GANTRY_API gantry_task_priority gantry_task_get_priority(const gantry_task *task);
/** Where the task is on its way at this moment; while its manager runs it may be further when you read the
 * answer. */
GANTRY_API gantry_task_state gantry_task_get_state(const gantry_task *task);
/** How the task ended.
 *  @retval GANTRY_OK  the task has not failed (yet)
 *  @retval other      why it failed: the body's own status, that of the call that failed in its launch
 * callback (see gantry_launch_fail()), GANTRY_ERR_TASK_FAILED when something it depends on did,
 * GANTRY_ERR_CANCELLED, GANTRY_ERR_DEVICE_LOST; GANTRY_ERR_INVALID_ARGUMENT for NULL */
GANTRY_API gantry_status gantry_task_result(const gantry_task *task);
/** What is handed to its callbacks: gantry_task_desc.arg, or that of the latest gantry_task_set_arg(). */
GANTRY_API void *gantry_task_arg(const gantry_task *task);
/** Hand another `arg` to the task's callbacks from now on.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `task` NULL
 *  @retval GANTRY_ERR_STATE             its manager is running, or the task is a name without a task */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_set_arg(gantry_task *task, void *arg);
/** A stable task (gantry_task_desc.is_stable) promises that its callback would enqueue the same work with the
 *  same arguments in every run of its frozen graph, and do nothing else that matters.  Where GPU work is
 *  submitted as graphs, the dispatcher then remembers what the callbacks have enqueued and launches that
 * again, without calling them.  This takes the promise back for the next run: what is remembered of this task
 * and of those launched together with it is recorded anew.  gantry_task_set_arg() does it by itself; needed
 * when what `arg` points to has changed.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             its manager is running */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_invalidate(gantry_task *task);
/** gantry_task_desc.context_id. */
GANTRY_API uint64_t gantry_task_context_id(const gantry_task *task);
/** The manager it was submitted to. */
GANTRY_API gantry_taskman *gantry_task_manager(const gantry_task *task);

GANTRY_END_DECLS

#endif
