/* SPDX-License-Identifier: MIT */
/* What the pool asks of the owner of its tasks: a link-time seam, defined once, by taskman/release.c or by a
 * test. */
#ifndef TASKMAN_CPU_CLIENT_H
#define TASKMAN_CPU_CLIENT_H

#include "taskman/cpu/worker.h"

/* Run the task, and release it.  When the body has ended, gy_worker_end_bundles() comes before anything else,
 * here and in gy_worker_abandon(): the body may have left tasks in the worker's bundle.  To be called between
 * pthread_cleanup_push() and _pop(): bodies are not supposed to call pthread_exit(), but if one does, its
 * task fails and others' get on. */
void gy_worker_run(struct gy_worker *self, gantry_task *task);
/* For cleanup handlers: the body that the thread was running will not return. */
void gy_worker_abandon(struct gy_worker *self);

/* Hand out everything in `ready`, resolving what needs no running and whatever that makes ready.  The
 * tasks were counted as active before; the caller is between gy_pool_enter() and gy_pool_leave() and
 * touches neither the tasks nor their owner afterwards, unless it knows that work is left. */
void gy_ready_dispatch(struct gy_task_owner *owner, struct gy_ready *ready);

/* An owner fell quiet, perhaps this one: if tasks of `owner` wait for memory, their GPU dispatcher hears of
 * it. Called under the pool's injection lock. */
void gy_owner_fell_quiet(struct gy_task_owner *owner);

#endif
