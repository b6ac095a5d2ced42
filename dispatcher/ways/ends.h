/* Does an event that a graph records tell the end of the work before it?
 *
 * A completion of a batch is told by an event node right behind the nodes of its task.  Its event was used
 * before, so it must say from the launch of the graph on that it has not passed.  CUDA's documentation says
 * that each launch of the graph records it, and not whether that happens at the call of the launch or when
 * the device comes to the node: until then the event would say that it has passed, and the task that waits
 * would start too early.  So each driver is asked, once for each context. */
#ifndef DISPATCHER_WAYS_ENDS_H
#define DISPATCHER_WAYS_ENDS_H

#include "driver/context.h"

/* Ask the driver.  False also when a call of the question fails: then completions are told behind the graph.
 * Nothing that was made for it is left.  The context is current, and has no work yet. */
bool gy_ends_are_told(struct gy_context *context);

#endif
