/* SPDX-License-Identifier: MIT */
/* Tasks that end when somebody says so, of all managers of the process, by handle. */
#ifndef TASKMAN_AWAITS_H
#define TASKMAN_AWAITS_H

#include "taskman/manager.h"

#include <gantry/detach.h>

/*            detach                its time is over
 *   FREE ------------> WAITING --------------------> TOLD
 *    ^                    |                            |
 *    |                    +-- complete, or given up ---+
 *    |   nobody is busy   |
 *    +----------------- ENDED
 *
 * WAITING: for complete(); the body may still run.  TOLD: so is the holder, and its grace runs.  ENDED: the
 * handle is good no more, and somebody is still busy with the task: its body, the call that tells the holder,
 * or a complete() that notes a failure.  Whoever is the last releases the task. */
enum gy_await_state { GY_AWAIT_FREE, GY_AWAIT_WAITING, GY_AWAIT_TOLD, GY_AWAIT_ENDED };

/* When somebody looks at the time of tasks: the thread `gantry clock`, or that of a port (port.c), which
 * looks at its own. */
struct gy_await_clock {
    _Atomic(uint64_t) next_due_ns; /* atomic; written under the table's lock; nothing is due before */
    _Atomic(size_t) tasks;         /* atomic; of a port: tasks that were handed to it and are not released */
};

/* One place of the table, guarded by its lock. */
struct gy_await {
    gantry_detached handle; /* 0: FREE */
    gantry_task *task;      /* NULL: FREE */
    uint64_t due_ns;        /* when the holder is told, or, if it was, given up; GY_NEVER_DUE: not by time */
    uint64_t grace_ns;
    struct gy_await_clock *clock;
    gantry_detach_fn tell; /* NULL: nobody is told */
    void *user;
    uint32_t next_free; /* FREE: the number of the next free place and 1; 0: none */
    uint8_t state;      /* enum gy_await_state; await_enter() is the only writer */
    uint8_t busy;       /* threads that are */
    bool is_in_body;    /* one of them is the body */
    bool is_cancelled;  /* why its time is over */
};

#define GY_NEVER_DUE UINT64_MAX

bool gy_await_is_valid(const struct gy_await *await);

/* The calling body's task is detached.  `out` gets the handle.  `clock` NULL: that of `gantry clock`.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  nothing has changed */
gantry_status gy_await_begin(gantry_task *task, const gantry_detach_options *options,
                             struct gy_await_clock *clock, gantry_detached *out);

/* gy_ready_dispatch(), which releases tasks, and so knows of this file. */
typedef void gy_dispatch_fn(struct gy_task_owner *owner, struct gy_ready *ready);

/* The body of a detached task has returned `result`, or gone.  The caller is through with the task. */
void gy_await_body_ended(gantry_task *task, gantry_detached handle, gantry_status result,
                         gy_dispatch_fn *dispatch);

/* The worker's body, whose task is detached, has returned `result`, or gone: the task is not the worker's any
 * more. */
GY_COLD void gy_worker_leave_awaited(struct gy_worker *self, gantry_task *task, gantry_status result,
                                     gy_dispatch_fn *dispatch);

/* gantry_task_complete() with a handle and a status that can be. */
gantry_status gy_await_complete(gantry_detached handle, gantry_status status, const char *text);

/* Tell the holders of what is due by `now_ns`, and give up what was told of; on the thread of the clock. */
void gy_awaits_look(struct gy_await_clock *clock, uint64_t now_ns);

/* A task that the caller has, and that is not released, will be released as failed, for what `text` says. */
void gy_await_fail(gantry_task *task, gantry_status status, const char *text);

/* Release a task that the caller has as one with nothing to run. */
void gy_await_release(gantry_task *task, gy_dispatch_fn *dispatch);

/* The manager's run was cancelled: the holders of its tasks are told. */
void gy_awaits_cancel(const gantry_taskman *manager);

/* How many tasks of the manager, or, if that is NULL, of the clock, are awaited, or will be when their bodies
 * return.  The labels of some of them, each behind a space, are put into `labels`. */
size_t gy_awaits_of(const gantry_taskman *manager, const struct gy_await_clock *clock, char *labels,
                    size_t room);

/* The manager goes; none of its tasks is awaited. */
void gy_awaits_leave(gantry_taskman *manager);

#endif
