/* SPDX-License-Identifier: MIT */
/* Plans: the dispatcher's knowledge of a frozen graph with stable tasks, with which a run can launch work
 * that an earlier run has recorded.
 *
 * The stable tasks are divided into replay units, units for short.  The tasks of a unit have the same set of
 * *outer* tasks before them.  A task is outer when its end is not known beforehand: CPU tasks and GPU tasks
 * that are not stable; a reference of the application counts, too.  So once a unit's first tasks are ready,
 * and the units it needs were launched, nothing can keep its other tasks from becoming ready: the whole unit
 * may be launched at once, as one graph.
 *
 *   WAITING ---- all roots ready, recorded ----> LAUNCHED    its tasks are released without a call
 *      |    \--- not recorded, all calls known -> CALLED     the calls are captured, which records them
 *      |    \--- anything else -----------------> CALLED     by its callbacks, like other tasks
 *
 * Each run begins anew.  `needs`: a task in the unit may also come after tasks of other units.  Their sets
 * are smaller, so there can be no cycle of units.  See docs/decisions/0010-stable-tasks-are-replayed.md.  GD
 * is the dispatcher's thread. */
#ifndef DISPATCHER_SUBMIT_PLAN_H
#define DISPATCHER_SUBMIT_PLAN_H

#include "dispatcher/loop/inbox.h"
#include "dispatcher/loop/stats.h"
#include "taskman/gpu_task.h"
#include "work/exec.h"

struct gy_calls;

enum gy_unit_stage { GY_UNIT_WAITING, GY_UNIT_LAUNCHED, GY_UNIT_CALLED };

/* What the callbacks of a unit have enqueued in a run, which later ones launch again. */
struct gy_recorded {
    struct gy_exec exec;        /* NULL: nothing was recorded */
    struct gy_copy_chunk *kept; /* memory that its batched copies use; the copier owns it; NULL: none */
    bool is_stale;              /* it is no longer valid */
    bool is_loop;               /* it was launched as a loop */
    uint64_t works[GD_WORKS];   /* none through the host, which is never recorded */
    uint32_t completes;
    size_t completes_room;
    gantry_task **completions; /* tasks that callbacks asked to complete */
};

/* A unit belongs to the dispatcher's thread (GD) while the graph runs, and to the manager's owner between
 * runs. */
struct gy_unit {
    struct gy_plan *plan;    /* immutable */
    uint32_t first, members; /* immutable; its tasks are plan->members[first], … */
    uint32_t roots;          /* immutable; the first tasks: those that come after no other task of the unit */
    uint32_t leaving;        /* immutable; dependents of its tasks that are not in the unit */
    uint32_t needs;          /* immutable; units that it comes after */
    uint32_t first_needed_by; /* immutable; units that come after it: plan->needed_by[first_needed_by], … */
    uint32_t needed_by;       /* immutable; the number of these */
    uint64_t partitions;      /* immutable; bit n: some of its tasks have gy_task_partition() n */

    struct gy_recorded recorded;
    bool never; /* its callbacks have to be called in every run */

    /* The next fields belong to one run. */
    uint64_t run; /* the run's number; in another run the fields below are those of an older one */
    enum gy_unit_stage stage;
    uint32_t arrived; /* roots that are ready */
    uint32_t settled; /* units it needs that are no longer WAITING */
    bool must_call;   /* one of these units was not launched as a whole */
    struct gy_gpu_list held;
    _Atomic(uint64_t) wait_set; /* timeline points of the units it needs */
    uint64_t point;             /* LAUNCHED: the timeline point of all its tasks */
    uint32_t stream;            /* LAUNCHED */
    gantry_status result;       /* LAUNCHED */
    struct gy_unit *next_due;

    struct gy_device_loop *loop; /* immutable; its tasks are the body of that loop; NULL: of none */
};

struct gy_plan {
    struct gy_gpu_plan head;       /* the first member: taskman/ knows the plan by it */
    struct gy_plan_list *list;     /* guarded by the list's lock; NULL: the dispatcher is gone */
    struct gy_plan *next, **place; /* guarded by the list's lock */
    uint32_t tasks;                /* immutable */
    uint32_t unit_count;           /* immutable */
    const uint64_t *run;           /* immutable; the number of the run: ours, or that of a fleet's plan */
    uint32_t *unit_of;             /* immutable; by index of the task: unit + 1, or 0 */
    bool *inside;                  /* immutable; by index of the task: it comes after one of its own unit */
    gantry_task **members;         /* immutable */
    uint32_t *needed_by;           /* immutable */
    struct gy_unit *units;         /* see struct gy_unit */
    struct gy_calls *calls; /* by index of the task, see struct gy_calls; NULL: calls are not compared */
};

/* All plans of a dispatcher. */
struct gy_plan_list {
    struct gy_context *context; /* immutable */
    struct gy_copier *copier;   /* immutable */
    gy_mutex lock;              /* rank LEAF */
    struct gy_plan *first;      /* guarded by lock */
};

void gy_plan_list_init(struct gy_plan_list *list, struct gy_context *context, struct gy_copier *copier);
/* The context is current, and the GPU is done or the context is lost; managers may live on. */
void gy_plan_list_fini(struct gy_plan_list *list);

/* GD: no manager with a plan is running, its tasks may be in other partitions than before, and the GPU is
 * done: what was recorded is dropped, and recorded anew.  The context is current. */
void gy_plan_list_forget(struct gy_plan_list *list);

/* Make a plan, as `plan` of struct gy_gpu_ops says; for the stable tasks of one device of a fleet, to which
 * those of the others are outer tasks, or of all, where there is one device. */
#define GY_PLAN_ALL_DEVICES UINT32_MAX
GANTRY_MUST_CHECK gantry_status gy_plan_make(struct gy_plan_list *list, gantry_taskman *manager,
                                             uint32_t device, struct gy_gpu_plan **out);
/* A plan for the devices of a fleet, whose own plans (NULL: none) become its.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  they are dropped */
GANTRY_MUST_CHECK gantry_status gy_plan_join(struct gy_gpu_plan *const *members, uint32_t count,
                                             struct gy_gpu_plan **out);

/* Any thread: the task is of a unit. */
bool gy_plan_has_unit(const gantry_task *task);

/* Any thread: the task is of a unit and comes after another task of it.  Whatever it comes after on other
 * devices that one came after, too. */
bool gy_plan_is_inside(const gantry_task *task);

/* The calls with which those of the task's callback are compared; NULL: the task is not stable, or nothing is
 * compared. */
struct gy_calls *gy_plan_calls(const gantry_task *task);

/* GD: begin a new run of the unit if its fields are of an older one. */
void gy_unit_renew(struct gy_unit *unit);

/* The plan of the task's device; NULL: none, or the task is of no device. */
static GY_INLINE struct gy_plan *gy_plan_of(const gantry_task *task)
{
    struct gy_gpu_plan *plan = gy_task_gpu_plan(task);
    if (__builtin_expect(plan != NULL && plan->members != NULL, 0)) {
        plan = gy_task_is_gpu(task) ? plan->members[task->device] : NULL;
    }
    return (struct gy_plan *)plan;
}

/* GD: the unit of a ready task, in the state that the task's run has brought it to; NULL: the task has none.
 */
static GY_INLINE struct gy_unit *gy_plan_unit(const gantry_task *task)
{
    struct gy_plan *plan = gy_plan_of(task);
    uint32_t number = plan != NULL ? plan->unit_of[gy_task_index(task)] : 0;
    if (number == 0) {
        return NULL;
    }
    struct gy_unit *unit = &plan->units[number - 1];
    if (unit->run != *plan->run) { /* the first of its tasks in this run */
        gy_unit_renew(unit);
    }
    return unit;
}

/* GD: all tasks of the unit were released, and they may become ready again in this run. */
void gy_unit_begin_again(struct gy_unit *unit);

#endif
