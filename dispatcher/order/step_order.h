/* SPDX-License-Identifier: MIT */
/* The order between the steps of one task manager: GPU work of a step comes after GPU work of the step
 * before.
 *
 * The dispatcher thread notes for each manager the last timeline point that a step has closed on each stream.
 * A GPU task that has no GPU work of its own step before it makes its stream wait for what the earlier steps
 * have left; a task behind such a task is ordered through it.  What the host has seen finished, what lies
 * before a barrier and what another of these timeline points implies is not waited for.
 *
 * The first task of a step that has something to wait for collects all of it on its stream and records one
 * event there, the fence; the other tasks of the step wait for the fence alone.  So a step costs one event
 * per stream that the step before has used, and one wait per stream that it begins on.  Work that is all of
 * a frozen graph records no fence: should more be submitted while it runs, that waits for what the first
 * waited for, and for what has followed it on its stream.
 *
 * A graph comes after all of it as a whole.  Only if more work of the step is to come when it is launched, a
 * fence is recorded in front of it: behind it the graph would be waited for, too.
 *
 * An independent task need not come after the step just before its own.  It comes after all older steps, in
 * the same way, with a fence of their own: so of two buffers in turn each is written when its reader, two
 * steps ago, has ended.  Where a step has such tasks, each lane of its graphs waits for itself.
 *
 * Everything belongs to the dispatcher thread, except what is marked. */
#ifndef DISPATCHER_ORDER_STEP_ORDER_H
#define DISPATCHER_ORDER_STEP_ORDER_H

#include "dispatcher/order/streams.h"
#include "taskman/gpu_ops.h"

/* What work of a step comes after, of the steps before it. */
struct gy_step_bound {
    struct gy_clock before;       /* what those have left and may not have ended */
    bool is_fenced;               /* `fence` was recorded in this step */
    struct gy_stream_event fence; /* comes after all of `before` */
};

struct gy_gpu_order {
    struct gy_stream_owner owner; /* first */
    struct gy_gpu_order *
        *members;               /* immutable; of a fleet: the order on each device, and no more; else NULL */
    struct gy_streams *streams; /* immutable */
    bool has_peers;             /* immutable; the manager has such an order on other devices, too */
    uint64_t run;               /* the manager's step that `during` is about; 0: none yet */
    struct gy_step_bound bounds[GY_BOUNDS]; /* by enum gy_step_bound_of */
    uint64_t latest;                      /* bit s: the step just before this one has put work on stream s */
    struct gy_clock during;               /* what this step has closed so far, and */
    uint64_t closed;                      /* the number of its points */
    const struct gantry_taskman *manager; /* whose it is; NULL: no task of it was in a graph by lanes */
    _Atomic(uint64_t) clear; /* atomic; in this step nothing is left of those before; 0: not known */
};

/* Any thread.  NULL: out of host memory. */
struct gy_gpu_order *gy_step_order_open(struct gy_streams *streams);
/* Give the manager, of which no task is on its way, streams that no other manager gets, so that what holds
 * one of them up holds up no other manager.  False: there are none.  Any thread. */
bool gy_step_order_isolate(struct gy_gpu_order *order);
/* The streams have gone, and the GPU has passed all that was on them: nothing is left of earlier steps, and
 * streams that no other manager gets have to be asked for anew.  No task of the manager is on its way. */
void gy_step_order_forget(struct gy_gpu_order *order);
/* No task of the manager is left.  Any thread. */
void gy_step_order_close(struct gy_gpu_order *order);

/* Before work of step `run` is enqueued on `stream`, which has met its barrier: order it behind the steps
 * that `bound` means.  `is_all`: it is all the GPU work that the step will have. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_step_order_enter(struct gy_gpu_order *order, uint64_t run,
                                                            enum gy_step_bound_of bound, uint32_t stream,
                                                            bool is_all);

/* The graph that is being built will be launched now, or work of step `run` goes to `stream`, which is no
 * member: if more GPU work of the step is to come, leave it a fence in front of that. */
GANTRY_MUST_CHECK gantry_status gy_step_order_fence_graph(struct gy_streams *streams);
GANTRY_MUST_CHECK gantry_status gy_step_order_fence(struct gy_gpu_order *order, uint64_t run,
                                                    uint32_t stream);

/* The work that those steps before `run` have left and that may not have ended; NULL: there is none. */
const struct gy_clock *gy_step_order_left(struct gy_gpu_order *order, uint64_t run,
                                          enum gy_step_bound_of bound);
/* Any thread: nothing, as was seen already. */
static inline bool gy_step_order_is_clear(const struct gy_gpu_order *order, uint64_t run)
{
    return atomic_load_explicit(&order->clear, memory_order_acquire) == run;
}
/* Does work of step `run` come after work in the graph that is being built, by the order of steps? */
bool gy_step_order_reaches(const struct gy_gpu_order *order, uint64_t run);

/* Its timeline points are on the streams, and it has a fence only in a step. */
bool gy_step_order_is_valid(const struct gy_gpu_order *order);

/* A new step begins; `previous`: the manager's step just before, 0 where that is not known: then an
 * independent task comes after all steps. */
GY_RARE void gy_step_order_begin(struct gy_gpu_order *order, uint64_t run, uint64_t previous);

/* The claim of a task of step `run` to a stream: what the steps that it comes after have put on
 * streams is before it. */
static inline struct gy_stream_claim gy_step_order_claim(struct gy_gpu_order *order, uint64_t run,
                                                         uint64_t previous, enum gy_step_bound_of bound)
{
    if (__builtin_expect(order->run != run, 0)) {
        gy_step_order_begin(order, run, previous);
    }
    const bool is_beside = bound == GY_BOUND_OLDER;
    return (struct gy_stream_claim){&order->owner, ~(order->during.streams | (is_beside ? order->latest : 0)),
                                    is_beside};
}

/* Work of step `run` is in front of the tail of `stream`, which is `s`. */
static inline void gy_step_order_note_at(struct gy_gpu_order *order, uint64_t run, uint32_t stream,
                                         const struct gy_stream *s)
{
    if (__builtin_expect(order->run != run, 0)) {
        gy_step_order_begin(order, run, 0);
    }
    order->closed++;
    order->during.streams |= UINT64_C(1) << stream;
    order->during.seq[stream] = s->tail;
}

#endif
