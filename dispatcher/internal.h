/* SPDX-License-Identifier: MIT */
/* The dispatcher's own struct, shared by the files of this room.  GD is the dispatcher's thread. */
#ifndef DISPATCHER_INTERNAL_H
#define DISPATCHER_INTERNAL_H

#include "base/wake_hint.h"
#include "dispatcher/call/stand_in.h"
#include "dispatcher/dispatcher.h"
#include "dispatcher/done/completion_rings.h"
#include "dispatcher/done/deferred.h"
#include "dispatcher/gates/admission.h"
#include "dispatcher/gates/shares.h"
#include "dispatcher/loop/bins.h"
#include "dispatcher/loop/inbox.h"
#include "dispatcher/loop/replan.h"
#include "dispatcher/loop/stats.h"
#include "dispatcher/order/export.h"
#include "dispatcher/order/placed.h"
#include "dispatcher/submit/device_loop.h"
#include "dispatcher/submit/graphs.h"
#include "dispatcher/submit/replay_units.h"

/* States of the dispatcher thread; gd_enter() in loop.c is the only writer.
 *
 *            tasks, no open group
 *         -------------------------->
 *    IDLE                             BATCH
 *     | | <--------------------------
 *     | |        bins empty
 *     | |
 *     | +-- context lost --> FAILED -- closing --> CLOSED
 *     +---- closing ----------------------------->
 *
 * IDLE: bins empty, all completions published.  BATCH: walking the phases, or a guest has left in the middle
 * and the next holder of the loop goes on; when the context is lost on the way, the bins empty by releasing
 * their tasks as FAILED.  FAILED: whatever arrives is released as FAILED, the bins stay empty.  CLOSED: the
 * thread has left. */
enum gd_state { GD_STATE_IDLE, GD_STATE_BATCH, GD_STATE_FAILED, GD_STATE_CLOSED };

/* Counters for the statistics: GD alone writes them (relaxed), any thread reads them. */
struct gd_counters {
    _Atomic(uint64_t) tasks, tasks_failed, batches, launch_calls, staged_copies;
    _Atomic(uint64_t) works[GD_WORKS];
    _Atomic(uint64_t) completions, flushes, replays;
    _Atomic(uint64_t) phase_ns[GD_PHASES], phase_tasks[GD_PHASES];
};

/* What the noted call under way had before it, should it have to be made again: see call/again.h. */
struct gd_first_time {
    uint64_t call; /* these counters are of the call with this number; 0: of none */
    uint64_t completions, works[GD_WORKS];
    uint64_t completions_left; /* a call is made again, and has not asked again for so many completions */
};

/* How far the completion thread was told to look at streams, for reasons of the dispatcher's own. */
struct gd_watch {
    uint64_t deferred;                 /* of deferred.deferred, at the last flush */
    uint64_t recorded[GY_STREAMS_MAX]; /* in recordings: the completion thread looks up to there */
};

/* The statistics of the latest batch. */
struct gd_batch {
    gy_mutex lock;                    /* rank LEAF */
    struct gantry_batch_stats latest; /* guarded by lock: of the latest batch that ended */
};

/* The task managers that use the dispatcher, and its end. */
struct gd_users {
    gy_mutex lock;                /* rank LEAF */
    gy_cond quiet;                /* `has_failed` has changed */
    bool has_failed;              /* guarded by lock: GD launches nothing any more */
    uint32_t count;               /* guarded by lock: task managers */
    struct gy_gpu_user *managers; /* see gy_users_add(): those that use no fleet */
    void (*last)(void *user);     /* guarded by lock: see gy_dispatcher_abandon(); NULL: not yet */
    void *last_user;              /* guarded by lock */
};

struct gy_fleet;

/* What a member asks of its fleet, which is a room above: fleet/route.h. */
struct gy_fleet_calls {
    void (*visit)(struct gantry_dispatcher *d, gantry_task *task);
    void (*let_go)(struct gantry_dispatcher *d);
    gantry_status (*settle)(struct gantry_dispatcher *d, gantry_task *task);
    void (*signal)(struct gy_fleet *fleet);
};

/* What makes the dispatcher a member of a fleet. */
struct gd_member {
    struct gy_fleet *fleet;             /* immutable once there are tasks; NULL: it is in no fleet */
    const struct gy_fleet_calls *calls; /* likewise */
    struct gy_gpu_user **managers;      /* likewise: the fleet's, see gy_users_add() */
    _Atomic(uint32_t) sends; /* atomic; odd while GD hands a visitor to another dispatcher of the fleet */
    struct gy_export_pool exports; /* see export.h */
    struct gy_gpu_list visitors;   /* GD only: kept until no graph is being built, see fleet/route.h */
};

/* Why callbacks are watched. */
struct gd_watching {
    unsigned checks;       /* immutable: parts of base/checking.h */
    _Atomic(unsigned) why; /* atomic; written by GD: `checks`, and GY_WATCHED_STALE of stand_in.h */
};

/* What other threads tell the loop.  Each field is atomic. */
struct gd_told {
    _Atomic(gantry_submission) submission;
    struct gy_wake_hint announced; /* a step's first GPU task was submitted: GD stays awake */
    _Atomic(bool) closing;         /* never goes back */
    _Atomic(bool) streams_due;     /* the last step has ended: return the streams */
    _Atomic(uint32_t) open_steps;  /* steps begun and not ended */
    _Atomic(uint32_t) open_groups; /* nesting of start_group */
    _Atomic(uint32_t) cancels;     /* how often a run was cancelled */
};

struct gy_round;

/* What the thread that has the loop has at hand.  It alone looks at it. */
struct gd_loop {
    enum gd_state state;
    uint32_t cancels_seen;    /* of gd_told.cancels */
    struct gy_gpu_list local; /* submitted on GD itself, not binned yet */
    struct gy_round *round;
    struct gy_gpu_guest *guest;        /* that has the loop in GD's place; NULL: GD itself has it */
    uint64_t spin_budget_ns;           /* how long an adaptive wait spins before it sleeps */
    struct gy_gpu_debt debt;           /* settled before it waits */
    const struct gy_error *last_error; /* the thread's own */
    const uint32_t *refusals;          /* the thread's own: see gy_told_refusals() */
};

/* "GD only" below means: of the thread that has the loop, which is GD, or a guest while GD sleeps, see
 * guest.h.  It is handed on under the inbox's lock. */
struct gantry_dispatcher {
    struct gy_gpu_dispatcher base;         /* immutable; first: how taskman/ sees us */
    struct gy_dispatcher_config config;    /* immutable, but for the partitions: see replan.h */
    struct gd_watching watching;           /* see there */
    struct gy_inbox inbox;                 /* its own guards */
    struct gy_wait_set_pool wait_sets;     /* its own guards */
    struct gy_streams streams;             /* GD only, atomics apart */
    struct gy_deferred deferred;           /* its own guards */
    struct gd_watch watch;                 /* GD only */
    struct gy_shares shares;               /* see shares.h */
    struct gy_admission admission;         /* see admission.h */
    struct gy_completion_rings completion; /* see completion_rings.h */
    struct gy_graphs graphs;               /* GD only, except for fields that say otherwise */
    struct gy_plan_list plans;             /* its own guards */
    struct gy_device_loops loops;          /* its own guards */
    struct gy_units units;                 /* GD only */
    struct gd_counters counters;           /* atomic */
    struct gd_first_time first_time;       /* GD only */
    struct gd_member member;               /* see there */
    struct gy_stand_in stand_in;           /* see there */
    struct gd_batch batch;                 /* its own guards */
    struct gd_users users;                 /* its own guards */
    struct gd_replan replan;               /* its own guards */
    struct gd_told told;                   /* atomic */
    struct gd_loop loop;                   /* GD only */
    gy_thread thread;                      /* immutable: GD */
};

/* One call of a launch callback; on GD's stack. */
struct gantry_launch {
    struct gantry_dispatcher *dispatcher;
    gantry_task *task;
    struct gy_round *round; /* that it is part of */
    struct gy_meter *meter; /* it measures the call; NULL: nothing does */
    CUstream stream;        /* the task's */
    struct gy_lane *lane; /* where its launch functions note their work; NULL: they enqueue it on `stream` */
    struct gy_lane *home; /* the same, also while it is captured aside; noted calls only */
    uint32_t stream_index;
    uint64_t index;           /* calls of the callback before this one */
    uint64_t flow;            /* joins the task's work in a recording; 0: there is none */
    uint32_t nodes;           /* of the batch when its call began, and */
    struct gy_node_set last;  /* of the lane: what to go back to */
    uint32_t refusals;        /* *dispatcher->loop.refusals when a noted call began */
    uint64_t flushed;         /* graphs.flushed then */
    uint64_t kernels, copies; /* the counters then */
    struct gy_deferred_span
        frees; /* for a call that is made once more: the blocks that it gave back before; else empty */
    enum gy_call_mode mode; /* gy_mode_set() is the only writer */
    enum gy_trust trust;    /* of its function, and more when it asks for its stream; FIRST and noted calls */
    struct gy_calls *calls; /* the call's actions are noted there; NULL: they are not */
    const char *spoilt; /* why its work cannot be captured, or of a FIRST call leaves graphs; NULL: it can */
};

/* A call on its way: of a task that has this stream. */
static inline bool gy_launch_is_valid(const struct gantry_launch *launch)
{
    return launch->task != NULL && launch->round != NULL &&
           launch->stream_index < launch->dispatcher->streams.count &&
           launch->task->stream == launch->stream_index + 1u;
}

/* Its callback is just asked what a task accesses that will be made: see asked.h. */
static inline bool gy_launch_is_asked(const struct gantry_launch *launch)
{
    return __builtin_expect(launch != NULL && launch->task == NULL, 0);
}

/* Its work is noted for a graph, and not on the task's stream yet. */
static inline bool gy_mode_is_noted(const struct gantry_launch *launch)
{
    return launch->mode >= GY_MODE_AHEAD;
}
/* For that of the batch, or of a unit. */
static inline bool gy_mode_is_of_graph(const struct gantry_launch *launch)
{
    return launch->mode >= GY_MODE_TRIAL;
}
/* What it enqueues is captured apart from its batch: see aside.h. */
static inline bool gy_launch_is_aside(const struct gantry_launch *launch)
{
    return launch->lane == NULL && gy_mode_is_noted(launch);
}

static inline void gy_mode_set(struct gantry_launch *launch, enum gy_call_mode mode)
{
    launch->mode = mode;
}

/* What the call has shown of its function, by asking for its stream: plainly, or to have it captured. */
static inline enum gy_trust gy_launch_shows(bool plainly)
{
    return plainly ? GY_TRUST_RAW : GY_TRUST_BEARS;
}
/* The callback asks for its stream: by gantry_launch_stream(), or by gantry_launch_capture_stream(). */
static inline void gy_launch_note_ask(struct gantry_launch *launch, bool plainly)
{
    const enum gy_trust shown = gy_launch_shows(plainly);
    launch->trust = launch->trust < shown ? shown : launch->trust;
    gy_mode_set(launch, launch->mode == GY_MODE_BATCH ? GY_MODE_TRIAL : launch->mode);
}

/* What its completion rings have in common. */
static inline struct gy_completion_config gy_gd_rings_config(struct gantry_dispatcher *d)
{
    return (struct gy_completion_config){.context = d->config.context,
                                         .streams = &d->streams,
                                         .deferred = &d->deferred,
                                         .admission = &d->admission,
                                         .shares = &d->shares,
                                         .time = d->config.time,
                                         .wait = d->config.wait};
}

/* The partition where the work of `task` goes: its index, and the partition. */
static inline uint32_t gy_gd_partition_index(const struct gantry_dispatcher *d, const gantry_task *task)
{
    uint32_t number = gy_task_partition(task);
    return number != 0 ? number - 1 : d->config.partitions->default_index;
}
static inline struct gantry_partition *gy_gd_partition(const struct gantry_dispatcher *d,
                                                       const gantry_task *task)
{
    return &d->config.partitions->partitions[gy_gd_partition_index(d, task)];
}

/* The task as it is put on its stream. */
static inline struct gy_placed gy_gd_placed(const struct gantry_dispatcher *d, const gantry_task *task)
{
    return (struct gy_placed){.task = task, .tasks = 1, .partition = gy_gd_partition_index(d, task)};
}

static inline void gy_gd_count(_Atomic(uint64_t) *counter, uint64_t n)
{
    /* One writer, so no read-modify-write. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
