/* What a capture that is open on a guest's thread (guest.h) forbids the library.
 *
 * The application may have a capture of its own open on the thread that waits: then calls that a capture
 * forbids would fail there and spoil it.  So a guest's thread is relaxed, except while the dispatcher
 * captures callbacks itself: those must be refused such calls, as on the dispatcher thread (GD). */
#ifndef DISPATCHER_CAPTURE_MODE_H
#define DISPATCHER_CAPTURE_MODE_H

#include "driver/context.h"

/* The thread becomes a guest's: calls that a capture forbids succeed on it.  `*before`: its mode so far. */
GANTRY_MUST_CHECK gantry_status gy_capture_mode_relax(struct gy_context *context, int *before);
/* The thread is no guest any more. */
void gy_capture_mode_restore(struct gy_context *context, int before);

/* The calling thread is about to capture callbacks: from here on what a capture forbids fails, until it is
 * relaxed again.  Nothing happens on threads that are no guest's: they are never relaxed. */
GANTRY_MUST_CHECK gantry_status gy_capture_mode_be_strict(struct gy_context *context);
void gy_capture_mode_relax_again(struct gy_context *context);

#endif
