/* SPDX-License-Identifier: MIT */
/* A green context of all SMs in which nothing ever runs: for captures that must hinder nobody.
 *
 * While a stream is captured, calls on the whole of its context (cuCtxSynchronize(), cuCtxRecordEvent(),
 * cuCtxWaitEvent()) are refused to all threads, and break the capture.  A capture that takes no work can be
 * open on a stream of another green context of the same device: seen on driver 580, those calls on the
 * primary context go on then, and what a capture forbids its own thread is forbidden all the same.
 *
 * A green context belongs to the primary one, so other contexts have none. */
#ifndef DRIVER_APART_H
#define DRIVER_APART_H

#include "driver/context.h"

/* Make it, if the driver can and the context is the device's primary one.  Any thread; the context is
 * current. */
void gy_apart_open(struct gy_context *context);
/* All streams in it are gone, and it goes, too. */
void gy_apart_close(struct gy_context *context);

/* Is there one?  Any thread. */
static inline bool gy_apart_is_there(const struct gy_context *context)
{
    return atomic_load_explicit(&context->apart, memory_order_acquire) != NULL;
}

/* Make a stream in it; where there is none, in the context.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_apart_create_stream(struct gy_context *context, CUstream *out);

#endif
