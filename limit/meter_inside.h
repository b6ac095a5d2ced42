/* SPDX-License-Identifier: MIT */
/* What the meter's files share: contexts, streams and groups.  Everything is guarded by gy_meter_lock unless
 * a field says otherwise. */
#ifndef LIMIT_METER_INSIDE_H
#define LIMIT_METER_INSIDE_H

#include "limit/meter.h"
#include "limit/region.h"
#include "partition/busy.h"

#include <pthread.h>
#include <stdatomic.h>

/* It is held for less than it takes to sleep and to be woken: who finds it taken looks again for a while. */
#define GY_METER_LOCK_INITIALIZER PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
extern pthread_mutex_t gy_meter_lock;

/* NEW until the first launch; RUNNING; ENDED when the process exits, or where it cannot be limited. */
enum gy_meter_phase { GY_METER_NEW, GY_METER_RUNNING, GY_METER_ENDED };

struct gy_meter_group;

extern struct gy_meter_shared {
    _Atomic enum gy_meter_phase state; /* written by start(), at exit, and in a forked child */
    struct gy_region_place *place;     /* immutable while RUNNING, as the next */
    struct gy_region_place *common;    /* NULL: none */
    struct gy_meter_group *open,
        *flying; /* guarded by the lock; of a stream's flying ones the oldest is first */
    struct gy_meter_group **flying_end;     /* guarded by the lock: where the next one is put */
    atomic_uint open_groups, flying_groups; /* written under the lock, read without it */
    atomic_uint captures;                   /* under way in this process */
    atomic_bool is_polling;                 /* somebody has taken the list of those that fly */
} gy_meter;

#define GY_METER_POLL_NS 150000      /* the meter's thread looks so often while something is open or flies */
#define GY_METER_GROUP_NS 1000000.0  /* the length at which a group is closed, predicted or of host time */
#define GY_METER_QUIET_NS 200000     /* a group without a launch for so long is closed */
#define GY_METER_GAP_NS 10000.0      /* shorter gaps are bridged */
#define GY_METER_BIAS_NS 3500.0      /* what a pair of events reads too much (decision 15) */
#define GY_METER_UNKNOWN_NS 100000.0 /* what a launch of unknown cost reserves, */
#define GY_METER_PATIENT_NS 1e7      /* and how long it may take before it is overdue */
#define GY_METER_TRUSTED_NS 200000.0 /* the longest piece that is charged by its cost alone */

struct gy_meter_context {
    struct gy_meter_context *next;
    CUcontext handle;
    CUdevice ordinal;
    int device;         /* its place in the region; -1: it is not limited */
    int common;         /* its place in what all jobs share; -1: none */
    bool has_blocking;  /* work was launched on a stream that the legacy stream waits for */
    bool is_dead;       /* forgotten, and freed when `groups` is 0 */
    uint32_t groups;    /* that refer to it */
    uint32_t recording; /* of them, whose end is being recorded: it is not destroyed meanwhile */
    CUevent reference;  /* times are read from here; NULL: no group has ended */
    double reference_ns;
    uint32_t spare_count, spare_room;
    CUevent *spare; /* events that are not in use */
};

/* A stream: its handle, with the context and the thread where the handle alone does not say which it is. */
struct gy_meter_stream_key {
    CUstream handle;
    CUcontext context;
    pthread_t thread;
};

struct gy_meter_stream {
    struct gy_meter_stream *next; /* of the same hash */
    struct gy_meter_stream_key key;
    struct gy_meter_context *context;
    struct gy_meter_group *open;
    double free_at;   /* when everything on it should have ended */
    uint64_t number;  /* of all streams of the process, from 1: a handle may come again */
    bool is_empty;    /* a wait has shown that nothing is on it */
    uint64_t touched; /* how often something was put on it, or may have been */
    bool is_blocking;
    uint32_t recording; /* threads that record the end of a group: it is not forgotten meanwhile */
};

/* OPEN on a stream, then CLOSED while its end is recorded, then FLYING until its end has passed, then freed.
 */
enum gy_meter_state { GY_METER_OPEN, GY_METER_CLOSED, GY_METER_FLYING };

struct gy_meter_group {
    struct gy_meter_group *next;  /* among those that are open, or that fly */
    struct gy_meter_stream *home; /* whose open group it is; NULL: the stream has gone */
    struct gy_meter_context *context;
    struct gy_meter_stream_key stream;
    uint64_t stream_number;
    enum gy_meter_state state;
    CUevent begin, end; /* NULL: not recorded */
    uint64_t opened_ns; /* host time, as the four below */
    uint64_t asked_ns;  /* its begin was recorded then, or later */
    uint64_t latest_ns; /* of the latest launch */
    uint64_t closed_ns;
    uint64_t began_ns; /* when it was seen running first; 0: not yet */
    uint32_t launches, launching;
    bool wants_close, is_single, is_failed, is_overrun;
    bool is_trusted;   /* one launch of known cost on an empty stream: there is no event yet */
    double trusted_ns; /* it was: that launch's cost, behind which the begin is recorded; 0: it was not */
    uint64_t sequence; /* launches of the process, this group's own included */
    bool lacks_begin;  /* it has no event at its begin: the host's clock says when it began */
    uint64_t key;      /* of a single one */
    double known_ns;   /* the sum of the costs */
    uint64_t begun;    /* groups that other processes had begun before */
    bool is_contended; /* others computed when it began */
    double gaps_ns;
    double reserved_ns;
};

uint64_t gy_meter_now(void);

/* Make `context` current for a call; undo gives the thread its own back. */
bool gy_meter_push(CUcontext context);
void gy_meter_pop(bool pushed);

/* Between these the thread may call what a capture does not allow, also one that another thread begins
 * meanwhile. */
CUstreamCaptureMode gy_meter_relax(void);
void gy_meter_restore(CUstreamCaptureMode mode);

/* Which stream is meant by the handle, for the calling thread.  No lock is needed. */
struct gy_meter_stream_key gy_meter_key_of(CUstream handle);
struct gy_meter_stream *gy_meter_find_stream(const struct gy_meter_stream_key *key);
/* Find out about a new stream, without the lock, and add it.  NULL: it cannot be measured. */
struct gy_meter_stream *gy_meter_add_stream(const struct gy_meter_stream_key *key, struct gy_region *region);
void gy_meter_remove_stream(struct gy_meter_stream *stream);
struct gy_meter_context *gy_meter_contexts(void);
/* Forget the context: its streams go, its groups are settled by `settle`, its events are its own affair. */
void gy_meter_bury(struct gy_meter_context *context);
void gy_meter_unref(struct gy_meter_context *context);
void gy_meter_forget_everything(void);

/* An event for timing, without the lock; NULL: there is none. */
CUevent gy_meter_take_event(struct gy_meter_context *context);
void gy_meter_keep_event(struct gy_meter_context *context, CUevent event);

/* The open group is not its stream's any more.  The lock is held. */
void gy_meter_detach(struct gy_meter_group *group);
/* The stream, when nobody records on it any more: that ends when a call of the driver returns.  NULL: it is
 * not known. The lock is held, and may be given up meanwhile. */
struct gy_meter_stream *gy_meter_find_unused(const struct gy_meter_stream_key *key);

/* Reserve so much for the group in all.  The lock is held, as for the next two. */
void gy_meter_reserve(struct gy_meter_group *group, double ns);
/* The group begins, among those of other processes. */
void gy_meter_note_others(struct gy_meter_group *group);
/* The group is over: it is charged, and is no more. */
void gy_meter_settle(struct gy_meter_group *group, double used);
/* Its events cannot tell: it is charged what is known of its costs, or the host's time. */
void gy_meter_settle_unmeasured(struct gy_meter_group *group);
/* A wait has shown that the trusted group is over, which still is its stream's. */
void gy_meter_settle_trusted(struct gy_meter_group *group);
/* The group flies from now on.  The lock is held. */
void gy_meter_fly(struct gy_meter_group *group);
/* Charge what has ended, without the lock.  One thread at a time does; others go on. */
void gy_meter_poll(void);
/* Record an event on the group's stream, without the lock; NULL where there can be none.  `*asked_ns` is when
 * the driver was asked to. */
CUevent gy_meter_record(struct gy_meter_group *group, uint64_t *asked_ns);
/* The process was forked: nothing was charged yet. */
void gy_meter_forget_busy(void);

/* What is charged of an interval of `length`, of which `fresh` was not charged before.  With `is_shared`
 * other processes have computed meanwhile: it is what its launches cost alone. */
double gy_meter_charge_of(const struct gy_meter_group *group, double length_ns, double fresh_ns,
                          bool is_shared);
/* A launch of this cost comes at `now` on a stream that is free at `*free_at`: the gap before it, 0 where it
 * is bridged. */
double gy_meter_gap(double *free_at, double now, double cost);

#endif
