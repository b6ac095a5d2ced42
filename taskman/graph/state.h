/* SPDX-License-Identifier: MIT */
/* The states of a task and the only function that changes them.
 *
 *                   submit            references == 0       begins            released
 *   PLACEHOLDER -----------> HELD -------------------> READY ------> RUNNING -----+----> DONE
 *        |                                              ^  |            |         |
 *        +-- references == 0 while nobody submitted it -+  |            v         |
 *                                                          |         AWAITED -----+
 *                                                          +----------------------+---> FAILED
 *
 * PLACEHOLDER, HELD: the graph owns the task, references > 0.  READY: queued for a worker or the GPU
 * dispatcher, or about to be resolved on the spot (a sync point goes from here straight to DONE, a
 * task with a preset failure to FAILED).  RUNNING: its body or launch callback may be called.  AWAITED: its
 * body has returned after detaching it (awaits.h).  DONE, FAILED: for ever, or, in a frozen graph, until the
 * next start.
 *
 * A run of a frozen graph does not visit its tasks to make them HELD again: each start flips the manager's
 * `run_mark`, states carry the mark of the run in which they were entered, and one with another mark means
 * HELD.  In a graph with conditions a task may become READY again while the run lasts.
 *
 * A run of a part does not flip the mark, it makes the tasks of the part HELD.  The others show the state of
 * an earlier run, and nothing may start them or be declared for them: they have ended, or they rest. */
#ifndef TASKMAN_GRAPH_STATE_H
#define TASKMAN_GRAPH_STATE_H

#include "taskman/graph/task.h"

/* X(state, mask of the states that may follow) */
#define GY_TASK_STATE_MAP(X)                                                      \
    X(PLACEHOLDER, GY_STATE_BIT(HELD) | GY_STATE_BIT(READY))                      \
    X(HELD, GY_STATE_BIT(READY))                                                  \
    X(READY, GY_STATE_BIT(RUNNING) | GY_STATE_BIT(DONE) | GY_STATE_BIT(FAILED))   \
    X(RUNNING, GY_STATE_BIT(DONE) | GY_STATE_BIT(FAILED) | GY_STATE_BIT(AWAITED)) \
    X(AWAITED, GY_STATE_BIT(DONE) | GY_STATE_BIT(FAILED))                         \
    X(DONE, 0u)                                                                   \
    X(FAILED, 0u)
#define GY_STATE_BIT(state) (1u << GANTRY_TASK_STATE_##state)

/* What `state` holds beside the state. */
enum {
    GY_STATE_ONLY = 0x0f,  /* the state itself */
    GY_STATE_RAN = 0x20,   /* HELD, but it was released in an earlier run */
    GY_STATE_RESTS = 0x40, /* not part of the run that lasts, or of none yet; a start of all tasks ends it */
    GY_STATE_MARK = 0x80,
};

bool gy_task_state_may_go(gantry_task_state from, gantry_task_state to);
const char *gy_task_state_name(gantry_task_state state);

/* Make a task of a graph with conditions ready, which several threads may do at once: false when it is
 * queued or running already. */
bool gy_task_enter_ready(gantry_task *task);

/* May the task be in that state, as far as the thread that changes it can tell? */
bool gy_task_is_valid(const gantry_task *task, gantry_task_state state);

#ifndef NDEBUG
/* Asserts that the diagram allows it. */
void gy_task_state_check(const gantry_task *task, gantry_task_state next, bool is_first);
#endif

/* The state of a task nobody else has seen yet. */
static inline void gy_task_state_init(gantry_task *task, gantry_task_state state)
{
    unsigned mark = atomic_load_explicit(&task->owner->run_mark, memory_order_relaxed);
    atomic_store_explicit(&task->state, (uint8_t)(state | mark), memory_order_relaxed);
#ifndef NDEBUG
    gy_task_state_check(task, state, true);
#endif
}

/* Before a run: make a task of a frozen graph HELD.  To be handed to gy_graph_each(). */
void gy_task_state_hold(void *unused, gantry_task *task);

/* The task of a frozen graph keeps the state that it shows, but is not part of the next run, unless that is
 * one of all tasks or gy_task_state_hold() follows.  To be handed to gy_graph_each(). */
void gy_task_state_rest(void *unused, gantry_task *task);

/* The only writer.  One thread at a time may change a given task: the one that fills the placeholder and
 * holds a reference, the one that took the last reference, the one that runs it.  Everything the caller
 * wrote before is visible to a thread that reads the new state. */
static inline void gy_task_enter(gantry_task *task, gantry_task_state next)
{
#ifndef NDEBUG
    gy_task_state_check(task, next, false);
#endif
    unsigned mark = atomic_load_explicit(&task->owner->run_mark, memory_order_relaxed);
    atomic_store_explicit(&task->state, (uint8_t)(next | mark), memory_order_release);
}

/* The state that `raw`, read from task->state, means now. */
static inline gantry_task_state gy_task_state_meant(const gantry_task *task, unsigned raw)
{
    unsigned mark = atomic_load_explicit(&task->owner->run_mark, memory_order_relaxed);
    return ((raw ^ mark) & GY_STATE_MARK) != 0 ? GANTRY_TASK_STATE_HELD
                                               : (gantry_task_state)(raw & GY_STATE_ONLY);
}

static inline gantry_task_state gy_task_state_of(const gantry_task *task)
{
    return gy_task_state_meant(task, atomic_load_explicit(&task->state, memory_order_acquire));
}

/* Is a task of a frozen graph part of the present run? */
static inline bool gy_task_takes_part(const gantry_task *task)
{
    unsigned mark = atomic_load_explicit(&task->owner->run_mark, memory_order_relaxed);
    unsigned raw = atomic_load_explicit(&task->state, memory_order_acquire);
    return ((raw ^ mark) & GY_STATE_MARK) != 0 || (raw & GY_STATE_RESTS) == 0;
}

/* Was a task of a frozen graph never started since the graph was frozen? */
static inline bool gy_task_never_ran(const gantry_task *task)
{
    return gy_task_state_of(task) <= GANTRY_TASK_STATE_HELD &&
           (atomic_load_explicit(&task->state, memory_order_relaxed) & GY_STATE_RAN) == 0;
}

static inline bool gy_state_is_released(gantry_task_state state)
{
    return state == GANTRY_TASK_STATE_DONE || state == GANTRY_TASK_STATE_FAILED;
}

static inline bool gy_task_is_released(const gantry_task *task)
{
    return gy_state_is_released(gy_task_state_of(task));
}

/* gy_task_begin() for taskman/ itself. */
static inline bool gy_task_enter_running(gantry_task *task)
{
    if (atomic_load_explicit(&task->preset, memory_order_relaxed) != GANTRY_OK) {
        return false;
    }
    if (atomic_load_explicit(&task->owner->cancelled, memory_order_relaxed) != 0) {
        gy_task_preset_failure(task, GANTRY_ERR_CANCELLED);
        return false;
    }
    gy_task_enter(task, GANTRY_TASK_STATE_RUNNING);
    return true;
}

#endif
