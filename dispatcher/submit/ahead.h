/* SPDX-License-Identifier: MIT */
/* Work that goes ahead of the batch that is being built.
 *
 * While callbacks of a batch are called, a task of another partition may become ready.  It must not wait for
 * the rest of them, and for the graph that is made of them: it has SMs of its own.  So before each callback
 * the tasks that have come for other partitions are looked at.  A few are called at once, and what they
 * enqueue goes to their streams; the batch stays open.
 *
 *     intake ── of the round's partition, or no batch is open ──► bins
 *            ── of another one (*) ──► ahead ── a few, and nothing of the batch is before them ──► called
 *                                        ── else ──► later: a round of its own
 *
 * (*) While the batch's executable graph is made (work/maker.h), also of another manager.
 *
 * Many are better off as a graph of their own, so they wait for a round.  If their partition has a greater
 * priority, the round that is under way ends for them at once. */
#ifndef DISPATCHER_SUBMIT_AHEAD_H
#define DISPATCHER_SUBMIT_AHEAD_H

#include "dispatcher/internal.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/submit/batch_key.h"
#include "dispatcher/submit/round.h"

/* Shall the ready task, which has a stream, comes after `wait_set` and is not of the round's key, be looked
 * at before the next callback?  Else it goes to its bin; so does one that comes after work in the graph,
 * which becomes part of that. */
static inline bool gy_ahead_concerns(const struct gantry_dispatcher *d, const struct gy_round *round,
                                     const gantry_task *task, uint64_t wait_set)
{
    assert(round->key.is_set && !gy_key_is_of(d, &round->key, task));
    return gy_batch_is_open(&d->streams.batch) &&
           (round->key.partition != gy_gd_partition_index(d, task) ||
            (round->key.manager != gy_task_manager(task) && gy_maker_is_busy(&d->graphs.kept.maker))) &&
           !gy_batch_reaches(&d->streams, wait_set);
}

/* The batch is to be launched: wait until its executable graph is made, and until its partition has no large
 * graph on the device, since other partitions would feel a queue of them; let others go ahead meanwhile.  Not
 * in a call. */
void gy_ahead_await(struct gantry_dispatcher *d, struct gy_round *round);

/* Before a callback: call those that may go ahead; the others are kept for later. */
GY_RARE void gy_ahead_call(struct gantry_dispatcher *d, struct gy_round *round);

#endif
