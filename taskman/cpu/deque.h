/* SPDX-License-Identifier: MIT */
/* A work-stealing deque: its owner pushes and takes at the bottom, anybody steals from the top.
 *
 * D. Chase, Y. Lev, "Dynamic circular work-stealing deque", SPAA 2005; memory orders after N. M. Lê,
 * A. Pop, A. Cohen, F. Zappa Nardelli, "Correct and efficient work-stealing for weak memory models",
 * PPoPP 2013, with sequentially consistent accesses in place of the stand-alone fences. */
#ifndef TASKMAN_CPU_DEQUE_H
#define TASKMAN_CPU_DEQUE_H

#include "taskman/graph/task.h"

struct gy_deque_array;

struct gy_deque {
    _Alignas(64) _Atomic(int64_t) top;      /* atomic; only grows */
    _Alignas(64) _Atomic(int64_t) bottom;   /* atomic; written by the owner */
    _Atomic(struct gy_deque_array *) array; /* atomic; written by the owner */
    int64_t seen_top;                       /* the owner's: top was no less, so there is room up to here */
};

/* @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_deque_init(struct gy_deque *deque);
/* No thief may be at work any more. */
void gy_deque_fini(struct gy_deque *deque);

/* Owner, between its other calls: does the window fit the array? */
bool gy_deque_is_valid(const struct gy_deque *deque);

/* Owner: push the `count` tasks of a list linked through `next`, so that take() gives them back in the
 * list's order.  False, and nothing was pushed, when there is no room and no memory for more. */
bool gy_deque_push_list(struct gy_deque *deque, gantry_task *first, size_t count);

/* Owner: push `count` tasks, of which take() gives back the last first.  False as above. */
bool gy_deque_push_array(struct gy_deque *deque, gantry_task *const *tasks, size_t count);

/* Owner: push one.  False as above. */
bool gy_deque_push(struct gy_deque *deque, gantry_task *task);

/* Owner: the task pushed last, or NULL. */
gantry_task *gy_deque_take(struct gy_deque *deque);

/* Owner: only the owner adds, so what looks empty to it is. */
static inline bool gy_deque_is_empty(const struct gy_deque *deque)
{
    return atomic_load_explicit(&deque->bottom, memory_order_relaxed) ==
           atomic_load_explicit(&deque->top, memory_order_relaxed);
}

/* Anybody: is there a task?  As a condition for sleeping, see event.h. */
static inline bool gy_deque_has_tasks(const struct gy_deque *deque)
{
    int64_t top = atomic_load(&deque->top);
    return top < atomic_load(&deque->bottom);
}

/* Anybody: how many tasks there are, or have been a moment ago. */
static inline size_t gy_deque_count(const struct gy_deque *deque)
{
    int64_t top = atomic_load_explicit(&deque->top, memory_order_relaxed);
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    return bottom > top ? (size_t)(bottom - top) : 0;
}

/* Any thread: take the oldest task.  NULL when the deque is empty, or, with *lost_race set, when another
 * thread took that task at the same moment and there may be more. */
gantry_task *gy_deque_steal(struct gy_deque *deque, bool *lost_race);

#endif
