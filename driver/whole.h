/* SPDX-License-Identifier: MIT */
/* What concerns a whole CUDA context, beside captures of whoever.
 *
 * While a stream is captured, the driver refuses to wait for its context, or to record or wait for an event
 * of all its streams, to every thread and in every capture mode, and it breaks the capture.  The rule of the
 * library, of which this file has all that is needed:
 *
 * On its own initiative the library waits for its own streams and events, which hinders no capture.
 *
 * Who has to wait for all work of a context calls gy_whole_wait(): since the program asks for that, or since
 * memory is about to go.  It takes memory and frees it, which waits for as much, and which a thread in
 * relaxed mode (inside.h) may do beside any capture.
 *
 * Events of all streams of a context, or of a green context, have no such way.  They are used only where the
 * program asks for just that.  The program is refused by name, and a capture that can be seen stays whole.
 * The driver lists no captures: those of blocking streams can be seen, and that of the thread's default
 * stream. */
#ifndef DRIVER_WHOLE_H
#define DRIVER_WHOLE_H

#include "driver/context.h"

/* Wait for all work of the CUDA context, on whoever's streams.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_whole_wait(struct gy_context *context);

/* Can a capture be seen that stands in the way?  The context is current. */
bool gy_whole_is_captured(struct gy_context *context);

/* Record the event behind all streams of the context, which is current. */
GANTRY_MUST_CHECK gantry_status gy_whole_record(struct gy_context *context, CUevent event);
/* Whatever its streams are given from now on comes after the event. */
GANTRY_MUST_CHECK gantry_status gy_whole_come_after(struct gy_context *context, CUevent event);

/* As gy_context_check(), for calls on a whole context: GANTRY_ERR_STATE where a capture stands in the way. */
gantry_status gy_whole_failed(struct gy_context *context, CUresult result, const char *call, const char *file,
                              int line);
#define GY_WHOLE_CALL(ctx, call) gy_whole_failed((ctx), (ctx)->driver->call, #call, __FILE__, __LINE__)

#endif
