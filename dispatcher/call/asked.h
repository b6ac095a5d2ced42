/* SPDX-License-Identifier: MIT */
/* A launch callback is asked what its task accesses, before there is that task.  It is called in the
 * submitter's thread with a launch of no task: copies and fills note what they access there, and enqueue
 * nothing; other functions are refused, and so is the task. */
#ifndef DISPATCHER_CALL_ASKED_H
#define DISPATCHER_CALL_ASKED_H

#include <gantry/copy.h>

struct gy_access_list;

/* The `ask` of struct gy_gpu_ops. */
GANTRY_MUST_CHECK gantry_status gy_asked_call(gantry_dispatcher *d, const gantry_task_desc *desc,
                                              struct gy_access_list *out);

/* For functions whose launch gy_launch_is_asked(). */
gantry_status gy_asked_copy(gantry_launch *launch, const void *to, const void *from, size_t bytes);
gantry_status gy_asked_fill(gantry_launch *launch, const void *to, uint32_t pattern_bytes, size_t count);
gantry_status gy_asked_batch(gantry_launch *launch, const gantry_copy_desc *descs, size_t count);
gantry_status gy_asked_box(gantry_launch *launch, const gantry_copy_box *box);
/* `call` is one that is refused. */
gantry_status gy_asked_refuse(const gantry_launch *launch, const char *call);
/* Likewise; returns NULL. */
void *gy_asked_stream(const gantry_launch *launch, bool plainly);

#endif
