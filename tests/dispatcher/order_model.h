/* SPDX-License-Identifier: MIT */
/* The order that the driver is asked for, as exact vector clocks: every stream, every recorded event and
 * every node of a batch that is noted knows the set of nodes (bits) whose work comes before it on the
 * device.  So a test can say for each task whether its stream was behind all the work it must come after,
 * and whether some wait was redundant.  Nodes of a graph are judged when that is launched, on a stream that
 * has to be behind everything that they need; where they are played instead, each when it is enqueued.  The
 * model replaces functions in the table of the loaded
 * driver: attach it while no context exists. */
#ifndef TESTS_DISPATCHER_ORDER_MODEL_H
#define TESTS_DISPATCHER_ORDER_MODEL_H

#include <gantry/dispatcher.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_faults {
    uint64_t unordered; /* nodes whose stream was not behind everything they must come after */
    uint64_t redundant; /* waits without which everything needed would have been covered as well */
    uint64_t misplaced; /* streams that waited although no node begins there */
    uint64_t waits;     /* all waits */
};

/* Replace functions in the table of the driver that tests use; detach restores them.  Without `exact`,
 * waits are not judged one by one: barriers are not made for one task. */
void order_model_attach(bool exact);
void order_model_detach(void);

/* A new graph begins: nothing comes before anything.  No GPU work is queued. */
void order_model_reset(void);

/* Call this in a node's first launch callback.  A node that must come after the nodes of `before` begins:
 * all waits of its stream since the last begin there were made for it. */
void order_model_begin(gantry_launch *launch, uint64_t before);
/* Call this in each launch callback, behind its work; the last one's is that of the nodes `ends` (bits; 0:
 * more calls come). */
void order_model_called(gantry_launch *launch, uint64_t ends);

struct order_faults order_model_faults(void);
/* The streams on which a node has begun since the reset. */
uint32_t order_model_streams(void);

#endif
