/* Tasks that wait until the GPU has done something: gantry_task_start_after_done(). */
#ifndef DISPATCHER_WHEN_DONE_H
#define DISPATCHER_WHEN_DONE_H

#include "dispatcher/internal.h"

/* `successor` starts when the GPU has passed everything in `wait_set`, where `predecessor`'s work is: takes
 * over a reference on it, and gives that back then.  False: the host has seen it pass, the reference is still
 * the caller's.  Only the dispatcher's thread calls it. */
bool gy_when_done(struct gantry_dispatcher *dispatcher, const gantry_task *predecessor, uint64_t wait_set,
                  gantry_task *successor);

/* See struct gy_gpu_ops. */
bool gy_is_unawaited(gantry_dispatcher *self, uint64_t wait_set);

#endif
