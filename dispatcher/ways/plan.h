/* Plans: what the dispatcher knows of a frozen graph with stable tasks, so that a run can launch what an
 * earlier one has recorded.
 *
 * The stable tasks are divided into replay units, units for short: those with the same set of *outer* tasks
 * before them, where outer is everything whose end is not known beforehand: CPU tasks, GPU tasks that are not
 * stable, references of the application's.  So once a unit's first tasks are ready, and the units it needs
 * were launched, nothing can keep the others from becoming ready: the whole of it may be launched at once, as
 * one graph.
 *
 *   WAITING ---- all roots ready, recorded ----> LAUNCHED    its tasks are released without a call
 *      |    \--- not recorded, all calls known -> CALLED     the calls are captured, which records them
 *      |    \--- anything else -----------------> CALLED     by its callbacks, like other tasks
 *
 * each anew in every run.  `needs`: a task inside may also come after tasks of other units, whose sets are
 * smaller; and so this cannot go round in circles.  See docs/decisions/0010-stable-tasks-are-replayed.md. */
#ifndef DISPATCHER_WAYS_PLAN_H
#define DISPATCHER_WAYS_PLAN_H

#include "dispatcher/inbox.h"
#include "dispatcher/ways/calls.h"
#include "driver/context.h"

#define GY_PLANS_REFUSED 16

enum gy_unit_stage { GY_UNIT_WAITING, GY_UNIT_LAUNCHED, GY_UNIT_CALLED };

/* GD's while the graph runs, the manager's owner's between runs. */
struct gy_unit {
    struct gy_plan *plan;     /* immutable */
    uint32_t first, members;  /* immutable; its tasks: plan->members[first], … */
    uint32_t roots;           /* immutable; of these, the ones that come after no other of them */
    uint32_t leaving;         /* immutable; dependents of its tasks that are not in it */
    uint32_t needs;           /* immutable; units it comes after */
    uint32_t first_needed_by; /* immutable; those that come after it: plan->needed_by[first_needed_by], … */
    uint32_t needed_by;       /* immutable; how many */
    uint64_t partitions;      /* immutable; bit n: some of its tasks have gy_task_partition() n */

    /* what was recorded */
    CUgraphExec exec;           /* NULL: nothing */
    struct gy_copy_chunk *kept; /* memory that its batched copies use, owner: the copier; NULL: none */
    bool stale;                 /* it is not valid any more */
    bool never;                 /* its callbacks have to be called in every run */
    uint64_t kernels, copies, batched_copies;
    uint32_t completes;
    size_t completes_room;
    gantry_task **completions; /* tasks that were asked to be completed */

    /* of one run */
    uint64_t run; /* which one; the rest is of an older run if it is another */
    enum gy_unit_stage stage;
    uint32_t arrived; /* roots */
    uint32_t settled; /* units it needs that are not WAITING any more */
    bool must_call;   /* of these, one was not launched as a whole */
    struct gy_gpu_list held;
    _Atomic(uint64_t) wait_set; /* timeline points of the units it needs */
    uint64_t point;             /* LAUNCHED: of all its tasks */
    uint32_t stream;            /* LAUNCHED */
    gantry_status result;       /* LAUNCHED */
    struct gy_unit *next_due;
};

struct gy_plan {
    struct gy_gpu_plan head;       /* first: how taskman/ sees us */
    struct gy_plan_list *list;     /* guarded by the list's lock; NULL: the dispatcher is gone */
    struct gy_plan *next, **place; /* guarded by the list's lock */
    uint32_t tasks;                /* immutable */
    uint32_t unit_count;           /* immutable */
    uint32_t *unit_of;             /* immutable; by index of the task: unit + 1, or 0 */
    gantry_task **members;         /* immutable */
    uint32_t *needed_by;           /* immutable */
    struct gy_unit *units;         /* see there */
    struct gy_calls *calls;        /* by index of the task, see there; NULL: they are not compared */
};

/* All plans of a dispatcher. */
struct gy_plan_list {
    struct gy_context *context;            /* immutable */
    struct gy_copier *copier;              /* immutable */
    gy_mutex lock;                         /* rank LEAF */
    struct gy_plan *first;                 /* guarded by lock */
    CUgraphExec refused[GY_PLANS_REFUSED]; /* guarded by lock; the driver would not destroy them */
    uint32_t refused_count;                /* guarded by lock */
};

void gy_plan_list_init(struct gy_plan_list *list, struct gy_context *context, struct gy_copier *copier);
/* The context is current, the GPU done or the context lost; managers may live on. */
void gy_plan_list_fini(struct gy_plan_list *list);

/* As `plan` of struct gy_gpu_ops. */
GANTRY_MUST_CHECK gantry_status gy_plan_make(struct gy_plan_list *list, gantry_taskman *manager,
                                             struct gy_gpu_plan **out);

/* GD: the unit of a ready task in its run, as that run has left it so far; NULL: none. */
struct gy_unit *gy_plan_unit(const gantry_task *task);

/* What the task's callback enqueues is compared with; NULL: it is not stable, or nothing is compared. */
struct gy_calls *gy_plan_calls(const gantry_task *task);

/* GD: brought to the begin of the run if it is of an older one. */
void gy_unit_renew(struct gy_unit *unit);

#endif
