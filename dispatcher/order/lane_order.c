/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/lane_order.h"

#include "dispatcher/order/step_order.h"
#include "dispatcher/order/waits.h"
#include "taskman/manager.h"

#include <assert.h>
#include <string.h>

/* Was the graph that the stream is held by one of the step, or of one that not all of the step comes after?
 */
static bool is_held_beside(const struct gy_batch_order *batch, const struct gy_stream *s)
{
    return s->held.order == batch->order && (batch->is_beside || s->held.run == batch->run);
}

/* A stream on which the task for which it gets ready has made calls is of the step. */
bool gy_lane_order_is_of_step(const struct gy_streams *streams, const struct gy_stream *s)
{
    const struct gy_batch_order *batch = &streams->batch;
    const struct gy_gpu_order *order = batch->order;
    if (s->is_open || (gy_lane_order_bears_graph(s) && is_held_beside(batch, s))) {
        return true;
    }
    return order != NULL && s->owner == &order->owner &&
           (batch->is_beside ||
            (order->run == batch->run && (order->during.streams >> (s - streams->streams) & 1u) != 0));
}

/* Is there a graph on the plain stream that may go on? */
static bool has_graph(const struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    const bool is_there = s->state != GY_STREAM_BEHIND || s->behind.home == stream || s->held.carries;
    return is_there && s->held.by != NULL &&
           (gy_stream_is_held(streams, s) || !gy_stream_has_passed(s, s->held.by->known[stream]));
}

bool gy_lane_order_is_held_up(const struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    const struct gy_batch_order *batch = &streams->batch;
    const bool is_before = s->held.order == batch->order && !is_held_beside(batch, s);
    if (!is_before && has_graph(streams, stream)) {
        return true;
    }
    /* Its own work there: the latest, or what was there before its lane went into a graph elsewhere. */
    return gy_lane_order_is_of_step(streams, s) && !gy_stream_has_passed(s, s->plain.known[stream]);
}

/* Would a graph of the batch that is launched there wait for nothing but what its step comes after, and will
 * nobody inherit the stream who need not wait for that graph? */
static bool is_fit_for_home(const struct gy_streams *streams, uint32_t index)
{
    const struct gy_stream *s = &streams->streams[index];
    const struct gy_batch_order *batch = &streams->batch;
    const bool is_own = (const void *)s->owner == batch->order || s->held.order == batch->order;
    return s->running == 0 && !gy_lane_order_is_held_up(streams, index) &&
           ((is_own && s->dependents.unplaced == 0) || gy_stream_has_passed(s, s->tail));
}

gantry_status gy_lane_order_find_home(struct gy_streams *streams, uint32_t stream, uint32_t *out)
{
    const uint32_t kind = streams->streams[stream].kind;
    *out = stream;
    for (uint32_t i = 0; i < streams->count; i++) {
        if (streams->streams[i].kind == kind && is_fit_for_home(streams, i)) {
            *out = i;
            break;
        }
    }
    const gantry_status status = *out == stream ? gy_streams_add(streams, kind, out) : GANTRY_OK;
    if (status == GANTRY_OK) {
        gy_streams_use(streams, *out);
    }
    return status;
}

/* A stream that is no member on which nothing is that the graph need not come after; `home` itself when there
 * is none. */
static gantry_status find_other_home(struct gy_streams *streams, uint32_t home, uint32_t *out)
{
    const uint32_t kind = streams->streams[home].kind;
    for (uint32_t i = 0; i < streams->count; i++) {
        const struct gy_stream *s = &streams->streams[i];
        if (s->kind == kind && s->state == GY_STREAM_PLAIN && is_fit_for_home(streams, i)) {
            *out = i;
            return GANTRY_OK;
        }
    }
    *out = home;
    return gy_streams_add(streams, kind, out);
}

/* Will a task go on there that need not come after the graph: one with calls left, or one that has got the
 * stream since that became the home, and is no member? */
static bool is_home_of_others(const struct gy_stream *home)
{
    return home->is_open || (home->state != GY_STREAM_MEMBER && home->running != 0);
}

gantry_status gy_lane_order_leave_home(struct gy_streams *streams)
{
    struct gy_batch_order *batch = &streams->batch;
    const struct gy_stream *home = &streams->streams[batch->home];
    if (!batch->by_lanes || !is_home_of_others(home) ||
        (batch->members & ~(UINT64_C(1) << batch->home)) == 0) {
        return GANTRY_OK;
    }
    uint32_t other;
    struct gy_stream_event *event = &streams->streams[batch->home].plain.ring.own[home->plain.ring.next];
    gantry_status status = find_other_home(streams, batch->home, &other);
    if (status != GANTRY_OK || other == batch->home) {
        return status;
    }
    gy_streams_use(streams, other);
    status = gy_streams_release_end(streams, event);
    status = status == GANTRY_OK ? gy_stream_record_plain(streams, batch->home, event) : status;
    if (status == GANTRY_OK) {
        struct gy_stream *next = &streams->streams[other];
        gy_stream_touch(next);
        status = gy_stream_wait_plain(streams, other, event);
        batch->home = other;
    }
    return status;
}

/* ---- waits --------------------------------------------------------------------------------- */

/* Has the host seen that the lane, which has ended by itself, has passed? */
static bool is_past(const struct gy_stream *s)
{
    return s->behind.end >= s->lane.ends && s->behind.end < s->lane.ends + GY_STREAM_ENDS &&
           !s->behind.is_open && gy_stream_has_passed(s, s->tail);
}

gantry_status gy_lane_order_enter(struct gy_streams *streams, uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    struct gy_stream_event *event = s->behind.end;
    if (event != NULL) {
        const bool is_there = s->behind.home == streams->batch.home;
        return is_there || is_past(s) ? GANTRY_OK : gy_streams_wait_outside(streams, stream, event);
    }
    /* `known` is of the plain stream now, so the event must be behind all that is there. */
    const uint32_t latest = (s->plain.ring.next - 1) % GY_STREAM_EVENTS;
    gantry_status status = GANTRY_OK;
    if (s->is_unrecorded || (s->plain.ring.seqs[latest] < s->tail && !gy_lane_order_bears_graph(s))) {
        status = gy_stream_record(streams, stream, &event);
    } else if (gy_lane_order_bears_graph(s)) {
        event = s->held.by;
    } else {
        event = s->plain.ring.at[latest];
    }
    return status == GANTRY_OK ? gy_streams_wait_outside(streams, stream, event) : status;
}

/* ---- ends ---------------------------------------------------------------------------------- */

/* An event for an end that the batch neither waits for nor records; NULL: there is none. */
static struct gy_stream_event *take_end(struct gy_streams *streams, struct gy_stream *s)
{
    const uint64_t number = streams->batch.number;
    struct gy_stream_event *event = NULL;
    for (uint32_t i = 0; i < GY_STREAM_ENDS && event == NULL; i++) {
        event = &s->lane.ends[s->lane.next_end++ % GY_STREAM_ENDS];
        event = event->noted != number && event->awaited != number ? event : NULL;
    }
    const bool is_there = event != NULL && event->native != NULL;
    return event == NULL || is_there ||
                   GY_CALL(streams->context, cuEventCreate(&event->native, CU_EVENT_DISABLE_TIMING)) ==
                       GANTRY_OK
               ? event
               : NULL;
}

/* Have all GPU tasks of the step come, of which the latest task of the member is?  Its manager has not ended:
 * the step goes on until the graph was launched. */
static bool has_all(const struct gy_stream *s)
{
    const struct gy_gpu_order *order = (const struct gy_gpu_order *)(const void *)s->owner;
    return s->tail > s->noted.entered && order != NULL && order->manager != NULL &&
           order->closed == gy_taskman_gpu_tasks(order->manager);
}

/* Will somebody wait for the end of the member's lane? */
static bool is_awaited(const struct gy_stream *s)
{
    return s->running != 0 || (gy_stream_awaiting(s) != 0 && !has_all(s));
}

static bool is_noted(const struct gy_stream *s)
{
    return s->noted.end != NULL && s->noted.end_seq == s->tail &&
           s->noted.end_last.first == s->lane.to.last.first &&
           s->noted.end_last.count == s->lane.to.last.count;
}

/* Note an end behind nodes of the lane; NULL: there is none. */
static struct gy_stream_event *note_end_at(struct gy_streams *streams, struct gy_stream *s,
                                           struct gy_node_set last)
{
    struct gy_nodes *nodes = streams->batch.nodes;
    struct gy_stream_event *event = take_end(streams, s);
    struct gy_lane lane = s->lane.to;
    lane.last = last;
    const uint64_t of = last.count != 0 ? nodes->list[nodes->before[last.first]].id : 0;
    gy_nodes_name(nodes, of ^ UINT64_C(1) << 63); /* it goes with the node that it ends */
    if (event == NULL || gy_lane_end(&lane, event->native) != GANTRY_OK) {
        return NULL;
    }
    event->noted = streams->batch.number;
    gy_streams_count(&streams->counts.recorded);
    return event;
}

/* Without an end, the end of the graph tells that of the lane. */
static void note_end(struct gy_streams *streams, struct gy_stream *s)
{
    s->noted.end = note_end_at(streams, s, s->lane.to.last);
    s->noted.end_seq = s->tail;
    s->noted.end_last = s->lane.to.last;
}

/* ---- points that the lane has left behind --------------------------------------------------- */

/* Note ends behind them.  Returns whether some have none. */
static bool note_left(struct gy_streams *streams, struct gy_stream *s)
{
    uint32_t noted = 0, left = 0;
    for (uint32_t e = 0; e < GY_STREAM_EVENTS; e++) {
        struct gy_stream_event *event = s->lane.ring.at[(s->lane.ring.next + e) % GY_STREAM_EVENTS];
        if (s->lane.ring.seqs[(s->lane.ring.next + e) % GY_STREAM_EVENTS] == 0 || event->pending == 0) {
            continue;
        }
        if (event->end == NULL && noted < GY_LANE_LEFT) {
            event->end = note_end_at(streams, s, event->nodes);
        }
        noted += event->end != NULL;
        left += event->end == NULL;
    }
    return left != 0;
}

void gy_lane_order_learn_left(const struct gy_streams *streams, struct gy_stream *s)
{
    for (uint32_t e = 0; s->noted.left != 0 && e < GY_STREAM_EVENTS; e++) {
        const struct gy_stream_event *event = s->lane.ring.at[e];
        if (s->lane.ring.seqs[e] != 0 && event->end != NULL) {
            memcpy(event->end->known, event->known, streams->count * sizeof(event->known[0]));
            gy_known_merge(streams, event->end->known, gy_batch_line(streams)->known);
        }
    }
}

void gy_lane_order_keep_left(struct gy_stream *s)
{
    for (uint32_t e = 0; s->noted.left != 0 && e < GY_STREAM_EVENTS; e++) {
        const uint32_t i = (s->lane.ring.next + e) % GY_STREAM_EVENTS;
        if (s->lane.ring.seqs[i] != 0 && s->lane.ring.at[i]->end != NULL) {
            gy_ring_keep(&s->plain.ring, s->lane.ring.at[i]->end, s->lane.ring.seqs[i]);
        }
    }
    s->noted.left = 0;
}

/* ---- all ends ------------------------------------------------------------------------------ */

void gy_lane_order_note_ends(struct gy_streams *streams)
{
    const struct gy_batch_order *batch = &streams->batch;
    assert(gy_batch_is_open(batch));
    const bool is_alone = (batch->members & (batch->members - 1)) == 0; /* its end is that of the graph */
    for (uint64_t left = batch->by_lanes ? batch->members : 0; left != 0; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        struct gy_stream *s = &streams->streams[i];
        const bool is_short = s->noted.left != 0 && !has_all(s) && note_left(streams, s);
        /* What is on the plain stream of such a member is another graph, which its lane shall not be taken
         * for: so the lane has an end of its own. */
        const bool is_elsewhere = s->held.carries && i != batch->home && !has_all(s);
        if (!is_elsewhere && (is_alone || (!is_awaited(s) && !is_short))) {
            s->noted.end = NULL;
        } else if (!is_noted(s)) {
            note_end(streams, s);
        }
    }
}
