/* SPDX-License-Identifier: MIT */
/* A guest of the dispatcher: the thread that waits for a task manager does the work of the dispatcher's
 * threads for it while these sleep.  It is awake, and they would take tens of microseconds to wake up.
 *
 * There are two kinds of posts, and a guest takes each that nobody holds: the loop of the dispatcher thread
 * (GD), which lies in the inbox (gy_inbox_borrow()), and the lead of each completion ring
 * (gy_completion_lead()).  Who holds a post is its only user; "GD only" and "leader only" mean that thread.
 * A guest that leaves wakes the post's own thread if there is anything left to do, and otherwise lets it
 * sleep on.
 *
 *              look: the post is free             leave
 *   OUTSIDE ------------------------> HOLDS POSTS ------> OUTSIDE
 *
 * tests/models/guest.pml has the loan of the loop.
 *
 * It works for its own manager alone: it cannot return before that in any case, and may hold a lock that
 * callbacks of another manager take.  So it leaves as soon as a step of another manager is open: whose a task
 * is need not be asked, since a step is open before its first task arrives and until its last has ended.  It
 * leaves, too, when its wait is over; in the middle of a batch at the next task, and who has the loop next
 * goes on with that.
 *
 * It leads no ring while it waits for completions itself, since nobody else would look, nor with completions
 * pending while it takes a turn of the loop that may last: there is news, or a batch.  A turn is one round at
 * most.  The turn behind a round is due in any case, and mostly finds nothing; for that nobody is woken.
 *
 * While it holds a post the context is current on its thread, which waits for nothing that a post does
 * (gy_thread_serve()), cannot be cancelled, and may make calls that a capture of its own forbids
 * (CU_STREAM_CAPTURE_MODE_RELAXED).  All of that is as before when it leaves. */
#ifndef DISPATCHER_LOOP_GUEST_H
#define DISPATCHER_LOOP_GUEST_H

#include <gantry/dispatcher.h>

struct gy_gpu_guest;

/* The calling thread is about to wait for something that the completion thread does: if it is a guest that
 * leads rings, a completion thread leads from now on. */
void gy_guest_leave_rings(struct gantry_dispatcher *d);

/* Could the calling thread be a guest now? */
bool gy_guest_may_help(const struct gantry_dispatcher *d);

/* As in struct gy_gpu_guest_ops. */
void gy_guest_enter(gantry_dispatcher *d, struct gy_gpu_guest *guest);
bool gy_guest_look_at_gpu(gantry_dispatcher *d, struct gy_gpu_guest *guest);
void gy_guest_leave(gantry_dispatcher *d, struct gy_gpu_guest *guest);

#endif
