/* SPDX-License-Identifier: MIT */
/* Bundles: tasks that one body makes in quick succession go to the other workers several at a time. */
#ifndef TASKMAN_CPU_BUNDLE_H
#define TASKMAN_CPU_BUNDLE_H

#include "taskman/cpu/worker.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GY_BUNDLE_MOST = 32,   /* tasks in a bundle */
    GY_LIST_MOST = 1024,   /* tasks of a list that goes into a deque */
    GY_BUNDLE_BEHIND = 32, /* so many tasks a body makes before it fills bundles */
};

/* An item of a deque is a task, or a bundle: the first of at least two tasks that are linked through
 * `next`. */
static inline bool gy_item_is_bundle(const gantry_task *item)
{
    return ((uintptr_t)item & 1) != 0;
}

static inline gantry_task *gy_item_of_bundle(gantry_task *first)
{
    return (gantry_task *)(void *)((char *)first + 1);
}

/* The task, or the bundle's first one. */
static inline gantry_task *gy_item_first(gantry_task *item)
{
    return gy_item_is_bundle(item) ? (gantry_task *)(void *)((char *)item - 1) : item;
}

/* From now on the running body's tasks go into bundles; its end is looked at. */
void gy_worker_begin_bundles(struct gy_worker *self);

/* The running body has made one more READY plain task, behind the first GY_BUNDLE_BEHIND: into the worker's
 * bundle, and when that is full, into the worker's deque. */
void gy_worker_bundle(struct gy_worker *self, gantry_task *task);

/* Push a list of `count` READY plain tasks, at most GY_LIST_MOST, onto the worker's deque, in bundles if it
 * is long: take() gives them back in the list's order.  False, and nothing was pushed, when there is no
 * memory. */
bool gy_worker_push_list(struct gy_worker *self, gantry_task *first, size_t count);

/* The running body ends: the rest of the worker's bundle goes into its deque. */
void gy_worker_end_bundles(struct gy_worker *self);

/* The first task of a bundle that the worker has taken; the others go into its own deque. */
gantry_task *gy_worker_open_bundle(struct gy_worker *self, gantry_task *item);

static inline gantry_task *gy_worker_open_item(struct gy_worker *self, gantry_task *item)
{
    return __builtin_expect(gy_item_is_bundle(item), 0) ? gy_worker_open_bundle(self, item) : item;
}

/* Owner of the deque: the task that was pushed last, or NULL. */
static inline gantry_task *gy_worker_take(struct gy_worker *self)
{
    return gy_worker_open_item(self, gy_deque_take(&self->deque));
}

/* Any worker: take the tasks that the victim's running body has bundled so far, as an item; NULL: there are
 * none. */
gantry_task *gy_bundle_seize(struct gy_worker *victim);

#endif
