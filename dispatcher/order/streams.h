/* SPDX-License-Identifier: MIT */
/* The stream pool: which task runs on which stream, and which stream waits for which.
 *
 * Rules (the original's five, stated for vector clocks):
 *  1. A task with no GPU work before it gets a free stream.
 *  2. A task inherits the stream of a timeline point it must come after when nobody else has: the first
 *     dependent in submission order does.  Not so when the host has seen that the point has passed, but the
 *     graph that it is in goes on (batch_order.h): then the stream would be behind that for nothing.
 *  3. The other dependents get a free stream and wait for the timeline point (a WFI edge).
 *  4. A join inherits one of its timeline points' streams and waits for the others: the first one's, or
 *     the first that no other dependent may still inherit.
 *  5. Streams are given out anew only when no task manager's step is open; within a step a stream counts as
 *     free when its last task has no dependent left to come, or other work comes after it already.
 * Partitions: a stream belongs to one for good, and counts only for tasks of that one.  A dependency between
 * partitions is therefore always a WFI edge.
 * A task waits for nothing that it does not come after while another stream can be made
 * (docs/decisions/0057).
 * A wait is dropped when the stream is known to be behind that timeline point already: every stream keeps a
 * vector clock of what its tail is ordered after (Fidge/Mattern clocks; each event carries the clock of
 * its record).
 *
 * Everything here belongs to the dispatcher thread, except what is marked atomic. */
#ifndef DISPATCHER_ORDER_STREAMS_H
#define DISPATCHER_ORDER_STREAMS_H

#include "dispatcher/order/wait_set.h"
#include "partition/partitions.h"
#include "work/nodes.h"

#include <assert.h>

/* Events kept per stream; a wait uses the earliest one that covers its timeline point. */
#define GY_STREAM_EVENTS 8
/* Events per stream that end its lane in a graph, and as many that end graphs on it: see lane_order.h. */
#define GY_STREAM_ENDS 8
#define GY_LANE_LEFT \
    (GY_STREAM_ENDS - 1) /* so many of a graph's are behind tasks that the lane has left behind, at most */
_Static_assert((GY_STREAM_EVENTS & (GY_STREAM_EVENTS - 1)) == 0, "slots are counted modulo 2^32");

struct gy_stream_event {
    CUevent native;                 /* NULL until first used */
    struct gy_node_set nodes;       /* of a batch that is noted: where it was recorded */
    uint64_t noted;                 /* the number of the latest batch that records it by a node, */
    uint64_t awaited;               /* and of the latest of which a lane waits for it by one */
    bool is_graph_end;              /* recorded behind a graph: it may be the `behind` of streams */
    uint64_t known[GY_STREAMS_MAX]; /* what it is ordered after, the point it was recorded at included */

    /* On a lane, once that has gone on behind it: */
    uint32_t pending;            /* dependents of its point that were not called: at least */
    uint32_t hosts;              /* 1: some of these are no GPU tasks, */
    struct gy_stream_event *end; /* and the one that the graph records there for them; NULL: none */
};

/* The latest events of a stream. */
struct gy_stream_ring {
    uint64_t seqs[GY_STREAM_EVENTS]; /* timeline points that they cover, 0: none; a search touches one line */
    uint32_t next;                   /* slot to fill next */
    struct gy_stream_event *at[GY_STREAM_EVENTS]; /* one of `own`, or the end of a graph, another stream's */
    struct gy_stream_event own[GY_STREAM_EVENTS];
};

/* One order of work with one clock: a stream, or a lane of a graph that is being built. */
struct gy_line {
    struct gy_lane to;                  /* where a lane's work is noted */
    uint64_t known[GY_STREAMS_MAX];     /* per stream: the timeline point that its next work comes after */
    uint64_t seen;                      /* generation of the last barrier it waited for */
    uint64_t learnt_at;                 /* the stream's tail when `known` has last grown by a wait, */
    uint64_t waited_at;                 /* and by one of its own, not of a graph that it was part of */
    uint64_t (*abroad)[GY_STREAMS_MAX]; /* as `known`, by device of its fleet; NULL: no wait yet */
    uint32_t devices;                   /* of the fleet, once `abroad` is set */
    struct gy_stream_ring ring;         /* recorded on it; on a stream, the ends of graphs too */
    uint32_t next_end;
    struct gy_stream_event
        ends[GY_STREAM_ENDS]; /* of a lane; or of graphs on a stream: gy_batch_launched() */
};

/* Whose step a task belongs to; the head of struct gy_gpu_order. */
struct gy_stream_owner {
    uint32_t private_set; /* written while no task of the owner is on its way; the number of the set of
                           * streams that no other owner gets; 0: it has those of everybody */
};

/* For whom a stream is looked for. */
struct gy_stream_claim {
    const struct gy_stream_owner *owner; /* NULL: the work comes after none of the same owner's */
    uint64_t before;                     /* bit s: it comes after what the owner has put on stream s last, */
    bool is_beside;                      /* and need not come after what the owner has put on the others */
};

/* Where the work of tasks that come now goes, and what it comes after.
 *
 *    PLAIN --- it gets work in a graph ---> MEMBER --- launched --> BEHIND
 *    BEHIND -- likewise -----------------> MEMBER
 *    MEMBER -- the graph was dropped -----> PLAIN <--- `native` waits for the end -- BEHIND
 *
 * PLAIN: it is enqueued on `native`.  MEMBER: it is noted on its lane in the graph that is being built.
 * BEHIND: its latest work is in a graph that was launched, and `native` has not waited for the end of that
 * yet: before it gets other work there, it does. */
enum gy_stream_state { GY_STREAM_PLAIN, GY_STREAM_MEMBER, GY_STREAM_BEHIND };

/* What comes after the tail of a stream. */
struct gy_dependents {
    uint32_t unplaced; /* those that have got no stream yet, */
    uint32_t uncalled; /* and those that were not called yet: at least */
    uint32_t hosts;    /* 1: some of these are no GPU tasks, and others come behind them */
    uint32_t told;     /* completions that tell of its point behind the task, */
    uint64_t told_seq; /* which is this one */
};

/* A member, in the graph that is being built: see batch_order.h, and for its ends lane_order.h. */
struct gy_noted {
    uint64_t entered;            /* timeline points up to here come before the latest graph, */
    uint64_t entrance;           /* of which it waits for this entrance */
    uint32_t left;               /* events on its lane with dependents pending */
    struct gy_stream_event *end; /* noted at the end of its lane; NULL: no such */
    uint64_t end_seq;            /* when the tail was this, and */
    struct gy_node_set end_last; /* this the lane's last */
};

/* The graph that the latest work of a stream is in, if `native` has not waited for that yet; of a member, the
 * one that its work was in when it became one. */
struct gy_behind {
    struct gy_stream_event *end; /* of the graph, or of its lane there; NULL: there is none */
    uint32_t home;               /* it was launched on this stream, */
    bool is_open;                /* and a task had calls left then */
};

/* The graph that a stream's latest work is in, or that was launched on `native`: what else is in it holds up
 * what is enqueued on `native`. */
struct gy_held {
    struct gy_stream_event *by;       /* its end; NULL: there is none */
    uint64_t tail;                    /* the stream's when it was launched */
    uint64_t beside;                  /* members whose work the stream's work in it does not come after; */
    uint64_t open;                    /* and of which a task had begun whose point was not there yet */
    bool may_be;                      /* no member: a task looks at the rest before it inherits the stream */
    bool carries;                     /* it was launched on `native`, and the stream's line does not say so */
    const struct gy_gpu_order *order; /* of the tasks in it; only compared */
    uint64_t run;
};

/* While something is recorded. */
struct gy_stream_trace {
    uint64_t flow;  /* the arrow of the latest task */
    uint64_t after; /* bit n: the next task waits for work of the device with ordinal n */
};

struct gy_stream {
    /* What every task touches: one cache line. */
    _Alignas(64) CUstream native; /* immutable */
    uint64_t tail;                /* tasks that finished launching here */
    uint64_t superseded; /* highest point that work on another stream, assigned or waiting, comes after */
    uint64_t age;        /* when the tail finished launching, counted over all streams */
    uint64_t epoch;      /* of the pool's, when it was last made ready for work */
    uint64_t floor;      /* timeline points up to here are before the barrier */
    uint32_t kind;       /* immutable: GY_STREAM_KIND() of its partition */
    uint32_t running;    /* tasks assigned and not finished launching */
    struct gy_dependents dependents;
    bool is_open;               /* a task that is there was called, and has calls left */
    bool used;                  /* given out since the streams were last returned */
    bool dirty;                 /* work enqueued since it was last joined */
    bool is_unrecorded;         /* work enqueued since an event was last recorded on `native` */
    enum gy_stream_state state; /* written by enter_state() in waits.c */
    uint64_t origin;            /* immutable: gy_timeline_point_on() of position 0 */

    struct gy_line
        *line; /* that the work of tasks which come now comes behind: PLAIN: `plain`; else `lane` */
    struct gy_line plain; /* what is on `native` */
    struct gy_line lane;  /* what is in the graph that it is a member of, or in the latest */
    struct gy_noted noted;
    struct gy_behind behind;
    struct gy_held held;
    const struct gy_stream_owner *owner; /* the owner of the tail, see gy_streams_assign(); only compared;
                                          * NULL: it has none */
    struct gy_stream_trace trace;
    _Alignas(64) _Atomic(uint64_t) completed; /* atomic; written by the completion thread: timeline point the
                                               * host knows the GPU has passed */
};

/* States of the graph of a batch; batch_enter() in batch_order.c is the only writer.
 *
 *    CLOSED ----- begin --------> OPEN ----- sync point ---> SYNCED
 *                                 OPEN ----- suspend ------> SUSPENDED ----- resume ---> OPEN
 *    OPEN, SYNCED ----- launched, dropped or abandoned ----> CLOSED
 *
 * CLOSED: no graph is being built, and no stream is a member.  OPEN: streams that get work become members.
 * SYNCED: likewise, and a task of the graph has asked for a sync point.  SUSPENDED: the graph is kept as it
 * is while one call is made ahead of it, on streams that are no members. */
enum gy_batch_state { GY_BATCH_CLOSED, GY_BATCH_SUSPENDED, GY_BATCH_OPEN, GY_BATCH_SYNCED };

struct gy_gpu_order;

/* What the graph of a batch comes after, while it is built: see batch_order.h. */
struct gy_batch_order {
    enum gy_batch_state state;
    bool by_lanes;                  /* lanes wait for themselves, and end by themselves: see lane_order.h */
    struct gy_gpu_order *order;     /* of the task for which a stream gets ready; NULL: it has none */
    uint64_t run;                   /* and the step that it is of */
    bool is_beside;                 /* some tasks of the step need not come after the step before */
    uint32_t home;                  /* the stream that it will be launched on: its first member, most often */
    uint64_t members;               /* bit s: stream s is one */
    uint64_t number;                /* counts all batches */
    uint64_t entrances;             /* of all graphs; the latest is in force */
    struct gy_nodes *nodes;         /* of the graph */
    struct gy_node_set entrance;    /* members come after these first */
    struct gy_stream_event *waited; /* the end of a graph that `home` has waited for last */
};

/* Do streams that get work become members of a graph? */
static inline bool gy_batch_is_open(const struct gy_batch_order *batch)
{
    return batch->state >= GY_BATCH_OPEN;
}

/* The barrier that all streams meet before they get more work. */
struct gy_barrier {
    uint64_t generation; /* 0: there was none */
    uint32_t latest;     /* which of `events` is in force */
    CUevent events[2];   /* NULL until first used */
};

/* Of the shared kinds of stream. */
struct gy_stream_kinds {
    uint64_t made;    /* bit k: there is a stream of kind k */
    uint32_t missing; /* kinds that have no stream yet */
};

/* Sets of streams that one owner has for itself. */
struct gy_private_sets {
    _Atomic(uint64_t) taken; /* atomic; bit n: some owner has the set n + 1 */
    uint64_t made;           /* bit n: there is a stream in it */
};

/* Written by the dispatcher's thread, read by any. */
struct gy_streams_counts {
    _Atomic(uint32_t) peak;     /* atomic: most `in_use` */
    _Atomic(uint64_t) waits;    /* atomic: WFI edges inserted */
    _Atomic(uint64_t) dropped;  /* atomic: implied ones not inserted */
    _Atomic(uint64_t) recorded; /* atomic: events recorded */
    _Atomic(uint64_t) borrowed; /* atomic: tasks on streams with borrowed SMs */
};

struct gy_streams {
    struct gy_context *context;
    struct gy_partitions *partitions; /* immutable, but for gy_streams_renew() */
    uint32_t device;  /* immutable once there are tasks; its number in its fleet, which its points bear; 0 */
    bool is_of_fleet; /* likewise: dependents may be on other devices, which do not say that they have come */
    uint32_t asked_limit; /* immutable; the application's limit */
    uint32_t room;        /* immutable; of `streams` */
    uint32_t limit;       /* immutable likewise; most streams; at least one of each kind */
    uint64_t first_seq;   /* immutable likewise; timeline points up to here are of streams that have gone */
    uint32_t count;       /* created so far */
    uint32_t in_use;      /* with `used` set */
    uint32_t busy;        /* with `running` not 0 */
    struct gy_stream_kinds kinds;
    uint32_t next_shared;        /* round robin when all are busy */
    uint64_t finished;           /* tasks that finished launching */
    bool device_wide;            /* immutable; one sync point instead of waits */
    bool may_borrow;             /* immutable likewise; some partition has SMs it may borrow */
    _Atomic(bool) single;        /* atomic: everything on one stream of each partition */
    struct gy_batch_order batch; /* of that graph */
    uint64_t epoch;              /* grows with each barrier, and when the batch opens or closes */
    struct gy_barrier barrier;
    struct gy_streams_counts counts;
    struct gy_private_sets privates;
    _Atomic(uint32_t) created; /* atomic copy of count, whoever reads it sees those streams' `native` */
    struct gy_stream *streams; /* immutable; room of them */
};

/* Of a partition with SMs it may borrow there are two kinds of stream, without and with those.  And there are
 * private kinds: of an owner that has streams of its own. */
#define GY_STREAM_KIND(partition, wide) ((partition)*2u + ((wide) ? 1u : 0u))
#define GY_STREAM_PRIVATE(number) ((uint32_t)(number) << 8)
#define GY_STREAM_PRIVATE_SET(kind) ((kind) >> 8)
#define GY_STREAM_SHARED_KIND(kind) ((kind)&0xffu)
#define GY_STREAM_PARTITION(stream) (GY_STREAM_SHARED_KIND((stream)->kind) / 2u)
_Static_assert(GY_STREAM_KIND(GANTRY_PARTITIONS_MAX - 1, true) <= 0xff, "the number of a set is above it");

GANTRY_MUST_CHECK gantry_status gy_streams_init(struct gy_streams *streams, struct gy_context *context,
                                                struct gy_partitions *partitions, uint32_t limit,
                                                bool device_wide);
/* The GPU must be done with the streams, or the context lost. */
void gy_streams_fini(struct gy_streams *streams);
/* No task is on its way, and the GPU is done: destroy all streams; those that will be made are of these
 * partitions.  Timeline points of before count as passed for ever. */
void gy_streams_renew(struct gy_streams *streams, struct gy_partitions *partitions);

/* Where work on the stream is noted now; NULL: it is enqueued on it. */
static inline struct gy_lane *gy_stream_lane(struct gy_stream *stream)
{
    return stream->state == GY_STREAM_MEMBER ? &stream->lane.to : NULL;
}

/* Something was, or will be, enqueued on `native`, a wait too: no event and no barrier covers it yet. */
static inline void gy_stream_touch(struct gy_stream *stream)
{
    stream->dirty = true;
    stream->is_unrecorded = true;
}

/* Do a stream's timeline points, and where its work goes, fit together?  The whole pool: also how many are in
 * use and busy.  Only the dispatcher's thread calls them. */
bool gy_stream_is_valid(const struct gy_streams *streams, uint32_t stream);
bool gy_streams_are_valid(const struct gy_streams *streams);

/* May a task of this partition have borrowed SMs as well?  Counts it then. */
GY_RARE bool gy_streams_borrow(struct gy_streams *streams, uint32_t partition);
/* gy_streams_assign() for any wait set. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_streams_assign_any(struct gy_streams *streams, uint64_t wait_set,
                                                              uint32_t kind,
                                                              const struct gy_stream_claim *claim,
                                                              uint32_t *out);

/* A set of streams for one owner, of the streams that the pool can still make, one of which is kept for it:
 * its number comes out; 0: none is left, or the pool has partitions or no order by events.  Any thread. */
uint32_t gy_streams_take_private(struct gy_streams *streams);
/* The owner has no task any more.  The streams stay, for whoever takes the set next.  Any thread. */
void gy_streams_give_private(struct gy_streams *streams, uint32_t number);

/* Give a task of partition `partition` with this wait set a stream by the rules; the index comes out.
 * @retval GANTRY_ERR_UNSUPPORTED  an owner with a private set for which no stream can be made any more */
GANTRY_MUST_CHECK static inline gantry_status gy_streams_assign(struct gy_streams *streams, uint64_t wait_set,
                                                                uint32_t partition,
                                                                const struct gy_stream_claim *claim,
                                                                uint32_t *out)
{
    uint32_t kind = GY_STREAM_KIND(partition, streams->may_borrow && gy_streams_borrow(streams, partition));
    if (claim->owner != NULL) {
        kind |= GY_STREAM_PRIVATE(claim->owner->private_set);
    }
    if (!gy_wait_set_is_point(wait_set)) {
        return gy_streams_assign_any(streams, wait_set, kind, claim, out);
    }
    /* Most tasks come after one other task, and inherit its stream. */
    struct gy_stream *s = &streams->streams[gy_timeline_stream(wait_set)];
    if (s->tail != gy_timeline_seq(wait_set) || s->running != 0 || !s->used || s->kind != kind ||
        s->held.may_be || atomic_load_explicit(&streams->single, memory_order_relaxed)) {
        return gy_streams_assign_any(streams, wait_set, kind, claim, out);
    }
    struct gy_dependents *others = &s->dependents;
    others->unplaced -= others->unplaced != 0;
    others->uncalled -= others->uncalled > others->hosts; /* it is called here, which is in use until then */
    s->superseded = s->tail;
    s->running = 1;
    streams->busy++;
    *out = gy_timeline_stream(wait_set);
    assert(gy_stream_is_valid(streams, *out));
    return GANTRY_OK;
}

/* A task that has got `*stream` and enqueued nothing will not be part of a graph: where the stream is behind
 * a graph, and an end of its lane tells all that the task comes after there, it gets another one. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_streams_leave_held(struct gy_streams *streams, uint64_t wait_set,
                                                              const struct gy_stream_claim *claim,
                                                              uint32_t *stream);

/* The tails of all streams. */
void gy_streams_read_all(const struct gy_streams *streams, struct gy_clock *clock);

/* One dependent fewer may want the tails in `clock`, and a task comes after them, here or on another device.
 */
void gy_streams_leave(struct gy_streams *streams, const struct gy_clock *clock);
/* A task that comes after `clock`, and not after one point on its own stream alone, is about to be called:
 * what it waits for in the graph that is being built, it waits for there. */
void gy_streams_note_call(struct gy_streams *streams, const struct gy_clock *clock);
/* How many dependents of the tail wait for it, at least: GPU tasks that were not called, and others of which
 * no completion tells.  A completion stands for one of these, if for any. */
static inline uint32_t gy_stream_awaiting(const struct gy_stream *stream)
{
    const struct gy_dependents *all = &stream->dependents;
    const uint32_t told = all->told_seq == stream->tail ? all->told : 0;
    const uint32_t gpu = all->uncalled > all->hosts ? all->uncalled - all->hosts : 0;
    return gpu + (all->hosts > told);
}

/* A task is about to be called on the stream: those dependents of its tail that were not called yet shall not
 * wait for that one, so they get an event of their own, unless the host tells them. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_stream_leave_event(struct gy_streams *streams, uint32_t stream);
GANTRY_MUST_CHECK static inline gantry_status gy_streams_go_on(struct gy_streams *streams, uint32_t stream)
{
    const struct gy_stream *s = &streams->streams[stream];
    return __builtin_expect(s->dependents.uncalled != 0, 0) ? gy_stream_leave_event(streams, stream)
                                                            : GANTRY_OK;
}

/* Make `stream` wait for everything in `wait_set` that it is not ordered after yet. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_streams_wait_for(struct gy_streams *streams, uint32_t stream,
                                                            uint64_t wait_set);
GANTRY_MUST_CHECK static inline gantry_status gy_streams_wait(struct gy_streams *streams, uint32_t stream,
                                                              uint64_t wait_set)
{
    bool is_own = gy_wait_set_is_point(wait_set) && gy_timeline_stream(wait_set) == stream;
    return is_own || wait_set == GY_WAIT_SET_NONE ? GANTRY_OK
                                                  : gy_streams_wait_for(streams, stream, wait_set);
}

/* gy_streams_wait() for everything in `clock`. */
GANTRY_MUST_CHECK gantry_status gy_streams_wait_clock(struct gy_streams *streams, uint32_t stream,
                                                      const struct gy_clock *clock);
/* The native stream waits for the event. */
GANTRY_MUST_CHECK gantry_status gy_stream_await(struct gy_streams *streams, const struct gy_stream *stream,
                                                CUevent event);

/* An event of the caller's: record it behind all that is on `stream`, make `stream` wait for it. */
GANTRY_MUST_CHECK gantry_status gy_streams_record_into(struct gy_streams *streams, uint32_t stream,
                                                       struct gy_stream_event *event);
GANTRY_MUST_CHECK gantry_status gy_streams_wait_event(struct gy_streams *streams, uint32_t stream,
                                                      struct gy_stream_event *event);

/* Record an event at the stream's tail, wherever its work goes now. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_stream_record(struct gy_streams *streams, uint32_t stream,
                                                         struct gy_stream_event **out);

/* The lane of a member goes on behind its tail, of which dependents were not called: see lane_order.h. */
GY_RARE void gy_stream_go_on(struct gy_stream *stream);

/* A task finished launching on `stream`, which is `s`; its timeline point comes out.  `dependents` as far as
 * known, of which `hosts` are no GPU tasks: with two or more an event is recorded at once, so that those
 * which cannot inherit the stream wait for this task and not for what follows it. */
GANTRY_MUST_CHECK static inline gantry_status gy_streams_finish_at(struct gy_streams *streams,
                                                                   uint32_t stream, struct gy_stream *s,
                                                                   uint32_t dependents, uint32_t hosts,
                                                                   uint64_t *out_point)
{
    assert(s == &streams->streams[stream] && s->running > 0 && gy_stream_is_valid(streams, stream));
    if (--s->running == 0) {
        streams->busy--;
    }
    s->is_open = false;
    if (__builtin_expect(s->dependents.uncalled != 0 && s->state == GY_STREAM_MEMBER, 0)) {
        gy_stream_go_on(s);
    }
    struct gy_stream_event *event;
    const uint64_t tail = ++s->tail;
    s->line->known[stream] = tail;
    s->dependents.unplaced = s->dependents.uncalled = dependents;
    s->dependents.hosts = hosts;
    s->age = ++streams->finished;
    *out_point = gy_timeline_point_of(s->origin, tail);
    assert(gy_stream_is_valid(streams, stream));
    return dependents < 2 || streams->device_wide ? GANTRY_OK : gy_stream_record(streams, stream, &event);
}

/* One more stream of the kind, if there may be; else *out stays. */
GANTRY_MUST_CHECK gantry_status gy_streams_add(struct gy_streams *streams, uint32_t kind, uint32_t *out);
/* The stream counts as given out. */
void gy_streams_use(struct gy_streams *streams, uint32_t stream);

/* A task that was assigned to `stream` ends without having launched or waited. */
void gy_streams_abandon(struct gy_streams *streams, uint32_t stream);

/* Barriers: everything enqueued before one comes before everything enqueued after it, on any stream.  A
 * barrier is an event that every stream waits for before it gets more work, so one that gets none costs
 * nothing.  A sync point puts one behind everything on a stream of the pool: what is enqueued there next
 * comes after everything. */
GANTRY_MUST_CHECK gantry_status gy_streams_sync_point(struct gy_streams *streams, uint32_t stream);

/* Make a stream ready for work after the epoch has changed. */
GANTRY_MUST_CHECK GY_RARE gantry_status gy_streams_meet(struct gy_streams *streams, uint32_t stream);

/* Before anything is enqueued on `stream`: behind the barrier and the graph that its work is in, or as a
 * member of the graph that is being built. */
GANTRY_MUST_CHECK static inline gantry_status gy_streams_wait_barrier(struct gy_streams *streams,
                                                                      uint32_t stream)
{
    struct gy_stream *s = &streams->streams[stream];
    if (__builtin_expect(s->epoch != streams->epoch, 0)) {
        gantry_status status = gy_streams_meet(streams, stream);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    gy_stream_touch(s);
    return GANTRY_OK;
}

/* A stream on which an event tells the end of all timeline points of `stream`, which is no member. */
GANTRY_MUST_CHECK gantry_status gy_streams_end_of(struct gy_streams *streams, uint32_t stream, CUstream *on);

/* No step is open: every stream may be given out again. */
void gy_streams_return_all(struct gy_streams *streams);

/* The GPU has passed timeline point `seq` of `stream`.  Any thread. */
void gy_streams_passed(struct gy_streams *streams, uint32_t stream, uint64_t seq);

#endif
