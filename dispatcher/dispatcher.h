/* SPDX-License-Identifier: MIT */
/* Creating and destroying a dispatcher, for context/. */
#ifndef DISPATCHER_DISPATCHER_H
#define DISPATCHER_DISPATCHER_H

#include "dispatcher/streams_max.h"

#include <gantry/context.h>
#include <gantry/dispatcher.h>
#include <gantry/heap.h>
#include <gantry/taskman.h>

struct gy_context;
struct gy_copier;
struct gy_gpu_time;
struct gy_partitions;

struct gy_dispatcher_config {
    gantry_context *owner;            /* what gantry_launch_context() returns */
    struct gy_context *context;       /* borrowed; outlives the dispatcher */
    gantry_heap *heap;                /* borrowed */
    struct gy_copier *copier;         /* borrowed */
    struct gy_gpu_time *time;         /* borrowed */
    struct gy_partitions *partitions; /* borrowed */
    uint32_t stream_limit;            /* 1 … GY_STREAMS_MAX */
    gantry_wait_mode wait;            /* of its threads; never GANTRY_WAIT_DEFAULT */
    gantry_submission submission;     /* never GANTRY_SUBMISSION_DEFAULT */
    bool device_wide;                 /* sync points instead of waits */
    bool synchronous;                 /* wait for the GPU after every launch call */
    bool single_stream;               /* everything on one stream, to begin with */
};

/* Which way is meant by `asked`, which is one of the enum?  GANTRY_SUBMISSION_DEFAULT is what
 * $GANTRY_SUBMISSION says, and without it GY_SUBMISSION_UNASKED; any other is itself.  ERR_INVALID_ARGUMENT:
 * the variable names no way. */
#define GY_SUBMISSION_UNASKED GANTRY_SUBMISSION_AUTO
GANTRY_MUST_CHECK gantry_status gy_submission_find(gantry_submission asked, gantry_submission *out);

GANTRY_MUST_CHECK gantry_status gy_dispatcher_create(const struct gy_dispatcher_config *config,
                                                     gantry_dispatcher **out);

/* Release queued tasks as FAILED, wait for the GPU, stop all threads, free.  NULL is ignored. */
void gy_dispatcher_destroy(gantry_dispatcher *dispatcher);

/* The application destroys the context.  False: nobody uses the dispatcher any more, it may be destroyed.
 * True: task managers still do; the context is lost now, and the GPU done with what was launched;
 * `last(user)` is called when the last of them is destroyed, which may be before this returns. */
bool gy_dispatcher_abandon(gantry_dispatcher *dispatcher, void (*last)(void *user), void *user);

#endif
