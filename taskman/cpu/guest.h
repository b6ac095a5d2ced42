/* SPDX-License-Identifier: MIT */
/* Guest workers: threads that wait for a manager and run its tasks in the place of a worker that sleeps. */
#ifndef TASKMAN_CPU_GUEST_H
#define TASKMAN_CPU_GUEST_H

#include "taskman/cpu/wait.h"
#include "taskman/cpu/worker.h"

/* Borrow a worker that sleeps, to run tasks of the owner in its place until gy_pool_wait(), which the caller
 * calls soon.  NULL: no worker can be borrowed. */
struct gy_worker *gy_guest_begin(struct gy_task_owner *owner);

/* Return the worker without running its tasks; they are left to other threads. */
void gy_guest_end(struct gy_worker *self);

/* A worker's thread sleeps on `work`, and has its worker back when this returns. */
void gy_worker_sleep(struct gy_worker *self, uint32_t key);

/* The guest runs tasks of its owner until there is none or the condition holds, and returns the worker. True:
 * the condition holds. */
bool gy_guest_work(struct gy_worker *self, const struct gy_wait *wait);
/* Borrow a worker and call gy_guest_work(), if there may be a task to run and a worker to borrow. */
bool gy_guest_look(const struct gy_wait *wait);

#endif
