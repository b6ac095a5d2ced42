/* SPDX-License-Identifier: MIT */
/* Graphs that are still to be destroyed, all of a context in one list.
 *
 * The driver is asked again for those that it would not destroy.  Others are left for later, since to destroy
 * one takes as long as a quarter of its making.
 *
 * Any thread; the context is current. */
#ifndef DRIVER_SPENT_H
#define DRIVER_SPENT_H

#include "driver/context.h"

/* Destroy it at the next sweep.  Where the list is full and the driver destroys nothing, it is left behind.
 */
void gy_graph_spend(struct gy_context *context, CUgraph graph);
/* Destroy it now, NULL is ignored.  Where the driver refuses it is asked again at the next sweep; a refusal
 * of a lost context is not kept, since it does not say whether the graph is gone. */
void gy_graph_destroy(struct gy_context *context, CUgraph graph);
void gy_graph_exec_destroy(struct gy_context *context, CUgraphExec exec);

/* The list of a lost context is left for gy_spent_end(): a capture that a stream could not leave may still
 * hold a graph. */
void gy_spent_sweep_any(struct gy_context *context);
/* The streams are gone, and with them their captures: each is destroyed, or asked for the last time. */
void gy_spent_end(struct gy_context *context);
static inline void gy_spent_sweep(struct gy_context *context)
{
    if (atomic_load_explicit(&context->spent_count, memory_order_relaxed) != 0) {
        gy_spent_sweep_any(context);
    }
}

#endif
