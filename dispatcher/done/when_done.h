/* SPDX-License-Identifier: MIT */
/* Tasks that wait until the GPU has done something: gantry_task_start_after_done(). */
#ifndef DISPATCHER_DONE_WHEN_DONE_H
#define DISPATCHER_DONE_WHEN_DONE_H

#include "base/hints.h"

#include <gantry/dispatcher.h>

struct gy_round;

/* `successor` starts when the GPU has passed everything in `wait_set`, where `predecessor`'s work is: takes
 * over a reference on it, and gives that back then.  False: the host has seen it pass, the reference is still
 * the caller's.  Only the dispatcher's thread calls it. */
bool gy_when_done(struct gantry_dispatcher *dispatcher, const gantry_task *predecessor, uint64_t wait_set,
                  gantry_task *successor);

/* The completions of a task come right behind its work, on its stream or as nodes of its lane, before the
 * stream goes on: those that its calls have asked for, and those that its release has, for the tasks that
 * start after it is done.  Not so while another task has calls left on the stream, and in a unit that is
 * recorded, whose graph is launched again with other completions: those come at the flush, behind what the
 * stream has by then. */
GY_RARE void gy_gd_note_ends(struct gantry_dispatcher *dispatcher, const struct gy_round *round,
                             uint32_t stream);
/* A sync point was released: completions that are asked for there come behind what is on their streams. */
void gy_gd_note_all_ends(struct gantry_dispatcher *dispatcher, const struct gy_round *round);

/* See struct gy_gpu_ops. */
bool gy_is_unawaited(gantry_dispatcher *self, uint64_t wait_set);

#endif
