/* SPDX-License-Identifier: MIT */
/* Shares of GPU time: which managers' tasks may be launched now, and how much time they have used.
 *
 * A *quota* is a bound on GPU time: of a partition or of a task manager.  A *meter* is what is measured:
 * the work of one task manager with a bound, or of all without one, in one partition; it is charged to the
 * manager's quota and to the partition's, as far as there are any.
 *
 * The launches of a meter go in intervals: a timed event on each of its streams before the first launch there
 * and one after the last.  What the streams were busy, together and each moment once, times the part of the
 * device that the partition is, is charged when the GPU has passed the interval.  Intervals are some hundred
 * microseconds long by prediction, so that two events are shared by many short launches, and a quota has
 * few of them in flight.
 *
 * Two meters in one partition take turns: while one has an interval open the others wait, and on the device
 * the first work of a turn waits for the last of the turn before.  Else each would be charged for the time
 * that it stood behind the other.  The turn goes to the one that is furthest behind what its rate has
 * promised.
 *
 * In a capture the same events become nodes of the graph, and count once the graph has been launched.  What
 * is recorded for stable tasks must not have them, since it is launched again and again: there the events are
 * around the launch.
 *
 * The dispatcher's thread (GD) asks before every launch call.  Tasks (and recorded units) that may not be
 * launched now are held beside the bins until tokens or an interval are there, so that one quota never holds
 * up another; GD sleeps until the earliest such moment.
 *
 *   intervals:  settled <= collected <= published <= closed <= opened <= closed + 1
 *              GD opens, closes, publishes; the completion thread collects (measures); GD settles (pays) */
#ifndef DISPATCHER_GATES_SHARES_H
#define DISPATCHER_GATES_SHARES_H

#include "base/hints.h"
#include "base/thread.h"
#include "dispatcher/streams_max.h"
#include "driver/cuda_abi.h"

#include <gantry/partition.h>
#include <gantry/taskman.h>

#define GY_SHARE_MANAGERS 64u

struct gy_inbox;
struct gy_streams;
struct gy_bins;
struct gy_partitions;
struct gy_context;
struct gy_quota; /* see quota.h, and */
struct gy_meter;

/* Which meter has the turn in a partition.  GD only. */
struct gy_share_turn {
    struct gy_meter *meter; /* of the latest interval; NULL: there was none */
    struct gy_meter
        *next; /* has waited for another one's turn to end, and is called in this walk; NULL: nobody */
    uint64_t ended, before, joined;  /* streams */
    CUevent ends[GY_STREAMS_MAX];    /* of `ended`: the latest in this turn */
    CUevent formers[GY_STREAMS_MAX]; /* of `before`: the last of the turn before; `joined` wait for them */
};

struct gy_shares {
    struct gy_context *context;                 /* immutable */
    struct gy_inbox *inbox;                     /* immutable; signalled when intervals are collected */
    const struct gy_partitions *partitions;     /* immutable, but for gy_shares_adopt() */
    struct gy_streams *streams;                 /* immutable */
    _Atomic(bool) any;                          /* atomic; never goes back */
    double limit;                               /* immutable; the process's, in percent; 0: none */
    struct gy_quota *of[GANTRY_PARTITIONS_MAX]; /* immutable likewise; NULL: no bound */
    gy_mutex lock;                              /* rank LEAF; opening a quota */
    _Atomic(uint32_t) count;                    /* atomic; written under lock */
    struct gy_quota *quotas[GANTRY_PARTITIONS_MAX + GY_SHARE_MANAGERS]; /* immutable likewise, below count */
    struct gy_share_turn turns[GANTRY_PARTITIONS_MAX];                  /* GD only */
    uint32_t unpublished; /* GD only; intervals closed and not published */
};

/* ---- life (shares.c) ---- */

/* Statuses as gy_limit_read(), and GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER. */
GANTRY_MUST_CHECK gantry_status gy_shares_init(struct gy_shares *shares, struct gy_context *context,
                                               const struct gy_partitions *partitions,
                                               struct gy_streams *streams, struct gy_inbox *inbox);
/* The GPU is done, both threads have ended. */
void gy_shares_fini(struct gy_shares *shares);

/* Other partitions, whose shares are made beside those in force (shares_change.c). */
struct gy_shares_change {
    const struct gy_partitions *partitions;
    struct gy_quota *of[GANTRY_PARTITIONS_MAX]; /* of those partitions */
    uint32_t count;                             /* of the next two: quotas of task managers */
    struct gy_quota *quotas[GY_SHARE_MANAGERS];
    struct gy_meter *meters[GY_SHARE_MANAGERS][GANTRY_PARTITIONS_MAX]; /* theirs */
};

/* Make what the change needs; the caller keeps managers from opening quotas until it is over.  The context is
 * current.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK gantry_status gy_shares_prepare(struct gy_shares *shares,
                                                  const struct gy_partitions *partitions,
                                                  struct gy_shares_change *change);
/* GD; no task is on its way, the GPU is done and no completion thread collects: what was used until now is
 * charged, and the change is in force. */
void gy_shares_adopt(struct gy_shares *shares, struct gy_shares_change *change);
/* In place of that: free what was made. */
void gy_shares_discard(struct gy_shares *shares, struct gy_shares_change *change);

/* Any thread: an account for a task manager; closed when none of its tasks is left.
 * @retval GANTRY_ERR_INVALID_ARGUMENT    a share that makes no sense
 * @retval GANTRY_ERR_UNSUPPORTED         there are GY_SHARE_MANAGERS of them
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_shares_open(struct gy_shares *shares, const gantry_share *share,
                                               struct gy_quota **out);
void gy_shares_close_quota(struct gy_quota *quota);

/* What measures the quota's work in a partition; NULL: it bounds none there. */
struct gy_meter *gy_quota_meter(const struct gy_quota *quota, uint32_t partition);

/* By which a recording knows the quota of a manager; 0: it is a partition's, or NULL. */
uint32_t gy_quota_number(const struct gy_quota *quota);

/* Any thread. */
void gy_quota_usage(struct gy_quota *quota, gantry_share_usage *out);

static inline bool gy_shares_any(const struct gy_shares *shares)
{
    return __builtin_expect(atomic_load_explicit(&shares->any, memory_order_relaxed), 0);
}

/* ---- GD (share_turns.c) ---- */

/* May one more call be launched now?  `waits`: for a task that has been called before and wants more.  It
 * wants GPU time although nothing of it may be in flight, so what its quota has saved is not capped. */
bool gy_meter_admits(struct gy_shares *shares, struct gy_meter *meter, bool waits);
/* gy_meter_admits() on credit, whatever the quotas owe: for tasks that were cancelled and have begun. */
bool gy_meter_has_room(struct gy_shares *shares, struct gy_meter *meter);
/* Before a launch call on `stream` (an index of the pool), which stands for `calls`. */
GANTRY_MUST_CHECK gantry_status gy_meter_enter(struct gy_shares *shares, struct gy_meter *meter,
                                               uint32_t stream, CUstream native, bool in_graph,
                                               uint32_t calls);
/* After it: closes the interval if it is long enough. */
gantry_status gy_meter_leave(struct gy_shares *shares, struct gy_meter *meter);
/* A capture is about to begin: close what is open, since streams that it draws in cannot be given an event of
 * their own any more.  It is about to end: close what is open in it.  It was dropped: what is open in it
 * begins anew. */
GANTRY_MUST_CHECK gantry_status gy_shares_begin_capture(struct gy_shares *shares);
GANTRY_MUST_CHECK gantry_status gy_shares_end_capture(struct gy_shares *shares);
/* The capture was launched, on stream `home` of the pool. */
GANTRY_MUST_CHECK gantry_status gy_shares_launched(struct gy_shares *shares, uint32_t home);
/* Outside of a capture: close what is open, if `all`, and hand what is closed to the completion thread.  The
 * streams that it must look at come out. */
gantry_status gy_shares_publish(struct gy_shares *shares, bool all, uint64_t *out);
/* Are so many intervals of the capture under way closed that it should be launched? */
bool gy_shares_want_cut(const struct gy_shares *shares, const struct gy_meter *meter);

/* Keep a task that is not admitted, or count a unit that the dispatcher keeps.  Then: pay what was measured
 * and give back those that may be launched, or all; true when a unit should be tried again. */
void gy_meter_hold(struct gy_meter *meter, uint32_t phase, gantry_task *task);
void gy_meter_hold_unit(struct gy_meter *meter);
bool gy_shares_unhold(struct gy_shares *shares, struct gy_bins *bins, bool all);
/* Give back tasks whose runs were cancelled; those that have begun once there is room for them. */
void gy_shares_cancel(struct gy_shares *shares, struct gy_bins *bins);
bool gy_shares_hold_any(struct gy_shares *shares);
/* Do the tasks that a meter holds agree with its counts, and is at most one of its intervals open?  The
 * second: of all meters. */
bool gy_meter_is_valid(const struct gy_meter *meter);
bool gy_shares_are_valid(const struct gy_shares *shares);
/* When tokens will be there for a task that is held; 0: none is, or something must end first. */
uint64_t gy_shares_deadline(struct gy_shares *shares);
/* While recording: note a value per quota (share_tell.c). */
void gy_shares_count(struct gy_shares *shares, uint64_t generation);

/* ---- the completion thread (share_times.c) ---- */

/* Context current: measure every interval that the GPU has passed. */
void gy_shares_collect(struct gy_shares *shares);

#ifdef GANTRY_TESTING
/* Before the dispatcher is created: another clock, and a function that is called instead of sleeping until a
 * deadline. NULL: the host's. */
struct gy_share_clock {
    uint64_t (*now)(void);
    void (*sleep_until)(uint64_t ns);
};
extern const struct gy_share_clock *_Atomic gy_share_test_clock;
#endif
uint64_t gy_share_now(void);

#endif
