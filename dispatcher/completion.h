/* Completions: tasks that start when the GPU has finished, and the thread (GDB) that waits for it.
 *
 * The dispatcher thread (GD) writes a slot per completion into a ring as launch callbacks ask for them, and
 * publishes what it has written at a flush, after recording one event per stream concerned.  GDB keeps what
 * is published in a list per stream, in which events pass in order, looks at the first event of each list,
 * and removes the references of the tasks whose events have passed, whatever else takes longer.  When all
 * slots are in use GD waits for GDB: completions are never dropped.
 *
 *   ring of numbers of slots:   head ≤ taken ≤ published ≤ written ≤ head + SIZE     (only grow; index %
 * SIZE) [head, taken)        in lists; not needed here, GDB puts those that are done back from the left
 *      [taken, published)   to be taken into lists, by GDB
 *      [published, written) being written by GD
 *      [written, head + SIZE)   free, for GD
 *
 * GDB sleeps while nothing is published.  Else it looks again and again, without a break or with naps, as the
 * wait mode says; it never waits for one event, since what is published next may pass earlier.
 *
 * No lock on this way: GDB is there at once when it polls, and would find GD still inside; who then falls
 * asleep on the lock wakes up tens of microseconds later.  The lock is for sleeping alone: who sleeps says so
 * first and looks once more, who has news tells them first and then looks for sleepers; all four sequentially
 * consistent. */
#ifndef DISPATCHER_COMPLETION_H
#define DISPATCHER_COMPLETION_H

#include "dispatcher/gates/admission.h"
#include "dispatcher/gates/shares.h"
#include "dispatcher/order/deferred.h"

#define GY_COMPLETION_SLOTS 1024
#define GY_COMPLETION_NONE UINT16_MAX

/* Where a slot is on its way; slot_enter() in completion.c is the only writer.
 *
 *         GD: add             GD: flush               GDB: takes it in           GDB: its event has passed
 *   FREE ---------> WRITTEN -----------> PUBLISHED ------------------> LISTED -------------------------->
 * FREE
 *
 * A slot has an event from the flush on, unless another one's covers it or the flush has failed. */
enum gy_slot_state { GY_SLOT_FREE, GY_SLOT_WRITTEN, GY_SLOT_PUBLISHED, GY_SLOT_LISTED };

/* What a slot is for: a position of its stream; whatever is on the stream at the flush, or on the stream that
 * graphs are launched on, see gy_completion_watch(). */
enum gy_slot_kind { GY_SLOT_POSITION, GY_SLOT_WATCH, GY_SLOT_WATCH_ORIGIN };

struct gy_completion_slot {
    enum gy_slot_state state;
    enum gy_slot_kind kind;
    gantry_task *task;    /* NULL: only the event matters (GPU times to collect, blocks to free) */
    uint64_t flow;        /* of the GPU task, in a recording; 0: none */
    uint64_t recorded_ns; /* in a recording: when the event was about to be recorded; else 0 */
    uint32_t stream;
    uint16_t next; /* GDB only; in its list; GY_COMPLETION_NONE: the last */
    uint64_t seq;  /* position of the stream the event covers */
    CUevent event; /* the first slot of a stream in a flush has it, the others NULL */
};

struct gy_completion_list {
    uint16_t first, last; /* GY_COMPLETION_NONE: it is empty */
};

struct gy_completion_config {
    struct gy_context *context;
    struct gy_streams *streams;
    struct gy_deferred *deferred;
    struct gy_admission *admission;
    struct gy_shares *shares;
    struct gy_gpu_time *time;
    gy_mutex *collecting;  /* held while shares and GPU times are collected: by one GDB at a time */
    const char *partition; /* whose streams they are; NULL: all */
    gantry_wait_mode wait;
};

struct gy_completion {
    char name[GANTRY_PARTITION_NAME_BYTES + 4]; /* immutable: of the thread */
    gy_mutex *collecting;                       /* immutable */
    struct gy_context *context;                 /* immutable */
    struct gy_streams *streams;                 /* immutable */
    struct gy_deferred *deferred;               /* immutable */
    struct gy_admission *admission;             /* immutable */
    struct gy_shares *shares;                   /* immutable */
    struct gy_gpu_time *time;                   /* immutable */
    gantry_wait_mode wait;                      /* immutable */
    gy_thread thread;                           /* immutable: GDB */
    gy_mutex lock;                              /* rank COMPLETION */
    gy_cond news_changed;                       /* GDB sleeps */
    gy_cond head_changed;                       /* GD sleeps until there is room */
    _Atomic(bool) gdb_sleeps, gd_sleeps;        /* atomic; written under lock */
    uint64_t patience_ns;                       /* GDB only: how long it polls the GPU before it blocks */
    uint64_t near_ns;          /* GDB only: how soon completions came lately; 0: later than it polls */
    _Atomic(uint64_t) soon_ns; /* atomic: the same for whom it tells at the begin of a step, once */
    _Atomic(bool) closing;     /* atomic; never goes back */
    /* Events that nobody needs now, in order: GDB puts them back, GD takes them. */
    struct gy_idle_events {
        _Atomic(uint64_t) put;               /* atomic; written by GDB; a position that only grows */
        uint64_t taken;                      /* GD only; likewise */
        CUevent events[GY_COMPLETION_SLOTS]; /* guarded by the positions: [taken, put) is GD's */
    } idle;                                  /* see there */
    uint64_t listed;                         /* GDB only; bit i: list i is not empty */
    uint64_t taken;                          /* GDB only */
    struct gy_completion_list lists[GY_SHARE_STREAMS];    /* GDB only; by stream, the last for the origin */
    _Atomic(uint64_t) news;                               /* atomic: how often GDB was told to look */
    _Atomic(uint64_t) head;                               /* atomic; written by GDB */
    _Atomic(uint64_t) published;                          /* atomic; written by GD */
    uint64_t written;                                     /* GD only */
    uint64_t flushes;                                     /* GD only, read relaxed through the statistics */
    uint16_t ring[GY_COMPLETION_SLOTS];                   /* owner: see above */
    struct gy_completion_slot slots[GY_COMPLETION_SLOTS]; /* owner: whose number it is, see above */
};

GANTRY_MUST_CHECK gantry_status gy_completion_init(struct gy_completion *completion,
                                                   const struct gy_completion_config *config);

/* True on the thread of any GDB. */
extern _Thread_local bool gy_gdb_is_current;

/* Wait until GDB has done everything published, stop it, free. */
void gy_completion_fini(struct gy_completion *completion);

/* GD: complete `task` (whose reference is held for us) when the GPU has passed what is on `stream` at the
 * next flush.  Flushes by itself when the ring is full.  `flow` joins it with the GPU task in a recording.
 * @retval GANTRY_ERR_DEVICE_LOST  the flush failed; the slot was not written */
GANTRY_MUST_CHECK gantry_status gy_completion_add(struct gy_completion *completion, uint32_t stream,
                                                  gantry_task *task, uint64_t flow);

/* A step begins: if completions came soon after their publication lately, GDB wakes up and looks out for
 * them. In so many ns they are likely to come; 0: not known.  Any thread. */
uint64_t gy_completion_expect(struct gy_completion *completion);

/* GD: have GDB look around when the GPU has passed what is on the stream (of the pool, or GY_SHARE_ORIGIN) at
 * the next flush, be it of a task that has not ended. */
GANTRY_MUST_CHECK gantry_status gy_completion_watch(struct gy_completion *completion, uint32_t stream);

/* A slot fits its state and kind.  GD: the positions of the ring are in order, and what it has written and
 * not published yet is WRITTEN. */
bool gy_completion_slot_is_valid(const struct gy_completion_slot *slot, enum gy_slot_state state);
bool gy_completion_is_valid(struct gy_completion *completion);

/* GD: the next add will flush. */
bool gy_completion_is_full(struct gy_completion *completion);

static inline bool gy_completion_is_pending(const struct gy_completion *completion)
{
    return completion->written != atomic_load_explicit(&completion->published, memory_order_relaxed);
}

/* GD: record the events and hand everything written to GDB.  On failure the context is lost and the slots
 * are handed over all the same: GDB then fails their tasks. */
gantry_status gy_completion_flush(struct gy_completion *completion);

#endif
