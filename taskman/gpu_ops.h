/* SPDX-License-Identifier: MIT */
/* What the task manager needs from a GPU dispatcher, and what the dispatcher needs from a task.
 * taskman/ never sees CUDA: a gantry_dispatcher is to it a struct gy_gpu_dispatcher. */
#ifndef TASKMAN_GPU_OPS_H
#define TASKMAN_GPU_OPS_H

#include "base/foresight.h"
#include "taskman/graph/task.h"

#include <gantry/partition.h>

/* A task manager's bound on GPU time; the head of the dispatcher's own struct. */
struct gy_gpu_share {
    struct gy_gpu_share *const *members; /* immutable; of a fleet: that on each device; else NULL */
};

/* A struct of the dispatcher's: the work that a task manager's steps have left on the GPU, see
 * dispatcher/order/step_order.h. */
struct gy_gpu_order;

/* The steps that GPU work of a step comes after: all of those before it, or, for an independent task, all but
 * the one just before. */
enum gy_step_bound_of { GY_BOUND_ALL, GY_BOUND_OLDER, GY_BOUNDS, GY_BOUND_NONE = GY_BOUNDS };

/* A manager in the list of those that use a dispatcher: the dispatcher's. */
struct gy_gpu_user {
    struct gy_gpu_user *next, **place;
};

/* The pool's: a worker, and how a thread waits. */
struct gy_worker;
struct gy_wait;

/* See access.h. */
struct gy_access_list;

/* The dispatcher's: memory that tasks declare to need, see gantry_taskman_declare_memory(). */
struct gy_gpu_memory;

/* The dispatcher's record of a frozen graph; this is the head of its own struct. */
struct gy_gpu_plan {
    /* The graph is being reset; nothing of it runs. */
    void (*drop)(struct gy_gpu_plan *self);
    /* Between runs: this stable task would launch something else from now on. */
    void (*changed)(struct gy_gpu_plan *self, const gantry_task *task);
    uint64_t run;                       /* of all tasks, counted by taskman/; immutable while running */
    struct gy_gpu_plan *const *members; /* immutable; of a fleet: that of each device, NULL where there is no
                                         * stable task; else NULL */
};

/* A loop whose turns a word on the device decides; the head of the dispatcher's own struct. */
struct gy_gpu_loop {
    /* Its tasks are being forgotten; nothing of them runs on the host. */
    void (*drop)(struct gy_gpu_loop *self);
    /* This run was cancelled: end it after its present turn.  True: it was cut short on the device, where its
     * tasks were released already. */
    bool (*cancel)(struct gy_gpu_loop *self, uint64_t run);
    /* The run is over, and nothing of it runs on the host. */
    void (*end_run)(struct gy_gpu_loop *self);
    struct gy_gpu_loop *next; /* taskman's: of the manager */
};

/* What a manager asks for when it begins to use a dispatcher, and what it has there as long as it does. */
struct gy_gpu_seat {
    struct gy_gpu_user *user;   /* NULL: a fleet has the manager in its list */
    const gantry_share *wanted; /* asked for: a bound on its GPU time; NULL: none */
    bool is_ordered;            /* asked for: its steps come after each other on the GPU */
    struct gy_gpu_share *share; /* its bound; NULL: none, or `wanted` is none */
    struct gy_gpu_order *order; /* NULL: its steps are independent, or there is no such order */
};

/* Memory that tasks declare to need. */
struct gy_gpu_memory_ops {
    /* Declare `bytes` by memory kind for tasks of `manager`.  NULL: out of host memory. */
    struct gy_gpu_memory *(*open)(gantry_dispatcher *self, gantry_taskman *manager, const uint64_t *bytes);
    /* No task names it any more. */
    void (*close)(gantry_dispatcher *self, struct gy_gpu_memory *memory);
    /* `task`, which names it, will be released, or, with `is_released`, was.  Any thread. */
    void (*count)(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task,
                  bool is_released);
};

/* What happens to a manager, for the dispatcher to hear.  The first three are wake hints for its threads
 * (base/wake_hint.h). */
enum gy_gpu_news {
    GY_GPU_STEP_ANNOUNCED, /* the first GPU task of a step that is being built was submitted; under the
                            * manager's lock */
    GY_GPU_GUEST_COMES,    /* the first tasks of a step are about to be handed out, and the thread that does
                            * so is likely to be a guest behind that at once */
    GY_GPU_STEP_BEGUN,     /* the first tasks of a step have been handed out */
    GY_GPU_STEP_ENDED,     /* of a step that step_begin() has let begin; counted */
    GY_GPU_CANCELLED, /* the run was cancelled: what is held back of its tasks shall be released, or, where
                       * it has begun, go on; any number of times */
    GY_GPU_QUIET,     /* tasks of the manager are held back for memory, and nothing is running, as it
                       * seems: gy_taskman_waits_for_memory() knows; under the pool's lock */
};

/* A thread that waits for a manager and does the work of the dispatcher's threads while these sleep: see
 * dispatcher/loop/guest.h.  On its stack; all zero but for the first three. */
struct gy_gpu_guest {
    gantry_taskman *manager;    /* immutable: that it waits for */
    const struct gy_wait *wait; /* how; NULL: it does not yet */
    bool may_help;              /* immutable: it is allowed to, and has the stack for it */
    bool has_helped;            /* something was done by it, or could have been: see comes_at_once() */
    struct gy_worker *worker;   /* taskman's: borrowed while completions are told; NULL: none */
    bool is_kept_out;           /* it wanted to help, and a step of another manager was open */
    bool
        is_counted; /* this field and those around it are the dispatcher's: its partitions stay for as long */
    bool is_in;     /* the thread has what the dispatcher's thread has */
    bool has_loop;  /* it has the loop of the dispatcher's thread */
    bool is_due;    /* it has something to do in the loop */
    uint32_t seen;  /* signals of the inbox that it has seen */
    uint64_t deadline_ns; /* when a gate lets something go; 0: none */
    uint64_t rings;       /* bit i: it leads completion ring i */
    void *native_context; /* the context that was current before */
    int cancel_state;     /* likewise, of cancelling it */
};

/* Guests.  May be NULL, all of them: there are none. */
struct gy_gpu_guest_ops {
    /* The guest's step has begun: take what nobody holds, so that nobody is woken for its first tasks. */
    void (*enter)(gantry_dispatcher *self, struct gy_gpu_guest *guest);
    /* Take what nobody holds, look at everything once and do it; true when anything was done. */
    bool (*look)(gantry_dispatcher *self, struct gy_gpu_guest *guest);
    /* Give everything back, before the thread does anything else, sleeps or returns. */
    void (*leave)(gantry_dispatcher *self, struct gy_gpu_guest *guest);
    /* gy_gpu_ops.submit() by a thread that is likely to be a guest at once: no thread is woken for the tasks
     * if the dispatcher's own looks for them soon in any case. */
    void (*submit)(gantry_dispatcher *self, gantry_task *first, gantry_task *last);
};

/* What every dispatcher has, but for what says that it may be NULL. */
struct gy_gpu_ops {
    /* A manager that uses the dispatcher is created / destroyed: in between the dispatcher does not go.  May
     * have to wait until other partitions are in force.
     * @retval GANTRY_ERR_INVALID_ARGUMENT, GANTRY_ERR_UNSUPPORTED, GANTRY_ERR_OUT_OF_HOST_MEMORY, …: it has
     *         no seat */
    gantry_status (*attach)(gantry_dispatcher *self, struct gy_gpu_seat *seat);
    void (*detach)(gantry_dispatcher *self, const struct gy_gpu_seat *seat);

    /* A manager's step begins.  Fails (GANTRY_ERR_DEVICE_LOST, cause adopted) when the dispatcher can do no
     * more work; it hears of no end then.  is_helped: the thread that begins it will be a guest at once if it
     * can, or is likely to, so nobody need wake up for it. */
    gantry_status (*step_begin)(gantry_dispatcher *self, bool is_helped);
    /* Never fails.  For GY_GPU_STEP_BEGUN it returns the forecast: within so many ns CPU tasks that wait for
     * the GPU are likely to become ready; 0: that is not known.  Any thread. */
    uint64_t (*tell)(gantry_dispatcher *self, enum gy_gpu_news news);
    /* The step of `manager` has ended: returns when all its work was launched.  GANTRY_OK, or
     * GANTRY_ERR_DEVICE_LOST with the first cause as the calling thread's last error. */
    gantry_status (*adopt_failure)(gantry_dispatcher *self, const gantry_taskman *manager);
    /* When to look for the first end on the GPU that a task of the manager waits for; false: that is not
     * known. may_help: the caller may be a guest, and looks then.  Any thread.  May be NULL. */
    bool (*next_end)(gantry_dispatcher *self, const gantry_taskman *manager, bool may_help,
                     struct gy_lookout *out);

    /* Take ready GPU tasks, and sync points at whose end `when_done` has to be called: a list linked through
     * `next`, in order.  Never fails and never calls back on this stack: each task is released
     * later with gy_task_release().  Any thread. */
    void (*submit)(gantry_dispatcher *self, gantry_task *first, gantry_task *last);

    /* `predecessor` is being released and `successor` depends on it: merge the timeline points that
     * `successor` must come after.  Called when the predecessor's wait set is not 0, before the successor's
     * reference is removed; several predecessors of one successor may call at once.  Not called for a plain
     * wait set (see struct gantry_task) when the successor has none yet: that is copied. */
    void (*merge_deps)(gantry_dispatcher *self, gantry_task *predecessor, gantry_task *successor);

    /* The task was released and all its successors have been notified: its wait set is no longer needed.
     * Called only when the wait set is neither 0 nor plain. */
    void (*drop_deps)(gantry_dispatcher *self, gantry_task *task);

    /* `predecessor` was released, and `successor` starts when the GPU has passed everything in `wait_set`,
     * which is not 0: takes over a reference on `successor`, and gives it back then.  False: it was passed
     * already, the reference is still the caller's.  Called on the dispatcher's own thread, which releases
     * all GPU tasks and the sync points that it was handed. */
    bool (*when_done)(gantry_dispatcher *self, const gantry_task *predecessor, uint64_t wait_set,
                      gantry_task *successor);

    /* The wait set of a CPU task that is about to run has timeline points, and the host has seen none of them
     * pass. Any thread.  May be NULL. */
    bool (*is_unawaited)(gantry_dispatcher *self, uint64_t wait_set);

    /* A graph with stable tasks, or one with loops that a word on the device decides and otherwise no stable
     * task that counts, is being frozen: `out` is what the dispatcher remembers of it, or NULL.  Under the
     * manager's lock; the edges are final, the references not armed yet.
     * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
    gantry_status (*plan)(gantry_dispatcher *self, gantry_taskman *manager, struct gy_gpu_plan **out);

    void (*share_usage)(struct gy_gpu_share *share, gantry_share_usage *out);
    /* 1 and up; 0: not a partition of this dispatcher's context.  Of a fleet also the number of the context.
     * May be NULL: there are no partitions. */
    uint32_t (*partition_number)(gantry_dispatcher *self, const gantry_partition *partition,
                                 uint32_t *device);
    /* The dispatcher of a context that tasks may name, itself or the member of a fleet, and the number of
     * that device; NULL: it is none of them.  `context` NULL: the dispatcher of `*device`.  May be NULL:
     * tasks name none. */
    gantry_dispatcher *(*on_device)(gantry_dispatcher *self, const gantry_context *context, uint32_t *device);
    /* Call the callback of a good description, for a task that will be made: its calls say what it accesses,
     * and do nothing.  `out` is empty.  A fleet has none, but each of its members.
     * @retval GANTRY_ERR_UNSUPPORTED  it calls what does not say that
     * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, and what the callback fails with */
    gantry_status (*ask)(gantry_dispatcher *self, const gantry_task_desc *desc, struct gy_access_list *out);

    /* Is the address in a heap of the devices, but in no live block?  Any thread.  May be NULL: no heaps. */
    bool (*has_freed)(gantry_dispatcher *self, const void *at);

    struct gy_gpu_memory_ops memory;
    struct gy_gpu_guest_ops guests;
};

/* The first member of struct gantry_dispatcher. */
struct gy_gpu_dispatcher {
    const struct gy_gpu_ops *ops;
    unsigned forks; /* immutable; gy_thread_forks() of its threads */
};

/* The first member of struct gantry_fleet. */
struct gy_gpu_fleet {
    /* immutable; the object that a task manager which uses the fleet talks to */
    gantry_dispatcher *dispatcher;
};

/* ---- provided by taskman/ for the dispatcher (here by task.c, what every task passes by gpu_task.h) ---- */

/* The task is likely to lose its last reference, one that the caller holds, within `ns`: see
 * gy_pool_expect(). */
void gy_task_expect_ready(const gantry_task *task, uint64_t ns);

/* gy_gpu_ops.next_end() now knows when that is likely, and to be looked for from then on: see
 * gy_pool_foretell_end(). */
void gy_task_foretell_end(const gantry_task *task, uint64_t from_ns);
/* That time has come, and it is likely within `ns`: see gy_pool_expect_end(). */
void gy_task_expect_end(const gantry_task *task, uint64_t ns);

/* Is the guest's wait over? */
bool gy_gpu_guest_is_through(const struct gy_gpu_guest *guest);
/* The guest is about to remove references that completions hold: what becomes ready stays with it. */
void gy_gpu_guest_begin_release(struct gy_gpu_guest *guest);

enum { GY_MOVE_LABEL_BYTES = 64 /* of a task's label in the texts below */ };

/* The partitions of a device give way to others.  (moves.c) */
struct gy_gpu_moves {
    uint32_t device;                              /* as the manager numbers it */
    uint8_t to[GANTRY_PARTITIONS_MAX + 1];        /* by partition_number(): the number of the partition that
                                                   * has the same name; 0: there is none */
    const char *names[GANTRY_PARTITIONS_MAX + 1]; /* by partition_number() */
};
/* GANTRY_ERR_STATE when the manager is running: its text names it, and `call`. */
GANTRY_MUST_CHECK gantry_status gy_gpu_user_check_still(struct gy_gpu_user *user, const char *call);
/* The manager is not running.  GANTRY_ERR_STATE when a task that may run some time is in a partition that
 * goes without a successor; then: give its tasks the new numbers. */
GANTRY_MUST_CHECK gantry_status gy_gpu_user_check_moves(struct gy_gpu_user *user,
                                                        const struct gy_gpu_moves *moves);
void gy_gpu_user_move(struct gy_gpu_user *user, const struct gy_gpu_moves *moves);
/* The order of its steps; NULL: they are independent. */
struct gy_gpu_order *gy_gpu_user_order(const struct gy_gpu_user *user);

/* gy_task_memory() of a task that has declared some. */
struct gy_gpu_memory *gy_task_find_memory(const gantry_task *task);

/* A READY task waits until there is memory for it: it does not count as running until it is let go. */
void gy_task_hold_back(gantry_task *task);
void gy_task_let_go(gantry_task *task);

/* True: nothing will happen in the manager's step until a task that is held back may go. */
bool gy_taskman_waits_for_memory(gantry_taskman *manager);

/* For making plans: every task of a manager whose graph is frozen or being frozen. */
void gy_taskman_each_task(gantry_taskman *manager, gy_task_visit *visit, void *user);

/* The two tasks of a loop, and what the dispatcher does before they are submitted. */
struct gy_gpu_loop_tasks {
    struct gy_gpu_loop *loop;
    /* Nothing is submitted yet; `on` is the dispatcher that will have `test`.  Returns the call's status. */
    gantry_status (*prepare)(struct gy_gpu_loop *loop, gantry_dispatcher *on);
    const gantry_task_desc *test, *decide; /* of this library's version; without names */
    gantry_task **out_test, **out_decide;  /* written before any of them can start */
};

/* Submit both, `decide` after `test`, to a manager that is being built, which drops the loop with its tasks.
 * On failure nothing was submitted and the loop is the caller's, but for a lack of memory after the first
 * task: then `out_test` was written, that task stays without an edge, and the loop is the manager's.
 * @retval GANTRY_ERR_STATE  the manager is not being built
 * @retval others            as gantry_taskman_submit() and `prepare` */
GANTRY_MUST_CHECK gantry_status gy_taskman_submit_loop(gantry_taskman *manager,
                                                       const struct gy_gpu_loop_tasks *tasks);
/* The loops of a manager that is being frozen, and whether its graph has conditions. */
struct gy_gpu_loop *gy_taskman_loops(const gantry_taskman *manager);
bool gy_taskman_has_conditions(const gantry_taskman *manager);

/* gy_task_begin() would say true; it may change its mind until then. */
bool gy_task_may_begin(const gantry_task *task);

/* The manager's run was cancelled. */
bool gy_taskman_is_cancelled(const gantry_taskman *manager);

/* For a recording: the number of the arrows that follow the task in this step; never 0. */
uint64_t gy_task_flow(const gantry_task *task);
/* gy_task_flow() for a task at which an arrow ends: a CPU task joins its own span to it.  0: it has no span.
 * The caller holds a reference. */
uint64_t gy_task_expect_flow(gantry_task *task);
/* The number for the CPU task that the calling thread is releasing; 0: none, or it ran unrecorded. */
uint64_t gy_task_releasing_flow(void);

/* What a thread that releases many tasks in a row has not counted off their manager yet.  It counts that off
 * now and then, at the latest when it releases another manager's task, and before it waits for anything:
 * until then no thread learns that a step is over. */
struct gy_gpu_debt {
    gantry_taskman *manager; /* NULL: nothing is owed */
    uint64_t owed, owed_odd;
};

/* End of a task: notifies its successors (timeline points, failure, reference), hands those that became ready
 * to their dispatchers (GPU ones in one list), calls the release callback, and owes its manager that it is
 * counted off.  The task may be gone when this returns.  `result` GANTRY_OK, or why it failed; for a failure
 * with a cause the calling thread's last error is kept as the manager's first failure. */
void gy_task_release(gantry_task *task, gantry_status result, struct gy_gpu_debt *debt);

/* A debt without a manager is none. */
bool gy_gpu_debt_is_valid(const struct gy_gpu_debt *debt);

void gy_gpu_debt_pay(struct gy_gpu_debt *debt);
static inline void gy_gpu_debt_settle(struct gy_gpu_debt *debt)
{
    if (debt->manager != NULL) {
        gy_gpu_debt_pay(debt);
    }
}

/* A task that was not launched yet fails for a reason of its own, not for a predecessor's: it will be
 * released as FAILED, and what the calling thread's last error says is kept as a cause of the step's failure.
 */
void gy_task_fail_early(gantry_task *task, gantry_status why);

/* gantry_task_remove_reference(), after which the task will be released as FAILED. */
void gy_task_remove_reference_failed(gantry_task *task, gantry_status why);

#endif
