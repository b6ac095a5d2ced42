/* SPDX-License-Identifier: MIT */
/* Stream capture.
 *
 * A capture begins on one stream (the origin) and spreads to others that wait for an event recorded inside
 * it; all of them must have been joined back, by events, when the origin ends it.  Each capturing stream
 * keeps the nodes its next one depends on (its tail).
 *
 *     NONE --begin--> ACTIVE --end--> NONE, a graph
 *                       | a call that is not allowed
 *                       v
 *                  INVALIDATED --end--> NONE, STREAM_CAPTURE_INVALIDATED */
#include "emulator/capture.h"

#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/event.h"
#include "emulator/graph.h"
#include "emulator/logs.h"

#include <pthread.h>
#include <string.h>

static struct gy_emu_capture *captures;
static uint64_t captures_ever;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static unsigned long self(void)
{
    return (unsigned long)pthread_self();
}

static bool orders_with_null(const struct gy_emu_stream *stream)
{
    return (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
}

static struct gy_emu_capture *find_capture(uint64_t id)
{
    struct gy_emu_capture *capture = captures;
    while (capture != NULL && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

/* ---- tails ----------------------------------------------------------------------------------- */

static bool reserve_tail(struct gy_emu_stream *stream, uint32_t count)
{
    if (count <= stream->capture_tail_room) {
        return true;
    }
    struct gy_emu_node **fresh = gy_zalloc_array((size_t)count * 2, sizeof(struct gy_emu_node *));
    if (fresh == NULL) {
        return false;
    }
    if (stream->capture_tail_count > 0) {
        memcpy(fresh, stream->capture_tail, stream->capture_tail_count * sizeof(struct gy_emu_node *));
    }
    gy_free(stream->capture_tail);
    stream->capture_tail = fresh;
    stream->capture_tail_room = count * 2;
    return true;
}

static bool is_in_tail(const struct gy_emu_stream *stream, const struct gy_emu_node *node)
{
    for (uint32_t i = 0; i < stream->capture_tail_count; i++) {
        if (stream->capture_tail[i] == node) {
            return true;
        }
    }
    return false;
}

bool gy_emu_capture_extend(struct gy_emu_stream *stream, struct gy_emu_node *const *nodes, uint32_t count)
{
    if (!reserve_tail(stream, stream->capture_tail_count + count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_in_tail(stream, nodes[i])) {
            stream->capture_tail[stream->capture_tail_count++] = nodes[i];
        }
    }
    return true;
}

/* ---- taking part ----------------------------------------------------------------------------- */

static void enter(struct gy_emu_stream *stream, struct gy_emu_capture *capture)
{
    stream->capture = capture;
    stream->capture_tail_count = 0;
    stream->capture_next = capture->streams;
    capture->streams = stream;
    if (orders_with_null(stream)) {
        stream->object.context->capturing++;
    }
}

static void leave(struct gy_emu_stream *stream)
{
    struct gy_emu_stream **link = &stream->capture->streams;
    while (*link != stream) {
        link = &(*link)->capture_next;
    }
    *link = stream->capture_next;
    stream->capture = NULL;
    if (orders_with_null(stream)) {
        stream->object.context->capturing--;
    }
}

/* Drop everything that a broken capture has added.  A graph that was given to it keeps only the nodes that it
 * had before, and cannot be used any more, as was seen on a device. */
static void lose_graph(struct gy_emu_capture *capture)
{
    if (capture->is_given) {
        capture->graph->capturing = false;
        capture->graph->is_broken = true;
    } else {
        gy_emu_graph_close(capture->graph);
    }
}

/* End the capture; its graph stays. */
static void close_capture(struct gy_emu_capture *capture)
{
    while (capture->streams != NULL) {
        leave(capture->streams);
    }
    if (capture->prev != NULL) {
        capture->prev->next = capture->next;
    } else {
        captures = capture->next;
    }
    if (capture->next != NULL) {
        capture->next->prev = capture->prev;
    }
    gy_free(capture);
}

void gy_emu_capture_abandon(struct gy_emu_stream *stream)
{
    struct gy_emu_capture *capture = stream->capture;
    if (capture == NULL) {
        return;
    }
    capture->is_invalid = true;
    if (capture->origin == stream) {
        lose_graph(capture);
        close_capture(capture);
    } else {
        leave(stream);
    }
}

bool gy_emu_capture_is_invalid(const struct gy_emu_stream *stream)
{
    return stream->capture != NULL && stream->capture->is_invalid;
}

CUresult gy_emu_capture_refuse(struct gy_emu_stream *stream, CUresult result)
{
    stream->capture->is_invalid = true;
    return result;
}

/* ---- what is captured ------------------------------------------------------------------------ */

CUresult gy_emu_capture_add(struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    struct gy_emu_capture *capture = stream->capture;
    if (capture->is_invalid) {
        gy_emu_work_release(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!reserve_tail(stream, 1)) {
        gy_emu_work_release(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_node *node;
    CUresult result =
        gy_emu_graph_add(capture->graph, work, stream->capture_tail, stream->capture_tail_count, &node);
    if (result == CUDA_SUCCESS) {
        const bool is_own =
            node->work.kind == GY_EMU_WORK_KERNEL && node->work.kernel.attributes.has_priority;
        node->is_captured = true;
        node->priority = is_own ? node->work.kernel.attributes.priority : stream->priority;
        stream->capture_tail[0] = node;
        stream->capture_tail_count = 1;
    }
    return result;
}

CUresult gy_emu_capture_record(struct gy_emu_stream *stream, struct gy_emu_event *event)
{
    if (stream->capture->is_invalid) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    uint32_t count = stream->capture_tail_count;
    if (count > event->capture_node_room) {
        struct gy_emu_node **fresh = gy_zalloc_array(count, sizeof(struct gy_emu_node *));
        if (fresh == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        gy_free(event->capture_nodes);
        event->capture_nodes = fresh;
        event->capture_node_room = count;
    }
    if (count > 0) {
        memcpy(event->capture_nodes, stream->capture_tail, count * sizeof(struct gy_emu_node *));
    }
    event->capture_node_count = count;
    event->capture_id = stream->capture->id;
    return CUDA_SUCCESS;
}

bool gy_emu_capture_has_lost(const struct gy_emu_event *event)
{
    const struct gy_emu_capture *capture = find_capture(event->capture_id);
    return event->capture_id != 0 && (capture == NULL || capture->is_invalid);
}

/* An event from inside a capture draws the waiting stream into it; one from outside cannot be waited for
 * by a capturing stream. */
CUresult gy_emu_capture_wait(struct gy_emu_stream *stream, struct gy_emu_event *event)
{
    struct gy_emu_capture *capture = stream->capture;
    if (capture != NULL && capture->is_invalid) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (capture != NULL && event->capture_id == 0 && !event->recorded) {
        return CUDA_SUCCESS; /* there is nothing to wait for */
    }
    struct gy_emu_capture *source = event->capture_id != 0 ? find_capture(event->capture_id) : NULL;
    if (source == NULL) {
        return gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (capture != NULL && capture != source) {
        source->is_invalid = true;
        return gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (stream->is_null) {
        source->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (capture == NULL) {
        enter(stream, source);
    }
    return gy_emu_capture_extend(stream, event->capture_nodes, event->capture_node_count)
               ? CUDA_SUCCESS
               : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- what a capture forbids ------------------------------------------------------------------ */

CUresult gy_emu_capture_forbids_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    if (captures == NULL || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return result;
    }
    for (struct gy_emu_capture *c = captures; c != NULL; c = c->next) {
        bool own = c->thread == self() && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global =
            c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || global) {
            c->is_invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    if (result != CUDA_SUCCESS) {
        gy_emu_explain("The call conflicts with a stream capture that is under way");
    }
    return result;
}

/* Invalidate the captures that have a stream for which `concerns` returns true. */
static bool invalidate(struct gy_emu_context *context,
                       bool (*concerns)(const struct gy_emu_stream *, const struct gy_emu_context *))
{
    bool any = false;
    for (struct gy_emu_stream *s = context->root->streams; s != NULL; s = s->next_in_root) {
        if (s->capture != NULL && concerns(s, context)) {
            s->capture->is_invalid = true;
            any = true;
        }
    }
    return any;
}

/* Captures on streams of green contexts do not concern calls on their root, as on an H200. */
static bool is_of(const struct gy_emu_stream *stream, const struct gy_emu_context *context)
{
    return stream->object.context == context;
}

static bool orders_in(const struct gy_emu_stream *stream, const struct gy_emu_context *context)
{
    return stream->object.context == context && orders_with_null(stream);
}

CUresult gy_emu_capture_forbids_context(struct gy_emu_context *context)
{
    if (captures == NULL) {
        return CUDA_SUCCESS;
    }
    return invalidate(context, is_of) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult gy_emu_capture_forbids_null(struct gy_emu_stream *null_stream)
{
    struct gy_emu_context *context = null_stream->object.context;
    if (context->capturing == 0) {
        return CUDA_SUCCESS;
    }
    invalidate(context, orders_in);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult gy_emu_capture_forbids_asking(struct gy_emu_stream *stream)
{
    if (captures == NULL) {
        return CUDA_SUCCESS;
    }
    if (stream->capture != NULL) {
        return gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUresult result = stream->is_null ? gy_emu_capture_forbids_null(stream) : CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : result;
}

CUresult gy_emu_capture_forbids_event(const struct gy_emu_event *event)
{
    if (gy_emu_capture_has_lost(event)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (event->capture_id != 0) {
        find_capture(event->capture_id)->is_invalid = true;
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return gy_emu_capture_forbids_unsafe();
}

/* ---- begin and end --------------------------------------------------------------------------- */

CUresult gy_emu_capture_begin(struct gy_emu_stream *stream, struct gy_emu_graph *graph,
                              CUstreamCaptureMode mode)
{
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->is_null) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    struct gy_emu_capture *capture = gy_zalloc(sizeof(*capture));
    if (capture == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->graph = graph;
    capture->is_given = graph != NULL;
    CUresult result = graph != NULL ? CUDA_SUCCESS : gy_emu_graph_open(&capture->graph);
    if (result != CUDA_SUCCESS) {
        gy_free(capture);
        return result;
    }
    capture->graph->capturing = true;
    capture->id = ++captures_ever;
    capture->mode = mode;
    capture->thread = self();
    capture->origin = stream;
    capture->next = captures;
    if (captures != NULL) {
        captures->prev = capture;
    }
    captures = capture;
    enter(stream, capture);
    return CUDA_SUCCESS;
}

/* Mark the nodes that `origin`'s tail depends on.  Nodes come after their dependencies in the graph. */
static void mark_ancestors(const struct gy_emu_capture *capture)
{
    const struct gy_emu_graph *graph = capture->graph;
    for (uint32_t i = 0; i < capture->origin->capture_tail_count; i++) {
        capture->origin->capture_tail[i]->mark = true;
    }
    for (uint32_t i = graph->count; i-- > 0;) {
        const struct gy_emu_node *node = graph->nodes[i];
        for (uint32_t d = 0; node->mark && d < node->dependency_count; d++) {
            node->dependencies[d]->mark = true;
        }
    }
}

static bool all_joined(const struct gy_emu_capture *capture)
{
    bool joined = true;
    mark_ancestors(capture);
    for (const struct gy_emu_stream *s = capture->streams; s != NULL; s = s->capture_next) {
        for (uint32_t i = 0; i < s->capture_tail_count; i++) {
            joined = joined && s->capture_tail[i]->mark;
        }
    }
    for (uint32_t i = 0; i < capture->graph->count; i++) {
        capture->graph->nodes[i]->mark = false;
    }
    return joined;
}

CUresult gy_emu_capture_end(struct gy_emu_stream *stream, CUgraph *out)
{
    CUresult result = CUDA_SUCCESS;
    struct gy_emu_capture *capture = stream->capture;
    if (capture == NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        capture->is_invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->is_invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!all_joined(capture)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != self()) {
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; /* it is over all the same, as on a device */
    }
    *out = NULL;
    if (result != CUDA_SUCCESS) {
        lose_graph(capture);
    } else {
        capture->graph->capturing = false;
        *out = (CUgraph)capture->graph->object.handle;
    }
    close_capture(capture);
    return result;
}

CUstreamCaptureMode gy_emu_capture_exchange_mode(CUstreamCaptureMode mode)
{
    const CUstreamCaptureMode before = thread_mode;
    thread_mode = mode;
    return before;
}
