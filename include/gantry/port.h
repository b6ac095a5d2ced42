/* SPDX-License-Identifier: MIT */
/**
 * @file port.h
 * Operations that one thread begins, looks after and gives up: messages, requests, transfers.
 *
 * A port is a thread of the library and a table of the application's functions.  A CPU task that names a port
 * (gantry_task_desc.port) has no body.  When it is ready the port's thread calls `start`, which begins the
 * task's operation; no worker is in between, and none is kept.  The task is AWAITED then, as a detached one
 * (detach.h), until gantry_task_complete() is told the handle of the operation: most often by `look`, which
 * the thread calls again and again.  What that makes ready on the same port is started next, by the same
 * thread.
 *
 * All functions of a table are called on the port's thread alone, which no other thread enters: so what they
 * use needs no lock, and may be bound to one thread.
 *
 * While operations are under way the thread looks all the time, or, in the modes that sleep and when looks
 * have been in vain for some time, with naps of at most 0.5 ms in between.  It gives its CPU away between two
 * looks if the process has more threads than CPUs.  With nothing under way it sleeps, but for SPIN and YIELD,
 * and looks every 10 ms.
 */
#ifndef GANTRY_PORT_H
#define GANTRY_PORT_H

#include <gantry/detach.h>
#include <gantry/taskman.h>

GANTRY_BEGIN_DECLS

/** Begin the operation of `task`, whose gantry_task_arg() is the application's.  It ends with
 *  gantry_task_complete(), which may be called before this returns.  Any status but GANTRY_OK: it was not
 *  begun; the task fails with that, and the handle is good no more.  Must return, and must not block. */
typedef gantry_status (*gantry_port_start_fn)(void *user, gantry_task *task, gantry_detached operation);

/** Look which operations have ended, and complete their tasks.  Also called while none is under way.
 *  Must return, and must not block.
 *  @return whether something has moved: then it is called again without a pause */
typedef bool (*gantry_port_look_fn)(void *user);

/** What a port does; copied. */
typedef struct gantry_port_ops {
    size_t struct_size;         /* sizeof(gantry_port_ops) of the caller */
    gantry_port_start_fn start; /* not NULL */
    gantry_port_look_fn look;   /* not NULL */
    gantry_detach_fn give_up; /* cancel() or the time-out of an operation, at most once for each: stop it and
                               * complete its task.  NULL: nobody is told */
    void *user;               /* for all of them; must be there as long as the port */
} gantry_port_ops;
#define GANTRY_PORT_OPS_INIT                            \
    {                                                   \
        sizeof(gantry_port_ops), NULL, NULL, NULL, NULL \
    }

/** How a port's thread waits, and for how long. */
typedef struct gantry_port_options {
    size_t struct_size;         /* sizeof(gantry_port_options) of the caller */
    gantry_wait_mode wait_mode; /* DEFAULT: HYBRID */
    uint32_t cpu_count;         /* of `cpus` */
    const uint32_t *cpus;       /* where the thread runs; copied.  NULL: where its maker may run */
    uint64_t timeout_ns;        /* of each operation, from its `start` on; 0: none */
    uint64_t grace_ns;          /* between `give_up` and the end of the task; 0: 100 ms */
} gantry_port_options;
#define GANTRY_PORT_OPTIONS_INIT                                        \
    {                                                                   \
        sizeof(gantry_port_options), GANTRY_WAIT_DEFAULT, 0, NULL, 0, 0 \
    }

/** Make a port and start its thread, `gantry port N`.  Any thread.
 *  @param options  NULL: the defaults
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL, no `start` or `look`, no such wait mode, a CPU that may not
 * be used, or a struct_size is too small
 *  @retval GANTRY_ERR_UNSUPPORTED         a field is set that this version does not know
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  no memory, or no thread */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_port_create(const gantry_port_ops *ops,
                                                              const gantry_port_options *options,
                                                              gantry_port **out);

/** End the port's thread.  Tasks that name the port and become ready later fail with GANTRY_ERR_STATE.  Any
 *  thread but those of the library; NULL is ignored.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  with GANTRY_CHECK=handles: no port
 *  @retval GANTRY_ERR_STATE             operations are under way, whose labels the last error has; it was
 * made before a fork; or called from a task or a callback.  Nothing has changed */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_port_destroy(gantry_port *port);

/** Make `text` the calling thread's last error, as a call of the library does that fails: for `start`, whose
 *  task fails with it, and for code that stands between ports and programs, as mpi.h.  Any thread.
 *  @param text  why; copied, at most some 380 bytes of it.  NULL: the text of the status
 *  @return `status`
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  so it is, too: `status` is GANTRY_OK or no gantry_status */
GANTRY_API gantry_status gantry_fail(gantry_status status, const char *text);

GANTRY_END_DECLS

#endif
