/* SPDX-License-Identifier: MIT */
/* Who waits for what was freed on streams.
 *
 * A thread that finds no room waits for events of the heap's own, and only for those behind which memory
 * comes back, the oldest first.  It never waits for the device: a stream that has nothing to do with the heap
 * may go on for ever.  So there are enough marks for that: most_unmarked() in stream_marks.c.
 *
 * Settling is what the program asks for.  It waits for the events, too, and for the device only if memory is
 * left that no event tells of, in the way that breaks no capture (driver/whole.h).  It refuses when it knows
 * of a capture, whose graph may have memory.
 *
 * What a thread waits for is on its stack.  It holds the event, so that it stays what it is, and when that
 * has passed it knows of one stream up to which order. */
#include "base/point.h"
#include "base/status.h"
#include "driver/whole.h"
#include "heap/kind.h"
#include "heap/pages_inside.h"
#include "heap/streams_inside.h"
#include "heap/visit.h"

#include <assert.h>
#include <sched.h>

/* ---- waiting ------------------------------------------------------------------------------- */

/* What a thread waits for, which it keeps to itself. */
struct goal {
    struct gy_heap_event *event;   /* held; NULL: there is nothing to wait for */
    struct gy_heap_stream *stream; /* of a mark; NULL: the event is that of a late block */
    uint64_t order;                /* of the mark */
    uint64_t age;                  /* the order of the oldest memory that comes back then */
    bool is_coming;                /* another thread records such an event, or asks for it */
};

/* The first mark behind which memory comes back; mark_count: there is none.  The lock is held. */
static unsigned mark_behind(const struct gy_heap_stream *stream, uint64_t oldest)
{
    unsigned mark = 0;
    while (mark < stream->mark_count && stream->marks[mark].order < oldest) {
        mark++;
    }
    return mark;
}

/* A stream of which no memory would come back is nobody's goal. */
static void consider_stream(struct gy_heap_streams *streams, struct gy_heap_stream *stream,
                            struct goal *goal) GY_NO_ANALYSIS
{
    const uint64_t oldest = gy_waiting_oldest(&streams->kind->pages, &stream->waiter);
    if (stream->waiter.is_graph || oldest >= goal->age) {
        return;
    }
    const unsigned mark = mark_behind(stream, oldest);
    if (mark < stream->mark_count) {
        goal->event = stream->marks[mark].event;
        goal->stream = stream;
        goal->order = stream->marks[mark].order;
        goal->age = oldest;
    } else if (stream->marks_state == GY_MARKS_MARKING) {
        goal->is_coming = true;
    }
}

/* A block that has no event for one of its streams does not come back by waiting for the others. */
static void consider_late(const struct gy_late *late, struct goal *goal)
{
    struct gy_heap_event *event = NULL;
    if (late->order >= goal->age) {
        return;
    }
    for (const struct gy_late *one = late; one != NULL; one = one->next) {
        if (!one->has_passed && one->event == NULL) {
            return;
        }
        event = event == NULL && !one->has_passed ? one->event : event;
    }
    goal->event = event;
    goal->stream = NULL;
    goal->age = late->order;
}

/* Find what was freed first, up to `most`, and has an event. */
static struct goal find_goal(struct gy_heap_streams *streams, uint64_t most)
{
    struct goal goal = {.age = most == UINT64_MAX ? most : most + 1};
    gy_mutex_lock(gy_heap_streams_guard(streams));
    goal.is_coming = streams->late_polls != 0;
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        consider_stream(streams, stream, &goal);
    }
    for (const struct gy_late *late = streams->late; late != NULL; late = late->later) {
        consider_late(late, &goal);
    }
    if (goal.event != NULL) {
        goal.event->holders++;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return goal;
}

bool gy_heap_streams_wait(struct gy_heap_streams *streams, uint64_t most)
{
    struct gy_context *context = gy_heap_streams_context(streams);
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        return false;
    }
    const struct goal goal = find_goal(streams, most);
    if (goal.event == NULL) {
        if (goal.is_coming) {
            sched_yield();
        }
        return goal.is_coming;
    }
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(context, &visit);
    const bool passed = status == GANTRY_OK && gy_heap_streams_has_passed(context, goal.event, true);
    gy_mutex_lock(gy_heap_streams_guard(streams));
    if (passed && goal.stream != NULL) {
        (void)gy_heap_stream_passed(streams, goal.stream, goal.order);
    }
    gy_heap_streams_give_event(streams, goal.event);
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    if (passed && goal.stream == NULL) {
        (void)gy_heap_streams_poll_lates(streams, GY_NOTHING_KNOWN);
    }
    gy_visit_end(context, &visit);
    return passed;
}

/* ---- settling ------------------------------------------------------------------------------ */

/* A capture is under way of which the heap was told. */
static bool is_captured(struct gy_heap_streams *streams)
{
    gy_mutex_lock(gy_heap_streams_guard(streams));
    const struct gy_heap_stream *stream = streams->first;
    while (stream != NULL && (!stream->waiter.is_graph || stream->is_over)) {
        stream = stream->next;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return stream != NULL;
}

/* Is there memory of up to `order` for which no event was recorded? */
static bool needs_device(struct gy_heap_streams *streams, uint64_t order) GY_NO_ANALYSIS
{
    bool any = false;
    gy_mutex_lock(gy_heap_streams_guard(streams));
    for (struct gy_heap_stream *stream = streams->first; stream != NULL && !any; stream = stream->next) {
        any = !stream->waiter.is_graph && gy_waiting_oldest(&streams->kind->pages, &stream->waiter) <= order;
    }
    for (const struct gy_late *late = streams->late; late != NULL && !any; late = late->later) {
        any = late->order <= order;
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    return any;
}

/* The device was waited for behind all that was freed up to `order`.  What an event tells of waits on: it was
 * waited for in vain. */
static void settle_streams(struct gy_heap_streams *streams, uint64_t order) GY_NO_ANALYSIS
{
    gy_mutex_lock(gy_heap_streams_guard(streams));
    for (struct gy_heap_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        const unsigned mark = mark_behind(stream, gy_waiting_oldest(&streams->kind->pages, &stream->waiter));
        if (mark == stream->mark_count || stream->marks[mark].order > order) {
            (void)gy_heap_stream_passed(streams, stream, order);
        }
    }
    gy_mutex_unlock(gy_heap_streams_guard(streams));
}

/* Is one under way that can be seen? */
static bool is_any_captured(struct gy_heap_streams *streams)
{
    struct gy_context *context = gy_heap_streams_context(streams);
    struct gy_visit visit;
    const bool any = gy_visit_begin(context, &visit) == GANTRY_OK && gy_whole_is_captured(context);
    gy_visit_end(context, &visit);
    return any;
}

static void wait_for_events(struct gy_heap_streams *streams, uint64_t order)
{
    while (gy_heap_streams_wait(streams, order)) {
    }
}

/* Wait for the device, for what no event tells. */
static gantry_status wait_for_device(struct gy_heap_streams *streams, uint64_t order)
{
    struct gy_context *context = gy_heap_streams_context(streams);
    struct gy_visit visit;
    gantry_status status = gy_visit_begin(context, &visit);
    status = status == GANTRY_OK ? gy_whole_wait(context) : status;
    if (status == GANTRY_OK) {
        gy_point(GY_POINT_HEAP_SETTLED, streams->kind);
        (void)gy_heap_streams_poll_lates(streams, order);
    }
    gy_visit_end(context, &visit);
    if (status == GANTRY_OK) {
        /* A late block has joined its stream, and may lie before a mark that nobody had a reason to ask. */
        wait_for_events(streams, order);
        settle_streams(streams, order);
    }
    return status;
}

gantry_status gy_heap_streams_settle(struct gy_heap_streams *streams)
{
    if (!atomic_load_explicit(&streams->used, memory_order_relaxed)) {
        return GANTRY_OK;
    }
    (void)gy_park_flush(
        &streams->kind->park); /* laps: what was freed before this call gets an order before it */
    if (is_captured(streams) || is_any_captured(streams)) {
        return GANTRY_ERR_STATE;
    }
    gy_mutex_lock(gy_heap_streams_guard(streams));
    const uint64_t order = streams->order++;
    gy_mutex_unlock(gy_heap_streams_guard(streams));
    gy_point(GY_POINT_HEAP_SETTLE, streams->kind);
    wait_for_events(streams, order);
    return needs_device(streams, order) ? wait_for_device(streams, order) : GANTRY_OK;
}
