/* SPDX-License-Identifier: MIT */
/* Calls whose work is noted for a graph: which calls these are, what is done before and after them, and the
 * launch of the graph.  The modes BATCH and RECORDING of mode.h. */
#ifndef DISPATCHER_CALL_CAPTURE_H
#define DISPATCHER_CALL_CAPTURE_H

#include "copykernel/queue.h"
#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"

/* Before a call in a round whose calls are not all alike: decide whether its batch goes on, begins or is cut,
 * and choose the call's mode. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_capture_choose_any(struct gantry_launch *launch);
GANTRY_MUST_CHECK static GY_INLINE gantry_status gy_capture_choose(struct gantry_launch *launch,
                                                                   const struct gantry_dispatcher *d,
                                                                   const struct gy_round *round)
{
    const bool goes_on = gy_batch_is_open(&d->streams.batch) && round->recording == NULL &&
                         gy_graphs_takes(&d->graphs, gy_task_launch_fn(launch->task));
    if (__builtin_expect(!goes_on, 0)) {
        return gy_capture_choose_any(launch);
    }
    launch->trust = GY_TRUST_OURS;
    gy_mode_set(launch, GY_MODE_BATCH); /* most calls are like the one before */
    return GANTRY_OK;
}
/* After the first call of a function, which has not failed: learn what it has asked for, and whether it waits
 * for the whole context.  Where that is not known it has not been met. */
void gy_capture_meet(struct gantry_launch *launch, enum gy_hold_answer answer);
/* The log says that the callback asks for its stream, for which auto does not capture it. */
GY_COLD void gy_capture_tell_asks(const struct gantry_launch *launch);

/* Note what there is to go back to, should the call have to be made again. */
static inline void gy_capture_note_state(struct gantry_launch *launch, const struct gantry_dispatcher *d,
                                         struct gy_lane *lane)
{
    launch->lane = launch->home = lane;
    launch->nodes = lane->nodes->count;
    launch->last = lane->last;
    launch->refusals = *d->loop.refusals;
    launch->flushed = d->graphs.flushed;
    launch->kernels = atomic_load_explicit(&d->counters.works[GD_KERNELS], memory_order_relaxed);
    launch->copies = atomic_load_explicit(&d->counters.works[GD_COPIES], memory_order_relaxed);
    launch->frees.begin = launch->frees.end = gy_deferred_next(&d->deferred, launch->stream_index);
}

/* The same for a call in the batch, which is counted before it is made: it may end the batch itself. */
static inline void gy_capture_note_call(struct gantry_launch *launch, struct gantry_dispatcher *d,
                                        const gantry_task *task, struct gy_stream *s)
{
    gy_launch_gate_note(&d->graphs.gate, gy_task_manager(task));
    d->graphs.size.calls++;
    gy_nodes_name(&d->graphs.batch, gy_task_name(task) + ((launch->index & UINT16_MAX) << 16));
    gy_capture_note_state(launch, d, &s->lane.to);
}

/* Before a call that is noted, for the graph or ahead of it, when everything else is ready. */
GANTRY_MUST_CHECK gantry_status gy_capture_before(struct gantry_launch *launch);
GANTRY_MUST_CHECK gantry_status gy_capture_before_ahead(struct gantry_launch *launch);
/* The driver has refused a call that the noted call has made. */
static inline bool gy_capture_was_refused(const struct gantry_launch *launch,
                                          const struct gantry_dispatcher *d)
{
    return *d->loop.refusals != launch->refusals;
}
/* After the call: nothing was refused, and there is nothing to look at or to learn.  Else the functions below
 * decide what becomes of the call.  The work of one that goes ahead of the batch is enqueued. */
static inline bool gy_capture_took(const struct gantry_launch *launch, const struct gantry_dispatcher *d,
                                   gantry_launch_result result)
{
    return result != GANTRY_LAUNCH_FAILED && launch->mode == GY_MODE_BATCH && launch->spoilt == NULL &&
           !gy_capture_was_refused(launch, d) && d->graphs.may_lend;
}
gantry_launch_result gy_capture_after(struct gantry_launch *launch, gantry_launch_result result);
gantry_launch_result gy_capture_after_ahead(struct gantry_launch *launch, gantry_launch_result result);

/* Launch the nodes that are noted, if a graph is being built. */
gantry_status gy_capture_end(struct gantry_dispatcher *d);
/* Launch them before the end of the batch; the rest of the batch may begin another graph. */
gantry_status gy_capture_cut(struct gantry_dispatcher *d);

/* In a callback: the work it enqueues from now on goes to the plain stream.  Nothing happens if it goes
 * there already. */
GY_COLD gantry_status gy_capture_leave(struct gantry_launch *launch);
/* The same if the call goes ahead of its batch: what follows is about that, too. */
static inline gantry_status gy_capture_leave_ahead(struct gantry_launch *launch)
{
    return launch->mode == GY_MODE_AHEAD ? gy_capture_leave(launch) : GANTRY_OK;
}
/* In a callback: what follows cannot be captured, neither now nor in later calls of this callback. */
GANTRY_MUST_CHECK gantry_status gy_capture_leave_for_good(struct gantry_launch *launch, const char *why);

#endif
