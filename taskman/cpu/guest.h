/* Guest workers: threads that wait for a manager and run its tasks in the place of a worker that sleeps. */
#ifndef TASKMAN_CPU_GUEST_H
#define TASKMAN_CPU_GUEST_H

#include "taskman/cpu/wait.h"
#include "taskman/cpu/worker.h"

/* Become a worker that sleeps, to run tasks of the manager in its place: until gy_pool_wait(), which the
 * caller calls soon.  NULL: there is none. */
struct gy_worker *gy_standin_begin(struct gy_task_owner *owner);

/* Sleep on `work`, and be a worker again. */
void gy_worker_sleep(struct gy_worker *self, uint32_t key);

/* Run what there is of the manager until there is nothing, or the condition holds, which is
 * returned; then the thread stands in no more. */
bool gy_standin_work(struct gy_worker *self, const struct gy_wait *wait);
/* The same, if there may be something to do and somebody to stand in for. */
bool gy_standin_look(const struct gy_wait *wait);

#endif
