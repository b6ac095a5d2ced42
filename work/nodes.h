/* SPDX-License-Identifier: MIT */
/* A graph that is being built: its work is noted in the order of the calls, and made into a graph at the end.
 *
 * Work is noted on lanes, which are to a graph what streams are to a device: a node comes after the node that
 * was noted on its lane before it, and after the nodes that the lane was told to wait for.  Until the graph
 * is made, no capture is open that other calls could break, and the last nodes can be taken back.
 *
 * Kernels, copies and fills become nodes by a call of their own.  On a stream with a priority or a partition
 * of its own they are captured from the lane's stream into the graph, one by one, and so are copies of other
 * devices' memory: so each node is the one that a capture would have made.
 *
 * One thread at a time; the context is current. */
#ifndef WORK_NODES_H
#define WORK_NODES_H

#include "driver/extra.h"
#include "work/lent_event.h"
#include "work/slot_args.h"

enum gy_node_kind { GY_NODE_KERNEL, GY_NODE_COPY, GY_NODE_FILL, GY_NODE_EVENT, GY_NODE_WAIT, GY_NODE_GRAPH };

/* The kinds of a copy's operands; a graph that is kept cannot be given others. */
enum gy_node_sides { GY_SIDES_UNKNOWN, GY_SIDES_TO_DEVICE, GY_SIDES_TO_HOST, GY_SIDES_ON_DEVICE };

/* node->form: no executable graph can be given another such node.  Else it is what must stay of the operands
 * (the sides of a copy, the pattern's bytes of a fill) with what must stay of the lane: its partition and
 * priority. */
#define GY_FORM_FIXED UINT32_MAX
#define GY_FORM_LANE(kind) (((kind) + 1u) << 8)

/* A set of nodes that something comes after: their numbers are nodes->before[first], … */
struct gy_node_set {
    uint32_t first, count;
};

struct gy_node_kernel {
    const struct gy_kernel_layout *layout; /* the layout of its parameters */
    CUfunction function;
    size_t at; /* the place where they begin in nodes->bytes */
    struct gy_launch_size size;
    uint32_t room;  /* the bytes that there are for them */
    uint32_t extra; /* what it asks for is nodes->extras[extra - 1]; 0: nothing */
};

/* A fill, the same for every way to the device.  Made by gy_fill_of() only. */
struct gy_fill {
    CUdeviceptr at;
    size_t count;                    /* of patterns */
    uint32_t pattern, pattern_bytes; /* no bit of the pattern is above its 1, 2 or 4 bytes */
};

/* Only the low bytes of `pattern` count.  A call takes no more of them, but a memset node writes them all. */
static inline struct gy_fill gy_fill_of(CUdeviceptr at, uint32_t pattern, uint32_t pattern_bytes,
                                        size_t count)
{
    return (struct gy_fill){at, count, pattern & UINT32_MAX >> (32 - 8 * pattern_bytes), pattern_bytes};
}

/* Every byte of a node is written: two batches that do the same have equal bytes. */
struct gy_node {
    enum gy_node_kind kind;
    uint32_t form; /* what else must be equal in a graph that is kept: see GY_FORM_FIXED */
    struct gy_node_set before;
    uint64_t id;     /* of the call that has noted it, and its number in that: see gy_nodes_name() */
    CUstream stream; /* the stream on which it is captured; NULL: a call of its own makes it */
    union {
        struct gy_node_kernel kernel;
        struct {
            CUdeviceptr to, from;
            size_t bytes;
        } copy;
        struct gy_fill fill;
        uint32_t event; /* EVENT, WAIT: nodes->events[event], which two batches that do the same have not in
                         * common */
        CUgraph graph;  /* it belongs to us */
    };
};
_Static_assert(sizeof(struct gy_node) == 32 + sizeof(struct gy_node_kernel), "no byte is left out");

struct gy_node_event {
    uint32_t node;
    bool is_order;                /* it is no work, but an end or a wait: see gy_lane_end() */
    CUevent event;                /* see gy_node_event_of() */
    struct gy_lent_event **place; /* where its holder refers to it, if it may be exchanged; else NULL */
    struct gy_lent_event *lent;   /* of a copy: it is this one's, which stays; NULL: of none */
};

/* What the node records: the holder may have got another one than when the node was noted, in exchange with
 * a node of the same batch. */
static inline CUevent gy_node_event_of(const struct gy_node_event *event)
{
    return event->place != NULL ? (*event->place)->event : event->event;
}

/* What is at hand while nodes are noted or made. */
struct gy_nodes_room {
    CUgraphNode *handles; /* room for the nodes that one node comes after */
    size_t handles_room;
    void **pointers; /* room for pointers to the parameters of one kernel */
    size_t pointers_room;
    CUstream owner_of; /* the stream whose context is `owner`; NULL: none was asked for yet */
    CUcontext owner;
    CUstream trial; /* launches are tried on it, in a capture that is dropped; NULL: nothing was tried yet */
    bool is_stuck;  /* the driver would not end the capture of a node */
};

struct gy_nodes {
    struct gy_context *context; /* immutable */
    struct gy_node *list;
    size_t room;
    CUstream *streams; /* per node: that of its lane, which need not be node->stream; a copy has none */
    size_t streams_room;
    uint32_t *before;
    size_t before_room;
    uint32_t count, before_count;
    uint32_t graphs;              /* the number of nodes of kind GY_NODE_GRAPH */
    uint64_t next_id;             /* of the next node */
    struct gy_node_event *events; /* of the nodes of kinds GY_NODE_EVENT and GY_NODE_WAIT, in their order; of
                                   * a copy: those that its executable graph has */
    size_t events_room;
    uint32_t event_count;
    unsigned char *bytes; /* the parameters of the kernels; what lies between them is 0 */
    size_t bytes_used, bytes_room;
    struct gy_launch_extra *extras; /* of kernels; no executable graph can be given others */
    size_t extras_room;
    uint32_t extra_count;
    struct gy_slot_args slot_args; /* parameters that are other ones at each launch; a copy has none */
    uint64_t table;                /* of a copy: the slots of its nodes, on the device; 0: there are none */
    CUgraphNode *made;             /* per node: its node in the latest graph that was made */
    size_t made_room;
    struct gy_nodes_room making;
};

/* A lane takes the work that is not enqueued on `stream`. */
struct gy_lane {
    struct gy_nodes *nodes;
    CUstream stream;
    CUstream kernel_stream; /* the same stream where it has a priority or a partition of its own; else NULL */
    uint32_t form;          /* of its nodes: 0, or GY_FORM_LANE() where there is a kernel_stream */
    struct gy_node_set last;
};

/* `form` as above.  Streams of one form have the same partition and priority. */
static inline struct gy_lane gy_lane_of(CUstream stream, uint32_t form)
{
    return (struct gy_lane){.stream = stream, .kernel_stream = form != 0 ? stream : NULL, .form = form};
}

/* Can kernels be noted, and single nodes be captured? */
bool gy_nodes_are_possible(const struct gy_driver *driver);

void gy_nodes_init(struct gy_nodes *nodes, struct gy_context *context);
/* End it.  The streams of all lanes are gone, and with them the captures on them. */
/* The streams of the context's home are about to go. */
void gy_nodes_drop_stream(struct gy_nodes *nodes);
void gy_nodes_fini(struct gy_nodes *nodes);

/* The first forgets all nodes; the second forgets those from the `count`-th on, and with them whatever lanes
 * have learnt since. */
void gy_nodes_clear(struct gy_nodes *nodes);
void gy_nodes_cut(struct gy_nodes *nodes, uint32_t count);

/* Name the nodes that are noted from now on: nodes with equal names in two steps do the same part of the same
 * task.  A call has 65536 names. */
static inline void gy_nodes_name(struct gy_nodes *nodes, uint64_t first)
{
    nodes->next_id = first;
}

/* Note work that comes after everything that the lane comes after.  A kernel that the driver would refuse is
 * refused at once; `extra` (NULL: nothing) was checked by gy_kernel_check_fit().  A kernel may start early
 * where it comes after one kernel and nothing else.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, and the driver's error for a kernel */
GANTRY_MUST_CHECK gantry_status gy_lane_kernel(struct gy_lane *lane, struct gantry_kernel *kernel,
                                               const struct gy_launch_size *size, void *const *args,
                                               const struct gy_launch_extra *extra);
GANTRY_MUST_CHECK gantry_status gy_lane_copy(struct gy_lane *lane, CUdeviceptr to, CUdeviceptr from,
                                             size_t bytes, enum gy_node_sides sides);
GANTRY_MUST_CHECK gantry_status gy_lane_fill(struct gy_lane *lane, struct gy_fill fill);
/* Note an event that is recorded each time that the graph runs.  What is noted next on the lane comes after
 * the first one, and does not wait for the second one, which only tells that the work before it has ended. */
GANTRY_MUST_CHECK gantry_status gy_lane_event(struct gy_lane *lane, CUevent event);
GANTRY_MUST_CHECK gantry_status gy_lane_end(struct gy_lane *lane, CUevent event);
/* As the first one, for the event that is at *place, where another one may be until it is launched. */
GANTRY_MUST_CHECK gantry_status gy_lane_lent_event(struct gy_lane *lane, struct gy_lent_event **place);
/* The driver has nodes that wait for an event. */
bool gy_lanes_may_wait(const struct gy_driver *driver);
/* Note a wait for an event of others.  Each launch of the graph waits for the record that is the latest at
 * the call of the launch.  What is noted next on the lane comes after it; what was noted before does not. */
GANTRY_MUST_CHECK gantry_status gy_lane_wait_event(struct gy_lane *lane, CUevent event);
/* Note `graph`, which it takes over even if it fails. */
GANTRY_MUST_CHECK gantry_status gy_lane_graph(struct gy_lane *lane, CUgraph graph);

/* A graph was made of the first `count` nodes: events that are lent stay with their holders. */
void gy_nodes_give_events(const struct gy_nodes *nodes, uint32_t count);

/* The number of the first `count` nodes without ends and waits. */
uint32_t gy_nodes_count_work(const struct gy_nodes *nodes, uint32_t count);

/* The number of entries that the sets of all nodes have, each counted for each node that comes after it. */
size_t gy_nodes_count_before(const struct gy_nodes *nodes);

/* The work that is noted next on the lane comes after `set`, too. */
GANTRY_MUST_CHECK gantry_status gy_lane_wait(struct gy_lane *lane, struct gy_node_set set);

static inline uint64_t gy_nodes_mix(uint64_t hash, uint64_t what)
{
    hash = (hash ^ what) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return hash ^ hash >> 29;
}
/* The hash is the same for graphs that differ in nothing but the work of their nodes. */
uint64_t gy_nodes_hash(const struct gy_nodes *nodes, uint64_t seed);
/* The same of what a kernel's launch asks for: it is no work, since no executable graph can be given other.
 */
GY_COLD uint64_t gy_node_hash_extra(uint64_t hash, const struct gy_nodes *nodes, const struct gy_node *node);

/* The driver has refused the launch: report it with what the launch asked for.  Returns the status. */
GY_COLD gantry_status gy_kernel_failed(struct gy_context *context, const struct gantry_kernel *kernel,
                                       const struct gy_launch_size *size, CUresult result);

/* End the capture on `stream`, even where the driver has to be asked twice. */
CUresult gy_stream_end_capture(const struct gy_driver *driver, CUstream stream, CUgraph *out);

/* The capture on `*stream` was to be ended, and that has failed.  If it is still open nothing else would end
 * it: the stream is destroyed, and becomes NULL. */
void gy_stream_drop_if_captured(const struct gy_driver *driver, CUstream *stream);

/* Make the graph of all nodes.  No stream of a lane is being captured. */
GANTRY_MUST_CHECK gantry_status gy_nodes_make(struct gy_nodes *nodes, CUgraph *out);

/* The two halves of that: add all nodes to `graph`, which is empty; and drop a graph to which nodes were
 * added in vain. */
GANTRY_MUST_CHECK gantry_status gy_nodes_make_in(struct gy_nodes *nodes, CUgraph graph);
void gy_nodes_drop(struct gy_nodes *nodes, CUgraph graph);

/* Describe kernel node `node` as the driver wants it, with pointers to the parameters where they are now. */
GANTRY_MUST_CHECK gantry_status gy_nodes_describe(struct gy_nodes *nodes, const struct gy_node *node,
                                                  CUDA_KERNEL_NODE_PARAMS_v2 *out);
/* Describe a fill as the driver wants it of a node, and enqueue one. */
CUDA_MEMSET_NODE_PARAMS gy_fill_describe(const struct gy_fill *fill);
GANTRY_MUST_CHECK gantry_status gy_fill_enqueue(struct gy_context *context, const struct gy_fill *fill,
                                                CUstream stream);
/* Enqueue the work of a kernel, a copy or a fill.  Others: nothing. */
GANTRY_MUST_CHECK gantry_status gy_node_enqueue(struct gy_nodes *nodes, const struct gy_node *node,
                                                CUstream stream);
/* A node may have been captured in vain: is none of the streams of the first `count` nodes captured any more?
 */
bool gy_nodes_are_released(const struct gy_nodes *nodes, uint32_t count);

/* Nodes come only after earlier ones. */
bool gy_nodes_are_valid(const struct gy_nodes *nodes);

#endif
