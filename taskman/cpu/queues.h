/* SPDX-License-Identifier: MIT */
/* The pool's shared lists: injection, priorities, limited classes. */
#ifndef TASKMAN_CPU_QUEUES_H
#define TASKMAN_CPU_QUEUES_H

#include "taskman/cpu/worker.h"

/* Queue READY CPU tasks that have GY_TRAIT_QUEUED, linked through `next`.  Otherwise as above. */
void gy_pool_queue(gantry_cpu_dispatcher *pool, gantry_task *first);

uint32_t gy_pool_class_count(const gantry_cpu_dispatcher *pool);

/* Take a task that goes before, or after, all others; NULL: there is none. */
gantry_task *gy_pool_take_urgent(struct gy_worker *self);
gantry_task *gy_pool_take_low(struct gy_worker *self);

/* May the worker run it? */
bool gy_worker_may_run_locked(const gantry_cpu_dispatcher *pool, const struct gy_worker *self,
                              const gantry_task *task) GY_REQUIRES(pool->inject_lock);

/* Tasks of the class that have waited go on as far as its limit lets them, `host` those for a
 * host's pool.  How many were queued here. */
size_t gy_pool_let_class_locked(gantry_cpu_dispatcher *pool, struct gy_class *class,
                                struct gy_task_list *host) GY_REQUIRES(pool->inject_lock);

void gy_pool_submit_to_host(gantry_cpu_dispatcher *pool, gantry_task *first);

/* Append tasks to the injection list. */
void gy_pool_inject(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count);

/* Append the task or the tasks of an item of a deque to the injection list.  How many these are. */
size_t gy_pool_inject_item(gantry_cpu_dispatcher *pool, gantry_task *item);

/* Queue a task, or an item of a deque, for others. */
void gy_worker_give_away(struct gy_worker *self, gantry_task *item);

#endif
