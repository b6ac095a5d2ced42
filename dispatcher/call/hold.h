/* SPDX-License-Identifier: MIT */
/* Does a call of a launch function wait for the whole CUDA context, as by cuCtxSynchronize()?
 *
 * The driver does not tell.  So before the call a host function is enqueued on a stream of its own, which
 * holds the context up until the call has returned, but no longer than GY_HOLD_NS.  If the call returns
 * before that, it has not waited.  Else it has, or it has freed memory (cuMemFree() waits), or it has simply
 * taken so long.
 *
 *      begin          end: the call has not waited
 *     ───────► HELD ───────────────────────────────► LET_GO
 *                └───── GY_HOLD_NS later ──────────► GIVEN_UP     the call may have waited
 *
 * It is used again when the host function has ended (is_over).
 *
 * Nobody waits for a hold: the host function may come late, when work of other streams is before it.
 *
 * Of the dispatcher's thread (GD), but for the host function. */
#ifndef DISPATCHER_CALL_HOLD_H
#define DISPATCHER_CALL_HOLD_H

#include "driver/context.h"

#define GY_HOLDS 16u /* so many calls one after the other can be told */

enum gy_hold_state { GY_HOLD_HELD, GY_HOLD_LET_GO, GY_HOLD_GIVEN_UP };
enum gy_hold_answer { GY_HOLD_UNKNOWN, GY_HOLD_DID_NOT_WAIT, GY_HOLD_MAY_HAVE_WAITED };

struct gy_hold {
    _Atomic(uint32_t) state; /* atomic; enum gy_hold_state */
    _Atomic(bool) has_begun; /* atomic; the host function has, */
    _Atomic(bool) is_over;   /* atomic; and has ended, or there was none */
    uint64_t until_ns;       /* written before the host function is enqueued */
};

struct gy_holds {
    struct gy_context *context; /* immutable */
    uint64_t limit_ns;          /* immutable, but in tests: GY_HOLD_NS */
    unsigned forks;             /* immutable: gy_thread_forks() of the process that holds */
    _Atomic(CUstream) stream;   /* atomic; NULL: it was not needed yet */
    struct gy_hold holds[GY_HOLDS];
    struct gy_hold *current; /* GD only; of the call that is being made; NULL: none */
    uint32_t next;           /* GD only */
};

void gy_holds_init(struct gy_holds *holds, struct gy_context *context);
/* The device is done, or the context is lost.  The stream goes; it is made again when it is needed. */
void gy_holds_forget(struct gy_holds *holds);

/* Make the stream before it is needed, which takes the driver some time.  Any thread; the context is current.
 */
void gy_holds_prepare(struct gy_holds *holds);

/* Before the call; the context is current. */
void gy_hold_begin(struct gy_holds *holds);
/* After it. */
enum gy_hold_answer gy_hold_end(struct gy_holds *holds);

#endif
