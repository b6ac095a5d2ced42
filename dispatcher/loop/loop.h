/* SPDX-License-Identifier: MIT */
/* The dispatcher thread (GD): a machine that walks HtoD → Kernel → DtoH → HtoD … over bins of ready tasks.
 *
 * Within a phase every running task's launch callback is called once per pass, in order, until all have
 * ended.  When one ends it is released at once; dependents of the same flavour that became ready by it join
 * the same pass, others wait in their bin.  So three kernel tasks in a row launch exactly what one task with
 * three launches does.  One walk that launches something is a batch.
 *
 * After each pass the inbox is looked at, and a phase is left after so many passes, even if callbacks still
 * have something to launch: then completions are flushed, other flavours have their turn, and the rest goes
 * on in the next walk.  So a callback that returns AGAIN for ever blocks no other task.
 *
 * Completions asked for on the way are flushed when DtoH turns into HtoD, and when nothing is left to do:
 * then somebody may be waiting for them alone.
 *
 * Failure: once the context is lost, everything in the bins and everything that still arrives is released
 * as FAILED, in order of arrival; releasing makes dependents ready, which arrive in turn, until the graph
 * has drained.  Completions already asked for are failed by the completion thread. */
#ifndef DISPATCHER_LOOP_LOOP_H
#define DISPATCHER_LOOP_LOOP_H

#include <gantry/dispatcher.h>

/* GD's body. */
void gy_gd_main(void *dispatcher);

/* The action after a turn: take another, wait for news, or leave for ever. */
enum gd_turn { GD_TURN_AGAIN, GD_TURN_IDLE, GD_TURN_CLOSED };

/* Thread that has the loop: look at everything once and do what there is to do.  `*seen`: the signals up to
 * then. */
enum gd_turn gy_gd_turn(struct gantry_dispatcher *d, uint32_t *seen);

/* Thread that has the loop: is anything left that a turn would go on with? */
bool gy_gd_has_work(const struct gantry_dispatcher *d);

/* No group is open: tasks may be taken from the inbox. */
bool gy_gd_may_read(struct gantry_dispatcher *d);

#endif
