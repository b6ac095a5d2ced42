/* SPDX-License-Identifier: MIT */
/* Stream capture makes a graph of the work that is enqueued. */
#ifndef EMULATOR_CAPTURE_H
#define EMULATOR_CAPTURE_H

#include "emulator/queue.h"

struct gy_emu_event;

struct gy_emu_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    unsigned long thread; /* the thread that began it */
    bool is_invalid;
    struct gy_emu_graph *graph;
    bool is_given; /* the graph is the application's, and existed before */
    struct gy_emu_stream *origin;
    struct gy_emu_stream *streams; /* all streams that take part, linked by capture_next */
    struct gy_emu_capture *prev, *next;
};

/* Begin a capture into `graph`; NULL: into a graph of the capture's own. */
CUresult gy_emu_capture_begin(struct gy_emu_stream *stream, struct gy_emu_graph *graph,
                              CUstreamCaptureMode mode);
CUresult gy_emu_capture_end(struct gy_emu_stream *stream, CUgraph *out);
/* What is captured next comes after these nodes, too; false: out of memory. */
bool gy_emu_capture_extend(struct gy_emu_stream *stream, struct gy_emu_node *const *nodes, uint32_t count);
/* Set the calling thread's mode; returns the one before. */
CUstreamCaptureMode gy_emu_capture_exchange_mode(CUstreamCaptureMode mode);

/* The stream is being captured: make `work` a node behind the stream's end.  This takes the references. */
CUresult gy_emu_capture_add(struct gy_emu_stream *stream, struct gy_emu_work *work);
/* Do cuEventRecord() and cuStreamWaitEvent() where the stream or the event is part of a capture. */
CUresult gy_emu_capture_record(struct gy_emu_stream *stream, struct gy_emu_event *event);
CUresult gy_emu_capture_wait(struct gy_emu_stream *stream, struct gy_emu_event *event);
/* The stream is being captured, and something has broken that. */
bool gy_emu_capture_is_invalid(const struct gy_emu_stream *stream);
/* Invalidate the stream's capture; returns `result`. */
CUresult gy_emu_capture_refuse(struct gy_emu_stream *stream, CUresult result);
/* The stream is being closed: its capture can no longer be ended properly. */
void gy_emu_capture_abandon(struct gy_emu_stream *stream);

/* The calls that a running capture does not allow: each function returns the error, and invalidates the
 * captures that the call breaks, or returns CUDA_SUCCESS. */
CUresult gy_emu_capture_forbids_unsafe(void); /* allocation, synchronous calls, queries */
CUresult gy_emu_capture_forbids_context(struct gy_emu_context *context); /* synchronising the context */
CUresult gy_emu_capture_forbids_null(struct gy_emu_stream *null_stream); /* enqueueing on it */
CUresult gy_emu_capture_forbids_asking(struct gy_emu_stream *stream);    /* querying or synchronising it */
CUresult gy_emu_capture_forbids_event(const struct gy_emu_event *event);
/* The event was recorded in a capture that has ended or is invalid: it stands for nothing, as on an H200. */
bool gy_emu_capture_has_lost(const struct gy_emu_event *event);

#endif
