/* Stream capture makes a graph of the work that is enqueued. */
#ifndef EMULATOR_CAPTURE_H
#define EMULATOR_CAPTURE_H

#include "emulator/queue.h"

struct gy_emu_event;

/* The stream is being captured: make `work` a node behind the stream's end.  This takes the references. */
CUresult gy_emu_capture_add(struct gy_emu_stream *stream, struct gy_emu_work *work);
/* Do cuEventRecord() and cuStreamWaitEvent() where the stream or the event is part of a capture. */
CUresult gy_emu_capture_record(struct gy_emu_stream *stream, struct gy_emu_event *event);
CUresult gy_emu_capture_wait(struct gy_emu_stream *stream, struct gy_emu_event *event);
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

#endif
