/* SPDX-License-Identifier: MIT */
/**
 * @file taskman.h
 * The task manager: a graph of tasks, run step after step; and the CPU dispatcher: a work-stealing
 * pool of threads that runs its CPU tasks.
 *
 * A step: submit tasks and declare their dependencies, gantry_taskman_start(), optionally submit
 * more while it runs, gantry_taskman_stop() (which waits), read results, gantry_taskman_reset().
 *
 *            start              stop (all released)        reset
 *   BUILDING -----> RUNNING -------------------> STOPPED -----> BUILDING
 *
 * A graph that is needed again is frozen: gantry_taskman_freeze() goes from BUILDING to STOPPED, and from
 * there start() and stop() run it any number of times.
 *
 * Threading: create/start/stop/reset/destroy of one manager belong to one thread at a time;
 * everything else may be called from any thread.
 */
#ifndef GANTRY_TASKMAN_H
#define GANTRY_TASKMAN_H

#include <gantry/heap.h>
#include <gantry/task.h>

#include <stdio.h>

GANTRY_BEGIN_DECLS

/* ---- CPU dispatcher ------------------------------------------------------------------------ */

/** A pool of threads that runs CPU tasks. */
typedef struct gantry_cpu_dispatcher gantry_cpu_dispatcher;

/** How a thread waits for work. */
typedef enum gantry_wait_mode {
    GANTRY_WAIT_DEFAULT = 0,  /* GANTRY_WAIT_HYBRID */
    GANTRY_WAIT_BLOCK = 1,    /* sleep at once: least CPU time */
    GANTRY_WAIT_YIELD = 2,    /* give the core away but stay runnable */
    GANTRY_WAIT_SPIN = 3,     /* never sleep: least latency */
    GANTRY_WAIT_HYBRID = 4,   /* spin a little, then sleep */
    GANTRY_WAIT_ADAPTIVE = 5, /* spin twice as long as work lately took to come, 2 ms at most, then sleep */
} gantry_wait_mode;

/** A thread pool of the application's own, for gantry_cpu_dispatcher_options.host_pool.  Copied. */
typedef struct gantry_cpu_pool_ops {
    size_t struct_size;
    /** Have one of your threads call gantry_cpu_dispatcher_execute(dispatcher, task), once and soon; in what
     * order is up to you, gantry_task_get_priority() says what is wished for.  Called from any thread, also
     * from within execute(), with no lock of the library held; must not fail, block for long or call
     * execute() itself. */
    void (*submit)(void *user, gantry_cpu_dispatcher *dispatcher, gantry_task *task);
    void *user;            /* handed to submit() */
    uint32_t worker_count; /* what gantry_cpu_dispatcher_worker_count() is to say */
    uint32_t reserved;     /* 0 */
} gantry_cpu_pool_ops;

/** How gantry_cpu_dispatcher_create() makes a pool. */
typedef struct gantry_cpu_dispatcher_options {
    size_t struct_size;
    uint32_t worker_count;        /* 0: one per CPU that may be used, at most as many as a
                                   * CPU quota gives time for; see `inline_only` */
    gantry_wait_mode wait_mode;   /* how idle workers wait */
    bool inline_only;             /* no threads: tasks run in whoever waits for or stops a manager */
    bool pin_workers;             /* worker i runs on cpus[i % cpu_count] alone; else on any of `cpus` */
    const uint32_t *cpus;         /* the workers' CPUs; NULL: those of the calling thread.  Copied */
    uint32_t cpu_count;           /* of `cpus`; worker_count 0 means one worker for each */
    uint32_t class_count;         /* of `class_limits`, at most 16 */
    const uint32_t *class_limits; /* how many tasks with cpu_class i + 1 run at a time; > 0 each.  Copied */
    const gantry_cpu_pool_ops *host_pool; /* not NULL: no threads, tasks are given to these; excludes
                                           * worker_count, inline_only, cpus and pin_workers */
} gantry_cpu_dispatcher_options;
#define GANTRY_CPU_DISPATCHER_OPTIONS_INIT                                                                  \
    {                                                                                                       \
        sizeof(gantry_cpu_dispatcher_options), 0, GANTRY_WAIT_DEFAULT, false, false, NULL, 0, 0, NULL, NULL \
    }

/** Start a pool.  After fork() the child has none of its threads and must not use it, nor anything else of
 * the library that existed before: steps are refused there, and destroying does nothing.  It may exec() or
 * exit; CUDA, and with it a new context, works in a child only if its parent had none yet.  `options` NULL:
 * all defaults.  The pool must outlive the managers that use it.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    `out` NULL, an option out of range, or a CPU that may not be used
 *  @retval GANTRY_ERR_UNSUPPORTED         an option this library does not know
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  also when threads cannot be created */
GANTRY_API GANTRY_MUST_CHECK gantry_status
gantry_cpu_dispatcher_create(const gantry_cpu_dispatcher_options *options, gantry_cpu_dispatcher **out);

/** Run everything still queued, stop the workers, free.  NULL is ignored.  Not from a task or another
 * callback of the library, as gantry_taskman_destroy(). */
GANTRY_API void gantry_cpu_dispatcher_destroy(gantry_cpu_dispatcher *dispatcher);

/** What holds for the tasks of a limited class. */
typedef struct gantry_cpu_class_options {
    size_t struct_size;
    uint32_t limit;       /* how many workers work for them at a time, those that help with their
                           * gantry_parallel_for() counted; 0: as it is */
    uint32_t cpu_count;   /* of `cpus` */
    const uint32_t *cpus; /* where they run: a worker goes there for the task and back; NULL: where the
                           * worker is.  Copied */
} gantry_cpu_class_options;
#define GANTRY_CPU_CLASS_OPTIONS_INIT                \
    {                                                \
        sizeof(gantry_cpu_class_options), 0, 0, NULL \
    }

/** Change a class at any time.  A lower limit lets no more begin until enough have ended; what runs stays
 * where it is.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, no such class, a CPU that may not be used, or CPUs for a
 *                                       dispatcher without workers of its own
 *  @retval GANTRY_ERR_UNSUPPORTED       a field this version does not know is set */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_cpu_dispatcher_set_class(
    gantry_cpu_dispatcher *dispatcher, uint32_t cpu_class, const gantry_cpu_class_options *options);

/** The usable CPUs that share the `index`-th last-level cache (L3) with each other, in increasing order; all
 *  usable CPUs are one such domain where the system does not tell.  Up to `capacity` numbers are written to
 *  `cpus` (may be NULL for 0), `out_count` gets how many there are, 0 when there is no
 *  domain of that index.  Asks hwloc where the library was built with it, else reads files of the system: for
 *  set-up.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_cpu_cache_domain(uint32_t index, uint32_t *cpus,
                                                                   uint32_t capacity, uint32_t *out_count);

/** How many workers the dispatcher has; those of the host pool where there is one; 0 for an inline-only one.
 */
GANTRY_API uint32_t gantry_cpu_dispatcher_worker_count(const gantry_cpu_dispatcher *dispatcher);

/** Run a task that gantry_cpu_pool_ops.submit was given, on the calling thread; then also tasks that it alone
 * made ready, instead of submitting them.  Exactly once per submitted task.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             the dispatcher has no host pool */
GANTRY_API gantry_status gantry_cpu_dispatcher_execute(gantry_cpu_dispatcher *dispatcher, gantry_task *task);

/** One part of a loop: begin ≤ i < end.  Anything but GANTRY_OK ends the loop early. */
typedef gantry_status (*gantry_range_fn)(size_t begin, size_t end, void *arg);

/** Call `body` for parts of begin … end - 1 of `grain` indices each (0: chosen from the number of workers),
 * in the calling thread and in idle workers of the dispatcher, and return when all parts are done.  Any
 * thread, also from tasks and from within a part.  Allocates nothing.  On an inline-only dispatcher, and on
 * one with a host pool, the caller does it alone.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or begin > end
 *  @retval other                        what the first failing part returned; others may not have been called
 */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_parallel_for(gantry_cpu_dispatcher *dispatcher,
                                                               size_t begin, size_t end, size_t grain,
                                                               gantry_range_fn body, void *arg);

/* ---- task manager -------------------------------------------------------------------------- */

typedef struct gantry_dispatcher gantry_dispatcher; /* dispatcher.h */
typedef struct gantry_fleet gantry_fleet;           /* fleet.h */

/** What gantry_taskman_options.on_failure hears of a task that has failed: `status` is what it has failed
 * with, `text` the cause, as gantry_last_error() of the thread that stops says it for the first one.  Both
 * `task` and `text` are good during the call only. */
typedef void (*gantry_failure_fn)(void *user, const gantry_task *task, gantry_status status,
                                  const char *text);

/** How gantry_taskman_create() makes a manager. */
typedef struct gantry_taskman_options {
    size_t struct_size;
    gantry_cpu_dispatcher
        *cpu_dispatcher;               /* NULL: CPU tasks run in the thread that waits or stops; borrowed */
    gantry_dispatcher *gpu_dispatcher; /* NULL: GPU tasks are refused at submission; borrowed */
    uint32_t expected_tasks;           /* 0: unknown; storage taken at once */
    gantry_partition *partition;       /* of its GPU tasks that name none; NULL: the context's default one */
    const gantry_share *share; /* bound on the GPU time of its GPU tasks, on top of their partitions'; of a
                                * fleet: on each device.  NULL: none.  Copied */
    bool workers_only;         /* bodies run on workers alone.  Else a thread that waits for or stops the
                                * manager runs some of this manager's, each time in the place of a worker that
                                * sleeps, unless the dispatcher was given `cpus` or `pin_workers` */
    bool independent_steps;    /* GPU work of a step need not come after GPU work of the step before, see
                                * gantry_taskman_start() */
    bool dispatcher_only;      /* launch callbacks are called by the GPU dispatcher's threads alone.  Else a
                                * thread that runs, waits for or stops the manager calls some of this
                                * manager's, while those threads sleep, and tells its completions */
    uint8_t reserved[5];       /* 0 */
    gantry_fleet *fleet;       /* instead of `gpu_dispatcher`: its GPU tasks name a context of the fleet, see
                                * fleet.h; borrowed */
    gantry_failure_fn on_failure; /* called once for each task that fails by itself, not for those that depend
                                   * on it; of those that a lost device fails, for the step's first.  On the
                                   * thread that releases the task, at any time from a start to the end of
                                   * its stop, by several threads at once.  It must not wait, nor give
                                   * references back; it may cancel the manager.  NULL: nobody is told */
    void *on_failure_user;        /* handed to on_failure */
} gantry_taskman_options;
#define GANTRY_TASKMAN_OPTIONS_INIT                                                                      \
    {                                                                                                    \
        sizeof(gantry_taskman_options), NULL, NULL, 0, NULL, NULL, false, false, false, {0}, NULL, NULL, \
            NULL                                                                                         \
    }

/** Make a manager with an empty graph.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or a share that makes no sense
 *  @retval GANTRY_ERR_UNSUPPORTED       an option this library does not know, a share without a GPU
 * dispatcher, or more than 64 shares at a time
 *  @retval GANTRY_ERR_FOREIGN_HANDLE    a partition of another context, or without a GPU dispatcher
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_create(const gantry_taskman_options *options,
                                                                 gantry_taskman **out);

/** The CPU dispatcher that the manager was given; NULL: none, or `manager` is NULL. */
GANTRY_API gantry_cpu_dispatcher *gantry_taskman_cpu_dispatcher(const gantry_taskman *manager);
/** The GPU dispatcher that the manager was given; NULL: none, or a fleet, or `manager` is NULL. */
GANTRY_API gantry_dispatcher *gantry_taskman_gpu_dispatcher(const gantry_taskman *manager);
/** The fleet that the manager was given; NULL: none, or `manager` is NULL. */
GANTRY_API gantry_fleet *gantry_taskman_fleet(const gantry_taskman *manager);

/** Stop if running, then free every task.  NULL is ignored.  Not from a task or another callback of the
 * library: it would wait for itself, so it does nothing there but to log an error. */
GANTRY_API void gantry_taskman_destroy(gantry_taskman *manager);

/** Add one task.  A name that was referred to before by gantry_taskman_get_named() is filled in: the
 *  same handle comes out.  `out` may be NULL.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind, empty name, callback missing for the kind; bad
 *                                       accesses, as gantry_task_access()
 *  @retval GANTRY_ERR_UNSUPPORTED       a GPU task without a GPU dispatcher, or a field not known; the calls
 * of its callback do not say what they access
 *  @retval GANTRY_ERR_DUPLICATE_NAME
 *  @retval GANTRY_ERR_LATE_DEPENDENCY   the name was referred to before the start, and what waited for it
 *                                       has gone on without a task
 *  @retval GANTRY_ERR_STATE             the manager is stopped: reset it first; or its graph is frozen, where
 * a late task has no name and no accesses and is no condition
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY
 *  @retval others                       what a callback fails with that is asked what it accesses */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_submit(gantry_taskman *manager,
                                                                 const gantry_task_desc *desc,
                                                                 gantry_task **out);

/** Declare memory of the context's heap that tasks of this manager will hold together, by kind: to be named
 * in gantry_task_desc.memory of each of them.  The first GPU task of these that is ready waits until the
 * bytes of all kinds fit beside what other declarations hold, in order of arrival; so do the others behind
 * it.  They are held until all tasks that name them were released and the GPU has passed those.  CPU tasks
 * may name them, too: they are not held back, but hold.  Nothing is allocated.  The bytes of each kind are
 * rounded up to units of 2 MiB, so tasks that share memory are better served by one declaration than by many
 * small ones.  With a fleet each device holds them by itself, for its own tasks and CPU tasks.
 * What is larger than the limit less what the library itself needs never fits: its tasks fail with
 * GANTRY_ERR_OUT_OF_DEVICE_MEMORY.  docs/guides/heap.md says how to use it, and why it cannot deadlock.
 * `out`, never 0, is good until the reset.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL
 *  @retval GANTRY_ERR_UNSUPPORTED         the manager has no GPU dispatcher
 *  @retval GANTRY_ERR_STATE               65 535 were declared since the reset
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_declare_memory(
    gantry_taskman *manager, const uint64_t bytes[GANTRY_MEMORY_KIND_COUNT], uint32_t *out);

/** Add one task that starts after `count` others of the same manager: gantry_taskman_submit() and
 *  gantry_task_start_after() for each of them in one.  While the graph is built this is one critical section
 *  instead of one per edge: the quickest way to build a graph.  `predecessors` is read during the call only,
 *  and may name a task twice; `out` may be NULL.
 *
 *  A bad description or a predecessor that can be none submits nothing.  While a step runs, a predecessor may
 *  have been released before the call: then the call fails, but the task stays submitted, after the
 *  predecessors that come before that one in the list, and `out` is written.  As always while a step runs, it
 *  is held until the submitter gives its reference back (gantry_task_remove_reference()).  The same is left
 *  when memory for an edge is short.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    as gantry_taskman_submit(); `predecessors` or one of them is NULL,
 * a light task, or the task itself, which had a name before
 *  @retval GANTRY_ERR_FOREIGN_HANDLE      a predecessor of another manager
 *  @retval GANTRY_ERR_UNSUPPORTED         as gantry_taskman_submit(), and so is the one below
 *  @retval GANTRY_ERR_DUPLICATE_NAME
 *  @retval GANTRY_ERR_LATE_DEPENDENCY     as gantry_taskman_submit() and gantry_task_start_after(), as are
 * those below
 *  @retval GANTRY_ERR_STATE
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_submit_after(gantry_taskman *manager,
                                                                       const gantry_task_desc *desc,
                                                                       gantry_task *const *predecessors,
                                                                       size_t count, gantry_task **out);

/** Submit `count` tasks, all with the same struct_size, of which each starts after the one before it.  `out`,
 *  if not NULL, takes `count` handles; on failure those of the tasks that were submitted, and NULL for the
 *  others, since what was submitted stays.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    `manager` or `descs` is NULL, or as gantry_taskman_submit()
 *  @retval GANTRY_ERR_UNSUPPORTED         as gantry_taskman_submit(), and so are those below
 *  @retval GANTRY_ERR_DUPLICATE_NAME
 *  @retval GANTRY_ERR_STATE
 *  @retval GANTRY_ERR_LATE_DEPENDENCY
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_submit_chain(gantry_taskman *manager,
                                                                       const gantry_task_desc *descs,
                                                                       size_t count, gantry_task **out);

/** The task of that name, or a placeholder for one to come.  An unfilled placeholder behaves as a sync
 *  point while the step runs and is reported by gantry_taskman_stop().  One that is referred to for the
 *  first time while the step runs holds its dependents back until it is filled, or until stop() finds
 *  that nothing else is left to wait for.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or an empty name
 *  @retval GANTRY_ERR_STATE             the manager is stopped
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_get_named(gantry_taskman *manager, const char *name,
                                                                    gantry_task **out);

/** A light task: not part of the graph, no name; runs on the CPU dispatcher when its references reach
 *  0 (it starts with one), then removes the reference it holds on `continuation` (may be NULL).  Counts
 *  as pending work of `manager`, whose step it may be created in at any time.  `label` as in
 *  gantry_task_desc; `arg` is handed to `run`.  From a body of the same manager it takes no lock, unless
 *  `continuation` is part of a frozen graph, and a dump of the graph leaves the task out.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `manager`, `run` or `out` NULL
 *  @retval GANTRY_ERR_FOREIGN_HANDLE    `continuation` belongs to another manager
 *  @retval GANTRY_ERR_LATE_DEPENDENCY   `continuation` was dispatched already
 *  @retval GANTRY_ERR_STATE             the manager is stopped
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_create_light(gantry_taskman *manager,
                                                                       gantry_task_fn run, void *arg,
                                                                       const char *label,
                                                                       gantry_task *continuation,
                                                                       gantry_task **out);

/** A light task that is let go at once: gantry_taskman_create_light() and the removal of its reference in
 * one. From a body of the same manager it takes no lock: the way to divide work while it runs.  There is no
 * handle: the task may have ended when the call returns, and the one that `run` gets is good until it
 * returns. A dump of the graph leaves such tasks out. Statuses as gantry_taskman_create_light(). */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_spawn(gantry_taskman *manager, gantry_task_fn run,
                                                                void *arg, const char *label,
                                                                gantry_task *continuation);

/** Check the graph for cycles, then remove the first reference of every task.  Tasks run from here on.
 *  A frozen graph was checked already, and is started from STOPPED.
 *
 *  Order between steps: GPU work of a step comes after all GPU work of the manager's steps before, on the GPU
 *  and without a wait on the CPU, whether the graph is frozen or built anew and whatever way of submission is
 *  chosen.  Work that the host has seen finished is not waited for.  gantry_taskman_options.independent_steps
 *  takes the order away from all steps of a manager, gantry_task_desc.is_independent from a task.  CPU tasks
 *  have no such order: one that reads or writes what the GPU works on waits for it
 *  (gantry_launch_add_completion()).  Steps of different managers are not ordered.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_CYCLE        nothing runs; gantry_last_error() names the cycle's tasks
 *  @retval GANTRY_ERR_STATE        neither BUILDING nor frozen and STOPPED; or not frozen, with a condition
 *  @retval GANTRY_ERR_DEVICE_LOST  the GPU dispatcher has failed for good; nothing runs.  A graph of CPU
 * tasks and sync points alone starts all the same
 *  @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY  gantry_context_is_aborted(); nothing runs */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_start(gantry_taskman *manager);

/** Start several managers as one: all of them run before the first task of any begins.  So a task of one may
 * at once give back a reference on a task of another (gantry_task_remove_reference()), as where a graph is
 *  divided between the managers of two devices; after a start of its own the other would refuse what comes
 *  before it runs.  When one of them cannot be started, none is.  Each is stopped for itself.  `count` 0 does
 *  nothing.  Statuses as gantry_taskman_start(), of the first that cannot be started, and
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    `managers` or one of them is NULL, or one is there twice
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  nothing runs */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_start_all(gantry_taskman *const *managers,
                                                                    size_t count);

/** Block until every task submitted before the call is released; the manager keeps running.  Tasks that are
 *  submitted meanwhile, by tasks or other threads, are not waited for unless a task that is comes after them;
 *  gantry_taskman_stop() waits for all.  In a frozen graph with conditions, which may go round for ever, it
 *  waits until nothing is left, too.  The caller may run some of the tasks meanwhile, see `workers_only`. Any
 *  thread, several at a time, also beside a stop(); never called from a task.  A GPU task is released when it
 *  is launched: its work may go on, and the GPU work of the next step comes after it
 * (gantry_taskman_start()). A CPU task that waits for it by gantry_launch_add_completion() is released when
 * that work is done.
 *  @retval GANTRY_OK               all of them succeeded
 *  @retval GANTRY_ERR_STATE        not RUNNING, or called from a task or another callback of the library
 *  @retval GANTRY_ERR_DEVICE_LOST  the GPU context failed; gantry_last_error() has the first cause
 *  @retval GANTRY_ERR_TASK_FAILED  the first task that failed said so, or returned no gantry_status;
 *                                  gantry_last_error() names it
 *  @retval other                   the own status of the first task that failed, as gantry_task_result() has
 * it: what its body returned, why its launch callback failed (gantry_launch_fail()), or what
 * gantry_task_fail_reference() was told.  gantry_last_error() names the task, which tells such a status from
 * one of this call itself
 *  @retval GANTRY_ERR_CANCELLED    gantry_taskman_cancel() was called
 *  @retval GANTRY_ERR_CYCLE        dependencies declared while running made tasks wait for each other; they
 *                                  are released as FAILED; gantry_last_error() names them */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_wait(gantry_taskman *manager);

/** Wait until no task is left, then end the step: RUNNING → STOPPED.  A call that has waited for ten seconds
 * for nothing but awaited tasks (detach.h) and references that others hold logs their labels, once.  So does
 *  wait().  Statuses as gantry_taskman_wait(), and
 *  @retval GANTRY_ERR_UNFILLED_NAME  names were referred to that no task was submitted for (named in
 *                                    gantry_last_error()); everything else ran */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_stop(gantry_taskman *manager);

/** Forget every task: STOPPED or BUILDING → BUILDING.  Task handles become invalid.  Tasks that were
 *  never started, of a frozen graph those that were part of no run, get their release callback now, with
 *  GANTRY_ERR_TASK_FAILED.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_STATE  running */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_reset(gantry_taskman *manager);

/** Make the graph one that can be run again and again: BUILDING → STOPPED, from where gantry_taskman_start()
 * or gantry_taskman_start_from() begins a run.  Runs allocate nothing and take no lock per task.
 *
 *  What was submitted and declared so far is fixed until the reset: its dependencies cannot change, its
 *  arguments can (gantry_task_set_arg(), between runs).  A reference that was taken by
 *  gantry_task_add_reference() before holds its task back in every run that the task is part of, and is given
 *  back in every such run.  While a run lasts, unnamed tasks and light tasks may be added to it; they may be
 *  declared to finish before tasks of the graph that are part of the run, but not to start after them, and
 *  are forgotten at the next start.  Handles of the
 * graph's own tasks are valid until the reset; their states and results are the last run's until the next
 * start. Needs 8 bytes more per task without predecessors.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_CYCLE             still BUILDING; gantry_last_error() names the cycle's tasks.
 * Dependencies on conditions do not count: loops go through those
 *  @retval GANTRY_ERR_UNFILLED_NAME     still BUILDING; names without a task
 *  @retval GANTRY_ERR_STATE             not BUILDING, called from a task, or the graph has light tasks
 *  @retval GANTRY_ERR_UNSUPPORTED       still BUILDING; conditions, and tasks that declare memory
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  still BUILDING */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_freeze(gantry_taskman *manager);

/** Start a run of only those tasks of a frozen graph that are reachable from `tasks`, these included.  What
 *  they depend on outside of that part counts as done, in every round of a loop.  The others keep their state
 *  of the run before, and are not part of this one: nothing can be declared to finish before them or hold
 *  them (GANTRY_ERR_LATE_DEPENDENCY), and no reference on them can be given back (GANTRY_ERR_STATE).
 *  O(tasks and edges of that part), with conditions O(tasks of the graph); no allocation.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, no task, or a light task or one that is not part of the frozen
 * graph
 *  @retval GANTRY_ERR_FOREIGN_HANDLE    a task of another manager
 *  @retval GANTRY_ERR_STATE             not frozen, or running
 *  @retval GANTRY_ERR_DEVICE_LOST       nothing runs */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_start_from(gantry_taskman *manager,
                                                                     gantry_task *const *tasks, size_t count);

/** Run a frozen graph `times` times, each after the other has ended: start and stop.  The first run that
 * fails is the last; with `times` above 1 gantry_last_error() begins with its number ("run 3 of 10: "). Since
 * the caller is going to wait, it runs what one thread can do in the place of a worker that sleeps, and wakes
 * others only for what is more: the fastest for steps of a few microseconds.
 * A run has ended when its tasks are released: GPU work that no task waits for
 * (gantry_task_start_after_done()) may still be on its way, see gantry_context_synchronize().
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             not frozen, running, or called from a task
 *  @retval other                        as gantry_taskman_stop(), or gantry_taskman_start() */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_run(gantry_taskman *manager, uint64_t times);

/** End a run early: tasks whose body or launch callback has not been called yet are released as FAILED with
 *  GANTRY_ERR_CANCELLED instead, in dependency order; those that run finish.  A stable task whose recorded
 * work was launched has begun.  Nothing of the run waits any longer for declared memory or for a share of GPU
 * time; what has begun may overdraw its share.  References that others hold still have to come back.  Any
 * thread, also from a task.  stop() and wait() then return GANTRY_ERR_CANCELLED unless nothing was left to
 * cancel or a task had failed before.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             not RUNNING */
GANTRY_API gantry_status gantry_taskman_cancel(gantry_taskman *manager);

/** What the present step of a manager has, see gantry_taskman_get_stats(). */
typedef struct gantry_taskman_stats {
    size_t struct_size;       /* in: sizeof of the caller */
    uint64_t tasks;           /* submitted in this step, light tasks included; in a run of a frozen graph,
                               * the graph's and those added since its start */
    uint64_t tasks_cpu;       /* of those, CPU and light tasks */
    uint64_t tasks_gpu;       /* of those, GPU tasks */
    uint64_t edges;           /* dependencies declared in this step */
    uint64_t released;        /* released so far */
    uint64_t failed;          /* of those, FAILED */
    uint64_t memory_bytes;    /* host memory of tasks and edges */
    uint64_t edges_from_data; /* of the edges, those that declared accesses have made (access.h) */
} gantry_taskman_stats;

/** What the present step has so far.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_get_stats(const gantry_taskman *manager,
                                                                    gantry_taskman_stats *stats);

/** Write the graph with the tasks' states in Graphviz' dot language; any time, also while running.
 *  Colours: placeholder white, held grey, ready yellow, running blue, awaited violet, done green, failed red.
 *  Names
 *  without a task have a dashed outline.  Edges that come from data (access.h) are blue, and their tooltips
 *  tell the memory.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY
 *  @retval GANTRY_ERR_IO                a write failed */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_dump_graph(gantry_taskman *manager, FILE *file);

GANTRY_END_DECLS

#endif
