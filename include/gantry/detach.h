/* SPDX-License-Identifier: MIT */
/**
 * @file detach.h
 * Work that ends later: a CPU task whose body has returned ends when somebody says so.
 *
 * A body that has begun something that goes on without it (a read, a message, a request to a server) detaches
 * its task and returns.  The worker, and the place in the task's class, are free; the task is AWAITED, and
 * nothing that comes after it starts.  Whoever sees the work end calls gantry_task_complete(), from any
 * thread, and the task is released with the status that is told.
 *
 * What can go wrong ends, too: a time-out and gantry_taskman_cancel() first tell the holder of the handle,
 * who stops the work and completes the task.  Who does not within a grace time has lost the handle: the task
 * is released as failed, and its cause ends with "its memory may still be written".
 *
 * Threading: any thread, but for gantry_task_detach() and gantry_task_detach_with(), which the body calls.
 * The holder is told by the thread `gantry clock` of the library, which there is from the first detached task
 * on until the last manager that had one is destroyed.
 */
#ifndef GANTRY_DETACH_H
#define GANTRY_DETACH_H

#include <gantry/task.h>

GANTRY_BEGIN_DECLS

/** A detached task in one run of it.  No two in a process are the same; none is 0. */
typedef uint64_t gantry_detached;

/** Tells the holder of the handle to stop the work and to complete the task.  At most once for a handle, with
 *  no lock held, never while the body runs; what `user` is must be there until the task is released.  `why`
 *  is GANTRY_ERR_TIMED_OUT or GANTRY_ERR_CANCELLED.  Must not block: other time-outs wait for it. */
typedef void (*gantry_detach_fn)(void *user, gantry_detached handle, gantry_status why);

/** How a task is awaited. */
typedef struct gantry_detach_options {
    size_t struct_size;    /* sizeof(gantry_detach_options) of the caller */
    uint64_t timeout_ns;   /* from the call on; 0: none */
    uint64_t grace_ns;     /* between `tell` and the end of the task; 0: 100 ms */
    gantry_detach_fn tell; /* NULL: nobody is told */
    void *user;            /* for `tell` */
} gantry_detach_options;
#define GANTRY_DETACH_OPTIONS_INIT                      \
    {                                                   \
        sizeof(gantry_detach_options), 0, 0, NULL, NULL \
    }

/** From the body of a CPU task: the task ends with gantry_task_complete() for `*out`, not when the body
 *  returns.  If the body returns a failure all the same, or calls pthread_exit(), the task fails with that at
 *  once, and the handle is good no more.  The bandwidth gate and a limited class go by the body alone.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL
 *  @retval GANTRY_ERR_STATE               this is not the body of `task`, or it has detached it already
 *  @retval GANTRY_ERR_UNSUPPORTED         the task is a condition: it chooses when its body returns
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  no memory, or no thread; the task ends with its body */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_detach(gantry_task *task, gantry_detached *out);

/** gantry_task_detach() with options; NULL: none.  Statuses as there, and
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  struct_size is too small
 *  @retval GANTRY_ERR_UNSUPPORTED       a field is set that this version does not know */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_detach_with(gantry_task *task,
                                                                   const gantry_detach_options *options,
                                                                   gantry_detached *out);

/** The work of a detached task has ended: the task is released before the call returns, or, if its body or
 *  `tell` still runs, when that has returned.  Any thread, also from callbacks.
 *  @param status  GANTRY_OK, or why the work failed.  After a time-out GANTRY_ERR_CANCELLED, which says that
 *                 the work was stopped, is told as GANTRY_ERR_TIMED_OUT
 *  @param text    with a failure: what its cause says, at most some 380 bytes of it; copied.  NULL: nothing
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `handle` is 0, or `status` no gantry_status
 *  @retval GANTRY_ERR_STATE             the handle is good no more: it was completed or given up, its body
 * has failed, or it was made before a fork.  Nothing has changed */
GANTRY_API gantry_status gantry_task_complete(gantry_detached handle, gantry_status status, const char *text);

GANTRY_END_DECLS

#endif
