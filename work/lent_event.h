/* SPDX-License-Identifier: MIT */
/* Events of which another one does as well, so that nodes of a graph that is launched again keep theirs.
 *
 * A holder refers to an event, which is recorded on a stream or by a node of a graph; whoever reads it later
 * asks the holder.  Until its graph is launched, a holder may exchange its event with that of another one
 * that is not in use, or that is noted, too.  So the events go to other holders, and no node is set.
 *
 *            take                  a node is noted              the node of a graph has it
 *     FREE --------> GIVEN ----------------------------> NOTED -----------------------------> GIVEN
 *      ^    put         |                                  |  exchange: both holders have the other's
 *      +----------------+----------------------------------+
 *
 * GIVEN ones stay with their holders.  Events live as long as all graphs that may have a node with them.  The
 * thread that notes nodes calls all functions, for events that are not FREE. */
#ifndef WORK_LENT_EVENT_H
#define WORK_LENT_EVENT_H

#include "base/thread.h"
#include "driver/cuda_abi.h"

#include <stdbool.h>

enum gy_lent_state { GY_LENT_FREE, GY_LENT_GIVEN, GY_LENT_NOTED };

struct gy_lent_event {
    CUevent event;                 /* whoever uses the holder may touch it */
    gy_mutex *lock;                /* immutable; of all that may be exchanged; of rank LEAF */
    struct gy_lent_event **holder; /* guarded by *lock: this is where the holder refers to it */
    enum gy_lent_state state;      /* guarded by *lock; gy_lent_event_enter() is the only writer */
};

/* *event->lock is held, but for a step between GIVEN and NOTED, of which nobody else knows. */
void gy_lent_event_enter(struct gy_lent_event *event, enum gy_lent_state state);

/* A node has an event of which is known that it was `wanted`, with this handle: let the holder that refers to
 * its own at *place, which is NOTED, have that one.  False: it is in use elsewhere, or another event now.
 * *place is GIVEN, whatever it is. */
bool gy_lent_event_exchange(struct gy_lent_event **place, struct gy_lent_event *wanted, CUevent handle);

#endif
