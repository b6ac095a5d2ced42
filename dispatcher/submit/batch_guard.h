/* SPDX-License-Identifier: MIT */
/* The guard of a batch: an empty capture that is open on the dispatcher's thread while callbacks are called
 * whose work is noted.
 *
 * A callback that waits for the GPU or frees memory must not learn that everything is done while work before
 * it is only noted.  Because of the guard the driver refuses such a call, which breaks the guard.
 *
 *     CLOSED ── begin ──► APART (see driver/apart.h) ── end ──► CLOSED
 *     CLOSED ── begin ──► WHOLE ── end ──► CLOSED
 *
 * APART it refuses what a capture forbids its own thread: calls that wait for streams or events, take memory
 * or free it.  Calls on the whole context (cuCtxSynchronize(), cuCtxRecordEvent(), cuCtxWaitEvent()) it does
 * not refuse, to no thread.  WHOLE, in the context itself, those are refused as well, but to all threads:
 * others that know nothing of the batch get an error.  Auto has it APART; graphs mode and recordings have it
 * WHOLE, and so has auto where the driver makes no green context.
 *
 * Of the dispatcher's thread (GD). */
#ifndef DISPATCHER_SUBMIT_BATCH_GUARD_H
#define DISPATCHER_SUBMIT_BATCH_GUARD_H

#include "driver/context.h"

enum gy_batch_guard_state { GY_GUARD_CLOSED, GY_GUARD_APART, GY_GUARD_WHOLE, GY_GUARD_STATES };

struct gy_batch_guard {
    struct gy_context *context;      /* immutable */
    enum gy_batch_guard_state state; /* GD only; written by enter() of batch_guard.c */
    CUstream of[GY_GUARD_STATES]; /* GD only; by state; nothing is enqueued on them; NULL: not needed yet */
};

static inline bool gy_batch_guard_is_valid(const struct gy_batch_guard *guard)
{
    return guard->state == GY_GUARD_CLOSED || guard->of[guard->state] != NULL;
}

void gy_batch_guard_init(struct gy_batch_guard *guard, struct gy_context *context);
/* It is closed.  Destroy the streams; they are made again when they are needed. */
void gy_batch_guard_forget(struct gy_batch_guard *guard);

/* Open it; it is closed.  APART becomes WHOLE where there is no green context. */
GANTRY_MUST_CHECK gantry_status gy_batch_guard_begin(struct gy_batch_guard *guard,
                                                     enum gy_batch_guard_state state);
/* Close it if it is open.  Returns the empty graph, which is the caller's; NULL: there is none. */
CUgraph gy_batch_guard_end(struct gy_batch_guard *guard);
/* It is open, and a call was refused. */
bool gy_batch_guard_is_broken(const struct gy_batch_guard *guard);

#endif
