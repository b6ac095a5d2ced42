/* SPDX-License-Identifier: MIT */
/* A thread that makes calls in the place of one on which libraries keep an error.
 *
 * CUDA's runtime keeps the latest error of each thread until somebody takes it, and reports it from calls
 * that have nothing to do with it; so do libraries that are built upon it.  While a batch is noted the driver
 * refuses what a capture forbids, and a thread on which that has happened is stale:
 *
 *     FRESH ── a noted call was refused something (gy_stale_note()) ──► STALE, as long as the thread lives
 *
 * A callback that were called again there would fail at what is left of the first time, and so would others.
 * So on a stale thread
 *
 *   - calls whose work goes to a stream are made by the stand-in.  It makes no others, so it is always fresh;
 *   - a noted call that fails is made again, as if it had been refused something;
 *   - GD has an heir when its turn of the loop is over, and a guest helps no more.
 *
 * While the stand-in has a call, the thread that asked for it waits and does nothing, so what belongs to GD
 * belongs to the stand-in.
 *
 *     NONE ── the first call ──► IDLE ──► CALLED ──► RETURNED ──► IDLE ──► CLOSING
 *             starts the thread      asked       the callback   taken
 *
 * What it does not do: an application's thread that was a guest keeps the error for its own calls, too.  GD
 * is the dispatcher's thread. */
#ifndef DISPATCHER_CALL_STAND_IN_H
#define DISPATCHER_CALL_STAND_IN_H

#include "base/status.h"
#include "copykernel/queue.h"
#include "taskman/cpu/event.h"

#include <gantry/dispatcher.h>

/* The calling thread is stale. */
extern _Thread_local bool gy_is_stale;

/* In gantry_dispatcher.watching.why, beside parts of base/checking.h: the thread that has the loop is stale.
 */
#define GY_WATCHED_STALE (1u << 30)

/* Calls the callback. */
typedef gantry_launch_result (*gy_stand_in_fn)(struct gantry_launch *launch);

enum gy_stand_in_state {
    GY_STAND_IN_NONE,
    GY_STAND_IN_IDLE,
    GY_STAND_IN_CALLED,
    GY_STAND_IN_RETURNED,
    GY_STAND_IN_CLOSING
};

struct gy_stand_in {
    struct gantry_dispatcher *dispatcher; /* immutable */
    gy_thread thread;                     /* GD only; not NONE: started */
    struct gy_event changed;              /* its own guards; both sides sleep here */
    _Atomic(uint32_t) state;              /* atomic; enter() of stand_in.c is the only writer */
    struct gantry_launch *launch;         /* of who wrote the state: CALLED the stand-in's, else GD's */
    gy_stand_in_fn call;                  /* the same */
    gantry_launch_result result;          /* the same */
    struct gy_error cause;                /* the same; of the callback; status GANTRY_OK: none is known */
    struct gy_copy_call copy_call;        /* the same; what queues know of the call */
};

/* @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_stand_in_init(struct gy_stand_in *stand_in,
                                                 struct gantry_dispatcher *dispatcher);
/* GD has ended. */
void gy_stand_in_fini(struct gy_stand_in *stand_in);

/* GD: the driver has refused something to a call that was made on this thread. */
void gy_stale_note(struct gantry_dispatcher *dispatcher);
/* GD: this thread has the loop now. */
void gy_stale_look(struct gantry_dispatcher *dispatcher);

/* GD: have `call` made, which calls the callback; its work goes to its stream.  Where there is no thread for
 * that, it is made here. */
gantry_launch_result gy_stand_in_call(struct gantry_launch *launch, gy_stand_in_fn call);

#endif
