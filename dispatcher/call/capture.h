/* Calls whose work is noted for a graph: which calls these are, what is done before and after them, and the
 * launch of the graph.  The modes BATCH and RECORDING of mode.h. */
#ifndef DISPATCHER_CALL_CAPTURE_H
#define DISPATCHER_CALL_CAPTURE_H

#include "copykernel/queue.h"
#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"

/* Before a call in a round that is to be a graph: decide whether its batch goes on, begins or is cut, and
 * choose the call's mode. */
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
/* In a round on streams that meets functions: is it the first call of one?  Chooses the call's mode. */
void gy_capture_choose_first(struct gantry_launch *launch);
/* After the first call of a function, which has not failed: learn what it has asked for, and whether it waits
 * for the whole context.  Where that is not known it has not been met. */
void gy_capture_meet(struct gantry_launch *launch, enum gy_hold_answer answer);
/* The log says that the callback asks for its stream, for which auto does not capture it. */
GY_COLD void gy_capture_tell_asks(const struct gantry_launch *launch);

/* Note what there is to go back to, should the call have to be made again. */
static inline void gy_capture_note_state(struct gantry_launch *launch, const struct gantry_dispatcher *d,
                                         struct gy_lane *lane)
{
    launch->lane = lane;
    launch->nodes = lane->nodes->count;
    launch->last = lane->last;
    launch->refusals = *d->refusals;
    launch->flushed = d->graphs.flushed;
    launch->kernels = atomic_load_explicit(&d->counters.kernels, memory_order_relaxed);
    launch->copies = atomic_load_explicit(&d->counters.copies, memory_order_relaxed);
    launch->frees.begin = launch->frees.end = gy_deferred_next(&d->deferred, launch->stream_index);
}

/* The same for a call in the batch, which is counted before it is made: it may end the batch itself. */
static inline void gy_capture_note_call(struct gantry_launch *launch, struct gantry_dispatcher *d,
                                        const gantry_task *task, struct gy_stream *s)
{
    gy_graphs_note_manager(&d->graphs, gy_task_manager(task));
    d->graphs.calls++;
    gy_nodes_name(&d->graphs.batch, gy_task_name(task) + ((launch->index & UINT16_MAX) << 16));
    gy_capture_note_state(launch, d, &s->lane);
}

/* Before a call that is noted, when everything else is ready. */
GANTRY_MUST_CHECK gantry_status gy_capture_before(struct gantry_launch *launch);
/* After the call: nothing was refused, and there is nothing to look at or to learn.  Else the function below
 * decides what becomes of the call. */
static inline bool gy_capture_took(const struct gantry_launch *launch, const struct gantry_dispatcher *d,
                                   gantry_launch_result result)
{
    return result != GANTRY_LAUNCH_FAILED && launch->trust == GY_TRUST_OURS && !launch->asked &&
           launch->spoilt == NULL && *d->refusals == launch->refusals && d->graphs.may_lend && !launch->aside;
}
gantry_launch_result gy_capture_after(struct gantry_launch *launch, gantry_launch_result result);
/* After a call that goes ahead of the batch: enqueue the work that it has noted. */
GANTRY_MUST_CHECK gantry_status gy_capture_play(struct gantry_launch *launch);
/* The place where the call's work is noted. */
static inline struct gy_lane *gy_capture_lane(const struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    return launch->mode == GY_MODE_AHEAD ? &d->graphs.ahead_lane
                                         : &d->streams.streams[launch->stream_index].lane;
}

/* Launch the nodes that are noted, if a graph is being built. */
gantry_status gy_capture_end(struct gantry_dispatcher *d);
/* Launch them before the end of the batch; the rest of the batch may begin another graph. */
gantry_status gy_capture_cut(struct gantry_dispatcher *d);

/* In a callback: the work it enqueues from now on goes to the plain stream.  Nothing happens if it goes
 * there already. */
GY_COLD gantry_status gy_capture_leave(struct gantry_launch *launch);
/* In a callback: what follows cannot be captured, neither now nor in later calls of this callback. */
GANTRY_MUST_CHECK gantry_status gy_capture_leave_for_good(struct gantry_launch *launch, const char *why);

#endif
