/* SPDX-License-Identifier: MIT */
/* The order around the graph of a batch, while it is built and after.
 *
 * A stream that gets work becomes a *member* of the graph: its work is noted on its lane (work/nodes.h),
 * and events and waits between members are sets of nodes.  The stream of the first member is the graph's
 * *home*: there it will be launched, so it comes after what is on that stream.  What other members have on
 * their streams, and timeline points that tasks come after and that are not in the graph, are waited for
 * there at once, each with its event.  Waits between members are edges of the graph.
 *
 *      plain of a  ──┬──────────[ the graph: a, b, c ]──●───────►     ● its end: an event on the home a
 *      plain of b  ──┘ (wait)                           ┊             b waits for it before it gets more work
 *      plain of c  ── (nothing was on it)               ┊
 *      plain of d  ─────────────────────────────────────┊───────►     d is no member: it goes on beside it
 *
 * When it was launched, an event behind it is the end of all timeline points of its members.  A member's
 * plain stream waits for that before it gets other work (`behind`), and so does whoever waits for a timeline
 * point of it.  The next graph with the same home needs no wait at all.
 *
 * Members of another partition than the home's wait for the end at once, so that everything on the streams of
 * a partition is all the work that it has.
 *
 * Everything here belongs to the dispatcher's thread. */
#ifndef DISPATCHER_ORDER_BATCH_ORDER_H
#define DISPATCHER_ORDER_BATCH_ORDER_H

#include "dispatcher/order/streams.h"

/* From now on streams that get work become members, and their work is noted in `nodes`.  `by_lanes`: each
 * launch of the graph is noted anew, and the driver has the nodes that lane_order.h needs. */
void gy_batch_begin(struct gy_streams *streams, struct gy_nodes *nodes, bool by_lanes);

/* Does work that comes after `wait_set` come after work in the graph? */
bool gy_batch_reaches(const struct gy_streams *streams, uint64_t wait_set);
/* Does any timeline point of `clock`? */
bool gy_batch_holds_any(const struct gy_streams *streams, const struct gy_clock *clock);

/* Between these two calls streams that are no members get work as if no graph were being built: it goes ahead
 * of the graph.  Nothing of it may come after work in the graph, nor may anything be a sync point. */
void gy_batch_suspend(struct gy_streams *streams);
void gy_batch_resume(struct gy_streams *streams);

/* The stream on which the graph is to be launched; it has members. */
CUstream gy_batch_home(const struct gy_streams *streams);
uint32_t gy_batch_partition(const struct gy_streams *streams); /* of that stream */
/* It was launched there.  Or it never will be: its members come after all that it would have. */
GANTRY_MUST_CHECK gantry_status gy_batch_launched(struct gy_streams *streams);
GANTRY_MUST_CHECK gantry_status gy_batch_dropped(struct gy_streams *streams);

/* The context is lost: there are no members any more. */
void gy_batch_abandon(struct gy_streams *streams);

#endif
