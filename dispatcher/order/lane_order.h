/* SPDX-License-Identifier: MIT */
/* The order of lanes: how the parts of a graph come after work of their own step, and how that comes after
 * them.
 *
 * A graph is launched on one stream, its home, and begins when all is over that is there.  That is right for
 * what the whole step comes after: earlier steps, barriers, the turns of shares.  It is not for work of the
 * step itself: on streams each task waits for what it comes after, and for nothing else, and a kernel may
 * spin until the host has seen the end of a task that has nothing to do with it.  So where a step becomes
 * several graphs, each lane waits for itself, by a node, and tells its end by itself, by another one.
 *
 *      home a ──[ lane a: A1 ───── end of a ]──────►     home c ──[ end of a ──► A2 ]──►   A2 comes after A1,
 *               [ lane b: B1 ─────────────── ]                                             and not after B1
 *
 * A lane waits for an event by a node when its task comes after work of the same step that is not in the
 * graph, and when its stream has such work.  A lane ends with an event when a task has calls left on its
 * stream, or when dependents of its latest task were not called, other than those that a completion in
 * the graph tells.  It has such events behind earlier tasks as well, of which dependents were not called,
 * though it has gone on: behind the first GY_LANE_LEFT of these.  Whoever comes after that waits for this
 * event; other members are told by the end of the graph. A step whose tasks all come in one batch has neither
 * node.
 *
 * No node waits for the record of its own launch, nor for a later one.  The launch of a graph takes the
 * latest record of each event that a lane of it waits for, and these were made before its waits were noted:
 * work that is noted has no event but on lanes of the same graph.  An event that a lane of the batch waits
 * for is not taken for an end of it; one that was taken before is waited for on the home, at once, for the
 * record that is there.  So all other batches have taken their records when an end is recorded again, and
 * there need not be more events than a batch waits for.  With eight of them, one of which is the latest, a
 * lane may be waited for where it ended seven graphs ago, if each graph records one; beyond that, and where
 * all eight are in use in a batch, it is waited for a little longer than need be: a lane comes after its own
 * earlier ends, and a graph after its lanes.  Hence ends of lanes and ends of graphs have events of their
 * own: neither kind comes after the other.
 *
 * What is on the home comes after the whole graph.  So tasks do not inherit it while other work of the graph
 * may go on, and the next graph of the step is launched on another stream (gy_lane_order_find_home()).
 *
 * Everything here belongs to the dispatcher's thread. */
#ifndef DISPATCHER_ORDER_LANE_ORDER_H
#define DISPATCHER_ORDER_LANE_ORDER_H

#include "dispatcher/order/streams.h"

/* Is the latest that the plain stream comes after a graph, without a timeline point behind it? */
static inline bool gy_lane_order_bears_graph(const struct gy_stream *stream)
{
    return stream->state != GY_STREAM_BEHIND && stream->held.by != NULL && stream->held.tail == stream->tail;
}
/* Is the stream's latest work, or such a graph, of the step for whose task a stream gets ready?  Or of a step
 * of the manager before it, where that has tasks that need not come after the step before. */
bool gy_lane_order_is_of_step(const struct gy_streams *streams, const struct gy_stream *stream);
/* Would a graph that is launched on the plain stream wait for work of that step, or for a graph that it does
 * not come after? */
bool gy_lane_order_is_held_up(const struct gy_streams *streams, uint32_t stream);

/* A stream on which a graph can be launched whose first member is `stream`, so that the graph comes after no
 * work of its own step; `stream` itself when there is no better one. */
GANTRY_MUST_CHECK gantry_status gy_lane_order_find_home(struct gy_streams *streams, uint32_t stream,
                                                        uint32_t *out);

/* The batch will be launched now.  If a task has calls left on its home, which may go on beside the graph, or
 * has got that stream since and is no member, it is launched on another stream, behind what is on the home.
 */
GANTRY_MUST_CHECK gantry_status gy_lane_order_leave_home(struct gy_streams *streams);

/* The lane of a stream that becomes a member comes after the stream's work of the same step. */
GANTRY_MUST_CHECK gantry_status gy_lane_order_enter(struct gy_streams *streams, uint32_t stream);

/* The batch will be launched soon: note the ends of its lanes, where they are needed.  More may be noted
 * behind them; then the function is called again. */
void gy_lane_order_note_ends(struct gy_streams *streams);

/* The graph was launched.  While the batch's clock is only what the whole graph comes after: find what the
 * ends come after that are behind tasks that the lane has left behind. */
void gy_lane_order_learn_left(const struct gy_streams *streams, struct gy_stream *stream);
/* These ends are the stream's from now on. */
void gy_lane_order_keep_left(struct gy_stream *stream);

#endif
