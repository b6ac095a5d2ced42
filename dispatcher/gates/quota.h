/* SPDX-License-Identifier: MIT */
/* A quota, a meter and its intervals, as the gate of GPU time has them: see shares.h.  GD is the dispatcher
 * thread. */
#ifndef DISPATCHER_GATES_QUOTA_H
#define DISPATCHER_GATES_QUOTA_H

#include "dispatcher/gates/shares.h"
#include "dispatcher/loop/bins.h"
#include "dispatcher/loop/inbox.h"
#include "dispatcher/order/streams.h"
#include "partition/bucket.h"
#include "partition/budget.h"
#include "partition/busy.h"
#include "partition/usage.h"
#include "taskman/gpu_ops.h"

/* A call that is admitted closes the open interval, and opens another, where it begins a graph or leaves one.
 */
#define GY_SHARE_OF_A_CALL 3u
#define GY_SHARE_INTERVALS (16u + GY_SHARE_OF_A_CALL) /* sixteen may be in flight */
#define GY_SHARE_PHASES 3
#define GY_SHARE_TURN " / turn of " /* between two names of a span, see share_turns.c */
#define GY_SHARE_NAME_BYTES (GANTRY_PARTITION_NAME_BYTES + 16)

/* GD's between open and publish, then the completion thread's until it is collected. */
struct gy_share_interval {
    uint64_t streams; /* bit s: events of stream s are recorded */
    bool in_graph;    /* its events are nodes of a graph; `gate` tells when that is over */
    bool is_launched; /* the graph was, on `home` */
    uint32_t home;    /* a stream of the pool */
    double predicted; /* ns of the device */
    uint32_t calls;   /* launch calls */
    double used;      /* ns of the device; measured by the completion thread */
    CUstream native[GY_STREAMS_MAX];
    CUevent begin[GY_STREAMS_MAX]; /* NULL until first used */
    CUevent end[GY_STREAMS_MAX];   /* NULL until first used */
    CUevent gate;                  /* NULL until first used */
};

struct gy_quota {
    struct gy_gpu_share base;               /* immutable; first: how taskman/ sees a manager's; no members */
    char name[GY_SHARE_NAME_BYTES];         /* immutable while open */
    char counter[GY_SHARE_NAME_BYTES + 32]; /* immutable while open; of a recording */
    uint32_t number;                        /* immutable; of a manager's, in the process; 0: a partition's */
    int ordinal;                            /* immutable; the device's */
    uint64_t told;                          /* GD only; the recording that was told of its target; 0: none */
    double rate;                            /* immutable while open; of the device's time */
    uint32_t in_flight;                     /* immutable while open; most intervals */
    double quantum;                 /* immutable while open; predicted length of one, ns of the device */
    struct gy_bucket bucket;        /* GD only while open */
    struct gy_budget *budget;       /* immutable; the process's limit, asked and charged, too; NULL: none */
    double promised;                /* GD only; how much the budget has in flight of it, ns */
    bool is_idle;                   /* GD only while open; nothing was wanted since the last refill */
    uint32_t working;               /* GD only; intervals opened and not settled, of all its meters */
    uint32_t holding;               /* GD only; of its meters, those that hold tasks */
    _Atomic(bool) is_open;          /* atomic; false: free to be taken */
    _Atomic(uint64_t) throttled_ns; /* atomic; written by GD */
    gy_mutex lock;                  /* rank LEAF */
    struct gy_gpu_usage usage;      /* guarded by lock */
    double longest;                 /* guarded by lock; interval, ns of the device */
    uint64_t groups;                /* guarded by lock; intervals collected */
    struct gy_meter *meters[GANTRY_PARTITIONS_MAX]; /* immutable; a partition's has one, a manager's all */
};

struct gy_meter {
    struct gy_quota *quotas[2];    /* immutable while open; the finer first, NULL: no more */
    uint32_t partition;            /* immutable */
    double weight;                 /* immutable; the partition's part of the device */
    double estimate;               /* GD only; ns of the device per launch call; 0: not known yet */
    _Atomic(uint64_t) opened;      /* atomic; written by GD */
    uint64_t closed;               /* GD only */
    _Atomic(uint64_t) published;   /* atomic; written by GD */
    _Atomic(uint64_t) collected;   /* atomic; written by the completion thread */
    _Atomic(uint64_t) settled;     /* atomic; written by GD */
    _Atomic(bool) has_held;        /* atomic; written by GD */
    uint32_t held_units;           /* GD only */
    bool holds_ending;             /* GD only; it holds tasks that have begun and were cancelled */
    const struct gy_meter *behind; /* GD only; has the turn that tasks wait for; NULL: its own bounds hold */
    uint64_t held_since;           /* GD only; of a recording; 0: nothing is held, or recorded */
    uint64_t throttled_since;      /* GD only; tasks are held for want of tokens; 0: they are not */
    struct gy_gpu_list held[GY_SHARE_PHASES]; /* GD only */
    bool has_base;                            /* GD only; no interval has a stream before */
    CUevent base;        /* completion thread only once recorded: a moment whose time is known */
    double base_ns;      /* completion thread only */
    struct gy_busy busy; /* completion thread only: the charged time */
    struct gy_share_interval intervals[GY_SHARE_INTERVALS];
};

void gy_meter_free(const struct gy_driver *driver, struct gy_meter *meter);
/* A meter for work of `quota` in a partition, which is charged to `above`, too, if that is another one. */
GANTRY_MUST_CHECK gantry_status gy_meter_make(struct gy_context *context,
                                              const struct gantry_partition *partition,
                                              struct gy_quota *quota, struct gy_quota *above,
                                              struct gy_meter **out);
void gy_quota_free(const struct gy_driver *driver, struct gy_quota *quota);
/* The quota of a partition, its own or the limit's; NULL comes out when nothing bounds it. */
GANTRY_MUST_CHECK gantry_status gy_quota_of_partition(struct gy_shares *shares,
                                                      const struct gantry_partition *partition,
                                                      struct gy_quota **out);
/* GD: charge what was measured. */
void gy_meter_settle(struct gy_meter *meter);

/* GD (share_tell.c).  While recording: a span of the time until now in which the meter has held tasks back
 * for one reason.  The meter does not admit its tasks because of `behind`, see there. */
void gy_meter_tell_held(const struct gy_meter *meter);
void gy_meter_note_behind(struct gy_meter *meter, const struct gy_meter *behind);

/* Note whether the quota wants GPU time or has work in flight.  No other thread uses the quota when this is
 * called at its creation or its end (shares.c). */
void gy_quota_set_idle(struct gy_quota *quota, bool idle);

#endif
