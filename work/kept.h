/* SPDX-License-Identifier: MIT */
/* Executable graphs that are kept: a batch that is like an earlier one is launched as the earlier one's
 * executable graph, of which only those nodes are set that differ (work/patch.h).
 *
 *              made anew                launched                  its event was seen
 *     FREE ----------------> IDLE ------------------> IN FLIGHT -----------------------> IDLE
 *       ^                     |                           |
 *       +---------------------+---------------------------+
 *          the least recently used makes room; a module of it was unloaded; the driver refuses a patch
 *
 * Nobody writes the state down: FREE has no `exec`, and whether an executable graph is in flight the driver
 * is asked when it is wanted.  One that is in flight is neither set nor launched.  A batch for which all like
 * it are in flight gets one more, up to GY_KEPT_COPIES of the same tasks; beyond that it is made as batches
 * that are not kept: see graphs.h.
 *
 * Which one a batch gets: one of the same calls in the same order; else one of the same calls in another
 * order, if their edges are the same; else one that is merely alike.  A batch that comes again gets one of
 * its own instead, but whether it does is a guess: so at most one node in GY_KEPT_PATCHES is spent on such.
 * When there is none, a batch whose first 16, 32, 64, ... nodes are a beginning that was seen before is cut
 * there: batches that are cut by chance have beginnings in common, but not their ends.
 *
 * Pipelines that have nothing to do with each other are noted as their callbacks happen to come, so that no
 * two batches of them are alike.  So when nothing is like a batch, and it does not begin as earlier ones, its
 * pieces (work/pieces.h) are looked at each as a batch of its own, and launched beside each other:
 * kept_pieces.h.
 *
 * In auto mode some batches are played (work/play.h), on side streams, in place of being
 * made or updated: a few nodes of which all like them are in flight, since that takes longer than their
 * launches; and, where the choice (choice.h) has no credit, what nothing is like the first time it comes.
 *
 * While something is recorded, kernels have slots (work/slot_args.h): a graph of which a node has one gets
 * a part of the slots, of a slot for each of its nodes.  What they shall be is copied there ahead of the
 * launch, on its stream; not if all are 0, and were.
 *
 * Unloading a module drops what has kernels of it.  Everything belongs to the dispatcher's thread (GD),
 * except what is marked. */
#ifndef WORK_KEPT_H
#define WORK_KEPT_H

#include "work/few_points.h"
#include "work/kept_rule.h"
#include "work/maker.h"
#include "work/patch.h"
#include "work/pieces.h"
#include "work/side_streams.h"
#include "work/slots.h"

#include <gantry/partition.h>

#define GY_KEPT_MOST 64u
#define GY_REFRESHED_MOST 32
#define GY_KEPT_COPIES 4u
#define GY_KEPT_ALIKE 16u    /* executables that are alike, of different tasks */
#define GY_KEPT_PATCHES 16u  /* so many nodes are patched for each node of one of its own */
#define GY_KEPT_NODES 65536u /* the most nodes of all of them */
#define GY_KEPT_REFUSALS 16u /* so many patches more were refused than taken: it is not tried any more */
#define GY_KEPT_STRANGERS 8u /* after so many batches that nothing was like, others are cut */
#define GY_KEPT_LARGE 128u   /* nodes of a graph that others feel when it is queued */
#define GY_KEPT_LATEST 64u
#define GY_KEPT_FEW 3u /* so many nodes are enqueued before an executable graph is updated as a whole */
#define GY_KEPT_SEEN 256u
#define GY_KEPT_PIECE 32u /* nodes that pieces have on average: a launch takes as long as some nodes */
#define GY_KEPT_VARIED \
    4u /* two batches in a row that nothing was like; each takes two others to make up for */
#define GY_KEPT_MOST_VARIED 16u
#define GY_KEPT_OFTEN \
    16u /* of the latest batches so many were like this one: it is not launched by pieces \
         */

struct gy_kept {
    struct gy_exec exec;       /* NULL: the entry is free; with its graph, by which nodes are addressed */
    CUevent done;              /* behind the latest launch; NULL: not made yet */
    struct gy_few_points ends; /* of that launch's members: where these are passed `done` need not be asked */
    struct gy_nodes nodes;     /* nodes.table is where `slots` lies on the device */
    struct gy_slots_part slots;
    bool is_claimed; /* a piece of the batch that is launched next gets it */
    bool has_values; /* of its slots, some are not 0 on the device */
    bool is_written; /* its slots on the host are for the next launch */
    uint64_t names;  /* gy_nodes_names() */
    uint64_t used;   /* the number of the launch that used it last; 0: none */
};

/* One that is updated as a whole. */
struct gy_refreshed {
    struct gy_exec exec; /* NULL: the entry is free */
    uint64_t signature;
    uint64_t used; /* the number of the launch that used it last */
};

/* What there is for a batch. */
struct gy_kept_found {
    struct gy_kept *kept; /* NULL: none is idle */
    uint64_t names;       /* of the nodes; 0: they were not asked for */
    bool is_equal;        /* its nodes are equal: see gy_nodes_are_equal() */
    bool is_paired;       /* by names */
    bool is_known;        /* there are some of the same calls */
    bool is_strange;      /* there are none that are alike, in flight or not */
    bool is_enough;       /* there are as many of its like as there may be */
    bool is_played;       /* none is made: it is played */
    uint32_t familiar;    /* of strange nodes, so many of the first are a beginning that was seen before */
};

/* What a batch, or a piece of one, will be launched by. */
struct gy_kept_want {
    struct gy_kept_found found;
    struct gy_exec exec;        /* has a graph: the maker was asked for it; and what that has made */
    struct gy_slots_part slots; /* of that graph */
};

/* The latest large graph of a partition: what other partitions launch waits on the device behind all graphs
 * that are queued there. */
struct gy_kept_running {
    CUevent done;      /* of an entry */
    uint64_t since_ns; /* when it was launched */
    uint32_t nodes;    /* 0: it has ended, or nobody waits for it any more */
};

/* What has come before. */
struct gy_kept_seen {
    uint64_t varied_in; /* the latest batch that is in `varied` */
    uint32_t varied;    /* 2 for each of the latest batches that nothing was like, less the others */
    uint64_t latest[GY_KEPT_LATEST];       /* shapes of the latest batches that had none */
    uint64_t latest_names[GY_KEPT_LATEST]; /* names of the latest batches that got one of other tasks */
    uint32_t next_latest, next_names;
    uint64_t beginnings[GY_KEPT_SEEN]; /* shapes with which batches have begun, by their lower bits */
    uint64_t strangers;                /* batches that nothing was like; or auto took their shape for new */
    uint64_t patches_due; /* nodes to be patched before another batch that comes again gets one of its own */
};

/* What was found for the batch. */
struct gy_kept_looked {
    uint32_t nodes;    /* 0: the batch was not looked at */
    uint32_t first;    /* of them, that go together */
    bool is_by_pieces; /* it is launched by pieces */
};

struct gy_kept_counts {
    _Atomic(uint64_t) made;       /* atomic: executable graphs, in all */
    _Atomic(uint64_t) hits;       /* atomic: launches of one that was there */
    _Atomic(uint64_t) nodes_hit;  /* atomic: nodes of these */
    _Atomic(uint64_t) nodes_set;  /* atomic: of these, nodes that were set */
    _Atomic(uint64_t) count;      /* atomic: executable graphs now */
    _Atomic(uint64_t) node_count; /* atomic: nodes of these */
};

struct gy_kept_set {
    struct gy_context *context;    /* immutable */
    struct gy_side_streams *sides; /* immutable */
    struct gy_kept_looked looked;
    struct gy_kept_want whole; /* for the first looked.first nodes of the batch */
    uint64_t batch;            /* how many batches have begun */
    struct gy_pieces pieces;
    struct gy_kept_want of_pieces[GY_PIECES_MOST];
    struct gy_side_stream *side_of[GY_PIECES_MOST]; /* of each but the first */
    uint32_t piece_nodes;                           /* immutable, but in tests: GY_KEPT_PIECE */
    struct gy_maker maker; /* not IDLE: it makes what the batch needs, of the graphs of these: */
    struct gy_kept_want *asked[GY_PIECES_MOST];
    uint32_t asked_count;
    struct gy_slots slots;
    struct gy_kept_running running[GANTRY_PARTITIONS_MAX];
    struct gy_kept of[GY_KEPT_MOST];
    struct gy_refreshed refreshed[GY_REFRESHED_MOST];
    struct gy_kept_seen seen;
    struct gy_kept_counts counts;
    uint64_t launches;         /* the number of them */
    uint64_t generation;       /* of context->generation: no kernel is of a module that was
                                * unloaded before */
    struct gy_pairing pairing; /* room */
    uint64_t refusals;         /* patches that the driver has refused */
    uint64_t strange;          /* nodes of executable graphs that were made since nothing was like them, the
                                * first time that they came, but for those that a batch before has begun with, too */
};

GANTRY_MUST_CHECK gantry_status gy_kept_init(struct gy_kept_set *set, struct gy_context *context,
                                             struct gy_side_streams *sides);
/* The GPU is done with them, or the context is lost. */
void gy_kept_fini(struct gy_kept_set *set);

/* Drop what has kernels of modules that were unloaded meanwhile.  True: there were such. */
bool gy_kept_follow_modules(struct gy_kept_set *set);
/* Nothing that is kept is launched again: the streams that it was made on go.  The GPU is done with it. */
void gy_kept_drop_all(struct gy_kept_set *set);

/* A batch begins while something is recorded, outside of captures: its kernels may have slots. */
void gy_kept_make_slots(struct gy_kept_set *set, struct gy_nodes *nodes);
/* The nodes will be launched next: if an executable graph has to be made for them, begin to make it on the
 * maker's thread. */
void gy_kept_prepare(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule);
/* What was prepared for the batch is dropped. */
void gy_kept_forget_any(struct gy_kept_set *set);
static inline void gy_kept_forget(struct gy_kept_set *set)
{
    if (__builtin_expect(set->looked.nodes != 0, 0)) {
        gy_kept_forget_any(set);
    }
}
/* Another batch begins: what was prepared for the one before, which was not launched, is dropped. */
static inline void gy_kept_begin(struct gy_kept_set *set)
{
    gy_kept_forget(set);
    set->batch++;
}

/* Find or make an executable graph for the first *count nodes, whose parameters are PLACED, which is their
 * number on entry; *out has their work when it comes out.  Else it is NULL: they cannot be patched, or too
 * many are in flight, or are better played.  On failure nothing was launched. */
GANTRY_MUST_CHECK gantry_status gy_kept_take(struct gy_kept_set *set, struct gy_nodes *nodes,
                                             struct gy_kept_rule rule, uint32_t *count, struct gy_kept **out,
                                             bool *is_played);
/* Is the batch, whose parameters are PLACED, launched by pieces?  Their number, which are set->pieces; 0: it
 * is not. Then its pieces are taken, and what was found is forgotten at the end. */
uint32_t gy_kept_pieces(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule);
/* Find or make an executable graph for the piece, which is in *out when it comes out; NULL: too many are in
 * flight. On failure nothing was launched. */
GANTRY_MUST_CHECK gantry_status gy_kept_take_piece(struct gy_kept_set *set, uint32_t piece,
                                                   struct gy_kept_rule rule, struct gy_kept **out);
/* Launch it on `home`, a stream of that partition; where `ends` are passed it is done.  On failure it was not
 * launched, or the context is lost. */
GANTRY_MUST_CHECK gantry_status gy_kept_launch(struct gy_kept_set *set, struct gy_kept *kept, CUstream home,
                                               uint32_t partition, const struct gy_few_points *ends);
/* Is a large graph of the partition on the device still?  No longer than a device takes to begin so many
 * short kernels: long ones are no queue. */
bool gy_kept_is_queued(struct gy_kept_set *set, uint32_t partition);
static inline bool gy_kept_is_large(const struct gy_nodes *nodes)
{
    return nodes->count >= GY_KEPT_LARGE;
}
/* Make a graph of the first `count` nodes, and *exec its executable form, by an update where it is one
 * already and that works, else anew.  NULL: the one comes out that is kept for nodes of the same kinds, lanes
 * and edges and the same `seed`. */
GANTRY_MUST_CHECK gantry_status gy_kept_refresh(struct gy_kept_set *set, struct gy_nodes *nodes,
                                                uint32_t count, uint64_t seed, struct gy_exec **exec);
/* One more was made. */
static inline void gy_kept_note_made(struct gy_kept_set *set)
{
    atomic_fetch_add_explicit(&set->counts.made, 1, memory_order_relaxed);
}
/* The first `count` nodes were launched, by whatever. */
void gy_kept_drop_first(struct gy_kept_set *set, struct gy_nodes *nodes, uint32_t count);

/* The counts and the entries agree. */
bool gy_kept_is_valid(const struct gy_kept_set *set);

#endif
