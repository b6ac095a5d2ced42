/* SPDX-License-Identifier: MIT */
/* The maker: a thread that instantiates executable graphs and brings them to the device, so that the
 * dispatcher's thread can let other work go meanwhile, and their first launch is as short as any.
 *
 *            ask (GD)             the thread takes them         each has been made, or has failed
 *     IDLE ------------> ASKED -------------------> MAKING -----------------------------------> DONE
 *       ^                                                                                        |
 *       +----------------------------------------------------------------------------------------+
 *                                              take (GD), which waits for them
 *
 * The graphs of one batch at a time: GD waits for them before it launches anything else as a graph.  What
 * they refer to (functions, memory) belongs to a batch that was not launched yet, so nobody may unload or
 * free it. The thread begins with the first graph.  Closing waits for those that are asked for or being made.
 *
 * The dispatcher's thread (GD) calls all functions. */
#ifndef WORK_MAKER_H
#define WORK_MAKER_H

#include "base/status.h"
#include "base/thread.h"
#include "work/exec.h"

#include <stdatomic.h>

#define GY_MAKER_MOST 32u /* graphs of one batch */

enum gy_maker_state { GY_MAKER_IDLE, GY_MAKER_ASKED, GY_MAKER_MAKING, GY_MAKER_DONE };

struct gy_maker {
    struct gy_context *context; /* immutable */
    gy_mutex lock;              /* rank LEAF */
    gy_cond changed;            /* the state, or `closing` */
    _Atomic(uint32_t) state;    /* enum gy_maker_state: enter() of maker.c is the only writer, under lock */
    bool closing;               /* guarded by lock */
    bool is_running;            /* GD only: the thread was started */
    gy_thread thread;           /* GD only */
    uint32_t count;             /* ASKED, MAKING: the thread's; else GD's */
    CUstream uploads;           /* IDLE: GD's, else the thread's; NULL: nothing was uploaded yet */
    struct gy_exec execs[GY_MAKER_MOST]; /* ASKED, MAKING: the thread's; else GD's */
    struct gy_error cause;               /* MAKING: the thread's; else GD's; why the latest that failed did */
    uint64_t made;                       /* GD only: taken, in all */
    _Atomic(uint64_t) uploaded; /* atomic; written by the thread: of these, those that it has uploaded */
};

GANTRY_MUST_CHECK gantry_status gy_maker_init(struct gy_maker *maker, struct gy_context *context);
/* The context is current, and nothing is asked for any more; what was not taken is destroyed. */
void gy_maker_fini(struct gy_maker *maker);

/* IDLE: begin to make `count` executable graphs, of which there are the graphs and the shapes: they are the
 * maker's until they are taken.  False: there is no thread for it, and nothing was asked for. */
GANTRY_MUST_CHECK bool gy_maker_ask(struct gy_maker *maker, const struct gy_exec *execs, uint32_t count);
static inline enum gy_maker_state gy_maker_state(const struct gy_maker *maker)
{
    return (enum gy_maker_state)atomic_load_explicit(&maker->state, memory_order_acquire);
}

/* They are asked for, and not ready. */
static inline bool gy_maker_is_busy(const struct gy_maker *maker)
{
    const enum gy_maker_state state = gy_maker_state(maker);
    return state == GY_MAKER_ASKED || state == GY_MAKER_MAKING;
}

/* IDLE: the context is about to get another home: the stream of before is destroyed.  The context is current.
 */
void gy_maker_move(struct gy_maker *maker);

/* Sleep until they are ready, but not beyond `until_ns` of gy_clock_ns(). */
void gy_maker_wait_until(struct gy_maker *maker, uint64_t until_ns);
/* Not IDLE: wait until they are ready, and take them, in the order in which they were asked for.  Of one that
 * was not made, and of those behind it, `native` is NULL; maker->cause says why, until the next ones are
 * asked for. */
void gy_maker_take(struct gy_maker *maker, struct gy_exec *out);

#endif
