/* Graphs mode: what launch callbacks enqueue is noted, made a graph, and launched at once.
 *
 * A batch's work is noted as nodes (driver/nodes.h) on the lanes of the streams, and launched at the end of
 * the batch, or before (a cut) when something cannot be part of a graph.  Streams of the pool that get work
 * become members; the graph is launched on the stream of the first of them, behind what its tasks come after
 * and nothing else: see order/batch_order.h.  Inside it the stream rules hold as always.
 *
 *           first call of a batch            callbacks are called            large, cut, or it ends
 *    CLOSED ---------------------> OPEN ---------------------> OPEN, nodes ---------------------> CLOSED
 *      ^                                                          |                              launched
 *      +--- a call does what no graph takes: its nodes are taken back, the others launched, and the call is
 *           made again on its stream
 *
 * The graph updates an executable one of the same signature (a hash of its nodes' kinds, lanes and edges)
 * when there is one and the driver agrees, else a new one is made; the least recently used of
 * GY_GRAPHS_CACHED goes.
 *
 * A large batch becomes several graphs, each of twice as many calls as the one before: the device works on
 * one while the next is noted.
 *
 * No capture of the batch's is open while callbacks run, so none of them can break it.  What a callback
 * enqueues itself is captured by itself (aside.h).  Beside the callbacks, on a stream that nothing is
 * enqueued on, a capture is open that holds nothing, the guard: a callback that waits for the GPU or frees
 * memory must not be told that all is done while work before it is only noted.  The driver refuses such a
 * call and breaks the guard; the call's nodes are taken back, the batch is launched, and the callback is
 * called again on its plain stream.  See docs/decisions/0030-a-batch-is-noted-and-made-a-graph-at-its-end.md.
 *
 * Everything belongs to the dispatcher thread, except what is marked. */
#ifndef DISPATCHER_WAYS_GRAPHS_H
#define DISPATCHER_WAYS_GRAPHS_H

#include "copykernel/copier.h"
#include "dispatcher/order/streams.h"

#define GY_GRAPHS_CACHED 32
#define GY_GRAPHS_SPENT 16
#define GY_GRAPHS_REFUSED 16
#define GY_GRAPHS_FIRST_CALLS 256
#define GY_GRAPHS_FUNCTIONS 256
#define GY_GRAPHS_SHAPES 64

/* What is known of a launch function: its work can be captured, and it leaves enqueueing to us (OURS) or asks
 * for the stream (RAW: captured aside, see aside.h); or it cannot (NO). */
enum gy_trust { GY_TRUST_UNKNOWN = 0, GY_TRUST_OURS, GY_TRUST_RAW, GY_TRUST_NO };

struct gy_graph_cached {
    CUgraphExec exec; /* NULL: free */
    uint64_t signature;
    uint64_t used; /* when, in launches */
};

/* A launch function and what is known of it. */
struct gy_graph_function {
    gantry_launch_fn function; /* GD only; NULL: free */
    enum gy_trust trust;       /* GD only */
};

/* What auto knows of a batch's shape: the launch functions that are ready at its beginning. */
struct gy_graph_shape {
    uint64_t key;
    uint32_t seen;  /* batches */
    double cost[2]; /* ns per launch call, as streams and as a graph; the mean of late */
    uint32_t samples[2];
};

struct gy_graphs {
    struct gy_context *context; /* immutable */
    struct gy_streams *streams; /* immutable */
    struct gy_copier *copier;   /* immutable */
    bool may_lend;  /* immutable; callbacks may have their stream captured: it shows when that goes wrong */
    bool guarded;   /* GD only; `guard` is being captured */
    CUstream guard; /* GD only; nothing is enqueued on it: its capture breaks when a callback makes a call
                     * that captures of its thread forbid; NULL: none was yet */
    struct gy_nodes batch;          /* GD only */
    bool notes;                     /* immutable; kernels can be noted, else each call is captured aside */
    CUgraphNode *nodes;             /* GD only; room to look at the nodes of a graph, nodes_room of them */
    size_t nodes_room;              /* GD only */
    uint32_t calls;                 /* GD only; launch calls in this capture */
    CUgraph spent[GY_GRAPHS_SPENT]; /* GD only; launched, not destroyed yet */
    uint32_t spent_count;           /* GD only */
    CUgraphExec refused[GY_GRAPHS_REFUSED]; /* GD only; the driver would not destroy them: asked again */
    uint32_t refused_count;                 /* GD only */
    uint32_t part;        /* GD only; captures of this batch that ended because they were large enough */
    uint32_t first_calls; /* immutable; launch calls after which the first of them ends */
    struct gy_graph_cached cache[GY_GRAPHS_CACHED];          /* GD only */
    struct gy_graph_function functions[GY_GRAPHS_FUNCTIONS]; /* GD only; open addressing */
    uint32_t function_count;                                 /* GD only */
    struct gy_graph_function latest;                         /* GD only; asked for last */
    struct gy_graph_shape shapes[GY_GRAPHS_SHAPES];          /* GD only */
    gy_mutex lock;                                           /* rank LEAF */
    gy_cond launched;                                        /* somebody waits for `open` to become false */
    _Atomic(uint32_t) waiting;  /* atomic: threads in wait_launched: the capture shall end soon */
    uint32_t pauses;            /* guarded by lock: who forbids captures for a moment */
    _Atomic(uint64_t) closes;   /* atomic; written under lock: captures that were launched or given up */
    _Atomic(bool) open;         /* atomic; written under lock: something is captured and not launched yet */
    uint64_t spin_budget_ns;    /* immutable; how long who waits for that spins before it sleeps */
    _Atomic(uint64_t) launches; /* atomic: graphs launched */
    _Atomic(uint64_t) instantiations; /* atomic: of these, new executable graphs */
    _Atomic(uint64_t) cuts;           /* atomic: captures that ended before their batch */
};

GANTRY_MUST_CHECK gantry_status gy_graphs_init(struct gy_graphs *graphs, struct gy_context *context,
                                               struct gy_streams *streams, struct gy_copier *copier,
                                               uint64_t spin_budget_ns);
/* The GPU must be done with the graphs, or the context lost. */
void gy_graphs_fini(struct gy_graphs *graphs);

/* On failure (not of the context) nothing is being captured and streams go on. */
GANTRY_MUST_CHECK gantry_status gy_graphs_begin(struct gy_graphs *graphs);
/* Launch what is noted.  On failure the context is lost: callbacks of released tasks cannot be called again.
 */
gantry_status gy_graphs_end(struct gy_graphs *graphs);
/* Where an executable graph is kept, with what its batched copies use. */
struct gy_graph_place {
    CUgraphExec *exec;
    struct gy_copy_chunk **kept;
};
/* The same, but the executable graph is not cached: the place, which may hold one to update, has it then,
 * before anybody who waits for the launch goes on. */
gantry_status gy_graphs_end_into(struct gy_graphs *graphs, const struct gy_graph_place *into);
/* Destroy the graphs that were launched: takes as long as a quarter of their capture, so after whoever waits
 * for the launch was told.  Those that the driver refuses to destroy stay for the next time. */
void gy_graphs_sweep(struct gy_graphs *graphs);
/* The capture is large enough to be launched while the rest of the batch is captured. */
static inline bool gy_graphs_is_large(const struct gy_graphs *graphs)
{
    return graphs->calls >= (uint64_t)graphs->first_calls << graphs->part && graphs->streams->batch.is_open;
}
/* A callback has made a call that its thread's captures forbid. */
bool gy_graphs_is_guard_broken(const struct gy_graphs *graphs);
/* To be destroyed by the next sweep. */
void gy_graphs_spend(struct gy_graphs *graphs, CUgraph graph);

GY_RARE enum gy_trust gy_graphs_find_trust(struct gy_graphs *graphs, gantry_launch_fn function);
static inline enum gy_trust gy_graphs_trust(struct gy_graphs *graphs, gantry_launch_fn function)
{
    return graphs->latest.function == function ? graphs->latest.trust
                                               : gy_graphs_find_trust(graphs, function);
}
void gy_graphs_set_trust(struct gy_graphs *graphs, gantry_launch_fn function, enum gy_trust trust);

/* Auto: whether a batch of this shape shall be a graph, and what a batch has cost. */
bool gy_graphs_choose(struct gy_graphs *graphs, uint64_t shape);
void gy_graphs_learn(struct gy_graphs *graphs, uint64_t shape, bool as_graph, uint64_t ns, uint64_t calls);

/* GD: what is said of captures, and how much is kept of graphs and functions, fits together. */
bool gy_graphs_are_valid(const struct gy_graphs *graphs);

/* Any thread but GD: no capture begins between the two, and none is under way: calls on a whole green context
 * would break it.  Not to be held over anything that blocks. */
void gy_graphs_pause(struct gy_graphs *graphs);
void gy_graphs_resume(struct gy_graphs *graphs);

/* GD: from now on a capture may be under way, after whoever pauses captures; it is not any more. */
void gy_graphs_open_gate(struct gy_graphs *graphs);
void gy_graphs_close_gate(struct gy_graphs *graphs);

/* Any thread: wait until everything captured so far was launched, however soon the next capture begins. */
void gy_graphs_wait_launched(struct gy_graphs *graphs);

#endif
