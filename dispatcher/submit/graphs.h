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
 * a new one is made, in place of the least recently used of GY_GRAPHS_CACHED.
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
#include "dispatcher/order/streams.h"
#include "dispatcher/submit/batch_guard.h"
#include "dispatcher/submit/choice.h"
#include "dispatcher/submit/ends.h"
#include "work/kept.h"
#include "work/play.h"

#define GY_GRAPHS_CACHED 32
#define GY_GRAPHS_PLACES 256u /* that are taken ahead for streams and graphs: see driver/places.h */
#define GY_GRAPHS_SPENT 16
#define GY_GRAPHS_FIRST_CALLS 256
#define GY_GRAPHS_FUNCTIONS 256
#define GY_GRAPHS_WAITS 4 /* batches in which first calls of a function wait; and such calls in a batch */

#define GY_GRAPHS_SEVERAL ((const struct gantry_taskman *)(uintptr_t)1) /* work of more than one manager */

/* What is known of a launch function.
 *
 *     OURS    its work can be noted: it leaves enqueueing to us
 *     BEARS   it asks for the stream, and says each time that it bears that this is captured: its work is
 *             captured aside (aside.h), in all batches
 *     RAW     it asks for the stream and does not say so: likewise, but only in batches that lend streams
 *     NO      its work cannot be captured
 *
 *     UNKNOWN ──► OURS ──► BEARS ──► RAW, as its calls return: from one to any that is further right
 *
 *     any but NO ─── a call cannot be captured, or leaves for good ──► NO */
enum gy_trust { GY_TRUST_UNKNOWN = 0, GY_TRUST_OURS, GY_TRUST_BEARS, GY_TRUST_RAW, GY_TRUST_NO };

struct gy_graph_cached {
    struct gy_exec exec; /* NULL: the entry is free */
    uint64_t signature;
    uint64_t used; /* the number of the launch that used it last */
};

/* A launch function and what has been learnt about it. */
struct gy_graph_function {
    gantry_launch_fn function; /* GD only; NULL: the entry is free */
    enum gy_trust trust;       /* GD only */
    bool is_told;              /* GD only; the log has said that its batches are not patched */
    uint8_t waits;             /* GD only; first calls of it that may have waited for the whole context, */
    uint8_t waiting_batches;   /* in the latest batch that had such, and how many batches had */
    uint64_t waits_of;         /* GD only; the number of that batch */
};

struct gy_graphs {
    struct gy_context *context; /* immutable */
    struct gy_streams *streams; /* immutable */
    struct gy_copier *copier;   /* immutable */
    bool may_lend; /* immutable; callbacks may have their stream captured: the code can tell when that goes
                      wrong */
    uint64_t met_context; /* immutable; of met.h */
    struct gy_ends ends;  /* its own guards; does an event in a graph tell the end of the work before it? */
    struct gy_batch_guard guard;  /* GD only; open while callbacks are called */
    struct gy_holds hold;         /* GD only; during first calls */
    struct gy_nodes batch;        /* GD only */
    struct gy_nodes ahead;        /* GD only; of a call that goes ahead of the batch: see submit/ahead.h */
    struct gy_lane ahead_lane;    /* GD only; where it notes them */
    struct gy_kept_set kept;      /* GD only, atomics apart */
    struct gy_side_streams sides; /* GD only */
    struct gy_player player;      /* GD only */
    bool told_refused;            /* GD only; the log has said that the driver refuses a graph */
    bool notes; /* immutable; kernels can be noted; else each call is captured aside, and no function is OURS
                 */
    CUgraphNode *nodes;             /* GD only; room for nodes_room nodes, to look at the nodes of a graph */
    size_t nodes_room;              /* GD only */
    uint32_t calls;                 /* GD only; launch calls in this capture */
    uint64_t large_calls;           /* GD only; so many of them make it large */
    uint64_t flushed;               /* GD only; copies that callbacks have taken out of copy queues */
    CUgraph spent[GY_GRAPHS_SPENT]; /* GD only; graphs that were launched and are not destroyed yet */
    uint32_t spent_count;           /* GD only */
    uint32_t part; /* GD only; captures of this batch that ended because they were large enough */
    uint32_t
        first_calls; /* immutable; the number of launch calls after which the first of these captures ends */
    struct gy_graph_cached cache[GY_GRAPHS_CACHED];          /* GD only */
    struct gy_graph_function functions[GY_GRAPHS_FUNCTIONS]; /* GD only; open addressing */
    uint32_t function_count;                                 /* GD only */
    struct gy_graph_function latest; /* GD only; the function that was asked for last */
    gantry_launch_fn latest_ours;    /* GD only; the same if it is OURS; else NULL */
    struct gy_choice choice;         /* GD only; of the auto mode */
    uint32_t places_wanted;          /* GD only; when fewer are left, more are taken ahead */
    uint64_t strange; /* GD only; nodes of executable graphs that were made since nothing was like them,
                         beside those of `kept` */
    gy_mutex lock;    /* rank LEAF */
    gy_cond launched; /* a thread waits for `open` to become false */
    _Atomic(uint32_t)
        waiting;              /* atomic: the number of threads in wait_launched; the capture shall end soon */
    uint32_t pauses;          /* guarded by lock: the number of threads that forbid captures for a moment */
    _Atomic(uint64_t) closes; /* atomic; written under lock: captures that were launched or given up */
    _Atomic(bool) open;       /* atomic; written under lock: something is captured that is not launched yet */
    _Atomic(const struct gantry_taskman *) holds; /* atomic; written by GD: the manager whose work that is;
                                                     NULL: none yet */
    uint64_t spin_budget_ns;          /* immutable; how long a waiting thread spins before it sleeps */
    _Atomic(uint64_t) launches;       /* atomic: graphs launched */
    _Atomic(uint64_t) launched_nodes; /* atomic: their nodes */
    _Atomic(uint64_t)
        instantiations;      /* atomic: new executable graphs, out of these, beside those of `kept` */
    _Atomic(uint64_t) cuts;  /* atomic: captures that ended before their batch */
    _Atomic(uint64_t) plays; /* atomic: batches, or parts of them, that were played */
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
                                                bool by_lanes);
/* A call goes ahead of the batch: the work it notes will be enqueued on `stream`. */
void gy_graphs_begin_ahead(struct gy_graphs *graphs, CUstream stream);
/* Launch the nodes that are noted, or play them.  On failure the context is lost: callbacks of released tasks
 * cannot be called again. */
gantry_status gy_graphs_end(struct gy_graphs *graphs);
/* A place for an executable graph, with the memory that its batched copies use. */
struct gy_graph_place {
    struct gy_exec *exec;
    struct gy_copy_chunk **kept;
    struct gy_device_loop
        *loop; /* the nodes are the body of this loop, in the context `where`; NULL: of none */
    CUcontext where;
    bool is_loop;   /* out: they were launched as such; else as they are, and not kept */
    bool is_kept;   /* out: the place has the executable graph that was launched */
    bool *is_stale; /* becomes true where it has not */
};
/* Launch the nodes, but do not cache the executable graph.  The place, which may hold one to update, has it
 * before any thread that waits for the launch goes on. */
gantry_status gy_graphs_end_into(struct gy_graphs *graphs, struct gy_graph_place *into);
/* Destroy the graphs that were launched.  This takes as long as a quarter of their capture, so it is called
 * after the threads that wait for the launch were woken.  Graphs that the driver refuses to destroy stay for
 * the next time. */
void gy_graphs_sweep(struct gy_graphs *graphs);
/* Is the capture large enough to be launched while the rest of the batch is captured? */
static inline bool gy_graphs_is_large(const struct gy_graphs *graphs)
{
    return graphs->calls >= graphs->large_calls && gy_batch_is_open(&graphs->streams->batch);
}
/* True: the graph is gone, or the context is lost, and then the driver's answer does not say whether it is
 * gone. */
static inline bool gy_graphs_is_over(const struct gy_graphs *g, gantry_status status)
{
    return status == GANTRY_OK || gy_context_is_lost(g->context);
}
/* The next sweep destroys the graph. */
void gy_graphs_spend(struct gy_graphs *graphs, CUgraph graph);

GY_RARE enum gy_trust gy_graphs_find_trust(struct gy_graphs *graphs, gantry_launch_fn function);
/* Is a call of the function, which was not met, made as a first one?  Not behind GY_GRAPHS_WAITS of the same
 * batch that may have waited. */
bool gy_graphs_may_meet(const struct gy_graphs *graphs, gantry_launch_fn function, uint64_t batch);
/* A first call of the function may have waited for the whole context.  True: it is NO now, since that was so
 * in GY_GRAPHS_WAITS batches. */
bool gy_graphs_note_wait(struct gy_graphs *graphs, gantry_launch_fn function, uint64_t batch);
/* Of an UNKNOWN function: another user of the CUDA context has met it, and so it is OURS. */
GY_COLD bool gy_graphs_adopt_met(struct gy_graphs *graphs, gantry_launch_fn function);
/* Does the batch take a call of the function that was asked for last, of which we know that its work can be
 * noted? */
static inline bool gy_graphs_takes(const struct gy_graphs *graphs, gantry_launch_fn function)
{
    return graphs->latest_ours == function && graphs->calls < graphs->large_calls &&
           atomic_load_explicit(&graphs->waiting, memory_order_relaxed) == 0;
}
static inline enum gy_trust gy_graphs_trust(struct gy_graphs *graphs, gantry_launch_fn function)
{
    return graphs->latest.function == function ? graphs->latest.trust
                                               : gy_graphs_find_trust(graphs, function);
}
/* The same for a batch, where `lends` says whether it takes what callbacks enqueue on their streams. */
static inline enum gy_trust gy_graphs_trust_in(struct gy_graphs *graphs, bool lends,
                                               gantry_launch_fn function)
{
    const enum gy_trust trust = gy_graphs_trust(graphs, function);
    return trust == GY_TRUST_RAW && !lends ? GY_TRUST_NO : trust;
}
/* Was the function not met on the CUDA context (met.h)? */
static inline bool gy_graphs_is_unmet(struct gy_graphs *graphs, gantry_launch_fn function)
{
    return gy_graphs_trust(graphs, function) == GY_TRUST_UNKNOWN && !gy_graphs_adopt_met(graphs, function);
}
/* Is what its calls enqueue on their stream captured aside from their beginning on? */
static inline bool gy_trust_is_aside(enum gy_trust trust)
{
    return trust == GY_TRUST_BEARS || trust == GY_TRUST_RAW;
}
void gy_graphs_set_trust(struct gy_graphs *graphs, gantry_launch_fn function, enum gy_trust trust);
/* The function's work is a child graph: say once that it keeps batches from being patched. */
void gy_graphs_tell_child(struct gy_graphs *graphs, gantry_launch_fn function, const char *label);

/* GD: the fields on captures agree with each other, and so do the counts of graphs and functions. */
bool gy_graphs_are_valid(const struct gy_graphs *graphs);

/* Any thread but GD: no capture is under way or begins between these two, since calls on a whole green
 * context would break it.  The caller must not block in between. */
void gy_graphs_pause(struct gy_graphs *graphs);
void gy_graphs_resume(struct gy_graphs *graphs);

/* GD: the first waits for threads that pause captures, and from then on a capture may be under way; the
 * second ends that. */
void gy_graphs_open_gate(struct gy_graphs *graphs);
void gy_graphs_close_gate(struct gy_graphs *graphs);

/* Any thread: wait until everything of `manager` that was noted so far was launched, however soon the next
 * batch begins.  Its tasks were released. */
void gy_graphs_wait_launched(struct gy_graphs *graphs, const struct gantry_taskman *manager);
/* GD: work of `manager` is being noted, before its task is released. */
static inline void gy_graphs_note_manager(struct gy_graphs *graphs, const struct gantry_taskman *manager)
{
    const struct gantry_taskman *holds = atomic_load_explicit(&graphs->holds, memory_order_relaxed);
    if (__builtin_expect(holds != manager, 0)) {
        atomic_store_explicit(&graphs->holds, holds == NULL ? manager : GY_GRAPHS_SEVERAL,
                              memory_order_relaxed);
    }
}

#endif
