/* SPDX-License-Identifier: MIT */
/* What the end of a task means to a successor: timeline points, failure, one reference less. */
#ifndef TASKMAN_SUCCESSORS_H
#define TASKMAN_SUCCESSORS_H

#include "base/hints.h"
#include "taskman/graph/task.h"

/* `task` ends well, and `successor` waits until the GPU has done what is in `wait_set`.  True: the dispatcher
 * has taken over the reference that `task` holds on `successor`. */
GY_RARE bool gy_task_notify_when_done(gantry_task *task, uint64_t wait_set, gantry_task *successor);

/* The two below, when the dispatcher has to do it. */
void gy_task_merge_more_deps(gantry_task *task, gantry_task *successor);
void gy_task_drop_more_deps(gantry_task *task);

/* `task` ends: merge its `wait_set` into what `successor` comes after on the GPU. */
static inline void gy_task_merge_deps(gantry_task *task, uint64_t wait_set, gantry_task *successor)
{
    uint64_t none = 0;
    if (wait_set == 0 ||
        ((wait_set & GY_WAIT_SET_PLAIN) != 0 &&
         atomic_compare_exchange_strong_explicit(&successor->wait_set, &none, wait_set, memory_order_acq_rel,
                                                 memory_order_relaxed))) {
        return; /* most tasks come after one other, if any */
    }
    gy_task_merge_more_deps(task, successor);
}

/* The task has failed: so will its successor. */
GY_RARE void gy_task_fail_successor(gantry_task *successor, gantry_status result);

/* The successor hears how the task has ended, before it loses the reference that the edge has.  True: it
 * keeps the reference until the dispatcher gives that back. */
static GY_INLINE bool gy_edge_notify(gantry_task *task, const struct gy_edge *edge, gantry_status result,
                                     uint64_t wait_set)
{
    gantry_task *successor = gy_edge_successor(edge);
    if (result != GANTRY_OK) {
        gy_task_fail_successor(successor, result);
    } else if (__builtin_expect(gy_edge_is_done(edge), 0) &&
               gy_task_notify_when_done(task, wait_set, successor)) {
        return true;
    }
    return false;
}

/* Take away the reference of an edge that is in a group.  Only the last of a group matters to the successor:
 * then GY_NOT_LAST_OF_JOIN, 1 or less as below, else GY_NOT_LAST_OF_JOIN. */
enum { GY_NOT_LAST_OF_JOIN = 2 };
int32_t gy_edge_let_group_go(const struct gy_edge *edge);

/* The successor was started before its predecessor has ended: see successors.c. */
GY_COLD void gy_task_repay(gantry_task *successor);

/* It loses so many references at once, which the caller has.  True: they were its last. */
bool gy_task_let_some_go(gantry_task *successor, int32_t count);

/* The successor loses the reference that the edge has.  Returns how many it had: 1 for the last. */
static inline int32_t gy_edge_let_go(const struct gy_edge *edge)
{
    if (__builtin_expect((edge->to & GY_EDGE_GROUPED) != 0, 0)) {
        return gy_edge_let_group_go(edge);
    }
    return atomic_fetch_sub_explicit(&gy_edge_successor(edge)->references, 1, memory_order_acq_rel);
}

/* gy_task_merge_deps() and gy_edge_let_go() in one step, for the end of a task with a plain wait set: false
 * when the edge has not the only reference that its successor has left; then nothing has changed.  Otherwise
 * no other thread merges any more, and those that have merged let go before. */
static GY_INLINE bool gy_edge_let_last_go(gantry_task *task, const struct gy_edge *edge, uint64_t wait_set)
{
    gantry_task *successor = gy_edge_line(edge);
    int32_t last = 1;
    if ((edge->to & GY_EDGE_MARKS) != 0 ||
        atomic_load_explicit(&successor->references, memory_order_relaxed) != last ||
        !atomic_compare_exchange_strong_explicit(&successor->references, &last, 0, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        return false;
    }
    if (atomic_load_explicit(&successor->wait_set, memory_order_relaxed) == 0) {
        atomic_store_explicit(&successor->wait_set, wait_set, memory_order_relaxed); /* it has one reader */
    } else {
        gy_task_merge_more_deps(task, successor);
    }
    return true;
}

/* All dependents have been notified: nobody reads the task's wait set any more. */
static inline void gy_task_drop_deps(gantry_task *task)
{
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_relaxed);
    if (wait_set != 0 && (wait_set & GY_WAIT_SET_PLAIN) == 0) {
        gy_task_drop_more_deps(task);
    }
}

#endif
