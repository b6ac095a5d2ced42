/* Shares of GPU time: which partition's tasks may be launched now, and what they have used.
 *
 * The launches of a partition with a share go in segments: a timed event on each of its streams before the
 * first launch there and one after the last.  What the streams were busy, together and each moment once,
 * times the part of the device that the partition is, is charged to its bucket (partition/bucket.h) when the
 * GPU has passed the segment.  Segments are some hundred microseconds long by prediction, so that two events
 * are shared by many short launches, and a partition has few of them in flight.
 *
 * GD asks before every launch call.  Tasks that may not be launched now are held beside the bins until tokens
 * or a segment are there, so that one partition never holds up another; GD sleeps until the earliest such
 * moment. Tasks of such partitions are not captured: a graph has no place in it where they could be held
 * back.
 *
 *   segments:  collected <= closed <= opened <= closed + 1;  GD opens and closes, GDB collects */
#ifndef DISPATCHER_SHARES_H
#define DISPATCHER_SHARES_H

#include "dispatcher/inbox.h"
#include "dispatcher/streams.h"
#include "partition/bucket.h"
#include "partition/usage.h"

#define GY_SHARE_SEGMENTS 17u /* one more than may be in flight */
#define GY_SHARE_PHASES 3

struct gy_share_segment {
    uint64_t streams;              /* bit s: its events of stream s are recorded */
    double predicted;              /* ns of the device */
    uint32_t calls;                /* launch calls */
    CUevent begin[GY_STREAMS_MAX]; /* NULL until first used */
    CUevent end[GY_STREAMS_MAX];   /* NULL until first used */
};

struct gy_share {
    double weight;               /* immutable; the partition's part of the device */
    double rate;                 /* immutable; of the device's time */
    uint32_t in_flight;          /* immutable; most segments */
    double quantum;              /* immutable; predicted length of a segment, ns of the device */
    gy_mutex lock;               /* rank LEAF */
    struct gy_bucket bucket;     /* guarded by lock */
    struct gy_usage usage;       /* guarded by lock */
    bool is_idle;                /* guarded by lock; nothing was wanted since the last refill */
    double estimate;             /* guarded by lock; ns of the device per launch call; 0: not known yet */
    double longest;              /* guarded by lock; segment, ns of the device */
    uint64_t throttled_ns;       /* guarded by lock */
    _Atomic(uint64_t) opened;    /* atomic; written by GD */
    _Atomic(uint64_t) closed;    /* atomic; written by GD */
    _Atomic(uint64_t) collected; /* atomic; written by GDB */
    _Atomic(bool) has_held;      /* atomic; written by GD */
    uint64_t watched;            /* GD only: up to here GDB looks out for them */
    uint64_t held_ns;            /* GD only: since when tasks are held */
    struct gy_gpu_list held[GY_SHARE_PHASES]; /* GD only */
    CUevent base;                             /* GDB only once recorded: a moment whose time is known */
    double base_ns;                           /* GDB only */
    double watermark;                         /* GDB only: charged up to here */
    struct gy_share_segment segments[GY_SHARE_SEGMENTS]; /* GD between open and close, then GDB's */
};

struct gy_shares {
    struct gy_context *context;                 /* immutable */
    struct gy_inbox *inbox;                     /* immutable; signalled when tasks are held and news come */
    uint32_t count;                             /* immutable; partitions */
    bool any;                                   /* immutable */
    struct gy_share *of[GANTRY_PARTITIONS_MAX]; /* immutable; NULL: no bound */
};

GANTRY_MUST_CHECK gantry_status gy_shares_init(struct gy_shares *shares, struct gy_context *context,
                                               const struct gy_partitions *partitions,
                                               struct gy_inbox *inbox);
/* The GPU is done, both threads have ended. */
void gy_shares_fini(struct gy_shares *shares);

/* GD: may one more call be launched now? */
bool gy_share_admits(struct gy_share *share);
/* GD: around a launch call on `stream`. */
GANTRY_MUST_CHECK gantry_status gy_share_enter(struct gy_shares *shares, struct gy_share *share,
                                               struct gy_streams *streams, uint32_t stream);
GANTRY_MUST_CHECK gantry_status gy_share_leave(struct gy_shares *shares, struct gy_share *share,
                                               struct gy_streams *streams);
/* GD: close what is open.  The streams that GDB must look at come out, bit by bit. */
GANTRY_MUST_CHECK gantry_status gy_shares_close(struct gy_shares *shares, struct gy_streams *streams,
                                                uint64_t *out_streams);

/* GD: keep a task that is not admitted.  Then: give back those that may be launched, or all. */
void gy_share_hold(struct gy_share *share, uint32_t phase, gantry_task *task);
void gy_shares_unhold(struct gy_shares *shares, struct gy_gpu_list *bins, bool all);
bool gy_shares_hold_any(const struct gy_shares *shares);
/* GD: when tokens will be there for a task that is held; 0: none is, or something must end first. */
uint64_t gy_shares_deadline(struct gy_shares *shares);

/* GDB, context current: charge every segment that the GPU has passed. */
void gy_shares_collect(struct gy_shares *shares);

#ifdef GANTRY_TESTING
/* Before the dispatcher is created: another clock, and what is done instead of sleeping until a deadline.
 * NULL: the host's. */
struct gy_share_clock {
    uint64_t (*now)(void);
    void (*sleep_until)(uint64_t ns);
};
extern const struct gy_share_clock *gy_share_test_clock;
#endif
uint64_t gy_share_now(void);

#endif
