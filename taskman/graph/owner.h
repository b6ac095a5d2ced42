/* SPDX-License-Identifier: MIT */
/* The part of a task manager that its tasks and the pool know: they need no more of the owner of the tasks.
 *
 * `work` counts in two halves: tasks not released yet, and what will move without anybody waiting for it:
 * tasks that were dispatched, whatever else is about to dispatch some, and references that others hold (the
 * application, completions on the GPU).  It is 0 while building; a step is idle when it is 0 again, and
 * `odd_pending` too.  When the lower half alone is 0 the step is quiet: what is left waits for each other,
 * see stall.c.
 *
 * Tasks that were submitted in an odd epoch (GY_TASK_ODD) are counted in `odd_pending` instead of the upper
 * half.  A thread that waits for what was submitted so far turns the epoch once the tasks of the one before
 * are released, and then waits for those of the present one: what is submitted meanwhile is not among them.
 *
 * A graph with conditions does not know beforehand which of its tasks will run: there both count only what
 * was added while running. */
#ifndef TASKMAN_GRAPH_OWNER_H
#define TASKMAN_GRAPH_OWNER_H

#include <gantry/taskman.h>

#include <stdatomic.h>

#define GY_WORK_PENDING ((uint64_t)1 << 32)
#define GY_WORK_ACTIVE ((uint64_t)1)

/* Is `less` in `work`, each half of it? */
static inline bool gy_work_is_valid(uint64_t work, uint64_t less)
{
    return work / GY_WORK_PENDING >= less / GY_WORK_PENDING &&
           work % GY_WORK_PENDING >= less % GY_WORK_PENDING;
}

/* Was the run cancelled?  GY_CANCELLED_LOOP: and a loop whose tasks were released already was cut short. */
enum gy_cancelled { GY_CANCELLED_NOT = 0, GY_CANCELLED, GY_CANCELLED_LOOP };

/* What does the thread do that waits for the owner, the latest of several?  It is a hint (base/wake_hint.h).
 */
enum gy_owner_alarm {
    GY_ALARM_NONE = 0,  /* nobody waits */
    GY_ALARM_AWAKE = 1, /* it looks */
};
#define GY_ALARM_NEVER UINT64_MAX /* it sleeps until it is woken; else: until then */

/* The first member of struct gantry_taskman. */
struct gy_task_owner {
    gantry_cpu_dispatcher *pool; /* immutable; runs its CPU tasks */
    bool lets_guests;    /* immutable; threads that wait for it may run its tasks in a worker's place */
    bool has_conditions; /* guarded by its lock, immutable while running; it is frozen then */
    _Atomic(uint8_t)
        run_mark; /* atomic; written under its lock by a start; 0 or GY_STATE_MARK, see state.h */
    _Atomic(uint8_t) cancelled; /* atomic; enum gy_cancelled; set by cancel(), cleared under its lock */
    _Atomic(uint32_t) epoch;    /* atomic; written under its lock; see above; never goes back */
    struct gy_task_owner *next_of_pool; /* guarded by the pool's injection lock; see cpu/owners.h */

    _Alignas(64) _Atomic(uint64_t) work; /* atomic; see above */
    _Atomic(uint64_t) odd_pending;       /* atomic; see above */
    _Atomic(uint64_t) spawned;           /* atomic; tasks of the step that workers made without its lock */
    _Atomic(uint64_t) alarm_ns; /* atomic; enum gy_owner_alarm, or when a thread that waits wakes up */
};

#endif
