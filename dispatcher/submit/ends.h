/* SPDX-License-Identifier: MIT */
/* Does an event that a graph records tell the end of the work before it?
 *
 * A completion of a batch is told by an event node right behind the nodes of its task.  Its event was used
 * before, so it must say from the launch of the graph on that it has not passed.  CUDA's documentation says
 * that each launch of the graph records it, and not whether that happens at the call of the launch or when
 * the device comes to the node: until then the event would say that it has passed, and the task that waits
 * would start too early.  So each driver is asked, once for each context, before its first graph. */
#ifndef DISPATCHER_SUBMIT_ENDS_H
#define DISPATCHER_SUBMIT_ENDS_H

#include "driver/context.h"

#include <stdatomic.h>
#include <stdint.h>

enum gy_ends_gate {
    GY_ENDS_SHUT,
    GY_ENDS_OPEN, /* the graph of the question may begin */
    GY_ENDS_LEFT  /* the host function before it has ended, and touches nothing any more */
};

struct gy_ends {
    atomic_bool is_asked;   /* atomic: a thread asks, or has asked */
    atomic_bool are_told;   /* atomic: the driver's answer; false until it has come */
    _Atomic(uint32_t) gate; /* atomic; enum gy_ends_gate */
};

/* Ask the driver, unless that was done.  A failure of a call is an answer, too: then completions are told
 * behind the graph.  The context is current, and the thread may make any call (gy_relaxed_begin()). */
void gy_ends_ask(struct gy_ends *ends, struct gy_context *context);

static inline bool gy_ends_are_asked(const struct gy_ends *ends)
{
    return atomic_load_explicit(&ends->is_asked, memory_order_relaxed);
}

static inline bool gy_ends_are_told(const struct gy_ends *ends)
{
    return atomic_load_explicit(&ends->are_told, memory_order_relaxed);
}

#endif
