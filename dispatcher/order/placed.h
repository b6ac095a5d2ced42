/* SPDX-License-Identifier: MIT */
/* The sequence in which work gets onto a stream, whoever puts it there: a task, a unit of a frozen graph, or
 * nothing at all, where points of several streams are joined.  A rule of order goes here.
 *
 *    assign   it gets a stream by the rules of the pool
 *    order    the stream comes after the barrier, what the work comes after, and the steps before its own
 *             (the caller enters shares and enqueues the work, or has it noted)
 *    close    the work gets its timeline point, which its owner and its step know
 *
 * Everything belongs to the dispatcher thread. */
#ifndef DISPATCHER_ORDER_PLACED_H
#define DISPATCHER_ORDER_PLACED_H

#include "dispatcher/order/step_order.h"
#include "taskman/gpu_task.h"

struct gy_placed {
    const gantry_task *task; /* the first that is in it; NULL: none is */
    uint32_t tasks;          /* so many of its manager are */
    uint32_t partition;      /* where it goes */
};

/* gy_task_order() on the device of the streams; NULL: it has none. */
static inline struct gy_gpu_order *gy_placed_order_of(const struct gy_streams *streams,
                                                      const gantry_task *task)
{
    struct gy_gpu_order *order = task != NULL ? gy_task_order(task) : NULL;
    return order != NULL && order->members != NULL ? order->members[streams->device] : order;
}

/* Whose streams it gets. */
static inline struct gy_stream_claim gy_placed_claim(const struct gy_streams *streams,
                                                     const gantry_task *task)
{
    struct gy_gpu_order *order = gy_placed_order_of(streams, task);
    return (struct gy_stream_claim){.owner = order != NULL ? &order->owner : NULL};
}

/* `bound`: the steps behind which its stream is looked for; GY_BOUND_NONE where it has no order. */
GANTRY_MUST_CHECK static GY_INLINE gantry_status gy_placed_assign(struct gy_streams *streams,
                                                                  const struct gy_placed *work,
                                                                  uint64_t wait_set,
                                                                  enum gy_step_bound_of bound, uint32_t *out)
{
    struct gy_stream_claim claim = gy_placed_claim(streams, work->task);
    if (bound != GY_BOUND_NONE) {
        claim = gy_step_order_claim(gy_placed_order_of(streams, work->task), gy_task_run(work->task),
                                    gy_task_previous_run(work->task), bound);
    }
    return gy_streams_assign(streams, wait_set, work->partition, &claim, out);
}

/* The part of gy_placed_order() that is about steps. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_placed_enter_step(const struct gy_streams *streams,
                                                             const struct gy_placed *work,
                                                             enum gy_step_bound_of bound, uint32_t stream);

/* `bound`: the steps that it comes after as a whole; as above. */
GANTRY_MUST_CHECK static GY_INLINE gantry_status gy_placed_order(struct gy_streams *streams,
                                                                 const struct gy_placed *work,
                                                                 uint64_t wait_set,
                                                                 enum gy_step_bound_of bound, uint32_t stream)
{
    gantry_status status = gy_streams_wait_barrier(streams, stream);
    status = status == GANTRY_OK ? gy_streams_wait(streams, stream, wait_set) : status;
    return status == GANTRY_OK && bound != GY_BOUND_NONE ? gy_placed_enter_step(streams, work, bound, stream)
                                                         : status;
}

/* `s` is the stream; `dependents` and `hosts` as gy_streams_finish_at() has them. */
GANTRY_MUST_CHECK static GY_INLINE gantry_status gy_placed_close(struct gy_streams *streams,
                                                                 const struct gy_placed *work,
                                                                 uint32_t stream, struct gy_stream *s,
                                                                 uint32_t dependents, uint32_t hosts,
                                                                 uint64_t *out_point)
{
    const gantry_status status = gy_streams_finish_at(streams, stream, s, dependents, hosts, out_point);
    struct gy_gpu_order *order = gy_placed_order_of(streams, work->task);
    s->owner = order != NULL ? &order->owner : NULL;
    if (order != NULL) {
        gy_step_order_note_at(order, gy_task_run(work->task), stream, s);
    }
    return status;
}

/* Points of several streams are joined, as for work that has nothing to enqueue and belongs to nobody.
 * GY_WAIT_SET_NONE comes out for the point where no stream was found. */
GANTRY_MUST_CHECK gantry_status gy_placed_join(struct gy_streams *streams, uint64_t wait_set,
                                               uint32_t partition, uint32_t dependents, uint32_t hosts,
                                               uint32_t *stream, uint64_t *out_point);

#endif
