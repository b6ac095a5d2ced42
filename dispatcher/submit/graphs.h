/* SPDX-License-Identifier: MIT */
/* Graphs mode: the work that launch callbacks enqueue is noted, made into a graph, and launched at once.
 *
 * A batch's work is noted as nodes (work/nodes.h) on the lanes of the streams.  It is launched at the end
 * of the batch, or earlier (a cut) when something cannot be part of a graph.  Streams of the pool that get
 * work become members.  The graph is launched on the stream of the first member, and comes only after the
 * work that its tasks come after: see order/batch_order.h.  Inside it the stream rules hold as always.
 *
 *           first call of a batch            callbacks are called            large, cut, or it ends
 *    CLOSED ---------------------> OPEN ---------------------> OPEN, nodes ---------------------> CLOSED
 *      ^                                                          |                              launched
 *      +--- a call does what no graph takes: its nodes are taken back, the others launched, and the call is
 *           made again on its stream
 *
 * A batch that is like an earlier one is launched as that one's executable graph, which is patched: see
 * kept.h. What cannot be patched is made a graph, which updates an executable graph of the same signature (a
 * hash of its home, and of its nodes' kinds, lanes and edges) when there is one and the driver agrees.  Else
 * a new one is made, in place of the least recently used of GY_REFRESHED_MOST.
 *
 * What the driver refuses to make or launch as a graph is *played*: enqueued on the streams of its lanes, as
 * if the graph were launched there (work/play.h).
 *
 * A large batch becomes several graphs, each of twice as many calls as the one before: the device works on
 * one while the next is noted.
 *
 * No capture of the batch is open while callbacks run, so no callback can break it.  Work that a callback
 * enqueues itself is captured by itself (aside.h).  While callbacks run, an empty capture is open on a stream
 * that gets no work: the guard.  A callback that waits for the GPU or frees memory must not learn that
 * everything is done while work before it is only noted.  Because of the guard the driver refuses such a
 * call, which breaks the guard.  Then the call's nodes are taken back, the batch is launched, and the
 * callback is called again on its plain stream.  See
 * docs/decisions/0030-a-batch-is-noted-and-made-a-graph-at-its-end.md.
 *
 * Everything belongs to the dispatcher's thread (GD), except what is marked. */
#ifndef DISPATCHER_SUBMIT_GRAPHS_H
#define DISPATCHER_SUBMIT_GRAPHS_H

#include "copykernel/copier.h"
#include "dispatcher/call/hold.h"
#include "dispatcher/call/trust.h"
#include "dispatcher/order/streams.h"
#include "dispatcher/submit/batch_guard.h"
#include "dispatcher/submit/choice.h"
#include "dispatcher/submit/ends.h"
#include "dispatcher/submit/launch_gate.h"
#include "work/kept.h"
#include "work/play.h"

#define GY_GRAPHS_PLACES 256u /* that are taken ahead for streams and graphs: see driver/places.h */
#define GY_GRAPHS_FIRST_CALLS 256

/* How large the captures of a batch become. */
struct gy_batch_size {
    uint32_t calls;       /* launch calls in this capture */
    uint64_t large_calls; /* so many of them make it large */
    uint32_t part;        /* captures of this batch that ended because they were large enough */
    uint32_t first_calls; /* immutable; the number of launch calls after which the first of these ends */
};

struct gy_graphs_counts {
    _Atomic(uint64_t) launches;       /* atomic: graphs launched */
    _Atomic(uint64_t) launched_nodes; /* atomic: their nodes */
    _Atomic(uint64_t) cuts;           /* atomic: captures that ended before their batch */
    _Atomic(uint64_t) plays;          /* atomic: batches, or parts of them, that were played */
};

struct gy_unit;

struct gy_graphs {
    struct gy_context *context; /* immutable */
    struct gy_streams *streams; /* immutable */
    struct gy_copier *copier;   /* immutable */
    bool may_lend; /* immutable; callbacks may have their stream captured: the code can tell when that goes
                      wrong */
    struct gy_launch_gate gate; /* its own guards */
    struct gy_trusts trusts;    /* GD only */
    struct gy_ends ends; /* its own guards; does an event in a graph tell the end of the work before it? */
    struct gy_batch_guard guard;  /* GD only; open while callbacks are called */
    struct gy_holds hold;         /* GD only; during first calls */
    struct gy_nodes batch;        /* GD only */
    struct gy_nodes ahead;        /* GD only; of a call that goes ahead of the batch: see submit/ahead.h */
    struct gy_lane ahead_lane;    /* GD only; where it notes them */
    struct gy_kept_set kept;      /* GD only, atomics apart */
    struct gy_side_streams sides; /* GD only */
    struct gy_player player;      /* GD only */
    bool told_refused;            /* GD only; the log has said that the driver refuses a graph */
    CUgraphNode *nodes;           /* GD only; room for nodes_room nodes, to look at the nodes of a graph */
    size_t nodes_room;            /* GD only */
    struct gy_batch_size size;    /* GD only */
    struct gy_kept_rule rule;     /* GD only; of the batch */
    uint64_t flushed;             /* GD only; copies that callbacks have taken out of copy queues */
    struct gy_choice choice;      /* GD only; of the auto mode */
    uint32_t places_wanted;       /* GD only; when fewer are left, more are taken ahead */
    struct gy_graphs_counts counts;
};

GANTRY_MUST_CHECK gantry_status gy_graphs_init(struct gy_graphs *graphs, struct gy_context *context,
                                               struct gy_streams *streams, struct gy_copier *copier,
                                               uint64_t spin_budget_ns);
/* Batches may be graphs from now on: ask the driver what has to be known of it before, once.  Any thread. */
void gy_graphs_prepare(struct gy_graphs *graphs);
/* The GPU is done with the graphs, or the context is lost. */
void gy_graphs_fini(struct gy_graphs *graphs);

/* GD: no batch is being built, the GPU is done, and the streams of the pool have gone: drop all that was made
 * on streams, and what was learnt about batches there. */
void gy_graphs_forget(struct gy_graphs *graphs);

/* Begin a batch, with its guard.  `by_lanes`: its lanes may wait and end by themselves (order/lane_order.h).
 * On failure (not of the context) nothing is being captured, and streams mode goes on. */
GANTRY_MUST_CHECK gantry_status gy_graphs_begin(struct gy_graphs *graphs, enum gy_batch_guard_state guard,
                                                bool by_lanes, enum gy_kept_plays plays);
/* Launch the nodes that are noted, or play them.  They are what was recorded of `unit`, in the context
 * `where`; NULL: of none, and the executable graph is cached.  The unit has it, or is stale, before any
 * thread that waits for the launch goes on.  On failure the context is lost: callbacks of released tasks
 * cannot be called again. */
gantry_status gy_graphs_end(struct gy_graphs *graphs, struct gy_unit *unit, CUcontext where);
/* Destroy the graphs that were launched (spent.h): this is called after the threads that wait for the launch
 * were woken. */
void gy_graphs_sweep(struct gy_graphs *graphs);
/* Is the capture large enough to be launched while the rest of the batch is captured? */
static inline bool gy_graphs_is_large(const struct gy_graphs *graphs)
{
    return graphs->size.calls >= graphs->size.large_calls && gy_batch_is_open(&graphs->streams->batch);
}

/* Does the batch take a call of the function that was asked for last, of which we know that its work can be
 * noted? */
static inline bool gy_graphs_takes(const struct gy_graphs *graphs, gantry_launch_fn function)
{
    return graphs->trusts.latest_ours == function && graphs->size.calls < graphs->size.large_calls &&
           atomic_load_explicit(&graphs->gate.waiting, memory_order_relaxed) == 0;
}

/* GD: the fields on captures agree with each other, and so do the counts of graphs and functions. */
bool gy_graphs_are_valid(const struct gy_graphs *graphs);

#endif
